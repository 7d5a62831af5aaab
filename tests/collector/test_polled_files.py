"""Which locals are kept as paths, and what a lock file says about its author."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from flatline.collector.linux.procfs import ProcFS
from flatline.collector.stacks import polled_files
from flatline.collector.stacks.polled_files import holders, is_lock_name, is_path_like, path_locals
from job_view import target_of, view_of

from flatline.texts.stack_lines import RawFrame, RawThread


@pytest.mark.parametrize("text", ["/tmp/x", "out/model.pt", "gone.json", "./a", "/" + "x" * 300, "lock/é.lck"])
def test_paths_are_kept(text):
    assert is_path_like("path", text)


@pytest.mark.parametrize(
    "text", ["", "/", "hello", "https://user:pw@host/x", "s3://bucket/key.pt", "a/b\nc", "/x\x1b[2J", "/" + "x" * 400]
)
def test_what_is_no_path_or_could_carry_more_is_not_kept(text):
    assert not is_path_like("path", text)


@pytest.mark.parametrize("name", ["password", "db_passwd", "SECRET", "hf_token", "api_key", "aws_key", "auth"])
def test_a_local_named_like_a_secret_is_never_kept(name):
    assert not is_path_like(name, "wJalrXUtnFEMI/K7MDENG/bPxRfiCY")


def test_each_path_is_looked_at_once_and_their_number_is_bounded():
    many = tuple((f"name{number}", f'"/x/{number // 2}"') for number in range(1000))
    thread = RawThread(1, None, None, None, None, (RawFrame("f", "x.py", 1, many),), (0,))
    found = list(path_locals([thread, thread]))
    assert len(found) == len({one.path for one in found}) == polled_files.MAX_PATHS
    assert found[0].named_by == "f.name0"


@pytest.mark.parametrize("printed", ["<PosixPath at 0x7f00>", "3", '"/tmp/cut..."', '"', "", "b'/x'"])
def test_what_is_not_a_whole_string_is_no_path(printed):
    thread = RawThread(1, None, None, None, None, (RawFrame("f", "x.py", 1, (("name", printed),)),), (0,))
    assert list(path_locals([thread])) == []


@pytest.mark.parametrize("path", ["/a/lock", "/a/x.lock", "X.LOCK", "a.lck", "/a/.~lock.report.odt#", "lockfile"])
def test_lock_files_are_known_by_their_names(path):
    assert is_lock_name(path)


@pytest.mark.parametrize("path", ["/a/clock", "/a/lock/file", "poetry.lock.txt", "blocks.json"])
def test_other_files_are_no_lock_files(path):
    assert not is_lock_name(path)


def test_holders_are_found_by_file_and_not_by_name(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with open(tmp_path / "a" / "x.lock", "w") as held, open(tmp_path / "b" / "x.lock", "w"):
        child = subprocess.Popen(["sleep", "600"], stdin=held)
        try:
            found = holders(ProcFS(), {"x.lock"})
        finally:
            child.kill()
            child.wait()
    seen = os.stat(tmp_path / "a" / "x.lock")
    key = (f"{os.major(seen.st_dev)}:{os.minor(seen.st_dev)}", seen.st_ino)
    assert set(found[key]) == {f"h1/{os.getpid()}", f"h1/{child.pid}"}


def test_the_kernel_s_lock_on_a_polled_file_and_its_holder_outside_the_job_are_told(start, tmp_path):
    """A thread that tries, closes and sleeps has the file open only for moments."""
    path, code = tmp_path / "x.lock", "import fcntl, time; f = open('x.lock', 'w'); fcntl.flock(f, 2); print(flush=True); time.sleep(600)"
    holder = start([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"\n"
    thread = RawThread(1, None, None, None, None, (RawFrame("acquire", "x.py", 1, (("path", f'"{path}"'),)),), (0,))
    found = polled_files.look(target_of(os.getpid()), [thread], view_of(os.getpid()))
    assert [file.holders for file in found.files] == [(f"h1/{holder.pid}",)]
    assert [(lock.owner_process, lock.kind, lock.waiting) for lock in found.locks] == [(f"h1/{holder.pid}", "flock", False)]
    assert found.people == {holder.pid}
