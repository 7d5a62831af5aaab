"""What ls -l and stat print of files."""

from __future__ import annotations

import os

import pytest
from parsing import blocks_of, only, printed, rows_of

from flatline.bundle.facts import File


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "build.lock").touch(mode=0o640)
    (tmp_path / "cache" / "two words.bin").write_bytes(b"x" * 2048)
    (tmp_path / "cache" / "link").symlink_to("two words.bin")
    os.mkfifo(tmp_path / "cache" / "pipe")
    return tmp_path / "cache"


@pytest.mark.parametrize("flags", ["-l", "-la", "-lai", "-lan", "-l --time-style=full-iso", "-l --time-style=long-iso"])
def test_ls_tells_kind_mode_and_size_below_the_folder_of_the_command(folder, flags):
    text = f"$ ls -la {folder}\n" + printed("ls", *flags.split(), folder)
    (block,) = (block for block in blocks_of(text) if block.kind == "ls")
    rows = {row.path.rpartition("/")[2]: row for row in rows_of(block, File)}
    assert {name: row.kind for name, row in rows.items()} == {
        "build.lock": "lock", "two words.bin": "file", "link": "link", "pipe": "fifo",
    }  # fmt: skip
    assert (rows["build.lock"].path, rows["build.lock"].size) == (f"{folder}/build.lock", 0)
    assert rows["build.lock"].mode == (folder / "build.lock").stat().st_mode & 0o7777
    assert rows["two words.bin"].size == 2048


def test_several_folders_in_one_listing_are_kept_apart(folder):
    rows = rows_of(only(printed("ls", "-lR", folder.parent).partition("\n")[2], "ls"), File)
    assert f"{folder}/build.lock" in [row.path for row in rows]


def test_stat_tells_the_inode_too(folder):
    for name, kind in (("build.lock", "lock"), ("link", "link"), ("pipe", "fifo")):
        (row,) = rows_of(only(printed("stat", folder / name), "stat"), File)
        told = (folder / name).lstat()
        assert (row.path, row.kind) == (f"{folder}/{name}", kind)
        assert (row.inode, row.uid, row.mode) == (told.st_ino, told.st_uid, told.st_mode & 0o7777)


@pytest.mark.parametrize("text", ["total 12", "File: train.py", "-rw-r--r-- 1 is what it should be", "total 100 steps"])
def test_what_only_begins_like_one_stays_log(text):
    assert [block.kind for block in blocks_of(text)] == ["log"]


@pytest.mark.parametrize(
    ("bits", "who", "writable"),
    [
        ("drwxr-xr-x", "$ ls -ld /c; id -un\n{row}\neve", False),
        ("drwxrwxrwx", "$ ls -ld /c; id -un\n{row}\neve", True),
        ("drwxrwxr-x", "$ ls -ld /c; id -un\n{row}\neve", None),
        ("drwxr-xr-x", "$ whoami\nann\n$ ls -ld /c\n{row}", True),
        ("drwxr-xr-x", "$ ls -ld /c; id\n{row}\nuid=7(eve) gid=7(eve) groups=7(eve),9(lab)", False),
        ("drwxrwxr-x", "$ ls -ld /c; id\n{row}\nuid=7(eve) gid=7(eve) groups=7(eve),9(lab)", True),
        ("drwxr-xr-x", "$ ls -ld /c\n{row}\neve", None),
    ],
)
def test_who_asks_beside_a_listing_may_write_there_or_not(bits, who, writable):
    text = who.format(row=f"{bits} 2 ann lab 4096 Sep  9 12:40 /c")
    (row,) = rows_of([row for block in blocks_of(text) for row in block.rows], File)
    assert (row.writable, row.why_not_writable) == (writable, "mode" if writable is False else None)
