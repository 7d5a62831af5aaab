"""Users and hosts given away by the name before them, ``HOSTNAME=…``, ``"user": "…"``, or by a table's column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from .endpoints import node_list
from .marks import OPEN
from .person_names import HOST, USER, Named, is_common
from .person_places import host_spans, places, user_span
from .person_words import words_of
from .presence import Has

_LITERALS = tuple(
    sorted(
        words_of("""
    user User USER ogname OGNAME ogin LOGIN wner OWNER host Host HOST node Node NODE addr Addr ADDR ndpoint NDPOINT
    erver SERVER HNAME OMPUTER AUTHOR_NAME COMMITTER_NAME DISPLAY nsname entity ENTITY
""")
    )
)
"""Beginnings and middles of such names."""
_KEY_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_REST = re.compile(
    r"""(?P<rest>[A-Za-z0-9_.-]{0,24})(?P<close>\\{0,3}["'`])?\]?(?:
        [ \t]{0,24}(?P<op>=>|=(?!=)|:(?![:/=])|\|(?=[ ]))[ \t]{0,8}
      | (?P<nul>\x00|\\u0000|\\x00|[ ](?=[^\s=:-])))
    (?:[bBrRuUfF]{1,2}(?=["'`]))?(?P<open>\\{0,3}["'`])?""",
    re.X,
)
_NUMBER = re.compile("[-_]?[0-9]")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_USER_KEYS = words_of("user username logname login owner uname submitter")
_HOST_KEYS = words_of("host hostname hosts nodename nodelist computername fqdn hostnames nsname")
_LIKE_HOSTS = words_of("node nodes addr address endpoint server servers nodeaddr")
"""Words of doubt: the value must look like a machine's name."""
_COUNTING = words_of("n num max is per multi current")
_CERTAIN = words_of("""
    HOSTNAME HOST COMPUTERNAME SLURMD_NODENAME SLURM_NODELIST SLURM_JOB_NODELIST SLURM_STEP_NODELIST SLURM_SUBMIT_HOST
    SLURM_TOPOLOGY_ADDR SLURM_LAUNCH_NODE_IPADDR NODE_NAME NODENAME K8S_NODE_NAME MY_NODE_NAME POD_NAME MASTER_ADDR
    MASTER_HOST LSB_HOSTS LSB_MCPU_HOSTS PBS_O_HOST SGE_O_HOST SLURM_STEP_NODELIST SLURMD_NODENAME MY_POD_NAME
    HOROVOD_HOSTNAME OMPI_MCA_orte_node_name PMIX_HOSTNAME BATCHHOST NODELIST PET_MASTER_ADDR EXEC_HOST HOSTNAME_FQDN
    SLURM_SRUN_COMM_HOST PBS_O_SERVER NODE_IP master_addr rdzv_endpoint PET_RDZV_ENDPOINT hostname nodename nodelist
    fqdn nodeName node_name BatchHost NodeList Hostname HostName hostName SLURM_JOB_HOSTNAME host
""")
_USERS = words_of("""
    USER LOGNAME USERNAME SUDO_USER SLURM_JOB_USER JUPYTERHUB_USER NB_USER PBS_O_LOGNAME LSFUSER SGE_O_LOGNAME
    WANDB_USERNAME GITHUB_ACTOR GITLAB_USER_LOGIN USERID_NAME WANDB_ENTITY SINGULARITY_USER HADOOP_USER_NAME
    CONDA_USER user username logname user_name login owner run_user ssh_user remote_user UserId User
""")
_NOT_USERS = re.compile(
    r"(?:args|self|cls|cfg|config|os|settings|opts|options|env|request|ctx|params|kwargs|data)\.|[A-Z][a-z]+(?:[A-Z][a-z]+)+$"
)
_USER_VALUE = re.compile(rf"{USER}")
_HOST_VALUE = re.compile(r"[A-Za-z0-9][\w.:,\[\]-]{0,4000}")
READ_ONCE = 200
"""A longer value is not searched for the names of other fields."""
_OF_A_BUNDLE = re.compile(r"h[0-9]{1,3}")
"""How a bundle's own facts number hosts."""


def find_keyed_names(text: str, has: Has) -> Iterator[Named]:
    """What follows ``USER=``, ``"hostname":``, ``--master_addr`` …"""
    seen = -1
    found_at = {at: at + len(literal) for literal in _LITERALS if has(literal) for at in places(text, literal)}
    for at in sorted(found_at):
        if at <= seen or _NUMBER.match(text, found_at[at]):  # node-12 is no name of a field
            continue
        start = at - len(_name_before(text, at))
        if start > 0 and text[start - 1] == "\\" and text[start] in "nrt":
            start += 1
        found = _REST.match(text, at)
        if not found:
            continue
        key = text[start : found.end("rest")]
        seen = found.end("rest") - 1
        value = _HOST_VALUE.match(text, found.end())
        if value and len(value[0]) > READ_ONCE:
            seen = value.end() - 1
        yield from _value(text, start, key, found)


def _name_before(text: str, at: int) -> str:
    before = text[max(0, at - 40) : at]
    return before[len(before.rstrip(_KEY_CHARS)) :]


@lru_cache(maxsize=4096)
def kind_of_key(key: str) -> tuple[str, bool] | None:
    """(user or host, whether the key alone is enough) of the name of a variable, an option or a field."""
    name = key.lstrip("-").replace("-", "_")
    last = name.rpartition(".")[2]
    if last in _CERTAIN:
        return "host", True
    if last in _USERS:
        return "user", last not in ("owner", "login", "User", "WANDB_ENTITY")
    if re.fullmatch(r"GIT_(?:AUTHOR|COMMITTER)_NAME", last):
        return "person", True
    words = [word.lower() for word in _WORDS.findall(last)]
    if not words:
        return None
    end = words[-1]
    if end in ("name", "id", "login") and len(words) > 1 and words[-2] in ("user", "host", "node"):
        return ("user", False) if words[-2] == "user" else ("host", False)
    if end in _USER_KEYS and len(words) <= 3 and not _COUNTING & set(words[:-1]):
        return "user", False
    if end in _HOST_KEYS or last == "DISPLAY":
        return "host", end in ("hostname", "nodename", "nodelist", "computername")
    return ("host", False) if end in _LIKE_HOSTS else None


def _value(text: str, start: int, key: str, found: re.Match[str]) -> Iterator[Named]:
    is_option = key.startswith("-") and text[start - 1 : start] in ("", " ", "\0", "'", '"', "\n", "\t")
    if (found["op"] is None and not (is_option and not found["close"])) or text[start - 1 : start] in ("/", "$", "@"):
        return
    if found["close"] and not found["op"] and not found["nul"]:
        return
    what = kind_of_key(key)
    if what is None:
        return
    kind, certain = what
    at = found.end()
    if found["op"] == ":" and not found["open"] and key.islower() and not _stands_as_value(text, at, found):
        certain = False
        if kind == "user":
            return
    if kind == "host":
        yield from _hosts(text, at, certain=certain)
    elif kind == "person":
        name = re.compile(r"[^\W\d_][\w.'-]*(?:[ ][^\W\d_][\w.'-]*){0,4}").match(text, at)
        if name and len(name[0]) > 2:
            yield Named(at, name.end(), "person", name[0])
    else:
        yield from _user(text, at, found, certain=certain)


_VALUE_ENDS = re.compile(
    r"[^\s,;(){}\"'<>]{1,255}(?:[ \t]{0,80}(?:$|[,;(){}|\]]|\\[nrt]|#)|\s{2}|[ ][\w.-]{1,40}[=:])", re.M
)


def _stands_as_value(text: str, at: int, found: re.Match[str]) -> bool:
    """Whether ``host: gpubox`` is no part of a sentence: it ends the line, or a separator or another name follows."""
    return bool(_VALUE_ENDS.match(text, at)) or text[found.end("rest") : found.end("rest") + 2] == "  "


_NO_USER_BEFORE = frozenset("([=/@{$" + OPEN)


def _user(text: str, at: int, found: re.Match[str], *, certain: bool) -> Iterator[Named]:
    name = _USER_VALUE.match(text, at)
    if not name:
        return
    if text[name.end() : name.end() + 1] in _NO_USER_BEFORE and "Id" not in found["rest"] + text[at - 8 : at]:
        return
    value = name[0]
    if _NOT_USERS.match(value) or text[name.end() : name.end() + 2] in ("::", "->"):
        return
    if not found["open"] and not certain and (is_common(value) or text[name.end() : name.end() + 1] in (".", "\\")):
        return
    yield from user_span(text, at, name.end())


def _hosts(text: str, at: int, *, certain: bool) -> Iterator[Named]:
    """One host or a list: ``n1,n2``, ``n[01-04]``, ``tcp://n1:29500``, ``n1:8``, ``n1 slots=8``."""
    scheme = re.compile(r"[a-z]{2,10}://").match(text, at)
    at = scheme.end() if scheme else at
    found = _HOST_VALUE.match(text, at)
    if not found:
        return
    for piece in re.finditer(r"(?:[^,\[\]]|\[[^\[\]]*\])+", found[0]):
        yield from _host_piece(text, at + piece.start(), at + piece.end(), certain=certain)


_AFTER_HOST = re.compile(r":[0-9]{0,5}(?:\.[0-9])?|[.:]?$")
_NO_HOST_BEFORE = re.compile(r"[(=\[]|/(?![0-9]{1,3}\.)")


def _host_piece(text: str, start: int, end: int, *, certain: bool) -> Iterator[Named]:
    value = text[start:end]
    bracket = value.find("[")
    if bracket > 0:
        closed = value.rfind("]") + 1
        if closed and re.fullmatch(r"[A-Za-z][\w.-]*(?:\[[0-9,-]+\])+", value[:closed]):
            yield from node_list(text, start, start + closed)
        return
    name = re.match(HOST, value)
    if not name or (name.end() < len(value) and not _AFTER_HOST.match(value, name.end())):
        return
    if _NO_HOST_BEFORE.match(text, start + name.end()) or _OF_A_BUNDLE.fullmatch(name[0]):
        return
    if not certain and is_common(name[0]):
        return
    yield from host_spans(text, start, start + name.end(), certain=certain and not _is_code(name[0]))


_OBJECTS = ("args.", "self.", "cfg.", "config.", "os.", "socket.", "platform.", "opts.", "env.", "request.")


def _is_code(value: str) -> bool:
    return value.startswith(_OBJECTS) or (is_common(value) and value.islower() and len(value) <= 4)


# --- tables ---

_LONG_LISTING = re.compile(
    r"rw[x-][r-][w-][xsStT-][r-][w-][xtT-][.+@]? +[0-9]+ +(?P<user>[A-Za-z_][\w.-]*\+?) +(?P<group>\S+) +[0-9]"
)
_USER_HEADS = words_of("USER UID OWNER User LOGIN Username")
_HOST_HEADS = words_of("NODELIST NODELIST(REASON) NODE HOSTNAMES HOST HOSTNAME EXEC_HOST FROM_HOST NodeList FROM")
_HEADER = re.compile(r"[ \t|]*(?:(?:[A-Z%][\w%:()/+-]*)(?:[ \t|]+|$)){3}")
_HEADER_WORDS = ("USER", "UID ", "NODELIST", "NODE ", "HOST", "OWNER", "User ", "NodeList")
_LONGEST_TABLE = 3000


def find_columns(text: str, has: Has) -> Iterator[Named]:
    """Names in tables of ps, ls, squeue, sacct, top, w: by the words at their heads."""
    if has("-rw") or has("drw"):
        for found in _LONG_LISTING.finditer(text):
            if not found["user"].endswith("+"):
                yield from user_span(text, *found.span("user"))
    seen = -1
    for at in sorted({at for word in _HEADER_WORDS if has(word) for at in places(text, word)}):
        start = text.rfind("\n", max(0, at - 300), at) + 1
        if start > seen and _HEADER.match(text, start):
            seen = start
            yield from _table(text, start, text.find("\n", at))


def _table(text: str, start: int, end: int) -> Iterator[Named]:
    if end < 0:
        return
    line = text[start:end]
    heads = list(re.finditer(r"[^\s|]+", line))
    wanted = [
        (number, "user" if head[0] in _USER_HEADS else "host", head)
        for number, head in enumerate(heads)
        if head[0] in _USER_HEADS or head[0] in _HOST_HEADS
    ]
    if not wanted:
        return
    at, rows = end + 1, 0
    while at < len(text) and rows < _LONGEST_TABLE:
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        row = text[at:stop]
        if not row.strip() or len(row) > 5000:
            return
        if not re.fullmatch(r"[-\s=+|]+", row):
            cells = list(re.finditer(r"[^\s|]+", row))
            for number, kind, head in wanted:
                cell = _cell(cells, number, head, len(heads))
                if cell is not None:
                    yield from _of_cell(text, at + cell.start(), at + cell.end(), kind)
        at, rows = stop + 1, rows + 1


def _cell(cells: list[re.Match[str]], number: int, head: re.Match[str], columns: int) -> re.Match[str] | None:
    """The cell under a head: the one that meets its place, else the one with its number."""
    meets = [cell for cell in cells if cell.start() < head.end() and cell.end() > head.start()]
    if len(meets) == 1:
        return meets[0]
    return cells[number] if len(cells) == columns else None


def _of_cell(text: str, start: int, end: int, kind: str) -> Iterator[Named]:
    value = text[start:end]
    if kind == "user":
        if re.fullmatch(USER, value):
            yield from user_span(text, start, end)
        return
    if value.startswith("(") or value.lower() in ("<none>", "none", "n/a", "-", ":0"):
        return
    yield from _hosts_of_cell(text, start, end)


def _hosts_of_cell(text: str, start: int, end: int) -> Iterator[Named]:
    for piece in re.finditer(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text[start:end]):
        yield from _host_piece(
            text, start + piece.start(), start + piece.end(), certain=bool(re.search("[0-9-]", piece[0]))
        )


def spans_of_variable(name: str, value: str) -> list[Named]:
    """What the value of an environment variable gives away because of its name."""
    text = f"{name}={value}"
    shift = len(name) + 1
    return [
        Named(s.start - shift, s.end - shift, s.kind, s.value)
        for s in find_keyed_names(text, text.__contains__)
        if s.start >= shift
    ]


def personal_variables(env: Mapping[str, str]) -> Iterator[Named]:
    """Of a whole environment: whose it is and where it runs."""
    for name, value in env.items():
        if len(value) < 4096 and kind_of_key(name):
            yield from spans_of_variable(name, value)
