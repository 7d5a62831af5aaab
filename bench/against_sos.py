"""The same faults under flatline and under sos (apt install sosreport), side by side, each with the same time.

    python bench/against_sos.py [--deadline 7] [--patience 40] [FAULT…]

Each is asked about one job, and asked to be done within the deadline: flatline by --deadline, sos by --plugin-timeout
and --cmd-timeout where its version knows them, with its plugins for processes and file systems alone. Measured: when it
had returned (or that it had not after the patience, and was killed), whether an archive that opens was there, whether
it held the job's command line, and how many of its processes were left. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "fixtures"))
from faults.stalling_fuse import stalling_mount  # noqa: E402

FAULTS = ROOT / "fixtures" / "faults"
MARK = "FLATLINE_BENCH"
TOOLS = ("ps", "lsof", "pstree", "py-spy", "dmesg", "gdb")
GONE_S = 5.0
"""What ends with its parent needs a moment on a busy host."""
JOB_WORD = "a-word-of-the-jobs-command-line"


@dataclass
class Setting:
    """Where one collector runs."""

    out: Path
    env: dict[str, str]
    signal_after_s: float | None = None
    number: int = signal.SIGKILL


@dataclass(frozen=True)
class Outcome:
    """How it went."""

    seconds: float | None
    """None: it had not returned in time."""
    archive: bool
    job_in_it: bool
    left: int

    def cells(self, patience_s: float) -> str:
        """Three cells of the table."""
        end = f"{self.seconds:.1f} s" if self.seconds is not None else f"not within {patience_s:g} s"
        held = "yes, with the job" if self.job_in_it else ("yes, without the job" if self.archive else "none")
        return f"{end} | {held} | {self.left}"


@contextlib.contextmanager
def nothing(setting: Setting) -> Iterator[None]:
    """No fault, for scale."""
    yield


def tool(fixture: str, *names: str) -> Callable[[Setting], contextlib.AbstractContextManager[None]]:
    """Tools of these names, first in PATH, are this program."""

    @contextlib.contextmanager
    def put_on(setting: Setting) -> Iterator[None]:
        folder = setting.out / "bin"
        folder.mkdir()
        for name in names:
            (folder / name).write_text(f"#!/bin/sh\nexec {sys.executable} {FAULTS / fixture} \"$@\"\n")
            (folder / name).chmod(0o755)
        setting.env["PATH"] = f"{folder}:{setting.env['PATH']}"
        yield

    return put_on


@contextlib.contextmanager
def dead_mount(setting: Setting) -> Iterator[None]:
    """A file system of the host has stopped answering."""
    with stalling_mount() as mount:
        mount.stall()
        yield


@contextlib.contextmanager
def full_disk(setting: Setting) -> Iterator[None]:
    """The place of the archive has room for 64 KiB; /tmp has more."""
    small = setting.out / "archive"
    small.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", small], check=False)


def signalled(number: int, after_s: float) -> Callable[[Setting], contextlib.AbstractContextManager[None]]:
    """Ended by this signal so long after its start."""

    @contextlib.contextmanager
    def put_on(setting: Setting) -> Iterator[None]:
        setting.signal_after_s, setting.number = after_s, number
        yield

    return put_on


KINDS: dict[str, Callable[[Setting], contextlib.AbstractContextManager[None]]] = {
    "no fault": nothing,
    "tools ignore SIGTERM, a grandchild holds the pipe": tool("stubborn_tool.py", *TOOLS),
    "tools flood": tool("floods.py", *TOOLS),
    "a mount does not answer": dead_mount,
    "its own place is full": full_disk,
    "SIGKILL after 5 s": signalled(signal.SIGKILL, 5.0),
    "SIGTERM after 5 s": signalled(signal.SIGTERM, 5.0),
}


def flatline(setting: Setting, pid: int, deadline_s: float) -> list[str]:
    """Its command line."""
    place = setting.out / "archive"
    place.mkdir(exist_ok=True)
    begin = [sys.executable, "-m", "flatline", "collect", "--pid", str(pid)]
    return [*begin, "-o", f"{place}/b.flatline.zip", "--deadline", f"{deadline_s:g}", "--quiet"]


def sos(setting: Setting, pid: int, deadline_s: float) -> list[str]:
    """Its command line: the plugins that look at processes and file systems."""
    place = setting.out / "archive"
    place.mkdir(exist_ok=True)
    known = subprocess.run(["sos", "report", "--help"], capture_output=True, text=True, check=False).stdout
    names = [name for name in ("--plugin-timeout", "--cmd-timeout") if name in known]
    limits = [word for name in names for word in (name, f"{deadline_s:g}")]
    return ["sos", "report", "--batch", "-o", "process,filesys", "--tmp-dir", str(place), *limits]


def run(command: list[str], setting: Setting, patience_s: float) -> Outcome:
    """Run it to its end, to its signal or to the end of our patience, and look at what is there."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, env=setting.env, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    seconds = None
    try:
        if setting.signal_after_s is not None:
            try:
                process.wait(setting.signal_after_s)
            except subprocess.TimeoutExpired:
                process.send_signal(setting.number)
        process.communicate(timeout=patience_s)  # as who captures its output would wait
        seconds = time.monotonic() - began
    except subprocess.TimeoutExpired:
        pass
    archive, job_in_it = held(setting.out)
    left = still_there(setting.env[MARK])
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    return Outcome(seconds, archive, job_in_it, len([pid for pid in left if pid != process.pid]))


def held(out: Path) -> tuple[bool, bool]:
    """Whether there is an archive that opens, and whether the job is in one."""
    opened, found = False, False
    for path in [*out.rglob("*.zip"), *out.rglob("*.tar*")]:
        try:
            texts = list(_texts(path))
        except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile):
            continue
        opened, found = True, found or any(JOB_WORD.encode() in text for text in texts)
    return opened, found


def _texts(path: Path) -> Iterator[bytes]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            yield from map(archive.read, archive.namelist())
        return
    with tarfile.open(path) as archive:
        for member in archive:
            unpacked = archive.extractfile(member) if member.isfile() else None
            if unpacked is not None:
                yield unpacked.read(16 << 20)


def still_there(mark: str) -> list[int]:
    """What has the mark in its environment, and has not ended within `GONE_S`."""
    wanted, give_up = f"{MARK}={mark}".encode(), time.monotonic() + GONE_S
    while True:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
        if not found or time.monotonic() > give_up:
            return found
        time.sleep(0.1)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT")
    parser.add_argument("--deadline", type=float, default=7.0)
    parser.add_argument("--patience", type=float, default=40.0)
    args = parser.parse_args()
    tools = {"flatline": flatline, "sos": sos}
    if os.geteuid() != 0 or shutil.which("sos") is None:
        print("needs root and sos (Debian, Ubuntu: apt-get install sosreport)", file=sys.stderr)
        return 2
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import flatline.collector.commands.collect"], check=True)
    start_s = time.monotonic() - began
    print(f"On a host whose load is {os.getloadavg()[0]:.0f}; flatline's own start takes {start_s:.1f} s.\n")
    head = " | ".join(f"{name}: ended | archive | left running" for name in tools)
    print(f"| fault | {head} |\n|---" + "|---" * 3 * len(tools) + "|")
    job = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", JOB_WORD], stdin=subprocess.DEVNULL)
    try:
        for fault in args.faults or KINDS:
            cells = []
            for command in tools.values():
                out = Path(tempfile.mkdtemp(prefix="flatline-bench-"))
                setting = Setting(out, {**os.environ, MARK: f"{os.getpid()}-{fault}", "TMPDIR": str(out)})
                with KINDS[fault](setting):
                    outcome = run(command(setting, job.pid, args.deadline), setting, args.patience)
                cells.append(outcome.cells(args.patience))
                shutil.rmtree(out, ignore_errors=True)
            print(f"| {fault} | {' | '.join(cells)} |", flush=True)
    finally:
        job.kill()
        job.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
