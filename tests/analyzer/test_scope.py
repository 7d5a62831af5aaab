"""What was asked about has the verdict; launchers above are followed, and what is stuck beside is said beside."""

from __future__ import annotations

import pytest
from builders import FUTEX_FOR_EVER, SLEEP, USER, Job, reads, waits_for_child, writes
from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import case_of
from flatline.analyzer.derive.chains import find_roots

from flatline.bundle.facts import Fd, Syscall

MAIN, STEP = (USER, "main", 3), (USER, "step", 10)
SCRIPT = {"role": "shell", "is_python": False, "name": "bash", "argv": ("bash", "run.sh")}
TYPED_INTO = {**SCRIPT, "argv": ("-bash",)}


def unread_pipe(launcher=12, child=13, *, launcher_is="ancestor", child_is="target", job=None, **known):
    """`launcher` waits for `child`, which waits for `launcher` to read its standard error."""
    job = job or Job()
    job.process(launcher, relation=launcher_is, **known)
    job.process(child, ppid=launcher, relation=child_is, role="other")
    job.thread(launcher, syscall=waits_for_child(child), stacks=(MAIN,))
    job.thread(child, syscall=writes(2), wchan="pipe_write", stacks=(STEP,))
    job.pipe(771, reader=(launcher, 5), writer=(child, 2))
    return job


def report_on(job):
    return analyze(case_of(job.store))


def diagnosis(report):
    return report.diagnosis.cause if report.diagnosis is not None else None


# --- whichever process is named ---


@pytest.mark.parametrize("launcher", [{"role": "rank"}, {"role": "launcher", "is_python": False, "name": "node"}, SCRIPT])
def test_the_child_is_answered_like_the_launcher(launcher):
    from_child = report_on(unread_pipe(**launcher))
    from_above = report_on(unread_pipe(launcher_is="target", child_is="descendant", **launcher))
    for report in (from_child, from_above):
        assert (report.verdict.state, diagnosis(report)) == ("hung", "output-pipe-full")
        assert report.chains[report.chain].end.kind == "cycle"
        assert "outside" not in report.chains[report.chain].text


def test_a_persons_shell_above_is_not_of_the_job():
    edge = unread_pipe(**TYPED_INTO).edge(13)
    assert edge.inside_job is False
    assert "pid 12 (bash, outside the job)" in edge.text


def test_a_launcher_above_is_followed_and_is_no_root():
    assert [thread.pid for thread in find_roots(unread_pipe().scene())] == [13]


def test_a_program_beside_in_the_pipeline_is_of_the_job():
    """python a.py | sleep 999, in a script."""
    job = Job()
    job.process(9, relation="ancestor", **SCRIPT)
    job.process(12, ppid=9, relation="target")
    job.process(13, ppid=9, relation="sibling", is_python=False, name="sleep")
    job.thread(9, syscall=waits_for_child(-1))
    job.thread(12, syscall=writes(1), stacks=(STEP,))
    job.thread(13, syscall=SLEEP)
    job.pipe(5, reader=(13, 0), writer=(12, 1))
    report = report_on(job)
    assert (report.verdict.state, report.verdict.by_design, diagnosis(report)) == ("waiting", None, "output-pipe-full")


def test_who_is_waited_for_by_what_stands_beside_is_told_of_it():
    """The same pipeline, asked about the one who does not read."""
    job = Job()
    job.process(9, relation="ancestor", **SCRIPT)
    job.process(12, ppid=9, relation="sibling", role="rank")
    job.process(13, ppid=9, relation="target", is_python=False, name="sleep")
    job.thread(12, syscall=writes(1), stacks=(STEP,))
    job.thread(13, syscall=SLEEP)
    job.pipe(5, reader=(13, 0), writer=(12, 1))
    report = report_on(job)
    assert (report.verdict.state, diagnosis(report)) == ("waiting", "output-pipe-full")


def test_the_other_ranks_of_a_rank_are_roots_as_well():
    job = Job()
    for rank, relation in enumerate(("target", "sibling", "sibling")):
        job.process(20 + rank, relation=relation, role="rank", rank=rank)
        job.thread(20 + rank, syscall=SLEEP)
    assert [thread.pid for thread in find_roots(job.scene())] == [20, 21, 22]


# --- what stands beside ---


def sleep_with_a_stuck_sibling():
    """sleeper.py & sleep 700 & popen_wait.py, in a script; asked about the sleep."""
    job = Job()
    job.process(9, relation="ancestor", **SCRIPT)
    job.process(10, ppid=9, relation="sibling", role="rank")
    job.process(11, ppid=9, relation="target", is_python=False, name="sleep")
    job.thread(9, syscall=waits_for_child(12))
    for pid in (10, 11):
        job.thread(pid, syscall=SLEEP)
    return unread_pipe(12, 13, launcher_is="sibling", child_is="sibling", job=job, ppid=9, role="rank")


def test_what_is_stuck_beside_is_said_and_is_not_the_diagnosis():
    report = report_on(sleep_with_a_stuck_sibling())
    assert (report.verdict.state, report.verdict.by_design, diagnosis(report)) == ("waiting", True, None)
    assert report.chains[report.chain].root.startswith("pid 11 ")
    assert report.verdict.because[1].startswith("not waited for, but stuck as well: pid 12 waits for its child 13")
    assert {f.cause: f.role for f in report.findings}["output-pipe-full"] == "contributing"


def test_the_named_one_of_two_that_are_equally_stuck_is_the_diagnosis():
    job = unread_pipe(22, 23, launcher_is="sibling", child_is="sibling", role="rank")
    report = report_on(unread_pipe(32, 33, launcher_is="target", child_is="descendant", job=job, role="rank"))
    assert report.diagnosis.title.startswith("Process 33 ")
    assert "Process 23" in report.diagnosis.summary


def test_a_child_nobody_waits_for_yet_keeps_a_wait_from_being_by_design():
    """The launcher waits for its first child, which sleeps; the third one is stuck for ever."""
    job = Job()
    job.process(10, relation="target")
    job.thread(10, syscall=waits_for_child(11))
    for pid in (11, 13):
        job.process(pid, ppid=10, role="other")
    job.thread(11, syscall=SLEEP)
    job.thread(13, syscall=FUTEX_FOR_EVER, stacks=(STEP,))
    verdict = report_on(job).verdict
    assert (verdict.state, verdict.by_design) == ("waiting", None)
    assert "something that it has started is stuck" in verdict.outlook
    assert any("pid 13 waits for the lock" in line for line in verdict.because)


def test_a_child_whose_terminal_takes_no_more_keeps_a_wait_from_being_by_design():
    job = Job()
    job.process(10, relation="target")
    job.thread(10, syscall=SLEEP)
    job.process(11, ppid=10, role="other", tty="pts/3")
    job.add("fds", Fd("h1/11", 1, "tty", "/dev/pts/3"))
    job.thread(11, syscall=writes(1))
    verdict = report_on(job).verdict
    assert (verdict.state, verdict.by_design) == ("waiting", None)
    assert "is stuck: pid 11 writes to the terminal pts/3" in verdict.outlook


def test_a_loop_that_sleeps_and_looks_may_be_looking_at_what_it_has_started():
    job = unread_pipe(launcher_is="target", child_is="descendant")
    job.tables["threads"] = [t for t in job.tables["threads"] if t.pid == 13]
    job.tables["thread_samples"] = [s for s in job.tables["thread_samples"] if s.thread != "h1/12/12"]
    job.thread(12, syscall=SLEEP, switches=(0, 2, 4), stacks=(MAIN,))
    assert diagnosis(report_on(job)) == "output-pipe-full"


# --- chain and cause ---


def test_the_chain_that_is_told_leads_through_the_process_the_cause_is_about():
    """Two waits of the same weight outside: the one that a rule explains is told."""
    job = Job()
    for rank in (0, 1):
        job.process(20 + rank, relation="target", role="rank", rank=rank)
    job.thread(20, syscall=SLEEP)
    job.thread(21, syscall=reads(0), stacks=((USER, "ask", 7),))
    job.add("fds", Fd("h1/21", 0, "tty", "/dev/pts/3"))
    job.add("logs", _question("h1/21"))
    report = report_on(job)
    assert diagnosis(report) == "interactive-prompt"
    assert report.chains[report.chain].root.startswith("pid 21 ")
    assert "pid 21" in report.verdict.because[0]


def _question(writer):
    from flatline.bundle.facts import Log

    return Log("stdout", "file", "/job/out", process=writer, writers=(writer,), last_line="Continue? [y/n] ", ends_with_newline=False)


def test_what_no_root_waits_for_is_a_guess_while_the_main_chain_computes():
    job = Job()
    job.process(10, relation="target")
    job.thread(10, state="R", cpu=(0, 2000, 4000), stacks=(STEP, MAIN))
    unread_pipe(12, 13, launcher_is="descendant", child_is="descendant", job=job, ppid=10, role="other")
    report = report_on(job)
    assert report.verdict.state == "unknown"
    assert all(finding.word in ("possible", "weak hint") for finding in report.findings)


# --- what has ended ---


@pytest.mark.parametrize(("status", "state"), [(0, "waiting"), (3, "crashed"), (-9, "crashed")])
def test_a_target_that_has_ended_is_never_hung_by_itself(status, state):
    job = Job()
    job.process(10, relation="target")
    job.process(12, ppid=10, relation="target", state="Z", exit_status=status, age_s=600.0)
    job.thread(10, syscall=SLEEP)
    job.thread(12, state="Z")
    verdict = report_on(job).verdict
    assert verdict.state == state
    assert verdict.because[0].startswith("pid 12 has ended (")
    assert verdict.because[0].endswith("its parent 10 has not collected it")


def test_a_main_thread_that_ended_before_the_others_has_not_ended_the_process():
    job = Job()
    job.process(12, relation="target", state="Z", threads=2)
    job.thread(12, state="Z")
    job.thread(12, 13, syscall=FUTEX_FOR_EVER)
    assert not any("has ended (" in line for line in report_on(job).verdict.because)


# --- by design or not ---


def waiting(**thread):
    job = Job()
    job.process(12, relation="target")
    job.thread(12, **thread)
    return job


def test_a_sleep_is_by_design_and_says_so():
    verdict = report_on(waiting(syscall=SLEEP)).verdict
    assert (verdict.by_design, verdict.outlook) == (True, "it sleeps for a set time and goes on by itself: this is by design")


def test_whether_an_answer_comes_cannot_be_known():
    from flatline.bundle.facts import Socket

    job = waiting(syscall=Syscall("recvfrom", 45, (4,), fd=4, timed=False))
    job.add("sockets", Socket(50, "inet", "stream", "ESTABLISHED", "10.0.0.2:4000", "10.0.0.7:443"))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[50]", 50))
    verdict = report_on(job).verdict
    assert verdict.by_design is None
    assert verdict.outlook == (
        "it waits without a timeout for 10.0.0.7:443 to answer; whether that happens cannot be known from here"
    )
