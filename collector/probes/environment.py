"""The environments of the job, as they were learnt at the beginning, compared with the launcher's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from flatline.bundle.facts import EnvVar, process_id

from ..job.roles import JAVASCRIPT, program_of
from .interface import Facts, Gap, Item, Target, View

Origin = Literal["same", "changed", "added", "unknown"]

FULL_ROLES = frozenset({"launcher", "rank"})
_ALWAYS = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
        "NODE_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK", "SLURM_LOCALID", "SLURM_PROCID",
        "WORLD_SIZE",
    }
)  # fmt: skip
"""Written for every process: what tells the ranks apart."""
MAX_VALUE = 8_192
"""A longer value is left unknown: cut short, a secret in it would no longer be recognised."""
MAX_ROWS = 50_000


class Environment:
    """What each process was started with, and what its launcher did not have or had otherwise.

    The targets, the ranks and the launchers are written in full; of the others only what differs and what names a rank.
    An environment that was overwritten (setproctitle) or refused has no rows: see `environ_state` of its process.
    """

    name = "environment"
    tables = ("env",)
    limit_s = 2.0
    spans_window = False
    reads = ("/proc/PID/environ, as read when the job was found",)
    runs = ()

    def gather(self, view: View) -> Iterator[Item]:
        rows: list[EnvVar] = []
        for target in view.targets:
            variables = view.env_names.get(target.pid)
            if variables is not None:
                rows += environment_rows(target, variables, view.env_names.get(launcher_of(target, view) or 0))
        if len(rows) > MAX_ROWS:
            yield Gap("partial", f"{len(rows) - MAX_ROWS} of {len(rows)} variables were left out", tables=("env",))
        yield Facts("facts/environment.json", {"env": rows[:MAX_ROWS]})
        yield from _guarded(view)
        missing = [target for target in view.targets if target.pid not in view.env_names and not target.is_guarded]
        hidden = [target.pid for target in missing if target.relation != "ancestor"]
        if hidden:
            pids = ", ".join(map(str, hidden[:8])) + (" …" if len(hidden) > 8 else "")
            message = f"{len(hidden)} environments could not be read: refused, ended, or overwritten by a process title"
            yield Gap("partial", f"{message} (pid {pids})", tables=("env",))


def _guarded(view: View) -> Iterator[Gap]:
    """What stands above the job is often root's, and no loss: that is a remark."""
    guarded = [target for target in view.targets if target.is_guarded]
    if guarded:
        pids = ", ".join(str(target.pid) for target in guarded[:8]) + (" …" if len(guarded) > 8 else "")
        above = all(target.relation == "ancestor" for target in guarded)
        yield Gap(
            "ok" if above else "denied",
            f"{len(guarded)} processes are another user's: their environment, files, logs, source and variables are "
            f"not taken (pid {pids})",
            hint="" if above else f"collect from that user's process itself: --pid {guarded[0].pid}",
            tables=("env",),
        )


def environment_rows(target: Target, variables: Mapping[str, str], launcher: Mapping[str, str] | None) -> list[EnvVar]:
    """The rows of one process, sorted by name."""
    in_full = target.relation == "target" or target.role in FULL_ROLES
    rows = [_row(target, name, value, launcher) for name, value in sorted(variables.items())]
    return [row for row in rows if in_full or row.from_launcher != "same" or row.name in _ALWAYS]


def _row(target: Target, name: str, value: str, launcher: Mapping[str, str] | None) -> EnvVar:
    kept = value if len(value) <= MAX_VALUE else None
    return EnvVar(process_id(target.pid), name, kept, from_launcher=_origin(name, value, launcher))


def _origin(name: str, value: str, launcher: Mapping[str, str] | None) -> Origin:
    if launcher is None:
        return "unknown"
    if name not in launcher:
        return "added"
    return "same" if launcher[name] == value else "changed"


def launcher_of(target: Target, view: View) -> int | None:
    """The nearest Python or Node.js ancestor of the tree, else the parent if it is of the tree."""
    by_pid = {other.pid: other for other in view.targets}
    above, seen = by_pid.get(target.ppid), {target.pid}
    while above is not None and above.pid not in seen:
        if above.is_python or program_of(above.argv).name in JAVASCRIPT or above.name in JAVASCRIPT:
            return above.pid
        seen.add(above.pid)
        above = by_pid.get(above.ppid)
    return target.ppid if target.ppid in by_pid else None
