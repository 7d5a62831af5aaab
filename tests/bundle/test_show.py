"""`flatline show`: the listing, one member, and terminals that a member cannot steer."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from bundle_bytes import GOLDEN, Raw, raw_zip

from flatline.bundle.format import MANIFEST
from flatline.visible import visible

SHOW = [sys.executable, "-m", "flatline", "show"]


def run(*args, text: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run([*SHOW, *map(str, args)], capture_output=True, text=text, timeout=60)


def on_terminal(*args) -> bytes:
    """What a terminal would be sent."""
    master, terminal = pty.openpty()
    try:
        done = subprocess.run([*SHOW, *map(str, args)], stdout=terminal, stderr=terminal, timeout=60)
        os.close(terminal)
        sent = b""
        try:
            while piece := os.read(master, 65536):
                sent += piece
        except OSError:  # EIO: the other end is closed
            pass
    finally:
        os.close(master)
    assert done.returncode == 0
    return sent


def test_the_listing_tells_when_what_and_how_it_went():
    out = run(GOLDEN).stdout
    for words in (
        "golden-1.0.flatline.zip: flatline bundle 1.0",
        "2026-01-01T00:00:04.500Z by flatline 0.1.0 on h1, Linux 6.1.0 x86_64",
        "called as    flatline collect --pid 4242",
        "target       pid 4242 (rank)",
        "complete     yes",
        "sensitivity  redacted; redaction complete",
        "denied     0.25 s  probe-3 h1/4242      it was denied",
        "hint: sudo flatline collect --pid 4242",
        "16  logs           logs/train.log",
    ):
        assert words in out


def test_of_an_unredacted_bundle_no_redaction_is_called_complete(tmp_path):
    manifest = {"format_version": "1.0", "complete": True, "sensitivity": "UNREDACTED", "redaction": "complete"}
    bundle = tmp_path / "job.zip"
    bundle.write_bytes(raw_zip(Raw(MANIFEST, json.dumps(manifest).encode())))
    out = run(bundle).stdout
    assert "sensitivity  UNREDACTED; nothing is hidden" in out
    assert "redaction complete" not in out


def test_a_truncated_bundle_is_listed_with_a_note(tmp_path):
    cut = tmp_path / "cut.flatline.zip"
    cut.write_bytes(GOLDEN.read_bytes()[:5000])
    out = run(cut).stdout
    assert "note         the zip is truncated" in out
    assert "complete     no" in out


def test_json_is_for_programs():
    listing = json.loads(run(GOLDEN, "--json").stdout)
    assert listing["schema"] == "flatline-show/1"
    assert listing["members"][0]["path"] == "bundle.json"
    assert [entry["status"] for entry in listing["manifest"]["ledger"]][:2] == ["ok", "partial"]


def test_a_member_goes_to_a_pipe_byte_by_byte(write):
    data = bytes(range(256)) * 3
    assert run(write({"raw/odd": data}), "raw/odd", text=False).stdout == data


def test_a_member_cannot_steer_the_terminal(write):
    bundle = write({"logs/a": "\x1b]0;owned\x07 \u202eevil\x9b2J\r\n日本 fine\ttab\n".encode()})
    sent = on_terminal(bundle, "logs/a")
    assert b"\x1b" not in sent
    assert b"\\x1b]0;owned\\x07 \\u202eevil\\x9b2J\\x0d" in sent
    assert "日本 fine".encode() in sent


def test_json_is_indented_on_a_terminal_and_as_it_is_in_a_pipe(write):
    data = b'{"threads":[{"name":"\\u001b[2J","wchan":"futex"}]}'
    bundle = write({"facts/threads.json": data, "facts/cut.json": data[:20]})
    sent = on_terminal(bundle, "facts/threads.json").decode().replace("\r", "").splitlines()
    assert sent[:4] == ["{", ' "threads": [', "  {", '   "name": "\\u001b[2J",']
    assert on_terminal(bundle, "facts/cut.json").rstrip() == data[:20]
    assert run(bundle, "facts/threads.json", text=False).stdout == data


def test_what_a_ledger_says_cannot_either(tmp_path):
    entry = {"probe": "x\x1b[2J", "status": "error", "message": "\x1b[31mred"}
    bundle = tmp_path / "job.flatline.zip"
    bundle.write_bytes(raw_zip(Raw(MANIFEST, json.dumps({"ledger": [entry]}).encode())))
    sent = on_terminal(bundle)
    assert b"\x1b" not in sent
    assert b"\\x1b[31mred" in sent


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["/gone.zip"], 20, "No such file"),
        (["/"], 20, "a folder"),
        ([GOLDEN, "logs/none"], 20, "has no member 'logs/none'"),
        ([], 2, "usage"),
        (["--nonsense", GOLDEN], 2, "usage"),
    ],
)
def test_mistakes_are_answered_in_words(args, code, words):
    done = run(*args)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(write):
    bundle = write({"logs/a": os.urandom(4_000_000)})
    process = subprocess.Popen([*SHOW, bundle, "logs/a"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 0


def test_visible_leaves_plain_text_alone():
    assert visible("plain text, tabs\tand 日本") == "plain text, tabs\tand 日本"
    assert visible("a\0b\x7f\u2028\U000e0001") == "a\\x00b\\x7f\\u2028\\U000e0001"


def test_the_listing_tells_what_was_hidden_by_kind_and_by_artefact(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("HF_TOKEN=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\nHF_TOKEN=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\nloss 2.1\n")
    subprocess.run(
        [sys.executable, "-m", "flatline", "bundle", log, "-o", tmp_path / "b.flatline.zip"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    out = run(tmp_path / "b.flatline.zip").stdout
    rows = [line.split() for line in out.partition("\nhidden: 2\n")[2].splitlines()[:3]]
    assert rows == [["2", "hf-token", "of", "1", "value"], ["hidden,", "by", "artefact"], ["2", "pasted/001-train.log"]]
    hidden = json.loads(run(tmp_path / "b.flatline.zip", "--json").stdout)["hidden"]
    assert hidden == {"replacements": {"hf-token": 2}, "distinct": {"hf-token": 1}, "artefacts": {"pasted/001-train.log": 2}}


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (None, "hidden: not counted"),
        (b"[" * 100_000, "hidden: not counted"),
        (b'{"replacements": {"a": "b", "c": -1}, "distinct": 3, "artefacts": [1]}', "hidden: nothing was found"),
        (b'{"replacements": {"\\u001b[31mred": 1}}', "           1  \\x1b[31mred"),
    ],
)
def test_what_redaction_json_says_is_not_trusted(tmp_path, report, words):
    path = tmp_path / "x.flatline.zip"
    path.write_bytes(raw_zip(*([Raw("redaction.json", report)] if report else [])))
    done = run(path)
    assert (done.returncode, words in done.stdout) == (0, True), done.stdout + done.stderr
