"""From programs that deadlock on locks to the named cause, by the commands a user types."""

from __future__ import annotations

import shutil

import pytest
from end_to_end_support import cause_of, word_of
from programs import real_python

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def steps_of(report):
    return report["chains"][report["chain"]]["steps"]


@pytest.mark.parametrize(("lock", "version"), [("Lock", "3.13"), ("RLock", "3.9")])
def test_a_lock_inherited_by_fork_is_named_and_nobody_can_release_it(lock, version, stuck, diagnose):
    report, _ = diagnose(stuck("fork_inherited_lock", python=real_python(version), env={"LOCK": lock}))
    assert (cause_of(report), word_of(report)) == ("fork-inherited-lock", "very likely")
    assert report["verdict"]["state"] == "hung"
    last = [step for step in steps_of(report) if step["waits_on"]][-1]
    assert (last["waits_on"]["node"], last["strength"]) == ("nobody:", "proven")


@pytest.mark.parametrize(("lock", "word", "strength"), [("Lock", "likely", "strong"), ("RLock", "very likely", "proven")])
def test_locks_taken_crosswise_are_proven_only_where_memory_names_their_owners(lock, word, strength, stuck, diagnose):
    report, _ = diagnose(stuck("thread_deadlock", env={"LOCK": lock}))
    assert (cause_of(report), word_of(report)) == ("thread-deadlock", word)
    assert report["chains"][report["chain"]]["end"]["kind"] == "cycle"
    assert {step["strength"] for step in steps_of(report)} == {strength}


def test_a_lock_whose_owner_was_killed_is_likely_but_not_proven(stuck, diagnose):
    report, _ = diagnose(stuck("lock_owner_died"))
    assert (cause_of(report), word_of(report)) == ("lock-owner-died", "likely")


@needs_cc
@pytest.mark.parametrize(("how", "cause"), [("crosswise", "native-deadlock"), ("dead-owner", "lock-owner-died")])
def test_mutexes_of_native_code_are_named_without_any_stack(how, cause, stuck, diagnose):
    report, _ = diagnose(stuck("native_deadlock", env={"HOW": how}))
    assert (cause_of(report), word_of(report)) == (cause, "very likely")
