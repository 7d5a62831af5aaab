"""What a user reads: every thing once, in words, and nothing that contradicts itself."""

from __future__ import annotations

import re

import pytest
from builders import FUTEX_FOR_EVER, SLEEP, USER, Job, reads, waits_for_child, writes
from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import case_of
from flatline.analyzer.commands.analyze import exit_code
from flatline.analyzer.derive.evidence import quote
from flatline.analyzer.findings import Finding, Measured
from flatline.analyzer.judge.pack import Rulebook, load_rulebook
from flatline.analyzer.reports import render
from flatline.analyzer.reports.processes import process_table
from flatline.analyzer.reports.view import View, view_of
from flatline.analyzer.reports.wording import no_cause, record, role

from flatline.bundle.facts import Fd, Futex, Lock, Log, Process, Socket, Syscall

MAIN, STEP = (USER, "main", 3), (USER, "step", 10)
BOOK = load_rulebook()
SHOWN = ("text", "md", "html")


def seen(job: Job, book: Rulebook = BOOK):
    case = case_of(job.store)
    report = analyze(case, book)
    return report, case


def texts(job: Job, book: Rulebook = BOOK) -> dict[str, str]:
    """Every report without its markup, in one line."""
    report, case = seen(job, book)
    rendered = {name: render(name, report, case) for name in SHOWN}
    rendered["html"] = re.sub(r"<(style|title)>.*?</\1>|<[^>]+>", " ", rendered["html"], flags=re.DOTALL)
    return {name: re.sub(r"[\s\\]+", " ", text) for name, text in rendered.items()}


def view(job: Job) -> View:
    return view_of(*seen(job))


def unread_pipe() -> Job:
    job = Job()
    job.process(12, relation="target")
    job.process(13, ppid=12)
    job.thread(12, syscall=waits_for_child(13), stacks=(MAIN,))
    job.thread(13, syscall=writes(2), wchan="pipe_write", stacks=(STEP,))
    job.pipe(771, reader=(12, 5), writer=(13, 2))
    return job


def alone(**thread) -> Job:
    job = Job()
    job.process(12, relation="target")
    job.thread(12, **thread)
    return job


def moving() -> Job:
    job = alone(cpu=(0, 900, 1800), stacks=[[STEP, MAIN], [(USER, "load", 40), MAIN], [STEP, MAIN]])
    job.log(12, age_s=4.0, sizes=(10, 20, 30))
    return job


@pytest.mark.parametrize("name", SHOWN)
def test_the_chain_is_told_once(name):
    text = texts(unread_pipe())[name]
    assert text.count("pid 12 waits for its child 13") == 1
    assert text.count("none of them got on") == 1


@pytest.mark.parametrize("name", SHOWN)
def test_a_job_that_gets_on_is_not_called_silent_nor_asked_why_nothing_moves(name):
    text = texts(moving())[name]
    assert "ilent for" not in text
    assert "Why nothing moves" not in text
    assert "What it does" in text


@pytest.mark.parametrize("name", SHOWN)
def test_the_words_of_the_machinery_are_not_shown(name):
    text = texts(unread_pipe())[name]
    assert "frozen" not in text
    assert "End: " not in text
    assert "not moving" in text or name == "md"


def test_a_pipe_is_named_by_what_it_is_to_the_process():
    assert unread_pipe().edge(13).resource == "its standard error, a pipe to pid 12"


@pytest.mark.parametrize("name", SHOWN)
def test_a_proven_chain_that_no_rule_knows_says_so_and_not_that_evidence_lacks(name):
    text = texts(alone(syscall=FUTEX_FOR_EVER), Rulebook(()))[name]
    assert "The chain above is proven, but no rule knows a remedy for it." in text
    assert "enough evidence" not in text


def waits_for_an_answer() -> Job:
    job = alone(syscall=Syscall("recvfrom", 45, (4,), fd=4, timed=False))
    job.add("sockets", Socket(50, "inet", "stream", "ESTABLISHED", "10.0.0.2:4000", "10.0.0.7:443"))
    job.add("fds", Fd("h1/12", 4, "socket", "socket:[50]", 50))
    return job


def waits_for_input() -> Job:
    job = alone(syscall=reads(0))
    job.add("fds", Fd("h1/12", 0, "tty", "/dev/pts/3"))
    return job


def serves() -> Job:
    job = alone(syscall=Syscall("epoll_wait", 232, (5,), fd=5, timed=False))
    job.add("sockets", Socket(50, "inet", "stream", "LISTEN", "0.0.0.0:80"))
    job.add("fds", Fd("h1/12", 6, "socket", "socket:[50]", 50))
    job.add("fds", Fd("h1/12", 5, "eventpoll", "anon_inode:[eventpoll]", watches=(6,)))
    return job


@pytest.mark.parametrize(
    ("job", "begins", "code"),
    [(alone(syscall=SLEEP), "No cause: it sleeps for a set time", 0),
     (alone(syscall=SLEEP, switches=(0, 2, 4)), "No cause: it sleeps and looks again", 0),
     (serves(), "No cause: it serves", 0),
     (waits_for_an_answer(), "Undecided: it waits without a timeout for 10.0.0.7:443 to answer", 11),
     (waits_for_input(), "Undecided: it goes on when somebody types an answer", 11)],
)  # fmt: skip
def test_a_wait_says_what_ends_it_and_the_exit_code_agrees(job, begins, code):
    report, case = seen(job, Rulebook(()))
    assert begins in re.sub(r"\s+", " ", render("text", report, case))
    assert exit_code(report) == code


def test_a_degraded_job_without_a_cause_is_called_that_and_the_exit_code_agrees():
    job = alone(syscall=FUTEX_FOR_EVER)
    report, _ = seen(job, Rulebook(()))
    degraded = report.model_copy(update={"verdict": report.verdict.model_copy(update={"state": "degraded"})})
    assert no_cause(degraded, None) == "It runs, but not as it was meant to, and no rule found out why."
    assert exit_code(degraded) == 10


def test_a_text_that_several_streams_write_is_shown_once_with_its_streams():
    job = unread_pipe()
    for stream in ("stdout", "stderr"):
        job.add("logs", Log(stream, "file", "/job/out", text="logs/0-out.txt", process="h1/12", writers=("h1/12",)))
    (tail,) = view(job).logs
    assert tail.about == "stdout of pid 12, stderr of pid 12"


def test_a_frame_that_follows_upon_itself_is_shown_once():
    (group,) = view(alone(syscall=SLEEP, stacks=((USER, "walk", 5),) * 4 + (MAIN,))).stacks
    assert group.lines == ("walk (/job/train.py:5)  (× 4)", "main (/job/train.py:3)")


def with_strangers() -> Job:
    job = waits_for_input()
    job.process(9, relation="holder", role="unknown", is_python=False, name="bash")
    job.process(8, relation="holder", role="unknown", is_python=False, name="other")
    job.add("fds", Fd("h1/12", 1, "pipe", "pipe:[5]", 5, mode="write", peers=("h1/9",)))
    job.add("locks", Lock("h1/lock/8:1:44", 44, owner_process="h1/9", path="/job/cache.lock"))
    return job


def test_a_process_outside_says_what_it_holds_and_stands_apart_unless_somebody_waits_for_it():
    job = with_strangers()
    _, case = seen(job)
    table = process_table(case.store)
    assert [row.pid for row in table.job] == [12]
    assert [(row.pid, row.role, row.note) for row in table.around] == [
        (9, "", "outside the job; has the other end of pid 12's standard output, holds the lock on /job/cache.lock"),
        (8, "", "outside the job"),
    ]
    job.tables["threads"] = []
    job.thread(12, syscall=writes(1))
    _, case = seen(job)
    assert {row.pid for row in process_table(case.store).job} == {12, 9}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (Futex("h/5/6", "h/5", 93958464821952, 393, 0, True, primitive="python-lock", waiters=3),
         "pid 5 thread 6 sleeps on a Python lock, as 2 more"),
        (Futex("h/5/6", "h/5", 64, 0, 2, True, primitive="mutex", owner_tid=9, owner_thread="h/5/9", owner_state="alive"),
         "pid 5 thread 6 sleeps on a mutex, which thread 9 has"),
        (Futex("h/5/6", "h/5", 64, 0, 2, True, primitive="python-rlock", owner_state="self", depth=2),
         "pid 5 thread 6 sleeps on a Python RLock, which it has taken itself, taken 2 times"),
        (Futex("h/5/6", "h/5", 64, 0, 2, False, primitive="pi-mutex", owner_tid=9,
               owner_state="not-a-thread-of-the-process", mapping="/dev/shm/x"),
         "pid 5 thread 6 sleeps on a mutex, whose owner, thread 9, has ended, shared between processes"),
        (Futex("h/5/6", "h/5", 64, 0, 2, True),
         "pid 5 thread 6 sleeps on a lock or an event of unknown kind"),
        (Process("h/5", "h", 5, argv=("python", "-c", "import time\ntime.sleep(9)\n"), role="rank"),
         "pid 5 (rank) state unknown: python -c import time time.sleep(9)"),
    ],
)  # fmt: skip
def test_what_a_lock_or_a_command_line_says_as_evidence_is_a_sentence(row, says):
    assert quote(row) == says


@pytest.mark.parametrize(
    ("named", "right", "says"),
    [
        (0, 0, "Never the first to name a cause in 113 labelled reports."),
        (1, 1, "Named first in 1 of 113 labelled reports, rightly each time."),
        (9, 7, "Named first in 9 of 113 labelled reports, rightly in 7 of them."),
    ],
)
def test_how_often_a_rule_was_right_is_told_in_words(named, right, says):
    finding = Finding.model_construct(measured=Measured(cases=113, named=named, right=right))
    assert record(finding) == says


def test_there_is_one_root_cause_and_what_else_could_be_it_is_a_candidate():
    finding = Finding(rule="r", cause="c", role="root-cause", confidence=0.6, word="possible", title="T", summary="", evidence=[])
    assert role(finding, is_diagnosis=True) == "root cause"
    assert role(finding) == "another candidate"
    assert role(finding.model_copy(update={"role": "symptom"})) == "symptom"
