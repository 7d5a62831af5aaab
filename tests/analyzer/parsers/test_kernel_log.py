"""The kernel's log as people paste it: every way to print it, hung tasks with their stack, kills for memory."""

from __future__ import annotations

import pytest
from flatline.analyzer.intake.cleaning import cleaned
from flatline.analyzer.parsers.interface import Parsed
from flatline.analyzer.parsers.kernel_log import PARSERS, parse
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Frame, KernelEvent, Process, Thread

XID = "NVRM: Xid (PCI:0000:5e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
HUNG = """\
[90211.118402] INFO: task loader:5120 blocked for more than 120 seconds.
[90211.118911]       Tainted: P           OE     5.15.0-101-generic #111-Ubuntu
[90211.119377] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.
[90211.119901] task:loader          state:D stack:    0 pid: 5120 ppid:  5001 flags:0x00000004
[90211.119909] Call Trace:
[90211.119911]  <TASK>
[90211.119914]  __schedule+0x2cd/0x8a0
[90211.119921]  ? irqentry_exit+0x1d/0x30
[90211.119925]  schedule+0x4e/0xc0
[90211.119930]  rpc_wait_bit_killable+0x25/0xb0 [sunrpc]
[90211.119958]  nfs4_proc_getattr+0x6e/0xa0 [nfsv4]
[90211.119990]  </TASK>
[90240.000001] nfs: server store7 not responding, still trying
"""


def parsed(text: str) -> Parsed:
    found = parse(list(cleaned(text.splitlines())), 0)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "head",
    [
        "[ 5120.000001] ",
        "<3>[ 5120.000001] ",
        "[ 5120.000001][ T1184] ",
        "[Tue Mar  4 09:47:12 2025] ",
        "2025-03-04T09:47:12,123456+00:00 ",
        "2025-03-04T09:47:12+0800 node7 kernel: ",
        "Mar  4 09:47:12 node7 kernel: [ 5120.000001] ",
        "Mar  4 09:47:12 node7 kernel: ",
        "kern  :err   : [ 5120.000001] ",
        "kern  :warn  : 2025-03-04T09:47:12,123456+00:00 ",
        "3,812,5120000001,-;",
        "[ 5120.000001] node7 kernel: ",
        "[5120.001] ",
        "[5120] ",
        "<3>[ 5120.1] ",
        "5120.001 ",
        "(5120.001) ",
        "[5120,000001]: ",
        "[Mar 4 09:47:12] ",
        "[Tue Mar  4 09:47] ",
        "Mar  4 09:47:12 node7 ",
        "[09:47:12] ",
        "09:47:12.123 ",
        "2025-03-04 09:47:12 ",
        "dmesg: ",
        "kernel: ",
        "",
    ],
)
def test_every_way_to_print_the_log_is_read(head: str):
    (event,) = parsed(head + XID).rows
    assert (event.kind, event.code, event.device, event.text) == ("xid", 79, "0000:5e:00", XID)
    assert event.meaning == "the GPU has fallen off the bus"


@pytest.mark.parametrize(
    "line",
    [
        "[12.345] step 12 loss 0.41",
        "2025-03-04 09:47:12 INFO task 4 of 8 is blocked by task 3",
        "09:47:12 server node7:29500 not responding, still trying",
        "[5120.001] exporting layers",
        "12 invoked the out of memory hook",
    ],
)
def test_a_stamp_that_is_not_the_kernels_needs_a_message_that_is(line: str):
    assert not PARSERS[0].begins.match(line)


@pytest.mark.parametrize(
    ("head", "time"),
    [
        ("2025-03-04T09:47:12+0800 node7 kernel: ", "2025-03-04T01:47:12.000Z"),
        ("2025-03-04T09:47:12,123456+00:00 ", "2025-03-04T09:47:12.123Z"),
        ("[Tue Mar  4 09:47:12 2025] ", None),
        ("[ 5120.000001] ", None),
    ],
)
def test_a_time_is_told_only_where_its_zone_is(head: str, time: str | None):
    (event,) = parsed(head + XID).rows
    assert event.time == time


def test_a_hung_task_is_a_process_in_state_d_with_the_kernels_stack():
    found = parsed(HUNG)
    event = rows_of(found, KernelEvent)[0]
    assert (event.kind, event.pid, event.name, event.seconds, event.waits_in) == (
        "hung-task",
        5120,
        "loader",
        120.0,
        "nfs",
    )
    (process,), (thread,) = rows_of(found, Process), rows_of(found, Thread)
    assert (process.pid, process.name, process.state, thread.state, thread.is_main) == (5120, "loader", "D", "D", True)
    frames = rows_of(found, Frame)
    assert [f.function for f in frames] == ["__schedule", "schedule", "rpc_wait_bit_killable", "nfs4_proc_getattr"]
    assert {f.kind for f in frames} == {"kernel"}
    assert frames[2].module == "sunrpc"


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        ("os_acquire_rwlock_read+0x31/0x40 [nvidia]", "nvidia"),
        ("_nv012345rm+0x10/0x40", "nvidia"),
        ("uvm_va_space_down_write+0x1/0x2 [nvidia_uvm]", "nvidia"),
        ("amdgpu_device_lock+0x1/0x2 [amdgpu]", "amdgpu"),
        ("ptlrpc_set_wait+0x1/0x2 [ptlrpc]", "lustre"),
        ("request_wait_answer+0x1/0x2", "fuse"),
        ("ceph_mdsc_do_request+0x1/0x2 [ceph]", "ceph"),
        ("jbd2_log_wait_commit+0x1/0x2", "local-disk"),
        ("[<ffffffffa01234ab>] nfs_wait_bit_killable+0x1/0x2 [nfs]", "nfs"),
        ("futex_wait+0x1/0x2", None),
    ],
)
def test_the_stack_tells_which_part_of_the_kernel_a_task_waits_in(frame: str, part: str | None):
    text = f"INFO: task python:7 blocked for more than 241 seconds.\nCall Trace:\n schedule+0x1/0x2\n {frame}\n"
    assert parsed(text).rows[0].waits_in == part


def test_stacks_without_a_stamp_stay_with_their_task():
    text = (
        "INFO: task dockerd:20 blocked for more than 120 seconds.\n"
        "      Not tainted 3.16.0-4-amd64 #1\n"
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n'
        "dockerd         D ffff8801a8f2b078     0    20      1 0x00000000\n"
        " ffff8801a8f2ac20 0000000000000082 0000000000012f00 ffff880057a17fd8\n"
        "Call Trace:\n"
        " [<ffffffff8150d8c9>] ? schedule+0x29/0x70\n"
        " [<ffffffffa0234567>] fuse_simple_request+0x12/0x34 [fuse]\n"
        "epoch 3: loss 0.5\n"
    )
    blocks = blocks_of(text)
    assert [(b.kind, b.first, b.end) for b in blocks] == [("kernel-log", 0, 8), ("log", 8, 9)]
    assert blocks[0].rows[0].waits_in == "fuse"


def test_one_kill_told_in_several_lines_is_one_event():
    text = (
        "[10.000001] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=968\n"
        "[10.000002] CPU: 1 PID: 9 Comm: python3 Tainted: P O 5.15.0 #1\n"
        "[10.000003] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"
        "oom_memcg=/a,task_memcg=/a,task=python3,pid=77,uid=0\n"
        "[10.000004] Memory cgroup out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:8kB\n"
    )
    (event,) = parsed(text).rows
    assert (event.kind, event.pid, event.name, event.scope, event.line) == ("oom", 77, "python3", "cgroup", 4)


def test_where_the_kill_itself_is_cut_off_somebody_still_asked_for_it():
    (event,) = parsed("[10.000001] python3 invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), order=0\n").rows
    assert (event.kind, event.pid, event.scope) == ("oom", None, "unknown")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "gpu-driver"),
        ("amdgpu 0000:03:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block", "gpu-driver"),
        ("NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x00000065 for fn 76!", "gpu-driver"),
        ("habanalabs 0000:b3:00.0: Heartbeat with device failed!", "gpu-driver"),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)", "gpu-driver"),
        ("NVRM: API mismatch: the client has the version 535.1, but this kernel module has 550.2", "gpu-driver"),
        (
            "mlx5_core 0000:9a:00.0: poll_health:835:(pid 0): device's health compromised - reached miss count",
            "network",
        ),
        ("mlx5_core 0000:9a:00.0 ens1f0: Link down", "network"),
        ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "soft-lockup"),
    ],
)
def test_complaints_of_drivers_are_events(line: str, kind: str):
    assert [event.kind for event in parsed(f"[    1.000001] {line}").rows] == [kind]


def test_other_programs_lines_of_the_system_log_may_stand_between():
    text = (
        "Mar  4 09:47:12 node7 kernel: usb 1-1: new device\n"
        "Mar  4 09:47:13 node7 systemd[1]: Started x.\n"
        f"Mar  4 09:47:14 node7 kernel: {XID}\n"
    )
    (block,) = blocks_of(text)
    assert (block.kind, block.end, len(block.rows), block.is_log) == ("kernel-log", 3, 1, True)


@pytest.mark.parametrize(
    "line",
    [
        "[2025-03-04 09:47:12,123] [INFO] [launch.py:1] started",
        "2025-03-04 09:47:12,123 INFO training",
        "[0] step 12",
        "[12.5] elapsed",
        "the GPU has fallen behind, out of memory soon",
        "CPU: 12 threads",
    ],
)
def test_ordinary_log_lines_are_not_the_kernels(line: str):
    assert [block.kind for block in blocks_of(line)] == ["log"]


def test_a_task_in_state_d_is_one_without_the_line_that_says_for_how_long():
    text = (
        "[  +0.000040] task:sft_main       state:D stack:    0 pid: 4120 ppid:  4101 flags:0x00000002\n"
        "[  +0.000005] Call Trace:\n"
        "[  +0.000002]  <TASK>\n"
        "[  +0.000004]  __schedule+0x2eb/0x8d0\n"
        "[  +0.000006]  uvm_va_block_lock+0x1c/0x90 [nvidia_uvm]\n"
    )
    block = only(text, "kernel-log")
    assert [(p.pid, p.name, p.state) for p in rows_of(block, Process)] == [(4120, "sft_main", "D")]
    assert [(f.function, f.module) for f in rows_of(block, Frame)][-1] == ("uvm_va_block_lock", "nvidia_uvm")
    assert rows_of(block, KernelEvent) == []


def test_what_syslogd_writes_on_every_terminal_is_the_kernels():
    text = (
        "Message from syslogd@gpu4 at Jan  2 03:04:05 ...\n"
        " kernel:[ 812.120011] watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python3:4711]\n"
        "Broadcast message from systemd-journald@gpu4\n"
        "kernel[1]: watchdog: BUG: soft lockup - CPU#4 stuck for 26s! [python3:4712]\n"
    )
    events = [row for block in blocks_of(text) for row in rows_of(block, KernelEvent)]
    assert [(event.kind, event.pid) for event in events] == [("soft-lockup", 4711), ("soft-lockup", 4712)]
