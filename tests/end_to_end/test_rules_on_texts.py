"""Rules on texts, for real: what libraries print when a job ends, and what py-spy prints of one that is stuck."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.findings import Finding, Report
from flatline.analyzer.intake.opening import open_case
from programs import FIXTURES, wait_until

needs_filelock = pytest.mark.skipif(find_spec("filelock") is None, reason="needs filelock")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
has_hub = find_spec("huggingface_hub") is not None
PY_SPY = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))

TOLD = [
    ("database_locked", "database-locked-in-log", "database-locked"),
    ("module_missing", "package-missing-in-log", "broken-package"),
    ("may_not_write", "path-unwritable-in-log", "log-path-unwritable"),
    ("server_refuses", "connection-failed-in-log", "network-unreachable"),
    ("hub_unreachable", "hub-retries-in-log", "hub-download-stall"),
]
TOLD_BY_TORCH = [
    ("port_taken", "port-taken", "leftover-processes"),
    ("master_unreachable", "master-unreachable-in-log", "rendezvous-master-unreachable"),
    ("part_unused", "ddp-unused-parameters", "collective-unused-branch"),
    ("batches_uneven", "uneven-inputs", "collective-uneven-inputs"),
]
DUMPED = [
    ("exit_waits_for_thread", "exit-wait-in-stack", "exit-blocked", "likely"),
    ("server_never_answers", "network-call-in-stack", "network-no-response", "possible"),
    pytest.param("filelock_held", "lock-wait-in-stack", "lock-file-stale", "possible", marks=needs_filelock),
    pytest.param("gloo_mismatch", "collective-stacks-differ", "collective-mismatch", "possible", marks=needs_torch),
    pytest.param(
        "gloo_mismatch, ONLY_RANK_0=leaves", "collective-rank-left", "collective-rank-conditional", "possible", marks=needs_torch
    ),
]


def report_on(path: Path) -> Report:
    with open_case([path]) as case:
        return analyze(case)


def cause_in(path: Path) -> Finding:
    """The first root cause that the text shows."""
    found = report_on(path).diagnosis
    assert found is not None, path.read_text()
    return found


def tell(folder: Path, *names: str) -> Path:
    """Have fixtures/evidence/tells.py do these things; its logs are in the folder."""
    program = [sys.executable, FIXTURES / "evidence" / "tells.py", *names]
    subprocess.run(program, cwd=folder, check=True, timeout=240, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def open_folder(tmp_path_factory, name: str) -> Path:
    """One that an ordinary user may enter, as a deed that gives up root's rights must."""
    folder = tmp_path_factory.mktemp(name)
    for each in (folder, *folder.parents):
        if each != Path("/") and each.stat().st_uid == os.geteuid():
            each.chmod(each.stat().st_mode | 0o055)
    return folder


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Path:
    names = (name for name, _, _ in TOLD if has_hub or name != "hub_unreachable")
    return tell(open_folder(tmp_path_factory, "told"), *names)


@pytest.fixture(scope="module")
def told_by_torch(tmp_path_factory) -> Path:
    return tell(tmp_path_factory.mktemp("torch"), "torch", *(name for name, _, _ in TOLD_BY_TORCH))


@pytest.mark.parametrize(("deed", "rule", "cause"), TOLD)
def test_the_last_error_of_a_log_names_its_cause(deed: str, rule: str, cause: str, told: Path) -> None:
    if deed == "hub_unreachable" and not has_hub:
        pytest.skip("needs huggingface_hub")
    found = cause_in(told / f"{deed}.log")
    assert (found.rule, found.cause) == (rule, cause)
    assert found.word in ("likely", "very likely")


@needs_torch
@pytest.mark.parametrize(("deed", "rule", "cause"), TOLD_BY_TORCH)
def test_what_torch_says_as_it_ends_names_its_cause(deed: str, rule: str, cause: str, told_by_torch: Path) -> None:
    found = cause_in(told_by_torch / f"{deed}.log")
    assert (found.rule, found.cause) == (rule, cause)
    assert found.word in ("likely", "very likely")


@pytest.mark.skipif(not Path(PY_SPY).exists(), reason="needs py-spy")
@pytest.mark.parametrize(("program", "rule", "cause", "word"), DUMPED)
def test_a_dump_of_the_stacks_alone_names_no_more_than_it_shows(
    program: str, rule: str, cause: str, word: str, stuck, tmp_path: Path
) -> None:
    name, *variables = program.split(", ")
    pid = stuck(name, env=dict(variable.split("=") for variable in variables))

    def dumped() -> str:
        command = [PY_SPY, "dump", "--nonblocking", "--subprocesses", "--pid", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    text = wait_until(dumped, what="py-spy reads the stacks", seconds=60)
    (tmp_path / "dump.txt").write_text(text)
    found = cause_in(tmp_path / "dump.txt")
    assert (found.rule, found.cause, found.word) == (rule, cause, word)


def test_a_prompt_of_the_debugger_at_the_end_of_a_log(stuck, tmp_path: Path) -> None:
    stuck("debugger_prompt")
    log = tmp_path / "train.log"
    wait_until(lambda: "(Pdb)" in log.read_text(), what="pdb asks")
    found = cause_in(log)
    assert (found.rule, found.cause) == ("debugger-in-log", "debugger-prompt")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_s_question_at_the_end_of_a_screen(stuck, tmp_path: Path) -> None:
    stuck("git_asks")
    found = cause_in(tmp_path / "screen.log")
    assert (found.rule, found.cause) == ("credential-in-log", "credential-prompt")
    assert found.word in ("likely", "very likely")


@needs_torch
def test_a_batch_that_its_worker_could_not_send(stuck, tmp_path: Path) -> None:
    stuck("loader_result_lost")
    log = tmp_path / ".loader_result_lost.out"
    wait_until(lambda: "cannot pickle" in log.read_text(), what="the feeder says what it could not send", seconds=60)
    found = cause_in(log)
    assert (found.rule, found.cause) == ("dataloader-exception-lost", "dataloader-exception-lost")
    assert found.word in ("likely", "very likely")
