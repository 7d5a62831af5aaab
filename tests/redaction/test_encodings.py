"""UTF-16 on standard input is redacted as any other text is, and goes out as UTF-8."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from flatline.redaction.encodings import Utf8Reader

SECRET = "hf_" + "Ab1" * 11 + "x"
TEXT = f"epoch 1, Müller\nHF_TOKEN={SECRET}\n" + "step 2 of 10: loss 0.5\n" * 2000


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8"])
@pytest.mark.parametrize("size", [1, 7, 5000, -1])
def test_what_begins_as_utf_16_is_read_as_utf_8_in_pieces_of_any_size(encoding: str, size: int):
    reader = Utf8Reader(io.BytesIO(TEXT.encode(encoding)))
    assert b"".join(iter(lambda: reader.read(size), b"")).decode("utf-8") == TEXT


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"a\0b", b"\0" * 100, bytes(range(256)) * 20, b"log\n" + b"\0" * 50 + b"end\n"]
)
def test_what_is_no_utf_16_stays_as_it_is(data: bytes):
    assert Utf8Reader(io.BytesIO(data)).read() == data


@pytest.mark.parametrize("option", [[], ["--check"]])
def test_a_secret_in_utf_16_is_found(option: list[str]):
    done = subprocess.run(
        [sys.executable, "-m", "flatline", "redact", *option],
        input=TEXT.encode("utf-16"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == (1 if option else 0)
    assert SECRET not in done.stdout.decode("utf-8")
    assert "hf-token" in done.stdout.decode("utf-8")
