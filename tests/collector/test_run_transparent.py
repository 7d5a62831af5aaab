"""A job under `flatline run` has its terminal, its stops and its output as without it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kept_jobs import ENV, command, ran
from programs import wait_until

GIB = 1 << 30
LIMIT_S = 60
"""For a terminal to say what is waited for: beyond it something is broken, however busy the host is."""


class Terminal:
    """A pseudo-terminal with a program on it, and all it has said."""

    def __init__(self, argv: list[str]) -> None:
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, {**ENV, "TERM": "dumb", "PS1": "$ ", "HISTFILE": ""})
        self.said = b""

    def type(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: bytes) -> bytes:
        """Until it has been said since the last wait; what was said before it."""
        give_up = time.monotonic() + LIMIT_S
        while text not in self.said:
            assert time.monotonic() < give_up, self.said
            if select.select([self.end], [], [], 1)[0]:
                self.said += os.read(self.end, 4096)
        before, _, self.said = self.said.partition(text)
        return before


@contextmanager
def terminal(argv: list[str]) -> Iterator[Terminal]:
    one = Terminal(argv)
    try:
        yield one
    finally:
        os.kill(one.pid, signal.SIGKILL)
        os.waitpid(one.pid, 0)
        os.close(one.end)  # who is left on it gets SIGHUP


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_ctrl_z_stops_the_job_with_us_and_fg_lets_both_go_on(tmp_path):
    (tmp_path / "job.py").write_text(
        "import os, signal, sys, time\nwent_on = []\n"
        "signal.signal(signal.SIGCONT, lambda *_: went_on.append(1))\n"
        "print('pids', os.getppid(), os.getpid(), 'ready', flush=True)\n"
        "while not went_on: time.sleep(0.01)\n"
        "print('typed', sys.stdin.readline().strip(), flush=True)\nsys.exit(5)\n"
    )
    with terminal(["/bin/bash", "--norc", "-i"]) as shell:
        shell.type(" ".join(command("--silence", "1h", "--", sys.executable, str(tmp_path / "job.py"))) + "\n")
        shell.wait_for(b"pids ")
        ours, job = map(int, shell.wait_for(b"ready").split())
        shell.type("\x1a")
        shell.wait_for(b"Stopped")
        wait_until(lambda: state_of(ours) == state_of(job) == "T", what="both are stopped")
        shell.type("fg\n")
        shell.type("words\n")
        shell.wait_for(b"typed words")
        shell.wait_for(b"ended after")
        shell.type("echo code-$?\n")
        shell.wait_for(b"code-5")


def test_the_job_is_told_of_a_new_size_of_its_window():
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print('size', *os.get_terminal_size(), flush=True))\n"
        "print('ready', flush=True)\nwhile True: signal.pause()\n"
    )
    with terminal(command("--", sys.executable, "-c", code)) as window:
        window.wait_for(b"ready")
        for rows, columns in ((40, 132), (24, 80)):
            window.size(rows, columns)
            window.wait_for(b"size %d %d" % (columns, rows))


@pytest.mark.slow
def test_a_gibibyte_passes_through_and_is_not_kept(start):
    """Counted, and with its sum: nothing is lost, doubled or put in another order."""
    code = "import os, sys\nblock = bytes(range(256)) * 4096\nfor n in range(1024): sys.stdout.buffer.write(n.to_bytes(8, 'big') + block[8:])"
    process = start(command("--no-recorder", "--", sys.executable, "-c", code), stdout=subprocess.PIPE, env=ENV)
    block, count = bytes(range(256)) * 4096, 0
    while piece := process.stdout.read(1 << 20):
        assert piece == count.to_bytes(8, "big") + block[8:]
        count += 1
        if count == 1000:
            status = Path(f"/proc/{process.pid}/status").read_text()
    assert (count << 20, process.wait(60)) == (GIB, 0)
    assert int(status.split("VmHWM:")[1].split()[0]) < 256 << 10  # KiB


def test_bytes_of_all_kinds_pass_on_both_streams():
    code = (
        "import os, random\nrandom.seed(7)\n"
        "for n in range(400):\n    data = random.randbytes(random.randrange(1, 9000))\n    os.write(1 + n % 2, data)\n"
    )
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    done = ran(command("--quiet", "--", sys.executable, "-c", code))
    sums = [[hashlib.sha256(text).hexdigest() for text in (one.stdout, one.stderr)] for one in (plain, done)]
    assert sums[0] == sums[1]


def test_a_job_that_stops_itself_is_no_end(start, tmp_path):
    """Its keeper stays, and the job goes on when it is told to."""
    process = start(
        command("--quiet", "--no-recorder", "--", "sh", "-c", f"echo $$ >{tmp_path}/pid; kill -STOP $$; exit 3"),
        env=ENV,
    )
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), what="it has begun")
    job = int((tmp_path / "pid").read_text())
    wait_until(lambda: state_of(job) == "T", what="it has stopped itself")
    assert process.poll() is None
    os.kill(job, signal.SIGCONT)
    assert process.wait(60) == 3


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGPROF, signal.SIGIO, signal.SIGABRT, signal.SIGRTMIN + 3])
def test_no_signal_that_would_end_us_leaves_the_job_to_itself(start, tmp_path, number):
    program = (
        f"trap 'echo got {int(number)}; exit 9' {int(number)}; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    )
    process = start(command("--no-recorder", "--", "bash", "-c", program), stdout=subprocess.PIPE, env=ENV)
    wait_until((tmp_path / "ready").exists, what="the job is ready", seconds=60)
    process.send_signal(number)
    assert process.wait(60) == 9
    assert process.stdout.read() == f"got {int(number)}\n".encode()


def test_an_alarm_that_was_set_before_ends_the_job():
    """As in ``perl -e 'alarm 60; exec @ARGV' COMMAND``: the alarm outlives exec."""
    before = "import os, signal, sys; signal.setitimer(signal.ITIMER_REAL, 1); os.execv(sys.argv[1], sys.argv[1:])"
    done = ran([sys.executable, "-c", before, *command("--quiet", "--no-recorder", "--", "sleep", "600")])
    assert done.returncode == -signal.SIGALRM


def test_a_script_without_an_interpreter_is_the_shells(tmp_path):
    script = tmp_path / "script"
    script.write_text('echo "$0 $1"; exit 3\n')
    script.chmod(0o755)
    for word, env in (("./script", ENV), ("script", {**ENV, "PATH": f"{tmp_path}:{ENV['PATH']}"})):
        done = ran(command("--quiet", "--", word, "a b"), cwd=tmp_path, env=env)
        shown = word if word.startswith(".") else script
        assert (done.returncode, done.stdout, done.stderr) == (3, f"{shown} a b\n".encode(), b"")


def in_a_folder_that_is_gone(tmp_path, *words: str):
    """Run `flatline` there."""
    (tmp_path / "gone").mkdir()
    before = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    argv = [sys.executable, "-c", before, sys.executable, "-m", "flatline", *words]
    return ran(argv, cwd=tmp_path / "gone", env={**ENV, "TMPDIR": str(tmp_path)})


def test_in_a_folder_that_is_gone_a_job_starts(tmp_path):
    script = "import os\ntry: os.getcwd()\nexcept OSError: print('gone')"
    done = in_a_folder_that_is_gone(tmp_path, "run", "--quiet", "--", sys.executable, "-c", script, "--log", "mine.log")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"gone\n", b"")


def test_from_a_folder_that_is_gone_the_bundle_goes_elsewhere(start, tmp_path):
    job = start(["sleep", "600"])
    done = in_a_folder_that_is_gone(tmp_path, "collect", "--pid", str(job.pid), "--window", "1")
    (bundle,) = tmp_path.glob("*.flatline.zip")
    assert done.returncode in (0, 3)  # with or without a stack of its C frames
    assert done.stdout.decode().strip() == str(bundle)
    assert b"put elsewhere" in done.stderr
    assert b"Traceback" not in done.stderr
