"""Any process of a job will do; and the answer is about the one that was named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from end_to_end_support import cause_of, flatline
from programs import FIXTURES, wait_until

FLOOD = "while True: print('x' * 1000)"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()


def child(pid: int, what: str) -> int:
    """The child whose command line holds `what`."""
    return wait_until(lambda: next((c for c in children(pid) if what in command(c)), None), what=f"{what} starts")


def blocks_writing(pid: int) -> None:
    wait_until(lambda: "pipe_write" in Path(f"/proc/{pid}/wchan").read_text(), what=f"pid {pid} blocks in write")


def test_the_child_of_a_launcher_that_does_not_read_gets_the_launchers_answer(stuck, diagnose) -> None:
    (worker,) = children(stuck("stderr_pipe_unread"))
    report, _ = diagnose(worker)
    assert (report["verdict"]["state"], cause_of(report)) == ("hung", "output-pipe-full")
    assert report["chains"][report["chain"]]["end"]["kind"] == "cycle"


@pytest.mark.parametrize("named", ["-c", "613"])
def test_either_program_of_a_scripts_pipeline_gets_the_same_answer(named: str, start, diagnose) -> None:
    script = start(["bash", "-c", f'{sys.executable} -c "{FLOOD}" | sleep 613; true'])
    blocks_writing(child(script.pid, "-c"))
    report, _ = diagnose(child(script.pid, named))
    assert (report["verdict"]["state"], cause_of(report)) == ("waiting", "output-pipe-full")


def test_what_is_stuck_beside_in_a_script_is_not_the_answer(start, tmp_path: Path, diagnose) -> None:
    (tmp_path / "run.sh").write_text(f"sleep 700 &\n{sys.executable} {FIXTURES / 'stuck/stderr_pipe_unread.py'}\n")
    ready = tmp_path / "ready"
    script = start(["env", f"READY={ready}", "bash", "run.sh"], cwd=tmp_path)
    wait_until(ready.exists, what="the program beside it gets stuck", seconds=60)
    report, _ = diagnose(child(script.pid, "sleep 700"))
    assert (report["verdict"]["state"], report["verdict"]["by_design"], cause_of(report)) == ("waiting", True, None)
    assert "stuck as well" in " ".join(report["verdict"]["because"])
    assert {f["cause"]: f["role"] for f in report["findings"]}["output-pipe-full"] == "contributing"


@pytest.mark.parametrize(("status", "state"), [(3, "crashed"), (0, "waiting")])
def test_a_target_that_has_ended_is_not_hung(status: int, state: str, start, tmp_path: Path) -> None:
    code = f"import os, time\nif os.fork() == 0: os._exit({status})\ntime.sleep(600)"
    parent = start([sys.executable, "-c", code])
    zombie = wait_until(lambda: next(iter(children(parent.pid)), None), what="the child starts")
    wait_until(lambda: ") Z " in Path(f"/proc/{zombie}/stat").read_text(), what="the child has ended")
    bundle = tmp_path / "job.flatline.zip"
    assert flatline("collect", "--pid", zombie, "-o", bundle, "--window", 2).code == 0
    shown = flatline("analyze", bundle)
    assert shown.out.lower().startswith(state)
    assert f"pid {zombie} has ended (with status {status}); its parent {parent.pid} has not collected it" in " ".join(shown.out.split())
