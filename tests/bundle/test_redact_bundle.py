"""``flatline redact BUNDLE`` makes a stricter bundle, and ``--check`` says whether anything is left."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from flatline.bundle.format import BUNDLE_JSON, MANIFEST, README, REDACTION
from flatline.bundle.redact import redacted_name
from flatline.bundle.writer import BundleWriter

VALUE = "x8Fk2mQ9zL77aBcD"
HEAD = {"format": "flatline-bundle", "format_version": "1.0"}
MEMBERS = {
    "logs/train.log": f"connect {VALUE}\nstep 1\n",
    "facts/env.json": json.dumps({"schema": "flatline/env/1", "tables": {"env": [{"name": "DB_PASSWORD", "value": "correct horse"}]}}),
    "facts/processes.json": json.dumps({"tables": {"processes": [{"argv": ["t.py", "--api-key", VALUE], "pid": 7}]}}),
    "samples/a.jsonl": json.dumps({"table": "x", "text": f"saw {VALUE}"}) + "\n",
}


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "flatline", "redact", *map(str, args)], capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL)


def write(path: Path, members: dict[str, str], manifest: dict[str, object]) -> Path:
    writer = BundleWriter(path)
    writer.add(BUNDLE_JSON, json.dumps(HEAD).encode())
    entries = [writer.add(name, text.encode(), original_path=f"/data/{name}") for name, text in members.items()]
    files = [{"path": one.path, "sha256": one.sha256, "bytes": one.bytes, "original_path": one.original_path} for one in entries]
    body = json.dumps({**HEAD, **manifest, "files": files}).encode()
    writer.publish(lambda _: [(README, b"readme\n"), (REDACTION, b"{}\n"), (MANIFEST, body)])
    writer.finish()
    return path


@pytest.fixture
def salvaged(tmp_path: Path) -> Path:
    """Its log was written before anybody knew what stands in it."""
    return write(tmp_path / "job.first-pass-only.flatline.zip", MEMBERS, {"redaction": "first pass only"})


def test_check_names_artefact_place_and_kind_and_never_the_value(salvaged):
    done = run("--check", salvaged)
    assert done.returncode == 1
    assert VALUE not in done.stdout + done.stderr
    assert "correct horse" not in done.stdout + done.stderr
    assert "logs/train.log: line 1: api-key" in done.stdout.splitlines()
    assert "facts/env.json: tables.env[0].value: password" in done.stdout.splitlines()
    assert "facts/processes.json: tables.processes[0].argv[2]: api-key" in done.stdout.splitlines()


def test_a_first_pass_is_finished_and_nothing_is_left(salvaged):
    done = run(salvaged)
    assert done.returncode == 0, done.stderr
    out = Path(done.stdout.strip())
    assert out.name == "job.redacted.flatline.zip"
    with zipfile.ZipFile(out) as archive:
        members = {name: archive.read(name).decode() for name in archive.namelist()}
    assert [name for name, text in members.items() if VALUE in text or "correct horse" in text] == []
    assert members["logs/train.log"] == "connect ⟪api-key·1⟫\nstep 1\n"
    manifest = json.loads(members[MANIFEST])
    assert (manifest["redaction"], manifest["sensitivity"]) == ("complete", "redacted")
    assert json.loads(members[REDACTION])["artefacts"]["logs/train.log"] >= 1
    assert run("--check", out).returncode == 0
    twice = run(out, "-o", out.with_name("twice.flatline.zip"))
    assert twice.returncode == 0
    with zipfile.ZipFile(twice.stdout.strip()) as archive:
        assert {name: archive.read(name).decode() for name in MEMBERS} == {name: members[name] for name in MEMBERS}


def test_more_is_hidden_on_request_and_names_that_are_no_secret_are_kept(salvaged, tmp_path):
    wishes = tmp_path / "site.conf"
    wishes.write_text("# ours\nkeep DB_PASSWORD\nhide step\nhide /conn(ect)/\n")
    out = tmp_path / "out.flatline.zip"
    assert run(salvaged, "-o", out, "--redaction", wishes).returncode == 0
    with zipfile.ZipFile(out) as archive:
        assert archive.read("logs/train.log").decode() == "conn⟪hidden·1⟫ ⟪api-key·1⟫\n⟪hidden·2⟫ 1\n"
        assert b"correct horse" in archive.read("facts/env.json")


def test_nothing_is_written_over(salvaged):
    assert run(salvaged).returncode == 0
    again = run(salvaged)
    assert again.returncode == 2
    assert "is there already" in again.stderr


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.flatline.zip", "a.redacted.flatline.zip"), ("a.UNREDACTED.flatline.zip", "a.redacted.flatline.zip"),
     ("a.UNREDACTED.first-pass-only.flatline.zip", "a.redacted.flatline.zip"), ("a.redacted.flatline.zip", "a.redacted.flatline.zip")],
)  # fmt: skip
def test_its_name_says_that_it_is_redacted(name, expected):
    assert redacted_name(Path(name)).name == expected


@pytest.mark.parametrize("options", [["--hide", "/(/"], ["--redaction", "/no/such/file"], ["-o", "x.zip"], ["/no/such/bundle"]])
def test_what_makes_no_sense_is_said(options):
    done = run(*options)
    assert done.returncode in (2, 20)
    assert "Traceback" not in done.stderr


def test_text_is_checked_line_by_line():
    done = subprocess.run([sys.executable, "-m", "flatline", "redact", "--check", "-"], input=f"a\nb\napi_key={VALUE}\n", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "standard input: line 3: api-key\n")
