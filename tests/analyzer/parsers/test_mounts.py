"""File systems as df, mount and /proc print them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from parsing import only, printed, rows_of

from flatline.bundle.facts import Mount


@pytest.mark.parametrize("options", [(), ("-h",), ("-hT",), ("-i",), ("-P",), ("-k", "-T"), ("-BM",)])
def test_df_of_this_machine_is_read(options: tuple[str, ...]):
    text = printed("df", *options, "/", "/dev/shm")
    root = next(row for row in rows_of(only(text, "df"), Mount) if row.path == "/")
    figures = os.statvfs("/")
    if "-i" in options:
        assert root.inodes == figures.f_files
    else:
        size = figures.f_blocks * figures.f_frsize
        assert abs((root.size or 0) - size) < 0.1 * size + 2**21
    assert (root.kind is not None) == any("T" in option for option in options)


def test_a_long_name_stands_in_a_line_of_its_own():
    text = (
        "Filesystem           1K-blocks      Used Available Use% Mounted on\n"
        "store7.example.org:/export/very/long/name\n"
        "                     1073741824 1073741824         0 100% /mnt/data\n"
    )
    (row,) = rows_of(only(text, "df"), Mount)
    assert (row.path, row.source, row.size, row.free, row.network) == (
        "/mnt/data", "store7.example.org:/export/very/long/name", 1 << 40, 0, True,
    )  # fmt: skip


def test_a_row_without_its_headline_is_read():
    (row,) = rows_of(only("tmpfs                    64M   64M     0 100% /dev/shm\n", "df"), Mount)
    assert (row.path, row.size, row.free) == ("/dev/shm", 64 << 20, 0)


@pytest.mark.parametrize(
    ("file", "kind"), [("/proc/self/mountinfo", "proc-mountinfo"), ("/proc/self/mounts", "proc-mounts")]
)
def test_the_mounts_of_this_process_are_read(file: str, kind: str):
    block = only(Path(file).read_text(), kind)
    assert "/proc" in {row.path for row in rows_of(block, Mount)}
    assert len(block.rows) == len(Path(file).read_text().splitlines())


def test_mount_tells_kind_source_and_options():
    text = (
        "/dev/vda on / type ext4 (rw,relatime)\n"
        "store7:/home on /home type nfs4 (rw,vers=4.2,hard,timeo=600,addr=10.0.0.7)\n"
        "s3fs on /mnt/s3 type fuse.s3fs (rw,nosuid,user_id=0)\n"
    )
    block = only(text, "mount")
    root, home, s3 = rows_of(block, Mount)
    assert (root.network, home.network, s3.network) == (False, True, True)
    assert (home.kind, home.source, home.path) == ("nfs4", "store7:/home", "/home")
    assert block.collected == {"mounts"}
