"""What the person sees while collect waits."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest
from faults.stalling_fuse import wait_for_state
from flatline.collector import progress
from flatline.collector.commands.collect import hidden_text
from flatline.collector.progress import Block, Lines, Silent, progress_for
from flatline.collector.supervision.child import Running

NOW = 100_000_000_000


def running(name: str, doing: str, *, since_s: float, now: int = NOW, pid: int = 2**22 + 1, spans: bool = False) -> Running:
    """A probe at work for so long; no process has this pid."""
    began = now - int(since_s * 1e9)
    return Running(name, pid, began, began + 8_000_000_000, spans, doing, began)


def test_a_slow_probe_is_named_with_what_it_waits_for_and_its_limit():
    lines = progress.block(
        [running("stacks", "waiting for py-spy on pid 123", since_s=3.2), running("logs", "reading", since_s=0.1)],
        NOW - 5_000_000_000,
        NOW,
    )
    assert lines == ["collecting, 5 s: stacks, logs", "  stacks: waiting for py-spy on pid 123, 3.2 s of 8.0 s"]


def test_a_probe_that_only_watches_is_not_called_slow():
    assert progress.block([running("processes", "round 1", since_s=3.0, spans=True)], NOW, NOW) == [
        "collecting, 0 s: processes"
    ]


def test_of_many_slow_ones_the_slowest_are_shown():
    many = [running(f"probe-{n}", "waiting", since_s=2.0 + n / 10) for n in range(9)]
    lines = progress.block(many, NOW, NOW)
    assert lines[1].startswith("  probe-8:")
    assert lines[-1] == "  and 3 more that are slow"


READ_WHEN_TOLD = "import sys; log = open(sys.argv[1], 'rb'); print('open', flush=True); input(); log.read(10)"


def test_a_process_that_the_kernel_holds_is_named(mount, start):
    argv = [sys.executable, "-c", READ_WHEN_TOLD, mount.path / "data/shard-000.bin"]
    reader = start(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "open\n"
    assert "state D" not in progress.describe(running("logs", "reading", since_s=1.0, pid=reader.pid), NOW)
    mount.stall()
    reader.stdin.write("read\n")
    reader.stdin.flush()
    wait_for_state(reader.pid, "D")
    text = progress.describe(running("logs", "reading", since_s=1.0, pid=reader.pid), NOW)
    assert f"reading, 1.0 s of 8.0 s; pid {reader.pid} (python" in text
    assert ") is in state D" in text


def test_without_a_terminal_each_slow_probe_is_told_once():
    read_end, write_end = os.pipe()
    with open(write_end, "w") as stream, progress_for(stream) as shown:
        assert isinstance(shown, Lines)
        now = time.monotonic_ns()
        for _ in range(3):
            shown.update([running("stacks", "waiting", since_s=4.0, now=now), running("logs", "", since_s=0.1, now=now)])
    with open(read_end) as pipe:
        (line,) = pipe.read().splitlines()
    assert line.startswith("flatline: stacks: waiting, 4.")


def test_on_a_terminal_the_block_is_drawn_over_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.openpty()
    with open(theirs, "w") as terminal, progress_for(terminal) as shown:
        assert isinstance(shown, Block)
        shown.update([running("logs", "reading", since_s=0.0, now=time.monotonic_ns())])
        assert os.read(ours, 4096).decode() == "\r\x1b[Jcollecting, 0 s: logs\r\n"
        shown.update([])
        assert os.read(ours, 4096).decode() == "\r\x1b[1A\x1b[Jcollecting, 0 s: \r\n"
        shown.__exit__()
        assert os.read(ours, 4096).decode() == "\r\x1b[1A\x1b[J"
    os.close(ours)


def test_a_stream_that_takes_no_more_is_not_waited_for():
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    os.write(write_end, b"x" * (4 << 20))  # as much as it takes
    os.set_blocking(write_end, True)
    with open(write_end, "w") as stream:
        assert not progress.write(stream, "a line\n")
    os.close(read_end)


def test_quiet_or_closed_is_silent():
    assert type(progress_for(io.StringIO(), quiet=True)) is Silent
    closed = io.StringIO()
    closed.close()
    assert type(progress_for(closed)) is Silent


def test_the_summary_says_whether_nothing_was_found_or_nothing_was_looked_for():
    assert hidden_text({"hf-token": 3, "api-key": 1}) == "Hidden: 1 x api-key, 3 x hf-token"
    assert hidden_text({}) == "Hidden: nothing that looks like a secret was found."
    assert hidden_text(None).startswith("Hidden: nothing. The bundle is UNREDACTED")
