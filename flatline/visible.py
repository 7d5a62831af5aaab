"""Text that somebody else chose (a file's name, a command line), made safe to show on a terminal."""

from __future__ import annotations

import unicodedata

_STEERING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Controls, format characters (bidirectional overrides among them), surrogates, private use, line separators."""


def visible(text: str) -> str:
    """`text` with control and direction characters spelled out: ``\\x1b``, ``\\u202e``. Tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if letter == "\t" or not _steers(letter) else _spelled(letter) for letter in text)


def _steers(letter: str) -> bool:
    return unicodedata.category(letter) in _STEERING


def _spelled(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
