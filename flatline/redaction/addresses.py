"""Addresses of machines: IPv4, IPv6, MAC. Versions, times, PCI ids, fingerprints and C++ names look like them.

Each search begins at a character that is rare in what it must not cost: a dot between numbers, a colon between hex.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache

from .outlines import outline
from .person_names import Named
from .presence import Has

_DOTS = re.compile(
    r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}"
    r"(?![0-9A-Za-z_]|\.[0-9](?![0-9]{0,4}(?:[ ]>|:[ ]))|\+|-[a-z]*[0-9]*[a-z]+[0-9]*\b(?:-|\.whl))"
)
_FIRST = re.compile(r"[0-9]{1,3}$")
_VERSIONED = re.compile(
    r"""(?:
        (?:[=<>~!]=|[<>]|[A-Za-z0-9_.+@~^*]|(?<![0-9\s:=,(\[])-) $         # ==1.2.3.4, v1.2.3.4, cu12-1.2.3.4
      | (?<![a-z])(?:version|versions|ver|release|revision|rev|driver|firmware|fw|bios|vbios|build|tag|oid|section|sect
          |python|pip|cuda|cudnn|nccl|torch|pytorch|tensorrt|trt|mkl|onnx|onnxruntime|openmpi|ucx|gdrcopy|rocm|hip|cann
          |sonames?|dll|api|upgrade[ds]?|package|requirement|requires)
          (?:_?(?:version|ver))? ["')]? [ \t]{0,2}[:=|]?[ \t]{0,12}["'(]?[vV]? $
      | (?:^|[\s"'(,=])
          (?:nvidia|lib|cu(?:da|dnn|blas|fft|rand|solver|sparse|pti|file|tensor)|tensorrt|torch|py|intel|mkl|rocm|hip|onnx
            |triton)
          [\w.+]*(?:[-_][\w.+]+)* ["')]? (?:[ \t]+\(? | [ \t]{0,2}[:=][ \t]{0,2})["']?v? $
    )""",
    re.X | re.I,
)
_ADDRESSED = re.compile(
    r"(?:\b(?:from|to|at|host|hosts|ip|ips|addr|address|addresses|peer|inet|via|src|dst|source|server|client|node|endpoint"
    r"|connect|connected|connecting|bind|listen|listening|on|remote|local|master|gateway|dns|nameserver|ping|route|by|with|user)"
    r"""\w{0,10}["')]?[ \t]?[:=]?[ \t]{0,4}["'(\[]?|//|@)$""",
    re.I,
)
_PORT_OR_NET = re.compile(r":[0-9]{2,5}\b|/[0-9]{1,2}\b")
_IN_A_NAME = re.compile(r"[A-Za-z][-_]$")
"""``worker-10.0.0.3.log``."""
_OF_A_PACKAGE = re.compile(
    r"(?:nvidia|lib|cu|cuda|tensorrt|torch|py|rocm|v|version|release)[\w.+]*(?:[-_][\w.+]+)*[-_]$", re.I
)
_METADATA = frozenset(["169.254.169.254", "169.254.170.2", "100.100.100.200"])
_METADATA6 = frozenset([ipaddress.IPv6Address("fd00:ec2::254")])
"""Where clouds answer questions about the machine: the same everywhere."""


def find_ipv4(text: str, has: Has) -> Iterator[Named]:
    """Four numbers that are an address; loopback, any, masks and groups stay."""
    for found in _DOTS.finditer(text) if has(".") else ():
        dot = found.start()
        first = _FIRST.search(text, max(0, dot - 3), dot)
        if not first:
            continue
        start, end = first.start(), found.end()
        address = text[start:end]
        kind = _kind4(address)
        if kind and _is_address(text, start, end, address, kind):
            yield Named(start, end, kind, address)


def _kind4(address: str) -> str | None:
    first, second, third, fourth = numbers = [int(part) for part in address.split(".")]
    if max(numbers) > 255 or f"{first}.{second}.{third}.{fourth}" != address or address in _METADATA:
        return None  # the second: one with a zero before it
    if first in (0, 127) or first >= 224:
        return None
    if first == 10 or (first, second) == (192, 168) or (first == 172 and 16 <= second < 32):
        return "ip-private"
    if (first, second) == (169, 254):
        return "ip-link-local"
    return "ip-shared" if first == 100 and 64 <= second < 128 else "ip-public"


def _is_address(text: str, start: int, end: int, address: str, kind: str) -> bool:
    before = outline(text[max(0, start - 60) : start].rpartition("\n")[2])
    follows = _PORT_OR_NET.match(text, end)
    is_small = kind == "ip-public" and max(map(int, address.split("."))) <= 30
    return _is_written_as_ipv4(_deciding(before), follows[0][0] if follows else "", kind != "ip-public", is_small)


def _deciding(before: str) -> str:
    """The end of it that decides, so that the same is not asked again: without a word the last few characters."""
    if before.upper() == before.lower() and "%" not in before:
        return before[-8:]
    return before if "  " in before else " ".join(before.rsplit(" ", 4)[-4:])


@lru_cache(maxsize=4096)
def _is_written_as_ipv4(before: str, follows: str, is_internal: bool, is_small: bool) -> bool:
    """Whether four numbers behind `before` are an address, a port (``:``) or a net (``/``) behind them."""
    if follows and before[-1:] in ("", " ", "[", "(", "'", '"'):
        return True
    if before.endswith("/") and not before.endswith("//"):  # Chrome/120.0.0.0, hostname/10.0.0.3:8020
        return is_internal or follows == ":"
    if before.endswith("-") and re.search(r"[0-9]\.[0-9]{1,3}-$", before):  # 10.0.0.1-10.0.0.9
        return True
    if _is_escape(before):
        return True
    if is_internal and _IN_A_NAME.search(before) and not _OF_A_PACKAGE.search(before):
        return True
    if re.search(r"[A-Za-z0-9_.+@^-]$", before) and not before.endswith("@"):
        return bool(re.search(r"(?:^|[^A-Za-z0-9])inet$", before))
    if re.search(r"[=<>~!]=\s?$|[<>]\s?$", before) and not before.endswith(("->", "=>", "-> ", "=> ", "<", "> ")):
        return False
    if follows:
        return True
    if _VERSIONED.search(before):
        return False
    return _ADDRESSED.search(before) is not None if is_small else True


def _is_escape(before: str) -> bool:
    return bool(re.search(r"(?:\\[nrt]|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]{0,12}m|::ffff:)$", before))


_COLONS = (re.compile(r"::"), re.compile(r":[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:"))
"""What an address of groups holds: two colons, or more groups than a time has."""
_HEX = "0123456789abcdefABCDEF:"
_HEX_AFTER = re.compile(r"[0-9a-fA-F:.]{0,60}")
_PAIRS = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}")
_HARDWARE = re.compile(
    r"(?:ether|infiniband|mac|lladdr|hwaddr|address|permaddr|hw)\w{0,8}[\"']?[ \t]*[:=]?[ \t]*[\"']?$", re.I
)
_DASHED = re.compile(r"-[0-9a-fA-F]{2}-[0-9a-fA-F]{2}-[0-9a-fA-F]{2}-")
_DOTTED = re.compile(r"\.[0-9a-f]{4}\.[0-9a-f]{4}(?![\w.])")
_DOTTED_MAC = re.compile(r"[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}")
_DASHED_MAC = re.compile(r"[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){5}")


def find_colons(text: str, has: Has) -> Iterator[Named]:
    """MAC and IPv6 addresses: runs of hex and colons."""
    for colons in _COLONS:
        done = 0
        for found in colons.finditer(text) if has(":") else ():
            at = found.start()
            if at < done:
                continue
            before, after = text[max(0, at - 60) : at], _HEX_AFTER.match(text, at)
            done = after.end() if after else at
            yield from _of_run(text, at - (len(before) - len(before.rstrip(_HEX))), done)


def _of_run(text: str, start: int, end: int) -> Iterator[Named]:
    start = _without_escape(text, start)
    end -= len(text[start:end]) - len(text[start:end].rstrip("."))
    if _is_glued(text, start):  # the name of its interface stands before it: ib1:fe80::1
        colon = text.find(":", start, end)
        if text[colon + 1 : colon + 2] == ":" or _is_glued(text, colon + 1):
            return
        start = colon + 1
    run = text[start:end]
    if text[end : end + 1].isalnum() or text[end : end + 1] == "_":
        return
    if run.endswith(":") and not run.endswith("::"):
        end, run = end - 1, run[:-1]
    if _PAIRS.fullmatch(run):
        if _is_mac(run, text[max(0, start - 24) : start]):
            yield Named(start, end, "mac", run)
    elif run.count(":") == 19 and _HARDWARE.search(text[max(0, start - 24) : start]):
        yield Named(start, end, "mac", run)
    elif 2 <= run.count(":") <= 8:
        yield from _ipv6(text, start, end, run)


def _without_escape(text: str, start: int) -> int:
    """An ``f`` of ``\\f`` or a digit of ``%2F`` belongs to no address."""
    escape = re.search(r"(?:%[0-9A-Fa-f]{2}|\\[bf])$", text[max(0, start - 2) : start + 2][:4])
    return start if not escape else start + (2 if text[start - 1 : start] == "%" else 1)


def _is_glued(text: str, start: int) -> bool:
    before = text[max(0, start - 8) : start]
    return bool(re.search(r"[A-Za-z0-9_.-]$", before)) and not re.search(r"(?:\\[nrt]|\x1b\[[0-9;]*m|%)$", before)


def _is_mac(run: str, before: str) -> bool:
    if set(run) <= set("0:") or run.lower() == "ff:ff:ff:ff:ff:ff":
        return False
    return bool(re.search("[a-fA-F]", run) or _HARDWARE.search(before))


def _ipv6(text: str, start: int, end: int, run: str) -> Iterator[Named]:
    mapped = re.fullmatch(r"::(?:ffff:(?:0:)?)?([0-9]{1,3}(?:\.[0-9]{1,3}){3})", run, re.I)
    if mapped:  # the same machine as without it; `find_ipv4` hides it
        return
    address, port = _parsed(run), ""
    if address is None and run.count(":") == 8:  # eight groups and a port, without brackets
        address, port = _parsed(run.rpartition(":")[0]), run.rpartition(":")[2]
    if address is None or address in _METADATA6:
        return
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return
    if "::" in run and not _is_written_as_address(text, start, end, run):
        return
    yield Named(start, end - (len(port) + 1 if port else 0), _kind6(address), str(address))


def _is_written_as_address(text: str, start: int, end: int, run: str) -> bool:
    """``fe80::1``; not ``c10d::``, ``add::f``, ``dead::beef`` of a program."""
    if run.startswith("::") and not re.match(r"[/\]%]", text[end : end + 1]):
        return bool(re.search(r"[0-9]", run)) and run.count(":") > 2
    if run.endswith("::"):
        return bool(re.match(r"/[0-9]{1,3}|\]", text[end : end + 4]))
    return bool(re.search(r"[0-9]", run)) and (run.count(":") > 2 or len(run.partition("::")[0]) >= 3)


@lru_cache(maxsize=4096)
def _parsed(run: str) -> ipaddress.IPv6Address | None:
    try:
        return ipaddress.IPv6Address(run)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _kind6(address: ipaddress.IPv6Address) -> str:
    if address.is_link_local:
        return "ip6-link-local"
    first = int(address) >> 120
    return "ip6-private" if first in (0xFC, 0xFD) else "ip6-public"


def find_dashed_macs(text: str, has: Has) -> Iterator[Named]:
    """``8a-d4-52-0a-fe-27``, as Windows writes them, ``8ad4.520a.fe27``, as switches do; a date has no letters."""
    for found in _DOTTED.finditer(text) if has(".") else ():
        start = found.start() - 4
        mac = _DOTTED_MAC.match(text, start) if start >= 0 else None
        if mac and re.search("[a-f]", mac[0]) and not re.search(r"[\w.-]", text[start - 1 : start]):
            digits = mac[0].replace(".", "")
            yield Named(start, mac.end(), "mac", ":".join(digits[at : at + 2] for at in range(0, 12, 2)))
    for found in _DASHED.finditer(text) if has("-") else ():
        mac = _DASHED_MAC.match(text, max(0, found.start() - 2))
        if not mac or not re.search("[a-fA-F]", mac[0]):
            continue
        around = text[mac.start() - 1 : mac.start()] + text[mac.end() : mac.end() + 1]
        if not re.search(r"[\w-]", around):
            yield Named(mac.start(), mac.end(), "mac", mac[0].replace("-", ":"))
