"""Where a JSON Web Token at the end of a line ends: the length of its signature tells whether it goes on below."""

from __future__ import annotations

import base64
import binascii
import json
import re

_BY_ALGORITHM = {
    "none": (0,),
    "HS256": (43,), "HS384": (64,), "HS512": (86,),
    "ES256": (86,), "ES256K": (86,), "ES384": (128,), "ES512": (176,),
    "EdDSA": (86, 152), "Ed25519": (86,), "Ed448": (152,),
}  # fmt: skip
"""Characters of a signature in base64 without padding (RFC 7518, RFC 8037)."""
_OF_RSA = (171, 342, 512, 683)
"""Keys of 1024, 2048, 3072 and 4096 bits."""
_BY_NAME = {*_BY_ALGORITHM, *(f"{family}{bits}" for family in ("RS", "PS") for bits in (256, 384, 512))} - {"none"}
_ANY = frozenset(length for lengths in (*_BY_ALGORITHM.values(), _OF_RSA) for length in lengths if length)
_FIRST_LINE = re.compile(r"([\w-]+)\.[\w-]+\.([\w-]*)", re.ASCII)
_LONGEST_HEADER = 8000


def is_complete(token: str) -> bool:
    """Whether nothing is missing: three parts, and the third as long as the header's algorithm makes it."""
    parts = _FIRST_LINE.fullmatch(token)
    if not parts:
        return False
    algorithm = _algorithm(parts[1])
    lengths = _OF_RSA if algorithm[:2] in ("RS", "PS") else _BY_ALGORITHM.get(algorithm, _ANY)
    return len(parts[2]) in lengths


def end_of_wrapped(text: str, at: int) -> int | None:
    """Where the token that begins here ends some lines below, at the very length that its header tells."""
    joined, start = "", at
    for _ in range(_MOST_LINES):
        piece = _PIECE.match(text, start)
        if not piece:
            return None
        joined += piece[0]
        dots = joined.count(".")
        if dots > 2:
            return None
        if start > at and dots == 2 and _algorithm(joined.partition(".")[0]) in _BY_NAME and is_complete(joined):
            return piece.end()
        line_end = _LINE_END.match(text, piece.end())
        if not line_end or len(joined) < _SHORTEST_LINE or len(joined) > _LONGEST:
            return None
        start = line_end.end()
    return None


_PIECE = re.compile(r"[\w.-]{1,8000}", re.ASCII)
_LINE_END = re.compile(r"\r?\n")
_MOST_LINES = 40
_SHORTEST_LINE = 16
_LONGEST = 16_000


def _algorithm(header: str) -> str:
    """Empty: it does not say."""
    try:
        plain = json.loads(base64.urlsafe_b64decode(header[:_LONGEST_HEADER] + "=" * (-len(header) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return ""
    told = plain.get("alg") if isinstance(plain, dict) else None
    return told if isinstance(told, str) else ""
