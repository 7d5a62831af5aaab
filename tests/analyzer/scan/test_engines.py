"""Every engine finds the same lines, whatever is installed: what the patterns find in each line alone."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import Future
from pathlib import Path

import pytest
from flatline.analyzer.judge import patterns as truth
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.patterns import compile_pattern
from flatline.analyzer.scan import by_hyperscan, by_re2, choice, scanner
from flatline.analyzer.scan.interface import MAX_LINE, Sought, Text
from flatline.analyzer.scan.near import MAX_BYTES
from flatline.analyzer.scan.scanner import Scanner

PASTED = Path(__file__).parents[3] / "fixtures" / "pasted"
BUILT_IN = tuple(dict.fromkeys(text for rule in load_rulebook().rules for text in rule.model.patterns.values()))
ODD = (
    r"^tail: (?P<what>\S+)$", r"(?i)mixed CASE", "\u00e9b$", r"[█▓]+ \d%", r"a.b", r"out.{0,3}of", r"no \S+ space", r"x{3}\by",
    r"^\s*end\s*$", r"(begin|start(ed)?|) here", r"\Aonly", r"z+?q*", r"[^a-z\n]{2}[^\s]Q", r"literal\.with\(marks\)", r".*",
    r"(?i)press enter|请按任意键", r"(?i)größe \d",
)  # fmt: skip
MOST, TAIL = 40, 20

AWKWARD = [
    b"", b"tail: x\r", b"tail: x", b"tail: x\r\r", b"mixed case \xc3\xa9", b"MIXED CASE \xc3\xa9", b"\xe2\x96\x88\xe2\x96\x88 7%", b"a\xc3\xa9b",
    b"a\xffb", b"a\xf0\x9f\x98\x80b", b"out\xe4\xb8\xad\xe6\x96\x87of", b"no\x0b space", b"no a\x0bb space", b"no \xc2\xa0 space", b"xxx\x00y",
    b"a\x00b", b"  end  ", b"\x0bend", b" here", b"only", b"zzz", b"\xff\xfe-Q", b"AA\xf0\x9f\x98\x80Q", b"literal.with(marks)", b"   ", b"\t\r",
    b"y" * 200_000 + b" tail: x", b"a" * (MAX_LINE - 2) + b"a.b", b"q" * MAX_LINE, b"q" * MAX_LINE + b"tail: x",
    "先请按任意键".encode(), "GRÖSSE 1".encode(), "GRÖßE 2".encode(), "gr\u00d6\u1e9ee 3".encode(),
]  # fmt: skip




@pytest.fixture(params=["re2, asked of re2", "hyperscan, asked of re2", "hyperscan, asked of re", "find, asked of re"])
def engine(request, monkeypatch):
    """One engine alone, from the first byte on."""
    if ("hyperscan" in request.param and by_hyperscan.hyperscan is None) or (request.param.endswith("re2") and by_re2.re2 is None):
        pytest.skip("there is no wheel of it here")
    if request.param.endswith("re"):
        monkeypatch.setattr(by_re2, "re2", None)
        monkeypatch.setattr(truth, "re2", None)
    if request.param.startswith("hyperscan"):
        for name in ("WARM_UP", "LONG", "LONG_WITHOUT_RE2"):
            monkeypatch.setattr(choice, name, 0)
        monkeypatch.setattr(choice, "beside", at_once)
    else:
        monkeypatch.setattr(by_hyperscan, "hyperscan", None)


def at_once(work):
    future = Future()
    future.set_result(work())
    return future


def lines_of(text: bytes) -> list[bytes]:
    """As `BundleReader.lines` cuts them."""
    cut = [line[at : at + MAX_LINE] for line in text.split(b"\n") for at in range(0, max(len(line), 1), MAX_LINE)]
    return cut[:-1] if text.endswith(b"\n") or not text else cut


Hit = tuple[int, str, int, str, dict[str, str | None], tuple[str, ...], tuple[str, ...]]


def beside(lines: list[bytes], number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The two lines before one and the two after it, blank ones at the far ends left out."""
    texts = ["", "", *(shortened(line) if line.strip() else "" for line in lines), "", ""]
    before, after = texts[number - 1 : number + 1], texts[number + 2 : number + 4]
    while before and not before[0]:
        del before[0]
    while after and not after[-1]:
        del after[-1]
    return tuple(before), tuple(after)


def shortened(line: bytes) -> str:
    if len(line) <= MAX_BYTES:
        return line.removesuffix(b"\r").decode("utf-8", "replace")
    return line[:MAX_BYTES].decode("utf-8", "replace").rstrip("\ufffd") + "…"


def alone(patterns: tuple[str, ...], text: bytes) -> tuple[list[Hit], list[Hit], int]:
    """The first hits, those in the tail and the last line that is not blank, each pattern tried on each line."""
    every = lines_of(text)
    lines = [(number, line) for number, line in enumerate(every, start=1) if line.strip()]
    last = max((number for number, _ in lines), default=0)
    first, tail, counts = [], [], dict.fromkeys(patterns, 0)
    compiled = [(pattern, compile_pattern(pattern, trusted=True)) for pattern in patterns]
    for number, line in lines:
        shown = line.removesuffix(b"\r").decode("utf-8", "replace")
        for pattern, one in compiled:
            match = one.search(shown)
            if match is None:
                continue
            hit = (number, pattern, len(shown), shown[-40:], match.groupdict(), *beside(every, number))
            counts[pattern] += 1
            first += [hit] if counts[pattern] <= MOST else []
            tail += [hit] if number > last - TAIL else []
    return first, tail, last


def together(
    patterns: tuple[str, ...], text: bytes, rng: random.Random, tail_only: frozenset[int] = frozenset()
) -> tuple[list[Hit], list[Hit], int]:
    """The same by a scanner, from pieces of any length."""
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(1, 40)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    compiled = [(p, compile_pattern(p, trusted=True)) for p in patterns]
    found = Scanner(compiled, most=MOST, tail_lines=TAIL, tail_only=tail_only).scan(Text(pieces, len(text)))

    def hits(these):
        return [
            (f.line.number, patterns[f.index], len(f.line.text), f.line.text[-40:], dict(f.groups), f.line.near.before, f.line.near.after)
            for f in these
        ]  # fmt: skip

    return hits(found.first), hits(found.tail), found.last


def awkward(rng: random.Random) -> bytes:
    lines = [rng.choice(AWKWARD) for _ in range(rng.randrange(1, 120))]
    ends = [rng.choice([b"\n", b"\n", b"\r\n", b"\n\n", b" \n"]) for _ in lines]
    text = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    return text if rng.random() < 0.5 else text[:-1] + b"\n" * rng.randrange(3)


@pytest.mark.parametrize("seed", range(6))
def test_awkward_texts(engine, seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(scanner, "FIRST_BLOCK", rng.choice([1, 300, 70_000]))
    monkeypatch.setattr(scanner, "LARGEST_BLOCK", rng.choice([300, 70_000, 4 * 1024**2]))
    text = awkward(rng)
    assert together(ODD, text, rng) == alone(ODD, text)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_wanted_in_the_last_lines_only_is_found_there_and_nowhere_else(engine, seed, monkeypatch):
    rng = random.Random(seed)
    monkeypatch.setattr(scanner, "FIRST_BLOCK", 300)
    text = awkward(rng)
    tail_only = frozenset(rng.sample(range(len(ODD)), 8))
    first, tail, last = alone(ODD, text)
    kept = [hit for hit in first if ODD.index(hit[1]) not in tail_only]
    assert together(ODD, text, rng, tail_only) == (kept, tail, last)


def test_what_tools_print_and_the_rules_look_for(engine, monkeypatch):
    monkeypatch.setattr(scanner, "FIRST_BLOCK", 8000)
    files = sorted(PASTED.rglob("*.txt"))[::4]
    text = b"\r\n".join(path.read_bytes()[:1500] for path in files)
    assert together(BUILT_IN, text, random.Random(0)) == alone(BUILT_IN, text)


def test_no_patterns_and_no_text(engine):
    assert together((), b"anything\n", random.Random(0)) == ([], [], 1)
    assert together(ODD, b"", random.Random(0)) == ([], [], 0)


def test_the_lines_beside_a_hit_are_there_wherever_a_block_of_the_text_ends(engine, monkeypatch):
    text = b"\n".join([b"one", b"two", b"three", b"hit tail: x", b"five", b"six", b"seven"])
    lines = ["two", "three"], ["five", "six"]
    for size in range(1, len(text) + 1):
        monkeypatch.setattr(scanner, "FIRST_BLOCK", size)
        monkeypatch.setattr(scanner, "LARGEST_BLOCK", size)
        pieces = [text[at : at + 1] for at in range(len(text))]
        search = Scanner([(r"tail: x", compile_pattern(r"tail: x", trusted=True))], most=MOST, tail_lines=TAIL)
        (found,) = search.scan(Text(pieces, len(text))).first
        assert (list(found.line.near.before), list(found.line.near.after)) == lines, size


def test_a_line_beside_a_hit_is_cut_and_one_of_several_patterns_is_beside_the_same_lines(engine):
    long = "é".encode() * 20_000
    search = Scanner([(p, compile_pattern(p, trusted=True)) for p in ("tail: x", "hit")], most=MOST, tail_lines=TAIL)
    both = search.scan(Text([b"a" + long + b"\nhit tail: x\n" + long + b"\n"])).first
    assert [found.index for found in both] == [0, 1]
    assert both[0].line is both[1].line
    near = both[0].line.near
    assert near.after == ("é" * (MAX_BYTES // 2) + "…",)
    assert all(len(text.encode()) <= MAX_BYTES + len("…".encode()) for text in near.before + near.after)


ORDINARY = (
    b"2026-03-01 10:00:00,666 INFO trainer.py:49 step 1200 loss 2.4638 grad_norm 0.094 lr 5.828e-05 tokens/s 1186 mem 72.8GiB\n"
    b"Epoch 3:  41%|####1     | 412/1000 [12:01<17:10,  1.75s/it, loss=0.213, v_num=7]\n"
    b"node7:812:901 [3] NCCL INFO Channel 02/0 : 3[3] -> 4[0] [send] via NET/IB/2/GDRDMA\n"
    b"(RolloutWorker pid=4711) Generating 128 of 4096 prompts, cache usage 41.2 %, waiting 0, running 96, swapped 0\n"
) * 50
MOST_PLACES = 4
"""In a line; one that can match ".." and nothing else is at each byte, and the scan is a hundred times slower."""


def test_no_pattern_of_the_rules_is_at_each_place_of_ordinary_lines():
    if by_hyperscan.hyperscan is None:
        pytest.skip("there is no wheel of it here")
    finder = by_hyperscan.build(tuple(map(Sought, BUILT_IN)))
    assert finder is not None
    places = Counter(index for _, which in finder.places(ORDINARY) for index in which)
    assert {BUILT_IN[index]: n for index, n in places.items() if n > MOST_PLACES * ORDINARY.count(b"\n")} == {}
