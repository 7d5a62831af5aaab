"""``flatline redact``, as a person uses it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HF = "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"


def _redact(text: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "flatline", "redact", *options], input=text, capture_output=True, timeout=60)


def test_it_filters_standard_input():
    done = _redact(f"RANK=3\nHF_TOKEN={HF}\n".encode())
    assert (done.returncode, done.stdout.decode()) == (0, "RANK=3\nHF_TOKEN=⟪hf-token·1⟫\n")


def test_bytes_that_are_no_text_pass_unchanged():
    assert _redact(b"\xff\xfe rank 3\r\n\0").stdout == b"\xff\xfe rank 3\r\n\0"


def test_help_shows_examples():
    done = _redact(b"", "--help")
    assert done.returncode == 0
    assert b"flatline redact < train.log" in done.stdout


def test_an_empty_key_is_a_usage_error():
    """``--case-key "$KEY"`` with a variable that is not set: the names would not agree with anybody's."""
    done = _redact(b"", "--case-key", "")
    assert (done.returncode, b"it is empty" in done.stderr) == (2, True)


def test_an_unknown_option_is_a_usage_error():
    assert _redact(b"", "--no-such").returncode == 2


def test_a_text_may_be_named_as_well_as_piped(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(f"RANK=3\nHF_TOKEN={HF}\n")
    done = _redact(b"", str(log))
    assert (done.returncode, done.stdout.decode()) == (0, "RANK=3\nHF_TOKEN=⟪hf-token·1⟫\n")
    assert log.read_text() == f"RANK=3\nHF_TOKEN={HF}\n"


def test_a_named_text_is_checked_and_each_place_told(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(f"RANK=3\nHF_TOKEN={HF}\n")
    done = _redact(b"", "--check", str(log))
    assert (done.returncode, done.stdout.decode()) == (1, "train.log: line 2: hf-token\n")


def test_a_named_text_of_windows_is_read_as_one(tmp_path):
    log = tmp_path / "train.log"
    log.write_bytes(f"RANK=3\nHF_TOKEN={HF}\n".encode("utf-16"))
    assert _redact(b"", str(log)).stdout.decode() == "RANK=3\nHF_TOKEN=⟪hf-token·1⟫\n"
    assert _redact(b"", "--check", str(log)).returncode == 1


def test_what_is_neither_text_nor_bundle_is_said_to_be_no_bundle(tmp_path):
    image = tmp_path / "plot.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    done = _redact(b"", str(image))
    assert (done.returncode, done.stdout) == (20, b"")
    assert b"is no zip" in done.stderr


@pytest.mark.parametrize("command", ["redact", "salvage"])
@pytest.mark.parametrize("folder", [".", "/"])
def test_a_folder_without_a_name_is_refused_with_what_to_name(command, folder, tmp_path):
    argv = [sys.executable, "-m", "flatline", command, folder]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    told = f"flatline: {folder} is a folder\n  next:   name the .flatline.zip itself\n"
    assert (done.returncode, done.stderr) == (20, told)
