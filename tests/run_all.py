"""Runs the whole suite; the few tests that fail beside others are run once more by themselves.

    python tests/run_all.py [-n 2 ...what pytest takes]

The programs of the tests really hang, spin and starve each other, on two cores that may be shared with strangers. A test
that passes alone is listed as unsteady, for somebody to mend; one that fails again has failed, and so have too many at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
MOST = 5
"""More failures than this are no accident."""
TESTS_FAILED = 1
"""pytest's exit status for it; whatever else went wrong is not tried again."""


def main(arguments: list[str]) -> int:
    status = pytest("--cache-clear", *arguments)
    if status != TESTS_FAILED:
        return status
    failed = list(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= MOST:
        return status
    print(f"\nonce more, alone: {' '.join(failed)}", flush=True)
    status = pytest("-q", *failed)
    if status == 0:
        print("UNSTEADY: passed only alone:", *failed, sep="\n  ", flush=True)
    return status


def pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
