"""What free, uptime and the heading of top print."""

from __future__ import annotations

import os

import pytest
from parsing import blocks_of, only, printed, rows_of

from flatline.bundle.facts import Host

FREE = """\
               total        used        free      shared  buff/cache   available
Mem:       {total}    12000000      900000       11832      274336     3389588
Swap:       8388604           0     8388604
"""
GIB = 1024**3


def host(text: str, kind: str) -> Host:
    (row,) = rows_of(only(text, kind), Host)
    return row


def test_free_as_it_runs_here_tells_the_memory_of_this_machine():
    text = printed("free")
    with open("/proc/meminfo") as file:
        total = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemTotal"))
    assert host(text, "free").memory_total == total


def test_units_and_languages_of_free():
    text = "        gesamt benutzt frei\n"
    human = FREE.format(total="503Gi").replace("3389588", "12.5Gi").replace("8388604", "8.0Gi")
    row = host(human, "free")
    assert (row.memory_total, row.memory_available, row.swap_free) == (503 * GIB, int(12.5 * GIB), 8 * GIB)
    assert host(FREE.format(total="515000").replace("515000", "256000"), "free").memory_total == 256000 * 1024**2
    assert [block.kind for block in blocks_of(text)] == ["log"]


def test_a_number_that_may_be_of_any_unit_says_nothing():
    assert rows_of(only(FREE.format(total="3861332"), "free"), Host) == []


@pytest.mark.parametrize(
    ("line", "load", "up"),
    [
        (" 14:01:02 up 12 days,  3:04,  2 users,  load average: 8.10, 7.2, 7.3", 8.1, ((12 * 24 + 3) * 60 + 4) * 60.0),
        ("09:59:00 up 7 min,  0 users,  load average: 0,55, 0,24, 0,09", 0.55, 420.0),
        (" 23:06:21 up 1 day, 2 min,  1 user,  load average: 64.00, 60.24, 9.09", 64.0, 86520.0),
    ],
)
def test_uptime_tells_load_and_age(line, load, up):
    row = host(line, "uptime")
    assert (row.load_1m, row.uptime_s) == (load, up)


def test_the_heading_of_top_without_its_table_is_read():
    head = "top - 23:06:21 up 2 min,  2 users,  load average: 0.55, 0.24, 0.09\nTasks: 245 total,   1 running\n"
    row = host(head + "%Cpu(s):  3.1 us,  3.1 sy\nMiB Mem :   3903.6 total,   2378.7 free\n", "top")
    assert (row.load_1m, row.memory_total) == (0.55, int(3903.6 * 1024**2))


def test_id_says_who_asks_and_not_whose_the_job_is():
    (row,) = rows_of(only(printed("id"), "id"), Host)
    assert row.collector_uid == os.geteuid()
    block = only("uid=1000(ann) gid=1000(ann) groups=1000(ann),44(video),109(render) context=unconfined\n", "id")
    assert block.about == "user ann, in ann, video, render"
    assert [block.kind for block in blocks_of("uid=1000 has no access to /dev/kfd")] == ["log"]
