"""A process that has registered faulthandler for a signal prints its stacks; no other process is ever sent one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faults.stalling_fuse import wait_for_state
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.stacks import faulthandler, thread_ids
from flatline.collector.stacks.faulthandler import Asked, Registration
from job_view import target_of
from programs import open_to_others, pythons, real_python

NOBODY = 65534
PROC = ProcFS()
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
VERSIONS = sorted(
    {".".join(version.split(".")[:2]) for version, _ in pythons()}, key=lambda v: tuple(map(int, v.split(".")))
)

JOB = """
import faulthandler, json, os, signal, sys, threading, time
tmp, how = sys.argv[1:3]
ticks = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
folder = f"{tmp}/flatline-recorder-{os.getpid()}-{ticks}"
os.mkdir(folder, 0o700)
out = open(folder + "/faulthandler.txt", "a")
number = signal.SIGUSR2
if how == "registered":
    faulthandler.register(number, file=out, all_threads=True, chain=False)
elif how == "catches-sigterm":
    number = signal.SIGTERM
    signal.signal(number, lambda *_: os._exit(9))
elif how == "closed":
    signal.signal(number, lambda *_: os._exit(9))
    out.close()
elif how == "blocks":
    faulthandler.register(number, file=out, all_threads=True, chain=False)
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
elif how == "silent":
    signal.signal(number, lambda *_: None)
announced = {"format": "flatline-recorder/1", "pid": os.getpid(), "start_ticks": ticks,
             "faulthandler": {"signal": int(number), "file": "faulthandler.txt"}}
with open(folder + "/new", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
    json.dump(announced, file)
os.rename(folder + "/new", folder + "/recorder.json")
def background():
    threading.Event().wait()
def train():
    os.write(1, folder.encode() + b"\\n")  # in one piece: a child may write there too
    lock = threading.Lock(); lock.acquire(); lock.acquire()
if how == "forks":
    faulthandler.register(number, file=out, all_threads=True, chain=False)
    if os.fork() == 0:
        os.write(1, b"%d\\n" % os.getpid()); time.sleep(600)
if how == "execs":
    os.set_inheritable(1, True)
    code = "import signal, time, os; signal.signal(12, lambda *_: os._exit(9)); print(os.sys.argv[1], flush=True); time.sleep(600)"
    os.execv(sys.executable, [sys.executable, "-c", code, folder])
if how == "registered":
    threading.Thread(target=background, daemon=True).start()
train()
"""


class Job:
    """A process that has announced a handler."""

    def __init__(self, process: subprocess.Popen, folder: Path, tmp: Path) -> None:
        self.pid, self.folder, self.tmp = process.pid, folder, str(tmp)
        self.target = target_of(process.pid)
        self.process = process

    def find(self):
        return faulthandler.find(self.target, self.tmp)

    def registration(self, **changes) -> Registration:
        known = {"pid": self.pid, "start_ticks": self.target.start_ticks, "signal": signal.SIGUSR2}
        return Registration(**{**known, "file": str(self.folder / "faulthandler.txt"), **changes})

    def ask(self, **changes) -> Asked:
        return faulthandler.ask(self.target, self.registration(**changes))

    def is_untouched(self) -> bool:
        """It lives, nothing waits for it, and nothing was printed."""
        fields = dict(
            line.split(":\t") for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if ":\t" in line
        )
        pending = [int(fields[name], 16) for name in ("SigPnd", "ShdPnd")]
        printed = self.folder / "faulthandler.txt"
        return self.process.poll() is None and pending == [0, 0] and not (printed.exists() and printed.read_text())


@pytest.fixture
def job(start, tmp_path):
    """Start a job that registers and announces, in one of several ways."""

    def begin(how: str = "registered", *, python: str = sys.executable, **options) -> Job:
        process = start([python, "-c", JOB, tmp_path, how], stdout=subprocess.PIPE, text=True, **options)
        lines = [process.stdout.readline().strip()]
        while not lines[-1].startswith("/"):
            lines.append(process.stdout.readline().strip())
        wait_for_state(process.pid, "S")
        return Job(process, Path(lines[-1]), tmp_path)

    return begin


# --- asked ---


@pytest.mark.parametrize("version", VERSIONS)
def test_every_thread_is_printed_innermost_first(job, left_as_found, version):
    one = job(python=real_python(version))
    left_as_found(one.pid)
    found = one.find()
    assert isinstance(found, Registration)
    asked = faulthandler.ask(one.target, found)
    assert (asked.refused, asked.failed) == ("", "")
    threads = faulthandler.parse(asked.text)
    names = [[frame.name for frame in thread.frames] for thread in threads]
    assert ["train", "<module>"] in names
    background = next(stack for stack in names if "background" in stack)
    assert background.index("wait") < background.index("background") < background.index("_bootstrap")
    tids = thread_ids.identify(PROC, one.pid, threads, {})
    assert sorted(tids.values()) == sorted(int(tid) for tid in os.listdir(f"/proc/{one.pid}/task"))


def test_of_two_dumps_the_second_is_what_was_asked_for(job, left_as_found):
    one = job()
    left_as_found(one.pid)
    first, second = one.ask().text, one.ask().text
    assert first == second
    assert (one.folder / "faulthandler.txt").read_bytes() == first + second


@as_root
def test_a_job_of_an_ordinary_user_is_asked_as_that_user(job, tmp_path, left_as_found):
    tmp_path.chmod(0o777)
    open_to_others(tmp_path)
    one = job(user=NOBODY, group=NOBODY, extra_groups=[], python="/usr/bin/python3")
    left_as_found(one.pid)
    assert b"in train" in faulthandler.ask(one.target, one.find()).text


def test_a_process_that_announces_nothing_is_not_asked(start):
    assert faulthandler.find(target_of(start(["sleep", "600"]).pid), "/nonexistent") is None


def test_a_handler_that_prints_nothing_costs_no_more_than_its_limit(job):
    one = job("silent")
    asked = faulthandler.ask(one.target, one.registration(), limit_s=0.3)
    assert asked.failed == "it printed nothing within 0.3 s"


# --- never sent ---


def test_no_signal_to_a_process_that_does_not_catch_it(job):
    one = job("nothing")
    assert one.ask().refused == f"it does not catch signal {int(signal.SIGUSR2)}"
    assert one.is_untouched()


def test_no_signal_that_means_something_by_itself(job):
    """The job catches SIGTERM to save its state and end."""
    one = job("catches-sigterm")
    assert f"signal {int(signal.SIGTERM)} is none" in faulthandler.ask(one.target, one.find()).refused
    assert one.is_untouched()


@pytest.mark.parametrize("which", ["target", "registration"])
def test_no_signal_to_another_process_under_the_same_pid(job, which):
    one = job()
    reused = target_of(one.pid, start_ticks=one.target.start_ticks - 7)
    if which == "target":
        registration = one.registration(start_ticks=reused.start_ticks)
        assert "another process now" in faulthandler.ask(reused, registration).refused
        assert faulthandler.find(reused, one.tmp) is None
    else:
        assert one.ask(start_ticks=reused.start_ticks).refused == "what was announced is another process"
    assert one.is_untouched()


def test_no_signal_to_a_child_that_has_inherited_the_handler(start, tmp_path):
    process = start([sys.executable, "-c", JOB, tmp_path, "forks"], stdout=subprocess.PIPE, text=True)
    lines = {process.stdout.readline().strip(), process.stdout.readline().strip()}
    child = target_of(next(int(line) for line in lines if line.isdigit()))
    folder = next(line for line in lines if line.startswith("/"))
    assert faulthandler.find(child, str(tmp_path)) is None
    mother = target_of(process.pid)
    inherited = Registration(mother.pid, mother.start_ticks, signal.SIGUSR2, f"{folder}/faulthandler.txt")
    assert faulthandler.ask(child, inherited).refused == "what was announced is another process"
    assert Path(f"{folder}/faulthandler.txt").read_text() == ""


def test_no_signal_after_exec(job):
    """The same process, the same start time, and it catches the same signal; but to another end."""
    one = job("execs")
    assert "does not hold" in faulthandler.ask(one.target, one.find()).refused
    assert one.is_untouched()


def test_no_signal_where_the_file_is_closed(job):
    one = job("closed")
    assert "does not hold" in one.ask().refused
    assert one.is_untouched()


def test_no_signal_that_would_wait(job):
    one = job("blocks")
    assert "blocks signal" in one.ask().refused
    assert one.is_untouched()


def test_no_signal_to_a_stopped_process(job):
    one = job()
    os.kill(one.pid, signal.SIGSTOP)
    wait_for_state(one.pid, "T")
    assert "state T" in one.ask().refused
    assert one.is_untouched()


# --- planted ---


def open_folder(folder):
    folder.chmod(0o770)


def somebody_elses_folder(folder):
    os.chown(folder, NOBODY, NOBODY)


def somebody_elses_announcement(folder):
    os.chown(folder / "recorder.json", NOBODY, NOBODY)


def link_in_its_place(folder):
    (folder / "recorder.json").rename(folder.parent / "elsewhere.json")
    (folder / "recorder.json").symlink_to(folder.parent / "elsewhere.json")


def second_name(folder):
    os.link(folder / "recorder.json", folder.parent / "second.json")


def folder_is_a_link(folder):
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize(
    "plant",
    [
        open_folder,
        pytest.param(somebody_elses_folder, marks=as_root),
        pytest.param(somebody_elses_announcement, marks=as_root),
        link_in_its_place,
        second_name,
        folder_is_a_link,
    ],
)
def test_an_announcement_that_another_user_could_have_put_there_is_not_believed(job, plant):
    one = job()
    plant(one.folder)
    found = one.find()
    assert isinstance(found, str)
    assert "not to be trusted" in found
    assert one.is_untouched()


@pytest.mark.parametrize("plant", [open_folder, pytest.param(somebody_elses_folder, marks=as_root), folder_is_a_link])
def test_no_signal_where_another_user_could_have_put_the_file_there(job, plant):
    one = job()
    plant(one.folder)
    assert "not to be trusted" in one.ask().refused
    assert one.is_untouched()


def test_no_signal_where_the_file_is_another_one_than_the_process_holds(job):
    one = job()
    (one.folder / "faulthandler.txt").rename(one.folder / "old")
    (one.folder / "faulthandler.txt").touch(0o600)
    assert "does not hold" in one.ask().refused
    assert one.is_untouched()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"format": "flatline-recorder/2", "pid": 1, "start_ticks": 2, "faulthandler": {"signal": 12, "file": "x"}}',
        '{"format": "flatline-recorder/1", "pid": "1", "start_ticks": 2, "faulthandler": {"signal": 12, "file": "x"}}',
        '{"format": "flatline-recorder/1", "pid": 1, "start_ticks": 2, "faulthandler": {"signal": 12, "file": "../x"}}',
        '{"format": "flatline-recorder/1", "pid": 1, "start_ticks": 2, "faulthandler": null}',
        "[" * 4000,
    ],
)
def test_a_malformed_announcement_is_not_believed(job, text):
    one = job()
    (one.folder / "recorder.json").write_text(text)
    found = one.find()
    assert isinstance(found, str)
    assert "not to be trusted" in found


# --- the text ---


def test_other_text_has_no_threads():
    assert faulthandler.parse(b'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n') == []
    assert faulthandler.parse(b"\xff\x00\n" * 100) == []


def test_names_truncated_lists_and_c_stacks_of_newer_pythons_are_taken_in_stride():
    text = (
        b"Thread 0x00007f1d2b7fe6c0 [loader] (most recent call first):\n"
        b'  File "/job/a b/data\\xe9.py", line 7 in fetch\n'
        b"  File ???, line ??? in ???\n"
        b"  ...\n\n"
        b"Thread 0x00007f1d2b7fe700 (most recent call first):\n  <no Python frame>\n\n"
        b"Current thread 0x00007f1d2c000740 (most recent call first):\n  Garbage-collecting\n"
        b'  File "<string>", line 3 in <module>\n\n'
        b'Current thread\'s C stack trace (most recent call first):\n  Binary file "/usr/bin/python3", at x [0x1]\n'
    )
    threads = faulthandler.parse(text)
    assert [thread.pthread for thread in threads] == [0x7F1D2B7FE6C0, 0x7F1D2C000740]
    assert [(f.name, f.file, f.line) for f in threads[0].frames] == [
        ("fetch", "/job/a b/data\\xe9.py", 7),
        ("???", "", None),
    ]
    assert [(f.name, f.file, f.line) for f in threads[1].frames] == [("<module>", "<string>", 3)]
