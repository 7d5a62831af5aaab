"""`flatline demo`: the whole path on a job that is really stuck, with nothing but Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from flatline.arguments import Parser
from flatline.errors import EXIT_CAUSE_NAMED, FlatlineError

JOB = Path(__file__).with_name("demo_job.py")
SILENT_S = 1.0
"""The demo's job counts as silent when its pipe has been full for this long."""


def main(argv: Sequence[str]) -> int:
    """Run the demo; 0 when a cause was named."""
    parser = Parser(
        prog="flatline demo",
        description="Start a job that gets stuck, collect a bundle from it, analyze the bundle, write the report.",
        epilog="example: flatline demo -o /tmp/first-look",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for bundle and report (default: a new one)")
    args = parser.parse_args(argv)
    try:
        folder = Path(args.output or tempfile.mkdtemp(prefix="flatline-demo-")).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return show(folder)
    except FlatlineError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"flatline: the demo cannot use its folder: {error}", file=sys.stderr)
        return 2


def show(folder: Path) -> int:
    """Start the job, tell what is done, and stop the job again whatever happens."""
    say("1. Starting a job: a launcher, and a trainer whose stderr nobody reads.")
    launcher = subprocess.Popen(
        [sys.executable, str(JOB)], cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until_silent(launcher, folder / "train.log")
        say(f"   It is stuck now (launcher pid {launcher.pid}); its log ends with {last_line(folder / 'train.log')!r}.")
        bundle = folder / "demo.flatline.zip"
        say("2. Collecting what it leaves:")
        flatline("collect", "--pid", str(launcher.pid), "-o", str(bundle), stdout=subprocess.DEVNULL)
        say("3. Naming the cause:\n")
        code = flatline("analyze", str(bundle))
        report = folder / "report.html"
        flatline("analyze", str(bundle), "--format", "html", "-o", str(report), stdout=subprocess.DEVNULL)
    finally:
        stop(launcher)
    say(f"\nThe bundle: {bundle}\nThe report: {report}")
    return 0 if code == EXIT_CAUSE_NAMED else code or 1


def flatline(*args: str, stdout: int | None = None) -> int:
    """Run a command of ours as a user would; its exit code."""
    try:
        done = subprocess.run([sys.executable, "-m", "flatline", *args], stdout=stdout, timeout=120, check=False)
    except subprocess.TimeoutExpired as late:
        raise FlatlineError(f"`flatline {args[0]}` had not ended after {late.timeout:.0f} s") from None
    if done.returncode not in (0, EXIT_CAUSE_NAMED):
        raise FlatlineError(
            f"`flatline {' '.join(args)}` exited with {done.returncode}",
            next_step=f"{sys.executable} -m flatline {' '.join(args)}",
        )
    return done.returncode


def wait_until_silent(launcher: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the trainer has logged and then done nothing for a while; FlatlineError if it ends instead."""
    deadline = time.monotonic() + 30
    last, since = -1, time.monotonic()
    while time.monotonic() < deadline:
        if launcher.poll() is not None:
            raise FlatlineError(f"the demo's job ended with {launcher.returncode} instead of getting stuck")
        written = cpu_ticks(launcher.pid) + (log.stat().st_size if log.exists() else 0)
        if written != last:
            last, since = written, time.monotonic()
        elif written and time.monotonic() - since > SILENT_S:
            return
        time.sleep(0.1)
    raise FlatlineError("the demo's job did not get stuck within 30 s")


def cpu_ticks(pid: int) -> int:
    """CPU ticks of a process and its direct children: they stand still once the job does."""
    total = 0
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for member in (str(pid), *children):
            fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
    except OSError:
        return total
    return total


def last_line(log: Path) -> str:
    """The last line of the job's log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else ""


def stop(launcher: subprocess.Popen[bytes]) -> None:
    """End the demo's job, which is ours alone."""
    try:
        os.killpg(launcher.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    launcher.wait(10)


def say(text: str) -> None:
    """Tell the person what happens, in order with what our commands print."""
    print(text, flush=True)
