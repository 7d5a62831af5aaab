"""Who holds a lock on a file and who waits for it, as lslocks and the kernel list it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from parsing import blocks_of, only, printed, rows_of
from programs import wait_until

from flatline.bundle.facts import Lock, Process

LISTED = """\
COMMAND            PID  TYPE SIZE MODE   M START END PATH
python3          31264 FLOCK   0B WRITE  0     0   0 /data/cache/set one.lock
python3          33590 FLOCK      WRITE* 0     0   0 /data/cache/set one.lock
systemd-journal    511 POSIX   8M READ   0     0   0
(undefined)         -1 OFDLCK     READ   0     0   0 /dev...
"""
WITH_BLOCKER = """\
  PID COMMAND PATH          BLOCKER
33590 python3 /data/a.lock    31264
"""
KERNEL = """\
1: POSIX  ADVISORY  WRITE 31264 08:02:131 0 EOF
1: -> POSIX  ADVISORY  WRITE 33590 08:02:131 10 19
2: OFDLCK ADVISORY  READ  -1 00:06:4 0 EOF
"""


def told(block: object) -> list[tuple[str | None, bool, str | None]]:
    return [(row.owner_process, row.waiting, row.path) for row in rows_of(block, Lock)]  # type: ignore[arg-type]


def test_lslocks_marks_who_waits_and_leaves_out_what_may_not_be_seen():
    block = only(LISTED, "lslocks")
    assert told(block) == [
        ("h1/31264", False, "/data/cache/set one.lock"),
        ("h1/33590", True, "/data/cache/set one.lock"),
        ("h1/511", False, None),
        (None, False, None),
    ]
    held, awaited, *_ = rows_of(block, Lock)
    assert held.id == awaited.id
    assert held.inode == awaited.inode
    assert (31264, "python3") in [(row.pid, row.name) for row in rows_of(block, Process)]


def test_rows_without_their_headline_are_known():
    text = LISTED.partition("\n")[2]
    assert told(only(text, "lslocks")) == told(only(LISTED, "lslocks"))


def test_who_blocks_is_the_holder_where_its_own_row_was_not_pasted():
    assert told(only(WITH_BLOCKER, "lslocks")) == [
        ("h1/33590", True, "/data/a.lock"),
        ("h1/31264", False, "/data/a.lock"),
    ]


def test_the_kernels_list_joins_a_request_and_the_lock_by_their_file():
    block = only(KERNEL, "proc-locks")
    held, awaited, nobodys = rows_of(block, Lock)
    assert (held.id, held.device, held.end) == ("h1/lock/8:2:131", "8:2", None)
    assert (awaited.id, awaited.waiting, awaited.owner_process, awaited.end) == (held.id, True, "h1/33590", 19)
    assert nobodys.owner_process is None


@pytest.fixture
def awaited(tmp_path: Path) -> Iterator[Path]:
    """A file on which this process holds a lock for which a child waits."""
    path = tmp_path / "set.lock"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        child = os.fork()
        if child == 0:
            with path.open("w") as mine:
                fcntl.flock(mine, fcntl.LOCK_EX)
            os._exit(0)
        request = f"-> FLOCK  ADVISORY  WRITE {child} "
        wait_until(lambda: request in Path("/proc/locks").read_text(), what="the child waits for the lock")
        yield path
        fcntl.flock(held, fcntl.LOCK_UN)
    os.waitpid(child, 0)


@pytest.mark.parametrize("options", [(), ("-u",), ("-n",), ("-o", "+BLOCKER"), ("-o", "PID,COMMAND,MODE,INODE,PATH")])
def test_what_this_machine_prints_is_read(awaited: Path, options: tuple[str, ...]):
    blocks = [block for block in blocks_of(printed("lslocks", *options)) if block.kind == "lslocks"]
    mine = [
        (row.owner_process, row.waiting) for block in blocks for row in rows_of(block, Lock) if row.path == str(awaited)
    ]
    assert (f"h1/{os.getpid()}", False) in mine
    assert True in [waiting for _, waiting in mine]
