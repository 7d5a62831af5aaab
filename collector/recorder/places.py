"""Where the files of a recorder lie, as `start/sitecustomize.py` names them.

    <tmp>/flatline-recorder-<pid>-<start ticks>/                 private to the process; the ring is ``ring`` in it,
                                                                 stacks are in ``faulthandler.txt``
    <FLATLINE_RECORDER_DIR>/flatline-ring-<pid>-<start ticks>    the ring, where it is to be kept

`pid` is what the process calls itself, <tmp> its TMPDIR, else /tmp.
"""

from __future__ import annotations

RING = "ring"
DUMP = "faulthandler.txt"
FOLDER_BEGINS = "flatline-recorder-"
KEPT_BEGINS = "flatline-ring-"


def folder_name(pid: int | None, start_ticks: int) -> str:
    """Of a process's private folder."""
    return f"{FOLDER_BEGINS}{pid}-{start_ticks}"


def kept_name(pid: int, start_ticks: int) -> str:
    """Of a ring that is kept."""
    return f"{KEPT_BEGINS}{pid}-{start_ticks}"


def temporary(tmpdir: str) -> tuple[str, ...]:
    """The folders in which private ones may lie, the likeliest first; `tmpdir` as the process's environment has it."""
    return tuple(dict.fromkeys(folder.rstrip("/") for folder in (tmpdir, "/tmp") if folder.startswith("/")))


def is_of_recorder(path: str) -> bool:
    """Whether a path, as a descriptor shows it, leads to a file of a recorder."""
    return f"/{FOLDER_BEGINS}" in path or f"/{KEPT_BEGINS}" in path
