"""The kernel's log is read by whoever may, and its lines become events with pid, device, server and time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from flatline.collector.linux import access, kernel_log
from flatline.collector.linux.procfs import Unread
from flatline.collector.probes import kernel_log as probe
from flatline.collector.probes.kernel_log import KernelLog
from job_view import artefacts, gaps, rows, view_of
from programs import wait_until

from flatline.texts import kernel_events

NOBODY = 65534
may_read = pytest.mark.skipif(
    isinstance(kernel_log.read_buffer(), Unread), reason="the kernel's log may not be read here"
)


def gather():
    return list(KernelLog().gather(view_of(os.getpid())))


def one(line: str):
    (event,) = kernel_events.events(f"[   12.500000] {line}\n", boot_s=1_767_225_600.0)
    return event


# --- what its lines say ---


def test_an_xid_names_the_device_its_number_and_the_process():
    event = one("NVRM: Xid (PCI:0000:41:00): 31, pid=4242, name=python, Ch 00000008, intr 00000000. MMU Fault")
    assert (event.kind, event.device, event.code, event.pid, event.name) == ("xid", "0000:41:00", 31, 4242, "python")
    event = one("NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    assert (event.code, event.pid, event.name) == (79, None, None)
    event = one("NVRM: Xid (PCI:0000:07:00): 13, Graphics Exception: ESR 0x404600=0x80000002")
    assert (event.device, event.code, event.pid) == ("0000:07:00", 13, None)
    assert one("NVRM: GPU at PCI:0000:41:00: GPU has fallen off the bus.").device == "0000:41:00"


@pytest.mark.parametrize(
    ("line", "scope", "pid", "name"),
    [
        ("Out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:8kB", "host", 77, "python3"),
        ("Memory cgroup out of memory: Killed process 78 (pt data (1)) total-vm:9kB", "cgroup", 78, "pt data (1)"),
        ("Out of memory: Kill process 79 (java) score 900 or sacrifice child", "host", 79, "java"),
        ("Out of memory (oom_kill_allocating_task): Killed process 80 (x) total-vm:1kB", "host", 80, "x"),
    ],
)
def test_a_kill_for_memory_says_whose_memory_it_was_and_who_died(line, scope, pid, name):
    event = one(line)
    assert (event.kind, event.scope, event.pid, event.name) == ("oom", scope, pid, name)


@pytest.mark.parametrize(
    ("line", "kind", "expected"),
    [
        ("INFO: task pt_data_worker:1184 blocked for more than 120 seconds.", "hung-task", {"pid": 1184, "name": "pt_data_worker"}),
        ("INFO: task kworker/u8:3:55 blocked in I/O wait for more than 122 seconds.", "hung-task", {"pid": 55, "name": "kworker/u8:3"}),
        ("python3[4242]: segfault at 0 ip 00007f12 sp 00007ffc error 4 in libc.so.6[7f12+1000]", "segfault", {"pid": 4242, "name": "python3"}),
        ("traps: python[7] general protection fault ip:7f sp:7f error:0 in libtorch_cpu.so", "segfault", {"pid": 7, "name": "python"}),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:9]", "soft-lockup", {"pid": 9, "name": "python"}),
        ("I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x80700", "io-error", {"device": "sda"}),
        ("Buffer I/O error on dev nvme0n1p1, logical block 0, async page read", "io-error", {"device": "nvme0n1p1"}),
        ("EXT4-fs error (device sdb1): ext4_lookup:1855: inode #2: comm ls", "io-error", {"device": "sdb1"}),
        ("EXT4-fs (sdb1): Remounting filesystem read-only", "io-error", {"device": "sdb1"}),
        ("nvme nvme0: I/O tag 12 (100c) QID 3 timeout, aborting", "io-error", {"device": "nvme0"}),
        ("CIFS: VFS: \\\\nas has not responded in 180 seconds. Reconnecting...", "other", {"name": "nas"}),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "gpu-driver", {"device": "0000:03:00.0"}),
    ],
)  # fmt: skip
def test_each_kind_of_trouble_is_told_apart(line, kind, expected):
    event = one(line)
    assert event.kind == kind
    assert {name: getattr(event, name) for name in expected} == expected
    assert event.text == line


def test_a_stamp_becomes_the_time_of_day_and_without_one_there_is_no_time():
    assert one("I/O error, dev sda, sector 1").time == "2026-01-01T00:00:12.500Z"
    (event,) = kernel_events.events("I/O error, dev sda, sector 1")
    assert event.time is None


def test_a_silent_nfs_server_is_resolved_by_its_own_answer_only():
    log = (
        "[1.0] nfs: server nas1 not responding, still trying\n"
        "[2.0] nfs: server nas2 not responding, timed out\n"
        "[3.0] nfs: server nas1 OK\n"
        "[4.0] nfs: server nas3 OK\n"
        "[5.0] lockd: server nas1 not responding, still trying\n"
    )
    found = kernel_events.events(log)
    assert [(event.name, event.resolved, event.line) for event in found] == [
        ("nas1", True, 1), ("nas2", False, 2), ("nas1", False, 5)
    ]  # fmt: skip


def test_other_ways_to_print_the_same_line_read_the_same():
    plain = "INFO: task python:9 blocked for more than 120 seconds."
    for line in (
        f"<3>[    7.000001] {plain}",
        f"[    7.000001] {plain}",
        f"[    7.000001][ T1184] {plain}",
        f"[    7.000001] node-7.cluster kernel: {plain}",
    ):
        (event,) = kernel_events.events(line, boot_s=0.0)
        assert (event.pid, event.text, event.time) == (9, plain, "1970-01-01T00:00:07.000Z")


def test_ordinary_lines_are_no_events():
    log = "[1.0] usb 1-1: new device\n[2.0] systemd[1]: Started x\n\n\x00\n[3.0] nfs: server nas OK\n[] []\n"
    assert kernel_events.events(log) == []


def test_a_hostile_log_costs_no_time():
    lines = ["INFO: task " + "blocked" * 1000, "[" * 8000, "Out of memory: " + "(" * 8000, "x" * 100_000 + "segfault at "]
    began = time.process_time()
    kernel_events.events("\n".join(lines * 50), boot_s=1e300)
    assert time.process_time() - began < 10


def test_only_the_last_whole_lines_are_kept():
    log = "".join(f"<6>[{n}.0] line {n}\n" for n in range(100))
    assert kernel_log.tail(log, 2, 10_000) == ("[98.0] line 98\n[99.0] line 99\n", 1450)
    kept, omitted = kernel_log.tail(log, 100, 40)
    assert kept == "[98.0] line 98\n[99.0] line 99\n"
    assert omitted == 1450


def test_a_record_of_the_device_is_printed_like_a_line_of_the_buffer(tmp_path):
    device = tmp_path / "kmsg"
    device.write_text("6,1,2780390483,-;a\\x09tab\n SUBSYSTEM=net\n")
    assert kernel_log.read_device(str(device)) == "[ 2780.390483] a\ttab\n"


# --- the real one ---


@may_read
def test_a_program_that_dies_of_a_segfault_is_in_the_log_with_its_pid_and_the_line_is_there_to_quote():
    if Path("/proc/sys/debug/exception-trace").read_text().strip() != "1":
        pytest.skip("this kernel does not log segfaults")
    died = subprocess.Popen([sys.executable, "-c", "import ctypes; ctypes.string_at(1)"], stderr=subprocess.DEVNULL)
    assert died.wait(60) == -signal.SIGSEGV
    event = wait_until(
        lambda: next((e for e in rows(gather(), "kernel_events") if e.pid == died.pid and e.kind == "segfault"), None),
        what="the segfault is in the kernel's log",
    )
    items = gather()
    (text,) = [found.content for found in artefacts(items) if found.path == event.artefact]
    (row,) = [e for e in rows(items, "kernel_events") if e.pid == died.pid and e.kind == "segfault"]
    assert f"[{died.pid}]: segfault" in text.split("\n")[row.line - 1]
    assert row.time[:4] >= "2024"


@may_read
def test_buffer_and_device_say_the_same():
    if isinstance(kernel_log.read_device(), Unread):
        pytest.skip("there is no /dev/kmsg here")
    buffer, device = kernel_log.read_buffer(), kernel_log.read_device()
    assert {line.split("] ", 1)[-1] for line in kernel_log.tail(buffer, 50, 1 << 20)[0].splitlines()} <= {
        line.split("] ", 1)[-1] for line in device.splitlines()
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_plain_user_is_told_the_line_that_would_open_it():
    if Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() == "0":
        pytest.skip("everybody may read the kernel's log here")
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(NOBODY)
        said = gaps(gather())
        ok = len(said) == 1 and said[0].status == "denied" and "dmesg_restrict" in said[0].hint
        os._exit(0 if ok and said[0].tables == ("kernel_events",) else 1)
    assert os.waitpid(child, 0)[1] == 0


def refuse(monkeypatch):
    monkeypatch.setattr(kernel_log, "read_buffer", lambda: Unread("denied", "Operation not permitted"))
    monkeypatch.setattr(kernel_log, "read_device", lambda: Unread("denied", "Operation not permitted"))


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_tool_with_rights_of_its_own_is_asked_when_the_kernel_refuses(monkeypatch, tmp_path):
    refuse(monkeypatch)
    tool(tmp_path, "dmesg", "echo dmesg: read kernel buffer failed: Operation not permitted >&2; exit 1")
    tool(tmp_path, "journalctl", "echo '[    7.5] host kernel: INFO: task python:9 blocked for more than 120 seconds.'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (event,) = rows(gather(), "kernel_events")
    assert (event.kind, event.pid) == ("hung-task", 9)


def test_a_tool_that_hangs_costs_its_limit_and_the_refusal_is_told(monkeypatch, tmp_path):
    refuse(monkeypatch)
    monkeypatch.setattr(probe, "_TOOL_S", 0.3)
    tool(tmp_path, "dmesg", "sleep 600")
    tool(tmp_path, "journalctl", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    began = time.monotonic()
    (gap,) = gaps(gather())
    assert time.monotonic() - began < 20
    assert (gap.status, gap.tables) == ("denied", ("kernel_events",))


def test_root_of_a_container_is_told_the_capability_that_is_missing(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(access, "has_capability", lambda number: False)
    assert "--cap-add SYSLOG" in probe.hint()
