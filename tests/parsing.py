"""What the tests of parsers share: texts cut into blocks, rows picked by their kind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from flatline.analyzer.intake.blocks import Block, cut
from flatline.analyzer.intake.cleaning import cleaned
from flatline.analyzer.parsers.interface import Parsed

Row = TypeVar("Row")


def blocks_of(text: str) -> list[Block]:
    """As the intake cuts them."""
    return cut(list(cleaned(text.splitlines())))


def printed(*command: object, check: bool = True) -> str:
    """What a tool of this machine prints, in English and in wide lines. Without the tool the test is skipped."""
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    env = {**os.environ, "LC_ALL": "C", "COLUMNS": "400"}
    return subprocess.run(words, stdout=subprocess.PIPE, check=check, text=True, timeout=60, env=env).stdout


def rows_of(found: Parsed | Block | Iterable[Any], kind: type[Row]) -> list[Row]:
    rows = found.rows if isinstance(found, (Parsed, Block)) else found
    return [row for row in rows if isinstance(row, kind)]


def only(text: str, kind: str) -> Block:
    """The one block that a text is made of."""
    (block,) = blocks_of(text)
    assert block.kind == kind
    return block
