"""Hosts of URLs, before ports, in brackets; ``host:/export``; Slurm's ``node[01-04]``; ``ip-10-0-3-71``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .person_names import HOST, Named, is_common, is_host, is_public
from .person_places import host_ending, host_spans, places, user_span
from .person_words import FILE_ENDINGS
from .presence import Has

_H = rf"(?P<host>{HOST})"
_SCHEME = re.compile(rf"://(?:[^\s/@'\"]{{1,80}}@)?{_H}(?P<port>:[0-9]{{2,5}})?")
_BUCKETS = (
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "abfs",
    "abfss",
    "wasb",
    "wasbs",
    "file",
    "oss",
    "obs",
    "hf",
    "docker",
    "package",
    "conda",
)
_INSIDE = re.compile(r"(?:^|\.)(?:corp|intra|intranet|internal|lan|local|hpc|cluster|priv|private|home)(?:\.|$)", re.I)
_BRACKETED = re.compile(rf"\[{_H}\](?=:[0-9]{{2,5}}\b)")
_PORT = re.compile(
    r":(?<![:0-9][0-9]{2}:)(?<=[A-Za-z0-9]:)[0-9]{2,5}(?![\w:]|\.[0-9])|:(?<=[A-Za-z-][0-9]{2}:)[0-9]{2,5}(?![\w:]|\.[0-9])"
)
_TO = re.compile(
    r"(?:\b(?:to|from|at|with|on|via|for|peer|server|endpoint|address|master|client|store|host|node|connect|listen|bind"
    r"|listening|connecting|connected)[ =:]\s?[\[('\"]?|[=@,]\s?['\"]?|[\[('\"])$",
    re.I,
)
_EXPORT = re.compile(r":(?=/[A-Za-z0-9_]|~)")
_NODE_LIST = re.compile(r"\[(?P<list>[0-9]{2,6}(?:[-,][0-9]{1,6}){1,200})\]")


_NODES = frozenset(["compute", "gpu", "host", "node", "nodes"])


def _is_family(name: str) -> bool:
    """Whether hosts may be called so, with numbers; arrays and types are not."""
    return not is_common(name.rstrip("-_")) and is_host(f"{name}10", certain=False)


def find_endpoints(text: str, has: Has) -> Iterator[Named]:
    """Hosts of URLs, before ports, in brackets; ``host:/export``; Slurm's ``node[01-04]``; ``ip-10-0-3-71``."""
    for found in _SCHEME.finditer(text) if has("://") else ():
        yield from _of_url(text, found)
    for found in _BRACKETED.finditer(text) if has("]:") else ():
        yield from host_spans(text, *found.span("host"), certain=True)
    yield from _before_ports(text)
    for found in _EXPORT.finditer(text) if has(":/") or has(":~") else ():
        yield from _exporting(text, found.start())
    for found in _NODE_LIST.finditer(text) if has("[") and has("]") else ():
        start = host_ending(text, found.start())
        name = text[start : found.start()]
        is_padded = re.search(r"(?<![0-9])0[0-9]", found["list"]) is not None
        if name[:1].isalpha() and (is_padded or name.lower() in _NODES or _is_family(name)):
            yield from node_list(text, start, found.end())
    for at in places(text, "ip-") if has("ip-") else ():
        amazon = _AMAZON.match(text, at)
        if amazon and not text[at - 1 : at].isalnum():
            yield from host_spans(text, at, amazon.end(), certain=True)


_AMAZON = re.compile(r"ip-[0-9]{1,3}(?:-[0-9]{1,3}){3}(?:\.[a-z0-9-]+){0,4}(?![\w-])")


_USER_OF_URL = re.compile(r"://(?P<user>[A-Za-z_][\w.-]{0,38}\w)(?P<rest>:[^\s/@'\"]{0,400})?@")
_HOST = re.compile(_H)
_FOR_TOKENS = re.compile(r"(?:[\w-]*(?:token|oauth)[\w-]*|git|pat|api|key|bearer)", re.I)
"""What stands for a user where a token is the password: ``oauth2``, ``x-access-token``, ``gitlab-ci-token``."""


def _of_url(text: str, found: re.Match[str]) -> Iterator[Named]:
    """Its host, and its user; which of them a name is, what stands behind it tells."""
    owner = _USER_OF_URL.match(text, found.start())
    if owner is None:
        yield from _host_of_url(text, found, found)
        return
    if owner["rest"] and not is_common(owner["user"]) and not _FOR_TOKENS.fullmatch(owner["user"]):
        yield from user_span(text, *owner.span("user"))
    host = _HOST.match(text, owner.end())
    if host:
        yield from _host_of_url(text, found, host)


def _host_of_url(text: str, found: re.Match[str], named: re.Match[str]) -> Iterator[Named]:
    scheme = re.search(r"[a-z][a-z0-9+.-]*$", text[max(0, found.start() - 20) : found.start()], re.I)
    name = scheme[0].lower() if scheme else ""
    host = named["host"].lower()
    if name.rpartition("+")[2] in _BUCKETS:
        return
    is_web = name.rpartition("+")[2] in ("http", "https", "ws", "wss", "")
    if "." in host:
        inside = bool(_INSIDE.search(host) or host.rpartition(".")[2] == "example") or is_host(
            host.partition(".")[0], certain=False
        )
        if (not is_web or inside) and not re.search(r"\.(?:py|so|whl|json)$", host):
            yield from host_spans(text, *named.span("host"), certain=True)
    else:
        yield from host_spans(text, *named.span("host"), certain=False)


def _before_ports(text: str) -> Iterator[Named]:
    for found in _PORT.finditer(text):
        end = found.start()
        start = host_ending(text, end)
        name = text[start:end]
        if not name or name.isdigit() or text[start - 1 : start] in _NO_HOST_AFTER or not is_host(name, certain=False):
            continue
        if "." in name and (name.rpartition(".")[2].lower() in FILE_ENDINGS or is_public(name)):
            continue
        if ("." in name and re.search(r"[0-9-]|\..*\.", name)) or _TO.search(text[max(0, start - 24) : start]):
            yield from host_spans(text, start, end, certain=False)


_NO_HOST_AFTER = frozenset("/\\.-$%@")


def _exporting(text: str, end: int) -> Iterator[Named]:
    """The server of ``nas01:/export/home``, of scp and rsync."""
    start = host_ending(text, end)
    name = text[start:end]
    if name and text[start - 1 : start] in _BEFORE_SERVER and re.search("[0-9.]", name):
        yield from host_spans(text, start, end, certain=False)


_BEFORE_SERVER = frozenset(["", " ", "\t", "\n", "'", '"', "=", ",", "\0"])


def node_list(text: str, start: int, end: int) -> Iterator[Named]:
    """``node[01-04,07]``: each of a short list is one host, so that a log's ``node03`` has its mark."""
    yield Named(start, end, "host", text[start:end])
