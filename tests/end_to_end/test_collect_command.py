"""What collect does when things are not as they should be: a clear error or a recorded gap, never half a bundle."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from end_to_end_support import cause_of, flatline, report_of
from other_users import NOBODY, environment_for_others, python_for_others
from programs import FIXTURES, open_to_others, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def member(bundle: Path, name: str) -> dict:
    with zipfile.ZipFile(bundle) as archive:
        return json.loads(archive.read(name))


def everything_in(bundle: Path) -> bytes:
    with zipfile.ZipFile(bundle) as archive:
        return b"\n".join(archive.read(name) for name in archive.namelist())


# --- targets that are none ---


def test_a_pid_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    done = flatline("collect", "--pid", 4_000_000, "-o", tmp_path)
    assert done.code == 4
    assert "there is no process 4000000" in done.err
    assert "next:" in done.err
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_kernel_thread_is_no_job(tmp_path: Path) -> None:
    done = flatline("collect", "--pid", 2, "-o", tmp_path)
    assert done.code == 4
    assert "kernel" in done.err


def test_a_zombie_is_collected_with_its_parent_and_its_exit_status(start, tmp_path: Path) -> None:
    code = "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'raise SystemExit(3)']); print(p.pid, flush=True); time.sleep(600)"
    parent = start([sys.executable, "-c", code], stdout=subprocess.PIPE)
    zombie = int(parent.stdout.readline())
    wait_until(lambda: Path(f"/proc/{zombie}/stat").read_text().split()[2] == "Z", what="the child ends")
    done = flatline("collect", "--pid", zombie, "-o", tmp_path / "z.flatline.zip", "--window", 1)
    assert done.code in (0, 3), done.err
    rows = {row["pid"]: row for row in member(tmp_path / "z.flatline.zip", "facts/processes.json")["tables"]["processes"]}
    assert rows[zombie]["exit_status"] == 3
    assert parent.pid in rows


def test_a_target_that_dies_while_it_is_collected_still_gives_a_bundle(start, tmp_path: Path) -> None:
    job = start([sys.executable, "-c", "import time; time.sleep(600)"])
    bundle = tmp_path / "gone.flatline.zip"
    command = [sys.executable, "-m", "flatline", "collect", "--pid", str(job.pid), "-o", str(bundle), "--window", "3"]
    collect = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(bundle.exists, what="the first bundle is published")
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    _, err = collect.communicate(timeout=60)
    assert collect.returncode == 0, err
    assert flatline("analyze", bundle, "--format", "json").code in (0, 10, 11)


# --- places that take no bundle ---


def test_a_missing_folder_puts_the_bundle_into_tmpdir_and_says_so(start, tmp_path: Path) -> None:
    job = start([sys.executable, "-c", "import time; time.sleep(600)"])
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    done = flatline("collect", "--pid", job.pid, "-o", tmp_path / "none" / "b.flatline.zip", "--window", 1, env=env)
    assert done.code == 0, done.err
    assert done.out.strip() == str(tmp_path / "tmp" / "b.flatline.zip")
    assert "cannot be written" in done.err
    assert zipfile.is_zipfile(done.out.strip())


def test_a_bundle_that_replaces_another_says_so_and_nobody_elses_file_is_replaced(start, tmp_path: Path) -> None:
    job = start([sys.executable, "-c", "import time; time.sleep(600)"])
    place, theirs = tmp_path / "b.flatline.zip", tmp_path / "data.zip"
    shutil.copy(FIXTURES / "bundles" / "golden-1.0.flatline.zip", place)
    os.utime(place, (1_800_000_000, 1_800_000_000))
    done = flatline("collect", "--pid", job.pid, "-o", place, "--window", 0.2)
    assert done.code == 0, done.err
    assert "Replaced the bundle of 2027-01-15T08:00:00Z." in done.err
    assert member(place, "facts/processes.json")["tables"]["processes"][0]["pid"] == job.pid
    with zipfile.ZipFile(theirs, "w") as archive:
        archive.writestr("shard-000.bin", b"x")
    before = theirs.read_bytes()
    done = flatline("collect", "--pid", job.pid, "-o", theirs, "--window", 0.2)
    assert (done.code, theirs.read_bytes()) == (2, before)
    assert "exists and is no bundle" in done.err


@needs_root
def test_a_full_disk_costs_what_does_not_fit_and_leaves_no_half_bundle(start, tmp_path: Path) -> None:
    job = start([sys.executable, "-c", "import time; time.sleep(600)"])
    small = tmp_path / "small"
    small.mkdir()
    elsewhere: Path | None = None
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        env = {**os.environ, "TMPDIR": str(small)}
        done = flatline("collect", "--pid", job.pid, "-o", small / "b.flatline.zip", "--window", 1, env=env)
        elsewhere = Path(done.out.strip())
        left = [path for path in small.iterdir() if path.name.endswith(".flatline.zip")]
        assert all(zipfile.is_zipfile(path) for path in left)
        assert done.code in (0, 3, 5), done.err
        assert "Traceback" not in done.err
        assert "No space left" in done.err or elsewhere.parent != small
    finally:
        subprocess.run(["umount", "-l", small], check=False)
        if elsewhere is not None and elsewhere.is_file():
            elsewhere.unlink()


# --- rights ---


def as_nobody(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """flatline as an ordinary user: the collecting side alone, under a Python that such a user can run, and py-spy."""
    drop = f"import os, sys; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", drop, python_for_others(), "-m", "flatline", *map(str, args)]
    env = {**environment_for_others(cwd), "PATH": f"{cwd}:/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=cwd, env=env, check=False, stdin=subprocess.DEVNULL)


@needs_root
def test_a_plain_user_on_a_root_owned_target_gets_a_bundle_the_rung_and_the_hint(stuck, left_as_found, tmp_path: Path) -> None:
    pid = stuck("flock_held")
    left_as_found(pid)
    out = tmp_path / "out"
    out.mkdir()
    os.chown(out, NOBODY, NOBODY)
    open_to_others(tmp_path)
    done = as_nobody("collect", "--pid", pid, "-o", out / "b.flatline.zip", "--window", 1, cwd=out)
    assert done.returncode == 3, done.stderr
    assert "sudo" in done.stderr or "root" in done.stderr
    bundle = out / "b.flatline.zip"
    rows = member(bundle, "facts/processes.json")["tables"]["processes"]
    assert pid in {row["pid"] for row in rows}
    report = report_of(bundle)
    stacks = next(gap for gap in report["gaps"] if gap["probe"] == "stacks")
    assert "/proc only" in stacks["message"], "the rung that was reached"
    assert "root" in stacks["hint"]


@needs_root
def test_where_memory_and_stacks_are_refused_the_chain_is_cut_and_says_what_is_missing(stuck, tmp_path: Path) -> None:
    pid, out = stuck("thread_deadlock"), tmp_path / "out"
    out.mkdir()
    os.chown(out, NOBODY, NOBODY)
    open_to_others(tmp_path)
    done = as_nobody("collect", "--pid", pid, "-o", out / "b.flatline.zip", "--window", 1, "--deadline", 60, cwd=out)
    assert done.returncode == 3, done.stderr
    report = report_of(out / "b.flatline.zip")
    assert (report["verdict"]["state"], cause_of(report)) == ("unknown", None)
    assert {chain["end"]["kind"] for chain in report["chains"]} == {"cut"}
    assert not any(step["strength"] == "proven" for chain in report["chains"] for step in chain["steps"])
    assert "could not be read" in report["chains"][0]["text"]
    assert "CAP_SYS_PTRACE" in str(report["gaps"]) or "root" in str(report["gaps"])


@needs_root
def test_root_reads_no_file_for_a_job_that_names_it(start, tmp_path: Path) -> None:
    """A function compiled under the name /etc/shadow, and a log that is a link out of the job's root."""
    secret = tmp_path / "secret.py"
    secret.write_text("ROOTS_OWN_LINE = 1\n" * 20)
    secret.chmod(0o600)
    job_folder = tmp_path / "job"
    job_folder.mkdir()
    os.chown(job_folder, NOBODY, NOBODY)
    open_to_others(tmp_path)
    code = f"""
import os, sys, time
os.setgid({NOBODY}); os.setuid({NOBODY})
os.symlink({str(secret)!r}, "train.log")
os.symlink("/etc/shadow", "other.log")
def named(path):
    space = {{"time": time}}
    exec(compile("def stuck(next=None):\\n    (next or time.sleep)(*([] if next else [600]))\\n", path, "exec"), space)
    return space["stuck"]
print("ready", flush=True)
outer, inner = named("/etc/shadow"), named({str(secret)!r})
outer(inner)
"""
    job = start([sys.executable, "-c", code, "--log", "train.log"], cwd=job_folder, stdout=subprocess.PIPE)
    assert job.stdout.readline() == b"ready\n"
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", job.pid, "-o", bundle, "--window", 1)
    assert done.code in (0, 3), done.err
    held = everything_in(bundle)
    assert b"ROOTS_OWN_LINE" not in held
    assert b"root:$" not in held
    assert b"root:*" not in held
    assert b"stuck" in held


@needs_root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_a_target_in_its_own_namespaces_gets_the_same_diagnosis_from_outside_and_inside(start, tmp_path: Path) -> None:
    ready = tmp_path / ".flock_held.ready"
    env = {**os.environ, "READY": str(ready)}
    fixtures = Path(__file__).resolve().parent.parent.parent / "fixtures/stuck/flock_held.py"
    outer = start(["unshare", "--pid", "--mount", "--net", "--fork", "--mount-proc", sys.executable, fixtures], cwd=tmp_path, env=env)
    inside_pid = int(wait_until(lambda: ready.exists() and ready.read_text(), what="the job gets stuck", seconds=60))
    outside_pid = next(pid for pid in descendants(outer.pid) if ns_pid(pid) == inside_pid)
    from_outside, from_inside = tmp_path / "outside.flatline.zip", tmp_path / "inside.flatline.zip"
    assert flatline("collect", "--pid", outside_pid, "-o", from_outside, "--window", 1).code == 0
    init = next(pid for pid in descendants(outer.pid) if ns_pid(pid) == 1)
    inside = ["nsenter", "-t", str(init), "-p", "-m", "-n", sys.executable, "-m", "flatline", "collect", "--pid", str(inside_pid), "-o", str(from_inside), "--window", "1"]
    done = subprocess.run(inside, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    causes = [cause_of(report_of(b)) for b in (from_outside, from_inside)]
    assert causes == ["lock-held-by-process"] * 2


def descendants(pid: int) -> list[int]:
    children = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [below for child in children for below in descendants(child)]


def ns_pid(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])


# --- signals, scripts, secrets ---


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_closes_the_bundle_and_goes(number: int, code: int, stuck, left_as_found, tmp_path: Path) -> None:
    pid = stuck("flock_held")
    left_as_found(pid)
    bundle = tmp_path / "b.flatline.zip"
    command = [sys.executable, "-m", "flatline", "collect", "--pid", str(pid), "-o", str(bundle), "--window", "20"]
    collect = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(bundle.exists, what="the first bundle is published")
    began = time.monotonic()
    os.kill(collect.pid, number)
    out, err = collect.communicate(timeout=60)
    assert collect.returncode == code, err
    assert out.strip() == str(bundle)
    assert time.monotonic() - began < 10
    manifest = member(bundle, "manifest.json")
    assert manifest["ended_by"] == signal.Signals(number).name
    assert not list(tmp_path.glob("*.part"))
    assert cause_of(report_of(bundle)) == "lock-held-by-process"


def test_a_signal_to_every_process_of_it_as_schedulers_send_closes_the_bundle_where_it_is(stuck, tmp_path: Path) -> None:
    bundle = tmp_path / "b.flatline.zip"
    command = [sys.executable, "-m", "flatline", "collect", "--pid", str(stuck("flock_held")), "-o", str(bundle), "--window", "20"]
    collect = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(bundle.exists, what="the first bundle is published")
    for pid in (collect.pid, *descendants(collect.pid)):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
    out, err = collect.communicate(timeout=60)
    assert (collect.returncode, out.strip()) == (143, str(bundle)), err
    assert member(bundle, "manifest.json")["ended_by"] == "SIGTERM"
    assert not list(tmp_path.glob("*.part"))


def test_quiet_prints_the_path_alone(stuck, tmp_path: Path) -> None:
    done = flatline("collect", "--pid", stuck("flock_held"), "-o", tmp_path / "b.flatline.zip", "--window", 1, "--quiet")
    assert (done.code, done.err, done.out) == (0, "", f"{tmp_path}/b.flatline.zip\n")


def test_dry_run_writes_nothing_and_lists_every_probe(stuck, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    done = flatline("collect", "--pid", stuck("flock_held"), "-o", out, "--dry-run")
    assert done.code == 0, done.err
    for probe in ("processes", "stacks", "descriptors", "logs", "environment", "mounts", "host", "files"):
        assert probe in done.out
    assert "reads: /proc/PID/{" in done.out
    assert re.search(r"runs:  py-spy dump .* --pid PID  \(at most \d+ s: ", done.out)
    assert list(out.iterdir()) == []


def test_secrets_of_the_job_and_of_our_own_command_line_reach_no_byte_of_the_bundle(start, tmp_path: Path) -> None:
    token, password, key = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi", "tr0ub4dor-and-3-more", "0123456789abcdef0123456789abcdef01234567"
    env = {**os.environ, "HF_TOKEN": token, "WANDB_API_KEY": key}
    code = f"import os, sys, time\nprint('logging in with', os.environ['WANDB_API_KEY'], flush=True)\nprint('header: Bearer {token}', file=sys.stderr, flush=True)\nopen('ready', 'w').close()\ntime.sleep(600)"
    with open(tmp_path / "train.log", "w") as log:
        job = start([sys.executable, "-c", code, "--db-password", password], env=env, cwd=tmp_path, stdout=log, stderr=log)
    wait_until((tmp_path / "ready").exists, what="the job logs its secrets")
    bundle = tmp_path / "b.flatline.zip"
    done = flatline("collect", "--pid", job.pid, "-o", bundle, "--window", 1, "--label", f"run-{token}")
    assert done.code in (0, 3), done.err
    bundle = Path(done.out.strip())
    held = everything_in(bundle) + bundle.name.encode()
    for secret in (token, password, key):
        assert secret.encode() not in held, secret[:6]
    assert "⟪".encode() in held


def test_two_collects_at_once_on_one_job_do_not_diagnose_each_other(stuck, tmp_path: Path) -> None:
    pid = stuck("flock_held")
    bundles = [tmp_path / f"{n}.flatline.zip" for n in range(2)]
    running = [
        subprocess.Popen([sys.executable, "-m", "flatline", "collect", "--pid", str(pid), "-o", str(b), "--window", "2", "--quiet"], stdout=subprocess.DEVNULL)
        for b in bundles
    ]
    assert [p.wait(90) for p in running] == [0, 0]
    for bundle in bundles:
        rows = member(bundle, "facts/processes.json")["tables"]["processes"]
        assert not [row for row in rows if "flatline" in " ".join(row.get("argv") or ()) and "collect" in (row.get("argv") or ())]
        assert cause_of(report_of(bundle)) == "lock-held-by-process"


# --- what stands under the output name already ---


def test_nothing_but_a_bundle_is_ever_replaced(start, tmp_path: Path) -> None:
    job = start([sys.executable, "-c", "import time; time.sleep(600)"])
    notes, fifo, link = tmp_path / "notes.txt", tmp_path / "fifo", tmp_path / "link.flatline.zip"
    notes.write_text("precious\n")
    os.mkfifo(fifo)
    link.symlink_to(notes)
    for taken in (notes, fifo, link):
        done = flatline("collect", "--pid", job.pid, "-o", taken, "--window", 1)
        assert done.code == 2, done.err
        assert str(taken) in done.err
    assert notes.read_text() == "precious\n"
    assert fifo.is_fifo()
    assert link.is_symlink()
    bundle = tmp_path / "again.flatline.zip"
    assert [flatline("collect", "--pid", job.pid, "-o", bundle, "--window", 1).code for _ in range(2)] == [0, 0]


def test_a_shell_that_waited_before_it_became_the_collect_still_gets_a_bundle(start, tmp_path: Path) -> None:
    """The kernel counts the age of a process from its fork: exec does not make it younger."""
    job = start([sys.executable, "-c", "import time; time.sleep(600)"])
    bundle = tmp_path / "b.flatline.zip"
    late = f"sleep 3; exec {sys.executable} -m flatline collect --pid {job.pid} -o {bundle} --deadline 3"
    done = subprocess.run(["sh", "-c", late], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 3), done.stderr
    assert "facts/processes.json" in zipfile.ZipFile(bundle).namelist()


def test_a_name_of_two_jobs_is_not_taken_for_one(start, tmp_path: Path) -> None:
    program = tmp_path / "train_twice.py"
    program.write_text("print('ready', flush=True)\nimport time\ntime.sleep(600)\n")
    jobs = [start([sys.executable, program, f"--run={n}"], stdout=subprocess.PIPE) for n in range(2)]
    # Two sessions below this test would be one launcher's jobs: each gets a parent that has ended.
    orphans = [start([sys.executable, "-c", f"import subprocess, sys; subprocess.Popen([sys.executable, {str(program)!r}], start_new_session=True, stdout=sys.stdout)"], stdout=subprocess.PIPE) for _ in range(2)]
    for job in (*jobs, *orphans):
        assert job.stdout.readline() == b"ready\n"
    try:
        done = flatline("collect", "--name", "train_twice*", "-o", tmp_path / "b.flatline.zip", "--window", 1)
        assert done.code == 4, done.err
        assert "not of one job" in done.err
        assert f"pid {jobs[0].pid}" in done.err
        assert not (tmp_path / "b.flatline.zip").exists()
    finally:
        for name in os.listdir("/proc"):
            if name.isdigit() and str(program).encode() in cmdline(name):
                os.kill(int(name), signal.SIGKILL)


def cmdline(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_bare_number_is_asked_back_as_a_pid() -> None:
    done = flatline("collect", "4242")
    assert done.code == 2
    assert "--pid 4242" in done.err


@pytest.mark.parametrize("command", [["rules", "list"], ["rules", "schema"], ["--help"]])
def test_a_reader_that_goes_away_is_no_error(command: list[str]) -> None:
    quoted = " ".join([sys.executable, "-m", "flatline", *command])
    done = subprocess.run(["sh", "-c", f"{quoted} | true"], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
