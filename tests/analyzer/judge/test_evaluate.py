"""Conditions: true, false, unknown, joins, and what counts as evidence."""

import pytest
from flatline.analyzer.judge.pack import load_rulebook
from flatline.analyzer.judge.verdicts import Fired


def rule(requires):
    return f"requires:\n{requires}"


def thread(pid, tid=None, **known):
    return {"pid": pid, "tid": tid or pid, **known}


def outcome(judged, facts, **options):
    return judged(facts, **options).get("made-rule")


@pytest.fixture
def holds(pack, judged):
    """Whether a condition holds on facts: True, False, or None for unknown."""

    def run(condition, facts, *, empty=()):
        pack("made-rule", rule(f"  - {condition}\n"))
        result = outcome(judged, facts, empty=empty)
        return True if isinstance(result, Fired) else False if result is None else None

    return run


@pytest.mark.parametrize(
    ("where", "row", "truth"),
    [
        ("{state: D}", {"state": "D"}, True),
        ("{state: D}", {"state": "S"}, False),
        ("{state: D}", {}, None),
        ("{wchan: {re: '^pipe_'}}", {"wchan": "pipe_write"}, True),
        ("{wchan: {re: '^pipe_'}}", {}, None),
        ("{state: {in: [D, T]}}", {"state": "T"}, True),
        ("{liveness: {in: [frozen, unknown]}}", {}, True),
        ("{liveness: unknown}", {}, True),
        ("{wchan: {contains: ipe}}", {"wchan": "pipe_write"}, True),
        ("{wchan: {starts: pipe, ends: read}}", {"wchan": "pipe_write"}, False),
        ("{wchan: {exists: true}}", {}, False),
        ("{wchan: {exists: false}}", {}, True),
        ("{cpu_ms: {ge: 10, lt: 20}}", {"cpu_ms": 10}, True),
        ("{cpu_ms: {gt: 10}}", {"cpu_ms": 10}, False),
        ("{cpu_ms: {gt: 10}}", {}, None),
        ("{wchan: {gt: 10}}", {"wchan": "12"}, True),
        ("{wchan: {gt: 10}}", {"wchan": "pipe_write"}, None),
        ("{state: {not: {in: [D, T]}}}", {"state": "S"}, True),
        ("{state: {not: D}}", {}, None),
        ("{syscall.name: read, syscall.fd: 0}", {"syscall": {"name": "read", "fd": 0}}, True),
        ("{syscall.fd: 0}", {"syscall": {"name": "read"}}, None),
        ("{is_main: true}", {}, True),
        ("{state: D, wchan: x}", {"state": "S"}, False),
    ],
)
def test_a_field_is_true_false_or_unknown(holds, where, row, truth):
    assert holds(f"{{find: threads, where: {where}}}", {"threads": [thread(1, **row)]}) is truth


def test_a_table_that_was_not_collected_is_unknown_and_an_empty_one_is_not(holds):
    assert holds("{find: gpus}", {}) is None
    assert holds("{find: gpus}", {}, empty=["gpus"]) is False


def test_absence_needs_the_table_to_have_been_collected(holds):
    condition = "{none: locks, where: {kind: flock}}"
    assert holds(condition, {}) is None
    assert holds(condition, {}, empty=["locks"]) is True
    assert holds(condition, {"locks": [{"id": "l", "inode": 1, "kind": "flock"}]}) is False
    assert holds(condition, {"locks": [{"id": "l", "inode": 1, "kind": "posix"}]}) is True


def test_absence_is_unknown_when_a_row_may_be_the_one(holds):
    assert holds("{none: threads, where: {state: D}}", {"threads": [thread(1)]}) is None


def test_a_join_finds_the_row_of_the_bound_one(holds):
    threads = "{find: threads, where: {process: {same: p.id}, state: D}}"
    condition = f"{{find: processes, as: p, where: {{state: S}}, with: [{threads}]}}"
    facts = {
        "processes": [{"pid": 1, "state": "S"}, {"pid": 2, "state": "R"}],
        "threads": [thread(2, state="D"), thread(1, state="S")],
    }
    assert holds(condition, facts) is False
    facts["threads"].append(thread(1, 5, state="D"))
    assert holds(condition, facts) is True


def test_a_node_joins_with_the_thread_it_names(pack, judged):
    pack("made-rule", rule("""\
      - {find: wait_edges, as: e}
      - {find: threads, as: t, where: {id: {same: e.waiter}}}
    """))
    edge = {"waiter": "thread:h1/1/2", "awaited": "process:h1/9", "kind": "child", "strength": "proven"}
    result = outcome(judged, {"wait_edges": [edge], "threads": [thread(1, 2)]})
    assert result.best.bindings["t"].tid == 2


def test_a_row_may_be_compared_with_itself_and_lists_hold_bound_values(pack, judged):
    pack("made-rule", rule("""\
      - {find: processes, as: p, where: {pgrp: {not_same: p.tty_foreground_pgrp}}}
      - {find: files, as: f, where: {holders: {contains: {same: p.id}}}}
    """))
    facts = {
        "processes": [{"pid": 1, "pgrp": 7, "tty_foreground_pgrp": 7}, {"pid": 2, "pgrp": 7, "tty_foreground_pgrp": 8}],
        "files": [{"path": "/a", "holders": ["h1/1"]}, {"path": "/b", "holders": ["h1/2"]}],
    }
    assert outcome(judged, facts).best.bindings["f"].path == "/b"


def test_any_binds_what_the_branch_found(pack, judged):
    pack("made-rule", rule("""\
      - any:
          - {find: threads, as: t, where: {state: D}}
          - {find: threads, as: t, where: {state: T}}
    """))
    assert outcome(judged, {"threads": [thread(1, state="T")]}).best.bindings["t"].pid == 1
    assert outcome(judged, {"threads": [thread(1, state="S")]}) is None


def test_all_inside_any_needs_every_part(holds):
    condition = "any: [{all: [{find: threads, where: {state: D}}, {find: gpus}]}]"
    assert holds(condition, {"threads": [thread(1, state="D")]}, empty=["gpus"]) is False
    assert holds(condition, {"threads": [thread(1, state="D")], "gpus": [{"index": 0}]}) is True


@pytest.mark.parametrize(("least", "truth"), [("2", True), ("3", False), ("50%", True), ("75%", False), ("100%", False)])
def test_so_many_or_such_a_share(holds, least, truth):
    threads = [thread(n, state="D" if n < 3 else "S") for n in range(1, 5)]
    assert holds(f"{{find: threads, at_least: {least}, where: {{state: D}}}}", {"threads": threads}) is truth


def test_a_share_may_be_of_some_rows_only(holds):
    threads = [thread(1, state="D", role="rank"), thread(2, state="S"), thread(3, state="S")]
    assert holds("{find: threads, at_least: 100%, of: {role: rank}, where: {state: D}}", {"threads": threads}) is True


def test_a_share_with_unknown_rows_is_unknown_when_they_decide(holds):
    threads = [thread(1, state="D"), thread(2)]
    assert holds("{find: threads, at_least: 2, where: {state: D}}", {"threads": threads}) is None


def test_a_stack_of_a_thread_that_could_not_be_read_is_unknown(holds):
    condition = "{find: threads, stack: ['pdb.py:interaction']}"
    assert holds(condition, {"threads": [thread(1, stack=["/l/pdb.py:1 interaction"])]}) is True
    assert holds(condition, {"threads": [thread(1, stack=["/l/a.py:1 f"])]}) is False
    assert holds(condition, {"threads": [thread(1)]}) is None
    other = thread(2, stack=["/l/a.py:1 f"])
    assert holds(condition, {"threads": [thread(1), other]}) is None
    native = thread(2, 3)
    assert holds(condition, {"threads": [other, native]}) is False


def test_a_counter_of_a_port_is_asked_for_by_its_name(holds):
    ports = {"rdma_ports": [{"host": "h1", "device": "mlx5_0", "counters": {"local_ack_timeout_err": 300}}]}
    assert holds("{find: rdma_ports, where: {counters.local_ack_timeout_err: {gt: 100}}}", ports) is True
    assert holds("{find: rdma_ports, where: {counters.local_ack_timeout_err: {gt: 900}}}", ports) is False
    assert holds("{find: rdma_ports, where: {counters.packet_seq_err: {gt: 100}}}", ports) is None


def test_the_code_of_a_frame_is_its_own_line(holds):
    frame = {"at": "/a.py:7 f", "code": "x = input('? ')"}
    assert holds(r"{find: frames, where: {code: {re: '\binput\('}}}", {"threads": [thread(1, stack=[frame])]}) is True
    assert holds(r"{find: frames, where: {code: {re: 'nope'}}}", {"threads": [thread(1, stack=["/a.py:7 f"])]}) is None


LOG_RULE = """\
requires:
  - {find: log, as: h, scope: %s, where: {pattern: seen}}
patterns: {seen: 'timeout of rank (?P<who>[0-9]+)'}
"""


@pytest.mark.parametrize(("scope", "fires"), [("all", True), ("tail", True), ("last-line", False)])
def test_a_pattern_is_sought_where_its_scope_says(pack, judged, scope, fires):
    pack("made-rule", LOG_RULE % scope)
    logs = [{"stream": "stdout", "content": "x\ntimeout of rank 3\ny\n"}]
    result = outcome(judged, {"logs": logs})
    assert (result is not None) is fires
    if fires:
        hit = result.best.bindings["h"]
        assert (hit.number, hit.artefact, hit.groups) == (2, "logs/0.log", {"who": 3})


@pytest.mark.parametrize(("least", "fires"), [(2, True), (3, False)])
def test_lines_of_a_log_are_counted_as_rows_are(pack, judged, least, fires):
    pack(
        "made-rule",
        f"requires:\n  - {{find: log, at_least: {least}, where: {{pattern: late}}}}\npatterns: {{late: 'timeout of rank'}}\n",
    )
    logs = [{"stream": "stdout", "content": "timeout of rank 3\nx\ntimeout of rank 4\n"}]
    assert isinstance(outcome(judged, {"logs": logs}), Fired) is fires


def test_a_log_of_which_a_part_was_not_taken_does_not_prove_absence(pack, judged):
    pack("made-rule", "requires:\n  - {none: log, where: {pattern: seen}}\npatterns: {seen: 'timeout'}\n")
    whole = {"stream": "stdout", "content": "all is well\n"}
    assert isinstance(outcome(judged, {"logs": [whole]}), Fired)
    assert outcome(judged, {"logs": [{**whole, "omitted_bytes": 100}]}) == {"logs"}


@pytest.mark.parametrize("before", ["x" * 2_000_000, ""])
def test_one_line_of_megabytes_is_searched_as_many(pack, judged, before):
    """A progress bar without newlines: the parts of 64 KiB are lines."""
    pack("made-rule", LOG_RULE % "all")
    fired = outcome(judged, {"logs": [{"stream": "stdout", "content": before + "timeout of rank 3"}]})
    assert isinstance(fired, Fired)
    hit = fired.best.match.rows[0]
    assert hit.number == len(before) // 65536 + 1
    assert len(hit.text) <= 65536


def test_what_is_missing_is_named(pack, judged):
    pack("made-rule", rule("""\
      - {find: processes, as: p}
      - {find: files, where: {age_s: {gt: p.age_s}}}
    """))
    facts = {"processes": [{"pid": 1}], "files": [{"path": "/a", "age_s": 3.0}]}
    assert outcome(judged, facts) == {"processes.age_s"}


def test_a_rule_that_compares_everything_with_everything_gives_up(pack, judged):
    pack("made-rule", rule("""\
      - {find: threads, as: a}
      - {find: threads, as: b, where: {cpu_ms: {gt: a.cpu_ms}}}
    """))
    threads = [thread(n, cpu_ms=1) for n in range(1, 1200)]
    assert outcome(judged, {"threads": threads}) == {"too many rows to compare"}


def test_a_large_job_costs_no_more_rows_than_can_matter(pack, judged):
    pack("made-rule", rule("""\
      - {find: threads, as: t, where: {state: D}}
      - {find: processes, as: p, where: {id: {same: t.process}}}
      - {none: threads, where: {process: {same: p.id}, state: R}}
    """))
    threads = [thread(pid, pid * 100 + n, state="S") for pid in range(1, 513) for n in range(20)]
    threads[777]["state"] = "D"
    processes = [{"pid": pid} for pid in range(1, 513)]
    assert isinstance(outcome(judged, {"threads": threads, "processes": processes}), Fired)


def test_a_pattern_that_one_rule_wants_at_the_end_of_a_log_and_another_anywhere_is_found_for_both(pack, judged):
    for rule_id, scope in (("at-the-end", "tail"), ("anywhere", "all")):
        pack(rule_id, f"requires: [{{find: log, where: {{pattern: lost}}, scope: {scope}}}]\npatterns: {{lost: lost}}\n")
    assert judged({"logs": [{"stream": "stdout", "content": "lost\n" + "going on\n" * 60}]}).keys() == {"anywhere"}
    assert judged({"logs": [{"stream": "stdout", "content": "going on\nlost\n"}]}).keys() == {"anywhere", "at-the-end"}


def test_only_what_a_rule_wants_anywhere_is_looked_for_in_all_of_a_log(pack):
    body = """\
    requires:
      - {find: log, where: {pattern: at-end}, scope: last-line}
      - {none: log, where: {pattern: at-end}, scope: tail, with: [{find: log, where: {pattern: within}}]}
    contradicts:
      - any: [{find: log, where: {pattern: branch}}, {find: log, where: {pattern: at-end}, scope: tail}]
    patterns: {at-end: "the end", within: within, branch: branch}
    """
    pack("made-rule", body)
    assert [pattern for pattern, _ in load_rulebook([pack.folder], built_in=False).patterns()] == ["within", "branch"]
