"""What the stacks probe brings of real processes: stuck, busy, stopped, foreign, hostile."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from textwrap import dedent

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from flatline.collector.probes import stacks
from flatline.collector.probes.interface import Facts, Gap, Milestone, Target, View
from flatline.collector.probes.stacks import Stacks
from flatline.collector.stacks import pyspy
from flatline.collector.stacks.watched import EXTRA_SAMPLE
from flatline.collector.tools import ToolOutput, find_tool
from programs import pythons, real_python, wait_until

from flatline.texts import stack_lines

NOBODY = 65534
SPARE_S = 60.0

pytestmark = pytest.mark.skipif(find_tool("py-spy", ours=True) is None, reason="py-spy is not installed")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

BEGIN = """
import os, sys, threading, time
def ready():
    with open(sys.argv[1] + ".tmp", "w") as out:
        out.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".tmp", sys.argv[1])
"""

STUCK = BEGIN + dedent(
    """
    a, b = threading.Lock(), threading.Lock()
    b.acquire()
    class Trainer:
        def step(self):
            with a:
                for number in range(1):
                    b.acquire()
    def background():
        threading.Event().wait()
    thread = threading.Thread(target=background, name="watcher", daemon=True)
    thread.start()
    ready()
    Trainer().step()
    """
)


def target_of(pid, **changes):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    argv = tuple(word.decode() for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1])
    known = {"start_ticks": int(fields[19]), "ppid": int(fields[1]), "uid": os.stat(f"/proc/{pid}").st_uid, "argv": argv}
    rest = {"name": "python", "relation": "target", "role": "rank", "is_python": True, "age_s": 1.0}
    return Target(pid=pid, **{**known, **rest, **changes})


def gather(*pids, window_s=0.3, samples=3, spare_s=SPARE_S, **more):
    now = time.monotonic_ns()
    view = View(
        targets=tuple(pid if isinstance(pid, Target) else target_of(pid) for pid in pids),
        begin_ns=now,
        window_s=window_s,
        samples=samples,
        deadline_ns=now + int((window_s + spare_s) * 1e9),
        **more,
    )
    return list(Stacks().gather(view))


def rows(items, table):
    return [row for item in items if isinstance(item, Facts) for row in item.tables.get(table, ())]


def gaps(items):
    return [item for item in items if isinstance(item, Gap)]


def stack(items, thread, sample=0):
    return [f for f in rows(items, "frames") if f.thread == thread and f.sample == sample]


@pytest.fixture
def tmp_path():
    """A folder every user can reach; pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="flatline-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def program(start, tmp_path):
    """Run a program until it says ready; returns the pid it has here."""
    (tmp_path / "work").mkdir(mode=0o777)
    (tmp_path / "work").chmod(0o777)

    def begin(text, *, python=sys.executable):
        script, ready = tmp_path / "program.py", tmp_path / "work" / str(time.monotonic_ns())
        script.write_text(text)
        started = start([python, "-B", script, ready], cwd=tmp_path, stderr=subprocess.DEVNULL).pid
        wait_until(ready.exists, what="the program is ready", seconds=60)
        return started

    return begin


def settled(pid):
    """The main thread sleeps."""
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S", what="it sleeps")
    return pid


@pytest.mark.parametrize(("version", "python"), pythons(), ids=[version for version, _ in pythons()])
def test_every_python_shows_its_threads_their_lines_and_the_blocks_around_them(program, left_as_found, version, python):
    pid = settled(program(STUCK, python=python))
    left_as_found(pid)
    items = gather(pid)
    main = stack(items, f"h1/{pid}/{pid}")
    assert [(f.depth, f.function, f.is_user) for f in main] == [(0, "step", True), (1, "<module>", True)]
    assert main[0].file.endswith("program.py")
    assert "b.acquire()" in next(one.text for one in main[0].source if one.line == main[0].line_no)
    assert [one.text.strip() for one in main[0].enclosing] == ["with a:", "for number in range(1):"]
    assert (main[0].active, main[0].thread_name) == (False, "MainThread")
    if tuple(map(int, version.split(".")[:2])) >= (3, 11):
        assert main[0].qualname == "Trainer.step"
    [other] = {f.thread for f in rows(items, "frames")} - {f"h1/{pid}/{pid}"}
    assert other.rpartition("/")[2] in os.listdir(f"/proc/{pid}/task")
    assert {f.thread_name for f in rows(items, "frames") if f.thread == other} == {"watcher"}
    assert {f.function for f in stack(items, other) if f.is_user} == {"background"}
    assert gaps(items) == []
    assert [(r.outcome, r.sample) for r in rows(items, "tool_runs")] == [("ok", 0), ("ok", 1), ("ok", 2)]


def test_the_first_round_is_announced_and_source_is_sent_once(program):
    pid = settled(program(STUCK))
    items = gather(pid)
    paths = [item.path for item in items if isinstance(item, Facts)]
    assert paths[:3] == [f"stacks/{pid}.{sample}.json" for sample in range(3)]
    kinds = [type(item) for item in items if isinstance(item, (Facts, Milestone))]
    assert kinds[:2] == [Facts, Milestone]
    assert len(paths) == len(set(paths))
    assert all(f.source for f in stack(items, f"h1/{pid}/{pid}", 0))
    assert not any(f.source or f.enclosing for f in stack(items, f"h1/{pid}/{pid}", 1))
    assert len(stack(items, f"h1/{pid}/{pid}", 1)) == len(stack(items, f"h1/{pid}/{pid}", 0))


def test_no_source_is_taken_when_it_is_not_wanted(program):
    items = gather(settled(program(STUCK)), source=False)
    assert rows(items, "frames")
    assert not any(f.source or f.enclosing for f in rows(items, "frames"))


def test_the_program_of_a_command_is_shown_from_its_argument(start, tmp_path):
    ready = tmp_path / "ready"
    code = f"import time\nopen({str(ready)!r}, 'w').close()\nwhile True:\n    time.sleep(600)\n"
    pid = start([sys.executable, "-c", code]).pid
    wait_until(ready.exists, what="ready")
    [frame] = stack(gather(settled(pid)), f"h1/{pid}/{pid}")
    assert (frame.file, frame.is_user) == ("<string>", True)
    assert [one.text for one in frame.enclosing] == ["while True:"]


@as_root
def test_without_rights_the_whole_is_one_denial_with_the_line_to_paste(program):
    pid = settled(program(STUCK))
    items = as_nobody(lambda: gather(pid))
    [gap] = gaps(items)
    assert gap.status == "denied"
    assert "SYS_PTRACE" in gap.hint
    assert "ptrace_scope" in gap.hint
    assert "/proc only" in gap.message
    assert gap.tables == ("frames",)
    assert {r.outcome for r in rows(items, "tool_runs")} == {"denied"}
    assert rows(items, "frames") == []


def as_nobody(question):
    """Ask in a child that is uid 65534."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with os.fdopen(write, "wb") as out:
                pickle.dump(question(), out)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


def test_a_stopped_process_shows_its_stack_and_stays_stopped(program, left_as_found):
    pid = settled(program(STUCK))
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: ") T " in Path(f"/proc/{pid}/stat").read_text(), what="it stops")
    left_as_found(pid)
    assert [f.function for f in stack(gather(pid), f"h1/{pid}/{pid}")] == ["step", "<module>"]


@pytest.mark.parametrize("version", ["3.9", "3.11", "3.13"])
@as_root
def test_a_process_in_its_own_namespaces_is_shown_in_our_numbers_with_its_own_files(start, tmp_path, version):
    """Its pid 1 is our number; its script lies on a mount that only it sees."""
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed")
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "program.py").write_text(STUCK)
    shell = f"mount -t tmpfs none {inside} && cp program.py {inside} && exec {real_python(version)} -B {inside}/program.py ready"
    argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", shell]
    outer = start(argv, cwd=tmp_path).pid
    wait_until((tmp_path / "ready").exists, what="the program is ready", seconds=60)
    assert not (inside / "program.py").exists()
    [pid] = [int(child) for child in Path(f"/proc/{outer}/task/{outer}/children").read_text().split()]
    settled(pid)
    items = gather(pid)
    main = stack(items, f"h1/{pid}/{pid}")
    assert [f.function for f in main] == ["step", "<module>"]
    assert (main[0].active, main[0].thread_name) == (False, "MainThread")
    assert [one.text.strip() for one in main[0].enclosing] == ["with a:", "for number in range(1):"]
    tids = {f.thread.rpartition("/")[2] for f in rows(items, "frames")}
    assert tids == set(os.listdir(f"/proc/{pid}/task"))


SHADOW = BEGIN + dedent(
    """
    os.setgroups([]), os.setresgid(USER, USER, USER), os.setresuid(USER, USER, USER)
    scope = {"time": time}
    for number, name in enumerate(NAMES):
        exec(compile("def f%d(then):\\n    then()" % number, name, "exec"), scope)
    def nested(number):
        if number == len(NAMES):
            ready()
            time.sleep(600)
        else:
            scope["f%d" % number](lambda: nested(number + 1))
    nested(0)
    """
)


@as_root
@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_a_file_a_frame_is_named_after_is_read_with_the_job_s_rights_or_not_at_all(program, tmp_path, uid):
    """A job chooses the file names of its functions; root must not read them for it."""
    private = tmp_path / "private.py"
    private.write_text("secret = 1\nsecret = 2\n")
    private.chmod(0o600)
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "device.py").symlink_to("/dev/zero")
    names = ["/etc/shadow", "/etc/passwd", str(tmp_path / "fifo.py"), str(tmp_path / "device.py"), str(private)]
    pid = settled(program(f"USER = {uid}\nNAMES = {names!r}\n" + SHADOW))
    frames = stack(gather(pid), f"h1/{pid}/{pid}")
    shown = {f.file for f in frames if f.source or f.enclosing}
    assert set(names) <= {f.file for f in frames}
    assert shown & set(names) == ({str(private)} if uid == 0 else set())
    assert str(tmp_path / "program.py") in shown


POLLING = BEGIN + dedent(
    """
    class Baton:
        def __init__(self, folder):
            self._path = folder + "/lock"
        def wait(self, never="gone.json", password="/not/for/you", word="a/b", url="http://u:p@h/x", number=3):
            while os.path.exists(self._path):
                time.sleep(0.05)
    def build(build_directory):
        Baton(build_directory).wait()
    ready()
    build(FOLDER)
    """
)


@pytest.mark.parametrize("python", [*(path for version, path in pythons() if version.startswith("3.9.")), sys.executable])
def test_a_polling_thread_s_lock_file_is_found_with_its_author_and_nobody_holding_it(program, tmp_path, python):
    folder = tmp_path / "build"
    folder.mkdir()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (folder / "lock").write_text(f"{ended.pid}\n")
    (folder / "other.txt").write_text("no lock")
    pid = settled(program(f"FOLDER = {str(folder)!r}\n" + POLLING, python=python))
    items = gather(pid, window_s=0.6)
    files = {file.path: file for file in rows(items, "files")}
    lock = files[str(folder / "lock")]
    assert (lock.kind, lock.why_looked, lock.exists) == ("lock", "stack", True)
    assert lock.named_by.endswith("build.build_directory")
    assert (lock.content, lock.author_pid, lock.author_alive) == (f"{ended.pid}\n", ended.pid, False)
    assert lock.holders == ()
    assert files[str(folder)].kind == "directory"
    assert (files[str(tmp_path / "gone.json")].kind, files[str(tmp_path / "gone.json")].exists) == ("missing", False)
    assert set(files) == {str(folder), str(folder / "lock"), str(tmp_path / "gone.json")}
    kept = {name: text for f in rows(items, "frames") for name, text in (f.locals or {}).items()}
    assert kept == {"build_directory": str(folder), "never": "gone.json"}
    assert {f.sample for f in rows(items, "frames") if f.locals} == {EXTRA_SAMPLE}


def test_a_lock_file_s_living_author_and_holder_are_named(program, tmp_path):
    folder = tmp_path / "build"
    folder.mkdir()
    text = POLLING.replace(
        "ready()\n", "held = open(FOLDER + '/lock', 'w'); held.write('pid: %d' % os.getpid()); held.flush(); ready()\n"
    )
    pid = settled(program(f"FOLDER = {str(folder)!r}\n" + text))
    [lock] = [file for file in rows(gather(pid, window_s=0.6), "files") if file.kind == "lock"]
    assert (lock.author_pid, lock.author_alive) == (pid, True)
    assert lock.holders == (f"h1/{pid}",)


def test_a_thread_that_waits_without_a_timeout_has_no_locals_taken(program):
    items = gather(settled(program(STUCK)), window_s=0.6)
    assert rows(items, "files") == []
    assert all(f.locals is None for f in rows(items, "frames"))


BUSY = BEGIN + dedent(
    """
    def spin():
        ready()
        while True: pass
    spin()
    """
)


def test_a_busy_thread_gets_more_looks_but_a_bounded_number_of_them(program):
    pid = program(BUSY)
    items = gather(pid, window_s=2.0)
    extra = [f for f in rows(items, "frames") if f.sample >= EXTRA_SAMPLE]
    assert extra
    assert {f.thread for f in extra} == {f"h1/{pid}/{pid}"}
    assert len({f.sample for f in extra}) <= stacks.EXTRA_LOOKS
    times = sorted({f.mono_ns for f in rows(items, "frames")})
    assert len(times) >= 4


def test_a_sleeping_thread_gets_no_more_looks_than_there_are_rounds(program):
    items = gather(settled(program(STUCK)), window_s=1.0)
    assert {f.sample for f in rows(items, "frames")} == {0, 1, 2}


MOVING = BEGIN + dedent(
    """
    sys.setrecursionlimit(3000)
    def down(depth):
        return down(depth - 1) if depth else 0
    ready()
    while True:
        down(900)
    """
)


def test_a_stack_that_moves_too_fast_is_called_moving_not_broken(program):
    items = gather(program(MOVING))
    runs = rows(items, "tool_runs")
    assert {r.sample for r in runs} == {0, 1, 2}
    assert {(r.message or "moving").partition(":")[0] for r in runs if r.outcome != "ok"} <= {"moving"}
    for gap in gaps(items):
        assert gap.status == "partial"
        assert "moving" in gap.message
    assert rows(items, "frames") or gaps(items)


def test_a_process_that_ended_or_was_replaced_is_not_attached_to(program):
    pid = settled(program(STUCK))
    items = gather(target_of(pid, start_ticks=1))
    assert rows(items, "frames") == []
    assert rows(items, "tool_runs") == []
    assert "ended" in gaps(items)[0].message


def test_what_is_no_python_is_a_gap_and_the_others_keep_their_stacks(program, start):
    pid, other = settled(program(STUCK)), settled(start(["sleep", "600"]).pid)
    items = gather(other, pid)
    assert stack(items, f"h1/{pid}/{pid}", 2)
    [gap] = gaps(items)
    assert (gap.status, gap.target) == ("absent", f"h1/{other}")
    assert "no Python" in gap.message


def test_a_job_without_python_says_so(start):
    items = gather(target_of(start(["sleep", "600"]).pid, is_python=False))
    assert [gap.status for gap in gaps(items)] == ["absent"]


def test_the_collector_s_own_processes_are_no_evidence(program):
    pid = settled(program(STUCK))
    assert rows(gather(pid, own_pids=(pid,)), "frames") == []


def test_without_py_spy_the_gap_names_how_to_get_it(program, monkeypatch):
    monkeypatch.setattr(stacks, "find_tool", lambda name, ours: None)
    [gap] = gaps(gather(settled(program(STUCK))))
    assert (gap.status, gap.hint, gap.tables) == ("absent", "pip install py-spy", ("frames",))


def test_a_py_spy_that_never_answers_costs_its_limit_and_is_recorded(program, monkeypatch, tmp_path):
    hanging = tmp_path / "py-spy"
    hanging.write_text("#!/bin/sh\ntrap '' TERM\nsleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(stacks, "find_tool", lambda name, ours: str(hanging))
    monkeypatch.setattr(stacks, "DUMP_LIMIT_S", 0.2)
    monkeypatch.setattr(stacks, "PATIENT_LIMIT_S", 0.4)
    items = gather(settled(program(STUCK)))
    assert [(r.sample, r.outcome) for r in rows(items, "tool_runs")] == [(n, "timeout") for n in range(3)]
    assert [r.seconds >= 0.4 for r in rows(items, "tool_runs")] == [True, False, False]
    assert [gap.status for gap in gaps(items)] == ["timeout"]


def test_one_hanging_look_does_not_delay_the_others(program, monkeypatch, tmp_path):
    """The stuck ones are tried again only when everyone has had a turn."""
    stuck, pid = settled(program(STUCK)), settled(program(STUCK))
    real = find_tool("py-spy", ours=True)
    choosy = tmp_path / "py-spy"
    choosy.write_text(f'#!/bin/sh\ncase "$*" in *"--pid {stuck}") sleep 600;; *) exec {real} "$@";; esac\n')
    choosy.chmod(0o755)
    monkeypatch.setattr(stacks, "find_tool", lambda name, ours: str(choosy))
    monkeypatch.setattr(stacks, "PARALLEL", 1)
    monkeypatch.setattr(stacks, "DUMP_LIMIT_S", 1.5)
    monkeypatch.setattr(stacks, "PATIENT_LIMIT_S", 1.5)
    items = gather(stuck, pid)
    runs = [(r.process, r.sample, r.outcome) for r in rows(items, "tool_runs")]
    assert runs[:3] == [(f"h1/{pid}", 0, "ok"), (f"h1/{stuck}", 0, "timeout"), (f"h1/{pid}", 1, "ok")]
    assert stack(items, f"h1/{pid}/{pid}", 2)


def test_at_the_end_of_its_time_the_probe_says_what_was_cut(program):
    items = gather(settled(program(STUCK)), window_s=0.1, spare_s=0.0)
    assert any(gap.status == "partial" and "no time" in gap.message for gap in gaps(items))


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made")
def test_source_on_a_dead_mount_is_missing_and_the_stacks_are_there(start):
    with stalling_mount() as mount:
        pid = settled(start([sys.executable, "-B", mount.path / "script.py"]).pid)
        wait_until(lambda: "nanosleep" in Path(f"/proc/{pid}/wchan").read_text(), what="the script sleeps")
        mount.stall()
        began = time.monotonic()
        items = gather(pid)
        took = time.monotonic() - began
        mount.resume()
    assert [f.function for f in stack(items, f"h1/{pid}/{pid}")] == ["train", "<module>"]
    assert not any(f.source for f in rows(items, "frames"))
    assert any("source" in gap.message for gap in gaps(items))
    assert took < 20


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("Permission Denied: Try running again\nError: Failed to get process executable name.\n", "permission"),
        ("Error: Failed to open process\n\nCaused by:\n    Operation not permitted (os error 1)\n", "permission"),
        ("Error: Failed to get process executable name.\n\nCaused by:\n 0: No such file or directory (os error 2)", "gone"),
        ("Error: No such process (os error 3)", "gone"),
        ("Error: Failed to find python version from target process\n", "not-python"),
        ("Error: Failed to find a python interpreter in the .data section\n", "moving"),
        ("Error: Unsupported version of Python: 3.99\n", "unsupported"),
        ("thread 'main' panicked at src/x.rs:1:2\n", "error"),
    ],
)
def test_py_spy_s_backtraces_become_plain_words(stderr, reason):
    failure = pyspy.failure(ToolOutput(("py-spy",), "error", 1, stderr=stderr.encode()))
    assert failure.reason == reason
    assert "stack backtrace" not in failure.message.lower()


@pytest.mark.parametrize("printed", [b"", b"[", b"{}", b"null", b"\xff\xfe", b"[" * 100_000, b"[1, {}]", b'[{"frames": 3}]'])
def test_a_dump_that_is_none_is_refused_or_empty(printed):
    try:
        threads = pyspy.parse(printed)
    except ValueError:
        return
    assert not any(thread.frames for thread in threads)


def test_a_very_deep_stack_keeps_both_ends_under_their_own_depths():
    frames = [{"name": "f", "filename": "x.py", "line": number} for number in range(5000)]
    [thread] = pyspy.parse(json.dumps([{"thread_id": 1, "frames": frames}]).encode())
    assert len(thread.frames) == stack_lines.INNERMOST + stack_lines.OUTERMOST
    assert thread.depths[0] == 0
    assert thread.depths[-1] == 4999
    assert [frame.line for frame in thread.frames] == list(thread.depths)
