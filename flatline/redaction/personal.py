"""Personal data: names of users, people and hosts, e-mail, IP and MAC addresses become stable pseudonyms.

A detector sees the text as it is and yields what it names. That is learnt first; then it is replaced in its place and,
unless it is a common word, wherever else it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Callable

from .addresses import find_colons, find_dashed_macs, find_ipv4
from .endpoints import find_endpoints
from .marks import CLOSE, EARLIER, MARK, OPEN
from .person_keys import find_columns, find_keyed_names
from .person_messages import find_messages, find_user_options
from .person_names import Named, is_generic_domain, is_public
from .person_places import find_at_signs, find_homes, find_log_prefixes
from .presence import literals_of
from .pseudonyms import KnownNames

MarkOf = Callable[[str, str], str]
"""(kind, name) -> its pseudonym."""

DETECTORS = (
    find_at_signs,
    find_colons,
    find_columns,
    find_dashed_macs,
    find_endpoints,
    find_homes,
    find_ipv4,
    find_keyed_names,
    find_log_prefixes,
    find_messages,
    find_user_options,
)
"""Each yields spans that may overlap with others'."""

PASSES = 3
BESIDE = 40
"""Characters on each side of a pseudonym that it may have uncovered something in."""
_FIVES = bytes.maketrans(b"0123456789", b"5555555555")
MOST_SETTLED, LONGEST_SETTLED = 50_000, 2000
"""Outlines of lines in which nothing more was found, and their characters."""
LONGEST_LIST = 128
"""Hosts of a Slurm list that are named one by one."""
MOST_OF_LISTS = 2000
"""Hosts of all lists of a text that are, and one for each four of its characters; a list beyond has one pseudonym."""

_LABELS_BEFORE = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+$")


def hide_personal(text: str, names: KnownNames, mark_of: MarkOf) -> str:
    """The text with a pseudonym for every name and address; marks that stand in it are left alone.

    A pseudonym can uncover what stood beside it, so lines that have changed are looked at again.
    """
    hidden = _hidden_once(text, names, mark_of)
    for _ in range(PASSES):
        again = _changed_lines_again(text, hidden, names, mark_of)
        if again == hidden:
            break
        text, hidden = hidden, again
    return hidden


def _changed_lines_again(before: str, after: str, names: KnownNames, mark_of: MarkOf) -> str:
    if before == after:
        return after
    old, new = before.split("\n"), after.split("\n")
    alike: dict[bytes, list[int]] = {}
    for at, (was, line) in enumerate(zip(old, new)):
        if was != line:
            alike.setdefault(_around_marks(line), []).append(at)
    for outline in names.settled.intersection(alike):
        del alike[outline]
    firsts = [at for at, *_ in alike.values()]
    looked_at = _hidden_once("\n".join(new[at] for at in firsts), names, mark_of).split("\n")
    settled = [outline for outline, at, line in zip(alike, firsts, looked_at) if new[at] == line]
    for outline in settled:
        del alike[outline]
    if len(names.settled) < MOST_SETTLED:
        names.settled.update(outline for outline in settled if len(outline) < LONGEST_SETTLED)
    others = [at for numbers in alike.values() for at in numbers]
    if others:
        again = _hidden_once("\n".join(new[at] for at in others), names, mark_of).split("\n")
        for at, line in zip(others, again):
            new[at] = line
    return "\n".join(new)


def _around_marks(line: str) -> bytes:
    """What pseudonyms stand beside, every digit a 5: where that is the same, the same is uncovered."""
    beside = line[max(0, line.find(OPEN) - BESIDE) : line.rfind(CLOSE) + BESIDE]
    return beside.encode("utf-8", "surrogatepass").translate(_FIVES)


def _hidden_once(text: str, names: KnownNames, mark_of: MarkOf) -> str:
    spans: list[Named] = []
    has = literals_of(text)
    for detect in DETECTORS:
        spans += detect(text, has)
    taken = _marks_in(text)
    pieces = []
    of_lists = MOST_OF_LISTS + len(text) // 4
    for span in _without_overlaps(spans, taken):
        is_list = span.kind == "host" and "[" in span.value
        if is_list and of_lists < 0:
            replacement = mark_of(span.kind, span.value)
        else:
            replacement = pseudonym(span.kind, span.value, mark_of)
            of_lists -= replacement.count(OPEN) if is_list else 0
        if replacement != text[span.start : span.end]:
            pieces.append((span.start, span.end, replacement))
    return _followed(text, pieces, taken, names, mark_of)


def follow_names(text: str, names: KnownNames, mark_of: MarkOf) -> str:
    """The text with the names that are known by now replaced wherever they stand."""
    return _followed(text, [], _marks_in(text), names, mark_of)


def pseudonym(kind: str, value: str, mark_of: MarkOf) -> str:
    """What stands for a name: one mark; of a full host name two, so that its short form and its domain agree."""
    if kind != "host":
        return mark_of(kind, value)
    if "[" in value:
        return _list_pseudonym(value, mark_of)
    label, dot, domain = value.partition(".")
    if not dot:
        return mark_of("host", label)
    hidden = domain if is_generic_domain(domain) or is_public(domain) else mark_of("domain", domain)
    return f"{mark_of('host', label)}.{hidden}"


def _list_pseudonym(value: str, mark_of: MarkOf) -> str:
    hosts = expand(value)
    return ",".join(mark_of("host", host) for host in hosts) if hosts else mark_of("host", value)


def expand(value: str) -> list[str]:
    """The hosts of Slurm's ``node[01-04,07]``; none when there are too many or it is no such list."""
    found = re.fullmatch(r"([\w.-]+)\[([0-9,-]+)\]([\w.-]*)", value)
    if not found:
        return []
    numbers: list[str] = []
    for piece in found[2].split(","):
        first, _, last = piece.partition("-")
        if not first or not (last or first).isdigit() or int(last or first) - int(first) >= LONGEST_LIST:
            return []
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return [f"{found[1]}{number}{found[3]}" for number in numbers] if len(numbers) <= LONGEST_LIST else []


def _marks_in(text: str) -> list[tuple[int, int]]:
    found = [mark.span() for mark in MARK.finditer(text)] if "⟪" in text else []
    if "⟨" in text:
        found = sorted([*found, *(mark.span() for mark in EARLIER.finditer(text))])
    return found


def _without_overlaps(spans: Iterable[Named], taken: Sequence[tuple[int, int]]) -> Iterator[Named]:
    """In order; of those that overlap the first, of those that begin together the longest."""
    done = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= done and span.end > span.start and _is_free(taken, span.start, span.end):
            yield span
            done = span.end


def _followed(
    text: str, pieces: list[tuple[int, int, str]], taken: list[tuple[int, int]], names: KnownNames, mark_of: MarkOf
) -> str:
    taken = sorted([*taken, *((start, end) for start, end, _ in pieces)])
    more = []
    for start, end, kind, value in names.occurrences(text):
        if not _is_free(taken, start, end):
            continue
        if kind == "domain":
            more += _labels_before(text, start, taken, mark_of)
        more.append((start, end, pseudonym(kind, value, mark_of)))
    pieces = sorted([*pieces, *more])
    if not pieces:
        return text
    out, done = [], 0
    for start, end, replacement in pieces:
        if start >= done:
            out += [text[done:start], replacement]
            done = end
    out.append(text[done:])
    return "".join(out)


def _labels_before(
    text: str, start: int, taken: Sequence[tuple[int, int]], mark_of: MarkOf
) -> Iterator[tuple[int, int, str]]:
    """Another host of a domain that is known."""
    labels = _LABELS_BEFORE.search(text, max(0, start - 130), start)
    if labels and _is_free(taken, labels.start(), start - 1):
        yield labels.start(), start - 1, mark_of("host", labels[0][:-1])


def _is_free(taken: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether [start, end) meets none of the sorted spans, which do not overlap."""
    at = bisect_left(taken, (start, start))
    return not (at < len(taken) and taken[at][0] < end) and not (at > 0 and taken[at - 1][1] > start)
