"""The recorder in real programs: what it keeps when they hang, die or are killed, and that they notice nothing of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.recorder import ring
from flatline.collector.stacks import faulthandler
from job_view import target_of
from programs import pythons, real_python, wait_until

from flatline.recorder import environment, folder

START = Path(folder())
SECRET = "Zq7Tk2Wm9Xv4Rb1LpHs8"
VERSIONS = sorted({".".join(v.split(".")[:2]) for v, _ in pythons()} - {"2.7", "3.6"}, key=lambda v: tuple(map(int, v.split("."))))


@pytest.fixture
def rings(tmp_path):
    """A private folder for rings that stay, and what is in it."""
    place = tmp_path / "rings"
    place.mkdir(0o700)

    class Rings:
        path = place

        def all(self) -> list[ring.Ring]:
            return [ring.decode(file.read_bytes()) for file in sorted(place.glob("flatline-ring-*"))]

        def begun(self) -> list[ring.Ring]:
            """Without those that are just being made."""
            texts = [file.read_bytes() for file in sorted(place.glob("flatline-ring-*"))]
            return [ring.decode(text) for text in texts if text.startswith(b"format") and len(text) == ring.SIZE]

        def of(self, pid: int) -> ring.Ring:
            return next(one for one in self.all() if one.number("pid") == pid)

        def environment(self, **more: str) -> dict[str, str]:
            given = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
            given |= {"TMPDIR": str(tmp_path), "FLATLINE_RECORDER_DIR": str(place), **more}
            return environment(given)

    return Rings()


@pytest.fixture
def run(rings, tmp_path):
    """Run a program to its end with the recorder."""

    def go(code: str, *args: str, python: str = sys.executable, before: tuple[str, ...] = (), **more: str):
        script = tmp_path / "job.py"
        script.write_text(code)
        return subprocess.run(
            [python, *before, str(script), *args], env=rings.environment(**more), capture_output=True, text=True, timeout=60
        )

    return go


@pytest.fixture
def hung(start, rings, tmp_path):
    """Start a program that hangs, with the recorder; killed once `until` is in a ring."""

    def go(argv: list, until, **options) -> int:
        process = start(argv, env=rings.environment(), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        wait_until(lambda: any(until(one) for one in rings.begun()), what="the ring shows it", seconds=60)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        return process.pid

    return go


def told(one: ring.Ring, kind: str) -> list[str]:
    return [event.text for event in one.events if event.kind == kind]


def is_open(kind: str, text: str):
    return lambda one: (kind, text) in [(event.kind, event.text) for event in one.open]


# --- what the last events name ---


def test_the_reader_and_the_writer_agree_on_the_places():
    text = (START / "sitecustomize.py").read_text()
    numbers = dict(re.findall(r"^(\w+) = (\d+)$", text, re.M))
    assert re.search(rf"^SIZE, HEAD, SLOT = {ring.SIZE}, {ring.HEAD}, {ring.SLOT}$", text, re.M)
    assert numbers["OPEN_SLOTS"] == str(ring.OPEN_SLOTS)
    assert text.isascii()


def test_an_import_that_never_returns_is_open_after_sigkill(hung, rings, tmp_path):
    (tmp_path / "slow_package").mkdir()
    (tmp_path / "slow_package" / "__init__.py").write_text("from . import inner\n")
    (tmp_path / "slow_package" / "inner.py").write_text("import time; time.sleep(600)\n")
    (tmp_path / "train.py").write_text("import slow_package\n")
    pid = hung([sys.executable, "train.py"], lambda one: is_open("import", "slow_package")(one) and one.looking and "inner" in one.looking.text)
    left = rings.of(pid)
    assert [(event.kind, event.text) for event in left.open] == [("import", "slow_package")]
    assert left.looking.text == "slow_package.inner"
    assert left.header["cwd"] == [str(tmp_path)]
    assert left.header["argv"][0].endswith("train.py")


def test_a_hang_before_logging_is_set_up_is_told_from_one_after_it(hung, rings, tmp_path):
    (tmp_path / "train.py").write_text("import logging, flatline, time\nwith flatline.phase('read config'):\n    time.sleep(600)\nlogging.basicConfig()\n")
    left = rings.of(hung([sys.executable, "train.py"], is_open("phase", "read config")))
    assert told(left, "logging") == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_that_hangs_has_a_ring_of_its_own(hung, rings, tmp_path, method):
    (tmp_path / "train.py").write_text(f"""
import flatline, multiprocessing, time
def child():
    with flatline.phase("load shard"):
        time.sleep(600)
if __name__ == "__main__":
    with flatline.phase("start workers"):
        worker = multiprocessing.get_context({method!r}).Process(target=child)
        worker.start()
        worker.join()
""")
    parent = hung([sys.executable, "train.py"], is_open("phase", "load shard"))
    assert [event.text for event in rings.of(parent).open] == ["start workers"]
    child = next(one for one in rings.all() if is_open("phase", "load shard")(one))
    assert len(child.open) == 1
    if method == "fork":
        assert child.number("ppid") == parent
        assert child.header["how"] == ["fork inside phase start workers"]


def test_behind_a_launcher_that_swallows_all_output_the_place_is_known(hung, rings, tmp_path):
    (tmp_path / "train.py").write_text("import flatline, time\nprint('hello')\nwith flatline.phase('warm up'):\n    time.sleep(600)\n")
    launcher = "const child = require('child_process').spawn(process.argv[1], ['train.py'], {stdio: ['ignore', 'pipe', 'pipe']}); setInterval(() => {}, 1000)"
    pid = hung(["node", "-e", launcher, sys.executable], is_open("phase", "warm up"))
    (left,) = rings.all()
    assert left.number("ppid") == pid


def test_an_error_that_ended_a_thread_is_kept_with_its_place(run, rings):
    run("import threading\ndef feed():\n    raise KeyError('batch')\nt = threading.Thread(target=feed, name='feeder')\nt.start(); t.join()\n")
    (left,) = rings.all()
    assert told(left, "thread-exception") == ["in feeder: KeyError: 'batch'"]
    assert told(left, "thread-exception-at")[-1].endswith("job.py:3 in feed")


def test_errors_that_pools_event_loops_and_children_swallow_are_kept(run, rings):
    run("""
import asyncio, concurrent.futures, multiprocessing
def bad(): raise ValueError("shard 7")
async def main():
    task = asyncio.get_running_loop().create_task(worse())
    await asyncio.sleep(0)
    del task
    await asyncio.sleep(0)
async def worse(): raise LookupError("never awaited")
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(bad)
asyncio.run(main())
child = multiprocessing.get_context("fork").Process(target=bad)
child.start(); child.join()
""")
    events = {(event.kind, event.text) for one in rings.all() for event in one.events}
    assert {("future-exception", "ValueError: shard 7"), ("asyncio-exception", "LookupError: never awaited"), ("printed-exception", "ValueError: shard 7")} <= events


def test_an_unhandled_error_and_the_threads_that_keep_the_process_are_kept(run, rings):
    done = run("import threading\nthreading.Thread(target=threading.Event().wait, args=(0.1,), name='sync').start()\nraise RuntimeError('no GPU')\n")
    (left,) = rings.all()
    assert done.returncode == 1
    assert "RuntimeError: no GPU" in done.stderr
    assert told(left, "exception") == ["RuntimeError: no GPU"]
    assert told(left, "exception-at") == [f"{left.header['argv'][0].split()[1]}:3 in <module>"]
    assert len(told(left, "exit")) == 1


def test_a_fork_beside_threads_names_them(run, rings):
    run("import os, threading\ne = threading.Event()\nthreading.Thread(target=e.wait, name='prefetch').start()\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0); e.set()\n")
    assert ["with threads: MainThread, prefetch"] in [told(one, "fork") for one in rings.all()]


def test_the_last_events_stay_and_what_is_open_is_never_overwritten(run, rings):
    run("import flatline\nwith flatline.phase('epoch'):\n    for step in range(1000):\n        with flatline.phase(f'step {step}'): pass\n    import os; os.kill(os.getpid(), 9)\n")
    (left,) = rings.all()
    assert [event.text for event in left.open] == ["epoch"]
    assert left.events[-1].text == "step 999"
    assert len(left.events) == (ring.SIZE - ring.EVENTS_AT) // ring.SLOT
    assert [event.number for event in left.events] == list(range(left.events[0].number, left.events[-1].number + 1))


def test_secrets_of_arguments_and_messages_are_hidden(run, rings):
    run("raise ValueError('https://me:hunter2@host/x said password=hunter2')", "--api-key", "hunter2", "--wandb-token=hunter2", "hf_hunter2", "--tokenizer", "gpt2", SECRET="hunter2", HF_TOKEN="hunter2")
    (file,) = rings.path.glob("flatline-ring-*")
    assert b"hunter2" not in file.read_bytes()
    left = ring.decode(file.read_bytes())
    assert left.header["argv"][0].endswith("--api-key [hidden] --wandb-token=[hidden] [hidden] --tokenizer gpt2")
    assert "HF_TOKEN" in left.header["env-names"][0]


def test_names_of_threads_pass_the_mask(run, rings):
    run(
        "import os, threading\ne = threading.Event()\ndef f(): e.wait(); raise OSError\n"
        f"t = threading.Thread(target=f, name='token={SECRET}')\nt.start()\n"
        "pid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0); e.set(); t.join()\n",
        FLATLINE_RECORDER="debug",
    )
    files = list(rings.path.glob("flatline-ring-*"))
    assert len(files) == 2
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]


# --- the job notices nothing ---


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_records_and_leaves_nothing_behind(run, rings, tmp_path, version):
    done = run("import flatline, os, threading\nwith flatline.phase('a'): print(os.listdir(os.environ['TMPDIR']))\nprint(__import__('sitecustomize'))", python=real_python(version))
    assert done.stderr == ""
    assert "flatline-recorder-" in done.stdout
    (left,) = rings.all()
    assert told(left, "phase-enter") == told(left, "phase-leave") == ["a"]
    assert not list(tmp_path.glob("flatline-recorder-*"))
    assert left.header["python"][0].startswith(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_its_own_folder_is_on_the_path_but_not_searched_for_every_module(run, version):
    code = """
import importlib, sys
here = sys.modules["_flatline_recorder"].__file__.rpartition("/")[0]
print(here in sys.path, sys.path_importer_cache.get(here, "searched"))
importlib.invalidate_caches()
import decimal
"""
    done = run(code, python=real_python(version))
    assert (done.stdout, done.stderr) == ("True None\n", "")


def test_without_a_folder_to_keep_it_in_the_ring_goes_with_the_process(run, tmp_path):
    done = run("import os\nt = os.environ['TMPDIR']\nf = [n for n in os.listdir(t) if n.startswith('flatline-')][0]\nprint(sorted(os.listdir(t + '/' + f)), oct(os.stat(t + '/' + f).st_mode), oct(os.stat(t + '/' + f + '/ring').st_mode))", FLATLINE_RECORDER_DIR="")
    assert done.stdout == "['faulthandler.txt', 'recorder.json', 'ring'] 0o40700 0o100600\n"
    assert not list(tmp_path.glob("flatline-recorder-*"))


def test_the_sitecustomize_that_was_there_runs_as_ever(run, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys\nsys.seen = (__name__, __file__, sys.modules['sitecustomize'].__spec__.name)\n")
    done = run("import sys, sitecustomize\nprint(sys.seen, sitecustomize.__file__)", PYTHONPATH=str(tmp_path / "own"))
    own = str(tmp_path / "own" / "sitecustomize.py")
    assert done.stdout.strip() == f"('sitecustomize', {own!r}, 'sitecustomize') {own}"


def test_one_that_fails_is_reported_as_ever_and_the_job_runs(run, rings, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    done = run("print('runs')", PYTHONPATH=str(tmp_path / "own"))
    assert done.stdout == "runs\n"
    assert "Error in sitecustomize" in done.stderr
    assert "ValueError: mine" in done.stderr
    assert len(rings.all()) == 1


def test_an_isolated_python_runs_unrecorded(run, rings):
    assert run("print('runs')", before=("-I",)).stdout == "runs\n"
    assert rings.all() == []


def test_switched_off_nothing_is_touched(run, rings):
    done = run("import sys\nprint(sys.meta_path[0], '_flatline_recorder' in sys.modules, sys.excepthook is sys.__excepthook__)", FLATLINE_RECORDER="off")
    assert "Watching" not in done.stdout
    assert done.stdout.endswith("False True\n")
    assert rings.all() == []


def test_a_virtual_environment_sees_its_own_packages(run, rings, tmp_path):
    subprocess.run([real_python("3.11"), "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=60)
    done = run("import sys; print(sys.prefix)", python=str(tmp_path / "venv" / "bin" / "python"))
    assert done.stdout.strip() == str(tmp_path / "venv")
    assert len(rings.all()) == 1


def test_modules_keep_their_loaders_and_errors_their_form(run, tmp_path):
    (tmp_path / "mine.py").write_text("VALUE = 1\n")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    done = run("""
import mine, importlib, pickle
print(type(mine.__loader__).__name__, mine.__spec__.loader is mine.__loader__, importlib.reload(mine) is mine)
try: import broken
except ModuleNotFoundError as error: print(error.name, "broken" in __import__("sys").modules)
""")
    assert done.stdout.splitlines() == ["SourceFileLoader True True", "nothing_of_that_name False"], done.stderr


def test_a_finder_of_the_job_that_asks_all_others_is_not_asked_back(run):
    done = run("""
import sys
class Asking:
    def find_spec(self, name, path=None, target=None):
        asked.append(name)
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None: return spec
asked = []
sys.meta_path.insert(0, Asking())
import concurrent.futures
try: import nothing_of_that_name
except ModuleNotFoundError: print("none", asked.count("nothing_of_that_name"))
class Failing:
    def find_spec(self, name, path=None, target=None): raise AttributeError("of the job")
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "Asking"]
sys.meta_path.insert(1, Failing())
try: import nothing_of_that_name
except AttributeError as error: print(error)
""")
    assert done.stdout.splitlines() == ["none 1", "of the job"], done.stderr


def test_a_child_whose_ring_failed_leaves_the_files_of_its_parent(run, tmp_path):
    done = run("""
import os, sys
where = os.environ["TMPDIR"]
def left(): return [sorted(os.listdir(where + "/" + n)) for n in os.listdir(where) if n.startswith("flatline-recorder-")]
sys.modules["_flatline_recorder"].Recorder.start = lambda *_: 1 / 0
if not os.fork(): os._exit(0)
os.wait()
print(left())
import ctypes
fork = ctypes.PyDLL(None).fork  # no hook of Python's runs in this child
if not fork(): os._exit(0)
os.wait()
print(left())
""", FLATLINE_RECORDER_DIR="")  # fmt: skip
    assert done.stdout.splitlines() == ["[['faulthandler.txt', 'recorder.json', 'ring']]"] * 2, done.stderr


def test_a_child_without_a_ring_is_not_registered_on_the_descriptor_of_its_parent(run):
    done = run("""
import faulthandler, os, signal, sys
sys.modules["_flatline_recorder"].Ring.begin = lambda *_: 1 / 0
if not os.fork():
    again = faulthandler.unregister(50)
    os.write(1, b"registered" if again else b"not registered")
    os._exit(0)
os.wait()
""")
    assert done.stdout == "not registered", done.stderr


@pytest.mark.parametrize("kept", ["missing", "wide", "unfit"])
def test_where_the_folder_to_keep_rings_is_no_good_the_ring_lies_below_tmpdir(run, rings, tmp_path, kept):
    (tmp_path / "wide").mkdir(0o755)
    folder = {"missing": tmp_path / "missing", "wide": tmp_path / "wide", "unfit": Path("/proc/self")}[kept]
    code = "import os\nt = os.environ['TMPDIR']\nprint([os.listdir(t + '/' + n) for n in os.listdir(t) if n.startswith('flatline-')])"
    assert "'ring'" in run(code, FLATLINE_RECORDER_DIR=str(folder)).stdout


def test_why_there_is_no_ring_is_told_as_a_line(rings, tmp_path):
    argv = ["prlimit", "--fsize=1000", sys.executable, "-c", "pass"]
    env = rings.environment(FLATLINE_RECORDER_LINES="stderr")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert "no-ring OSError" in done.stderr
    assert list(rings.path.iterdir()) == []


@pytest.mark.parametrize("how", ["full", "not-ours", "no-folder"])
def test_where_no_ring_can_be_the_job_runs_without(run, tmp_path, how):
    """A limit on the size of files stands for the full disk: posix_fallocate fails, and nothing is mapped."""
    (tmp_path / "t").mkdir()
    tmp = {"full": tmp_path / "t", "not-ours": "/proc", "no-folder": tmp_path / "none"}[how]
    code = "print('runs')"
    python = [sys.executable]
    if how == "full":
        python = ["prlimit", "--fsize=1000", sys.executable]
    script = tmp_path / "job.py"
    script.write_text(code)
    env = environment({**os.environ, "TMPDIR": str(tmp), "FLATLINE_RECORDER_DIR": ""})
    done = subprocess.run([*python, str(script)], env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("runs\n", "", 0)


def test_exec_into_another_python_begins_a_new_ring(run, rings):
    done = run("import os, sys\nif len(sys.argv) < 2: os.execv(sys.executable, [sys.executable, __file__, 'again'])\nprint('again')")
    assert done.stdout == "again\n"
    (left,) = rings.all()
    assert left.header["argv"][0].endswith("job.py again")


def test_a_second_interpreter_in_the_process_does_not_take_the_ring(run, rings):
    done = run("""
import flatline
try: import _xxsubinterpreters as inner
except ImportError: import _interpreters as inner
with flatline.phase("outer"):
    one = inner.create()
    inner.run_string(one, "import sys; print('inside', 'sitecustomize' in sys.modules)")
    inner.destroy(one)
""")  # fmt: skip
    assert done.stdout == "inside True\n", done.stderr
    (left,) = rings.all()
    assert told(left, "phase-leave") == ["outer"]


def test_a_function_between_fork_and_exec_makes_no_ring(run, rings):
    run("import subprocess; subprocess.run(['true'], preexec_fn=lambda: None)")
    assert len(rings.all()) == 1


def test_lines_go_where_they_are_asked_for(run, tmp_path):
    log = tmp_path / "recorder.log"
    done = run("import flatline\nwith flatline.phase('a'): pass", FLATLINE_RECORDER_LINES=f"stderr,{log}")
    lines = log.read_text().splitlines()
    assert done.stderr.splitlines() == lines
    assert re.fullmatch(r"\[flatline \d+ \+\d+\.\d{3} s\] phase-enter a", next(line for line in lines if "phase-enter" in line))
    assert log.stat().st_mode & 0o777 == 0o600


def test_lines_into_a_pipe_that_nobody_reads_do_not_stop_the_job(rings, start, tmp_path):
    (tmp_path / "job.py").write_text("import flatline, os\nfor n in range(5000):\n    with flatline.phase('p' * 100): pass\nopen('done', 'w').close()\n")
    reading, writing = os.pipe()
    start([sys.executable, "job.py"], cwd=tmp_path, env=rings.environment(FLATLINE_RECORDER_LINES="stderr"), stderr=writing)
    wait_until((tmp_path / "done").exists, what="the job ends", seconds=60)
    os.close(reading)
    os.close(writing)


def test_at_level_debug_processes_threads_and_signals_are_told(run, rings):
    done = run("""
import os, signal, subprocess, threading
def handler(*_): print("handled")
signal.signal(signal.SIGUSR1, handler)
assert signal.getsignal(signal.SIGUSR1) is handler
os.kill(os.getpid(), signal.SIGUSR1)
subprocess.run(["true"])
threading.Thread(target=print).start()
assert signal.signal(signal.SIGUSR1, signal.SIG_DFL) is handler
""", FLATLINE_RECORDER="debug")  # fmt: skip
    assert done.stderr == ""
    (left,) = rings.all()
    assert told(left, "signal") == ["10"]
    assert told(left, "subprocess.Popen") == ["true ['true']"]
    assert told(left, "thread") == ["Thread-1 (print)"]


def test_its_announcement_is_what_the_collector_asks_for(start, rings, tmp_path, left_as_found):
    (tmp_path / "job.py").write_text("import threading\nopen('ready', 'w').close()\ndef train(): threading.Event().wait()\ntrain()\n")
    process = start([sys.executable, "job.py"], cwd=tmp_path, env=rings.environment())
    wait_until((tmp_path / "ready").exists, what="the job is ready", seconds=60)
    wait_until(lambda: ProcFS().stat(process.pid).state == "S", what="it waits")
    target = target_of(process.pid)
    left_as_found(process.pid)
    asked = faulthandler.ask(target, faulthandler.find(target, str(tmp_path)))
    assert (asked.refused, asked.failed) == ("", "")
    assert b"in train" in asked.text


# --- hostile rings ---


def test_what_is_no_ring_is_refused_and_torn_slots_are_left_out():
    head = b"format flatline-ring/1\npid 12\nppid x\n".ljust(ring.HEAD, b"\0")
    slots = [b"1 2 phase a b"[:3], b"1 2 phase a b", b"x 2 phase a", b"\xff" * 256, b"1" * 256]
    events = [b"0 5 6 start exec", b"7 5 6 start wrong slot", b"2 5 6", b"-3 1 1 a b", b"4 " + b"9" * 30 + b" 1 a b"]
    data = head + b"".join(s.ljust(255)[:255] + b"\n" for s in slots).ljust(16 * 256, b"\0")
    data += b"".join(s.ljust(255)[:255] + b"\n" for s in events)
    decoded = ring.decode(data.ljust(ring.SIZE, b"\0"))
    assert [(one.kind, one.text) for one in decoded.open] == [("phase", "a b")]
    assert [(one.number, one.text) for one in decoded.events] == [(0, "exec")]
    assert decoded.number("pid") == 12
    assert decoded.number("ppid") is None
    for wrong in (b"", b"x" * ring.SIZE, data[:-1]):
        with pytest.raises(ValueError, match=r"ring|format"):
            ring.decode(wrong)
