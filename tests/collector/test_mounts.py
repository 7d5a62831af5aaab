"""Every file system of a job is asked once, in a process that can be left behind, and with the job's own eyes."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from flatline.collector.probes.mounts import Mounts
from job_view import gaps, rows, run_until_ready, view_of

WAIT = "ready(); time.sleep(600)"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def gather(*targets, **changes):
    return list(Mounts().gather(view_of(*targets, **changes)))


def mount_row(items, path):
    (row,) = [row for row in rows(items, "mounts") if row.path == str(path)]
    return row


@pytest.fixture
def run(start, tmp_path):
    return lambda code=WAIT, **options: run_until_ready(start, tmp_path, code, **options)


def test_the_root_answers_and_tells_its_room(run):
    row = mount_row(gather(run()), "/")
    assert (row.asked, row.answers, row.network) == (True, True, False)
    assert row.size >= row.free > 0
    assert row.answer_s >= 0


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made here")
def test_a_mount_that_does_not_answer_is_found_out_without_waiting_for_it(run):
    with stalling_mount() as mount:
        pid = run(f"os.chdir({str(mount.path)!r}); {WAIT}")
        answering = mount_row(gather(pid), mount.path)
        assert (answering.network, answering.answers) == (True, True)
        mount.stall()
        began = time.monotonic()
        items = gather(pid)
        assert time.monotonic() - began < 30
        row = mount_row(items, mount.path)
        assert (row.asked, row.answers, row.size) == (True, False, None)
        assert mount_row(items, "/").answers is True
        assert [gap.status for gap in gaps(items) if gap.target == str(mount.path)] == ["timeout"]


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made here")
def test_each_of_several_dead_mounts_is_found_out(run):
    with stalling_mount() as one, stalling_mount() as two, stalling_mount() as three:
        pid = run()
        for mount in (one, two, three):
            mount.stall()
        items = gather(pid)
        assert [mount_row(items, mount.path).answers for mount in (one, two, three)] == [False, False, False]


@as_root
def test_mounts_are_seen_as_the_job_sees_them(run, tmp_path):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, timeout=20).returncode:
        pytest.skip("mount namespaces cannot be made here")
    (tmp_path / "own").mkdir()
    code = (
        "import ctypes; libc = ctypes.CDLL(None); assert libc.unshare(0x20000) == 0\n"
        "assert libc.mount(b'none', b'/', None, 0x44000, None) == 0\n"
        "assert libc.mount(b'x', b'own', b'tmpfs', 0, b'size=1m') == 0; os.chdir('own')\n"
    )
    pid = run(code + WAIT)
    row = mount_row(gather(pid), tmp_path / "own")
    assert (row.kind, row.size, row.answers) == ("tmpfs", 1 << 20, True)
    assert row.mnt_namespace == os.readlink(f"/proc/{pid}/ns/mnt")


def test_what_the_job_was_given_as_temporary_folder_counts_as_used(run):
    pid = run()
    items = gather(pid, env_names={pid: {"TMPDIR": "/proc/x"}})
    assert mount_row(items, "/proc").kind == "proc"
