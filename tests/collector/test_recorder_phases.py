"""What the recorder marks by itself, and that the job's libraries do what they did without it."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from flatline.collector.recorder import ring
from programs import open_to_others, pythons, real_python, wait_until

from flatline.recorder import environment

WARNS_OF_FORKS = sorted({".".join(v.split(".")[:2]) for v, _ in pythons()} & {"3.12", "3.13", "3.14"})
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture
def rings(tmp_path):
    place = tmp_path / "rings"
    place.mkdir(0o700)
    return place


@pytest.fixture
def env(rings, tmp_path):
    given = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
    return environment({**given, "TMPDIR": str(tmp_path), "FLATLINE_RECORDER_DIR": str(rings)})


@pytest.fixture
def run(tmp_path, env):
    """Run a program to its end with the recorder; it must say nothing on standard error."""

    def go(code: str, *args: str, python: str = sys.executable, flags: tuple[str, ...] = (), **options):
        (tmp_path / "job.py").write_text(code)
        more = options.pop("env", {})
        argv = [python, *flags, "job.py", *args]
        done = subprocess.run(argv, cwd=tmp_path, env={**env, **more}, capture_output=True, text=True, timeout=300, **options)
        return done

    return go


def left_of_parent(rings: Path) -> ring.Ring:
    found = [ring.decode(path.read_bytes()) for path in rings.glob("flatline-ring-*")]
    return next(one for one in found if one.header["how"] == ["exec"])


def entered(one: ring.Ring) -> list[str]:
    return [event.text for event in one.events if event.kind == "phase-enter"]


def told(one: ring.Ring, kind: str) -> list[str]:
    return [event.text for event in one.events if event.kind == kind]


def test_arguments_and_logging_are_phases_and_a_log_file_is_named(run, rings, tmp_path):
    done = run("""
import argparse, logging, logging.config
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
assert parser.parse_args().rate == 0.1
logging.basicConfig(filename="train.log")
logging.config.dictConfig({"version": 1})
""", "--rate", "0.1")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    left = left_of_parent(rings)
    assert entered(left) == ["parse arguments", "set up logging", "set up logging"]
    assert "FileHandler train.log" in told(left, "logging")
    assert not left.open


TRAINS = """
import warnings
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
from torch.utils.data import DataLoader, dataloader
warnings.simplefilter("error")
following, step = dataloader._BaseDataLoaderIter.__next__.__wrapped__, torch.optim.SGD.step
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).to("cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for epoch in range(2):
    assert model.train() is model
    model[1].eval()  # a frozen part is no evaluation
    for batch in DataLoader(torch.randn(8, 4), batch_size=4):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    scheduler.step()
    assert model.eval() is model and not model[0].training
assert dataloader._BaseDataLoaderIter.__next__ is following
assert torch.optim.Optimizer.__init__.__module__ == "torch.optim.optimizer"
assert torch.optim.SGD.step.__qualname__ == step.__qualname__
"""


@needs_torch
def test_the_phases_of_a_training_are_marked_and_its_steps_are_as_they_were(run, rings):
    done = run(TRAINS)
    assert (done.returncode, done.stderr) == (0, "")
    left = left_of_parent(rings)
    each = ["start DataLoader", "evaluation"]
    assert entered(left) == ["model to device", "first step", "start DataLoader", "first batch", "evaluation", *each]
    assert [event.text for event in left.open if event.kind == "phase"] == ["evaluation"]


SWITCHES = """
import flatline, torch
class Model(torch.nn.Linear):
    def eval(self):
        return self.train(False)
model = Model(4, 4)
assert model.train() is model and model.eval() is model and not model.training
model.train()
with flatline.phase("evaluation"):
    model.eval()
assert model.train().training
"""


@needs_torch
def test_an_evaluation_is_marked_once_whoever_switches_the_model(run, rings):
    """A library's own `eval`, and a framework that has marked its evaluation already."""
    done = run(SWITCHES)
    assert done.returncode == 0, done.stderr
    left = left_of_parent(rings)
    assert entered(left) == ["evaluation", "evaluation"]
    assert told(left, "phase-leave") == ["evaluation", "evaluation"]
    assert not left.open


@needs_torch
def test_a_model_that_is_compiled_whole_may_still_move_and_switch_its_parts(run):
    done = run("""
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.nn.Linear(4, 4)
    def forward(self, x):
        self.part.to(x.device).train()
        return self.part.eval()(x)
print(torch.compile(Model(), backend="eager", fullgraph=True)(torch.randn(2, 4)).shape)
""")  # fmt: skip
    assert done.stdout == "torch.Size([2, 4])\n", done.stderr


def test_a_model_that_hangs_in_its_first_step_is_in_that_phase(start, rings, env, tmp_path):
    """Through a stand-in of torch: what it is called by, and nothing else."""
    (tmp_path / "torch" / "optim").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "optim" / "__init__.py").touch()
    (tmp_path / "torch" / "optim" / "optimizer.py").write_text(
        "import threading\nclass Optimizer:\n    def __init__(self): pass\n    def step(self): threading.Event().wait()\n"
    )
    (tmp_path / "job.py").write_text("from torch.optim.optimizer import Optimizer\nOptimizer().step()\n")
    start([sys.executable, "job.py"], cwd=tmp_path, env=env)

    def is_in_it() -> bool:
        texts = [path.read_bytes() for path in rings.glob("flatline-ring-*")]
        return any(b" phase first step" in text[ring.HEAD : ring.EVENTS_AT] for text in texts)

    wait_until(is_in_it, what="it is in its first step", seconds=60)


def test_an_error_that_a_destructor_swallowed_is_kept(run, rings):
    run("class Loader:\n    def __del__(self): raise OSError('shard 7')\nLoader()\n")
    assert told(left_of_parent(rings), "unraisable") == ["OSError: shard 7"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_log_or_folder_that_the_job_may_not_write_is_told(run, rings, tmp_path):
    tmp_path.chmod(0o777)
    open_to_others(tmp_path)
    os.chown(rings, 65534, 65534)
    (tmp_path / "mine").mkdir(0o755)
    (tmp_path / "link").symlink_to("mine")
    args = ("--output_dir=link/new", "--log", "train.log", "--save-dir", "/dev/shm", "--data-dir", "/root")
    done = run("pass", *args, python="/usr/bin/python3", user=65534, group=65534, extra_groups=[])
    assert done.stderr == ""
    assert told(left_of_parent(rings), "not-writable") == [f"--output_dir link/new: {tmp_path}/mine may not be written"]


# --- all stacks, at level debug ---

DEBUG = {"FLATLINE_RECORDER": "debug", "FLATLINE_RECORDER_DUMP": "0.2"}


def test_at_level_debug_all_stacks_are_printed_when_nothing_was_marked_for_a_while(start, tmp_path, env):
    (tmp_path / "job.py").write_text("import threading\ndef train(): threading.Event().wait()\ntrain()\n")
    process = start([sys.executable, "job.py"], cwd=tmp_path, env={**env, **DEBUG})

    def is_printed() -> bool:
        return any(b"in train" in path.read_bytes() for path in tmp_path.glob(f"flatline-recorder-{process.pid}-*/faulthandler.txt"))

    wait_until(is_printed, what="the stacks are printed", seconds=60)
    os.killpg(process.pid, signal.SIGKILL)


def test_a_job_that_wants_that_timer_itself_has_it(run, tmp_path):
    done = run("""
import faulthandler, time, threading
faulthandler.dump_traceback_later(0.3, file=open("own.txt", "w"))
while not open("own.txt").read(): time.sleep(0.01); threading.Thread(target=int).start()
faulthandler.cancel_dump_traceback_later()
""", env=DEBUG)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "Timeout (0:00:00.3" in (tmp_path / "own.txt").read_text()


@pytest.mark.parametrize("version", WARNS_OF_FORKS)
def test_the_timer_s_thread_is_not_there_while_the_job_forks(run, version):
    code = "import os\nfor _ in range(9):\n    pid = os.fork()\n    if not pid: os._exit(0)\n    os.waitpid(pid, 0)\n"
    done = run(code, python=real_python(version), flags=("-W", "always"), env={**DEBUG, "FLATLINE_RECORDER_DUMP": "600"})
    assert (done.returncode, done.stderr) == (0, "")
