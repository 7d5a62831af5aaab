"""Facts rows become JSON-ready dicts without secrets."""

from __future__ import annotations

import json
import time

from flatline.bundle.facts import EnvVar, Frame, Process, SourceLine, Syscall, Thread
from flatline.redaction import Redactor

HF = "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"


def test_environment_rows_are_judged_by_name():
    rows = [EnvVar("h1/1", "DB_PASSWORD", "correct horse"), EnvVar("h1/1", "RANK", "3"), EnvVar("h1/1", "HF_TOKEN")]
    hidden = Redactor().rows("env", rows)
    assert [row.get("value") for row in hidden] == ["⟪password·1⟫", "3", None]
    assert hidden[0]["name"] == "DB_PASSWORD"


def test_argv_is_a_command_line():
    row = Process("h1/1", "h1", 1, argv=("t.py", "--token", "abc1234def"), cwd="/data")
    assert Redactor().rows("processes", [row])[0]["argv"] == ["t.py", "--token", "⟪token·1⟫"]


def test_nested_rows_and_mappings_are_redacted():
    frame = Frame("h1/1/1", 0, 0, "step", source=(SourceLine(7, f"token = '{HF}'"),), locals={"api_key": "x1y2z3w4q5"})
    hidden = Redactor().rows("frames", [frame])[0]
    assert hidden["source"] == [{"line": 7, "text": "token = '⟪hf-token·1⟫'"}]
    assert hidden["locals"] == {"api_key": "⟪api-key·1⟫"}
    assert HF not in json.dumps(hidden)


def test_unknown_and_empty_fields_are_left_out_and_false_stays():
    thread = Thread("h1/1/2", "h1/1", 1, 2, syscall=Syscall("read", 0, (3, 0, 1)))
    hidden = Redactor().rows("threads", [thread])[0]
    assert "wchan" not in hidden
    assert "artefact" not in hidden
    assert hidden["is_main"] is False
    assert hidden["syscall"] == {"name": "read", "nr": 0, "args": [3, 0, 1]}
    assert json.loads(json.dumps(hidden)) == hidden


def test_a_repeated_string_is_counted_each_time():
    redactor = Redactor()
    redactor.rows("frames", [Frame("t", 0, depth, "f", file=f"/x/{HF}") for depth in range(3)])
    assert redactor.counts["hf-token"] == 3


def test_what_is_learnt_between_two_calls_is_not_missed_in_repeated_strings():
    redactor = Redactor()
    frame = Frame("t", 0, 0, "f", file="/x/x8Fk2mQ9zL/a.py")
    assert redactor.rows("frames", [frame])[0]["file"] == "/x/x8Fk2mQ9zL/a.py"
    mark = redactor.learn("password", "x8Fk2mQ9zL")
    assert redactor.rows("frames", [frame])[0]["file"] == f"/x/{mark}/a.py"


def test_many_rows_cost_little_because_their_strings_repeat(monkeypatch):
    redactor = Redactor()
    redactor.learn("token", HF)
    seen = []
    text = redactor.text
    monkeypatch.setattr(redactor, "text", lambda string: seen.append(string) or text(string))
    frames = [Frame(f"h1/1/{n // 50}", 0, n % 50, f"f{n % 300}", file=f"/torch/m{n % 97}.py") for n in range(20_000)]
    begin = time.process_time()
    assert len(redactor.rows("frames", frames)) == 20_000
    assert len(seen) == len(set(seen))
    assert time.process_time() - begin < 10, "about 0.05 s where nothing else runs"
