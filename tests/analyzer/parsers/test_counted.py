"""Numbers that somebody counted, and files of control groups."""

from __future__ import annotations

from parsing import Row, blocks_of, rows_of

from flatline.bundle.facts import Cgroup, Limit, Process


def rows_in(text: str, kind: type[Row]) -> list[Row]:
    """Of all blocks of the text."""
    return [row for block in blocks_of(text) for row in rows_of(block, kind)]


def test_a_count_of_descriptors_and_the_limit_of_the_same_process_belong_together():
    text = "$ ls /proc/77/fd | wc -l\n2040\n$ grep files /proc/77/limits\nMax open files            2048      2048      files\n"
    assert {(row.process, row.name, row.soft, row.used) for row in rows_in(text, Limit)} == {
        ("h1/77", "open files", None, 2040), ("h1/77", "open files", 2048, None),
    }  # fmt: skip


def test_threads_of_a_user_count_against_the_limit_on_processes():
    assert [(row.name, row.used) for row in rows_in("$ ps -eLf | grep ^ann | wc -l\n510\n", Limit)] == [
        ("processes", 510)
    ]


def test_the_threads_of_one_process_are_counted_in_its_folder_of_tasks():
    short, long = "$ ls /proc/77/task | wc -l\n1\n", "$ ls -l /proc/78/task | wc -l\n3\n"
    assert [(row.pid, row.threads_total) for row in rows_in(short + long, Process)] == [(77, 1), (78, 2)]


def test_lsof_has_lines_for_mapped_files_too_and_is_no_count():
    assert rows_in("$ lsof -p 77 | wc -l\n510\n", Limit) == []


def test_files_of_a_control_group_are_told_by_the_command_or_by_their_names():
    shown = "$ cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current\n300\n299\n"
    named = "$ grep . /sys/fs/cgroup/pids.*\n/sys/fs/cgroup/pids.current:299\n/sys/fs/cgroup/pids.max:300\n"
    assert [(row.pids_current, row.pids_max) for row in rows_in(shown, Cgroup) + rows_in(named, Cgroup)] == [
        (299, 300), (299, 300),
    ]  # fmt: skip


def test_a_quota_is_in_cpus():
    first = "$ cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us\n150000\n100000\n"
    second = "$ cat /sys/fs/cgroup/cpu.max\n200000 100000\n"
    assert [row.cpu_quota for row in rows_in(first, Cgroup) + rows_in(second, Cgroup)] == [1.5, 2.0]
