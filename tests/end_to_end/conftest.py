"""The two commands as a user types them, with the target watched; control groups."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from control_groups import ControlGroup, new_group
from end_to_end_support import flatline, report_of


@pytest.fixture
def diagnose(tmp_path: Path, left_as_found):
    """Collect from a pid, check that it was left as found, analyze; returns the report's JSON and the bundle's path."""

    def run(pid: int, *options: str, window: float = 2.0) -> tuple[dict[str, Any], Path]:
        left_as_found(pid)
        bundle = tmp_path / "job.flatline.zip"
        collected = flatline("collect", "--pid", pid, "-o", bundle, "--window", window, *options)
        assert collected.code in (0, 3), collected.err
        assert collected.out.strip() == str(bundle)
        left_as_found.check()
        return report_of(bundle), bundle

    return run


@pytest.fixture
def control_group():
    """`control_group(kind, v1=…, v2=…)` makes one with these settings, which ends with the test."""
    made: list[ControlGroup] = []

    def make(kind: str, *, v1: dict[str, str], v2: dict[str, str]) -> ControlGroup:
        made.append(new_group(kind, f"flatline-test-{os.getpid()}-{len(made)}", v1=v1, v2=v2))
        return made[-1]

    yield make
    for group in made:
        group.end()
