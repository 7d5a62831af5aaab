"""Users and hosts given away by their place: home folders, ``user@host``, prompts, prefixes of log lines, messages.

Each search begins at a literal, so ordinary text costs a few substring searches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .person_names import HOST, LABEL, USER, Named, is_host, is_personal_user
from .person_words import FILE_ENDINGS, SERVICE_USERS, TLDS, words_of
from .presence import Has

_HOST = re.compile(HOST)
_HOST_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_LONGEST = 130


def places(text: str, literal: str) -> Iterator[int]:
    """Where the literal stands."""
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + len(literal))


def host_ending(text: str, end: int) -> int:
    """Where the name begins that ends here; `end` when there is none."""
    before = text[max(0, end - _LONGEST) : end]
    run = before[len(before.rstrip(_HOST_CHARS)) :].lstrip("._-")
    if run[:1] == "m" and _COLOUR_END.search(text, max(0, end - len(run) - 12), end - len(run) + 1):
        run = run[1:]
    if text[end - len(run) - 1 : end - len(run)] == "\\" and run[:1] in ("n", "r", "t"):
        run = run[1:]
    return end - len(run) if is_name(run) else end


@lru_cache(maxsize=4096)
def is_name(run: str) -> bool:
    """Whether the whole of it may name a host."""
    return bool(_HOST.fullmatch(run))


_COLOUR_END = re.compile("\x1b\\[[0-9;]{0,9}m$")


def host_spans(text: str, start: int, end: int, *, certain: bool) -> Iterator[Named]:
    """The host in [start, end): its first label, and its domain apart, so that short and full name still agree."""
    name = text[start:end].rstrip(".")
    if not is_host(name, certain=certain):
        return
    yield Named(start, start + len(name), "host", name)


def user_span(text: str, start: int, end: int) -> Iterator[Named]:
    """The user in [start, end), unless it is nobody's name."""
    name = text[start:end]
    if is_personal_user(name):
        yield Named(start, end, "user", name)


# --- home folders ---

_STEP = r"(?:\\{0,3}/|\\{1,4}|%2[Ff])"
_FOLDER = re.compile(
    rf"(?P<step>{_STEP})(?:(?:users|home|people|staff|students){_STEP})?"
    r"(?P<user>[A-Za-z0-9_][\w.+-]*(?:@[\w.-]+)?)"
)
_TILDE = re.compile(r"(?<![\w./~^-])~(?P<user>[a-z_][a-z0-9_.-]{1,31})(?=/)")
_STRUCTURAL = frozenset(["linuxbrew", "shared", "public", "default", "lost+found", "all users"])


def find_homes(text: str, has: Has) -> Iterator[Named]:
    """The step after ``/home``, ``/Users``, ``/data/users`` …, also with escaped slashes."""
    for tilde in _TILDE.finditer(text) if has("~") else ():
        yield from user_span(text, *tilde.span("user"))
    for literal in ("home", "sers", "/user/", "/mail/"):
        for at in places(text, literal) if has(literal) else ():
            yield from _in_home(text, at, at + len(literal), literal)


_STEP_BEFORE = re.compile(rf"{_STEP}$")


def _in_home(text: str, at: int, end: int, literal: str) -> Iterator[Named]:
    if literal == "home" and text[end : end + 1] == "s":
        end += 1
    start = at - 1 if literal == "sers" and text[at - 1 : at] in ("u", "U") else at
    if literal.startswith("/"):
        end -= 1
    elif text[start - 1 : start] != "/" and not _STEP_BEFORE.search(text[max(0, start - 4) : start]):
        return
    if literal == "sers" and start == at:
        return
    folder = _FOLDER.match(text, end)
    if not folder:
        return
    name = folder["user"].rstrip(".")
    stop = folder.start("user") + len(name)
    if name.lower() in _STRUCTURAL or name.isdigit() or (literal == "/user/" and text[stop : stop + 1] != "/"):
        return
    if (
        literal == "/mail/"
        and text[stop : stop + 1] != "/"
        and not text[max(0, at - 10) : at].endswith(("/var", "/var/spool"))
    ):
        return
    if re.search(r"\.(?:py|sh|so|json|ya?ml|txt|log|html?)$", name) and text[stop : stop + 1] != "/":
        return
    yield from user_span(text, folder.start("user"), stop)


# --- at signs ---

_LOCAL = re.compile(r"[A-Za-z0-9_][\w.+%-]{0,63}$")
_REMOTE = re.compile(HOST)
_WHOLE_USER = re.compile(USER)
_METRIC = re.compile(
    r"(?:k|top|iou|step|v|py|rev|epoch|sha|r|p|n|sha256|md5|latest|main|master|stable|head|t|T)[-_]?[0-9.]*", re.I
)
_PROMPT_AFTER = re.compile(r":[~/][^\s]{0,200}|:\S{0,200}?[#$%>]|[ \t][^\]\n]{0,200}\]?[#$%>]|\][#$%>]?|:[~]?$")
_TOOLS = words_of("ssh scp sftp rsync mosh clone remote push pull fetch srun su")
"""What stands in a line that has one of these."""
_BY_SSH = re.compile(
    r"\b(?:ssh|scp|sftp|rsync|mosh|autossh|sshfs|ssh-copy-id|clone|remote|push|pull|fetch|srun|su)\b[^\n|;&]{0,120}$"
)
_DISPLAYED = re.compile(
    r"(?:^|[\s'\"])(?:Author|Commit|Committer|From|To|Cc|Bcc|Reply-To|Maintainer|Signed-off-by|Co-authored-by|Reviewed-by|Acked-by|Tested-by)"
    r"[:=][ \t]{0,4}['\"]?(?P<name>[^\W\d_][\w.'-]{0,30}(?:[ ][^\W\d_][\w.'-]{0,30}){0,4})[ ]<$"
)


def find_at_signs(text: str, has: Has) -> Iterator[Named]:
    """E-mail addresses, ``user@host`` of prompts, ssh and git, and the names of people before their addresses."""
    for at in places(text, "@") if has("@") else ():
        yield from _around(text, at)


def _around(text: str, at: int) -> Iterator[Named]:
    remote = _REMOTE.match(text, at + 1)
    local = _LOCAL.search(text, _beginning(text, at), at) if remote else None
    if not local or not remote:
        return
    start = local.start() + _escaped_letter(text, local.start())
    before = text[start - 1 : start]
    end = remote.end()
    user, host = text[start:at], text[at + 1 : end]
    if (
        (before == "/" and text[start - 3 : start] != "://")
        or before in ("@", "$", "}", "{")
        or text[end : end + 1] in ("(", "@")
    ):
        return
    is_remote = _is_remote(text, start, end)
    if _is_email(user, host) and not is_remote:
        yield Named(start, end, "email", text[start:end])
        person = _DISPLAYED.search(text[max(0, start - 200) : start]) if before == "<" else None
        if person:
            begin = max(0, start - 200) + person.start("name")
            yield Named(begin, begin + len(person["name"]), "person", person["name"])
        return
    if not _WHOLE_USER.fullmatch(user) or _METRIC.fullmatch(host):
        return
    if is_remote or (is_host(host, certain=False) and len(user) >= 2 and "." not in host):
        yield from user_span(text, start, at)
        yield from host_spans(text, at + 1, end, certain=True)


def _beginning(text: str, at: int) -> int:
    """Where to look from for the name before an at sign: behind what no name has in it."""
    begin = max(0, at - 64)
    begin = max(begin, text.rfind(" ", begin, at) + 1)
    begin = max(begin, text.rfind("@", begin, at) + 1)
    return max(begin, text.rfind("/", begin, at) + 1)


def _escaped_letter(text: str, start: int) -> int:
    """1 where the first letter belongs to the ``\\n`` of an escaped line before it; 2 after ``%3A``."""
    if text[start - 1 : start] == "\\" and text[start : start + 1] in "nrt":
        return 1
    return 0


_PATH_AFTER_HOST = re.compile(r":(?:[~/]|[\w.-]{1,218}/)")
_OPENED = re.compile(r"(?:^|[\s)\x1bm])\[$")


def _is_remote(text: str, start: int, end: int) -> bool:
    """A login, not an address for letters."""
    line = text[max(0, start - 160, text.rfind("\n", max(0, start - 160), start) + 1) : start]
    if line.endswith("://") or (any(map(line.__contains__, _TOOLS)) and _BY_SSH.search(line)):
        return True
    if text[end : end + 1] == ":" and _PATH_AFTER_HOST.match(text, end):
        return True
    shown = line.rstrip()
    if shown and not shown.endswith((")", "]", "m")) and not (shown[-1] == "[" and _OPENED.search(line)):
        return False
    return bool(_PROMPT_AFTER.match(text[end : end + 220].partition("\n")[0]))


def _is_email(user: str, host: str) -> bool:
    if user.lower() in SERVICE_USERS or "." not in host:
        return False
    last = host.rpartition(".")[2]
    return (
        last.lower() in TLDS
        and last == last.lower()
        and not last.isdigit()
        and (last not in FILE_ENDINGS or len(host) > 7)
    )


# --- prefixes of log lines ---

_COLON_PIDS = re.compile(r":[0-9]{1,8}:[0-9]{1,8} \[[^\]\n]{1,30}\] (?=[NRHM]CCL |[a-z]\S{1,80} [NRHM]CCL )")
_UCX = re.compile(r"\[[0-9]{9,11}\.[0-9]{3,9}\] \[(?P<host>[\w.-]{1,120}):[0-9]{1,8} *:[0-9]{1,8}\]")
_OPEN_MPI = re.compile(r"\[(?P<host>[A-Za-z][\w.-]{1,120}):[0-9]{3,8}\]")
_TFEVENTS = re.compile(
    r"tfevents\.[0-9]{10}\.(?P<host>[\w.-]{1,120}?)(?=\.[0-9]{1,8}(?:\.[0-9]{1,5})?(?:\.v2)?(?![\w.]))"
)
_TRACE = re.compile(r"\.pt\.trace\.json")
_SYSLOG = re.compile(
    r":(?<=[0-9][0-9]:)[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})? "
    r"(?P<host>[A-Za-z0-9][\w.-]{0,120}) (?P<tag>[\w./-]{1,60})(?P<pid>\[[0-9]{1,8}\])?: "
)
_MONTHS = words_of("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
_LEVELS = words_of("info warning warn error debug trace critical fatal notice rank")
_DAEMONS = words_of(
    "kernel systemd sshd slurmd slurmctld dockerd containerd kubelet sudo cron crond nvidia-persistenced"
)


def find_log_prefixes(text: str, has: Has) -> Iterator[Named]:
    """``host:pid:tid [0] NCCL``, UCX, Open MPI, syslog, names of TensorBoard's files and of profiles."""
    if has("CCL "):
        for found in _COLON_PIDS.finditer(text):
            yield from _host_before(text, found.start())
    if has("] ["):
        for found in _UCX.finditer(text):
            yield from host_spans(text, *found.span("host"), certain=True)
    for found in _OPEN_MPI.finditer(text) if has("[") and has(":") else ():
        if (
            text[found.start() - 1 : found.start()] in ("", "\n")
            and found["host"].rpartition(".")[2] not in FILE_ENDINGS
        ):
            yield from host_spans(text, *found.span("host"), certain=False)
    for found in _TFEVENTS.finditer(text) if has("tfevents.") else ():
        yield from host_spans(text, *found.span("host"), certain=True)
    for found in _TRACE.finditer(text) if has(".pt.trace.json") else ():
        host = re.search(
            rf"(?:^|[/\s'\"])(?P<host>{LABEL})_[0-9]{{1,8}}(?:\.[0-9]{{5,20}})?$",
            text[max(0, found.start() - 100) : found.start()],
        )
        if host:
            shift = max(0, found.start() - 100)
            yield from host_spans(text, shift + host.start("host"), shift + host.end("host"), certain=False)
    yield from _syslog(text)


def _host_before(text: str, end: int) -> Iterator[Named]:
    line = text.rfind("\n", max(0, end - _LONGEST), end) + 1
    start = line if line and is_name(text[line:end]) else host_ending(text, end)
    if start < end and not (text[start].isdigit() and _DATE.match(text, start)):
        yield from host_spans(text, start, end, certain=True)


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _syslog(text: str) -> Iterator[Named]:
    for found in _SYSLOG.finditer(text):
        at = found.start()
        if (
            not (text[at - 9 : at - 6] in _MONTHS or found["tag"].lower() in _DAEMONS)
            or found["host"].lower() in _LEVELS
        ):
            continue
        yield from host_spans(text, *found.span("host"), certain=True)
