"""The published JSON Schemas, made from the dataclasses and models themselves: ``docs/schemas/*.json``.

``python -m flatline.analyzer.schemas docs/schemas`` writes them; a test holds the written ones against this.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from flatline.bundle import facts, format

from .findings import Report
from .judge.language import rule_json_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _WithoutTitles(GenerateJsonSchema):
    """A field's name repeated with a capital letter tells nobody anything."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schemas() -> dict[str, dict[str, Any]]:
    """File name -> schema."""
    return {
        "bundle-1.json": _head_schema(),
        "facts-1.json": _facts_schema(),
        "ledger-1.json": _record_schema(format.LedgerEntry, "One probe's entry in the ledger: ledger/NNN-<probe>.json"),
        "manifest-1.json": _record_schema(format.Manifest, "manifest.json, the last member of a bundle"),
        "report-1.json": {
            "$schema": DIALECT,
            **Report.model_json_schema(by_alias=True, mode="serialization", schema_generator=_WithoutTitles),
        },
        "rule-1.json": rule_json_schema(),
    }


def text_of(schema: Mapping[str, Any]) -> str:
    """As it is written to the file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _head_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "$schema": DIALECT,
        "title": "bundle.json, the first member of a bundle",
        "type": "object",
        "required": ["format", "format_version"],
        "properties": {
            "format": {"const": format.FORMAT},
            "format_version": {"type": "string", "pattern": rf"^{format.MAJOR}\.[0-9]+$"},
            "tool_version": text,
            "created_at": {**text, "description": "ISO 8601, UTC"},
        },
    }


def _record_schema(kind: type, title: str) -> dict[str, Any]:
    schema = TypeAdapter(kind).json_schema(schema_generator=_WithoutTitles)
    definitions = described({kind.__name__: schema, **schema.get("$defs", {})}, format)
    return {"$schema": DIALECT, **definitions[kind.__name__], "title": title}


def _facts_schema() -> dict[str, Any]:
    references, definitions = _table_schemas()
    sample = {
        "description": "One line of samples/*.jsonl: a row, and the table it belongs to.",
        "type": "object",
        "required": ["table"],
        "oneOf": [{"properties": {"table": {"const": name}}, **item} for name, item in references.items()],
    }
    return {
        "$schema": DIALECT,
        "title": "A member with typed facts: facts/*.json, stacks/*.json; #/$defs/Sample is a line of samples/*.jsonl",
        "type": "object",
        "required": ["schema", "tables"],
        "properties": {
            "schema": {"type": "string", "pattern": "^flatline/[A-Za-z0-9_.-]+/1$"},
            "tables": {
                "type": "object",
                "properties": {name: {"type": "array", "items": item} for name, item in references.items()},
            },
        },
        "$defs": {**definitions, "Sample": sample},
    }


def _table_schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """(table -> reference to its row, the definitions)."""
    adapters = [(name, "validation", TypeAdapter(kind)) for name, kind in facts.COLLECTED.items()]
    by_name, whole = TypeAdapter.json_schemas(adapters, schema_generator=_WithoutTitles)  # type: ignore[arg-type]
    references = {name: by_name[name, "validation"] for name in facts.COLLECTED}  # type: ignore[index]
    return references, described(whole["$defs"], facts)


def described(definitions: dict[str, Any], module: ModuleType) -> dict[str, Any]:
    """`definitions` with the text that stands below each field in the source as its description."""
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef) or node.name not in definitions:
            continue
        properties = definitions[node.name].get("properties", {})
        for field, below in zip(node.body, node.body[1:]):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, str):
                properties[field.target.id]["description"] = inspect.cleandoc(text)
    return definitions


def main(folder: str) -> None:
    """Write every schema into `folder`."""
    for name, schema in schemas().items():
        (Path(folder) / name).write_text(text_of(schema), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
