"""What the recorder's file does by itself, without a job: the mask over secrets, and where no ring may lie."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from flatline.recorder import folder
from flatline.redaction import Redactor


@pytest.fixture(scope="module")
def recorder():
    """The recorder's file as a module: nothing begins."""
    spec = importlib.util.spec_from_file_location("recorder_under_test", Path(folder()) / "sitecustomize.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SECRET = "Zq7Tk2Wm9Xv4Rb1LpHs8"


@pytest.mark.parametrize(
    "line",
    [
        f"401 for {{'Authorization': 'Bearer {SECRET}', 'Accept': '*/*'}}",
        f"Authorization: Bearer {SECRET}",
        f"authorization=Basic {SECRET}",
        f"['Authorization:', 'token', '{SECRET}']",
        f"{{'Authorization': b'Bearer {SECRET}'}}",
        f'{{"api_key":"sk-{SECRET}","model":"m"}}',
        f'{{"password": "two {SECRET}", "model": "m"}}',
        f'body "{{\\"secret\\": \\"a {SECRET}\\"}}"',
        f"token:ghp_{SECRET}",
        f"my_token_name ghp_{SECRET}",
        f"['curl', '--password', '{SECRET}']",
        f"('--api-key', \"{SECRET}\")",
        f"Server=a;PWD={SECRET};Database=b",
        f"Server=a;password={SECRET}",
        f"password:\n{SECRET}",
        f"--token\t{SECRET}",
        f"https://host/x?a=1&X-Amz-Signature={SECRET}&b=2",
        f"helm --set=api_key={SECRET}",
        f"curl -u user:{SECRET} host",
        f"['curl', '-u', 'user:{SECRET}']",
        f"tool --pwd {SECRET}",
        f"see 'https://me:{SECRET}@host/x', and https://me:{SECRET}@other",
        f"token=a,password: {SECRET}",
        f"password = {SECRET}",
        f"not closed: password='a {SECRET}",
    ],
)
def test_no_form_of_a_secret_passes_the_mask_and_the_redactor(recorder, line):
    shown = recorder.masked(line)
    assert SECRET not in shown
    assert SECRET not in Redactor(keep_marks=True).text(shown)


@pytest.mark.parametrize(
    "words",
    [
        ["--password", SECRET],
        ["-H", f"Authorization: Bearer {SECRET}"],
        ["Authorization:", "Bearer", SECRET],
        ["--password=two " + SECRET],
        ["--set=db.password=a " + SECRET],
        ["-u", f"me:{SECRET}"],
        ["--user=me:" + SECRET],
        ["--db-pass", f"'{SECRET}"],
    ],
)
def test_no_argument_that_is_a_secret_is_shown(recorder, words):
    assert SECRET not in " ".join(recorder.masked_words(words))


@pytest.mark.parametrize(
    "line",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'",
        "connect to tcp://private-host:29500 timed out",
        "/home/private/lib:/usr/lib",
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total)",
        "KeyError: 'token'",
        "--tokenizer gpt2 --max-tokens 512 -u train.py",
        "ValueError:  two  blanks\tand\na line",
    ],
)
def test_what_is_no_secret_stays_as_it_was(recorder, line):
    assert recorder.masked(line) == line


def test_a_folder_on_a_mount_that_may_be_dead_is_not_touched(recorder, monkeypatch):
    ring = recorder.Ring()
    fields = b"36 25 0:30 / %s rw - %s source rw"
    ring.mounts = [(fields % pair).split() for pair in ((b"/", b"ext4"), (b"/mnt/of\\040all", b"nfs4"), (b"/mnt/v", b"virtiofs"))]
    touched: list[str] = []
    monkeypatch.setattr(recorder, "is_own_folder", lambda path: touched.append(path) or True)
    for place in ("/mnt/of all/rings", "/mnt/v", "/home/../mnt/v/x"):
        monkeypatch.setenv("FLATLINE_RECORDER_DIR", place)
        with pytest.raises(OSError, match="no local"):
            ring.kept_folder()
    assert touched == []
    monkeypatch.setenv("FLATLINE_RECORDER_DIR", "/mnt/vast")
    assert ring.kept_folder() == "/mnt/vast"
