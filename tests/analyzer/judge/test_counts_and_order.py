"""Two conditions about many rows: how many there are, and which line of a log stands before which."""

import math

import pytest
from flatline.analyzer.judge.counts import CountTest, distinct_range
from flatline.analyzer.judge.describe import head
from flatline.analyzer.judge.lint import lint
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.texts import render
from flatline.analyzer.judge.verdicts import Fired

RANKS_MISSING = """\
requires:
  - {find: env, as: e, where: {name: WORLD_SIZE}}
  - {find: processes, distinct: rank, count: {lt: e.value, ge: 1}, where: {role: rank}}
"""


@pytest.mark.parametrize(
    ("operator", "least", "most", "truth"),
    [
        ("lt", 2, 2, True), ("lt", 2, 4, None), ("lt", 3, 3, False), ("lt", 5, math.inf, False), ("lt", 0, math.inf, None),
        ("le", 3, 3, True), ("le", 3, 4, None), ("le", 4, 4, False),
        ("gt", 4, 4, True), ("gt", 3, 3, False), ("gt", 3, 4, None), ("gt", 4, math.inf, True),
        ("ge", 3, math.inf, True), ("ge", 1, 2, False), ("ge", 1, 3, None),
        ("same", 3, 3, True), ("same", 2, 3, None), ("same", 4, 9, False), ("same", 0, 2, False),
        ("not_same", 3, 3, False), ("not_same", 4, 9, True), ("not_same", 1, 5, None),
    ],
)  # fmt: skip
def test_a_comparison_is_as_sure_as_the_number_is_known(operator, least, most, truth):
    assert CountTest(((operator, 3),)).truth(least, most, {}) is truth


def test_a_limit_that_nobody_knows_leaves_it_unknown():
    test = CountTest((("lt", "e.value"), ("ge", 1)))
    assert test.truth(2, 2, {}) is None
    assert test.truth(0, 0, {}) is False


def test_different_values_are_counted_once_and_unread_ones_may_be_new():
    assert distinct_range([(1, True), (1, True), (2, False)], blind=False) == (1, 2)
    assert distinct_range([(1, True), (None, True)], blind=False) == (1, 2)
    assert distinct_range([(1, True)], blind=True) == (1, math.inf)
    assert distinct_range([((1, 2), True), ((1, 2), True), ({}, True)], blind=False) == (2, 2)


@pytest.fixture
def outcome(pack, judged):
    def run(body, facts, *, title="'title'", empty=()):
        pack("made-rule", body, title=title)
        return judged(facts, empty=empty).get("made-rule")

    return run


def rank(pid, number):
    return {"pid": pid, "role": "rank", **({} if number is None else {"rank": number})}


COUNTED = """\
requires:
  - {find: limits, as: l, where: {name: nproc}}
  - {find: processes, distinct: rank, count: {as: n, lt: l.soft, ge: 1}, where: {role: rank}}
"""


@pytest.mark.parametrize(
    ("ranks", "wanted", "fires"),
    [
        ([0, 1, 1], 3, True),
        ([0, 1, 2], 3, False),
        ([0, 1, None], 3, None),
        ([0, 1, None], 4, True),
        ([], 3, False),
        ([0, 1], None, None),
    ],
)
def test_a_count_is_held_against_what_a_bound_row_says(outcome, ranks, wanted, fires):
    limit = {"process": "h1/9", "name": "nproc", **({} if wanted is None else {"soft": wanted})}
    facts = {"limits": [limit], "processes": [rank(n, r) for n, r in enumerate(ranks, 1)] or [{"pid": 1, "role": "shell"}]}
    found = outcome(COUNTED, facts)
    assert (True if isinstance(found, Fired) else None if found else False) is fires


def test_a_count_of_what_was_not_collected_is_unknown_and_names_it(outcome):
    assert outcome(COUNTED, {"limits": [{"process": "h1/9", "name": "nproc", "soft": 3}]}) == {"processes"}


def test_a_count_names_the_field_that_nobody_could_read(outcome):
    facts = {"limits": [{"process": "h1/9", "name": "nproc", "soft": 2}], "processes": [rank(1, 0), rank(2, None)]}
    assert outcome(COUNTED, facts) == {"processes.rank"}


def test_a_number_may_be_a_variable_of_the_environment(outcome):
    facts = {"env": [{"process": "h1/1", "name": "WORLD_SIZE", "value": "3"}], "processes": [rank(1, 0), rank(2, 1)]}
    assert isinstance(outcome(RANKS_MISSING, facts), Fired)
    facts["env"][0]["value"] = "2"
    assert outcome(RANKS_MISSING, facts) is None
    facts["env"][0]["value"] = "auto"
    assert outcome(RANKS_MISSING, facts) == {"env.value"}


def test_no_row_at_all_may_be_what_is_wanted(outcome):
    body = "requires:\n  - {find: gpus, count: {lt: 1}}\n"
    assert isinstance(outcome(body, {}, empty=["gpus"]), Fired)
    assert outcome(body, {"gpus": [{"index": 0}]}) is None
    assert outcome(body, {}) == {"gpus"}


def test_a_text_can_say_the_number(outcome):
    facts = {"limits": [{"process": "h1/9", "name": "nproc", "soft": 8}], "processes": [rank(1, 0), rank(2, 1)]}
    found = outcome(COUNTED, facts)
    assert render("{n.count} of {l.soft} ranks", found.best.bindings, None) == "2 of 8 ranks"
    assert len(found.best.match.rows) == 3


def test_each_row_may_have_conditions_of_its_own(outcome):
    body = """\
requires:
  - find: processes
    as: p
    with: [{find: threads, where: {process: {same: p.id}, state: D}}]
    count: {ge: 2}
"""
    facts = {"processes": [{"pid": 1}, {"pid": 2}], "threads": [{"pid": 1, "tid": 1, "state": "D"}]}
    assert outcome(body, facts) is None
    facts["threads"].append({"pid": 2, "tid": 2, "state": "D"})
    assert isinstance(outcome(body, facts), Fired)


def test_lines_of_a_log_are_counted_by_what_they_name(outcome):
    body = """\
requires:
  - {find: log, where: {pattern: joined}, distinct: who, count: {same: 2}}
patterns: {joined: 'rank (?P<who>[0-9]+) joined'}
"""
    log = {"stream": "stdout", "content": "rank 1 joined\nrank 2 joined\nrank 1 joined\n"}
    assert isinstance(outcome(body, {"logs": [log]}), Fired)
    assert outcome(body, {"logs": [{**log, "omitted_bytes": 9}]}) == {"logs"}
    many = {"stream": "stdout", "content": "rank 1 joined\n" * 300}
    assert outcome(body, {"logs": [many]}) == {"logs"}


# --- order ---

AFTER = """\
requires:
  - {find: log, as: a, where: {pattern: first}}
  - {find: log, as: b, after: a, where: {pattern: second}}
patterns: {first: 'server silent', second: 'server answers'}
"""
UNRESOLVED = """\
requires:
  - {find: log, as: a, where: {pattern: first}}
  - {none: log, after: a, where: {pattern: second}}
patterns: {first: 'server silent', second: 'server answers'}
"""
SILENT, ANSWERS = "server silent\n", "server answers\n"


def log(*lines, **known):
    return {"stream": "stdout", "content": "".join(lines), **known}


@pytest.mark.parametrize(
    ("logs", "in_order", "unresolved"),
    [
        ([log(SILENT, ANSWERS)], True, False),
        ([log(ANSWERS, SILENT)], False, True),
        ([log(ANSWERS, SILENT, ANSWERS)], True, False),
        ([log(SILENT, ANSWERS, SILENT)], True, True),
        ([log(SILENT), log(ANSWERS)], False, True),
        ([log(ANSWERS)], False, False),
        ([log(SILENT * 500, ANSWERS)], True, False),
        ([log(SILENT, "x\n" * 500, ANSWERS * 500, SILENT)], True, True),
    ],
)
def test_a_line_stands_after_another_of_the_same_log(outcome, logs, in_order, unresolved):
    assert isinstance(outcome(AFTER, {"logs": logs}), Fired) is in_order
    found = outcome(UNRESOLVED, {"logs": logs})
    assert isinstance(found, Fired) is unresolved or found == {"logs"}


def test_before_is_the_other_way_round(outcome):
    body = AFTER.replace("after: a", "before: a")
    assert outcome(body, {"logs": [log(SILENT, ANSWERS)]}) is None
    found = outcome(body, {"logs": [log("x\n", ANSWERS, SILENT)]})
    assert (found.best.bindings["a"].number, found.best.bindings["b"].number) == (3, 2)


def test_between_two_lines(outcome):
    body = """\
requires:
  - {find: log, as: a, where: {pattern: first}}
  - {find: log, as: c, after: a, where: {pattern: last}}
  - {none: log, after: a, before: c, where: {pattern: second}}
patterns: {first: 'server silent', second: 'server answers', last: 'gave up'}
"""
    assert isinstance(outcome(body, {"logs": [log(SILENT, "gave up\n", ANSWERS)]}), Fired)
    assert outcome(body, {"logs": [log(SILENT, ANSWERS, "gave up\n")]}) is None


def test_two_parts_of_one_text_are_two_logs(outcome):
    text = SILENT + ANSWERS
    whole = {"stream": "stdout", "text": "pasted/0", "content": text, "text_first": 1, "text_last": 1}
    other = {"stream": "stdout", "text": "pasted/0", "content": text, "text_first": 2, "text_last": 2}
    found = outcome(AFTER, {"logs": [whole, other]})
    assert not isinstance(found, Fired) or found.best.bindings["a"].log is found.best.bindings["b"].log


def test_what_was_not_collected_or_not_all_of_it_leaves_the_order_unknown(outcome):
    assert outcome(AFTER, {}) == {"logs"}
    assert outcome(UNRESOLVED, {}) == {"logs"}
    assert outcome(UNRESOLVED, {"logs": [log(SILENT, omitted_bytes=5)]}) == {"logs"}
    assert outcome(AFTER, {"logs": [log(SILENT, omitted_bytes=5)]}) == {"logs"}


def test_more_lines_than_are_kept_do_not_prove_that_none_follows(outcome):
    """The first 200 hits and the tail are kept; one in between may be the one that is sought."""
    logs = [log(ANSWERS * 300, SILENT, ANSWERS, "x\n" * 100)]
    assert not isinstance(outcome(UNRESOLVED, {"logs": logs}), Fired)


# --- what lint says, and how a condition is told ---


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("{find: threads, after: a, where: {state: D}}", "only lines of a log are after another"),
        ("{find: log, before: t, where: {pattern: first}}", "'t' is no line of a log that was bound before"),
        ("{none: log, after: nobody, where: {pattern: first}}", "'nobody' is no line of a log that was bound before"),
        ("{find: threads, distinct: nope, count: {lt: 3}}", "threads rows have no field 'nope'"),
        ("{find: threads, count: {lt: nobody.pid}}", "'nobody' is bound by no condition before this one"),
        ("{find: threads, count: {lt: t.nope}}", "threads rows have no field 'nope'"),
        ("{find: threads, count: {}}", "a count is compared with something"),
        ("{find: threads, count: {as: n}}", "a count is compared with something"),
        ("{find: threads, count: {lt: 3}, at_least: 2}", "one of them is enough"),
        ("{find: threads, distinct: pid}", "distinct belongs to count"),
        ("{find: threads, count: {lt: .nan}}", "count.lt"),
    ],
)
def test_lint_names_the_fault(pack, condition, says):
    head = "requires:\n  - {find: log, as: a, where: {pattern: first}}\n  - {find: threads, as: t}\n"
    path = pack("made-rule", f"{head}  - {condition}\npatterns: {{first: 'server silent'}}\n")
    faults = [str(fault) for fault in lint(load_rulebook([pack.folder], built_in=False)).errors if says in fault.message]
    assert faults, condition
    assert faults[0].startswith(f"{path}:14:")


def test_a_counted_row_is_bound_only_inside_its_condition(pack):
    pack("made-rule", "requires:\n  - {find: threads, as: t, count: {as: n, lt: 3}}\n", title="'{t.pid} {n.count} {n.rows}'")
    messages = [fault.message for fault in lint(load_rulebook([pack.folder], built_in=False)).errors]
    assert "{t.pid}: 't' is bound by no condition" in messages
    assert "count rows have no field 'rows'" in messages
    assert not [message for message in messages if "n.count" in message]


def test_a_condition_is_told_in_words(pack):
    pack("made-rule", AFTER + "supports:\n  - {weight: weak, find: threads, distinct: pid, count: {as: n, lt: 3}}\n")
    model = load_rulebook([pack.folder], built_in=False).rules[0].model
    assert head(model.requires[1]) == "find log as b: pattern = second; after a"
    assert head(model.supports[0]) == "find a number (n) < 3 of different pid of threads"


def test_a_text_says_at_least_where_there_may_be_more_than_were_counted(outcome):
    body = """\
requires:
  - {find: log, where: {pattern: late}, count: {as: n, ge: 3}}
patterns: {late: 'too late'}
"""
    for lines, says in ((3, "3 times"), (199, "199 times"), (200, "at least 200 times"), (900, "at least 200 times")):
        found = outcome(body, {"logs": [{"stream": "stdout", "content": "too late\n" * lines}]})
        assert render("{n.count} times", found.best.bindings, None) == says


def test_whether_a_job_got_on_is_told_by_the_end_of_its_log_however_often_it_did_before(outcome):
    body = """\
requires:
  - {find: log, as: l, where: {pattern: lost}}
  - {none: log, after: l, where: {pattern: goes-on}, scope: tail}
patterns: {lost: 'connection lost', goes-on: 'step \\d'}
"""
    steps, other = "step 1\n" * 300, "nothing\n" * 60
    assert outcome(body, {"logs": [{"stream": "stdout", "content": steps + "connection lost\n" + steps}]}) is None
    assert isinstance(outcome(body, {"logs": [{"stream": "stdout", "content": steps + "connection lost\n" + other}]}), Fired)
