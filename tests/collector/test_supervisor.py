"""The supervisor comes back in time, with all that was sent, whatever its children do."""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faults.misbehaving_probes import TOKEN, Probe, probe
from faults.stalling_fuse import StallingMount
from flatline.collector.probes.interface import Artefact, Doing, Milestone, Result, View
from flatline.collector.supervision.members import Member
from flatline.collector.supervision.supervisor import PATIENCE_S, Caps, Job, Running, Supervisor
from programs import FIXTURES, wait_until

from flatline.bundle.format import LedgerEntry
from flatline.redaction import Redactor

PROGRAM = FIXTURES / "faults" / "misbehaving_probes.py"
LONG_S = 60.0
"""A limit no test waits for."""
SOON_S = 0.4
"""A limit that a test waits for; long enough to start in on a busy machine."""


@dataclass
class Run:
    """One supervisor, and all it was told."""

    deadline_s: float = LONG_S
    parallel: int | None = None
    caps: Caps | None = None
    members: list[Member] = field(default_factory=list)
    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    milestones: list[tuple[str, str]] = field(default_factory=list)
    seen: list[Running] = field(default_factory=list)
    redactor: Redactor = field(default_factory=Redactor)

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(
            deadline_ns=time.monotonic_ns() + int(self.deadline_s * 1e9),
            redactor=self.redactor,
            on_member=self.members.append,
            on_end=self.note,
            on_milestone=lambda name, milestone: self.milestones.append((name, milestone)),
            on_wait=self.seen.extend,
            parallel=self.parallel,
            caps=self.caps,
        )

    def note(self, entry: LedgerEntry) -> None:
        assert entry.probe not in self.entries, "one entry for each"
        self.entries[entry.probe] = entry

    def of(self, *probes: Probe) -> Run:
        began = time.monotonic()
        self.supervisor.run([Job(one, View(())) for one in probes])
        self.seconds = time.monotonic() - began
        return self

    def paths(self) -> list[str]:
        return [member.path for member in self.members]


def entry_of(name: str, **more) -> tuple[LedgerEntry, Run]:
    run = Run().of(probe(name, **more))
    return run.entries[name], run


def left_by(entry: LedgerEntry) -> list[int]:
    return [int(text.split()[1]) for text in entry.left_running]


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


@pytest.fixture(autouse=True)
def nothing_stays():
    """No test leaves a child or a descriptor behind."""
    gc.collect()
    before = children(), os.listdir("/proc/self/fd")
    yield
    assert (children(), os.listdir("/proc/self/fd")) == before


# --- what goes well ---


def test_facts_a_result_and_a_milestone_arrive():
    entry, run = entry_of("quick")
    (member,) = run.members
    assert (entry.status, entry.exit_code, entry.bytes) == ("ok", 0, len(member.data))
    assert member.path == "facts/quick.json"
    document = json.loads(member.data)
    assert document["schema"] == "flatline/quick/1"
    assert document["tables"]["processes"][0]["cwd"] == "/srv/b\\xffd"
    assert run.milestones == [("quick", "first-pass")]


def test_a_call_returns_the_results_and_the_entry():
    run = Run()
    values, entry = run.supervisor.call(Job(probe("quick"), View(())))
    assert values == [{"answer": 42}]
    assert run.entries["quick"] is entry


def test_what_could_not_be_had_is_in_the_ledger_beside_what_could():
    entry, run = entry_of("half-done")
    assert (entry.status, entry.message, entry.hint) == ("partial", "the other half may not be read", "run as root")
    assert entry.tables == ("threads",)
    assert run.paths() == ["raw/half.txt"]


def test_a_probe_that_found_nothing_says_what_kept_it_from_it():
    entry, _ = entry_of("empty-handed")
    assert (entry.status, entry.hint, entry.tables) == ("absent", "apt install lsof", ("processes",))


def test_a_secret_is_hidden_in_the_child_and_has_one_ordinal_everywhere():
    run = Run().of(probe("telling-secrets", limit_s=LONG_S))
    twin = probe("telling-secrets")
    twin.name = "telling-it-again"
    run.supervisor.run([Job(twin, View(()))])
    texts = [member.data.decode() for member in run.members] + [entry.message for entry in run.entries.values()]
    assert not [text for text in texts if TOKEN in text]
    assert run.members[0].data == run.members[1].data == "HF_TOKEN=⟪hf-token·1⟫\n".encode()
    for entry in run.entries.values():
        assert (entry.status, "cannot log in with ⟪hf-token·1⟫" in entry.message) == ("error", True)
    assert [member.redactions for member in run.members] == [1, 1]
    assert run.redactor.counts["hf-token"] == 2


def test_a_probe_has_nothing_of_ours_open_and_what_it_prints_is_lost(capfd: pytest.CaptureFixture[str]):
    run = Run()
    values, _ = run.supervisor.call(Job(probe("printing"), View(())))
    assert len(values[0]) == 5, "0, 1, 2, the pipe, and the listing itself"
    assert capfd.readouterr() == ("", "")


def test_many_quick_probes_leave_nothing_behind():
    twins = [probe("quick", limit_s=LONG_S) for _ in range(30)]
    for number, one in enumerate(twins):
        one.name = f"quick-{number}"
    run = Run(parallel=5).of(*twins)
    assert [run.entries[one.name].status for one in twins] == ["ok"] * 30


def test_only_so_many_run_at_once_but_those_that_span_the_window_do_not_count(tmp_path: Path):
    log = tmp_path / "log"

    def counting(view: View):
        with open(log, "ab", buffering=0) as file:
            file.write(b"+")
        time.sleep(0.05)
        with open(log, "ab", buffering=0) as file:
            file.write(b"-")
        yield Doing("done")

    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def watching(view: View):
        yield Artefact("raw/gate.txt", gate.read_text())

    def opening(view: View):
        gate.write_text("open")
        yield Doing("opened")

    spanning = [Probe(f"watching-{n}", watching, LONG_S, spans_window=True) for n in range(1)]
    run = Run(parallel=1).of(*spanning, *(Probe(f"counting-{n}", counting, LONG_S) for n in range(4)),
                             Probe("opening", opening, LONG_S))  # fmt: skip
    assert log.read_text() == "+-+-+-+-"
    assert {entry.status for entry in run.entries.values()} == {"ok"}


def test_a_probe_that_spans_the_window_has_its_limit_after_the_window():
    watching = Probe("watching", lambda view: iter([Artefact("raw/limit.txt", str(view.deadline_ns))]), 3.0, spans_window=True)
    run = Run()
    begin = time.monotonic_ns()
    run.supervisor.run([Job(watching, View((), begin_ns=begin, window_s=7.0))])
    assert int(run.members[0].data) == begin + 10_000_000_000


def test_a_job_begins_when_those_it_comes_after_have_passed_their_milestone(tmp_path: Path):
    log = tmp_path / "log"

    def write(text: bytes) -> None:
        with open(log, "ab", buffering=0) as file:
            file.write(text)

    def leading(view: View):
        write(b"first look, ")
        yield Milestone("first-pass")
        yield Doing("looking on")

    def following(view: View):
        write(b"then this")
        yield Doing("done")

    run = Run()
    jobs = [Job(Probe("following", following, LONG_S), View(()), after=frozenset({"leading"})),
            Job(Probe("leading", leading, LONG_S), View(()))]  # fmt: skip
    run.supervisor.run(jobs)
    assert log.read_text() == "first look, then this"


def test_a_job_does_not_wait_for_ever_for_one_that_passes_nothing():
    def saying_nothing(view: View):
        time.sleep(LONG_S)
        yield Doing("too late")

    silent = Job(Probe("silent", saying_nothing, 4.0), View(()))
    patient = Job(Probe("patient", lambda view: iter([Doing("done")]), LONG_S), View(()), after=frozenset({"silent"}))
    run = Run()
    run.supervisor.run([silent, patient])
    assert run.entries["patient"].status == "ok"
    assert list(run.entries) == ["patient", "silent"]


def test_a_job_waits_no_longer_than_a_share_of_a_short_deadline():
    def saying_nothing(view: View):
        time.sleep(LONG_S)
        yield Doing("too late")

    silent = Job(Probe("silent", saying_nothing, LONG_S), View(()))
    patient = Job(Probe("patient", lambda view: iter([Doing("done")]), LONG_S), View(()), after=frozenset({"silent"}))
    run = Run(deadline_s=PATIENCE_S)  # or it would never begin
    run.supervisor.run([silent, patient])
    assert run.entries["patient"].status != "skipped"
    assert run.entries["silent"].message.startswith("the overall deadline ended it")


# --- what goes wrong ---


def test_a_probe_that_raises_is_an_entry_with_the_place():
    entry, run = entry_of("raising")
    assert entry.status == "error"
    assert entry.message.startswith("ZeroDivisionError: of all things (misbehaving_probes.py:")
    assert run.paths() == ["raw/before.txt"]


def test_a_probe_that_is_shot_says_where_it_stood():
    entry, _ = entry_of("shot")
    assert (entry.status, entry.exit_code) == ("error", -signal.SIGKILL)
    assert entry.message == "its process was ended by signal 9 while standing at the wall"


def test_a_probe_that_ends_in_the_middle_of_a_frame_loses_only_that():
    entry, run = entry_of("leaving-mid-frame")
    assert (entry.status, entry.cut) == ("error", "what it was sending when it ended")
    assert "unfinished" in entry.message
    assert run.paths() == ["raw/whole.txt"]


def test_a_probe_that_sends_garbage_is_ended_and_what_came_before_is_kept():
    entry, run = entry_of("talking-garbage", limit_s=LONG_S)
    assert (entry.status, entry.exit_code) == ("error", -signal.SIGKILL)
    assert "not a frame" in entry.message
    assert run.paths() == ["raw/whole.txt"]


def test_a_probe_that_sends_without_end_is_ended_at_its_cap():
    entry, run = entry_of("talking-for-ever", limit_s=LONG_S)
    assert (entry.status, "64 MiB" in entry.message) == ("error", True)
    assert run.paths() == ["raw/begin.txt"]


@pytest.mark.parametrize("name", ["sleeping", "ignoring-sigterm"])
def test_at_its_limit_a_probe_is_ended_and_what_it_sent_is_kept(name: str):
    entry, run = entry_of(name, limit_s=SOON_S)
    assert (entry.status, entry.exit_code) == ("timeout", -signal.SIGKILL)
    assert "while sleeping" in entry.message
    assert run.paths() == ["raw/before-sleep.txt"]
    assert entry.left_running == ()


def test_a_probe_held_by_the_kernel_is_abandoned_and_named(mount: StallingMount):
    mount.stall()
    run = Run().of(probe("on-mount", mount=str(mount.path), limit_s=SOON_S))
    entry = run.entries["on-mount"]
    (left,) = left_by(entry)
    assert entry.status == "timeout"
    assert f"while looking at {mount.path}" in entry.message
    assert entry.left_running[0].endswith("state D)")
    assert state(left) == "D"
    assert run.paths() == ["raw/before-mount.txt"]
    assert run.seconds < 10
    mount.resume()
    os.waitpid(left, 0)


def test_a_tool_held_by_the_kernel_is_named_too(mount: StallingMount):
    mount.stall()
    run = Run().of(probe("tool-on-mount", mount=str(mount.path), limit_s=SOON_S))
    (left,) = left_by(run.entries["tool-on-mount"])
    assert run.entries["tool-on-mount"].left_running == (f"pid {left} (stat, state D)",)
    mount.resume()
    os.waitpid(left, 0)


def test_a_stubborn_tool_goes_with_its_probe():
    entry, _ = entry_of("running-stubborn-tool", limit_s=SOON_S)
    assert (entry.status, entry.left_running) == ("timeout", ())
    assert "waiting for a stubborn tool" in entry.message


def test_a_daemon_that_a_tool_left_in_a_session_of_its_own_is_found_and_ended():
    run = Run()
    values, entry = run.supervisor.call(Job(probe("leaving-a-daemon", limit_s=LONG_S), View(())))
    assert (entry.status, entry.left_running) == ("ok", ())
    assert state(values[0]) == "gone"


def test_a_grandchild_that_holds_our_pipe_does_not_keep_us():
    entry, run = entry_of("forking-a-pipe-holder", limit_s=LONG_S)
    assert (entry.status, run.paths()) == ("ok", ["raw/parent.txt"])
    assert run.seconds < LONG_S / 2


def test_a_flooding_tool_is_cut_short():
    entry, run = entry_of("flooded", limit_s=LONG_S)
    assert (entry.status, len(run.members[0].data)) == ("partial", 1 << 20)


def test_a_gpu_tool_is_never_killed_hard_but_named():
    run = Run(caps=Caps(memory=2 << 30, cpu_s=60)).of(probe("running-gpu-tool", limit_s=1.5))
    (left,) = left_by(run.entries["running-gpu-tool"])
    try:
        assert resource.prlimit(left, resource.RLIMIT_CPU) == resource.getrlimit(resource.RLIMIT_CPU)
        assert resource.prlimit(left, resource.RLIMIT_DATA) == resource.getrlimit(resource.RLIMIT_DATA)
        assert run.entries["running-gpu-tool"].left_running == (f"pid {left} ({name_of(left)}, state S)",)
        run.supervisor.run([Job(probe("quick"), View(()))])
        assert state(left) == "S", "nor at the end of another probe"
    finally:
        os.kill(left, signal.SIGKILL)
        os.waitpid(left, 0)


def test_what_was_left_is_named_by_the_probe_it_belongs_to_even_when_all_end_at_once():
    run = Run(deadline_s=1.5).of(*(probe(name, limit_s=LONG_S) for name in ("sleeping", "running-gpu-tool", "quick")))
    (left,) = left_by(run.entries["running-gpu-tool"])
    os.kill(left, signal.SIGKILL)
    os.waitpid(left, 0)
    assert run.entries["sleeping"].left_running == ()


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_a_probe_over_its_memory_is_an_error_of_its_own():
    def greedy(view: View):
        yield Artefact("raw/some.txt", "kept")
        yield Artefact("raw/all.txt", "x" * (4 << 30))

    run = Run(caps=Caps(memory=2 << 30)).of(Probe("greedy", greedy, LONG_S))
    assert (run.entries["greedy"].status, run.entries["greedy"].message[:33]) == ("error", "MemoryError: it may have 2048 MiB")
    assert run.paths() == ["raw/some.txt"]


def test_a_probe_over_its_processor_time_is_ended_and_what_it_sent_is_kept():
    def spinning(view: View):
        yield Artefact("raw/some.txt", "kept")
        while True:
            pass

    run = Run(caps=Caps(cpu_s=1)).of(Probe("spinning", spinning, LONG_S))
    entry = run.entries["spinning"]
    assert (entry.status, entry.exit_code) == ("error", -signal.SIGXCPU)
    assert entry.message == "its process had used all the processor time that it may have"
    assert run.paths() == ["raw/some.txt"]


def test_a_limit_that_was_lower_stays():
    def telling(view: View):
        yield Result(resource.getrlimit(resource.RLIMIT_DATA))

    def lowered(view: View):
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, resource.RLIM_INFINITY))
        supervisor = Run(caps=Caps(memory=2 << 30)).supervisor
        yield Result(supervisor.call(Job(Probe("telling", telling, LONG_S), View(())))[0])

    values, _ = Run().supervisor.call(Job(Probe("lowered", lowered, LONG_S), View(())))
    assert values == [[(1 << 30, resource.RLIM_INFINITY)]]


def test_a_member_with_a_hostile_path_is_refused():
    def climbing(view: View):
        yield Artefact("../../etc/passwd", "root")
        yield Artefact("/etc/passwd", "root")
        yield Artefact("raw/ok.txt", "ok")

    run = Run().of(Probe("climbing", climbing, LONG_S))
    assert (run.entries["climbing"].status, run.paths()) == ("partial", ["raw/ok.txt"])


def test_a_callback_that_fails_leaves_no_child_behind():
    def refuse(member: Member) -> None:
        raise OSError("the disk is full")

    before = children()
    run = Run()
    run.supervisor._on_member = refuse
    with pytest.raises(OSError, match="the disk is full"):
        run.of(probe("sleeping", limit_s=LONG_S), probe("ignoring-sigterm", limit_s=LONG_S))
    for pid in children() - before:
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_our_callers_own_children_are_not_touched():
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        Run().of(probe("leaving-a-daemon", limit_s=LONG_S), probe("sleeping", limit_s=SOON_S))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_who_waits_can_see_what_is_slow():
    run = Run().of(probe("sleeping", limit_s=1.0))
    assert "sleeping" in {one.doing for one in run.seen}
    assert {one.probe for one in run.seen} == {"sleeping"}


# --- deadline and signals: a whole program ---


def begin(start, *names: str, deadline_s: float, mount: str = "") -> subprocess.Popen:
    argv = [sys.executable, PROGRAM, deadline_s, mount, *names]
    program = start(argv, stdout=subprocess.PIPE, text=True, preexec_fn=hears_every_signal)
    assert line_of(program) == "ready"
    return program


def hears_every_signal() -> None:
    """Under nohup, or in the background of a shell without job control, a program is started deaf to some."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def line_of(program: subprocess.Popen) -> str:
    readable, _, _ = select.select([program.stdout], [], [], 30)
    assert readable, "the program says nothing"
    return program.stdout.readline().strip()


def told(text: str) -> tuple[dict[str, dict], dict]:
    """The ledger by probe, and the last line."""
    rows = [json.loads(line) for line in text.splitlines() if line != "ready"]
    return {row["probe"]: row for row in rows[:-1]}, rows[-1]


FAULTS = (
    "on-mount", "tool-on-mount", "ignoring-sigterm", "running-stubborn-tool", "leaving-a-daemon", "flooded",
    "talking-for-ever", "talking-garbage", "raising", "shot", "forking-a-pipe-holder", "sleeping", "quick",
)  # fmt: skip


def test_under_all_faults_at_once_the_deadline_holds_and_the_caller_gets_its_answer(mount: StallingMount):
    mount.stall()
    deadline_s = 4.0
    argv = [sys.executable, PROGRAM, str(deadline_s), str(mount.path), *FAULTS]
    answered = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    ledger, last = told(answered.stdout)
    assert last["late_s"] < 0.5
    assert {name: row["status"] for name, row in ledger.items()} == {
        "on-mount": "timeout", "tool-on-mount": "timeout", "ignoring-sigterm": "timeout",
        "running-stubborn-tool": "timeout", "leaving-a-daemon": "ok", "flooded": "partial",
        "talking-for-ever": "error", "talking-garbage": "error", "raising": "error", "shot": "error",
        "forking-a-pipe-holder": "ok", "sleeping": "timeout", "quick": "ok",
    }  # fmt: skip
    left = [text for row in ledger.values() for text in row["left_running"]]
    assert sorted(text.split(" (")[1] for text in left) == [f"{name_of_python()}, state D)", "stat, state D)"]
    for text in left:
        assert state(int(text.split()[1])) == "D", "named, and really still there"
    mount.resume()
    pids = [int(text.split()[1]) for text in left]
    wait_until(lambda: {state(pid) for pid in pids} <= {"gone", "Z"}, what="the kernel lets them go")


def name_of_python() -> str:
    return subprocess.run([sys.executable, "-c", "print(open('/proc/self/comm').read())"],
                          capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_children_and_the_ledger_is_complete(start, number: signal.Signals):
    program = begin(start, "sleeping", "ignoring-sigterm", "running-stubborn-tool", deadline_s=LONG_S)
    wait_until(lambda: len(below(program.pid)) == 4, what="three probes and a tool run")
    below_it = below(program.pid)
    program.send_signal(number)
    ledger, last = told(program.communicate(timeout=30)[0])
    assert (program.returncode, last["interrupted"]) == (0, number)
    assert {row["status"] for row in ledger.values()} <= {"partial", "skipped"}
    assert {row["message"].split(" while ")[0] for row in ledger.values()} == {f"ended by {number.name}"}
    # A busy kernel may take longer to end them than we wait to see it.
    wait_until(lambda: {state(pid) for pid in below_it} <= {"gone", "Z"}, what="all of them end")


def below(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            found += [int(child) for child in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except OSError:
            continue
    return found[1:]


def test_a_second_sigint_ends_it_at_once_and_its_children_too():
    def interrupt_twice(running: list[Running]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = children()
    run = Run()
    run.supervisor._on_wait = interrupt_twice
    with pytest.raises(KeyboardInterrupt):
        run.of(probe("sleeping", limit_s=LONG_S))
    assert run.supervisor.interrupted == signal.SIGINT
    for pid in children() - before:
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL


def test_a_caller_that_ignores_the_end_of_its_children_changes_nothing(start):
    """An ignored SIGCHLD is inherited, and takes every exit code away."""
    command = 'trap "" CHLD; exec "$@"'
    argv = ["sh", "-c", command, "sh", sys.executable, PROGRAM, LONG_S, "", "quick", "flooded", "leaving-a-daemon"]
    ledger, _ = told(start(argv, stdout=subprocess.PIPE, text=True).communicate(timeout=30)[0])
    assert {name: row["status"] for name, row in ledger.items()} == {
        "quick": "ok", "flooded": "partial", "leaving-a-daemon": "ok"
    }  # fmt: skip


def test_kill_9_of_the_supervisor_takes_its_children_with_it(start):
    program = begin(start, "sleeping", "running-stubborn-tool", deadline_s=LONG_S)
    wait_until(lambda: len(below(program.pid)) == 3, what="two probes and a tool run")
    below_it = below(program.pid)
    program.kill()
    program.stdout.close()
    wait_until(lambda: {state(pid) for pid in below_it} <= {"gone", "Z"}, what="the children die with it")


def test_after_a_signal_or_the_deadline_nothing_is_begun_and_the_ledger_says_so():
    run = Run(deadline_s=-1).of(probe("quick"))
    assert (run.entries["quick"].status, run.entries["quick"].message) == ("skipped", "not begun: no time was left")


