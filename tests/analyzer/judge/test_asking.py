"""What is asked for next, of texts that do not decide."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.findings import Report
from flatline.analyzer.intake.opening import open_case
from flatline.analyzer.judge.questions import QUESTIONS, WORDS_OF_FAMILY
from flatline.analyzer.reports import render

from flatline.bundle.facts import COLLECTED, DERIVED

WATCHDOG = "[rank0]:[E411 02:10:07 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=71, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600051 milliseconds before timing out.\n"
DUMP = """\
Process 4120: python fit.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 4120 (idle): "MainThread"
    fetch (fit.py:12)
    <module> (fit.py:40)
"""


def report_of(tmp_path: Path, **texts: str) -> Report:
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    with open_case([tmp_path]) as case:
        return analyze(case)


def test_stacks_are_asked_for_first_where_only_a_log_is_at_hand(tmp_path: Path) -> None:
    report = report_of(tmp_path, log=WATCHDOG)
    assert "py-spy dump" in report.ask[0].command
    assert {"collective-mismatch", "collective-rank-conditional"} <= set(report.ask[0].causes)


def test_a_question_says_which_rules_its_answer_decides(tmp_path: Path) -> None:
    decided = [rule for ask in report_of(tmp_path, log=WATCHDOG).ask for rule in ask.would_decide]
    assert len(decided) == len(set(decided)) > 10


def test_what_is_at_hand_is_not_asked_for_again(tmp_path: Path) -> None:
    commands = [ask.command for ask in report_of(tmp_path, dump=DUMP).ask]
    assert commands
    assert not commands[0].startswith("py-spy")


def test_the_block_names_the_process_that_the_texts_name(tmp_path: Path) -> None:
    assert "\nPID=4120 " in report_of(tmp_path, dump=DUMP).request


def test_the_block_names_the_only_process_whatever_it_runs(tmp_path: Path) -> None:
    trace = "strace: Process 77 attached\nrestart_syscall(<... resuming interrupted read ...>"
    assert "\nPID=77 " in report_of(tmp_path, trace=trace).request


def test_the_block_names_none_of_several_that_may_not_be_the_jobs(tmp_path: Path) -> None:
    traces = "[pid 77] futex(0x7f00, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>\n" * 2
    other = traces.replace("77", "91")
    assert "\nPID=NUMBER " in report_of(tmp_path, one=traces, other=other).request


def test_the_block_holds_every_command_and_is_a_script(tmp_path: Path) -> None:
    report = report_of(tmp_path, log=WATCHDOG)
    assert all(ask.command in report.request for ask in report.ask)
    assert subprocess.run(["sh", "-n"], input=report.request, text=True, timeout=20, check=False).returncode == 0


def test_of_a_job_that_has_ended_the_whole_log_is_asked_for_and_nothing_that_needs_it(tmp_path: Path) -> None:
    report = report_of(tmp_path, log="step 1 loss 0.1\nRuntimeError: bad batch\nsee above\n")
    assert report.verdict.state == "crashed"
    assert "the whole log of every rank" in report.ask[0].what
    assert not any(ask.needs_job for ask in report.ask)
    assert "PID" not in report.request.split("\n")[1]


def test_nothing_is_asked_of_a_job_that_is_not_stuck(tmp_path: Path) -> None:
    report = report_of(tmp_path, log="WARNING  Torch reports CUDA not available\n")
    assert (report.verdict.state, report.ask, report.request) == ("degraded", [], "")


def test_nothing_is_asked_once_a_cause_is_likely(tmp_path: Path) -> None:
    report = report_of(tmp_path, log='Traceback (most recent call last):\n  File "fit.py", line 3\nValueError: bad\n')
    assert report.diagnosis is not None
    assert report.diagnosis.word in ("likely", "very likely")
    assert report.ask == []


def test_the_report_says_what_it_took_the_texts_for(tmp_path: Path) -> None:
    kinds = {
        one.kind: (one.parts, one.lines, one.sources) for one in report_of(tmp_path, a=DUMP, b="hello\n").recognised
    }
    assert kinds["py-spy-dump"] == (1, 6, ["a.txt"])
    assert kinds["log"] == (1, 1, ["b.txt"])


@pytest.mark.parametrize("name", ["text", "md", "html", "json"])
def test_every_format_shows_the_questions_and_the_block(tmp_path: Path, name: str) -> None:
    (tmp_path / "log.txt").write_text(WATCHDOG)
    with open_case([tmp_path]) as case:
        report = analyze(case)
        shown = render(name, report, case)
    assert "py-spy dump --nonblocking --subprocesses --pid $PID" in shown
    assert "log of c10d" in shown or '"recognised"' in shown


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.what[:30])
def test_a_question_gives_tables_that_exist_by_a_command_that_a_shell_reads(question) -> None:
    tables = {*COLLECTED, *DERIVED, "log"}
    assert all(any(table == gives.partition(".")[0].rstrip("*") for table in tables) for gives in question.gives)
    assert subprocess.run(["sh", "-n"], input=question.command, text=True, timeout=20, check=False).returncode == 0


def test_every_family_of_rules_has_its_words() -> None:
    families = {path.name for path in (Path(__file__).parents[3] / "rules").iterdir() if path.is_dir()} - {
        "__pycache__"
    }
    assert families - {"none"} <= set(WORDS_OF_FAMILY)
