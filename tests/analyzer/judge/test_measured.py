"""What a pack's calibration.json says, and what is believed of it."""

import json

import pytest
from flatline.analyzer.findings import Measured
from flatline.analyzer.judge import measured, rank
from flatline.analyzer.judge.measured import Calibration, parse_calibration
from flatline.analyzer.judge.pack import built_in_folder, load_pack

BODY = "requires: [{weight: strong, find: threads, where: {state: D}}]\n"
RECORD = {"fired": 9, "named": 7, "right": 6, "wrong_confident": 1}


def written(**changes):
    words = {"likely": {"said": 40, "right": 40, "is_confirmed": True}}
    data = {"schema": measured.SCHEMA, "pack": "ours 1", "cases": 50, "slope": 0.8, "offset": -0.5, "words": words, "figures": {}, "rules": {"made-rule": RECORD}}
    return json.dumps(data | changes)


def test_the_built_in_calibration_speaks_of_rules_that_exist():
    calibration = measured.built_in()
    assert calibration is not None
    assert calibration.cases > 100
    known = {path.stem for path in built_in_folder().rglob("*.yaml")}
    assert set(calibration.rules) <= known


def test_a_pack_brings_the_record_of_its_rules(pack):
    pack("made-rule", BODY)
    pack("newer-rule", BODY)
    (pack.folder / "calibration.json").write_text(written())
    rules = {rule.id: rule for rule in load_pack(pack.folder).rules}
    assert rules["made-rule"].measured == Measured(cases=50, named=7, right=6)
    assert rules["newer-rule"].measured is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is broken in line 1"),
        (written(slope=float("nan")), "calibration.json:1:1: "),
        (written(slope=-1), "slope: "),
        (written(offset=1e9), "offset: "),
        (written(cases=-3), "cases: "),
        (written(rules={"made-rule": {}}), "rules.made-rule.fired: "),
        (written(more=1), "more: "),
        (written(schema="flatline-calibration/2"), "schema: "),
        ("[" * 100_000, "nested"),
        (" " * 2_000_000, "1 MB"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_calibration_that_is_not_in_order_costs_only_itself(pack, text, says):
    pack("made-rule", BODY)
    path = pack.folder / "calibration.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    loaded = load_pack(pack.folder)
    assert [rule.id for rule in loaded.rules] == ["made-rule"]
    assert says in str(loaded.problems[0])


def scale(monkeypatch, **changes):
    calibration = parse_calibration(written(**changes), "file")
    assert isinstance(calibration, Calibration)
    monkeypatch.setattr(measured, "built_in", lambda: calibration)


def test_confirmed_words_are_said_by_the_fitted_odds(monkeypatch):
    scale(monkeypatch, slope=2.0, offset=1.0)
    assert measured.probability(1.0) == rank.probability(1.0, 2.0, 1.0)


def test_until_the_words_are_confirmed_the_more_careful_odds_hold(monkeypatch):
    doubtful = {"likely": {"said": 2, "right": 2, "is_confirmed": False}}
    scale(monkeypatch, slope=2.0, offset=1.0, words=doubtful)
    assert measured.probability(1.0) == rank.probability(1.0)
    scale(monkeypatch, slope=0.5, offset=-1.0, words=doubtful)
    assert measured.probability(1.0) == rank.probability(1.0, 0.5, -1.0)


def test_without_a_calibration_the_odds_are_taken_as_they_are(monkeypatch):
    monkeypatch.setattr(measured, "built_in", lambda: None)
    assert measured.probability(1.0) == rank.probability(1.0)
