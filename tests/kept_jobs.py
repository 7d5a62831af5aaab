"""`flatline run` and `watch` as commands, also with a collect and an analysis that take no time."""

from __future__ import annotations

import os
import subprocess
import sys

ENV = {k: v for k, v in os.environ.items() if not k.startswith("FLATLINE_")}
STAND_IN = """
import json, os, sys
from flatline.collector.running import diagnosis
def collect(pid, folder, scratch, wait, more=(), *, fast=False):
    if os.environ.get("LEAVES"):
        os.system("(sleep 603 & echo $! >$LEAVES)")
    if os.environ.get("REFUSES") and not os.path.exists(os.environ["REFUSES"]):
        open(os.environ["REFUSES"], "w").close()
        raise OSError("no bundle could be made: no room")
    path = os.path.join(folder, "made.zip")
    open(path, "a").write("fast" if fast else "whole")
    return path
diagnosis.collect, diagnosis.analyze = collect, lambda bundle, scratch, wait: json.loads(os.environ["REPORT"])
from flatline.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, with a collect and an analysis that take no time; everything else is real."""
HUNG = '{"verdict": {"state": "hung", "because": ["it waits"]}, "findings": [{"role": "root-cause", "title": "A lock", "rule": "x"}]}'
WAITING = '{"verdict": {"state": "waiting", "by_design": true, "because": ["asleep until 06:00"]}, "findings": []}'
HEALTHY = '{"verdict": {"state": "healthy", "because": []}, "findings": []}'


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "flatline", "run", *words]


def stand_in(*words: str) -> list[str]:
    return [sys.executable, "-c", STAND_IN, *words]


def ran(argv: list[str], **options):
    options.setdefault("env", ENV)
    return subprocess.run(argv, capture_output=True, timeout=60, check=False, **options)
