"""From a really stuck process along the chain to its end, by the commands a user types: the cause, and how each step is
known."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path

import pytest
from end_to_end_support import Outcome, cause_of, outcomes, word_of
from programs import FIXTURES

HUNG, STUCK = {"hung"}, {"hung", "waiting"}
SURE, LIKELY = {"very likely"}, {"likely", "very likely"}
CHAINS = [
    # program (and its variables), cause, how sure, verdicts, the chain that carries it: kinds and strengths of its steps
    ("event_thread_ended", "waits-for-ended-thread", SURE, HUNG, [("futex", "proven")]),
    ("lock_taken_twice", "thread-deadlock", LIKELY, HUNG, [("futex", "strong")]),
    ("lock_not_given_back", "thread-deadlock", LIKELY, HUNG, [("futex", "proven")]),
    ("config_missing", "config-path-missing", SURE, HUNG, [("futex", "proven")]),
    ("node_bad_parameters", "config-path-missing", SURE, HUNG, [("futex", "proven")]),
    ("queue_not_drained", "queue-not-drained", SURE, HUNG,
     [("child", "proven"), ("thread-join", "strong"), ("pipe-write", "proven")]),
    ("queue_full_between_processes", "process-deadlock", LIKELY, HUNG, [("pipe-read", "strong"), ("futex", "suggested")]),
    ("both_ends_write", "process-deadlock", LIKELY, HUNG, [("socket-write", "proven"), ("socket-write", "proven")]),
    ("pool_result_unreadable", "dataloader-exception-lost", LIKELY, HUNG, [("futex", "strong")]),
    ("asyncio_child_unread", "output-pipe-full", SURE, HUNG, []),
    ("queue_worker_killed", "worker-died", SURE, HUNG, [("pipe-read", "proven")]),
    ("pool_worker_killed", "worker-died", LIKELY, HUNG, [("worker", "strong")]),
    ("future_of_dead_pool", "fork-dead-thread-pool", SURE, HUNG, [("child", "proven"), ("futex", "proven")]),
    ("database_locked", "database-locked", SURE, STUCK, [("file-lock", "strong")]),
    ("awaits_nothing", "async-never-completes", SURE, HUNG, [("poll", "proven")]),
    ("loop_waits_for_itself", "async-never-completes", LIKELY, HUNG, [("futex", "proven")]),
    ("exit_waits_for_thread", "exit-blocked", LIKELY, STUCK, [("thread-join", "strong"), ("timer", "proven")]),
    ("exit_waits_for_child", "exit-blocked", LIKELY, STUCK, [("child", "proven"), ("signal", "proven")]),
    ("file_never_appears", "file-never-appears", LIKELY, STUCK, [("resource", "strong")]),
    ("own_lock_file", "lock-file-stale", LIKELY, STUCK, [("lock-file", "proven")]),
    ("fifo_no_peer", "fifo-no-peer", SURE, STUCK, [("fifo-open", "proven")]),
    ("server_never_answers", "network-no-response", SURE, STUCK, [("socket-read", "proven")]),
    ("connect_unanswered", "network-unreachable", SURE, STUCK, [("socket-connect", "proven")]),
    ("import_asks_network", "import-network-wait", SURE, STUCK, [("socket-read", "proven")]),
    ("import_joins_thread", "import-deadlock", SURE, HUNG, [("thread-join", "strong"), ("futex", "strong")]),
    ("loader_worker_blocked", "dataloader-worker-stuck", LIKELY, HUNG, [("worker", "strong"), ("futex", "strong")]),
    ("forked_openmp", "fork-dead-thread-pool", SURE, HUNG, [("child", "proven"), ("futex", "proven")]),
    ("gloo_mismatch", "collective-mismatch", SURE, HUNG, [("collective", "strong"), ("collective", "strong")]),
    ("rendezvous_short", "rendezvous-peers-missing", LIKELY, STUCK, [("rendezvous", "strong")]),
    ("rendezvous_nobody", "rendezvous-master-unreachable", LIKELY, STUCK, [("rendezvous", "strong")]),
    ("gloo_mismatch, ONLY_RANK_0=1", "collective-rank-conditional", LIKELY, STUCK,
     [("collective", "strong"), ("signal", "proven")]),
]  # fmt: skip
TORCH = frozenset({"loader_worker_blocked", "forked_openmp", "gloo_mismatch", "rendezvous_short", "rendezvous_nobody"})
AT_ONCE, WINDOW_S = 4, 1.0


def program_of(name: str) -> str:
    return name.partition(",")[0]


def is_here(name: str) -> bool:
    if name.startswith("node"):
        return shutil.which("node") is not None
    return program_of(name) not in TORCH or find_spec("torch") is not None


def path_of(name: str) -> Path:
    return FIXTURES / "stuck" / f"{program_of(name)}{'.js' if name.startswith('node') else '.py'}"


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, Future[Outcome]]:
    """Every program of the table, run once."""
    programs = {
        name: (path_of(name), dict(v.split("=") for v in name.split(", ")[1:]))
        for name, *_ in CHAINS
        if is_here(name)
    }
    return outcomes(programs, tmp_path_factory.mktemp("chains"), window=WINDOW_S, at_once=AT_ONCE)


@pytest.mark.parametrize(("program", "cause", "words", "verdicts", "steps"), CHAINS, ids=[row[0] for row in CHAINS])
def test_the_chain_leads_to_the_cause(program, cause, words, verdicts, steps, found) -> None:
    if program not in found:
        pytest.skip("needs torch, or node")
    outcome = found[program].result()
    report = outcome.report
    assert cause_of(report) == cause, [report["verdict"], [(f["rule"], f["role"], f["word"]) for f in report["findings"]]]
    assert word_of(report) in words
    assert report["verdict"]["state"] in verdicts
    chain = report["chains"][report["chain"]]
    told = [(step["waits_on"]["kind"], step["strength"]) for step in chain["steps"] if step["waits_on"]]
    assert told[: len(steps)] == steps, chain["text"]
    assert all(item["quote"] for step in chain["steps"] for item in step["evidence"])
    assert not outcome.changed, "collecting changed the target"


def test_a_launcher_is_followed_into_what_it_started(found) -> None:
    report = found["future_of_dead_pool"].result().report
    chain = report["chains"][report["chain"]]
    assert len({step["pid"] for step in chain["steps"] if step["pid"]}) == 2


def test_a_condition_around_a_collective_is_told(found) -> None:
    if "gloo_mismatch, ONLY_RANK_0=1" not in found:
        pytest.skip("needs torch, or node")
    report = found["gloo_mismatch, ONLY_RANK_0=1"].result().report
    finding = next(f for f in report["findings"] if f["role"] == "root-cause")
    assert "`if dist.get_rank() == 0:`" in finding["title"]
