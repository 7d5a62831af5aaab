"""A rule may say what the whole job is: it runs but not as asked, or it has ended with an error."""

from __future__ import annotations

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import case_of
from flatline.analyzer.commands.analyze import exit_code
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.samples import sample_store

ASKED = """\
verdict: {verdict}
requires:
  - {{weight: {weight}, group: asked, find: processes, as: p, where: {{argv: {{contains: --gpu}}}}}}
  - {{weight: strong, group: is, find: packages, where: {{name: torch}}}}
"""
HANG = "requires: [{weight: decisive, find: packages, as: k, where: {name: torch}}]\n"


def facts(*, moves: bool):
    """A Python that computes, or one that waits for a child that lives."""
    ticks = [0, 1500] if moves else [0, 0]
    sample = {"thread": "h1/11/11", "state": "R" if moves else "S", "system_ms": 0, "voluntary": 0, "involuntary": 0}
    frame = {"thread": "h1/11/11", "depth": 0, "file": "/job/train.py", "is_user": True}
    return {
        "processes": [
            {"pid": 11, "relation": "target", "state": "S", "is_python": True, "argv": ["train.py", "--gpu"]}
        ],
        "threads": [{"pid": 11, "tid": 11, "state": "S", "syscall": {"name": "futex", "args": [1, 128, 2, 0]}}],
        "thread_samples": [
            {**sample, "sample": n, "mono_ns": n * 2 * 10**9, "user_ms": ms} for n, ms in enumerate(ticks)
        ],
        "frames": [{**frame, "sample": n, "function": f"f{n * moves}", "line_no": 7 + n * moves} for n in range(2)],
        "packages": [{"process": "h1/11", "name": "torch", "version": "2.4.0+cpu"}],
    }


def report(pack, *, moves: bool):
    store, _ = sample_store(facts(moves=moves))
    return analyze(case_of(store), load_rulebook([pack.folder], built_in=False))


@pytest.fixture
def says(pack):
    def add(verdict, weight="strong", status="stable"):
        return pack(
            "asked-otherwise", ASKED.format(verdict=verdict, weight=weight), status=status, title="'not as asked'"
        )

    return add


def test_a_job_that_gets_on_but_not_as_asked_is_degraded_by_the_rule_that_says_so(pack, says):
    says("degraded")
    pack("of-a-hang", HANG, title="'a hang'")
    told = report(pack, moves=True)
    assert (told.verdict.state, told.diagnosis.rule, told.diagnosis.word) == ("degraded", "asked-otherwise", "likely")
    assert told.verdict.because[0] == "not as asked"
    assert exit_code(told) == 10
    assert [(f.rule, f.role, f.word) for f in told.findings if f.rule == "of-a-hang"] == [
        ("of-a-hang", "contributing", "possible")
    ]


def test_a_rule_that_is_less_than_likely_changes_no_verdict(pack, says):
    says("degraded", status="experimental")
    told = report(pack, moves=True)
    assert (told.verdict.state, told.diagnosis) == ("healthy", None)


def test_a_job_that_gets_on_has_not_crashed_whatever_a_rule_says(pack, says):
    says("crashed")
    told = report(pack, moves=True)
    assert (told.verdict.state, told.diagnosis) == ("healthy", None)


def test_a_job_that_stands_may_have_crashed(pack, says):
    says("crashed")
    told = report(pack, moves=False)
    assert (told.verdict.state, told.diagnosis.rule) == ("crashed", "asked-otherwise")


TRACED = """\
$ grep -E 'State|TracerPid' /proc/4120/status
State:\tt (tracing stop)
TracerPid:\t4188
$ ps -o pid,stat,cmd -p 4188
    PID STAT CMD
   4188 T    gdb -p 4120
"""
STALL = """\
[1,0]<stderr>:[2025-04-11 02:11:09.1: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be \
reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.
[1,0]<stderr>:Missing ranks:
[1,0]<stderr>:1: [allreduce.w0]
"""


@pytest.mark.parametrize(
    ("text", "state"), [(TRACED, "hung"), (STALL, "waiting")], ids=["a look", "a stall that is told"]
)
def test_a_cause_that_nothing_ends_makes_a_wait_that_was_only_seen_a_hang(tmp_path, text, state):
    (tmp_path / "pasted.txt").write_text(text)
    with open_case([tmp_path]) as case:
        told = analyze(case)
    assert (told.verdict.state, told.diagnosis is not None) == (state, True)


def test_what_a_rule_knows_to_be_a_deadlock_is_hung_where_the_stacks_alone_could_not_tell(pack):
    body = (
        "verdict: hung\nrequires:\n  - {weight: strong, group: stack, find: threads, as: t, stack: ['train.py:main']}\n"
    )
    pack("of-a-deadlock", body + "  - {weight: medium, group: told, find: processes, where: {rank: 0}}\n")
    store, _ = sample_store(
        {"processes": [{"pid": 11, "rank": 0}], "threads": [{"pid": 11, "tid": 11, "stack": ["train.py:9 main"]}]}
    )
    told = analyze(case_of(store), load_rulebook([pack.folder], built_in=False))
    assert (told.verdict.state, told.diagnosis.word) == ("hung", "likely")


def test_what_makes_a_job_slow_is_the_cause_of_a_slow_job_and_makes_none_slow(pack, says):
    says("slow")
    in_one_function = [{**frame, "function": "f"} for frame in facts(moves=True)["frames"]]
    store, _ = sample_store({**facts(moves=True), "frames": in_one_function})
    told = analyze(case_of(store), load_rulebook([pack.folder], built_in=False))
    assert (told.verdict.state, told.diagnosis and told.diagnosis.rule) == ("slow", "asked-otherwise")
    assert report(pack, moves=True).verdict.state == "healthy"
    assert report(pack, moves=True).diagnosis is None


def test_a_job_that_texts_call_degraded_gets_what_may_be_wrong_with_it_and_no_certainty(pack, tmp_path):
    pack("of-a-hang", "requires: [{weight: decisive, find: log, where: {pattern: busy}}]\npatterns: {busy: EBUSY}\n")
    (tmp_path / "log.txt").write_text(
        "[WORKER] Starting job 7\n[WORKER] Error moving log file: Error: EBUSY: rename 'a' -> 'b'\n"
    )
    with open_case([tmp_path / "log.txt"]) as case:
        told = analyze(case, load_rulebook([pack.folder], built_in=False))
    assert (told.verdict.state, told.diagnosis.rule, told.diagnosis.word) == ("degraded", "of-a-hang", "possible")


def test_a_symptom_shows_where_to_look_and_is_no_cause_however_much_speaks_for_it(pack):
    pack("of-a-side", "symptom: true\n" + HANG, title="'on this side'")
    told = report(pack, moves=False)
    assert (told.diagnosis, [(f.rule, f.role) for f in told.findings]) == (None, [("of-a-side", "symptom")])


# --- texts that somebody has pasted ---

IN_A_PASSWORD = """\
Thread 31 (idle): "MainThread"
    _raw_input (getpass.py:140)
    unix_getpass (getpass.py:95)
    main (fit.py:8)
"""
IN_A_CALL = 'Thread 31 (idle): "MainThread"\n    decode_next (frames/reader.py:40)\n    main (fit.py:8)\n'
IN_A_POOL = (
    "Thread 9 (LWP 44):\n#0  pthread_cond_wait () from libpthread.so.0\n#1  blas_thread_server () from libopenblas.so\n"
)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (IN_A_PASSWORD, "waiting"),
        (IN_A_CALL, "hung"),
        (IN_A_CALL.replace("idle", "active"), "unknown"),
        (IN_A_POOL, "unknown"),
    ],
)
def test_a_pasted_stack_says_how_a_job_is_by_its_cause_or_weakly_by_where_it_stands(tmp_path, text, state):
    (tmp_path / "stacks.txt").write_text(text)
    with open_case([tmp_path / "stacks.txt"]) as case:
        verdict = analyze(case).verdict
    assert verdict.state == state, verdict
    assert verdict.confidence <= 0.7


def test_a_look_shows_a_wait_and_the_cause_that_nothing_will_end_it(tmp_path):
    (tmp_path / "log.txt").write_text(CHILD_SLEEPS)
    with open_case([tmp_path / "log.txt"]) as case:
        assert analyze(case).verdict.state == "waiting"
    (tmp_path / "ps.txt").write_text("PID PPID STAT COMMAND\n  71    1 T    python fit.py\n")
    with open_case([tmp_path / "log.txt", tmp_path / "ps.txt"]) as case:
        assert analyze(case).verdict.state == "hung"


def test_a_cause_says_more_than_that_an_error_was_reported(tmp_path):
    (tmp_path / "log.txt").write_text(TASK_FAILED)
    with open_case([tmp_path / "log.txt"]) as case:
        assert analyze(case).verdict.state == "degraded"
    (tmp_path / "tasks.txt").write_text(PENDING)
    with open_case([tmp_path / "log.txt", tmp_path / "tasks.txt"]) as case:
        assert analyze(case).verdict.state == "hung"


BAR = "  3%|▎         | {n}/400 [0{n}:10<6:31:04, 57.70s/it]\n"
STEPS = "".join(BAR.format(n=n) for n in (6, 7, 8))
TIMES = "".join(f"2025-04-11 02:{n}:09 step {n}0 loss 0.4\n" for n in (11, 14, 17))


@pytest.mark.parametrize("log", [STEPS, TIMES], ids=["a bar", "steps that tell the time"])
def test_a_log_that_gets_on_up_to_its_end_is_weakly_healthy_where_nothing_else_is_told(tmp_path, log):
    (tmp_path / "log.txt").write_text(log)
    with open_case([tmp_path / "log.txt"]) as case:
        told = analyze(case)
    assert (told.verdict.state, told.diagnosis) == ("healthy", None)
    assert told.verdict.confidence < 0.4
    assert told.ask  # as nobody knows what came then
    (tmp_path / "stacks.txt").write_text(IN_A_CALL)
    with open_case([tmp_path]) as case:
        assert analyze(case).verdict.state == "hung"


def test_steps_without_a_time_tell_nothing(tmp_path):
    (tmp_path / "log.txt").write_text("step 1 loss 0.4\nstep 2 loss 0.4\nstep 3 loss 0.4\n")
    with open_case([tmp_path / "log.txt"]) as case:
        assert analyze(case).verdict.state == "unknown"


TASK_FAILED = """\
2025-04-11 02:11:09,120 ERROR asyncio Task exception was never retrieved
future: <Task finished name='Task-9' coro=<fill() done, defined at /job/feed.py:12> exception=KeyError('text')>
Traceback (most recent call last):
  File "/job/feed.py", line 19, in fill
    batch = row["text"]
KeyError: 'text'
"""
PENDING = """\
>>> for t in asyncio.all_tasks(loop): print(t)
<Task pending name='Task-1' coro=<main() running at /job/feed.py:40> wait_for=<Future pending cb=[Task.task_wakeup()]>>
<Task pending name='Task-4' coro=<train() running at /job/feed.py:31> wait_for=<Future pending cb=[Task.task_wakeup()]>>
"""
CHILD_SLEEPS = "strace: Process 71 attached\nclock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=5, tv_nsec=0}, \n"
