"""One value behind a telling name: where it begins and ends, and whether it is a secret."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote

from . import shapes
from .grammar import BARE, JSON_BETWEEN, OPENING, TRAILING, Name, end_of_bare, end_of_string, indentation
from .marks import MARK, has_mark, is_mark
from .names import classify
from .spans import Span
from .values import (
    has_letters_and_digits,
    hides_nothing,
    is_call,
    is_expression,
    is_mixed_case,
    is_number,
    is_passcode,
    is_plain_words,
    is_seed_phrase,
    is_token_like,
    looks_secret,
)
from .wordlists import BEGIN_A_MESSAGE, MAKE_A_SENTENCE

SCHEME = re.compile(r"(?:bearer|basic|token|apikey|api-key|negotiate|ntlm|key|hf|splunk|genie|bot)[ \t]+", re.I)
_PARAMETERS = re.compile(
    r"(?:digest|aws4-hmac-sha256|hawk|oauth|signature|goog4-rsa-sha256)[ \t][^\n\x00]{0,4000}", re.I
)
_PARAMETER = re.compile(
    r"""\b(?:response|c?nonce|opaque|signature|credential|mac|oauth_\w{1,20})=(?:\\{0,15}")?([^\s"',\\]{4,2000})""",
    re.I,
)
_SEED_WORDS = re.compile(r"[a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){11,23}")


_HIDDEN = re.compile(rf"{MARK.pattern}(?=\s|\Z)")


def value_of(text: str, name: Name, separator: re.Match[str]) -> tuple[list[Span], int]:
    at = separator.end()
    hidden = _HIDDEN.match(text, at)
    if hidden:
        return [], hidden.end()
    wrapped = _WRAPPED.match(text, at)
    if wrapped:
        return _wrapped(text, name, wrapped)
    below = _BELOW.match(text, at) if separator["op"] in (":", "=>", "=") else None
    at = (
        below.end()
        if below and (separator["close"] or indentation(text, below.end()) > indentation(text, name.start))
        else at
    )
    skipped = _BEFORE_VALUE.match(text, at)
    at = skipped.end() if skipped else at
    opening = OPENING.match(text, at)
    end = end_of_string(text, opening) if opening else None
    pieces = _in_pieces(text, name, opening) if opening and end is None else []
    pieces = pieces or (_concatenated(text, name, opening, end) if opening and end is not None else [])
    if pieces:
        return pieces, pieces[-1].end
    quoted = opening is not None and end is not None
    start = opening.end() if opening else at
    if end is None:
        end = end_of_bare(text, name, separator, start)
    if name.promise.kind == "authorization" and _PARAMETERS.match(text, start):
        return _parameters(text, start)
    if quoted:
        start, end = _within_repr(text, start, end)
    start, end = _without_scheme(text, start, end, quoted)
    if not quoted:
        words = _words_of(text, name, separator, start)
        end = words.end() if words else end
    value = text[start:end]
    if at > separator.end() and not quoted and not looks_secret(value, shortest=8):
        return [], end
    if not is_secret(name, separator, value, quoted) or (separator["tag"] and text[end : end + 1] != "<"):
        return [], end
    quote = "" if opening else _quote_needed(separator, value)
    found = Span(start, end, name.promise.kind, plain(text, name, value, quoted), quote)
    rest = None if quoted else _GOES_ON.match(text, end)
    if rest and looks_secret(rest["rest"], shortest=8) and has_letters_and_digits(rest["rest"]):
        return [found, Span(rest.start("rest"), rest.end("rest"), name.promise.kind, rest["rest"])], rest.end()
    return [found], end


_GOES_ON = re.compile(r"\\\r?\n(?P<rest>[\w+/=.~-]{8,400})(?=\s|\Z)")
"""Behind a backslash at the end of a line, and not indented."""


_PHRASE = re.compile(
    r"(?P<first>[^\W\d_](?:[^\W\d_]|['’-]){0,30})[ ](?P<second>\w[\w'’-]{0,30})(?:[ ]\w[\w'’-]{0,30}){0,8}"
    r"[.!?]?(?=[ \t]{0,9}(?:\r?\n|\\{1,3}[nr\"']|[\"'`]|\Z|[ \t]\#))"
)
_LINE_BEFORE = re.compile(r"(?:^|\n)(?:export[ ])?[A-Za-z_]\w{0,80}=[^\n]{0,400}\n\Z")
_LINE_BEHIND = re.compile(r"[ \t\r]{0,9}\n(?:export[ ])?[A-Za-z_]\w{0,80}=")


def _words_of(text: str, name: Name, separator: re.Match[str], start: int) -> re.Match[str] | None:
    """The words that a person has chosen, to the end of the line: ``password: correct horse battery staple``.

    Behind ``PASSWORD=word`` a command may stand, so there a blank is wanted, or other variables above or below.
    """
    if name.promise.kind == "seed-phrase":
        return _SEED_WORDS.match(text, start)
    if not separator["op"] or name.promise.kind != "password" or not name.promise.certain:
        return None
    words = _PHRASE.match(text, start)
    if not words or words["first"].lower() in BEGIN_A_MESSAGE or words["second"].lower() in MAKE_A_SENTENCE:
        return None
    is_apart = text[start - 1 : start].isspace() or _LINE_BEHIND.match(text, words.end())
    return words if is_apart or _LINE_BEFORE.search(text, max(0, name.start - 500), name.start) else None


_REPR = re.compile(
    r"""(?:0x[0-9a-f]{1,16}[ ]|[\w.]{1,40}\()?[bru]{0,2}(?P<quote>\\{0,15}["'])(?P<value>[^"'\\\n]{6,4000}?)"""
    r"""(?:\.{3}|…)?(?P=quote)?(?:\.{3}|…)?\)?"""
)


def _within_repr(text: str, start: int, end: int) -> tuple[int, int]:
    """Within the quotes of a string that was written as code into a string: ``"repr": "'…'"``, cut or not."""
    inner = _REPR.fullmatch(text, start, end)
    return inner.span("value") if inner else (start, end)


def _without_scheme(text: str, start: int, end: int, quoted: bool) -> tuple[int, int]:
    """The credential alone, without the ``Bearer`` or ``Basic`` before it."""
    scheme = SCHEME.match(text, start)
    if scheme and scheme.end() < (end if quoted else len(text)):
        start = scheme.end()
        if not quoted:
            bare = BARE.match(text, start)
            cut = TRAILING.search(bare[0]) if bare else None
            end = start + cut.start() if cut else bare.end() if bare else start
    return start, end


def is_secret(name: Name, separator: re.Match[str], value: str, quoted: bool) -> bool:
    kind, loose = name.promise.kind, bool(separator["comma"] or separator["call"])
    if is_mark(value) or hides_nothing(kind, value):
        return False
    if quoted and JSON_BETWEEN.fullmatch(value):
        return False
    if not quoted and (_is_code(kind, value) or value[0] in "{[(" or _is_name(value)):
        return False
    if name.is_option and value.startswith("-") and not separator["op"]:
        return False
    if kind == "password" and name.promise.certain and not separator["is"] and not loose:
        return quoted or not is_number(value) or len(value) >= 6  # a vocabulary maps "password" to a small number
    if kind == "seed-phrase":
        return is_seed_phrase(value) or looks_secret(value)
    if kind == "otp" and is_passcode(value):
        return not separator["space"]
    if kind not in ("password", "secret", "private-key") and not is_token_like(value):
        return quoted and name.promise.certain and _is_jumble(value)
    if is_number(value) or is_plain_words(value):
        return kind == "password" and name.is_option
    if name.promise.certain and not separator["is"] and (not loose or name.is_option):
        return True
    if kind == "password" and name.promise.certain and loose:
        return quoted and len(value) >= 8 and has_letters_and_digits(value) and not re.search(r"\s", value)
    return looks_secret(value, shortest=8 if name.is_option else 12) or shapes.kind_of(value) is not None


def _is_name(value: str) -> bool:
    """The name of a secret, not one: ``HF_TOKEN``; random letters may end in ``Pw24``, some choose ``hunter2pw``."""
    one_word = value.isalnum() and has_letters_and_digits(value)
    is_chosen = one_word and (value[-1].isalpha() or re.search(r"\d{2}", value) is not None)
    is_random = len(value) >= 16 and one_word and is_mixed_case(value)
    return not is_chosen and not is_random and classify(value) is not None


def _is_jumble(value: str) -> bool:
    """A key of all the characters there are, as frameworks make them; no sentence, no template."""
    return len(value) >= 20 and has_letters_and_digits(value) and not re.search(r"\s|\{\w*\}|<\w+>|%s|://", value)


def _is_code(kind: str, value: str) -> bool:
    return is_expression(value) and (kind != "password" or is_call(value))


def _quote_needed(separator: re.Match[str], value: str) -> str:
    """``"pin": 12345678`` in JSON: the mark must be a string there."""
    return separator["close"] if separator["close"] and separator["op"] and is_number(value) else ""


def plain(text: str, name: Name, value: str, quoted: bool) -> str:
    """The value with its escapes undone."""
    if quoted and "\\" in value:
        try:
            return json.loads(f'"{value}"')
        except ValueError:
            return value.replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")
    if "%" in value and name.start and text[name.start - 1] in "?&":
        return unquote(value)
    return value


_BEFORE_VALUE = re.compile(
    r"""0x[0-9a-f]{1,16}[ ](?=\\{0,3}")"""  # gdb: where the string stands
    r"""|\$\{[\w.:]{1,80}?(?::-|:=|,|-)(?=[^\s"'{}$]{8,400}\})"""  # what holds when the variable is not set
)
_PIECE = re.compile(r"[\w+/=.~:-]{4,400}")
_TO_NEXT_LINE = re.compile(r"[ \t]{0,300}(?:[│|][ \t│|]{0,300})?\r?\n[ \t│|]{0,300}(?=\S)")
_MOST_PIECES = 8


def _in_pieces(text: str, name: Name, opening: re.Match[str]) -> list[Span]:
    """A string that a frame's width breaks over lines, as tracebacks with locals show them; none if it is no such."""
    spans: list[tuple[int, int]] = []
    at = opening.end()
    while len(spans) < _MOST_PIECES:
        piece = _PIECE.match(text, at)
        if not piece:
            return []
        spans.append(piece.span())
        if text.startswith(opening[1], piece.end()):
            break
        joint = _TO_NEXT_LINE.match(text, piece.end())
        if not joint:
            return []
        at = joint.end()
    value = "".join(text[start:end] for start, end in spans)
    if len(spans) < 2 or has_mark(value) or not looks_secret(value, shortest=16):
        return []
    return [Span(start, end, name.promise.kind, value) for start, end in spans]


_PLUS = re.compile(r"""(?P<quote>["'])[ \t]{0,20}\+[ \t]{0,20}(?:\\?\r?\n[ \t]{0,80})?[rbuf]?(?P=quote)""")
_TERM = re.compile(r"[\w+/=.~:!@$%-]{1,400}")


def _concatenated(text: str, name: Name, opening: re.Match[str], end: int) -> list[Span]:
    """``"…" + "…"``: each term, under the mark of the whole; none if it is no such."""
    spans, plus = [(opening.end(), end)], _PLUS.match(text, end)
    while plus and len(spans) < _MOST_PIECES:
        term = _TERM.match(text, plus.end())
        if not term or not text.startswith(plus["quote"], term.end()):
            break
        spans.append(term.span())
        plus = _PLUS.match(text, term.end())
    value = "".join(text[start:end] for start, end in spans)
    if len(spans) < 2 or has_mark(value) or not looks_secret(value, shortest=8 if name.promise.certain else 16):
        return []
    return [Span(start, end, name.promise.kind, value) for start, end in spans if end > start]


_BELOW = re.compile(
    r"""\r?\n[ \t]{1,80}(?=(?:["'][^"'\n]{1,400}["'][,}\]]{0,4}|[^\s:\#"'{}\[\]-][^\s:\#"'{}\[\]]{0,400})"""
    r"""[ \t]*(?:\r?\n|$))"""
)
"""The value stands alone on the next line."""
_WRAPPED = re.compile(
    r"""(?:\"{3}|'{3}|<!\[CDATA\[)\s{0,200}(?P<value>(?!\s)[^\x00]{1,400}?)\s{0,200}(?:\"{3}|'{3}|\]\]>)"""
)


def _wrapped(text: str, name: Name, found: re.Match[str]) -> tuple[list[Span], int]:
    """TOML's and Python's three quotes, XML's ``<![CDATA[…]]>``."""
    value = found["value"]
    if hides_nothing(name.promise.kind, value) or has_mark(value) or not (name.promise.certain or looks_secret(value)):
        return [], found.end()
    if name.promise.kind not in ("password", "private-key", "secret") and not is_token_like(value):
        return [], name.end
    return [Span(found.start("value"), found.end("value"), name.promise.kind, value)], found.end()


def _parameters(text: str, start: int) -> tuple[list[Span], int]:
    """``Digest username="bob", response="…"``, ``AWS4-HMAC-SHA256 Credential=…, Signature=…``."""
    line = _PARAMETERS.match(text, start)
    end = line.end() if line else start
    found = _PARAMETER.finditer(text, start, end)
    return [Span(one.start(1), one.end(1), "authorization", one[1]) for one in found if not has_mark(one[1])], end
