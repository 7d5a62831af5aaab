"""flatline as an ordinary user runs it: from files and with a Python that such a user can read."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = 65534
ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def python_for_others() -> str:
    """A Python that lies in nobody's private home; skips the test where there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        drop = f"import os, sys; os.setuid({NOBODY}); os.execv(sys.argv[1], [sys.argv[1], '-c', 'import json'])"
        if subprocess.run([sys.executable, "-c", drop, python], capture_output=True, check=False, cwd="/").returncode == 0:
            return python
    pytest.skip("no Python here that an ordinary user can run")


def environment_for_others(folder: Path) -> dict[str, str]:
    """The environment in which that Python finds the collecting side, and py-spy, as copies below `folder`."""
    site = folder / "site"
    if not site.exists():
        shutil.copytree(ROOT / "flatline", site / "flatline")
        shutil.copytree(ROOT / "collector", site / "flatline" / "collector")
        shutil.copy(Path(sys.executable).parent / "py-spy", folder / "py-spy")
    return {"PYTHONPATH": str(site), "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
