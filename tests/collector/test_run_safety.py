"""What `flatline run` and `watch` must not do: wait for good, reach another process, believe what the job writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from end_to_end_support import flatline
from flatline.collector.commands import watch
from flatline.collector.commands.run import last_marks
from flatline.collector.recorder import ring
from flatline.collector.running import keeper, root
from flatline.collector.running.diagnosis import Diagnosis
from flatline.collector.running.keeper import Keeper, Plan
from flatline.collector.running.movement import ring_bytes
from flatline.collector.running.relay import Backlog
from flatline.collector.running.root import Root
from kept_jobs import ENV, HUNG, command, ran, stand_in
from programs import wait_until

KILLING = ("run", "--silence", "0.3", "--on-hang", "collect+kill", "--grace", "5", "--bundle-dir")


# --- what the job chose ---


def written_ring(folder: Path, text: str) -> Path:
    """A ring of pid 7 with one event."""
    data = bytearray(ring.SIZE)
    head = f"format {ring.FORMAT}\npid 7\n".encode()
    data[: len(head)] = head
    data[ring.EVENTS_AT : ring.EVENTS_AT + ring.SLOT] = f"0 5 7 error {text}".encode().ljust(ring.SLOT)
    path = folder / "flatline-ring-7-1"
    path.write_bytes(data)
    return path


def test_only_files_of_our_own_are_read_as_rings(tmp_path):
    path = written_ring(tmp_path, "text")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    assert len(ring_bytes(path)) == ring.SIZE
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"Too many levels|no file of ours"):
            ring_bytes(tmp_path / name)


def test_the_folder_of_another_user_s_job_is_not_looked_into(start, tmp_path, monkeypatch):
    job = start(["sleep", "600"], env={**ENV, "FLATLINE_RECORDER_DIR": str(tmp_path)})
    wait_until(lambda: watch._rings(job.pid) == tmp_path, what="the job's folder is known")
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert watch._rings(job.pid) is None


def test_marks_are_shown_without_secrets_and_steer_no_terminal(tmp_path):
    written_ring(tmp_path, "password=hunter2hunter2 \x1b[2Jx")
    assert last_marks(tmp_path) == ["pid 7: last mark: error password=⟪password·1⟫ \\x1b[2Jx"]


def test_what_the_report_says_steers_no_terminal(tmp_path):
    lines: list[str] = []
    kept = Keeper(os.getpid(), Plan(), tmp_path, None, own=False, say=lines.append)
    kept.tell(
        "silent", Diagnosis("b.zip", report={"verdict": {"state": "hung", "because": ["\x1b[2J\nflatline: fine"]}})
    )
    assert "\\x1b[2J\\x0aflatline: fine" in lines


# --- another process ---


@pytest.mark.parametrize("has_descriptor", [True, False])
def test_a_root_that_has_ended_gets_no_signal(start, monkeypatch, has_descriptor):
    if not has_descriptor:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    job = start(["sleep", "600"])
    one = Root(job.pid)
    assert not one.has_ended()
    one.send(signal.SIGTERM)
    wait_until(one.has_ended, what="it has ended, also uncollected")
    assert job.wait(30) == -signal.SIGTERM
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal to whoever has the number now"))
    one.send(signal.SIGKILL)


def test_a_number_that_another_process_has_now_is_not_the_root(start):
    job = start(["sleep", "600"])
    standing = root.descendants.standing(job.pid)
    assert standing is not None
    assert standing.start_ticks > 0
    assert root.is_running(standing)
    assert not root.is_running(root.Standing(job.pid, "sleep", "S", 1, 1, standing.start_ticks - 1))


def test_what_a_collect_leaves_behind_is_not_ended_with_the_job(start, tmp_path):
    left = tmp_path / "left"
    process = start(
        stand_in(*KILLING, str(tmp_path), "--", "sleep", "600"),
        env={**ENV, "REPORT": HUNG, "LEAVES": str(left)},
        stderr=subprocess.DEVNULL,
    )
    assert process.wait(60) == 124
    pid = int(left.read_text())
    try:
        assert "sleep" in Path(f"/proc/{pid}/comm").read_text()
    finally:
        os.kill(pid, signal.SIGKILL)


# --- what is waited for ---


def test_nothing_is_killed_without_a_bundle(tmp_path):
    argv = stand_in(*KILLING, str(tmp_path), "--", "sleep", "600")
    done = ran(argv, env={**ENV, "REPORT": HUNG, "REFUSES": str(tmp_path / "refused")})
    said = done.stderr.decode().splitlines()
    assert done.returncode == 124
    assert "not ended" in said[0]
    assert said[1] == "flatline: no bundle could be made: no room"
    assert f"flatline: bundle: {tmp_path}/made.zip" in said[2:]
    assert said[-1].startswith("flatline: ended by flatline after ")


def test_a_standard_error_that_nobody_reads_keeps_no_job_alive(start, tmp_path):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while os.write(writing, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writing, True)
    process = start(
        stand_in(*KILLING, str(tmp_path), "--", "sleep", "600"), env={**ENV, "REPORT": HUNG}, stderr=writing
    )
    os.close(writing)
    assert process.wait(60) == 124
    os.close(reading)


def test_who_prints_on_after_the_job_is_not_waited_for():
    done = ran(command("--no-recorder", "--", "sh", "-c", "echo first; (while :; do echo x; sleep 0.1; done) & exit 3"))
    assert done.returncode == 3
    assert done.stdout.startswith(b"first\n")


def test_a_signal_ends_the_wait_for_a_reader(start, tmp_path):
    program = f"head -c 9000000 /dev/zero; touch {tmp_path}/done; exit 3"
    process = start(command("--no-recorder", "--", "sh", "-c", program), stdout=subprocess.PIPE, env=ENV)
    wait_until((tmp_path / "done").exists, what="the job has written all", seconds=60)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: not children.read_text(), what="the job was collected", seconds=60)
    blocked = Path(f"/proc/{process.pid}/status")
    wait_until(
        lambda: not int(blocked.read_text().split("SigBlk:")[1].split()[0], 16) >> 14 & 1, what="SIGTERM is for us"
    )
    process.terminate()
    assert process.wait(30) == 3


def test_an_ignored_sigchld_loses_no_exit_code():
    code = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    done = ran([sys.executable, "-c", code, *command("--no-recorder", "--", "sh", "-c", "exit 7")])
    assert done.returncode == 7


def test_signals_ignored_at_the_start_are_left_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in keeper.waited()
        assert signal.SIGTERM in keeper.waited()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("is_leader", [True, False])
def test_the_terminal_s_hangup_is_passed_on_by_the_session_s_leader(start, tmp_path, monkeypatch, is_leader):
    job = start(["sleep", "600"])
    kept = Keeper(job.pid, Plan(), tmp_path, None, own=True, say=print)
    sent: list[int] = []
    monkeypatch.setattr(keeper, "_send", lambda pid, number: sent.append(number))
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid() if is_leader else 1)
    kept._forward(SimpleNamespace(si_signo=signal.SIGHUP, si_code=0x80))
    assert sent == ([signal.SIGHUP] if is_leader else [])


def test_a_signal_is_passed_on_before_the_report_is_made(start, tmp_path, monkeypatch):
    job = start(["sleep", "600"])
    kept = Keeper(job.pid, Plan(silence_s=0.0004), tmp_path, None, own=True, say=print)
    done: list[object] = []
    monkeypatch.setattr(kept, "diagnose", lambda *, fast: done.append("bundle") or Diagnosis("b.zip"))
    monkeypatch.setattr(kept, "tell", lambda why, found: done.append("told"))
    monkeypatch.setattr(keeper, "_send", lambda pid, number: done.append(number))
    wait_until(lambda: kept.silent_s() > 0.0001, what="it is silent")
    kept._forward(SimpleNamespace(si_signo=signal.SIGTERM, si_code=0))
    assert done == ["bundle", signal.SIGTERM, "told"]


def test_a_long_look_is_no_sign_of_life_and_a_long_absence_is(start, tmp_path, monkeypatch):
    kept = Keeper(start(["sleep", "600"]).pid, Plan(), tmp_path, None, own=True, say=print)
    monkeypatch.setattr(kept, "_diagnose", lambda *, fast: Diagnosis())
    for looks, least, most in ((True, 50, 1e9), (False, 0, 50)):
        kept._looked -= 100
        kept._silence._still -= 60
        kept._silence._quiet -= 60
        if looks:
            kept.diagnose()
        kept._look()
        assert least <= kept.silent_s() <= most


# --- the spool ---


def test_a_disk_that_takes_a_part_only_loses_nothing(monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[:3], at))
    backlog = Backlog(memory=0)
    backlog.put(b"0123456789")
    backlog.close()
    assert backlog.take() == b"0123456789"


def test_a_full_spool_waits_for_the_reader():
    backlog = Backlog(memory=0, spool=8)
    backlog.put(b"01234567")
    waiting = threading.Thread(target=backlog.put, args=(b"89",), daemon=True)
    waiting.start()
    assert backlog.take() == b"01234567"
    waiting.join(30)
    assert backlog.take() == b"89"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["run", "--bundle-dir", "/proc/x", "--", "true"], "cannot be made"),
        (["watch", "--pid", str(os.getpid()), "--timeout", "1s"], "would end itself"),
    ],
    ids=["run", "watch"],
)
def test_what_cannot_be_is_said_before_a_job_begins(words, why):
    done = flatline(*words)
    assert (done.code, why in done.err) == (2, True), done.err
