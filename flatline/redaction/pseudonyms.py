"""Stable pseudonyms for users, hosts and addresses: ``⟪host·3⟫``, and where known names stand again.

Without a key they are numbered as they are met. With one, the number is a keyed hash of the name: processes that know
nothing of each other, and all bundles of one case, then choose the same, and nobody without the key can try names.
"""

from __future__ import annotations

import hashlib
import re
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence

from .marks import CLOSE, DOT, OPEN
from .outlines import outline
from .person_names import Chase, chase

KINDS = frozenset(
    [
        *("user", "person", "host", "domain", "email", "mac"),
        *(f"{family}-{scope}" for family in ("ip", "ip6") for scope in ("private", "public", "link-local", "shared")),
    ]
)
"""What a pseudonym stands for; every other kind is a secret."""

STRETCH = 100_000
_PREFIX = 3
_FEW, _MANY = 10, 60
"""Beginnings of names that are looked for one by one; more of them are looked for together; of many more, each word's
beginning in the text is looked up among them."""


def key_of(case_key: str) -> bytes:
    """The key that a person's words make; slow on purpose, so that words cannot be tried by the million."""
    return hashlib.pbkdf2_hmac("sha256", case_key.encode("utf-8", "surrogateescape"), b"flatline case", STRETCH)


def no_empty_key(text: str) -> str:
    """A key of the command line. ArgumentTypeError for an empty one: names would look keyed, and not be."""
    if not text:
        raise ArgumentTypeError("it is empty; is the variable that holds it set?")
    return text


def canonical(kind: str, value: str) -> str:
    """One spelling for all that name the same."""
    return value if kind == "person" else value.lower()


def keyed_mark(key: bytes, kind: str, value: str) -> str:
    """The mark of a name under this key."""
    named = f"{kind}\0{canonical(kind, value)}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(named, key=key[:64], digest_size=8)
    return f"{OPEN}{kind}{DOT}{int.from_bytes(digest.digest(), 'big') % 999_999_999 + 1}{CLOSE}"


_KINDS = "|".join(sorted(KINDS, key=len, reverse=True))
_PSEUDONYM = re.compile(f"{OPEN}({_KINDS}){DOT}((?:[a-z0-9-]{{1,40}}\\.)?[0-9]{{1,9}}){CLOSE}")


def has_pseudonym(text: str) -> bool:
    """Whether one stands in the text."""
    return OPEN in text and _PSEUDONYM.search(text) is not None


def without_pseudonyms(text: str) -> str:
    """The text with pseudonyms as words that may stand in a file's name: ``host-3``; marks of secrets stay."""
    return _PSEUDONYM.sub(r"\1-\2", text)


class KnownNames:
    """The names learnt so far that are followed through texts; `occurrences` finds them as words of their own."""

    def __init__(self) -> None:
        self._spellings: dict[str, tuple[str, str, Chase]] = {}
        self._lengths: dict[str, list[int]] = {}
        """Beginning -> the lengths of the names that begin so, longest first."""
        self._any: re.Pattern[str] | None = None
        self._begins_oddly = False
        """Whether one begins with no letter and no digit."""
        self.shapes: set[str] = set()
        """The names with every digit as a 5; a name with a new one may stand where others could not."""
        self._outlined: KnownNames | None = None
        self._not_outlined: list[str] = []
        """Spellings that are still to enter there."""
        self.settled: set[bytes] = set()
        """Outlines of lines in which all that these names tell is hidden."""

    def copy(self) -> KnownNames:
        """An independent copy, for a child process."""
        other = KnownNames()
        other._spellings = dict(self._spellings)
        other._lengths = {start: list(lengths) for start, lengths in self._lengths.items()}
        other._begins_oddly = self._begins_oddly
        other.shapes = set(self.shapes)
        return other

    def add(self, kind: str, value: str) -> bool:
        """Follow this name from now on; whether it is one that can be followed."""
        how = chase(kind, value)
        if how is Chase.NOWHERE:
            return False
        known = (kind, value, how)
        for spelling in {value, value.lower(), value.upper(), value.capitalize()}.difference(self._spellings):
            self._enter(spelling, known)
            shape = outline(spelling)
            if shape not in self.shapes:
                self.shapes.add(shape)
                self._not_outlined.append(spelling)
        self.settled.clear()
        return True

    def _enter(self, spelling: str, known: tuple[str, str, Chase]) -> None:
        self._spellings[spelling] = known
        lengths = self._lengths.get(spelling[:_PREFIX])
        if lengths is None:
            self._lengths[spelling[:_PREFIX]] = [len(spelling)]
            self._any = None
            self._begins_oddly = self._begins_oddly or not spelling[:1].isalnum()
        elif len(spelling) not in lengths:
            lengths.append(len(spelling))
            lengths.sort(reverse=True)

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def known(self, spelling: str) -> tuple[str, str] | None:
        """(kind, name) of a name that is spelt exactly so."""
        known = self._spellings.get(spelling)
        return known and known[:2]

    def outlined(self) -> KnownNames:
        """The same names with every digit as a 5, for a text of outlines."""
        if self._outlined is None:
            self._outlined = KnownNames()
            self._not_outlined = list(self._spellings)
        for spelling in self._not_outlined:
            self._outlined._enter(outline(spelling), self._spellings[spelling])
        self._not_outlined = []
        return self._outlined

    def occurrences(self, text: str) -> Iterator[tuple[int, int, str, str]]:
        """(start, end, kind, name) of every known name in the text, in order; they do not overlap."""
        done = 0
        for at in self._beginnings(text):
            if at < done:
                continue
            for length in self._lengths[text[at : at + _PREFIX]]:
                known = self._spellings.get(text[at : at + length])
                if known and _stands_alone(text, at, at + length, known[2]):
                    done = at + length
                    yield at, done, known[0], known[1]
                    break

    def _beginnings(self, text: str) -> Sequence[int]:
        if len(self._lengths) <= _FEW:
            return sorted(at for start in self._lengths for at in _places(text, start))
        if len(self._lengths) > _MANY:
            starts = self._lengths
            places = range(len(text)) if self._begins_oddly else _begins_of_words(text)
            return [at for at in places if text[at : at + _PREFIX] in starts]
        if self._any is None:
            self._any = re.compile("|".join(sorted(map(re.escape, self._lengths))))
        return [found.start() for found in self._any.finditer(text)]


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


_WORD = re.compile(r"(?<![^\W_])[^\W_]")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,12}m")


def _begins_of_words(text: str) -> Sequence[int]:
    """Where a name may begin: behind what is no letter and no digit, and where an escape may end."""
    words = [found.start() for found in _WORD.finditer(text)]
    escapes = {at + length for at in _places(text, "\\") for length in (2, 4, 6)}
    escapes.update(at + 3 for at in _places(text, "%"))
    escapes.update(found.end() for found in _COLOUR.finditer(text))
    return sorted(escapes.union(words)) if escapes else words


_ESCAPE_BEFORE = re.compile(r"\\[nrtbf]|%[0-9A-Fa-f]{2}|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\x1b\[[0-9;]{0,12}m")
_PATH_AFTER = frozenset("/\\\"'`:;,)]}> \t\r\n\0%")


def _stands_alone(text: str, start: int, end: int, how: Chase) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    if how is Chase.IN_PATHS:
        is_step = before in ("/", "~") and (not after or after in _PATH_AFTER)
        return is_step or (after == "@" and not _is_alnum(before)) or _is_said(text, start, end)
    if _is_alnum(after):
        return False
    return not _is_alnum(before) or _ends_in_escape(text, start)


_SAID_BEFORE = re.compile(
    r"(?:\b(?:by|[Uu]ser|[Oo]wner|[Hh]ello|[Hh]i|[Dd]ear|[Aa]sk|[Tt]hanks|[Tt]ell|[Cc]ontact|[Mm]ail|[Bb]elongs to"
    r"|[Jj]obs? of)[,:]?[ ]['\"(]?|[ (]@)$"
)


def _is_said(text: str, start: int, end: int) -> bool:
    """Whether a sentence says that this is somebody: ``started by bob``, ``bob's job``."""
    if _is_alnum(text[start - 1 : start]) or _is_alnum(text[end : end + 1]):
        return False
    return text[end : end + 3] == "'s " or bool(_SAID_BEFORE.search(text, max(0, start - 16), start))


def _ends_in_escape(text: str, at: int) -> bool:
    return any(found.end() == at - max(0, at - 16) for found in _ESCAPE_BEFORE.finditer(text[max(0, at - 16) : at]))


def _is_alnum(character: str) -> bool:
    return character.isalnum()
