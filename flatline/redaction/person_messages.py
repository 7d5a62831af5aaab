"""Users and hosts in what tools say: ssh, Slurm, the kernel, resolvers, sudo, trackers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .lazy import LazyPattern
from .person_names import HOST, USER, Named
from .person_places import host_spans, user_span
from .person_words import FILE_ENDINGS, words_of
from .presence import Has

_H = rf"(?P<host>{HOST})"
_U = rf"(?P<user>{USER})"
_MESSAGES: tuple[tuple[str, LazyPattern, bool], ...] = (
    ("Linux ", LazyPattern(rf"Linux {_H}(?= [0-9]+\.[0-9]+\.[0-9]+\S* )"), True),
    ("connect to (", LazyPattern(rf"connect to \(['\"]?{_H}(?=['\"]?, ?[0-9])"), True),
    (") CMD", LazyPattern(rf"\({_U}\) CMD(?: |END)"), True),
    ("$ hostname", LazyPattern(rf"[$#%>] hostname(?: -[a-zA-Z])?\r?\n{_H}(?=\s|$)"), True),
    ("$ whoami", LazyPattern(rf"[$#%>] whoami\r?\n{_U}(?=\s|$)"), True),
    ("Connection to ", LazyPattern(rf"Connection to {_H}(?= (?:closed|port|timed|[0-9]))"), True),
    (
        "Connection ",
        LazyPattern(rf"Connection (?:closed|reset|refused) by (?:remote host |authenticating user \S+ )?{_H}(?= port)"),
        True,
    ),
    ("connect to host ", LazyPattern(rf"connect to host {_H}(?= port)"), True),
    ("verification failed", LazyPattern(rf"verification failed for {_H}"), True),
    ("srun ", LazyPattern(rf"srun (?:-\S+ ){{0,9}}-w ?{_H}(?=\s|$)"), False),
    ("esolve host", LazyPattern(rf"esolve host(?:name)?:? ['\"]?{_H}"), True),
    ("esolve ", LazyPattern(rf"esolve (?:address |name |hostname )?['\"]?{_H}(?=['\":]|$)", re.M), False),
    ("lookup ", LazyPattern(rf"lookup {_H}(?=(?: on |:))"), False),
    ("host ", LazyPattern(rf"host (?:is |= ?|named )?['\"]?{_H}"), False),
    ("hostname ", LazyPattern(rf"hostname (?:is |of )?['\"]?{_H}"), False),
    ("node ", LazyPattern(rf"node ['\"]?{_H}"), False),
    ("Node ", LazyPattern(rf"Node ['\"]?{_H}"), False),
    ("machine ", LazyPattern(rf"machine ['\"]?{_H}"), False),
    ("unning on ", LazyPattern(rf"unning on (?:host |node )?['\"]?{_H}"), False),
    (" ON ", LazyPattern(rf"(?:JOB|STEP) \S+ ON {_H}"), True),
    ("srun: error: ", LazyPattern(rf"srun: error: {_H}(?=: )"), False),
    ("Warning: Permanently added ", LazyPattern(rf"Warning: Permanently added ['\"]{_H}"), True),
    ("aunched on ", LazyPattern(rf"aunched on {_H}"), False),
    ("tarting on ", LazyPattern(rf"tarting on {_H}"), False),
    ("ogged in as", LazyPattern(rf"ogged in as:? ['\"]?{_U}"), True),
    ("ogged in to ", LazyPattern(rf"ogged in to \S+ as {_U}"), True),
    ("for ", LazyPattern(rf"for (?:invalid user )?{_U}(?= from [0-9a-fA-F.:⟪]+\S* port )"), True),
    (
        " user ",
        LazyPattern(
            rf" user (?<=for user |.as user |.by user |.of user |ing user |lid user )['\"]?{_U}(?=$|[\s'\",.:(])"
        ),
        True,
    ),
    ("user '", LazyPattern(rf"user '{_U}(?=')"), True),
    ('user "', LazyPattern(rf'user \\?"{_U}(?=\\?")'), True),
    ("sudo:", LazyPattern(rf"sudo:\s+{_U}(?= : TTY=)"), True),
    ("id=", LazyPattern(rf"id=[0-9]+\({_U}(?=\))"), True),
    ("Id=", LazyPattern(rf"(?:User)Id=['\"]?{_U}(?=\([0-9]+\))"), True),
    (":x:", LazyPattern(rf"^{_U}:x:[0-9]+:[0-9]+:(?P<person>[^\W\d_][\w.'-]*(?: [^\W\d_][\w.'-]*)+)?", re.M), True),
    ("wandb.ai/", LazyPattern(rf"wandb\.ai/{_U}(?=/[\w.-]+(?:/|\s|$))"), True),
    ("su ", LazyPattern(rf"su (?:-l |--login |- ){_U}(?=\s|$)", re.M), True),
    ("ssh ", LazyPattern(rf"ssh (?:-\S+ (?:\S+ )?)*?-l ?{_U}(?=\s)"), True),
    ("HostName ", LazyPattern(rf"^\s*HostName {_H}$", re.M), True),
    ("User ", LazyPattern(rf"^\s+User {_U}$", re.M), True),
)
"""(literal, what stands there, whether the place alone is enough)."""
_USER_OPTION = LazyPattern(rf"(?<=[ \x00'\"])-[uU](?:[ =\x00]?['\"]?|['\"], ?['\"]){_U}(?=[:,%\s'\"\x00]|$)")
_TAKES_A_USER = re.compile(
    r"\b(?:curl|wget|https?(?=[ ])|mysql\w*|mariadb|psql|pg_dump|docker|podman|helm|nerdctl|sudo|lftp|smbclient"
    r"|twine|squeue|sacct|scancel|sinfo|sprio|ps|top|htop|pkill|pgrep|lsof|crontab|quota|qstat|bjobs|kinit|mongo\w*"
    r"|redis-cli|clickhouse\S*)\b[^\n;|&]{0,200}$"
)


def find_user_options(text: str, has: Has) -> Iterator[Named]:
    """``curl -u bob:``, ``mysql -ubob``, ``squeue -u bob``; not ``python -u train.py``."""
    for found in _USER_OPTION.finditer(text) if has("-u") or has("-U") else ():
        at = found.start()
        line = text[max(0, at - 220, text.rfind("\n", max(0, at - 220), at) + 1) : at]
        tool = _TAKES_A_USER.search(line)
        if tool and "python" not in line[tool.start() :] and found["user"].rpartition(".")[2] not in FILE_ENDINGS:
            yield from user_span(text, *found.span("user"))


_WORD_STARTS = frozenset("hnNmfsuCLH")
_ENTITIES = words_of("authorize site settings quickstart docs home login signup api teams account wandb")


def find_messages(text: str, has: Has) -> Iterator[Named]:
    """What ssh, Slurm, the kernel, resolvers, sudo and trackers say of users and hosts."""
    for literal, pattern, certain in _MESSAGES:
        if not has(literal):
            continue
        for found in pattern.finditer(text):
            if literal[0] in _WORD_STARTS and text[found.start() - 1 : found.start()].isalnum():
                continue
            groups = found.groupdict()
            if groups.get("host"):
                yield from host_spans(text, *found.span("host"), certain=certain)
            if groups.get("user") and not (literal == "wandb.ai/" and groups["user"] in _ENTITIES):
                yield from user_span(text, *found.span("user"))
            if groups.get("person"):
                yield Named(*found.span("person"), "person", found["person"])
