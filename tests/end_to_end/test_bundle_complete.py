"""A checklist of what the bundle of one real job must hold, so that a probe that quietly stops working is noticed.

The job is a PyTorch DataLoader on the CPU: a trainer, two forked workers, one of them stuck.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from end_to_end_support import flatline
from flatline.analyzer.case import open_bundles
from flatline.collector.plan import PROBES
from programs import FIXTURES, kill_tree, wait_until

from flatline.bundle.facts import COLLECTED

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
is_root = os.geteuid() == 0


@dataclass(frozen=True)
class Rows:
    """At least `least` rows pass `which`, and each of them knows the fields."""

    fields: str
    least: int = 1
    which: Callable[[Any], bool] = lambda row: True


def having(name: str, value: object) -> Callable[[Any], bool]:
    return lambda row: getattr(row, name) == value


CHECKLIST: Mapping[str, list[Rows]] = {
    "hosts": [Rows("kernel machine cpus memory_total memory_available swap_total load_1m boot_id uptime_s container collector_uid "
                   "collector_caps seccomp processes_seen processes_fds_unseen")],
    "processes": [
        Rows("ns_pid ppid start_ticks age_s uid user name exe argv cwd root python is_python pgrp session tty tracer_pid sig_pending "
             "sig_caught sig_ignored rss swap threads_total threads_read oom_score pid_namespace net_namespace mnt_namespace container",
             which=having("relation", "target")),
        Rows("start_method argv state", 2, lambda row: row.role == "dataloader-worker" and row.start_method == "fork"),
        Rows("argv state", which=having("relation", "ancestor")),
    ],
    "threads": [Rows("state wchan syscall cpu_ms switches name", 3, lambda row: row.is_main and row.relation != "ancestor")],
    "thread_samples": [Rows("mono_ns state wchan user_ms system_ms voluntary involuntary syscall", 9)],
    "process_samples": [Rows("mono_ns state threads read_bytes write_bytes rchar wchar rss minor_faults major_faults", 9)],
    "log_samples": [Rows("mono_ns size", 3)],
    "frames": [
        Rows("function file line_no mono_ns", 9, lambda row: row.kind == "python" and row.sample < 100),
        Rows("source", 1, lambda row: row.is_user and row.source),
        Rows("function", which=having("kind", "native")),
    ],
    "futexes": [Rows("address op value private word primitive owner_state", 1)],
    "timeouts": [Rows("thread syscall seconds", 1)],
    "poll_sets": [Rows("thread syscall fds", 1)],
    "fds": [
        Rows("path inode mode peers", 2, lambda row: row.kind == "pipe" and row.peers),
        Rows("path inode device mode", which=having("kind", "file")),
    ],
    "logs": [Rows("text path size last_write_age_s last_line writers omitted_bytes", which=having("stream", "stdout"))],
    "env": [Rows("value from_launcher", 5), Rows("value", which=having("name", "PATH"))],
    "mounts": [
        Rows("kind source options device answers answer_s size free inodes inodes_free", which=having("path", path))
        for path in ("/", "/dev/shm")
    ],
    "limits": [Rows("soft hard used", which=having("name", "open files")), Rows("soft", 3)],
    "cgroups": [Rows("path version", 1)],
    "packages": [Rows("version path", which=having("name", "torch")), Rows("version path", 10)],
    "libraries": [
        Rows("soname package", which=having("family", "OpenMP")),
        Rows("package version", which=having("family", "PyTorch")),
    ],
    "files": [
        Rows("kind exists readable writable mode uid gid inode device on_mount", which=having("why_looked", why))
        for why in ("cwd", "log")
    ],
    "tool_runs": [Rows("tool seconds process sample", 3, lambda row: row.tool == "py-spy" and row.outcome == "ok")],
}  # fmt: skip

MAY_BE_EMPTY = {"gpu_drivers", "gpu_processes", "gpu_samples", "gpus", "kernel_events", "locks", "quotas", "scheduler", "sockets"}
"""Asked for, but a job like this need not give a row."""
NOT_OF_THIS_JOB = {"collectives", "errors", "log_lines", "pci_acs", "phases", "rdma_ports", "recorder_events", "resource_points"}
"""Only other jobs, or parsers of pasted text, bring these."""

ARTEFACTS = (
    "README.txt", "bundle.json", "manifest.json", "redaction.json", "raw/cwd-listing.txt", "raw/loadavg.txt", "raw/locks.txt",
    "raw/meminfo.txt", "raw/mountinfo.txt", "raw/pip-freeze-1.txt", "raw/uptime.txt",
)  # fmt: skip
PATTERNS = ("stacks/*.0.json", "stacks/*.2.json", "stacks/*.native.json", "samples/processes.*.jsonl", "samples/logs.*.jsonl", "logs/*.txt")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory, module_start) -> Path:
    folder = tmp_path_factory.mktemp("job")
    pid = module_start("loader_worker_blocked", folder)
    path = folder / "job.flatline.zip"
    done = flatline("collect", "--pid", pid, "-o", path, "--window", 4)
    assert done.code in (0, 3), done.err
    return path


@pytest.fixture(scope="module")
def module_start():
    """The fixture `stuck`, once for all tests here."""
    started = []

    def begin(name: str, folder: Path) -> int:
        ready = folder / "ready"
        with open(folder / "job.out", "w") as out:
            job = subprocess.Popen(
                [sys.executable, FIXTURES / "stuck" / f"{name}.py"], cwd=folder, env={**os.environ, "READY": str(ready)},
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        started.append(job)
        return int(wait_until(lambda: ready.exists() and ready.read_text(), what=f"{name} gets stuck", seconds=60))

    yield begin
    for job in started:
        kill_tree(job.pid)
        job.kill()
        job.wait(20)


@pytest.fixture(scope="module")
def store(bundle: Path):
    with open_bundles([bundle]) as case:
        yield case.store


@pytest.fixture(scope="module")
def ledger(bundle: Path) -> list[dict[str, Any]]:
    with zipfile.ZipFile(bundle) as archive:
        return json.loads(archive.read("manifest.json"))["ledger"]


def test_every_table_is_on_the_checklist_or_said_not_to_be_here() -> None:
    assert set(CHECKLIST) | MAY_BE_EMPTY | NOT_OF_THIS_JOB == set(COLLECTED)


@pytest.mark.parametrize("table", sorted(CHECKLIST))
def test_a_table_holds_what_the_job_shows(table: str, store) -> None:
    rows = store.rows(table)
    for wanted in CHECKLIST[table]:
        passing = [row for row in rows if wanted.which(row)]
        full = [row for row in passing if not _blank(row, wanted.fields)]
        blanks = sorted({name for row in passing for name in _blank(row, wanted.fields)})
        assert len(full) >= wanted.least, f"{len(full)} of {len(passing)} of {len(rows)} rows know all; blank: {blanks}"


def _blank(row: Any, fields: str) -> list[str]:
    return [name for name in fields.split() if getattr(row, name) in (None, "unknown", "")]


@pytest.mark.parametrize("table", sorted(MAY_BE_EMPTY))
def test_a_table_without_rows_was_asked_for_all_the_same(table: str, ledger) -> None:
    assert [entry["probe"] for entry in ledger if table in entry["tables"]]


def test_every_probe_of_the_plan_says_that_it_has_finished(ledger) -> None:
    ended = {entry["probe"]: entry["status"] for entry in ledger}
    assert {make().name for make in PROBES} <= set(ended)
    # Partial is no fault here: a busy machine, a mount of another test. What must be there is on the checklist.
    faults = {probe: status for probe, status in ended.items() if status not in ("ok", "partial")}
    faults = {probe: status for probe, status in faults.items() if is_root or probe != "kernel-log"}
    assert faults == {}, [entry for entry in ledger if entry["probe"] in faults]


def test_the_raw_texts_are_there_and_none_is_empty(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    assert [name for name in ARTEFACTS if not sizes.get(name)] == []
    assert [pattern for pattern in PATTERNS if not any(Path(name).match(pattern) and size for name, size in sizes.items())] == []
    if is_root:
        assert sizes.get("raw/kernel-log.txt")


def test_what_pip_would_print_is_there(bundle: Path) -> None:
    import torch

    with zipfile.ZipFile(bundle) as archive:
        assert f"torch=={torch.__version__}" in archive.read("raw/pip-freeze-1.txt").decode().splitlines()
