"""A rule that is not well-formed: every fault in one run, each with file, line and column."""

import json

from flatline.analyzer.judge.language import parse_rule, rule_json_schema
from flatline.analyzer.judge.yaml_source import read_document

FAULTY = """\
id: a-b
version: 1
status: stable
cause: x
title: t
why: w
requires:
  - weight: heavy
    find: threads
    where: {state: T, rank: {az: 1}, pid: {same: nodot}}
    with:
      - none: 7
      - any:
        - {find: a, wher: {}}
fix: [a]
action: a
not_this_when: b
"""


def test_every_fault_is_named_at_its_place():
    problems = parse_rule(read_document(FAULTY, "f.yaml"))
    assert isinstance(problems, list)
    lines = [str(problem) for problem in problems]
    assert any(line.startswith("f.yaml:8:13: requires.0.weight") for line in lines)
    assert "f.yaml:10:30: az: there is no such key here" in lines
    assert any(line.startswith("f.yaml:10:50: requires.0.where.pid.same") for line in lines)
    assert any(line.startswith("f.yaml:12:15: requires.0.with.0.none") for line in lines)
    assert "f.yaml:14:21: wher: there is no such key here" in lines
    assert "f.yaml:1:1: confirm: is missing" in lines
    assert len(lines) == 6


def test_a_version_that_yaml_reads_as_a_float_is_refused():
    problems = parse_rule(read_document(FAULTY.replace("version: 1", "version: 1.0"), "f.yaml"))
    assert any(str(p).startswith("f.yaml:2:10") for p in problems)


def test_the_schema_describes_what_authors_write():
    schema = rule_json_schema()
    json.dumps(schema)
    assert schema["additionalProperties"] is False
    assert {"requires", "supports", "explains", "zh"} <= set(schema["properties"])
    assert "as" in schema["$defs"]["Find"]["properties"]
