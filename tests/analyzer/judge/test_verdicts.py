"""Rules against each other: causes above symptoms, caps, and who comes first."""

import pytest

THREADS = [{"pid": 1, "tid": 1, "state": "D", "liveness": "frozen"}]
FIRES = """\
requires:
  - {weight: strong, group: a, find: threads, as: t, where: {state: D}}
  - {weight: strong, group: b, find: threads, where: {liveness: frozen}}
"""


def test_a_cause_puts_what_it_explains_beneath_itself(pack, judged):
    pack("cause", FIRES + "explains: [symptom]\n")
    pack("symptom", FIRES)
    fired = judged({"threads": THREADS})
    assert fired["symptom"].explained_by == "cause"
    assert list(fired) == ["cause", "symptom"]


def test_a_cause_on_another_host_explains_nothing_here(pack, judged):
    pack("cause", "requires: [{weight: decisive, find: mounts, as: m, where: {path: /x}}, {find: threads, as: t, where: {process: h2/1}}]\nexplains: [symptom]\n")
    pack("symptom", "requires: [{weight: decisive, find: threads, as: t, where: {process: h1/1}}]\n")
    facts = {
        "threads": [{"pid": 1, "tid": 1}, {"pid": 1, "tid": 1, "id": "h2/1/1", "process": "h2/1"}],
        "mounts": [{"path": "/x"}],
    }
    assert judged(facts)["symptom"].explained_by is None


def test_a_cause_too_doubtful_to_be_one_explains_nothing(pack, judged):
    pack("cause", "requires: [{weight: weak, find: threads, where: {state: D}}]\ncontradicts: [{weight: strong, find: threads, where: {liveness: frozen}}]\nexplains: [symptom]\n")
    pack("symptom", FIRES)
    fired = judged({"threads": THREADS})
    assert fired["symptom"].explained_by is None
    assert list(fired) == ["symptom", "cause"]


def test_what_is_only_possible_hides_nothing_that_is_very_likely(pack, judged):
    pack("cause", "requires: [{weight: weak, find: threads, where: {state: D}}]\ncontradicts: [{weight: weak, find: threads, where: {state: D}}]\nexplains: [symptom]\n")
    pack("symptom", FIRES + "supports: [{weight: decisive, group: c, find: threads, where: {state: D}}]\n")
    fired = judged({"threads": THREADS})
    assert fired["symptom"].p >= 0.9 > 0.7 > fired["cause"].p
    assert fired["symptom"].explained_by is None


def test_what_is_refuted_is_not_shown_at_all(pack, judged):
    pack("refuted", FIRES + "contradicts: [{weight: decisive, find: threads, where: {liveness: frozen}}, {weight: strong, group: c, find: threads, where: {state: D}}]\n")
    pack("doubted", FIRES + "contradicts: [{weight: strong, find: threads, where: {liveness: frozen}}]\n")
    assert list(judged({"threads": THREADS})) == ["doubted"]


def test_no_heap_of_evidence_makes_up_for_what_is_decisive_against_it(pack, judged):
    heap = FIRES + "supports: [{weight: decisive, group: c, find: threads, where: {state: D}}]\n"
    pack("sure", heap)
    against = "contradicts: [{weight: decisive, group: d, find: threads, where: {liveness: frozen}}]\n"
    pack("contradicted", heap + against)
    fired = judged({"threads": THREADS})
    assert fired["sure"].p >= 0.9 > 0.7 > fired["contradicted"].p


def test_a_superseded_rule_is_hidden(pack, judged):
    pack("precise", FIRES + "supersedes: [vague]\n")
    pack("vague", FIRES)
    assert judged({"threads": THREADS})["vague"].hidden


@pytest.mark.parametrize(("status", "highest"), [("stable", 0.9), ("experimental", 0.7)])
def test_an_experimental_rule_is_possible_at_most(pack, judged, status, highest):
    pack("made-rule", FIRES, status=status)
    assert judged({"threads": THREADS})["made-rule"].p < highest


def test_a_deprecated_rule_is_not_asked(pack, judged):
    pack("made-rule", FIRES, status="deprecated")
    assert judged({"threads": THREADS}) == {}


def test_one_kind_of_evidence_alone_is_possible_at_most(pack, judged):
    pack("made-rule", "requires:\n  - {weight: strong, group: a, find: threads, where: {state: D}}\n")
    assert judged({"threads": THREADS})["made-rule"].p < 0.7


def test_only_a_proven_wait_makes_it_very_likely(pack, judged):
    pack("made-rule", FIRES + "supports: [{weight: weak, find: wait_edges, where: {strength: proven}}]\n")
    edge = {"waiter": "thread:h1/1/1", "awaited": "nobody:", "kind": "futex"}
    assert judged({"threads": THREADS, "wait_edges": [{**edge, "strength": "strong"}]})["made-rule"].p < 0.9
    assert judged({"threads": THREADS, "wait_edges": [{**edge, "strength": "proven"}]})["made-rule"].p >= 0.9


def test_evidence_that_could_not_be_had_takes_nothing_away_and_is_named(pack, judged):
    pack("made-rule", FIRES + "supports: [{weight: strong, find: kernel_events}]\n")
    fired = judged({"threads": THREADS})["made-rule"]
    assert fired.best.unchecked == {"kernel_events"}
    assert fired.p > 0.8


def test_the_strongest_witness_speaks_and_the_others_follow(pack, judged):
    pack("made-rule", """\
requires: [{weight: medium, group: a, find: threads, as: t, where: {state: D}}]
supports: [{weight: strong, group: b, find: threads, where: {id: {same: t.id}, liveness: frozen}}]
""")
    threads = [{"pid": 1, "tid": 1, "state": "D"}, {"pid": 2, "tid": 2, "state": "D", "liveness": "frozen"}]
    witnesses = judged({"threads": threads})["made-rule"].witnesses
    assert [witness.bindings["t"].pid for witness in witnesses] == [2, 1]


def test_a_rule_that_breaks_costs_no_other_answer(pack, monkeypatch):
    from flatline.analyzer.judge import verdicts
    from flatline.analyzer.judge.index import FactIndex
    from flatline.analyzer.judge.pack import load_rulebook
    from flatline.analyzer.judge.samples import sample_store

    pack("bad", FIRES)
    pack("good", FIRES)
    judge_rule = verdicts.judge_rule

    def breaking(rule, index, solver):
        if rule.id == "bad":
            raise ZeroDivisionError("made up")
        return judge_rule(rule, index, solver)

    monkeypatch.setattr(verdicts, "judge_rule", breaking)
    store, _ = sample_store({"threads": THREADS})
    judgement = verdicts.judge(load_rulebook([pack.folder], built_in=False).rules, FactIndex(store))
    assert [outcome.rule.id for outcome in judgement.fired] == ["good"]
    assert [(rule.id, why) for rule, why in judgement.broken] == [("bad", "ZeroDivisionError: made up")]
