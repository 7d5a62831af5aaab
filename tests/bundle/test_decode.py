"""Strict decoding agrees with pydantic's, and reads what a newer collector writes."""

from __future__ import annotations

import copy
import json
import subprocess
import time
import typing
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass

import pytest
from bundle_bytes import GOLDEN
from bundles import make_golden
from programs import real_python
from pydantic import TypeAdapter, ValidationError

from flatline.bundle import facts
from flatline.bundle.decode import DecodeError, decode
from flatline.bundle.facts import TABLES
from flatline.bundle.format import FileEntry, LedgerEntry, Manifest

KINDS = {**TABLES, "manifest": Manifest, "ledger": LedgerEntry, "files": FileEntry}
WRONG = [None, True, 0, -1, 1.5, 2**70, "", "text", "unknown", [], ["a"], [1], [[1]], [None], {}, {"a": "b"}, {"a": 1}]


def example(kind):
    """A value of an annotation, with everything set."""
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{f.name: example(hints[f.name]) for f in fields(kind)})  # type: ignore[operator]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return args[0]
    if origin is tuple:
        return tuple(example(arg) for arg in args if arg is not Ellipsis)
    if origin is Mapping:
        return {example(args[0]): example(args[1])}
    if args:
        return example(args[0])
    return {str: "text", int: 7, float: 0.5, bool: True}[kind]


@pytest.mark.parametrize("name", KINDS)
def test_every_record_comes_back_as_it_was_written(name):
    whole = example(KINDS[name])
    assert decode(KINDS[name], json.loads(json.dumps(asdict(whole)))) == whole


def accepts(check, *args) -> bool:
    try:
        check(*args)
    except (DecodeError, ValidationError):
        return False
    return True


@pytest.mark.parametrize("name", KINDS)
def test_what_is_accepted_is_what_pydantic_accepts(name):
    kind = KINDS[name]
    adapter = TypeAdapter(kind)
    good = json.loads(json.dumps(asdict(example(kind))))
    for field in good:
        for value in [*WRONG, ...]:
            row = copy.deepcopy(good)
            row[field] = value
            if value is ...:
                del row[field]
            text = json.dumps(row)
            theirs = accepts(lambda text: adapter.validate_json(text, strict=True), text)
            ours = accepts(decode, kind, row)
            if ours and not theirs:
                # the one liberty: a word that a newer collector knows reads as "unknown" or "other"
                assert type(value) is str
                assert getattr(decode(kind, row), field) in ("unknown", "other")
                continue
            assert ours == theirs, f"{name}.{field} = {value!r}"
            if ours:
                assert decode(kind, row) == adapter.validate_json(text, strict=True)


def test_unknown_fields_are_ignored():
    assert decode(facts.Rank, {"rank": 3, "mood": "fine"}) == facts.Rank(rank=3)


def test_an_unknown_state_reads_as_unknown():
    assert decode(facts.Process, {"id": "h1/1", "host": "h1", "pid": 1, "state": "Q"}).state == "unknown"


def test_the_refusal_names_the_field():
    with pytest.raises(DecodeError, match="syscall nr wants an integer, is str"):
        decode(facts.Thread, {"id": "a", "process": "b", "pid": 1, "tid": 1, "syscall": {"name": "x", "nr": "1"}})
    with pytest.raises(DecodeError, match="host, pid is missing"):
        decode(facts.Process, {"id": "h1/1"})


def test_a_large_job_is_decoded_in_about_a_second():
    """25,000 rows; the bound is ten times what a slow machine needs."""
    row = json.loads(json.dumps(asdict(make_golden.FACTS["stacks/4242.0.json"]["frames"][0])))  # type: ignore[call-overload]
    started = time.process_time()
    for _ in range(25_000):
        decode(facts.Frame, row)
    assert time.process_time() - started < 10


def test_the_collectors_python_reads_a_bundle_too(tmp_path):
    """On 3.9 ``str | None`` cannot be evaluated; the decoder does not need to."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from flatline.bundle.reader import open_bundle\n"
        "t = open_bundle(sys.argv[2]).tables()\n"
        "print(len(t.rows), t.notes)"
    )
    root = GOLDEN.parents[2]
    done = subprocess.run(
        [real_python("3.9"), "-I", "-S", "-c", code, root, GOLDEN], capture_output=True, text=True, timeout=60
    )
    tables = {name for tables in make_golden.FACTS.values() for name in tables}
    assert done.stdout.split() == [str(len(tables)), "[]"], done.stderr


def test_a_source_line_of_any_length_is_cut_where_the_writer_cuts_it():
    line = decode(facts.SourceLine, {"line": 7, "text": "while not exists(" * 100_000})
    assert len(line.text) == 300
    frame = {"thread": "h1/1/1", "sample": 0, "depth": 0, "function": "f", "source": [{"line": 7, "text": "x" * 10_000}]}
    assert [len(line.text) for line in decode(facts.Frame, frame).source] == [300]
    file = {"path": "/l", "content": None}
    assert decode(facts.File, file).content is None
