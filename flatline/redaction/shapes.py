"""Finds the tokens that show by their shape what they are (see `shape_table`).

A text is searched for their literals first, which is fast, and a pattern is tried only where one stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .json_web_tokens import end_of_wrapped, is_complete
from .shape_table import SHAPES, Shape
from .spans import Span
from .values import has_letters_and_digits, is_mixed_case, is_plain_words, is_token_like

_WORD_RUN = re.compile(r"[\w-]*", re.ASCII)


def find_shapes(text: str) -> Iterator[Span]:
    """Every token that shows what it is."""
    for literal, shapes in _BY_LITERAL.items():
        if literal in text:
            yield from _at_literal(text, literal, shapes)


def _at_literal(text: str, literal: str, shapes: list[Shape]) -> Iterator[Span]:
    at = text.find(literal)
    may_be_split = len(literal) >= 4 or not literal.isalpha()
    while at >= 0:
        match = next(filter(None, (shape_match(shape, text, at) for shape in shapes)), None)
        match = _wrapped_jwt(text, at, match) if literal == "eyJ" else match
        if match:
            yield from _line_by_line(text, match)
            next_at = match.end
        else:  # beyond this word: trying again inside it would make long words quadratic
            next_at = max(at + len(literal), _end_of_word(text, at))
        if may_be_split and text[next_at : next_at + 1] in _JOINTS:
            pieces = _pieces(text, at)
            yield from _of_pieces(text, pieces, shapes) if len(pieces) > 1 else ()
        at = text.find(literal, next_at)


def _line_by_line(text: str, token: Span) -> Iterator[Span]:
    """A wrapped token, each line under the mark of the whole, so that the text keeps its lines."""
    start, whole = token.start, re.sub(r"\s", "", token.value)
    for line in text[token.start : token.end].splitlines(keepends=True):
        yield Span(start, start + len(line.rstrip("\r\n")), token.kind, whole)
        start += len(line)


def _end_of_word(text: str, at: int) -> int:
    run = _WORD_RUN.match(text, at)
    return run.end() if run else at


def shape_match(shape: Shape, text: str, at: int) -> Span | None:
    """The token of this shape that begins at `at`."""
    match = shape.pattern.match(text, at)
    if not match:
        return None
    group = 1 if match.re.groups else 0
    start, end = match.start(group) - shape.back, match.end(group)
    if shape.kind == "jwt":
        end = _end_of_jwt(text, start, end)
    return Span(start, end, shape.kind, text[start:end])


def _wrapped_jwt(text: str, at: int, found: Span | None) -> Span | None:
    """The same, or all of a token that goes on below; one that is whole in its line does not."""
    if found and "\n" not in found.value and is_complete(found.value):
        return found
    end = None if text[at - 1 : at].isalnum() else end_of_wrapped(text, at)
    return Span(at, end, "jwt", text[at:end]) if end else found


def _end_of_jwt(text: str, start: int, end: int) -> int:
    """A token that is complete at the end of a line does not go on below."""
    for line in _LINE_END.finditer(text, start, end):
        if is_complete(text[start : line.start()]):
            return line.start()
    return end


_LINE_END = re.compile(r"\r?\n")


def kind_of(value: str) -> str | None:
    """The kind of a value that is, as a whole, of a known shape."""
    for literal, shapes in _BY_START.get(value[:2], ()):
        if value.startswith(literal):
            for shape in shapes:
                match = shape.pattern.match(value)
                if match and match.end() == len(value) and not match.re.groups:
                    return shape.kind
    if value.startswith("-----BEGIN") and "PRIVATE KEY" in value[:60]:
        return "private-key"
    return None


_BEGINNINGS = tuple(
    literal
    for shape in SHAPES
    for literal in shape.literals
    if literal[0].isalpha() and not literal.isalnum() and len(literal) >= 3
)


def kind_of_beginning(name: str) -> str | None:
    """The kind of a token of which the kernel has kept the beginning: ``hf_GouSHrcvmiJ``; not ``hf_transfer_wor``."""
    literal = max((one for one in _BEGINNINGS if name.startswith(one)), key=len, default="")
    rest = name[len(literal) :]
    if not literal or not is_token_like(rest) or is_plain_words(rest) or not _is_random(rest):
        return None
    return _kind_that_goes_on(literal, rest)


def _is_random(rest: str) -> bool:
    return (is_mixed_case(rest) or has_letters_and_digits(rest)) and not re.fullmatch(r"[a-z]+[-_]?[0-9]{0,4}", rest)


_LAST_WORD = re.compile(r"[\w.-]{16,400}\Z", re.ASCII)


def find_beginning_at_end(text: str) -> Iterator[Span]:
    """A token that the end of the text cuts: a log is read while its line is being written."""
    word = _LAST_WORD.search(text, max(0, len(text) - 400))
    if not word:
        return
    found = [(text.find(one, word.start()), one) for one in _BEGINNINGS if one in word[0]]
    for at, literal in found:
        rest = text[at + len(literal) :]
        if not text[at - 1 : at].isalnum() and len(rest) >= 12 and _is_jumbled(rest):
            kind = _kind_that_goes_on(literal, rest)
            yield from (Span(at, len(text), kind, text[at:]),) if kind else ()


def _kind_that_goes_on(literal: str, rest: str) -> str | None:
    """The kind of a token of which the literal and `rest` can be the beginning: ``test_`` of hexadecimal digits, and
    no ``test_rank0_batch.py``."""
    return next((one.kind for one in _BY_LITERAL[literal] if one.alphabet.fullmatch(rest)), None)


def _is_jumbled(rest: str) -> bool:
    """Letters and digits, small and capital ones in turn, as in no word. That one word follows another
    (``secret_key_from_env.py``) is no such turn."""
    classes = ["0" if one.isdigit() else "a" if one.islower() else "A" if one.isupper() else "-" for one in rest]
    turns = sum(one != other and {one, other} != {"a", "-"} for one, other in zip(classes, classes[1:]))
    return turns * 3 >= len(rest)


# --- tokens in pieces ---

_PIECE = re.compile(r"[\w.-]+", re.ASCII)
_JOINTS = ("\0", "\x1b", '"', "'", "\\", "\r", "\n")
_JOINT = re.compile(
    r"""(?:\x1b\[[0-9;]{0,12}m){1,4}(?=[\w-])"""
    r"""|\x00(?=\w[\w.-]{0,400}(?![\w.=-]))"""
    r"""|(["'])[ \t]{0,20}(?:\+[ \t]{0,20})?\\?(?:\r?\n[ \t]{0,40})?[rbuf]?\1(?=\w)"""
    r"""|(?P<wrap>\\?\r?\n[ \t]{0,40})(?=[\w.-]{4,400}(?:["'\s]|$))""",
)
_MOST_PIECES = 8
_REST_OF_TOKEN = re.compile(r"(?=[\w-]*[0-9])(?=[\w-]*[A-Za-z])[\w-]{8,}", re.ASCII)
_NARROWEST = 60
"""Columns of a terminal that wraps; a token that is whole at a line's end goes on only beyond."""


def _pieces(text: str, at: int) -> list[tuple[int, int]]:
    """Where the pieces begin and end."""
    pieces: list[tuple[int, int]] = []
    while len(pieces) < _MOST_PIECES:
        piece = _PIECE.match(text, at, at + 400)
        if not piece:
            break
        pieces.append(piece.span())
        joint = _JOINT.match(text, piece.end())
        if not joint or (joint["wrap"] and piece.end() - pieces[0][0] < 16):
            break
        at = joint.end()
    return pieces or [(at, at)]


def _of_pieces(text: str, pieces: list[tuple[int, int]], shapes: list[Shape]) -> Iterator[Span]:
    begin, first = pieces[0]
    before = text[max(0, begin - 4) : begin]
    whole = before + "".join(text[start:end] for start, end in pieces)
    for shape in shapes:
        match = shape.pattern.match(whole, len(before))
        if not match or match.end() <= len(before) + first - begin:
            continue
        if shape.pattern.match(text, begin, first) and not _goes_on(text, first, text[slice(*pieces[1])]):
            return
        if shape.kind == "jwt" and is_complete(text[begin:first]):
            return
        left = match.end() - len(before)
        for start, end in pieces:
            if left > 0:
                yield Span(start, min(end, start + left), shape.kind, match[0])
            left -= end - start
        return


def _goes_on(text: str, end: int, following: str) -> bool:
    """Whether a token that could be whole has more after the joint: letters and digits, no word of its own."""
    if text[end] == "\0":  # between words of a command line; nothing prints it
        return False
    wraps = text[end] in "\r\n\\"
    column = end - text.rfind("\n", max(0, end - _NARROWEST), end)
    return bool(_REST_OF_TOKEN.fullmatch(following)) and not (wraps and column < _NARROWEST)


def _by_literal() -> dict[str, list[Shape]]:
    table: dict[str, list[Shape]] = {}
    for shape in SHAPES:
        for literal in shape.literals:
            table.setdefault(literal, []).append(shape)
    return table


_BY_LITERAL = _by_literal()
_BY_START: dict[str, list[tuple[str, list[Shape]]]] = {}
for _literal, _shapes in _BY_LITERAL.items():
    _BY_START.setdefault(_literal[:2], []).append((_literal, _shapes))
