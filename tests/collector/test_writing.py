"""The process that writes the bundle is given up when its place does not answer, not when the host is busy."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from flatline.collector.supervision import writing
from flatline.collector.supervision.writing import StalledError, WritingProcess

from flatline.bundle.shelf import Disk

BUSY_S = 0.6


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch):
    """Begins a writing process whose disk is as slow as `append` makes it."""
    begun: list[WritingProcess] = []

    def begin(append, *, patience=lambda seconds: seconds) -> WritingProcess:
        monkeypatch.setattr(Disk, "append", append)
        begun.append(WritingProcess(tmp_path / "b.zip", over=True, patience=patience))
        monkeypatch.setattr(writing, "ANSWER_S", BUSY_S / 6)
        return begun[-1]

    yield begin
    for one in begun:
        one.abandon()


def computes(self: Disk, offset: int, blob: bytes) -> None:
    end = time.monotonic() + BUSY_S
    while time.monotonic() < end:
        pass


def sleeps(self: Disk, offset: int, blob: bytes) -> None:
    signal.pause()


def test_a_child_that_only_wants_a_processor_is_waited_for(shelf):
    place = shelf(computes)
    place.append(0, b"member")
    assert place.file.getvalue() == b"member"


def test_a_child_that_sleeps_is_given_up(shelf):
    place = shelf(sleeps)
    with pytest.raises(StalledError, match="does not answer"):
        place.append(0, b"member")
    with pytest.raises(ProcessLookupError):
        os.kill(place.pid, 0)


def test_when_no_time_is_left_nothing_is_waited_for(shelf):
    place = shelf(computes, patience=lambda seconds: min(seconds, BUSY_S / 12))
    with pytest.raises(StalledError):
        place.append(0, b"member")
