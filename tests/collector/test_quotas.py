"""What the job's user may store: as the kernel keeps it, and as the file servers say through quota(1)."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest
from flatline.collector.linux import quota
from flatline.collector.probes import mounts, quotas
from flatline.collector.probes.mounts import Mounts
from flatline.collector.probes.quotas import Quotas
from job_view import artefacts, gaps, rows, target_of, view_of

from flatline.bundle.facts import Quota

PRINTED = """\
Disk quotas for user someone (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
nas1:/export/home 512000* 500000  600000 1735689600  1234       0       0       0
nas2:/scratch   10       0       0       0   5*      4       6       0
"""


@pytest.fixture
def nfs(tmp_path, monkeypatch):
    """A /proc in which we see a mount of NFS, and where to put a stand-in for quota(1)."""
    me = os.getpid()
    (tmp_path / "proc" / str(me)).mkdir(parents=True)
    (tmp_path / "proc" / str(me) / "mountinfo").write_text("9 1 0:50 / /home rw - nfs4 nas1:/export/home rw\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def tool(script: str) -> Path:
        (tmp_path / "quota").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "quota").chmod(0o755)
        return tmp_path / "proc"

    return tool


def gather(proc):
    return list(Quotas().gather(view_of(target_of(os.getpid(), uid=1000), proc=str(proc))))


def test_what_quota_prints_becomes_rows_in_bytes(nfs):
    items = gather(nfs(f"test \"$*\" = '-w -p -u 1000' && cat <<'END'\n{PRINTED}END\nexit 1"))  # 1: over a limit
    assert rows(items, "quotas") == [
        Quota(1000, "nas1:/export/home", 512000 * 1024, 500000 * 1024, 600000 * 1024, 1234),
        Quota(1000, "nas2:/scratch", 10240, None, None, 5, 4, 6),
    ]
    assert artefacts(items)[0].content == PRINTED
    assert gaps(items) == []


def test_a_user_without_quotas_has_an_empty_table(nfs):
    items = gather(nfs("echo 'Disk quotas for user someone (uid 1000): none'"))
    assert rows(items, "quotas") == []
    assert gaps(items) == []


def test_a_server_that_does_not_answer_costs_a_limit(nfs, monkeypatch):
    monkeypatch.setattr(quotas, "_TOOL_S", 0.3)
    began = time.monotonic()
    items = gather(nfs("sleep 600"))
    assert time.monotonic() - began < 20
    assert [gap.status for gap in gaps(items)] == ["timeout"]


def test_without_the_tool_an_nfs_user_is_told_and_others_are_not(nfs, monkeypatch, tmp_path):
    monkeypatch.setattr(quotas.tools, "find_tool", lambda name: None)
    (gap,) = gaps(gather(nfs("")))
    assert (gap.status, gap.hint) == ("absent", "apt-get install quota")
    (tmp_path / "proc" / str(os.getpid()) / "mountinfo").write_text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert gather(tmp_path / "proc") == []


def test_the_kernels_answer_is_understood():
    raw = struct.pack("=QQQQQQQQI4x", 2048, 1024, 5_000_000, 100, 0, 7, 0, 0, 63)
    assert quota.decoded(raw, 1000, "/home") == Quota(1000, "/home", 5_000_000, 1 << 20, 2 << 20, 7, None, 100)


def test_where_no_quota_is_kept_there_is_no_row():
    descriptor = os.open("/proc", os.O_PATH)
    try:
        assert quota.of_user(descriptor, 0, "/proc") is None
    finally:
        os.close(descriptor)


def test_a_quota_that_the_kernel_keeps_is_told_with_the_mounts(monkeypatch):
    monkeypatch.setattr(mounts.quota, "of_user", lambda descriptor, uid, path: Quota(uid, path, used=1, hard=2))
    items = list(Mounts().gather(view_of(os.getpid())))
    assert Quota(os.geteuid(), "/", used=1, hard=2) in rows(items, "quotas")
