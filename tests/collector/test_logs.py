"""What a job wrote is taken as its own user, head and tail, also when it is deleted, huge, or on a dead mount."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from flatline.collector.files.log_text import member_name, open_given, take
from flatline.collector.probes.interface import Artefact
from flatline.collector.probes.logs import Logs
from job_view import artefacts, gaps, rows, run_until_ready, view_of
from programs import open_to_others, wait_until

from flatline.bundle.facts import process_id
from flatline.bundle.format import LOG_HEAD, LOG_TOTAL
from flatline.redaction import redact_text

NOBODY = 65534
WAIT = "ready(); time.sleep(600)"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def gather(*targets, **changes):
    return list(Logs().gather(view_of(*targets, **changes)))


def text_of(items, row):
    (found,) = [one for one in artefacts(items) if one.path == row.text]
    return found.content


@pytest.fixture
def run(start, tmp_path):
    return lambda code=WAIT, **options: run_until_ready(start, tmp_path, code, **options)


@pytest.fixture
def out(tmp_path):
    with open(tmp_path / "train.out", "wb") as file:
        yield file


def test_standard_output_and_error_in_one_file_are_two_rows_and_one_text(run, out):
    pid = run("print('step 1', flush=True); print('step 2', end='', flush=True); " + WAIT, stdout=out, stderr=out)
    items = gather(pid)
    stdout, stderr = sorted(rows(items, "logs"), key=lambda row: row.stream, reverse=True)
    assert (stdout.stream, stderr.stream) == ("stdout", "stderr")
    assert stdout.text == stderr.text == "logs/01-train.out.txt"
    assert text_of(items, stdout) == b"step 1\nstep 2"
    assert (stdout.last_line, stdout.ends_with_newline, stdout.size) == ("step 2", False, 13)
    assert 0 <= stdout.last_write_age_s < 600
    assert stdout.writers == (process_id(pid),)
    assert not gaps(items)


def test_a_stream_that_is_no_file_is_told_with_who_reads_it(run):
    pid = run(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    # What the reader itself writes is a log of the job as well: in CI, this test's own output.
    by_stream = {row.stream: row for row in rows(gather(pid), "logs")}
    stdout, stderr = by_stream["stdout"], by_stream["stderr"]
    assert (stdout.kind, stdout.text) == ("pipe", "")
    assert process_id(os.getpid()) in stdout.readers
    assert (stderr.kind, stderr.path) == ("null", "/dev/null")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("kept.log", "kept.log"), ("k\n\x1b[2J.log", "k\\x0a\\x1b[2J.log"), (os.fsdecode(b"\xff.log"), "\\xff.log")],
)
def test_the_file_that_tee_writes_outside_the_job_is_a_log_of_the_job(run, start, tmp_path, name, shown):
    """Its name alone leads to it, be it one that no terminal may see."""
    tee = start(["tee", tmp_path / name], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    pid = run("print('through tee', flush=True); " + WAIT, stdout=tee.stdin)
    tee.stdin.close()
    wait_until(lambda: (tmp_path / name).read_bytes(), what="tee writes")
    items = gather(pid)
    (row,) = [row for row in rows(items, "logs") if row.path == str(tmp_path / shown)]
    assert row.last_line == "through tee"
    assert row.writers == (process_id(tee.pid),)


def test_of_a_large_log_head_and_tail_are_taken_and_the_gap_is_said(run, out):
    lines = b"".join(b"%07d the same line of a log that is long\n" % n for n in range(80_000))
    out.write(lines)
    out.flush()
    pid = run(stdout=out, stderr=out)
    items = gather(pid)
    row = rows(items, "logs")[0]
    (found,) = artefacts(items)
    ((begin, end),) = found.truncated
    content = found.content
    marker = f"[… {end - begin} bytes not taken …]\n".encode()
    head, tail = content.split(marker)
    assert head == lines[:begin]
    assert tail == lines[end:]
    assert LOG_HEAD - 4096 < len(head) <= LOG_HEAD
    assert LOG_TOTAL - 8192 < len(head) + len(tail) <= LOG_TOTAL
    assert found.original_bytes == row.size == len(lines)
    assert row.omitted_bytes == end - begin
    assert row.last_line.startswith("0079999")


def test_a_log_that_was_deleted_but_is_open_is_still_read(run):
    pid = run(
        "f = open('gone.log', 'w'); f.write('last words\\n'); f.flush(); os.unlink('gone.log'); " + WAIT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    items = gather(pid)
    (row,) = [row for row in rows(items, "logs") if row.stream == "file"]
    assert row.path.endswith("gone.log (deleted)")
    assert text_of(items, row) == b"last words\n"
    assert row.text == "logs/01-gone.log.txt"


def test_ranks_that_write_one_file_have_one_text_with_all_of_them_as_writers(start, tmp_path):
    with open(tmp_path / "all.log", "wb") as out:
        pids = [run_until_ready(start, tmp_path, WAIT, stdout=out, stderr=subprocess.DEVNULL) for _ in range(3)]
    (tmp_path / "all.log").write_text("x\n")
    items = gather(*pids)
    assert len(artefacts(items)) == 1
    assert {row.writers for row in rows(items, "logs") if row.stream == "stdout"} == {tuple(map(process_id, sorted(pids)))}


def test_a_binary_file_is_left_out_and_said_but_not_the_output_of_the_job(run, out):
    out.write(b"\0" * 9000)
    out.flush()
    code = "f = open('weights', 'wb'); f.write(b'\\0' * 9000); f.flush(); " + WAIT
    items = gather(run(code, stdout=out, stderr=out))
    assert {row.stream for row in rows(items, "logs")} == {"stdout", "stderr"}
    assert [found.original_bytes for found in artefacts(items)] == [9000]
    (gap,) = gaps(items)
    assert (gap.status, "weights" in gap.message) == ("skipped", True)


def test_a_log_that_was_truncated_under_its_writer_begins_with_zeros_and_is_a_log(run):
    code = "f = open('cut.log', 'wb'); f.seek(9000); f.write(b'after the cut\\n' * 400); f.flush(); " + WAIT
    items = gather(run(code, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    (row,) = [row for row in rows(items, "logs") if row.stream == "file"]
    assert row.last_line == "after the cut"


def test_of_a_progress_bar_the_last_state_is_the_last_line(run, out):
    out.write(b"epoch 1\n\r  1%|   |\r 40%|## |\r 41%|## |")
    out.flush()
    assert rows(gather(run(stdout=out)), "logs")[0].last_line == " 41%|## |"


def test_the_size_is_looked_at_in_every_round(run, out):
    items = gather(run(stdout=out, stderr=out), samples=3, window_s=0.1)
    samples = rows(items, "log_samples")
    assert [row.sample for row in samples] == [0, 1, 2]
    assert [row.size for row in samples] == [0, 0, 0]
    assert samples[0].mono_ns < samples[1].mono_ns < samples[2].mono_ns


def test_the_text_comes_before_the_window_is_waited_for(run, out):
    out.write(b"now\n")
    out.flush()
    view = view_of(run(stdout=out), window_s=600.0)
    assert isinstance(next(iter(Logs().gather(view))), Artefact)


# --- named with --log ---


def test_a_log_that_was_named_comes_first_and_is_not_taken_twice(run, out, tmp_path):
    (tmp_path / "named.log").write_text("given\n")
    out.write(b"x\n")
    out.flush()
    items = gather(run(stdout=out, stderr=out), logs=(str(tmp_path / "named.log"), out.name))
    assert [found.path for found in artefacts(items)] == ["logs/01-named.log.txt", "logs/02-train.out.txt"]
    assert rows(items, "logs")[0].stream == "argument"


def test_a_link_to_a_log_is_followed(run, tmp_path):
    (tmp_path / "real.log").write_text("through a link\n")
    (tmp_path / "latest").symlink_to("real.log")
    items = gather(run(), logs=(str(tmp_path / "latest"),))
    assert rows(items, "logs")[0].last_line == "through a link"


@pytest.mark.parametrize(("make", "said"), [(os.mkfifo, "fifo"), (os.mkdir, "directory")])
def test_what_is_no_regular_file_is_not_opened(run, tmp_path, make, said):
    make(tmp_path / "odd")
    items = gather(run(), logs=(str(tmp_path / "odd"),))
    assert any(said in gap.message and gap.status == "skipped" for gap in gaps(items))


def test_a_log_that_is_not_there_is_a_gap(run, tmp_path):
    items = gather(run(), logs=(str(tmp_path / "nowhere.log"),))
    assert any(gap.status == "absent" and "nowhere.log" in gap.message for gap in gaps(items))


@as_root
def test_a_link_of_the_jobs_user_does_not_lead_root_to_what_only_root_may_read(run, tmp_path):
    secret = tmp_path / "shadow"
    secret.write_text("root only")
    secret.chmod(0o600)
    link = tmp_path / "train.log"
    link.symlink_to(secret)
    os.lchown(link, NOBODY, NOBODY)
    items = gather(run(), logs=(str(link),))
    assert not [found for found in artefacts(items) if b"root only" in found.content]
    assert any(gap.status == "denied" and "link" in gap.message for gap in gaps(items))


# --- another user's job ---


@pytest.fixture
def open_to_all(tmp_path):
    open_to_others(tmp_path)
    tmp_path.chmod(0o777)


BE_NOBODY = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
DUMPABLE = f"import ctypes; {BE_NOBODY} ctypes.CDLL(None).prctl(4, 1, 0, 0, 0); "


@as_root
@pytest.mark.parametrize("become", [BE_NOBODY, DUMPABLE], ids=["not dumpable", "dumpable"])
def test_another_users_log_is_read_as_that_user(run, open_to_all, become):
    code = become + "f = open('mine.log', 'w'); os.chmod('mine.log', 0o600); f.write('as nobody\\n'); f.flush(); "
    items = gather(run(code + WAIT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    (row,) = [row for row in rows(items, "logs") if row.stream == "file"]
    assert text_of(items, row) == b"as nobody\n"


@as_root
@pytest.mark.parametrize("become", [BE_NOBODY, DUMPABLE], ids=["not dumpable", "dumpable"])
def test_what_the_job_may_write_but_not_read_is_not_read_for_it(run, open_to_all, tmp_path, become):
    with open(tmp_path / "root.out", "wb") as out:
        os.fchmod(out.fileno(), 0o600)
        out.write(b"of root\n")
        out.flush()
        pid = run(become + WAIT, stdout=out, stderr=subprocess.DEVNULL)
    items = gather(pid)
    assert not artefacts(items)
    (gap,) = [gap for gap in gaps(items) if "root.out" in gap.message]
    assert (gap.status, "--log" in gap.hint) == ("denied", True)
    assert any(row.stream == "stdout" and row.path == str(tmp_path / "root.out") for row in rows(items, "logs"))


@as_root
def test_a_log_that_the_job_exchanged_for_a_link_to_a_secret_is_not_followed_there(run, open_to_all, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of root")
    secret.chmod(0o600)
    code = BE_NOBODY + "f = open('a.log', 'w'); os.unlink('a.log'); os.symlink('secret', 'a.log'); " + WAIT
    items = gather(run(code, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    assert not artefacts(items)
    assert any(gap.status in ("denied", "absent") and "a.log" in gap.message for gap in gaps(items))


# --- a mount that does not answer ---


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made here")
def test_logs_on_a_dead_mount_cost_one_limit_and_the_others_are_taken(run, out):
    out.write(b"local\n")
    out.flush()
    with stalling_mount() as mount:
        code = "".join(f"f{n} = open({str(mount.path / name)!r}, 'r+')\n" for n, name in enumerate(("train.log", "script.py")))
        pid = run(code + WAIT, stdout=out, stderr=out)
        mount.stall()
        began = time.monotonic()
        items = gather(pid, logs=(str(mount.path / "train.log"),), samples=2)
        assert time.monotonic() - began < 12
        assert [found.content for found in artefacts(items)] == [b"local\n"]
        told = [gap for gap in gaps(items) if gap.status == "timeout"]
        assert any(str(mount.path) in gap.message for gap in told)
        assert {row.path for row in rows(items, "logs")} >= {str(mount.path / "train.log"), str(mount.path / "script.py")}


# --- the pieces ---


def test_a_name_of_a_member_is_safe_whatever_the_path_is():
    assert member_name(3, "/x/../a b;rm.log (deleted)") == "logs/03-a_b_rm.log.txt"
    assert member_name(4, "/x/..") == "logs/04-log.txt"


def test_a_loop_of_links_ends(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(PermissionError):
        open_given(str(tmp_path / "a"))


def test_without_a_budget_only_the_size_is_known(tmp_path):
    (tmp_path / "x").write_text("abc\n")
    descriptor = os.open(tmp_path / "x", os.O_RDONLY)
    taken = take(descriptor, 0)
    os.close(descriptor)
    assert (taken.size, taken.head, taken.tail, taken.cut) == (4, b"", b"", (0, 4))


@pytest.mark.parametrize("shift", range(0, 44, 3))
def test_a_log_of_one_line_is_cut_between_words_so_that_no_half_of_a_token_is_kept(tmp_path: Path, shift: int):
    token = "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"
    log = tmp_path / "train.log"
    log.write_text("x" * shift + " " + f"see {token}, " * 10_000)
    descriptor = os.open(log, os.O_RDONLY)
    try:
        taken = take(descriptor, LOG_HEAD + 1000)
    finally:
        os.close(descriptor)
    assert taken.cut
    assert "hf_" not in redact_text(taken.content.decode())
    assert taken.content.decode().replace(token, "").count("GouSH") == 0


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made here")
def test_what_lies_at_hand_is_taken_before_anybody_asks_a_mount_that_may_not_answer(run, out):
    pid = run("print('step 1', flush=True); " + WAIT, stdout=out, stderr=out)
    with stalling_mount() as mount:
        mount.stall()
        items = Logs().gather(view_of(pid, logs=(str(mount.path / "train.log"),)))
        first = next(item for item in items if isinstance(item, Artefact))
        assert first.content == b"step 1\n"
        assert "D" not in states_of_children(), "the mount has not been asked yet"
        assert any(str(mount.path) in gap.message for gap in gaps(list(items)))


def states_of_children():
    """Letters, as in /proc/PID/stat."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children]
