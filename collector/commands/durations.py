"""Numbers of a command line that is read before anything heavy is imported."""

from __future__ import annotations

import argparse

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """``90``, ``90s``, ``1.5h``; argparse's error for anything else."""
    unit = _UNITS.get(text[-1:])
    try:
        seconds = float(text[:-1] if unit else text) * (unit or 1.0)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 366 * 86400:
        raise argparse.ArgumentTypeError(f"{text} is no sensible time; write 90s, 30m or 6h")
    return seconds


def process_number(text: str) -> int:
    """A pid."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number <= 0:
        raise argparse.ArgumentTypeError(f"a pid is a positive number, not {text}")
    return number
