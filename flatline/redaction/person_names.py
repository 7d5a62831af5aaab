"""What names of users, hosts and domains look like, whose are nobody's, and which can be followed through a text."""

from __future__ import annotations

import builtins
import keyword
import re
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from .person_words import COMMON, FILE_ENDINGS, GENERIC_DOMAINS, PUBLIC_DOMAINS, SERVICE_USERS, TLDS, words_of

LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
HOST = rf"{LABEL}(?:\.{LABEL}){{0,8}}"
USER = r"[A-Za-z_][\w.-]{0,38}\w|[A-Za-z_]"


_CODE = frozenset(name.lower() for name in (*keyword.kwlist, *dir(builtins)))
_TYPES = words_of(
    "str int bool float bytes any optional none null true false string number unknown undefined n/a na nil"
)

LOCAL_HOSTS = words_of("localhost localhost.localdomain localhost4 localhost6 ip6-localhost ip6-loopback broadcasthost")

_ROLE = r"worker|node|master|server|client|host|head|slave|replica|compute|actor|trainer|launcher|ps|chief|leader|pod"
_ORDINARY_HOST = re.compile(rf"(?:{_ROLE}|[a-z]{{1,2}})[-_]?[0-9]?|h[0-9]{{1,3}}", re.I)
"""``worker-1``, ``node3``, ``h1``: a text says that of other things too."""
_NUMBERED = re.compile(
    r"(?:rank|gpu|cuda|cpu|hpu|npu|xpu|step|epoch|iter|layer|block|stage|thread|proc|process|pid|tid|job|task|shard|fold"
    r"|seed|port|eth|ib|mlx|mlx5_|roce|bond|br|veth|docker|ens|enp\d+s|eno|en|lo|wlan|pts|tty|nvme|sd|dev|line|dim|top"
    r"|iou|int|uint|float|fp|bf|py|cp|cu|sm|utf|sha|md|base|ipv|ip|v|k|p|r|n|h|x|q|s|t|w)[-_]?[0-9.]+",
    re.I,
)
"""``cuda0``, ``step-100``, ``eth0``, ``v4``: never a host's name without a word that says so."""

_GENERIC = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:svc\.cluster\.local|compute\.internal|ec2\.internal|google\.internal)", re.I
)


class Named(NamedTuple):
    """``text[start:end]`` names a person or a machine; `value` is the name, its escapes undone."""

    start: int
    end: int
    kind: str
    value: str


class Chase(Enum):
    """How far a known name is followed."""

    NOWHERE = 0
    """Hidden only where the syntax says what it is."""
    IN_PATHS = 1
    """Also as a whole step of a path, and where a sentence says that it is somebody."""
    EVERYWHERE = 2
    """Wherever it stands as a word of its own."""


def is_common(name: str) -> bool:
    """A word that texts hold for other reasons."""
    lower = name.lower()
    return lower in COMMON or lower in _CODE or lower in _TYPES


@lru_cache(maxsize=4096)
def is_personal_user(name: str) -> bool:
    """Whether this is somebody's name, where the syntax says that it is a user's."""
    lower = name.lower()
    return not (lower in SERVICE_USERS or lower in _TYPES or lower.startswith(("systemd-", "_")) or name.isdigit())


def is_personal(kind: str, name: str) -> bool:
    """Whether a name of this kind is anybody's."""
    if kind == "user":
        return bool(name) and is_personal_user(name)
    return is_host(name, certain=True) if kind == "host" else bool(name)


@lru_cache(maxsize=4096)
def is_host(name: str, *, certain: bool) -> bool:
    """Whether this names a machine. `certain`: the syntax says so, else its look must."""
    lower = name.lower()
    if (
        not re.fullmatch(HOST, name)
        or lower in LOCAL_HOSTS
        or lower in _TYPES
        or re.fullmatch(r"[0-9.]+|0x[0-9a-f]+", lower)
    ):
        return False
    if is_public(lower):
        return False
    if certain:
        return True
    label, dot, domain = lower.partition(".")
    if dot:
        last = domain.rpartition(".")[2]
        return last in TLDS and (last not in FILE_ENDINGS or "." in domain)
    return (
        bool(re.search(r"[0-9-]", label[1:]) and re.match("[a-z]", label))
        and not _NUMBERED.fullmatch(label)
        and not _ORDINARY_HOST.fullmatch(label)
        and not all(map(is_common, re.split(r"[-_]", label)))
    )


def is_public(name: str) -> bool:
    """A service on the internet that everybody uses."""
    labels = name.lower().rstrip(".").split(".")
    return any(".".join(labels[at:]) in PUBLIC_DOMAINS for at in range(len(labels) - 1))


def is_generic_domain(domain: str) -> bool:
    """``svc.cluster.local``, ``ec2.internal``."""
    return domain.lower() in GENERIC_DOMAINS or bool(_GENERIC.fullmatch(domain))


@lru_cache(maxsize=4096)
def chase(kind: str, name: str) -> Chase:
    """How far this name may be followed without hurting ordinary text."""
    if kind == "domain":
        return Chase.EVERYWHERE if "." in name else Chase.NOWHERE
    if kind == "person":
        return Chase.EVERYWHERE if " " in name.strip() and len(name) >= 6 else Chase.NOWHERE
    if kind == "host":
        return _chase_host(name)
    if kind != "user" or is_common(name) or len(name) <= 2 or _NUMBERED.fullmatch(name):
        return Chase.NOWHERE
    if len(name) <= 4 and name.isalpha():
        return Chase.IN_PATHS
    return Chase.EVERYWHERE


def _chase_host(name: str) -> Chase:
    if (
        is_common(name)
        or _ORDINARY_HOST.fullmatch(name)
        or (_NUMBERED.fullmatch(name) and len(re.sub(r"\D", "", name)) < 2)
    ):
        return Chase.NOWHERE
    if name.isalpha():
        return Chase.EVERYWHERE if len(name) >= 6 else Chase.NOWHERE
    return Chase.EVERYWHERE if len(name) >= 4 and re.search("[A-Za-z]", name) else Chase.NOWHERE
