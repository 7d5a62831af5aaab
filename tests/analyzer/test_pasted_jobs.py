"""Texts of a whole host: which of its processes the verdict is about, and what state D tells by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from flatline.analyzer.derive.derivation import Derived, derive
from flatline.analyzer.intake.opening import open_case

HEAD = "USER         PID    PPID STAT TTY      COMMAND\n"


def row(pid: int, ppid: int, stat: str, command: str, user: str = "ann", tty: str = "?") -> str:
    return f"{user:8} {pid:7} {ppid:7} {stat:4} {tty:8} {command}\n"


SYSTEM = (
    row(1, 0, "Ss", "/sbin/init", "root") + row(2, 0, "S", "[kthreadd]", "root") + row(9, 2, "D", "[jbd2/sda1-8]", "root")
    + row(300, 1, "Ss", "/usr/bin/python3 /usr/bin/networkd-dispatcher --run-startup-triggers", "root")
    + row(310, 1, "Ssl", "/usr/bin/dockerd -H fd://", "root") + row(320, 1, "Ss", "sshd: ann [priv]", "root")
    + row(330, 320, "Ss", "-bash", "ann", "pts/1") + row(340, 330, "T", "vim notes.txt", "ann", "pts/1")
)  # fmt: skip
TORCHRUN = (
    row(500, 330, "Sl+", "/opt/v/bin/python /opt/v/bin/torchrun --nproc_per_node=2 train.py", "ann", "pts/1")
    + row(510, 500, "Rl+", "/opt/v/bin/python -u train.py", "ann", "pts/1")
    + row(511, 500, "Dl+", "/opt/v/bin/python -u train.py", "ann", "pts/1")
)


def read(tmp_path: Path, *texts: str) -> tuple[Derived, dict[int, str], dict[int, str]]:
    """What follows from the texts; relation and role of every process by its number."""
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    with open_case(sorted(tmp_path.iterdir())) as case:
        derived = derive(case)
        rows = case.store.rows("processes")
    return derived, {p.pid: p.relation for p in rows}, {p.pid: p.role for p in rows}


def test_of_a_whole_host_the_job_is_what_looks_like_training(tmp_path: Path):
    derived, relations, roles = read(tmp_path, HEAD + SYSTEM + TORCHRUN)
    assert {pid for pid, relation in relations.items() if relation == "target"} == {500}
    assert (relations[510], relations[511], roles[500], roles[510]) == ("descendant", "descendant", "launcher", "rank")
    assert (relations[330], relations[1], relations[340], relations[300]) == (
        "ancestor",
        "ancestor",
        "unknown",
        "unknown",
    )
    assert "511" in derived.verdict.because[0]


def test_what_a_text_describes_closely_is_the_job_and_others_programs_are_not(tmp_path: Path):
    others = row(900, 1, "Sl", "python other_users_training.py", "bob")
    dump = 'Process 511: python -u train.py\n\nThread 511 (idle): "MainThread"\n    wait (threading.py:327)\n    run (train.py:9)\n'
    _, relations, _ = read(tmp_path, HEAD + SYSTEM + TORCHRUN + others, dump)
    assert relations[900] == "unknown"
    assert (relations[500], relations[510], relations[511]) == ("target", "descendant", "descendant")


def test_without_any_training_what_the_kernel_holds_is_what_was_shown(tmp_path: Path):
    derived, relations, _ = read(tmp_path, HEAD + SYSTEM + row(700, 330, "D", "bash ./stage.sh"))
    assert (relations[700], relations[9], relations[340]) == ("target", "unknown", "unknown")
    assert derived.verdict.state == "unknown", "one look does not tell a slow disk from one that is gone"


def test_tools_of_the_driver_in_state_d_wait_for_the_driver(tmp_path: Path):
    stuck = row(800, 1, "Ds", "/usr/bin/nvidia-persistenced --user x", "root") + row(
        801, 1, "D", "/usr/bin/nvidia-smi", "root"
    )
    derived, relations, _ = read(tmp_path, HEAD + SYSTEM + stuck)
    assert {pid for pid, relation in relations.items() if relation == "target"} == {800, 801}
    assert derived.verdict.state == "hung"
    chosen = derived.chains[derived.chain or 0]
    assert (chosen.end.what, chosen.end.strength) == ("device", "strong")


@pytest.mark.parametrize(
    ("wchan", "what"),
    [
        ("rpc_wait_bit_killable", "mount"),
        ("request_wait_answer", "mount"),
        ("ptlrpc_set_wait", "mount"),
        ("os_acquire_rwlock_read", "device"),
        ("uvm_va_space_down", "device"),
        ("io_schedule", "resource"),
    ],
)
def test_the_name_in_wchan_tells_what_a_task_in_state_d_waits_for(tmp_path: Path, wchan: str, what: str):
    text = f"    PID    PPID STAT WCHAN                  COMMAND\n    812     800 Dl   {wchan:22} python train.py\n"
    derived, _, _ = read(tmp_path, text)
    assert derived.chains[0].end.what == what


def test_a_hung_task_of_the_kernels_log_waits_in_what_its_stack_names(tmp_path: Path):
    text = (
        "[90.000001] INFO: task loader:5120 blocked for more than 120 seconds.\n"
        "[90.000002] Call Trace:\n"
        "[90.000003]  schedule+0x4e/0xc0\n"
        "[90.000004]  rpc_wait_bit_killable+0x25/0xb0 [sunrpc]\n"
    )
    derived, relations, _ = read(tmp_path, text)
    assert relations == {5120: "target"}
    assert (derived.verdict.state, derived.chains[0].end.what) == ("hung", "mount")


def test_a_job_that_its_terminal_stopped_is_told_from_one_line(tmp_path: Path):
    derived, relations, _ = read(tmp_path, "[1]+ 4242 Stopped (tty output)     python train.py\n")
    assert relations == {4242: "target"}
    assert (derived.verdict.state, derived.chains[0].end.what) == ("hung", "stopped")


def test_the_last_call_of_a_trace_is_the_end_of_the_chain(tmp_path: Path):
    derived, _, _ = read(tmp_path, "read(0</dev/pts/3>, ")
    assert (derived.verdict.state, derived.chains[0].end.what) == ("waiting", "terminal-read")


def test_a_list_in_which_nothing_is_stuck_names_no_job(tmp_path: Path):
    _, relations, _ = read(tmp_path, HEAD + SYSTEM.replace(" T    ", " S    "))
    assert set(relations.values()) == {"unknown"}


LOADER = """\
Process 4242: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4242 (idle): "MainThread"
    select (selectors.py:415)
    wait (multiprocessing/connection.py:947)
    poll (multiprocessing/connection.py:257)
    get (multiprocessing/queues.py:113)
    _try_get_data (torch/utils/data/dataloader.py:1132)
    _next_data (torch/utils/data/dataloader.py:1328)
    __next__ (torch/utils/data/dataloader.py:633)
    main (train.py:55)
    <module> (train.py:60)
"""


def test_a_dump_of_the_wait_for_workers_names_the_jobs_own_line_and_what_is_missing(tmp_path):
    """Whoever pasted two texts has no bundle, and knows the line of train.py, not that of the library."""
    chain = read(tmp_path, LOADER)[0].chains[0].text
    assert "its stack is in _next_data (dataloader.py), called from train.py:55; none is in these texts" in chain


def test_of_a_log_alone_no_bundle_is_spoken(tmp_path):
    because = read(tmp_path, "epoch 1\nRuntimeError: CUDA out of memory\n")[0].verdict.because
    assert "no thread of the job is in these texts" in because


def test_what_one_text_says_of_a_process_is_not_quoted_from_another(tmp_path: Path):
    kernel = "[5120.930] INFO: task python:511 blocked for more than 122 seconds.\n"
    dump = 'Process 511: python -u train.py\nPython v3.11.9 (/usr/bin/python3)\n\nThread 511 (idle): "MainThread"\n    load (train.py:4)\n'
    (tmp_path / "job.txt").write_text(f"{dump}\n{kernel}")
    with open_case([tmp_path / "job.txt"]) as case:
        (process,), (thread,) = case.store.rows("processes"), case.store.rows("threads")
    assert (process.state, process.line, process.argv) == ("D", 7, ("python", "-u", "train.py"))
    assert (thread.state, thread.line) == ("D", 7)
