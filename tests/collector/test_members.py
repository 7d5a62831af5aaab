"""Items become members: redacted, and nothing in them that a reader would refuse."""

from __future__ import annotations

import json

import pytest
from flatline.collector.files.log_text import member_name
from flatline.collector.probes.interface import Artefact, Facts
from flatline.collector.supervision.members import MemberMaker, is_safe_path

from flatline.bundle import facts
from flatline.redaction import Redactor

SECRET = "kV8qT2zR5wLm9XcB"


@pytest.fixture
def maker() -> MemberMaker:
    redactor = Redactor()
    redactor.learn("password", SECRET)
    return MemberMaker("logs", redactor)


def test_bytes_that_are_no_text_are_spelled_out_and_a_secret_among_them_is_hidden(maker: MemberMaker):
    member = maker.artefact(Artefact("logs/0.log", b"\xff\x00 " + SECRET.encode() + b" \xc3\xa4", original_bytes=30))
    assert member.data.decode() == "\\xff\x00 ⟪password·1⟫ ä"
    assert (member.redactions, member.original_bytes, member.probe) == (1, 30, "logs")


def test_the_place_a_member_came_from_is_redacted(maker: MemberMaker):
    assert maker.artefact(Artefact("logs/0.log", "", original_path=f"/log/{SECRET}\udcff")).original_path == (
        "/log/⟪password·1⟫\\xff"
    )


def test_a_members_name_that_holds_a_secret_becomes_a_number(maker: MemberMaker):
    paths = [maker.artefact(Artefact(f"logs/{SECRET}.{n}.log", "")).path for n in range(2)]
    assert paths == ["logs/hidden-name-logs-1.log", "logs/hidden-name-logs-2.log"]


@pytest.mark.parametrize("base", ["password=aB3+dE6%x=.log", "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.log", "tok" * 20 + "-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"])
def test_the_name_that_a_member_was_made_of_decides_and_rows_follow_it(base: str):
    maker, named = MemberMaker("logs", Redactor()), member_name(1, f"/job/{base}")
    member = maker.artefact(Artefact(named, "step 1", original_path=f"/job/{base}"))
    assert member.path == "logs/hidden-name-logs-1.txt"
    row = json.loads(maker.facts(Facts("facts/logs.json", {"logs": [facts.Log("file", text=named)]})).data)["tables"]["logs"][0]
    assert row["text"] == member.path


def test_a_json_lines_member_has_one_row_a_line_with_its_table(maker: MemberMaker):
    rows = {
        "log_samples": [facts.LogSample(path=f"/log/{SECRET}", sample=0, mono_ns=5, size=7)],
        "process_samples": [facts.ProcessSample(process="h1/1", sample=0, mono_ns=6)],
    }
    lines = maker.facts(Facts("samples/logs.0.jsonl", rows)).data.decode().splitlines()
    assert json.loads(lines[0]) == {
        "table": "log_samples", "path": "/log/⟪password·1⟫", "sample": 0, "mono_ns": 5, "size": 7
    }  # fmt: skip
    assert json.loads(lines[1])["table"] == "process_samples"


def test_what_is_not_a_number_is_unknown_and_odd_bytes_stay_readable(maker: MemberMaker):
    rows = {"hosts": [facts.Host(host="h1", load_1m=float("nan"), uptime_s=1.0, kernel="6.\udcfe\ud800")]}
    text = maker.facts(Facts("facts/host.json", rows)).data.decode()
    (row,) = json.loads(text)["tables"]["hosts"]
    assert (row["load_1m"], row["uptime_s"], row["kernel"]) == (None, 1.0, "6.\\xfe\\ud800")


@pytest.mark.parametrize("path", ["raw/ps.txt", "stacks/4242.0.json", "logs/a+b=c@d,e~f-g.log", "x"])
def test_plain_paths_are_safe(path: str):
    assert is_safe_path(path)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a/./b", "a//b", "a/", "a\\b", "a b", "ä", "a\n", "C:x"])
def test_paths_that_could_leave_the_bundle_are_not(path: str):
    assert not is_safe_path(path)
