"""The paths a job was given are looked at with the job's eyes; lock files are told with who holds or wrote them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from flatline.collector.files import named_paths
from flatline.collector.probes.files import Files
from job_view import artefacts, gaps, rows, run_until_ready, target_of, view_of
from programs import open_to_others

from flatline.bundle.facts import process_id

NOBODY = 65534
WAIT = "ready(); time.sleep(600)"
BE_NOBODY = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
needs_mount = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made here")


@pytest.fixture
def run(start, tmp_path):
    return lambda code=WAIT, **options: run_until_ready(start, tmp_path, code, **options)


def gather(pid, *argv, env=None, **changes):
    target = target_of(pid, argv=("python", *map(str, argv)))
    return list(Files().gather(view_of(target, env_names={pid: env or {}}, **changes)))


def by_path(items):
    return {row.path: row for row in rows(items, "files")}


@pytest.fixture
def open_to_all(tmp_path):
    open_to_others(tmp_path)
    tmp_path.chmod(0o777)
    return tmp_path


# --- which words are paths ---


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["train.py", "--data", "/data/x"], [("train.py", "argument", True), ("/data/x", "--data", True)]),
        (["--config=conf/a.yaml", "lr=0.1"], [("conf/a.yaml", "--config", True)]),
        (["ckpt=./out", "--lr", "1e-4"], [("./out", "ckpt", True)]),
        (["--model_name_or_path", "meta-llama/Llama-2-7b"], [("meta-llama/Llama-2-7b", "--model_name_or_path", False)]),
        (["--output-dir", "runs"], [("runs", "--output-dir", False)]),
        (["--url", "https://x/y.json", "--dev", "host:/mnt/x.txt"], []),
        (["--shards", "/data/{000..127}.tar", "-c", "import a; open('/x')"], []),
        (["--verbose", "--epochs", "3", "--amp"], []),
    ],
)
def test_a_word_is_a_path_surely_maybe_or_not(argv, expected):
    found = named_paths.in_arguments(["python", *argv])
    assert [(one.path, one.named_by, one.is_sure) for one in found] == expected


def test_of_the_environment_single_paths_count_and_what_every_shell_sets_does_not():
    env = {"PATH": "/a:/b", "HOME": "/root", "DATA_DIR": "/data", "HF_HOME": "~/hf", "URL": "http://x/", "TWO": "/a:/b"}
    found = {one.named_by: one.path for one in named_paths.in_environment(env, "/root")}
    assert found == {"DATA_DIR": "/data", "HF_HOME": "/root/hf"}


# --- as the job sees them ---


def test_a_path_that_is_there_and_one_that_is_not_are_told_apart(run, tmp_path):
    (tmp_path / "conf.yaml").write_text("a: 1\n")
    items = gather(run(), "--config", "conf.yaml", "--data", "/no/such/folder", env={"TRAIN_DATA": str(tmp_path)})
    found = by_path(items)
    config = found[str(tmp_path / "conf.yaml")]
    assert (config.kind, config.exists, config.readable, config.size, config.named_by) == (
        "file", True, True, 5, "--config"
    )  # fmt: skip
    assert config.on_mount is not None
    missing = found["/no/such/folder"]
    assert (missing.kind, missing.exists, missing.why_looked, missing.named_by) == ("missing", False, "argument", "--data")


def test_what_only_looks_like_a_path_is_told_of_only_if_it_is_there(run, tmp_path):
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "here").mkdir()
    found = by_path(gather(run(), "--model", "org/here", "--other", "org/elsewhere"))
    assert found[str(tmp_path / "org/here")].kind == "directory"
    assert str(tmp_path / "org/elsewhere") not in found


def test_of_an_output_that_is_not_there_the_folder_it_would_be_made_in_is_told(run, tmp_path):
    found = by_path(gather(run(), "--log-file", tmp_path / "new/deep/train.log"))
    assert found[str(tmp_path / "new/deep/train.log")].exists is False
    parent = found[str(tmp_path)]
    assert (parent.kind, parent.named_by, parent.writable) == ("directory", "parent of --log-file", True)


def test_the_working_directory_is_told_and_listed(run, tmp_path):
    (tmp_path / "a file").write_text("x")
    items = gather(run())
    (row,) = [row for row in rows(items, "files") if row.why_looked == "cwd"]
    assert (row.path, row.kind, row.exists) == (str(tmp_path), "directory", True)
    (text,) = [found.content for found in artefacts(items) if found.path == "raw/cwd-listing.txt"]
    assert any(line.startswith("-rw") and line.endswith(" a file") for line in text.splitlines())


def test_a_working_directory_that_was_removed_is_said_not_to_exist(run, tmp_path):
    pid = run("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); " + WAIT)
    (row,) = [row for row in rows(gather(pid), "files") if row.why_looked == "cwd"]
    assert row.exists is False


@as_root
def test_what_the_jobs_user_may_not_write_is_not_writable_though_root_collects(run, open_to_all):
    (open_to_all / "out").mkdir(mode=0o755)
    (open_to_all / "secret").mkdir(mode=0o700)
    (open_to_all / "secret" / "x.txt").write_text("x")
    found = by_path(gather(run(BE_NOBODY + WAIT), "--out", open_to_all / "out", "--in", open_to_all / "secret/x.txt"))
    assert found[str(open_to_all / "out")].writable is False
    hidden = found[str(open_to_all / "secret/x.txt")]
    assert (hidden.exists, hidden.readable, hidden.writable) == (None, False, False)


@as_root
def test_paths_begin_at_the_jobs_root(run, tmp_path):
    (tmp_path / "inside.txt").write_text("x")
    pid = run(f"os.chroot({str(tmp_path)!r}); HERE = '/'; {WAIT}")
    found = by_path(gather(pid, "--data", "/inside.txt", "--other", "/etc/hostname.txt"))
    assert found["/etc/hostname.txt"].exists is False
    assert found["/inside.txt"].exists is True


def test_eight_ranks_with_the_same_arguments_have_each_path_once(run):
    targets = [target_of(run(), argv=("python", "--data", "/no/such/data")) for _ in range(3)]
    items = list(Files().gather(view_of(*targets)))
    assert [row.path for row in rows(items, "files")].count("/no/such/data") == 1


# --- lock files ---


def test_a_lock_file_that_a_living_process_wrote_and_holds_is_told_with_both(run, tmp_path):
    pid = run(
        "import fcntl; f = open('cache.lock', 'w'); f.write(str(os.getpid())); f.flush(); fcntl.flock(f, 2); " + WAIT
    )
    row = by_path(gather(pid))[str(tmp_path / "cache.lock")]
    assert (row.kind, row.author_pid, row.author_alive) == ("lock", pid, True)
    assert row.holders == (process_id(pid),)


def test_a_lock_file_whose_author_has_ended_is_stale(run, start, tmp_path):
    ended = start(["true"])
    ended.wait(20)
    (tmp_path / "x.lock").write_text(f"{ended.pid}\n")
    row = by_path(gather(run()))[str(tmp_path / "x.lock")]
    assert (row.author_pid, row.author_alive, row.holders) == (ended.pid, False, ())


def test_a_lock_file_held_from_outside_the_job_names_that_process(run, tmp_path):
    with open(tmp_path / "baton.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        row = by_path(gather(run()))[str(tmp_path / "baton.lock")]
    assert row.holders == (process_id(os.getpid()),)


def test_the_lock_of_a_half_built_extension_is_found_in_its_cache(run, tmp_path_factory):
    cache = tmp_path_factory.mktemp("extensions")
    (cache / "py311_cpu/my_op").mkdir(parents=True)
    (cache / "py311_cpu/my_op/lock").touch()
    pid = run()
    found = by_path(gather(pid, env={"TORCH_EXTENSIONS_DIR": str(cache)}))
    row = found[str(cache / "py311_cpu/my_op/lock")]
    assert (row.kind, row.why_looked, row.named_by, row.size) == ("lock", "cache", "TORCH_EXTENSIONS_DIR", 0)
    home = cache / "home"
    (home / ".cache/huggingface/hub").mkdir(parents=True)
    (home / ".cache/huggingface/hub/version.lock").touch()
    found = by_path(gather(pid, env={"HOME": str(home)}))
    assert found[str(home / ".cache/huggingface/hub/version.lock")].why_looked == "cache"


def test_a_fifo_named_lock_is_not_opened(run, tmp_path):
    os.mkfifo(tmp_path / "odd.lock")
    assert str(tmp_path / "odd.lock") not in by_path(gather(run()))


# --- what must not stop it ---


@needs_mount
def test_paths_on_a_dead_mount_cost_one_limit_and_the_others_are_looked_at(run, tmp_path):
    (tmp_path / "conf.yaml").write_text("a: 1\n")
    with stalling_mount() as mount:
        pid = run()
        mount.stall()
        began = time.monotonic()
        argv = ["--a", mount.path / "train.log", "--b", mount.path / "data/x.bin", "--config", "conf.yaml"]
        items = gather(pid, *argv)
        assert time.monotonic() - began < 30
        assert by_path(items)[str(tmp_path / "conf.yaml")].exists is True
        (gap,) = [gap for gap in gaps(items) if gap.status == "timeout"]
        assert str(mount.path / "train.log") in gap.message
        assert str(mount.path / "data/x.bin") in gap.message


@needs_mount
def test_a_dead_mount_below_the_working_directory_is_walked_around_and_a_link_to_it_spoils_nothing_else(run, tmp_path):
    (tmp_path / "conf.yaml").write_text("a: 1\n")
    (tmp_path / "x.lock").touch()
    with stalling_mount() as mount:
        (tmp_path / "data.txt").symlink_to(mount.path / "train.log")
        pid = run(f"os.chdir({str(mount.path.parent)!r}); {WAIT}")
        mount.stall()
        items = gather(pid, "--data", tmp_path / "data.txt", "--config", tmp_path / "conf.yaml")
        assert by_path(items)[str(tmp_path / "conf.yaml")].exists is True
        (gap,) = [gap for gap in gaps(items) if gap.status == "timeout"]
        assert str(tmp_path / "data.txt") in gap.message
        assert ", ." not in gap.message


@needs_mount
def test_a_working_directory_on_a_dead_mount_is_a_gap(run):
    with stalling_mount() as mount:
        pid = run(f"os.chdir({str(mount.path / 'data')!r}); {WAIT}")
        mount.stall()
        items = gather(pid, "--config", "/etc/hostname.txt")
        assert by_path(items)["/etc/hostname.txt"].exists is False
        assert any(gap.status == "timeout" for gap in gaps(items))


def test_a_process_that_has_ended_is_a_gap_and_no_error(start):
    gone = start(["true"])
    target = target_of(gone.pid)
    gone.wait(20)
    items = list(Files().gather(view_of(target)))
    assert rows(items, "files") == []
    assert gaps(items)[0].status == "absent"


@as_root
def test_a_plain_user_is_told_what_would_help_for_a_job_that_is_not_theirs(run):
    pid = run()
    child = os.fork()
    if child == 0:
        os.setuid(NOBODY)
        said = gaps(list(Files().gather(view_of(target_of(pid, uid=0)))))
        os._exit(0 if said and said[0].status == "denied" and "sudo" in said[0].hint else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_ls_prints_the_same_names(run, tmp_path):
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).touch()
    (text,) = [found.content for found in artefacts(gather(run())) if found.path == "raw/cwd-listing.txt"]
    names = subprocess.run(["ls", "-A", tmp_path], capture_output=True, text=True, env={"LC_ALL": "C"}).stdout.split()
    assert [line.split()[-1] for line in text.splitlines()] == names
