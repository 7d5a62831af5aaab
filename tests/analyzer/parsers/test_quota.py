"""What quota prints of a user's share."""

from __future__ import annotations

import pytest
from parsing import blocks_of, only, rows_of

from flatline.bundle.facts import Quota

PLAIN = """\
Disk quotas for user ann (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      /dev/sdb1   90000*  80000  100000   6days      12       0       0
nas.example:/export/home
                 2048000       0 4096000             500    1000    2000
"""
SHORT = """\
Disk quotas for usr ann (uid 1000):
     Filesystem    used   quota   limit   grace   files   quota   limit   grace
       /lustre1  1.5T    1.0T      2T   none  150000       0       0       -
"""
KIB = 1024


def test_the_share_of_every_file_system_is_known_also_where_its_name_stands_alone():
    assert [
        (row.uid, row.path, row.used, row.soft, row.hard, row.inodes_used, row.inodes_hard)
        for row in rows_of(only(PLAIN, "quota"), Quota)
    ] == [
        (1000, "/dev/sdb1", 90000 * KIB, 80000 * KIB, 100000 * KIB, 12, None),
        (1000, "nas.example:/export/home", 2048000 * KIB, None, 4096000 * KIB, 500, 2000),
    ]


def test_units_are_read():
    (row,) = rows_of(only(SHORT, "quota"), Quota)
    assert (row.path, row.used, row.hard) == ("/lustre1", int(1.5 * KIB**4), 2 * KIB**4)


def test_no_quota_is_recognised_and_says_nothing():
    assert rows_of(only("Disk quotas for user ann (uid 1000): none\n", "quota"), Quota) == []


@pytest.mark.parametrize("text", ["Disk quotas for user ann (uid 1000):", "/dev/sdb1 90000 80000 100000 12 0 0"])
def test_a_part_that_tells_too_little_stays_log(text):
    assert [block.kind for block in blocks_of(text)] == ["log"]
