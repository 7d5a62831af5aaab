"""What somebody else named steers no terminal, also where it is an error or a progress line that names it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flatline import cli
from flatline.errors import FlatlineError

HOSTILE = "a\u202etxt.\x1b]0;owned\x07\x1b[2J"


def test_an_error_spells_out_what_would_steer_a_terminal() -> None:
    error = FlatlineError(HOSTILE, why=(HOSTILE,), listing=(HOSTILE,), next_step=HOSTILE)
    text = "".join(error.lines())
    assert "\\u202e" in text
    assert "\\x1b" in text
    assert all(letter.isprintable() for letter in text)


def test_a_hostile_folder_in_the_summary_of_collect_reaches_the_terminal_spelled_out(start, tmp_path: Path) -> None:
    folder = tmp_path / HOSTILE
    folder.mkdir()
    sleeper = start(["sleep", "600"], cwd=folder)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "flatline", "collect", "--pid", str(sleeper.pid), "--window", "0.5"]
    plain = {**os.environ, "TERM": "dumb"}  # without our own drawing
    done = subprocess.Popen(command, cwd=folder, env=plain, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # a pty's end of file
            break
    os.close(ours)
    assert done.wait(60) in (0, 3)
    text = shown.decode()
    assert "flatline.zip" in text
    assert "\\u202e" in text
    assert "\u202e" not in text
    assert "\x1b" not in text


MISTAKES = {
    "analyze": ["--format", HOSTILE, "x"],
    "bundle": ["x", f"--{HOSTILE}"],
    "collect": ["--pid", HOSTILE],
    "demo": [HOSTILE],
    "doctor": ["--pid", HOSTILE],
    "redact": ["a", HOSTILE],
    "rules": ["lint", HOSTILE],
    "run": ["--silence", HOSTILE, "--", "true"],
    "salvage": ["a", HOSTILE],
    "show": ["a", "b", HOSTILE],
    "snippet": [HOSTILE],
    "watch": ["--pid", HOSTILE],
}
"""A command line of each command that it refuses, and quotes in doing so."""


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_what_a_command_line_has_wrong_is_quoted_spelled_out(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.resolve(command)(MISTAKES[command])
    told = capfd.readouterr().err
    assert ended.value.code == 2
    assert "\\u202e" in told.replace("\\\\", "\\")
    assert re.search("[\x1b\x07\u202e]", told) is None
