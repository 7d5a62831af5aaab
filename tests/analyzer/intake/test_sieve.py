"""A text of any length: the head, the tail, and what tells something between."""

from __future__ import annotations

from io import BytesIO

import pytest
from flatline.analyzer.intake import sieve as module
from flatline.analyzer.intake.sieve import sieve


@pytest.fixture
def small(monkeypatch):
    for name, value in (("HEAD_BYTES", 2000), ("TAIL_BYTES", 3000), ("MIDDLE_BYTES", 4000), ("CHUNK", 500)):
        monkeypatch.setattr(module, name, value)


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
    assert sum("retry" in line for line in kept.lines) <= module.SAME_SHAPE
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
