"""What a job has got over: no rule is sure of a complaint in a log below which the steps go on."""

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


def _from_logs_alone() -> list[tuple[LoadedRule, RuleCase]]:
    rules = [rule for rule in load_rulebook().rules if rule.id not in STILL_SO]
    return [(r, c) for r in rules for c in load_cases(r, []) if c.kind == "fires" and set(c.facts) == {"logs"}]


@pytest.mark.parametrize(("rule", "case"), _from_logs_alone(), ids=lambda value: getattr(value, "id", ""))
def test_no_rule_is_sure_of_what_was_got_over(rule: LoadedRule, case: RuleCase):
    logs = [{**log, "content": f"{log.get('content', '').rstrip()}\n{STEPS}"} for log in case.facts["logs"]]
    store, text_of = sample_store({"logs": logs}, empty=case.empty)
    if case.derive:
        derive(case_of(store), text_of)
    outcome = judge_rule(rule, FactIndex(store, text_of))
    assert not isinstance(outcome, Fired) or word_for(outcome.p) in ("weak hint", "possible")
