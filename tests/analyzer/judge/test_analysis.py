"""From facts to the report: roles, words, gaps and the exit code a script sees."""

from __future__ import annotations

import pytest
from flatline.analyzer.analysis import analyze
from flatline.analyzer.case import case_of
from flatline.analyzer.commands.analyze import exit_code
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.samples import sample_store

BOOK = load_rulebook()
PLACE = {"artefact": "facts/processes.json", "pointer": "/tables/processes/0"}
STOPPED = {
    "processes": [{"pid": 11, "relation": "target", "state": "T", "stop_signal": 19, "is_python": True, **PLACE}],
    "threads": [{"pid": 11, "tid": 11, "state": "T"}],
}


def report_on(facts, *, empty=(), book=BOOK):
    return analyze(case_of(sample_store(facts, empty=empty)[0]), book)


def sampled(*, user_ms, lines):
    """A thread seen twice, 2 s apart."""
    thread = "h1/11/11"
    return {
        "processes": [{"pid": 11, "relation": "target", "state": "S", "is_python": True}],
        "threads": [{"pid": 11, "tid": 11, "state": "S", "syscall": {"name": "read", "fd": 0}}],
        "thread_samples": [
            {"thread": thread, "sample": n, "mono_ns": n * 2 * 10**9, "state": "S", "user_ms": ms, "system_ms": 0,
             "voluntary": n, "involuntary": 0} for n, ms in enumerate(user_ms)
        ],
        "frames": [
            {"thread": thread, "sample": n, "depth": 0, "function": f"f{line}", "file": "/job/train.py", "line_no": line,
             "is_user": True, "source": [{"line": line, "text": "input('? ')"}]} for n, line in enumerate(lines)
        ],
        "logs": [{"stream": "stdout", "writers": ["h1/11"], "last_line": "Continue? ", "ends_with_newline": False}],
    }  # fmt: skip


def test_a_stopped_job_has_its_root_cause_with_evidence():
    report = report_on(STOPPED)
    finding = report.diagnosis
    assert (report.verdict.state, finding.cause, finding.word) == ("hung", "stopped-by-signal", "very likely")
    assert finding.evidence[0].artefact == "facts/processes.json"
    assert finding.evidence[0].pid == 11
    assert finding.pack.startswith("built-in 1 (sha256")
    assert finding.action
    assert finding.fix
    assert finding.confirm
    assert set(finding.zh) >= {"title", "summary", "fix"}
    assert exit_code(report) == 10


def test_a_job_that_moves_has_no_root_cause_even_where_a_rule_fires():
    report = report_on(sampled(user_ms=[0, 1500], lines=[7, 8]))
    assert report.verdict.state in ("healthy", "slow")
    assert report.diagnosis is None
    assert all(finding.word in ("possible", "weak hint") for finding in report.findings)
    assert exit_code(report) == 0


def test_the_same_facts_in_a_job_that_stands_still_are_the_cause():
    report = report_on(sampled(user_ms=[0, 0], lines=[7, 7]))
    assert report.diagnosis.cause == "interactive-prompt"


def test_a_gap_names_the_rules_it_would_have_decided():
    facts = {
        "processes": [{"pid": 11, "relation": "target", "state": "S", "is_python": True}],
        "threads": [{"pid": 11, "tid": 11, "state": "S", "syscall": {"name": "read", "fd": 0, "timed": False}}],
        "gaps": [{"table": "frames", "probe": "stacks", "status": "denied", "hint": "--cap-add SYS_PTRACE"}],
    }
    report = report_on(facts)
    assert report.diagnosis is None
    assert "interactive-prompt" in report.undecided
    decided = next(gap.would_decide for gap in report.gaps if gap.probe == "stacks")
    assert {"debugger-prompt", "interactive-prompt"} <= set(decided)
    assert exit_code(report) == 11


def test_nothing_at_all_is_undecided_and_no_guess():
    report = report_on({})
    assert (report.verdict.state, report.findings) == ("unknown", [])
    assert exit_code(report) == 11


def test_a_crash_counts_as_something_found():
    report = report_on({"processes": [{"pid": 11, "relation": "target", "state": "Z", "exit_status": 1}]})
    assert report.verdict.state == "crashed"
    assert exit_code(report) == 10


def test_a_rule_that_could_not_be_loaded_is_in_the_report(pack):
    pack("good", "requires: [{weight: strong, find: threads}]\n")
    pack("bad", "requires: 7\n")
    report = report_on(STOPPED, book=load_rulebook([pack.folder]))
    assert any(gap.probe == "rules" and "bad.yaml:11:11" in gap.message for gap in report.gaps)
    assert report.diagnosis.cause == "stopped-by-signal"


def test_of_two_that_speak_equally_both_are_named(pack):
    both = """\
requires:
  - {weight: strong, group: a, find: processes, as: p, where: {state: T}}
  - {weight: strong, group: b, find: threads, where: {state: T}}
"""
    pack("first", both)
    pack("second", both.replace("requires", "excludes: []\nrequires"))
    path = pack.folder / "causes.yaml"
    path.write_text(path.read_text() + '- {id: another, family: made, title: "Another"}\n')
    second = pack.folder / "made" / "second.yaml"
    second.write_text(second.read_text().replace("cause: made-up", "cause: another"))
    report = report_on(STOPPED, book=load_rulebook([pack.folder], built_in=False))
    assert ["Undecided between" in finding.summary for finding in report.findings] == [True, True]


@pytest.mark.parametrize("value", ["\x1b[2J", "a\nb", "\u202eevil"])
def test_what_a_hostile_job_calls_itself_stays_one_printable_line(value):
    facts = {**STOPPED, "processes": [{**STOPPED["processes"][0], "argv": [value]}]}
    title = report_on(facts).diagnosis.title
    assert title.isprintable()


def test_two_faults_in_different_processes_are_two_causes_and_no_rivals():
    facts = {
        "processes": [
            {"pid": 11, "relation": "target", "state": "T", "stop_signal": 19, "is_python": True, "rank": 0},
            {"pid": 12, "relation": "target", "state": "T", "stop_signal": 21, "is_python": True, "rank": 1, "tty": "pts/1",
             "pgrp": 12, "tty_foreground_pgrp": 7},
        ],
        "threads": [{"pid": 11, "tid": 11, "state": "T"}, {"pid": 12, "tid": 12, "state": "T"}],
    }  # fmt: skip
    report = report_on(facts)
    roots = {finding.rule: finding.summary for finding in report.findings if finding.role == "root-cause"}
    assert set(roots) == {"stopped-by-signal", "stopped-by-terminal"}
    assert not any("Undecided between" in summary for summary in roots.values())


def test_a_fault_beside_the_jobs_own_wait_contributes_and_is_no_cause():
    facts = {
        "processes": [
            {"pid": 11, "relation": "target", "state": "T", "stop_signal": 19, "is_python": True, "role": "rank"},
            {"pid": 12, "ppid": 11, "relation": "descendant", "state": "S", "role": "tracker-service"},
        ],
        "threads": [
            {"pid": 11, "tid": 11, "state": "T"},
            {"pid": 12, "tid": 12, "state": "S", "syscall": {"name": "read", "fd": 0, "timed": False},
             "stack": [{"at": "/job/helper.py:3 main", "code": "input('? ')", "user": True}]},
        ],
    }  # fmt: skip
    roles = {finding.rule: finding.role for finding in report_on(facts).findings}
    assert roles.pop("stopped-by-signal") == "root-cause"
    assert roles["interactive-prompt"] == "contributing"
    assert "root-cause" not in roles.values()
