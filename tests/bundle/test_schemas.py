"""The published JSON Schemas are made from the records, and what is written obeys them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bundle_bytes import GOLDEN
from flatline.analyzer.schemas import schemas, text_of
from jsonschema import Draft202012Validator, ValidationError

from flatline.bundle.format import BUNDLE_JSON, MANIFEST
from flatline.bundle.reader import open_bundle

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def validator(name: str, part: str = "") -> Draft202012Validator:
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return Draft202012Validator({"$ref": part, "$defs": schema["$defs"]} if part else schema)


def test_the_written_schemas_are_what_the_records_say():
    """Else: python -m flatline.analyzer.schemas docs/schemas"""
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert written == {name: text_of(schema) for name, schema in schemas().items()}


@pytest.mark.parametrize("name", [path.name for path in FOLDER.glob("*.json")])
def test_each_is_a_schema(name):
    Draft202012Validator.check_schema(json.loads((FOLDER / name).read_text(encoding="utf-8")))


def test_every_member_of_a_bundle_obeys_its_schema():
    seen = set()
    with open_bundle(GOLDEN) as reader:
        for name in reader.names:
            folder = name.partition("/")[0]
            if name in (BUNDLE_JSON, MANIFEST):
                validator(f"{folder.partition('.')[0]}-1.json").validate(reader.json(name))
            elif folder in ("facts", "stacks", "ledger"):
                validator(f"{folder.replace('stacks', 'facts')}-1.json").validate(reader.json(name))
            elif folder == "samples":
                for line in reader.lines(name):
                    validator("facts-1.json", "#/$defs/Sample").validate(json.loads(line))
            else:
                continue
            seen.add(folder)
    assert seen == {BUNDLE_JSON, MANIFEST, "facts", "stacks", "samples", "ledger"}


def test_a_wrong_row_does_not():
    wrong = {"schema": "flatline/x/1", "tables": {"processes": [{"id": "h1/1", "host": "h1", "pid": "one"}]}}
    with pytest.raises(ValidationError):
        validator("facts-1.json").validate(wrong)
    with pytest.raises(ValidationError):
        validator("facts-1.json", "#/$defs/Sample").validate({"table": "log_samples", "path": 1})


def test_fields_are_described():
    facts = json.loads((FOLDER / "facts-1.json").read_text(encoding="utf-8"))
    assert "CLOCK_MONOTONIC" not in facts["$defs"]["Frame"]["properties"]["thread"].get("description", "")
    assert "Field 22 of stat" in facts["$defs"]["Process"]["properties"]["start_ticks"]["description"]
