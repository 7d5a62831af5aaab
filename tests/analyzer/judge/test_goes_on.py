"""What a job has got over: no rule is sure of a complaint in a log below which the steps go on."""

from collections.abc import Callable
from typing import Any

import pytest
from flatline.analyzer.case import case_of
from flatline.analyzer.derive import derive
from flatline.analyzer.judge.cases import RuleCase, load_cases
from flatline.analyzer.judge.index import FactIndex
from flatline.analyzer.judge.pack import LoadedRule, load_rulebook
from flatline.analyzer.judge.rank import word_for
from flatline.analyzer.judge.samples import sample_store
from flatline.analyzer.judge.verdicts import Fired, judge_rule

STEPS = "".join(f"step {number} | loss {3 - number / 1000:.4f} | 1.52 it/s\n" for number in range(400, 412))
STILL_SO = {
    "cpu-fallback-told": "it is about a job that goes on, without its GPU",
    "collective-mismatch-told": "the watchdog's time-out that shows it ends the job",
    "sharded-state-on-one-rank": "likewise",
    "uneven-inputs": "it hangs after steps that went well",
}


BAR = "  3%|2         | 12/400 [00:14<07:40,  1.18s/it]\n"
ENDS_WITH_AN_ERROR = {
    "collective-check-failed", "ddp-unused-parameters", "duplicate-gpu", "fabric-manager-down", "interface-none-usable",
    "kernel-limit-told", "lock-unsupported-in-log", "master-unreachable-in-log", "peers-missing-in-log", "rank-died",
    "rdma-connect-failed",
}  # fmt: skip

CASES = [
    (rule, case)
    for rule in load_rulebook().rules
    for case in load_cases(rule, [])
    if case.kind == "fires" and set(case.facts) == {"logs"}
]


def _with_below(below: str, rule: LoadedRule, case: RuleCase) -> Fired | None:
    """What the rule says of the case's logs, each with that below it."""
    logs = [{**log, "content": f"{log.get('content', '').rstrip()}\n{below}"} for log in case.facts["logs"]]
    store, text_of = sample_store({"logs": logs}, empty=case.empty)
    if case.derive:
        derive(case_of(store), text_of)
    outcome = judge_rule(rule, FactIndex(store, text_of))
    return outcome if isinstance(outcome, Fired) else None


def _chosen(wanted: Callable[[str], bool]) -> list[Any]:
    return [pytest.param(rule, case, id=f"{rule.id}: {case.name}") for rule, case in CASES if wanted(rule.id)]


@pytest.mark.parametrize(("rule", "case"), _chosen(lambda name: name not in STILL_SO))
def test_no_rule_is_sure_of_what_was_got_over(rule: LoadedRule, case: RuleCase):
    outcome = _with_below(STEPS, rule, case)
    assert outcome is None or word_for(outcome.p) in ("weak hint", "possible")


@pytest.mark.parametrize(("rule", "case"), _chosen(ENDS_WITH_AN_ERROR.__contains__))
def test_a_bar_that_an_error_has_closed_is_drawn_once_more_and_is_no_step(rule: LoadedRule, case: RuleCase):
    assert _with_below(BAR, rule, case) is not None
