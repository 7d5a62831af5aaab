"""Lists of processes: what ps and top of this machine print now, and what is left of such lists in tickets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from parsing import blocks_of, only, printed, rows_of

from flatline.bundle.facts import Host, Process, Thread, ToolRun


@pytest.fixture
def sleeper():
    """A child of ours that sleeps, with a command line of its own."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "--rank", "3"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    assert child.stdout is not None
    assert child.stdin is not None
    child.stdout.readline()
    yield child
    child.stdin.close()
    child.wait()
    child.stdout.close()


@pytest.mark.parametrize(
    "options",
    [
        "aux", "auxww", "axjf", "auxf", "-ef", "-efww", "-elf", "-eLf", "-elfL", "axl", "-ejH", "-ely", "auxm",
        "-eo pid,ppid,stat,wchan:32,etime,rss,args", "-eo pid,ppid,user,stat,lstart,tty,args",
        "-eo user,pid,ppid,start,time,cmd", "-eLo pid,tid,stat,wchan:20,pcpu,args", "-eo stat,pid,ppid,comm",
        "-eo pid,comm,wchan:20,args", "-e", "ax", "-eo pid,pgid,tpgid,sid,stat,tty,cgroup,args",
    ],
)  # fmt: skip
def test_every_format_of_ps_gives_all_processes_of_this_machine(options: str, sleeper: subprocess.Popen[bytes]):
    text = printed("ps", *options.split(" "))
    block = only(text, "ps")
    assert block.end == len(text.splitlines())
    processes = {process.pid: process for process in rows_of(block, Process)}
    assert {1, sleeper.pid, os.getpid()} <= set(processes)
    found = processes[sleeper.pid]
    assert found.is_python
    assert found.ppid in (os.getpid(), None)
    if found.argv is not None:
        assert found.argv[0].endswith(sys.executable.rpartition("/")[2])
    threads = {thread.tid: thread for thread in rows_of(block, Thread)}
    assert (threads[sleeper.pid].pid, threads[sleeper.pid].is_main) == (sleeper.pid, True)
    if found.state != "unknown":
        assert (found.state, threads[sleeper.pid].state) == ("S", "S")


def test_flags_of_the_command_line_tell_the_rank(sleeper: subprocess.Popen[bytes]):
    block = only(printed("ps", "auxww"), "ps")
    assert next(p.rank for p in rows_of(block, Process) if p.pid == sleeper.pid) == 3


def test_a_drawn_tree_tells_the_parent_where_no_column_does(sleeper: subprocess.Popen[bytes]):
    block = only(printed("ps", "auxf"), "ps")
    assert next(p.ppid for p in rows_of(block, Process) if p.pid == sleeper.pid) == os.getpid()


def test_where_one_process_has_the_letter_of_threads_the_others_have_one_thread():
    rows = "  901 pts/1    Sl+    0:41 python train.py\n  977 pts/1    S+     0:00 python train.py\n"
    assert [p.threads_total for p in rows_of(only(rows, "ps"), Process)] == [None, 1]
    unlettered = only(rows.replace("Sl+", "S+ "), "ps")
    assert [p.threads_total for p in rows_of(unlettered, Process)] == [None, None]


def test_a_whole_list_says_what_is_not_there_and_an_excerpt_does_not():
    text = printed("ps", "aux")
    assert only(text, "ps").collected == {"processes"}
    assert only("\n".join(text.splitlines()[3:8]), "ps").collected == frozenset()


def test_top_gives_processes_memory_and_load():
    block = only(printed("top", "-b", "-n", "1", "-w", "200"), "top")
    (host,) = rows_of(block, Host)
    assert host.load_1m is not None
    assert (host.memory_total or 0) > 2**28
    assert os.getpid() in {process.pid for process in rows_of(block, Process)}


def test_top_on_a_host_whose_processors_are_all_at_work_has_no_room_behind_the_colon():
    text = """\
top - 00:16:39 up  6:10,  0 user,  load average: 2.35, 2.17, 1.61
Tasks:  84 total,   2 running,  73 sleeping,   0 stopped,   9 zombie
%Cpu(s):100.0 us,  0.0 sy,  0.0 ni,  0.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st
MiB Mem :   1000.0 total,    100.0 free,    800.0 used,    100.0 buff/cache
MiB Swap:      0.0 total,      0.0 free,      0.0 used.    200.0 avail Mem

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
  22799 root      20   0  898332 458636  32708 R 100.0   1.9   3:30.72 python
"""
    block = only(text, "top")
    (host,) = rows_of(block, Host)
    assert (host.memory_total, host.swap_total, host.memory_available) == (1000 * 2**20, 0, 200 * 2**20)
    assert [process.pid for process in rows_of(block, Process)] == [22799]


AUX = """\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root        2210  0.0  0.0  21000  4100 ?        D    Jun07   0:00 /usr/bin/nvidia-smi -q
svc-tra+    3011 99.7  2.1 9912044 812344 pts/4  Rl+  Jun07 812:33 python -u train.py --local_rank=1
svc-tra+    3020  0.0  0.0      0     0 pts/4    Z+   Jun07   0:00 [python] <defunct>
root          45  0.0  0.0      0     0 ?        I<   May30   0:00 [kworker/0:1H-kblockd]
"""


def facts(process: Process) -> tuple[object, ...]:
    return process.pid, process.state, process.name, process.tty, process.user


def test_the_columns_of_ps_aux():
    smi, job, zombie, worker = rows_of(only(AUX, "ps"), Process)
    assert facts(smi) == (2210, "D", "nvidia-smi", "none", "root")
    assert facts(job) == (3011, "R", "python", "pts/4", "svc-tra+")
    assert (job.argv, job.local_rank, job.rss) == (("python", "-u", "train.py", "--local_rank=1"), 1, 812344 * 1024)
    assert (zombie.state, zombie.name, zombie.argv) == ("Z", "python", None)
    assert (worker.state, worker.name, worker.argv) == ("I", "kworker/0:1H-kb", None)


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_rows_without_their_headline_are_still_rows(first: int):
    text = "\n".join(AUX.splitlines()[first:])
    assert len(rows_of(only(text, "ps"), Process)) == 5 - first


def test_a_list_is_indented_and_doubled_by_the_paste():
    text = "\n\n".join(f"    {line}" for line in AUX.splitlines())
    assert len(rows_of(only(text, "ps"), Process)) == 4


def test_a_list_ends_where_the_log_goes_on():
    blocks = blocks_of(AUX + "step 12 loss 0.5\n2025-01-01 00:00:00 done\n")
    assert [(block.kind, block.end) for block in blocks] == [("ps", 5), ("log", 7)]


def test_columns_with_blanks_and_dates_are_kept_apart():
    text = (
        "    PID    PPID STAT WCHAN                            STARTED TT       COMMAND         COMMAND\n"
        "   4100       1 Ssl  futex_wait_queue Wed Feb  9 22:33:20 2022 ?        tmux: server    tmux new -s train\n"
        "   4101    4100 T    do_signal_stop   Wed Feb  9 22:33:21 2022 pts/1    python          python a b.py\n"
    )
    first, second = rows_of(only(text, "ps"), Process)
    assert (first.state, first.tty, first.ppid) == ("S", "none", 1)
    assert (second.state, second.tty) == ("T", "pts/1")
    assert [t.wchan for t in rows_of(only(text, "ps"), Thread)] == ["futex_wait_queue", "do_signal_stop"]


def test_a_tree_of_numbers_and_names_alone_tells_who_started_whom():
    text = (
        "   800          \\_ python3.11\n"
        "   812          |   \\_ python3.11\n"
        "   820          |   |   \\_ loader 0 <defunct>\n"
        "   830          |   \\_ watch dog\n"
    )
    found = rows_of(only(text, "ps"), Process)
    assert [(p.pid, p.ppid, p.state) for p in found] == [
        (800, None, "unknown"), (812, 800, "unknown"), (820, 812, "Z"), (830, 800, "unknown"),
    ]  # fmt: skip


def test_threads_of_one_process_become_threads():
    text = (
        "UID          PID    PPID     LWP  C NLWP STIME TTY          TIME CMD\n"
        "ann         9000    8999    9000  0    3 09:00 pts/0    00:00:01 python train.py\n"
        "ann         9000    8999    9002  0    3 09:00 pts/0    00:00:00 python train.py\n"
        "ann         9000    8999    9003 97    3 09:00 pts/0    01:10:00 python train.py\n"
    )
    block = only(text, "ps")
    (process,) = rows_of(block, Process)
    assert (process.pid, process.ppid, process.threads_total) == (9000, 8999, 3)
    assert [(t.tid, t.is_main) for t in rows_of(block, Thread)] == [(9000, True), (9002, False), (9003, False)]


@pytest.mark.parametrize(
    "line",
    [
        "USER 12 started the job",
        "rank 0 12 13 ready 10:00 pts",
        "1234 pts/2 is busy",
        "D 2 4 something",
        "PID 12 died",
        "epoch 3 12 0.5 0.1 200 300 ? S 10:00 0:01",
    ],
)
def test_ordinary_log_lines_are_no_lists(line: str):
    assert [block.kind for block in blocks_of(line)] == ["log"]


def test_a_zombie_whose_mark_the_width_of_the_terminal_cut_is_one_by_its_name() -> None:
    text = (
        "USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
        "ann         71  0.0  0.0      0     0 ?        Z    10:01   0:09 [python3] <defu\n"
    )
    assert [(p.name, p.state) for p in rows_of(only(text, "ps"), Process)] == [("python3", "Z")]


def test_rows_whose_headline_was_filtered_away_are_read_by_the_format_that_was_asked_for():
    text = (
        "$ ps -eo pid,stat,wchan:30,etime,cmd | grep ' D'\n"
        "  712 Dl   nfs_wait_bit_killable      1-02:03:04 python train.py --data /mnt/set\n"
    )
    rows = rows_of([row for block in blocks_of(text) for row in block.rows], Thread)
    assert [(row.pid, row.state, row.wchan) for row in rows] == [(712, "D", "nfs_wait_bit_killable")]


def test_a_name_and_what_the_kernel_waits_in_at_the_end_of_a_row():
    text = "  900   1 S    torchrun   do_wait\n  904 900 D    python3    os_acquire_rwlock_write\n  905 900 Z    python3    -\n"
    rows = rows_of(only(text, "ps"), Thread)
    assert [(row.pid, row.state, row.wchan) for row in rows][:2] == [
        (900, "S", "do_wait"),
        (904, "D", "os_acquire_rwlock_write"),
    ]


def test_what_a_filter_left_of_another_format_is_not_taken_for_rows():
    assert [block.kind for block in blocks_of("$ ps -o pid,stat,cmd -p 9\nnothing to see\n")] == ["prompt", "log"]


@pytest.mark.parametrize(
    "text", ["$ ps -o nlwp= -p 31\n 260\n", "$ ps -o nlwp -p 31\nNLWP\n 260\n", "me@n1:~$ ps -o nlwp 31\nNLWP\n 260\n"]
)
def test_how_many_threads_one_process_has(text):
    rows = rows_of([row for block in blocks_of(text) for row in block.rows], Process)
    assert [(row.pid, row.threads_total) for row in rows if row.threads_total] == [(31, 260)]


def test_a_headline_alone_says_that_the_one_asked_for_is_not_there():
    for command in ("ps -p 4411", "ps -fp 4411", "ps 4411", "ps -o pid,stat,cmd -p 4411"):
        blocks = blocks_of(f"$ {command}\n    PID TTY          TIME CMD\n$ \n")
        assert [run.message for block in blocks for run in rows_of(block, ToolRun)] == ["there is no process 4411"], (
            command
        )


def test_a_headline_alone_below_a_filter_says_nothing():
    blocks = blocks_of("$ ps aux | head -1\nUSER  PID %CPU %MEM  VSZ RSS TTY STAT START TIME COMMAND\n")
    assert [row for block in blocks for row in rows_of(block, ToolRun)] == []


def test_the_processor_time_is_told_of_a_process_or_of_a_thread():
    text = "  PID  PPID STAT     TIME COMMAND\n   51     1 Sl  1-02:00:03 python fit.py\n   52    51 R   402:19 python fit.py\n"
    assert [p.cpu_ms for p in rows_of(only(text, "ps"), Process)] == [93_603_000, 24_139_000]
    threads = "  PID   LWP STAT     TIME COMMAND\n   51    60 R   00:00:07 python fit.py\n"
    assert [t.cpu_ms for t in rows_of(only(threads, "ps"), Thread)] == [7000]
    assert [p.cpu_ms for p in rows_of(only(threads, "ps"), Process)] == [None]
