"""What jobs do with descriptors, errors and `os._exit` goes as without the recorder, on every Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import pythons, wait_until

from flatline.recorder import environment

OLD = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.7.*/bin/python3"))
PYTHONS = {".".join(version.split(".")[:2]): path for version, path in [*(("3.7", str(p)) for p in OLD), *pythons()]}
each_python = pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS.keys())

RECORDERS_OWN = """
def recorders_own():
    there = {}
    for fd in os.listdir("/proc/self/fd"):
        try: path = os.readlink("/proc/self/fd/" + fd)
        except OSError: continue
        if "flatline-r" in path: there[int(fd)] = os.path.basename(path)
    return there
"""


@pytest.fixture
def run(tmp_path):
    """Run a program, with the recorder or without, in a folder of its own."""

    def go(code: str, python: str = sys.executable, *, recorder: bool = True, limit: int = 0, **more: str):
        place = tmp_path / ("with" if recorder else "without")
        (place / "tmp").mkdir(parents=True)
        (tmp_path / "job.py").write_text(code)
        given = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")} | {"TMPDIR": str(place / "tmp")}
        env = {**(environment(given) if recorder else given), **more}
        argv = [*(["prlimit", f"--nofile={limit}:{limit}"] if limit else []), python, str(tmp_path / "job.py")]
        return subprocess.run(argv, env=env, cwd=place, capture_output=True, text=True, timeout=60)

    return go


# --- descriptors are the job's ---


@each_python
@pytest.mark.parametrize("level", ["light", "debug"])
def test_the_next_descriptor_is_the_one_that_it_would_be_without(run, python, level):
    code = (
        "import os\n"
        + RECORDERS_OWN
        + "print(os.open('/dev/null', 0), os.open('/dev/null', 0))\nown = recorders_own()\n"
    )
    code += "print(sorted(own.values()), min(own) > 900)\n"
    code += "if not os.fork():\n    own = recorders_own(); print(sorted(own.values()), min(own) > 900, flush=True); os._exit(0)\nos.wait()"
    done = run(code, python, FLATLINE_RECORDER=level)
    lines = done.stdout.splitlines()
    assert sorted(lines) == sorted(["3 4", "['faulthandler.txt'] True", "['faulthandler.txt'] True"]), done.stderr


def test_where_only_six_descriptors_may_be_the_job_has_all_but_one(run):
    done = run("import os\nprint([os.open('/dev/null', 0) for _ in range(2)])", limit=6)
    assert done.stdout == "[3, 4]\n", done.stderr


@each_python
def test_files_opened_after_all_were_closed_keep_what_a_child_and_the_end_find(run, tmp_path, python):
    done = run("""
import os
os.closerange(3, 4096)
log = open("daemon.log", "a", buffering=1)
if not os.fork():
    files = [open("checkpoint%d" % n, "wb", buffering=0) for n in range(4)]
    for file in files: file.write(b"WEIGHTS")
    log.write("log line\\n")
    for file in files: file.write(b"MORE")
    os._exit(0)
os.wait()
late = [open("late%d" % n, "w") for n in range(4)]
for n in range(1000):
    for file in late: file.write("line %d\\n" % n)
""", python)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "with" / "daemon.log").read_text() == "log line\n"
    assert [(tmp_path / "with" / f"checkpoint{n}").read_bytes() for n in range(4)] == [b"WEIGHTSMORE"] * 4
    whole = "".join(f"line {n}\n" for n in range(1000))
    assert all((tmp_path / "with" / f"late{n}").read_text() == whole for n in range(4))
    assert list((tmp_path / "with" / "tmp").iterdir()) == []


@each_python
def test_a_daemon_and_its_workers_write_as_ever(run, tmp_path, python):
    run("""
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 4096)
os.open("/dev/null", os.O_RDWR); os.dup2(0, 1); os.dup2(0, 2)
import logging, multiprocessing
logging.basicConfig(filename="daemon.log", level=20, format="%(message)s")
def work(n):
    with open("checkpoint%d" % n, "wb", buffering=0) as file:
        file.write(b"W" * 10); logging.info("worker %d", n); file.write(b"X" * 10)
context = multiprocessing.get_context("fork")
workers = [context.Process(target=work, args=(n,)) for n in range(2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
logging.info("end %s", [worker.exitcode for worker in workers])
""", python)  # fmt: skip
    log = tmp_path / "with" / "daemon.log"
    wait_until(lambda: log.exists() and "end" in log.read_text(), what="the daemon ends", seconds=60)
    assert sorted(log.read_text().splitlines()) == ["end [0, 0]", "worker 0", "worker 1"]
    assert [(tmp_path / "with" / f"checkpoint{n}").read_bytes() for n in range(2)] == [b"W" * 10 + b"X" * 10] * 2


@each_python
def test_stacks_are_not_printed_into_a_file_of_the_jobs(run, tmp_path, python):
    """Even one that has the very number; what tells of it is any event of the recorder's, here a log that is opened."""
    done = run("import os, logging\n" + RECORDERS_OWN + """
(number,) = recorders_own()
os.closerange(3, 4096)
file = open("data", "wb", buffering=0)
os.dup2(file.fileno(), number)
os.write(number, b"DATA")
logging.FileHandler("log")
os.kill(os.getpid(), 50)
if not os.fork(): os._exit(0)
os.wait()
os.write(number, b"MORE")
(again,) = recorders_own()
print(again != number, os.stat("/proc/self/fd/%d" % again).st_size > 50)
""", python)  # fmt: skip
    assert done.stdout == "True True\n", done.stderr
    assert (tmp_path / "with" / "data").read_bytes() == b"DATAMORE"


# --- nor are those of the timer, at level debug ---


SET_ANEW = """
import sys
def set_anew():
    recorder = sys.meta_path[0].recorder
    recorder.timer.due = 0
    recorder.note("a", "mark")
    assert recorder.timer is not None and recorder.timer.due > 0
"""


def debug(after_s: float) -> dict[str, str]:
    return {"FLATLINE_RECORDER": "debug", "FLATLINE_RECORDER_DUMP": str(after_s)}


@each_python
def test_stacks_that_are_printed_late_reach_no_file_of_the_jobs(run, tmp_path, python):
    """Every number is the job's by then, and nothing that is marked tells the recorder so."""
    done = run("""
import glob, os, time
(dump,) = glob.glob(os.environ["TMPDIR"] + "/flatline-recorder-*/faulthandler.txt")
os.closerange(3, 1024)
data = open("data", "wb", buffering=0)
for number in range(3, 1000):
    if number != data.fileno(): os.dup2(data.fileno(), number)
def printed(path):
    with open(path) as file: return "in <module>" in file.read()
while not printed(dump) and not printed("data"): time.sleep(0.01)
os._exit(3 if printed(dump) else 4)
""", python, limit=1024, **debug(1.0))  # fmt: skip
    assert (tmp_path / "with" / "data").read_bytes() == b""
    assert (done.returncode, done.stderr) == (3, "")


@each_python
def test_the_timer_keeps_no_file_of_the_jobs_open(run, python):
    """Nor do its forked children's: a pipe ends when the job has closed it."""
    code = """
import os
reading, writing = os.pipe()
set_anew()
if not os.fork():
    os.close(writing); set_anew(); os.read(reading, 1); os._exit(0)
os.close(writing)
os.wait()
print(os.read(reading, 1))
"""
    done = run(SET_ANEW + code, python, **debug(600))
    assert (done.stdout, done.stderr) == ("b''\n", "")


@each_python
def test_code_that_keeps_pythons_lock_for_ever_is_printed(start, tmp_path, python):
    (tmp_path / "job.py").write_text("import ctypes\ndef keeps_it(): ctypes.PyDLL(None).pause()\nkeeps_it()\n")
    given = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")} | {"TMPDIR": str(tmp_path)}
    process = start([python, str(tmp_path / "job.py")], env=environment(given) | debug(0.2))

    def is_printed() -> bool:
        dumps = tmp_path.glob(f"flatline-recorder-{process.pid}-*/faulthandler.txt")
        return any(b"in keeps_it" in path.read_bytes() for path in dumps)

    wait_until(is_printed, what="the stacks are printed", seconds=60)


@each_python
def test_objects_of_the_jobs_are_never_freed_where_its_descriptors_are_not(run, python):
    """The collector of cycles runs at every object that is made here, and what it frees closes files."""
    code = """
import gc, os, threading
gc.set_threshold(1)
class Owner:
    def __init__(self):
        self.fd, self.itself = os.open("/dev/null", 0), self
    def __del__(self):
        os.close(self.fd)
begin, running = len(os.listdir("/proc/self/fd")), [1]
def create():
    while running: Owner()
thread = threading.Thread(target=create); thread.start()
for _ in range(300):
    Owner()
    set_anew()
running.clear(); thread.join(); gc.collect()
print(len(os.listdir("/proc/self/fd")) - begin)
"""
    done = run(SET_ANEW + code, python, **debug(600))
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_threads_that_are_none_and_functions_that_the_job_replaced_part_with_no_descriptor(run):
    """As gevent does: what is started as a thread runs in the one that starts it."""
    code = """
import _thread, builtins, signal
def run(function, arguments): function(*arguments)
def any(them):
    ran.append(1); return [each for each in them] == [1]
ran, _thread.start_new_thread, builtins.any = [], run, any
set_anew()
sys.meta_path[0].recorder.timer.start_thread = run
set_anew()
print(len(ran), signal.pthread_sigmask(signal.SIG_BLOCK, []), open("/proc/self/comm").read() != "flatline-timer\\n")
"""
    done = run(SET_ANEW + code, **debug(600))
    assert (done.stdout, done.stderr) == ("0 set() True\n", "")


def test_where_the_kernel_has_no_such_tables_there_is_no_timer_and_the_ring_says_so(run, tmp_path):
    (tmp_path / "rings").mkdir(0o700)
    done = run("""
import glob, os, sys
recorder = sys.modules["_flatline_recorder"]
recorder.CLOSE_RANGE = 10000
recorder.hook_dump(sys.meta_path[0].recorder, 0.1)
(ring,) = glob.glob(os.environ["FLATLINE_RECORDER_DIR"] + "/*")
print("no-dump the timer needs close_range(2)" in open(ring, errors="replace").read())
""", FLATLINE_RECORDER_DIR=str(tmp_path / "rings"))  # fmt: skip
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_signal_that_the_job_has_taken_stays_the_jobs(run):
    done = run("""
import os, logging, signal
signal.signal(50, lambda *_: print("handled"))
os.closerange(3, 4096)
logging.FileHandler("log")
os.kill(os.getpid(), 50)
""")
    assert done.stdout == "handled\n", done.stderr


@each_python
def test_a_folder_that_is_gone_is_no_error(run, python):
    code = "import os, sys\nif len(sys.argv) < 2:\n    os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
    done = run(code + "    os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])", python)
    assert (done.stdout, done.stderr) == ("1\n", "")


# --- os._exit ---


@each_python
def test_os_exit_is_like_the_function_of_c(run, tmp_path, python):
    code = """
import copy, inspect, os, pickle, posix, types
print(isinstance(os._exit, types.BuiltinFunctionType), inspect.isbuiltin(os._exit), os._exit is posix._exit)
print(pickle.loads(pickle.dumps(os._exit)) is os._exit, copy.deepcopy(os._exit) is os._exit, repr(os._exit))
print(os._exit.__name__, os._exit.__module__, os._exit.__doc__, inspect.signature(os._exit), callable(os._exit))
try: os._exit(1, 2)
except TypeError as error: print(error)
class A: end = os._exit
for n, end in enumerate((A().end, lambda status: os._exit(status=status))):
    if not os.fork(): end(3 + n)
    print(os.wait()[1] >> 8, flush=True)
import multiprocessing
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=os._exit, args=(7,))
    process.start(); process.join(); print(process.exitcode, flush=True)
    A().end(5)
"""
    with_it, without = run(code, python), run(code, python, recorder=False)
    assert (with_it.stdout, with_it.stderr, with_it.returncode) == (without.stdout, without.stderr, 5)
    assert list((tmp_path / "with" / "tmp").iterdir()) == []


# --- nothing of the job's runs in the recorder, and nothing of the recorder's reaches the job ---

TELLING = {
    "counted": "class E(Exception):\n    n = 0\n    def __str__(self):\n        E.n += 1; return 'called %d' % E.n\nraise E()",
    "exits": "class E(Exception):\n    def __str__(self): raise SystemExit(9)\nraise E()",
    "interrupts": "import traceback\nclass E(Exception):\n    def __str__(self): raise KeyboardInterrupt\ntry: raise E()\nexcept E:\n    try: traceback.print_exc()\n    except KeyboardInterrupt: print('its own')\nprint('after')",
    "in a thread": "import threading\nclass E(Exception):\n    def __str__(self): print('asked'); return 'x'\ndef f(): raise E(E())\nt = threading.Thread(target=f, name='q'); t.start(); t.join(); print('joined')",
    "name of a thread": "import threading\nclass T(threading.Thread):\n    def run(self): raise ValueError\n    @property\n    def name(self): print('asked'); return 'n'\n    @name.setter\n    def name(self, value): pass\nthreading.excepthook = getattr(threading, 'excepthook', None)\nt = T(); t.start(); t.join()",
    "argument": "class A:\n    def __str__(self): raise SystemExit(3)\n    __repr__ = __str__\ntry: raise ValueError(A())\nexcept ValueError: print('caught')\nfrom concurrent.futures import Future\nFuture().set_exception(KeyError(A())); print('set')",
    "traceback": "from concurrent.futures import Future\nclass E(Exception):\n    @property\n    def __traceback__(self): raise SystemExit(4)\nFuture().set_exception(E()); print('set')",
    "in an import": "import os, sys\nsys.path.insert(0, '.')\nopen('mine.py', 'w').write('class E(Exception):\\n    def __str__(self): raise SystemExit(3)\\nraise E()')\ntry: import mine\nexcept Exception as error: print(type(error).__name__)",
    "message of a loop": "import asyncio\nclass M:\n    def __str__(self): raise RuntimeError('no text')\nasync def main():\n    loop = asyncio.get_event_loop()\n    loop.set_exception_handler(lambda *_: print('handled'))\n    loop.call_exception_handler({'message': M(), 'exception': M()})\n    print('went on')\nasyncio.run(main())",
    "name of a log": "import logging, os\nclass P(os.PathLike):\n    def __fspath__(self): return '/dev/null'\n    def __str__(self): raise RuntimeError('no text')\nlogging.FileHandler(P()); print('ok')",
    "name of a phase": "import flatline\nclass P:\n    def __str__(self): raise SystemExit(5)\nwith flatline.phase(P()): print('in')",
}  # fmt: skip


@each_python
@pytest.mark.parametrize("what", TELLING)
def test_errors_and_names_of_the_job_go_as_without(run, python, what):
    code = TELLING[what]
    with_it = run(code, python)
    plain = run(code.replace("import flatline\n", "import contextlib, types\nflatline = types.SimpleNamespace(phase=lambda _: contextlib.suppress())\n"), python, recorder=False)  # fmt: skip
    assert (with_it.stdout, with_it.stderr, with_it.returncode) == (plain.stdout, plain.stderr, plain.returncode)
