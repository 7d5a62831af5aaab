"""A text of any length: the head, the tail, and what tells something between."""

from __future__ import annotations

from io import BytesIO

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.intake import middle
from flatline.analyzer.intake import sieve as module
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.intake.sieve import Reading, sieve
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.patterns import compile_pattern


@pytest.fixture
def small(monkeypatch):
    for name, value in (("HEAD_BYTES", 2000), ("TAIL_BYTES", 3000), ("CHUNK", 500)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(middle, "COMPLAINT_BYTES", 4000)


def text(count, **special):
    return b"".join(special.get(f"at{n}", b"step %d loss 0.1 lr 0.01" % n) + b"\n" for n in range(count))


def test_a_short_text_is_kept_whole():
    kept = sieve(BytesIO(text(100)))
    assert (len(kept.lines), kept.omitted_bytes) == (100, 0)
    assert kept.lines[99] == "step 99 loss 0.1 lr 0.01"


def test_of_a_long_text_head_tail_and_telling_lines_are_kept(small):
    kept = sieve(BytesIO(text(5000, at2500=b"RuntimeError: something broke")))
    assert kept.lines[0].startswith("step 0 ")
    assert kept.lines[-1].startswith("step 4999 ")
    assert "RuntimeError: something broke" in kept.lines
    assert kept.omitted_bytes > 50_000
    assert kept.omitted_bytes + sum(len(line) + 1 for line in kept.lines) == kept.size


def test_the_same_complaint_a_thousand_times_leaves_room_for_others(small):
    lines = {f"at{n}": b"retry %d failed: connection refused" % n for n in range(1000, 3000)}
    kept = sieve(BytesIO(text(5000, **lines, at3500=b"watchdog: no progress")))
    assert sum("retry" in line for line in kept.lines) <= middle.SAME_SHAPE
    assert "watchdog: no progress" in kept.lines


def test_a_line_without_end_does_not_fill_the_memory():
    kept = sieve(BytesIO(b"a" * 40_000_000))
    assert sum(map(len, kept.lines)) < 30_000_000


def test_what_a_windows_shell_wrote_is_text():
    assert sieve(BytesIO("\ufeffFehler: ü\r\nzwei\r\n".encode("utf-16-le"))).lines == ("Fehler: ü\r", "zwei\r")
    assert sieve(BytesIO(b"\xef\xbb\xbfone\n")).lines == ("one",)


def test_binary_data_is_no_text():
    assert sieve(BytesIO(b"\x7fELF\0\0\0" * 100)).looks_binary


def test_a_log_in_which_the_power_failed_is_text():
    text = b"step 1 loss 0.5\n" * 40 + b"\0" * 12 + b"\nstep 41 loss 0.4\n" + b"step 42 loss 0.4\n" * 99
    assert sieve(BytesIO(text)).lines[-1] == "step 42 loss 0.4"


def test_nothing_is_nothing():
    assert sieve(BytesIO(b"")).lines == ()


def looking_for(*patterns):
    return Reading(patterns=lambda: [(pattern, compile_pattern(pattern, trusted=True)) for pattern in patterns])


def test_between_head_and_tail_the_lines_that_rules_look_for_are_kept_with_those_beside_them(small):
    said = text(9000, at4500=b"rank 3 entered the barrier", at4501=b"no more steps from here")
    kept = sieve(BytesIO(said), looking_for(r"entered the (?P<what>barrier)"))
    at = kept.lines.index("rank 3 entered the barrier")
    assert [line.split()[1] for line in kept.lines[at - 2 : at]] == ["4498", "4499"]
    assert kept.lines[at + 1 : at + 3] == ("no more steps from here", "step 4502 loss 0.1 lr 0.01")
    assert "rank 3 entered the barrier" not in sieve(BytesIO(said)).lines
    assert kept.omitted_bytes + sum(len(line) + 1 for line in kept.lines) == kept.size


def test_a_line_that_complains_and_is_looked_for_is_kept_once_and_in_its_place(small):
    said = text(9000, at4400=b"error 1", at4450=b"Fatal: barrier broken", at4500=b"error 2")
    kept = sieve(BytesIO(said), looking_for("barrier broken"))
    places = [kept.lines.index(line) for line in ("error 1", "Fatal: barrier broken", "error 2")]
    assert places == sorted(places)
    assert kept.lines.count("Fatal: barrier broken") == 1


def test_what_is_in_every_line_is_kept_as_often_as_a_rule_can_be_told(small):
    kept = sieve(BytesIO(text(9000, at8000=b"the one rare line")), looking_for(r"step \d+ loss", "rare line"))
    assert "the one rare line" in kept.lines
    assert middle.MOST <= sum(line.startswith("step ") for line in kept.lines) < middle.MOST + 400


def test_found_lines_of_any_length_fill_no_memory(small, monkeypatch):
    monkeypatch.setattr(middle, "FOUND_BYTES", 100_000)
    kept = sieve(BytesIO((b"needle " + b"x" * 20_000 + b"\n") * 500), looking_for("needle"))
    assert sum(map(len, kept.lines)) < 200_000


def test_patterns_are_not_asked_for_when_all_of_a_text_is_kept():
    def never():
        raise AssertionError

    assert len(sieve(BytesIO(text(100)), Reading(patterns=never)).lines) == 100


def test_a_cause_that_is_told_in_the_middle_of_a_long_log_is_named_with_the_lines_beside_it(small, tmp_path):
    said = text(9000, at4500=b"Detected at least one rank that exhausted inputs. Throwing across all ranks.")
    (tmp_path / "train.log").write_bytes(said)
    book = load_rulebook()
    with open_case([tmp_path / "train.log"], Reading(patterns=book.patterns)) as case:
        report = analyze(case, book)
    (found,) = [finding for finding in report.findings if finding.rule == "uneven-inputs"]
    (line,) = [item for item in found.evidence if "exhausted inputs" in item.quote]
    assert [before.split()[:2] for before in line.before] == [["step", "4498"], ["step", "4499"]]
