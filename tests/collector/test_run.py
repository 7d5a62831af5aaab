"""`flatline run` around real programs: they do not notice it, and what it does when they hang."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flatline.collector.commands.durations import duration
from flatline.collector.running.relay import Backlog
from kept_jobs import ENV, HEALTHY, HUNG, WAITING, command, ran, stand_in
from programs import wait_until


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bundles").mkdir()
    return tmp_path / "bundles"


# --- the job does not notice ---


@pytest.mark.parametrize("code", [0, 7, 255])
def test_the_exit_code_is_the_job_s(code):
    job = ("--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
    done = ran(command("--quiet", *job))
    assert (done.returncode, done.stdout, done.stderr) == (code, b"out\n", b"err\n")
    done = ran(command(*job))
    assert (done.returncode, done.stdout) == (code, b"out\n")
    assert re.fullmatch(rf"err\nflatline: ended after \d+\.\d s; exit code {code}\n", done.stderr.decode())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_job_that_a_signal_ended_is_seen_to_have_ended_so(number):
    done = ran(command("--no-recorder", "--", "sh", "-c", f"kill -{int(number)} $$"))
    assert done.returncode == -number


@pytest.mark.parametrize(("word", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_what_cannot_be_started_is_told_as_a_shell_does(word, code):
    assert ran(command("--", word)).returncode == code


def test_standard_input_reaches_the_job():
    assert ran(command("--", "cat"), input=b"\0\xff bytes").stdout == b"\0\xff bytes"


def test_output_passes_byte_by_byte(tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "data").write_bytes(data)
    done = ran(command("--", "cat", str(tmp_path / "data")))
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()


def test_a_job_whose_output_nobody_takes_runs_to_its_end(start, tmp_path):
    """More than the pipes and the memory hold: the rest waits on the disk."""
    program = f"head -c 20000000 /dev/zero; touch {tmp_path}/done; exit 3"
    process = start(command("--", "sh", "-c", program), stdout=subprocess.PIPE, env=ENV)
    wait_until((tmp_path / "done").exists, what="the job has written all", seconds=60)
    assert len(process.stdout.read()) == 20_000_000
    assert process.wait(30) == 3


def test_both_streams_in_one_keep_their_order():
    done = subprocess.run(
        command("--quiet", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo a$i; echo b$i >&2; done"),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, env=ENV, check=False,
    )  # fmt: skip
    assert done.stdout.split() == [word for i in range(1, 6) for word in (b"a%d" % i, b"b%d" % i)]


def test_a_file_is_given_to_the_job_as_it_is(tmp_path):
    with open(tmp_path / "out", "wb") as out:
        subprocess.run(command("--", "readlink", "/proc/self/fd/1"), stdout=out, timeout=60, check=False, env=ENV)
    assert (tmp_path / "out").read_text().strip() == str(tmp_path / "out")


def test_a_reader_that_goes_away_ends_the_job_as_it_would_without_us(start):
    process = start(command("--", "sh", "-c", "exec yes"), stdout=subprocess.PIPE, env=ENV)
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(60) == -signal.SIGPIPE


def on_terminal(argv: list[str], *, ready: bytes, keys: bytes) -> tuple[int, bytes]:
    """Run on a terminal of its own; send the keys once `ready` is printed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, ENV)
    seen, is_sent, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # nobody has it open any more
            break
        if ready in seen and not is_sent:
            is_sent = os.write(terminal, keys) > 0
    else:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), seen


def test_on_a_terminal_the_job_has_it_and_ctrl_c_comes_once():
    code = (
        "import os, signal, sys, time\nn = []\nsignal.signal(signal.SIGINT, lambda *_: n.append(1))\n"
        "print('tty', os.isatty(0), os.isatty(1), os.tcgetpgrp(0) == os.getpgrp(), 'ready', flush=True)\n"
        "while not n: time.sleep(0.01)\n"
        "time.sleep(0.3)\nprint('interrupts', len(n), flush=True)\nsys.exit(5)"
    )
    ended, seen = on_terminal(command("--", sys.executable, "-c", code), ready=b"ready", keys=b"\x03")
    assert b"tty True True True" in seen
    assert b"interrupts 1" in seen
    assert ended == 5


def test_a_signal_for_us_is_passed_on(start, tmp_path):
    program = f"trap 'echo got TERM; exit 9' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    process = start(command("--", "sh", "-c", program), stdout=subprocess.PIPE, env=ENV)
    wait_until((tmp_path / "ready").exists, what="the job is ready", seconds=60)
    process.terminate()
    assert process.wait(60) == 9
    assert process.stdout.read() == b"got TERM\n"


def test_the_recorder_runs_in_the_job_and_its_files_go(tmp_path):
    program = "import flatline, os, sys; print('_flatline_recorder' in sys.modules); os.kill(os.getpid(), 9)"
    done = ran(command("--", sys.executable, "-c", program), env={**ENV, "TMPDIR": str(tmp_path)})
    assert done.returncode == -9
    assert done.stderr.decode().splitlines()[0].split(": ", 2)[2].startswith("last mark: ")
    assert list(tmp_path.iterdir()) == []


# --- what it does when the job hangs ---


def test_a_silent_job_is_collected_and_named_and_runs_on(start, folder):
    argv = stand_in("run", "--silence", "0.3", "--bundle-dir", str(folder), "--", "sh", "-c", "exec sleep 600")
    process = start(argv, env={**ENV, "REPORT": HUNG}, stderr=subprocess.PIPE)
    lines = [process.stderr.readline().decode().strip() for _ in range(6)]
    assert re.fullmatch(r"flatline: pid \d+: silent for \d+ s", lines[0])
    assert lines[1:] == ["flatline: verdict: hung", "flatline: it waits", "flatline: root cause (None): A lock [x]", f"flatline: bundle: {folder}/made.zip", f"flatline: next: flatline analyze {folder}/made.zip"]
    assert (folder / "made.zip").read_text() == "whole"
    assert process.poll() is None
    process.terminate()
    assert process.wait(30) == -signal.SIGTERM


def test_with_kill_the_whole_tree_ends_after_the_bundle_is_written(start, folder, tmp_path):
    """Also what ignores SIGTERM, and what has left its parent and its session."""
    program = f"trap '' TERM; (setsid sleep 601 &) ; sleep 602 & echo $! >{tmp_path}/pid; wait"
    argv = stand_in("run", "--silence", "0.3", "--on-hang", "collect+kill", "--grace", "0.3", "--bundle-dir", str(folder), "--", "sh", "-c", program)
    process = start(argv, env={**ENV, "REPORT": HUNG}, stderr=subprocess.DEVNULL)
    assert process.wait(60) == 124
    assert (folder / "made.zip").exists()
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert subprocess.run(["pgrep", "-s", "0", "-f", "sleep 601"], capture_output=True, check=False).stdout == b""


def test_a_job_that_takes_too_long_is_collected_and_ended(folder):
    argv = stand_in("run", "--timeout", "0.5", "--grace", "5", "--bundle-dir", str(folder), "--", "sh", "-c", "while :; do echo x; sleep 0.1; done")
    done = ran(argv, env={**ENV, "REPORT": HEALTHY})
    assert done.returncode == 124
    assert b"not done after 0.5 s" in done.stderr
    assert (folder / "made.zip").exists()


@pytest.mark.parametrize("program", ["while :; do echo x; sleep 0.1; done", "exec timeout 3 sh -c 'while :; do :; done'"], ids=["prints", "computes"])
def test_a_job_that_moves_is_left_alone(folder, program):
    argv = stand_in("run", "--silence", "1.5", "--bundle-dir", str(folder), "--timeout", "3", "--", "sh", "-c", program)
    done = ran(argv, env={**ENV, "REPORT": HUNG})
    assert b"silent" not in done.stderr


def test_marks_of_the_recorder_count_as_life(folder, tmp_path):
    program = "import flatline, time\nfor n in range(25):\n    with flatline.phase('step'): time.sleep(0.1)"
    done = ran(stand_in("run", "--quiet", "--silence", "1.2", "--bundle-dir", str(folder), "--", sys.executable, "-c", program), env={**ENV, "REPORT": HUNG})
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("report", "seen"),
    [(HEALTHY, "it is healthy"), (WAITING, r"it is waiting by design \(asleep until 06:00\)")],
    ids=["healthy", "by design"],
)
def test_what_the_analysis_calls_no_hang_is_said_in_one_line(start, folder, report, seen):
    argv = ("--silence", "0.3", "--bundle-dir", str(folder), "--", "sleep")
    process = start(stand_in("run", *argv, "600"), env={**ENV, "REPORT": report}, stderr=subprocess.PIPE)
    looked = process.stderr.readline().decode()
    assert re.fullmatch(rf"flatline: pid \d+: silent for \d+ s: looked, and {seen}; next look in \d+ s at the earliest\n", looked)
    assert list(folder.iterdir()) == []
    process.kill()
    done = ran(stand_in("run", *argv, "2"), env={**ENV, "REPORT": report})
    assert (done.returncode, done.stderr.splitlines()[-1].startswith(b"flatline: ended after")) == (0, True)
    assert ran(stand_in("run", "--quiet", *argv, "2"), env={**ENV, "REPORT": report}).stderr == b""


def test_who_ends_a_silent_job_gets_a_quick_bundle_first(start, folder, tmp_path):
    program = f"touch {tmp_path}/ready; exec sleep 600"
    process = start(stand_in("run", "--silence", "4", "--bundle-dir", str(folder), "--", "sh", "-c", program), env={**ENV, "REPORT": HUNG}, stderr=subprocess.PIPE)
    wait_until((tmp_path / "ready").exists, what="the job is ready", seconds=60)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.8)  # more than a quarter of the silence
    process.terminate()
    assert process.wait(30) == -signal.SIGTERM
    assert (folder / "made.zip").read_text() in ("fast", "whole")


def test_a_running_job_can_be_watched(start, folder):
    job = start(["sleep", "600"])
    watching = start(stand_in("watch", "--pid", str(job.pid), "--silence", "0.3", "--bundle-dir", str(folder)), env={**ENV, "REPORT": HUNG}, stderr=subprocess.PIPE)
    wait_until((folder / "made.zip").exists, what="it is collected", seconds=60)
    job.kill()
    job.wait()
    assert watching.wait(30) == 10
    assert b"root cause" in watching.stderr.read()
    assert ran(stand_in("watch", "--pid", str(job.pid)), env={**ENV, "REPORT": HUNG}).returncode == 4


def test_a_watch_that_ends_the_job_says_so(start, folder):
    job = start(["sleep", "600"])
    words = ("--silence", "0.3", "--on-hang", "collect+kill", "--bundle-dir", str(folder))
    done = ran(stand_in("watch", "--pid", str(job.pid), *words), env={**ENV, "REPORT": HUNG})
    assert (job.wait(10), done.returncode) == (-signal.SIGTERM, 124)
    assert re.search(rb"flatline: ended by flatline after \d+\.\d s; exit code 124\n\Z", done.stderr)


# --- parts ---


def test_what_memory_does_not_hold_keeps_its_order_on_the_disk():
    backlog = Backlog(memory=10)
    pieces = [bytes([n]) * 4 for n in range(9)]
    for piece in pieces[:6]:
        backlog.put(piece)
    taken = [backlog.take()]
    for piece in pieces[6:]:
        backlog.put(piece)
    backlog.close()
    while piece := backlog.take():
        taken.append(piece)
    assert b"".join(taken) == b"".join(pieces)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5h", 5400), ("2m", 120), ("1d", 86400)])
def test_times_are_read_as_written(text, seconds):
    assert duration(text) == seconds
