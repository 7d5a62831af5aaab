"""Deeper looks at real processes: the kernel's stack, C frames, locals; and all of them leave the process as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from flatline.collector.probes import deep_stacks
from flatline.collector.probes.deep_stacks import DeepStacks
from flatline.collector.probes.interface import Artefact, Facts, Gap, Secret, Target, View
from flatline.collector.stacks import unwinder
from flatline.collector.supervision.supervisor import Job, Supervisor
from flatline.collector.tools import find_tool
from programs import FIXTURES, real_python, wait_until

from flatline.bundle.facts import KERNEL_SAMPLE, LOCALS_SAMPLE, NATIVE_SAMPLE, Frame
from flatline.redaction import Redactor

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="the kernel shows its stacks to root only")
with_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
pytestmark = pytest.mark.skipif(find_tool("py-spy", ours=True) is None, reason="py-spy is not installed")

STUCK = """
import os, sys, threading, time
def background():
    threading.Event().wait()
threading.Thread(target=background, name="watcher", daemon=True).start()
def train(password="kloster-42-Zeppelin", batch=(1, 2, 3)):
    label = "x" * 150 + " " + "y" * 500
    open(sys.argv[1], "w").close()
    threading.Lock().acquire() or None
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
train()
"""


@pytest.fixture
def program(start, tmp_path):
    """Run a program until it has got to its wait; returns its pid."""

    def begin(text=STUCK, python=sys.executable):
        script, ready = tmp_path / "train.py", tmp_path / f"ready-{time.monotonic_ns()}"
        script.write_text(text)
        pid = start([python, "-B", script, ready], cwd=tmp_path).pid
        wait_until(ready.exists, what="the program is ready", seconds=60)
        wait_until(lambda: state_of(pid) == "S", what="it waits")
        return pid

    return begin


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def target_of(pid, **changes):
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    known = {"ppid": 1, "uid": 0, "name": "python", "relation": "target", "role": "rank", "is_python": True, "age_s": 1.0}
    return Target(pid=pid, start_ticks=ticks, **{**known, **changes})


def gather(*targets, spare_s=60.0, **more):
    now = time.monotonic_ns()
    found = tuple(one if isinstance(one, Target) else target_of(one) for one in targets)
    view = View(targets=found, begin_ns=now, window_s=0.1, samples=2, deadline_ns=now + int(spare_s * 1e9), **more)
    return list(DeepStacks().gather(view))


def rows(items, table="frames"):
    return [row for item in items if isinstance(item, Facts) for row in item.tables.get(table, ())]


def stack(items, pid, tid, sample):
    frames = [f for f in rows(items) if f.thread == f"h1/{pid}/{tid}" and f.sample == sample]
    return sorted(frames, key=lambda frame: frame.depth)


def remarks(items):
    return " ".join(item.message for item in items if isinstance(item, Gap) and item.status == "ok")


def without(monkeypatch, *names):
    """As if these tools were not installed."""
    real = deep_stacks.find_tool
    monkeypatch.setattr(deep_stacks, "find_tool", lambda name, **more: None if name in names else real(name, **more))


# --- each rung ---


@as_root
def test_the_kernel_says_where_the_main_thread_waits(program, left_as_found):
    pid = program()
    left_as_found(pid)
    found = stack(gather(target_of(pid, is_python=False)), pid, pid, KERNEL_SAMPLE)
    assert any("futex" in frame.function for frame in found)
    assert {frame.kind for frame in found} == {"kernel"}


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.13"])
def test_c_frames_stand_between_the_python_ones(program, left_as_found, version):
    pid = program(python=real_python(version))
    left_as_found(pid)
    items = gather(pid)
    found = stack(items, pid, pid, NATIVE_SAMPLE)
    assert "train" in [frame.function for frame in found if frame.kind == "python"]
    assert any(frame.module and "lib" in frame.module for frame in found if frame.kind == "native")
    inner = [frame.kind for frame in found]
    assert inner.index("native") < inner.index("python"), "the innermost frames are those of C"
    run = next(run for run in rows(items, "tool_runs"))
    assert (run.tool, run.outcome, run.process) == ("py-spy", "ok", f"h1/{pid}")
    assert f"pid {pid} (rank): py-spy, with C frames" in remarks(items)


def test_nothing_is_attached_to_when_that_was_ruled_out(program):
    items = gather(program(), attach=False)
    assert rows(items, "tool_runs") == []
    assert not [frame for frame in rows(items) if frame.sample == NATIVE_SAMPLE]


def test_one_process_of_each_role_is_attached_to(program):
    first, second, worker = program(), program(), program()
    items = gather(first, second, target_of(worker, role="dataloader-worker", relation="descendant"))
    assert [run.process for run in rows(items, "tool_runs")] == [f"h1/{first}", f"h1/{worker}"]


@with_gdb
def test_gdb_is_asked_when_no_other_tool_is_there_and_runs_no_script_of_the_target(
    program, left_as_found, monkeypatch, tmp_path
):
    (tmp_path / ".gdbinit").write_text(f"shell touch {tmp_path}/ran\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    without(monkeypatch, "py-spy", "pystack")
    pid = program()
    left_as_found(pid)
    items = gather(pid)
    assert "PyThread_acquire_lock_timed" in [frame.function for frame in stack(items, pid, pid, NATIVE_SAMPLE)]
    assert any(isinstance(item, Artefact) and item.path == f"raw/gdb-{pid}.txt" for item in items)
    assert "gdb, with C frames" in remarks(items)
    assert not (tmp_path / "ran").exists()


LISTENS = """
import faulthandler, json, os, signal
ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
folder = f"{os.environ['TMPDIR']}/flatline-recorder-{os.getpid()}-{ticks}"
os.mkdir(folder, 0o700)
out = open(folder + "/faulthandler.txt", "a")
faulthandler.register(signal.SIGUSR2, file=out, all_threads=True, chain=False)
announced = {"format": "flatline-recorder/1", "pid": os.getpid(), "start_ticks": ticks,
             "faulthandler": {"signal": 12, "file": "faulthandler.txt"}}
with open(folder + "/recorder.json", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
    json.dump(announced, file)
"""


@pytest.fixture
def listening(program, monkeypatch, tmp_path):
    """A job whose faulthandler can be asked, and what a probe is told of its environment."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pid = program(LISTENS + STUCK)
    return pid, {pid: {"TMPDIR": str(tmp_path)}}


def test_an_announced_faulthandler_is_asked_before_gdb(listening, left_as_found, monkeypatch):
    without(monkeypatch, "py-spy", "pystack")
    pid, environment = listening
    left_as_found(pid)
    items = gather(pid, env_names=environment)
    assert [frame.function for frame in stack(items, pid, pid, NATIVE_SAMPLE)] == ["train", "<module>"]
    assert any("background" in frame.function for frame in rows(items) if frame.thread != f"h1/{pid}/{pid}")
    assert [(run.tool, run.outcome, run.sample) for run in rows(items, "tool_runs")] == [("faulthandler", "ok", NATIVE_SAMPLE)]
    assert f"pid {pid} (rank): faulthandler" in remarks(items)
    assert any(isinstance(item, Artefact) and item.path == f"raw/faulthandler-{pid}.txt" for item in items)


@pytest.mark.parametrize("changes", [{"attach": False}, {"guarded": True}], ids=["no-attach", "another-users"])
def test_no_faulthandler_is_asked_where_nothing_may_be(listening, monkeypatch, tmp_path, changes):
    without(monkeypatch, "py-spy", "pystack", "gdb")
    pid, environment = listening
    gather(target_of(pid, is_guarded=changes.pop("guarded", False)), env_names=environment, **changes)
    assert [file.read_text() for file in tmp_path.glob("flatline-recorder-*/faulthandler.txt")] == [""]


def test_a_faulthandler_is_not_asked_where_c_frames_can_be_had(listening, tmp_path):
    pid, environment = listening
    assert "py-spy, with C frames" in remarks(gather(pid, env_names=environment))
    assert [file.read_text() for file in tmp_path.glob("flatline-recorder-*/faulthandler.txt")] == [""]


def test_without_any_tool_the_remark_says_why_there_is_no_more(program, monkeypatch):
    without(monkeypatch, "py-spy", "pystack", "gdb")
    items = gather(program())
    assert "kernel's stacks alone" in remarks(items)
    assert "CPython's unwinder" in remarks(items)


def test_a_look_that_could_not_end_in_time_is_not_begun(program):
    items = gather(program(), spare_s=3.0)
    assert rows(items, "tool_runs") == []
    assert "no time was left" in " ".join(item.message for item in items if isinstance(item, Gap))


def test_a_stopped_process_is_not_attached_to(program, left_as_found):
    pid = program()
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) == "T", what="it stops")
    left_as_found(pid)
    items = gather(pid)
    assert [run.outcome for run in rows(items, "tool_runs")] == ["not-started"]
    assert f"its thread {pid} is in state T" in remarks(items)


# --- locals ---


def test_locals_are_taken_when_asked_for_and_cut_between_words(program, left_as_found):
    pid = program()
    left_as_found(pid)
    items = gather(pid, locals=True)
    train = next(f for f in stack(items, pid, pid, LOCALS_SAMPLE) if f.function == "train")
    assert train.locals["batch"] == "(1, 2, 3)"
    assert len(train.locals["label"]) < 210
    assert "y" not in train.locals["label"]
    assert {frame.thread for frame in rows(items) if frame.sample == LOCALS_SAMPLE} == {f"h1/{pid}/{pid}"}


def test_the_value_of_a_local_named_like_a_secret_is_hidden_everywhere(program):
    learnt = [item for item in gather(program(), locals=True) if isinstance(item, Secret)]
    assert [(one.kind, one.value) for one in learnt] == [("password", "kloster-42-Zeppelin")]


def test_no_locals_unless_asked_for(program):
    assert not [frame for frame in rows(gather(program())) if frame.locals]


def test_a_local_named_like_a_secret_is_hidden():
    frame = Frame("h1/1/1", LOCALS_SAMPLE, 0, "train", locals={"password": "'kloster-42-Zeppelin'", "batch": "(1, 2)"})
    redactor = Redactor()
    row = redactor.rows("frames", [frame])[0]
    assert "kloster" not in json.dumps(row)
    assert row["locals"]["batch"] == "(1, 2)"


# --- CPython's own unwinder ---


class _Shape:
    """What `_remote_debugging` of 3.15 answers with; a real 3.14 is asked by a bare interpreter's test."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_the_unwinder_is_for_a_python_of_the_same_minor_version_only(monkeypatch):
    monkeypatch.setattr(unwinder.sys, "version_info", (3, 14, 0))
    assert unwinder.why_not("3.14") == ""
    assert "layout of 3.13" in unwinder.why_not("3.13")
    monkeypatch.setattr(unwinder.sys, "version_info", (3, 13, 0))
    assert "came with 3.14" in unwinder.why_not("3.13")


def test_the_unwinder_gives_a_process_without_py_spy_its_python_stack(program, monkeypatch):
    frame = _Shape(funcname="train", filename="/job/train.py", lineno=12)

    class RemoteUnwinder:
        def __init__(self, pid, *, all_threads):
            self.pid = pid

        def get_stack_trace(self):
            return [_Shape(threads=[_Shape(thread_id=self.pid, frame_info=[frame])])]

    monkeypatch.setitem(sys.modules, "_remote_debugging", _Shape(RemoteUnwinder=RemoteUnwinder))
    monkeypatch.setattr(unwinder, "why_not", lambda python: "")
    without(monkeypatch, "py-spy", "pystack", "gdb")
    pid = program()
    items = gather(pid)
    assert [(f.function, f.line_no, f.kind) for f in stack(items, pid, pid, NATIVE_SAMPLE)] == [("train", 12, "python")]
    assert "CPython's unwinder" in remarks(items)


# --- ended in the middle ---


def test_a_signal_in_the_middle_of_an_attach_leaves_the_process_running(program, left_as_found, monkeypatch, tmp_path):
    """Ctrl-C at the worst moment: the tool has stopped the process, twice, and would never have let go."""
    said = tmp_path / "attached"
    worst = [sys.executable, str(FIXTURES / "faults" / "attaches_and_stays.py")]
    tool = deep_stacks._TOOLS[0]._replace(argv=lambda program, pid: [*worst, str(pid), "attach-then-stop", str(said)])
    monkeypatch.setattr(deep_stacks, "_TOOLS", (tool,))
    pid = program()
    left_as_found(pid)
    ended = []
    supervisor = Supervisor(
        deadline_ns=time.monotonic_ns() + int(60e9),
        redactor=Redactor(),
        on_member=lambda member: None,
        on_end=ended.append,
        on_wait=lambda running: os.kill(os.getpid(), signal.SIGTERM) if said.exists() else None,
    )
    now = time.monotonic_ns()
    supervisor.run([Job(DeepStacks(), View((target_of(pid),), begin_ns=now, window_s=0.1, samples=2))])
    assert said.exists()
    assert "SIGTERM" in ended[0].message
    wait_until(lambda: state_of(pid) == "S", what="it runs again")
    wait_until(lambda: "attaches_and_stays" not in children_of(os.getpid()), what="tool and guard are gone")


def children_of(pid):
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return " ".join(Path(f"/proc/{one}/cmdline").read_text() for one in pids if Path(f"/proc/{one}").exists())
