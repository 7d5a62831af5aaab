"""The cases beside the rules have logs of a few lines; those of jobs have thousands before anything goes wrong."""

import copy

import pytest
from flatline.analyzer.judge.cases import load_cases, run_case
from flatline.analyzer.judge.pack import load_rulebook

BOOK = load_rulebook()
STEPS = "".join(f"step {number} loss 2.{number}\n" for number in range(1000, 1300))
"""More lines than are kept of one pattern, and than the end of a log has."""
NEVER_BEGAN = {"launched-on-one-node"}
"""Rules of jobs that have not met: steps in any log say otherwise."""
FIRES = [
    pytest.param(rule, case, id=f"{rule.id}-{number}")
    for rule in BOOK.rules
    if rule.id not in NEVER_BEGAN
    for number, case in enumerate(load_cases(rule, []))
    if case.kind == "fires" and any(log.get("content") for log in case.facts.get("logs", []))
]


@pytest.mark.parametrize(("rule", "case"), FIRES)
def test_a_rule_speaks_as_well_when_the_job_had_made_steps_before(rule, case):
    facts = copy.deepcopy(case.facts)
    for log in facts["logs"]:
        if log.get("content"):
            log["content"] = STEPS + log["content"]
    assert run_case(rule, case.model_copy(update={"facts": facts}), BOOK) == ""
