"""Typed facts out of a bundle: every table, and what one broken row or member costs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from bundle_bytes import GOLDEN
from bundles import make_golden

from flatline.bundle import facts
from flatline.bundle.reader import open_bundle


def without_place(row):
    return replace(row, artefact="", line=None, pointer=None)


def tables_of(write, members):
    with open_bundle(write({path: data.encode() for path, data in members.items()})) as reader:
        return reader.tables()


def document(**tables) -> str:
    return json.dumps({"schema": "flatline/x/1", "tables": tables})


SINCE_THEN = {"poll_sets", "resource_points"}
"""Tables that came after the golden bundle was made."""


def test_the_golden_bundle_of_1_0_still_gives_every_row():
    with open_bundle(GOLDEN) as reader:
        assert reader.notes == []
        assert reader.manifest == make_golden.manifest(reader.manifest.files)
        assert [entry.path for entry in reader.manifest.files] == list(reader.names[:-3])
        tables = reader.tables()
    assert tables.notes == []
    assert tables.collected == facts.COLLECTED.keys() - SINCE_THEN
    expected = {name: rows for tables in make_golden.FACTS.values() for name, rows in tables.items()}
    assert {name: [without_place(row) for row in rows] for name, rows in tables.rows.items()} == {
        name: [without_place(row) for row in rows] for name, rows in expected.items()
    }


def test_the_golden_bundle_is_what_its_script_writes(tmp_path):
    """As long as nobody changes the format: the members are equal byte by byte."""
    fresh = make_golden.write(tmp_path / "again.flatline.zip")
    with open_bundle(GOLDEN) as committed, open_bundle(fresh) as again:
        ignored = {"manifest.json"} | set(make_golden.FACTS)  # new fields may appear there
        assert committed.names == again.names
        for name in set(committed.names) - ignored:
            assert committed.read(name) == again.read(name), name


def test_a_row_knows_its_place():
    with open_bundle(GOLDEN) as reader:
        rows = reader.tables().rows
        parent = rows["processes"][1]
        assert (parent.artefact, parent.pointer) == ("facts/processes.json", "/tables/processes/1")
        assert reader.json(parent.artefact)["tables"]["processes"][1]["pid"] == parent.pid
        sample = rows["process_samples"][0]
        assert (sample.artefact, sample.line) == ("samples/processes.0.jsonl", 2)
        assert json.loads(list(reader.lines(sample.artefact))[sample.line - 1])["table"] == "process_samples"


def test_a_row_that_names_its_own_place_keeps_it(write):
    row = asdict(facts.LogLine(log="logs/a", text="x", artefact="logs/a", line=7))
    tables = tables_of(write, {"facts/a.json": document(log_lines=[row])})
    assert tables.rows["log_lines"] == [facts.LogLine(log="logs/a", text="x", artefact="logs/a", line=7)]


def test_an_empty_table_is_collected_and_a_missing_one_is_not(write):
    tables = tables_of(write, {"facts/a.json": document(gpus=[])})
    assert tables.collected == {"gpus"}
    assert tables.rows == {"gpus": []}


def test_bad_rows_are_dropped_counted_and_told(write):
    rows = [{"rank": 0, "group": "g"}, {"rank": "zero"}, {"rank": "one"}, 7]
    tables = tables_of(write, {"facts/a.json": document(collectives=rows)})
    assert [row.rank for row in tables.rows["collectives"]] == [0]
    assert "facts/a.json: a row of collectives was dropped: rank wants an integer, is str (2 times)" in tables.notes
    assert "facts/a.json: a row that is no JSON object was dropped (1 times)" in tables.notes


def test_unknown_fields_and_tables_of_a_newer_collector_are_told(write):
    newer = document(phases=[{"process": "h1/1", "name": "x", "colour": "red"}], dreams=[{"a": 1}], chains=[{"id": "c"}])
    tables = tables_of(write, {"facts/a.json": newer})
    assert len(tables.rows["phases"]) == 1
    assert tables.collected == {"phases"}  # chains are the analyzer's own: a bundle cannot bring them
    text = " ".join(tables.notes)
    assert "fields of phases that this version does not know" in text
    assert "unknown table 'dreams'" in text
    assert "unknown table 'chains'" in text


def test_one_broken_member_costs_only_itself(write):
    tables = tables_of(
        write,
        {
            "facts/nan.json": '{"schema": "flatline/x/1", "tables": {"gpus": [NaN]}}',
            "facts/half.json": '{"schema": "flatline/x/1", "tab',
            "facts/list.json": "[]",
            "facts/newer.json": '{"schema": "flatline/x/2", "tables": {}}',
            "facts/odd.json": '{"schema": "flatline/x/1", "tables": {"gpus": {"a": 1}}}',
            "samples/a.0.jsonl": '{"table": "log_samples", "path": "/a", "sample": 0, "mono_ns": 1}\n{"tab\n[]\n\n',
            "facts/good.json": document(phases=[{"process": "h1/1", "name": "x"}]),
        },
    )
    assert [row.name for row in tables.rows["phases"]] == ["x"]
    assert [row.path for row in tables.rows["log_samples"]] == ["/a"]
    text = "\n".join(tables.notes)
    for member in ("nan", "half", "list", "newer", "odd"):
        assert f"facts/{member}.json" in text
    assert "samples/a.0.jsonl: a row that is no JSON object was dropped (2 times)" in text


def test_too_many_facts_stop_the_loading_not_the_machine(write, monkeypatch):
    monkeypatch.setattr("flatline.bundle.tables.MAX_ROWS", 10)
    lines = "".join(json.dumps({"table": "log_samples", "path": "/a", "sample": n, "mono_ns": n}) + "\n" for n in range(99))
    tables = tables_of(write, {"samples/a.0.jsonl": lines, "samples/b.0.jsonl": lines})
    assert len(tables.rows["log_samples"]) == 10
    assert any("the facts are too many" in note for note in tables.notes)


def test_a_line_without_end_does_not_fill_the_memory(write):
    with open_bundle(write({"logs/a": b"x" * 1_000_000 + b"\nlast"})) as reader:
        lines = list(reader.lines("logs/a"))
    assert max(len(line) for line in lines) == 64 * 1024
    assert "".join(lines) == "x" * 1_000_000 + "last"
    assert lines[-1] == "last"


def test_a_hook_may_decode_in_place_of_the_built_in(write):
    bundle = write({"facts/a.json": document(phases=[{"process": "h1/1", "name": "x"}]).encode()})
    with open_bundle(bundle) as reader:
        tables = reader.tables(decode=lambda kind, row: (kind, row["name"]))
    assert tables.rows["phases"] == [(facts.Phase, "x")]
