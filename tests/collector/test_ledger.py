"""How a probe's end reads in the ledger."""

from __future__ import annotations

import time
from typing import Any

import pytest
from faults.misbehaving_probes import probe
from flatline.collector.probes.interface import Gap, View
from flatline.collector.supervision import ledger
from flatline.collector.supervision.child import Child, Job

from flatline.redaction import Redactor


def entry(**facts: Any):
    child = Child(Job(probe("quick"), View(()), target="h1/7"), Redactor(), pid=4_194_305, last_word=True)
    child.began_ns = time.monotonic_ns()
    for name, value in facts.items():
        setattr(child, name, value)
    return ledger.entry(child, child.began_ns + 1_500_000_000)


def test_a_probe_without_gaps_is_ok():
    ended = entry(members=1, kept_bytes=10, exit_code=0)
    assert (ended.status, ended.seconds, ended.bytes, ended.target, ended.message) == ("ok", 1.5, 10, "h1/7", "")


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"gaps": [Gap("denied", "a"), Gap("timeout", "b")]}, "timeout"),
        ({"gaps": [Gap("absent", "a"), Gap("denied", "b")]}, "denied"),
        ({"gaps": [Gap("denied", "a")], "members": 1}, "partial"),
        ({"gaps": [Gap("denied", "a")], "results": [1]}, "partial"),
        ({"error": "ValueError"}, "error"),
        ({"last_word": False, "members": 3}, "error"),
        ({"stopped": "timeout", "last_word": False, "members": 3}, "timeout"),
        ({"stopped": "interrupted", "last_word": False}, "skipped"),
        ({"stopped": "interrupted", "last_word": False, "members": 1}, "partial"),
        ({"stopped": "flooded", "last_word": False, "members": 1}, "error"),
        ({"stopped": "not-started", "pid": 0, "last_word": False}, "skipped"),
        ({"stopped": "not-started", "pid": 0, "error": "no process left"}, "error"),
    ],
)
def test_the_status_says_how_it_ended(facts: dict[str, Any], status: str):
    assert entry(**facts).status == status


def test_the_same_gap_of_many_processes_is_told_once_and_many_different_ones_are_counted():
    same = [Gap("denied", "no ptrace", "add CAP_SYS_PTRACE") for _ in range(40)]
    ended = entry(gaps=[*same, *(Gap("timeout", "no answer", target=f"h1/{n}") for n in range(9))], more_gaps=3)
    assert ended.message == (
        "no ptrace; pid 0: no answer; pid 1: no answer; pid 2: no answer; pid 3: no answer; and 8 more"
    )
    assert ended.hint == "add CAP_SYS_PTRACE"


def test_an_endless_message_is_cut():
    assert len(entry(gaps=[Gap("error", "x" * 100_000)]).message) < 1000


def test_a_partial_entry_names_the_tables_its_gaps_name_and_a_broken_one_all_of_the_probes():
    gaps = [Gap("denied", "a", tables=("threads", "fds")), Gap("denied", "b", tables=("fds",))]
    assert entry(gaps=gaps, members=1).tables == ("fds", "threads")
    assert entry(gaps=gaps, members=1, stopped="timeout").tables == ("processes",)
