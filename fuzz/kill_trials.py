"""Ends `flatline collect` in every way at random moments, and looks at what is left of the bundle and of the job.

    python fuzz/kill_trials.py [--trials 500] [--seed 1] [--at-once 2] [--write docs/kill-trials.md]

Of each trial must hold: under the final name is nothing or a whole bundle; what was gathered is in it or can be
salvaged; the exit code is a documented one; the job looks as before; no process of ours is left. The exit code is 1
when one did not.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from flatline.bundle.format import PART_SUFFIX
from flatline.bundle.reader import open_bundle
from flatline.bundle.salvage import salvage
from flatline.errors import FlatlineError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from programs import kill_tree, look, wait_until  # noqa: E402

JOB = ROOT / "fixtures" / "stuck" / "thread_deadlock.py"
MARK = "FLATLINE_TRIAL"
"""In the environment of all that a trial starts: so what it leaves is found, whoever has adopted it."""
DEADLINE_S = 100
PATIENCE_S = 150.0
"""For a collect to end after its signal, on a host that is busy with other trials."""
GONE_S = 15.0
"""Within so long a killed collect's children have ended, the guard of an attached tool among them."""
GITHUB_S = (7.5, 2.5)
"""A cancelled job's SIGINT, SIGTERM and SIGKILL come so far apart."""

KINDS = ("SIGKILL", "two SIGINTs", "SIGSTOP, then SIGCONT", "closed stdout", "cancelled by GitHub",
         "SIGINT", "SIGTERM", "SIGHUP", "SIGSTOP, then SIGKILL")  # fmt: skip
ENDS = {"finished": "complete", "running": "early", "deadline": "cut by the deadline"}
"""What a manifest says, as a reader of the report understands it."""
MOMENTS = ("begun", "spool", "published")
CODES: dict[str, frozenset[int]] = {
    "SIGINT": frozenset({0, 3, 130}),
    "SIGTERM": frozenset({0, 3, 143}),
    "SIGHUP": frozenset({0, 3, 129}),
    "two SIGINTs": frozenset({0, 3, 130}),
    "SIGKILL": frozenset({0, 3, -9}),
    "SIGSTOP, then SIGCONT": frozenset({0, 3}),
    "SIGSTOP, then SIGKILL": frozenset({0, 3, -9}),
    "closed stdout": frozenset({0, 3}),
    "cancelled by GitHub": frozenset({0, 3, 130, 143}),
}
"""0 and 3: it had come to its end before."""
DIED_BEFORE_IT_LISTENED = frozenset({-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, 1, 130})
"""A signal that comes while Python itself still starts. Then nothing has been written."""


HEADING = """\
# Kill trials

What the last run of `fuzz/kill_trials.py` left; [reliability.md](reliability.md) says what it means.

"""


@dataclass
class Trial:
    """One of them, and what came of it."""

    number: int
    kind: str
    once: str
    """What is waited for first: ``begun``, ``spool`` (it writes) or ``published`` (the first bundle is there)."""
    after_s: float
    """And then so long."""
    code: int = 0
    left: str = ""
    """``complete``, ``cut by the deadline``, ``ended by a signal``, ``early``, ``salvaged`` or ``nothing``."""
    faults: list[str] = field(default_factory=list)


class Job:
    """What is collected from: a deadlocked Python, which nothing of all this may change."""

    def __init__(self, folder: Path) -> None:
        ready = folder / "ready"
        with open(folder / "out", "w") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(JOB)], cwd=folder, env={**os.environ, "READY": str(ready)},
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        wait_until(lambda: ready.exists() and ready.read_text().strip(), what="the job is stuck", seconds=60)
        self.pid = int(ready.read_text())
        self.before = look(self.pid)

    def changes(self) -> list[str]:
        """Which of its features are not as they were."""
        now = look(self.pid)
        return [name for name, value in self.before.items() if now.get(name) != value]

    def end(self) -> None:
        """Kill it."""
        kill_tree(self.process.pid)
        self.process.wait(20)


def begin(folder: Path, job: Job, mark: str) -> subprocess.Popen[bytes]:
    """A collect of its own, its messages in a file."""
    command = [sys.executable, "-m", "flatline", "collect", "--pid", str(job.pid), "-o", str(folder / "b.flatline.zip"),
               "--window", "0.3", "--deadline", str(DEADLINE_S)]  # fmt: skip
    env = {**os.environ, MARK: mark, "TMPDIR": str(folder)}
    with open(folder / "err", "wb") as err:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=env)


def _is_there(what: str, folder: Path) -> bool:
    final = folder / "b.flatline.zip"
    return final.exists() or (what == "spool" and final.with_name(final.name + PART_SUFFIX).exists())


def disturb(collect: subprocess.Popen[bytes], trial: Trial, folder: Path, rng: random.Random) -> None:
    """Let the moment come, and do it. A collect that has ended meanwhile is one more sample of a good end."""
    while trial.once != "begun" and collect.poll() is None and not _is_there(trial.once, folder):
        time.sleep(0.005)
    try:
        collect.wait(trial.after_s)
        return
    except subprocess.TimeoutExpired:
        pass
    if trial.kind == "closed stdout":
        assert collect.stdout is not None
        collect.stdout.close()
    elif trial.kind == "two SIGINTs":
        collect.send_signal(signal.SIGINT)
        time.sleep(rng.random() * 0.3)
        collect.send_signal(signal.SIGINT)
    elif trial.kind.startswith("SIGSTOP"):
        collect.send_signal(signal.SIGSTOP)
        time.sleep(rng.random())
        collect.send_signal(signal.SIGKILL if "SIGKILL" in trial.kind else signal.SIGCONT)
    elif trial.kind == "cancelled by GitHub":
        for number, seconds in ((signal.SIGINT, GITHUB_S[0]), (signal.SIGTERM, GITHUB_S[1])):
            collect.send_signal(number)
            try:
                collect.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue
        collect.kill()
    else:
        collect.send_signal(signal.Signals[trial.kind])


def run(trial: Trial, job: Job, seed: int) -> Trial:
    """One trial in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="flatline-trial-"))
    mark = f"{os.getpid()}-{trial.number}"
    try:
        collect = begin(folder, job, mark)
        disturb(collect, trial, folder, random.Random(seed))
        try:
            trial.code = collect.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            trial.faults.append(f"had not ended {PATIENCE_S:g} s later")
            collect.kill()
            collect.wait()
        if collect.stdout is not None:
            collect.stdout.close()
        _judge(trial, folder, job, mark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return trial


def _judge(trial: Trial, folder: Path, job: Job, mark: str) -> None:
    left = still_there(mark)
    if left:
        trial.faults.append(f"left running: {', '.join(left)}")
    try:
        trial.left = what_is_left(folder)
    except (FlatlineError, OSError, ValueError, KeyError, zipfile.BadZipFile) as bad:
        trial.faults.append(f"corrupt: {bad}")
    early_death = trial.code in DIED_BEFORE_IT_LISTENED and trial.left == "nothing"
    if trial.code not in CODES[trial.kind] and not early_death:
        said = (folder / "err").read_text(errors="replace")[-300:]
        trial.faults.append(f"exit code {trial.code}: {said}")
    if trial.code in (0, 3) and trial.left not in ("complete", "cut by the deadline", "ended by a signal"):
        trial.faults.append(f"exit code {trial.code}, but {trial.left}")
    changed = job.changes()
    if changed:
        trial.faults.append(f"the job has changed: {', '.join(changed)}")


def what_is_left(folder: Path) -> str:
    """The bundle under the final name, or what can be salvaged; raises for what is neither absent nor whole."""
    final = folder / "b.flatline.zip"
    spool = final.with_name(final.name + PART_SUFFIX)
    if final.exists():
        check(final)
        with zipfile.ZipFile(final) as archive:
            ended_by = json.loads(archive.read("manifest.json"))["ended_by"]
        return ENDS.get(ended_by, "ended by a signal")
    if spool.exists() and spool.stat().st_size:
        check(salvage(spool, folder / "saved.flatline.zip"))
        return "salvaged"
    return "nothing"


def check(bundle: Path) -> None:
    """Another program opens it, ours finds nothing to remark, and every member is what the manifest says."""
    with zipfile.ZipFile(bundle) as other:
        bad = other.testzip()
        if bad:
            raise ValueError(f"{bad} is damaged")
    with open_bundle(bundle) as reader:
        if reader.truncated:
            raise ValueError("it is truncated")
        for entry in reader.manifest.files:
            if hashlib.sha256(reader.read(entry.path)).hexdigest() != entry.sha256:
                raise ValueError(f"{entry.path} is not what the manifest says")


def still_there(mark: str) -> list[str]:
    """Those of the trial that have not ended within `GONE_S`.

    Zombies that their init does not reap do not count, nor what SIGKILL has met in state D: another program's mount on
    this host may have stopped answering.
    """
    wanted = f"{MARK}={mark}".encode()
    give_up = time.monotonic() + GONE_S
    while True:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if wanted not in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    continue
                comm, _, rest = Path(f"/proc/{name}/stat").read_text().partition(" (")[2].rpartition(") ")
                if not rest.startswith("D "):
                    found.append(f"{name} ({comm}, {rest[0]})")
            except OSError:
                continue
        if not found or time.monotonic() > give_up:
            return found
        time.sleep(0.05)


def planned(trials: int, seed: int, usual_s: float) -> list[Trial]:
    """Every kind equally often, at moments from before the first line to after the last, mostly while it writes."""
    rng = random.Random(seed)
    plan = []
    for number in range(trials):
        kind = KINDS[number % len(KINDS)]
        once = rng.choice(MOMENTS)
        plan.append(Trial(number, kind, once, rng.random() * usual_s * (1.1 if once == "begun" else 0.4)))
    return plan


def undisturbed_s(job: Job) -> float:
    """How long a collect takes here that nobody ends."""
    folder = Path(tempfile.mkdtemp(prefix="flatline-trial-"))
    began = time.monotonic()
    collect = begin(folder, job, "usual")
    collect.communicate(timeout=PATIENCE_S)
    seconds = time.monotonic() - began
    shutil.rmtree(folder, ignore_errors=True)
    return seconds


def report(done: list[Trial], command: str) -> str:
    """Markdown: the command, a row for each kind, the sums."""
    ends = (*ENDS.values(), "ended by a signal", "salvaged", "nothing")
    head = "| ended by | trials | " + " | ".join(ends) + " | faults |"
    lines = [f"`{command}`", "", head, "|---" * (len(ends) + 3) + "|"]
    for kind in KINDS:
        of_kind = [trial for trial in done if trial.kind == kind]
        counted = collections.Counter(trial.left for trial in of_kind)
        faults = sum(bool(trial.faults) for trial in of_kind)
        lines.append(f"| {kind} | {len(of_kind)} | " + " | ".join(str(counted[end]) for end in ends) + f" | {faults} |")
    faults = [fault for trial in done for fault in trial.faults]
    corrupt, changed, running = (
        sum(fault.startswith(kind) for fault in faults) for kind in ("corrupt", "the job has changed", "left running")
    )
    sums = f"{corrupt} corrupt bundles, {changed} jobs changed, {running} processes left, {len(faults)} faults"
    return "\n".join([*lines, "", f"{len(done)} trials: {sums} in all."])


def main() -> int:
    """Run them; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--write", type=Path, help="put the report into this file, below its first heading")
    args = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())  # those under way are finished, and reported
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, usual)  # a shell that put us into the background, and nohup, had them ignored
    folders = [Path(tempfile.mkdtemp(prefix="flatline-trials-")) for _ in range(args.at_once)]
    jobs = [Job(folder) for folder in folders]
    try:
        with ThreadPoolExecutor(args.at_once) as pool:
            usual_s = undisturbed_s(jobs[0])
            plan = planned(args.trials, args.seed, usual_s)

            def some(slot: int) -> list[Trial]:
                mine = plan[slot :: args.at_once]
                moments = ((trial, args.seed * 1_000_003 + trial.number) for trial in mine if not stop.is_set())
                return [_told(run(trial, jobs[slot], seed)) for trial, seed in moments]

            done = [trial for trials in pool.map(some, range(args.at_once)) for trial in trials]
    finally:
        for job, folder in zip(jobs, folders):
            job.end()
            shutil.rmtree(folder, ignore_errors=True)
    text = report(done, f"python fuzz/kill_trials.py --trials {args.trials} --seed {args.seed}")
    print(text)
    if args.write:
        when = time.strftime("%Y-%m-%d", time.gmtime())
        args.write.write_text(f"{HEADING}{when}; undisturbed, a collect took {usual_s:.1f} s there.\n\n{text}\n")
    return int(any(trial.faults for trial in done))


def _told(trial: Trial) -> Trial:
    for fault in trial.faults:
        when = f"{trial.after_s:.3f} s after {trial.once}"
        print(f"trial {trial.number}, {trial.kind} {when}: {fault}", file=sys.stderr, flush=True)
    return trial


if __name__ == "__main__":
    sys.exit(main())
