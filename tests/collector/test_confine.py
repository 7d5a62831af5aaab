"""Paths that a job names are read with the job's rights, below the job's root, and nothing but regular files."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from flatline.collector.confine import ConfineFailed, NotRegularError, kind_of, run_as_target, standpoint
from flatline.collector.probes.interface import Target
from programs import wait_until

NOBODY = 65534
LIMIT_S = 20.0

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def target_of(pid, **changes):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    known = {"start_ticks": int(fields[19]), "ppid": int(fields[1]), "uid": os.stat(f"/proc/{pid}").st_uid}
    rest = {"name": "x", "relation": "target", "role": "other", "is_python": True, "age_s": 1.0}
    return Target(pid=pid, **{**known, **rest, **changes})


@pytest.fixture
def tmp_path():
    """A folder every user can reach; pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="flatline-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def sleeper(start):
    """Start a process that does nothing, as another user or from another folder; returns its pid."""

    def begin(*, uid=None, argv=("sleep", "600"), comm=None, **options):
        if uid is not None:
            options.update(user=uid, group=uid, extra_groups=[])
        pid = start(argv, **options).pid
        expected = comm or Path(argv[0]).name
        wait_until(lambda: Path(f"/proc/{pid}/comm").read_text().strip() == expected, what=f"{expected} runs")
        return pid

    return begin


def ask(pid, question, *, limit_s=LIMIT_S, **changes):
    """One answer of the confined child, or its ConfineFailed."""
    return next(iter(run_as_target(target_of(pid, **changes), lambda job: iter([question(job)]), limit_s=limit_s)))


def attempt(question):
    """`question`, with an OSError as its errno's name: what a probe would note."""

    def asked(job):
        try:
            return question(job)
        except NotRegularError as error:
            return f"refused: {error.kind}"
        except OSError as error:
            return f"{type(error).__name__}"

    return asked


def reading(path, **where):
    return attempt(lambda job: job.read(str(path), **where))


@as_root
def test_the_child_is_the_target_s_user_in_every_id_and_has_no_capability(sleeper):
    def who(job):
        status = Path("/proc/self/status").read_text().splitlines()
        return {line.partition(":")[0]: line.partition(":")[2].split() for line in status}

    seen = ask(sleeper(uid=NOBODY), who)
    assert seen["Uid"] == [str(NOBODY)] * 4
    assert seen["Gid"] == [str(NOBODY)] * 4
    assert seen["Groups"] == []
    assert {seen[name][0] for name in ("CapEff", "CapPrm", "CapInh")} == {"0" * 16}


@as_root
def test_a_root_collector_does_not_read_what_the_job_s_user_may_not(sleeper, tmp_path):
    private = tmp_path / "private"
    private.write_text("secret")
    private.chmod(0o600)
    pid = sleeper(uid=NOBODY)
    assert ask(pid, reading(private)) == "PermissionError"
    assert ask(pid, reading("/etc/shadow")) == "PermissionError"


@as_root
def test_what_the_job_s_user_may_read_is_read(sleeper, tmp_path):
    shared = tmp_path / "shared"
    shared.write_text("0123456789")
    shared.chmod(0o644)
    pid = sleeper(uid=NOBODY)
    assert ask(pid, reading(shared)) == b"0123456789"
    assert ask(pid, reading(shared, offset=2, size=3)) == b"234"
    assert ask(pid, reading(shared, offset=-4)) == b"6789"


@as_root
@pytest.mark.parametrize(
    "wrapper", [("setpriv", "--bounding-set=-all", "--inh-caps=-all"), ("unshare", "--user", "--map-root-user")]
)
def test_a_target_that_is_root_without_root_s_capabilities_lends_none(sleeper, tmp_path, wrapper):
    """Root of its own user namespace has them all, but not here."""
    if not shutil.which(wrapper[0]):
        pytest.skip(f"{wrapper[0]} is not installed")
    theirs = tmp_path / "theirs"
    theirs.write_text("x")
    os.chown(theirs, NOBODY, NOBODY)
    theirs.chmod(0o600)
    assert ask(sleeper(), reading(theirs)) == b"x"
    assert ask(sleeper(argv=(*wrapper, "sleep", "600"), comm="sleep"), reading(theirs)) == "PermissionError"


def test_relative_paths_start_at_the_job_s_working_directory(sleeper, tmp_path):
    (tmp_path / "cwd" / "below").mkdir(parents=True)
    (tmp_path / "cwd" / "here.txt").write_text("here")
    (tmp_path / "beside.txt").write_text("beside")
    pid = sleeper(cwd=tmp_path / "cwd")
    assert ask(pid, reading("here.txt")) == b"here"
    assert ask(pid, reading("./below/../here.txt")) == b"here"
    assert ask(pid, reading("../beside.txt")) == b"beside"
    assert ask(pid, attempt(lambda job: job.absolute("here.txt"))) == str(tmp_path / "cwd" / "here.txt")


@as_root
def test_a_working_directory_below_folders_the_user_may_not_search_still_serves_relative_paths(sleeper, tmp_path):
    closed = tmp_path / "closed"
    (closed / "cwd").mkdir(parents=True)
    (closed / "cwd" / "here.txt").write_text("here")
    pid = sleeper(uid=NOBODY, argv=("sleep", "600"), cwd=closed / "cwd")
    closed.chmod(0o700)
    assert ask(pid, reading("here.txt")) == b"here"
    assert ask(pid, reading(closed / "cwd" / "here.txt")) == "PermissionError"


@pytest.fixture
def chrooted(sleeper, tmp_path):
    """A process whose root is a folder that holds links which try to leave it; (pid, folder)."""
    if os.geteuid() != 0:
        pytest.skip("only root can chroot")
    jail = tmp_path / "jail"
    (jail / "etc").mkdir(parents=True)
    (jail / "work").mkdir()
    (tmp_path / "outside.txt").write_text("outside")
    (jail / "inside.txt").write_text("inside")
    (jail / "etc" / "shadow").write_text("the jail's own")
    (jail / "up").symlink_to("../../../../../../etc/shadow")
    (jail / "absolute").symlink_to("/etc/shadow")
    (jail / "work" / "beside").symlink_to("../../../../../../../../inside.txt")
    (jail / "out").symlink_to(str(tmp_path / "outside.txt"))
    (jail / "loop").symlink_to("loop")
    code = f"import os,time; os.chroot({str(jail)!r}); os.chdir('/work'); os.write(1, b'.'); time.sleep(600)"
    read, write = os.pipe()
    pid = sleeper(argv=(sys.executable, "-I", "-S", "-c", code), stdout=write)
    os.close(write)
    assert os.read(read, 1) == b"."
    os.close(read)
    return pid, jail


def test_links_never_lead_out_of_the_job_s_root(chrooted):
    pid, _ = chrooted
    assert ask(pid, reading("/up")) == b"the jail's own"
    assert ask(pid, reading("/absolute")) == b"the jail's own"
    assert ask(pid, reading("/../../../etc/shadow")) == b"the jail's own"
    assert ask(pid, reading("beside")) == b"inside"
    assert ask(pid, reading("../inside.txt")) == b"inside"
    assert ask(pid, reading("/out")) == "FileNotFoundError"
    assert ask(pid, reading("/loop")) == "OSError"
    assert ask(pid, attempt(lambda job: job.readlink("/absolute"))) == "/etc/shadow"
    assert ask(pid, attempt(lambda job: job.absolute("beside"))) == "/work/beside"


def test_what_is_no_regular_file_is_refused_unopened(sleeper, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    pid = sleeper()
    assert ask(pid, reading(tmp_path / "fifo")) == "refused: fifo"
    assert ask(pid, reading("/dev/null")) == "refused: device"
    assert ask(pid, reading(tmp_path)) == "refused: directory"
    assert ask(pid, reading("/proc/self/environ")) == "refused: kernel"


def test_paths_that_are_none_are_missing_files(sleeper):
    pid = sleeper()
    for path in ("", "a\0b", "/x\ud800", "/" + "n" * 300, "/no/such"):
        assert ask(pid, reading(path)) in ("FileNotFoundError", "OSError"), ascii(path)


def test_listing_and_stat_say_what_is_there_within_the_limit(sleeper, tmp_path):
    for number in range(20):
        (tmp_path / f"{number}.lock").write_text("")
    (tmp_path / "link").symlink_to("0.lock")
    pid = sleeper()
    assert len(ask(pid, lambda job: job.listdir(str(tmp_path), 7))) == 7
    assert kind_of(ask(pid, lambda job: job.stat(f"{tmp_path}/link").st_mode)) == "file"
    assert kind_of(ask(pid, lambda job: job.stat(f"{tmp_path}/link", follow=False).st_mode)) == "link"
    assert stat.S_ISREG(ask(pid, lambda job: job.stat(f"{tmp_path}/0.lock").st_mode))


@as_root
def test_access_is_the_target_s(sleeper, tmp_path):
    tmp_path.chmod(0o755)
    pid = sleeper(uid=NOBODY)
    assert ask(pid, lambda job: [job.access(str(tmp_path), m) for m in (os.R_OK, os.W_OK)]) == [True, False]


def test_another_process_under_the_same_pid_is_not_taken_for_the_target(sleeper):
    answer = ask(sleeper(), reading("/etc/passwd"), start_ticks=1)
    assert isinstance(answer, ConfineFailed)
    assert answer.reason == "absent"


@as_root
def test_an_unprivileged_collector_is_denied_other_people_s_files(sleeper):
    theirs = sleeper()
    code = (
        "import os, sys; os.setgroups([]); os.setresgid(65534,65534,65534); os.setresuid(65534,65534,65534)\n"
        "from flatline.collector.confine import run_as_target\n"
        "from flatline.collector.probes.interface import Target\n"
        "t = Target(int(sys.argv[1]), int(sys.argv[2]), 1, 0, 'x', 'target', 'other', True, 1.0)\n"
        "print([type(a).__name__ + ':' + getattr(a, 'reason', '') for a in run_as_target(t, lambda j: iter([1]), limit_s=20)])"
    )
    code = code.replace("import os, sys;", "import os, sys, flatline.collector.confine;", 1)
    ticks = str(target_of(theirs).start_ticks)
    out = subprocess.run([sys.executable, "-c", code, str(theirs), ticks], capture_output=True, text=True, timeout=60)
    assert out.stdout.strip() == "['ConfineFailed:denied']", out.stderr


@as_root
def test_an_unprivileged_collector_reads_its_own_user_s_files(sleeper, tmp_path):
    (tmp_path / "mine").write_text("mine")
    pid = sleeper(uid=NOBODY)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        os.write(write, repr(ask(pid, reading(tmp_path / "mine"))).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"b'mine'"
    os.close(read)


def test_a_child_that_does_not_answer_is_killed_and_what_came_is_kept(sleeper):
    def stalls(job):
        yield "first"
        time.sleep(600)

    began = time.monotonic()
    answers = list(run_as_target(target_of(sleeper()), stalls, limit_s=1.0))
    assert answers[0] == "first"
    assert isinstance(answers[1], ConfineFailed)
    assert (answers[1].reason, answers[1].left_running) == ("timeout", None)
    assert time.monotonic() - began < 30


def test_a_child_that_dies_or_raises_becomes_a_value(sleeper):
    pid = sleeper()

    def dies(job):
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    def raises(job):
        yield 1
        raise RecursionError("deep")

    for work in (dies, raises):
        answers = list(run_as_target(target_of(pid), work, limit_s=LIMIT_S))
        assert answers[0] == 1
        assert answers[1].reason == "error"


def test_a_child_s_word_is_not_code(sleeper, tmp_path):
    class Crafted:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    [answer] = run_as_target(target_of(sleeper()), lambda job: iter([Crafted()]), limit_s=LIMIT_S)
    assert answer.reason == "error"
    assert not (tmp_path / "ran").exists()


def test_a_consumer_that_stops_early_leaves_no_child(sleeper):
    def endless(job):
        yield os.getpid()
        time.sleep(600)

    answers = run_as_target(target_of(sleeper()), endless, limit_s=LIMIT_S)
    child = next(answers)
    answers.close()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), what="the child is gone")


def test_targets_share_a_standpoint_only_with_the_same_user_and_place(sleeper, tmp_path):
    one, same, elsewhere = sleeper(cwd=tmp_path), sleeper(cwd=tmp_path), sleeper(cwd="/")
    assert standpoint(target_of(one)) == standpoint(target_of(same))
    assert standpoint(target_of(one)) != standpoint(target_of(elsewhere))


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made")
def test_a_dead_mount_costs_no_more_than_the_limit(sleeper):
    with stalling_mount() as mount:
        pid = sleeper(cwd=mount.path)
        mount.stall()
        began = time.monotonic()
        [answer] = run_as_target(target_of(pid), lambda job: iter([job.read("train.log")]), limit_s=1.0)
        took = time.monotonic() - began
        mount.resume()
    assert answer.reason == "timeout"
    assert took < 10
