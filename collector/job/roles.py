"""What a process is to the job, told from its command line, its name, its parent and its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flatline.bundle.facts import Role, StartMethod, runs_script
from flatline.texts.command_lines import EDITOR, JAVASCRIPT, PYTHON, SHELLS, WRAPPERS, program_of, rank_flags, role_of

from ..linux.procfs import Stat, printable

_FLATLINE = re.compile(r"^flatline(\.pyz)?$")


@dataclass(frozen=True)
class ProcessInfo:
    """One process of the host as the first look found it."""

    stat: Stat
    uid: int = -1
    exe: str | None = None
    """None: not permitted, or a kernel thread or a zombie."""
    argv: tuple[str, ...] = ()
    """Empty while it is not read; not redacted."""

    @property
    def pid(self) -> int:
        return self.stat.pid

    @property
    def ppid(self) -> int:
        return self.stat.ppid

    @property
    def name(self) -> str:
        return printable(self.stat.name)

    @property
    def has_ended(self) -> bool:
        """A zombie; not a process whose main thread ended before the others."""
        return self.stat.state in ("Z", "X") and self.stat.threads <= 1


@dataclass(frozen=True)
class RankInfo:
    """Which rank a process is; None: not said."""

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    node: int | None = None


def is_python(process: ProcessInfo) -> bool:
    """By its executable; by its command line or name where that is hidden."""
    if process.exe:
        return bool(PYTHON.match(os.path.basename(process.exe)))
    first = os.path.basename(process.argv[0]) if process.argv else ""
    return bool(PYTHON.match(first) or PYTHON.match(process.stat.name) or process.stat.name.startswith("pt_"))


def same_program(one: ProcessInfo, other: ProcessInfo) -> bool:
    """Whether `one` is Python and both run the same script, whatever its arguments are."""
    ours, theirs = program_of(one.argv), program_of(other.argv)
    return is_python(one) and (ours.name, ours.path) == (theirs.name, theirs.path) and bool(ours.path or ours.name)


def is_javascript(process: ProcessInfo) -> bool:
    """Node.js and what stands in for it."""
    exe = os.path.basename(process.exe or "")
    return exe in JAVASCRIPT or program_of(process.argv).name in JAVASCRIPT or process.stat.name in JAVASCRIPT


def is_shell(process: ProcessInfo) -> bool:
    return program_of(process.argv).name in SHELLS if process.argv else process.stat.name in SHELLS


def is_interactive_shell(process: ProcessInfo) -> bool:
    """A shell at a terminal, or a login shell: a person's, not a script's."""
    if not is_shell(process):
        return False
    is_login = process.argv[:1] == () or process.argv[0].startswith("-")
    return not runs_script(process.argv) and (process.stat.tty_nr != 0 or is_login)


def is_flatline(process: ProcessInfo) -> bool:
    """This tool, of whoever: two collects at once must not diagnose each other."""
    return bool(_FLATLINE.match(program_of(process.argv).name))


def runs_only_flatline(process: ProcessInfo) -> bool:
    """A shell or wrapper whose command line is there for us: ``timeout 60 flatline …``, ``sh -c 'x=$(flatline …)'``."""
    name = program_of(process.argv).name
    words = " ".join(process.argv)
    return (name in SHELLS or name in WRAPPERS) and bool(re.search(r"(^|[\s/'\"(`$])flatline(\.pyz)?\s", words + " "))


def is_editor(process: ProcessInfo) -> bool:
    """Editors, language servers and notebook servers: near many jobs, part of none."""
    return bool(EDITOR.search(" ".join(process.argv[:4]) or process.stat.name))


def forked_from(child: ProcessInfo, parent: ProcessInfo) -> bool:
    """Whether both are one exec: the random addresses of code and stack are equal (fields 26 and 28 of stat)."""
    ours, theirs = child.stat, parent.stat
    return ours.start_code > 1 and (ours.start_code, ours.start_stack) == (theirs.start_code, theirs.start_stack)


def start_method(process: ProcessInfo, others: Mapping[int, ProcessInfo]) -> StartMethod:
    """How it came to be; `others` are the processes it can have been forked from, its parent among them or gone."""
    origin = _origin(process, others)
    if origin is not None:  # first, as a forked child has the command line of its parent
        return "forkserver" if "multiprocessing.forkserver" in program_of(origin.argv).code else "fork"
    if _is_spawned(process):
        return "spawn"
    return "exec" if process.stat.start_code > 1 and process.ppid in others else "unknown"


def _origin(process: ProcessInfo, others: Mapping[int, ProcessInfo]) -> ProcessInfo | None:
    """What it was forked from: its parent, or, when that has died, an older process of the same exec."""
    parent = others.get(process.ppid)
    if parent is not None and forked_from(process, parent):
        return parent
    ours = (process.stat.start_ticks, process.pid)
    kin = (o for o in others.values() if forked_from(process, o) and (o.stat.start_ticks, o.pid) < ours)
    return next(kin, None)


def _is_spawned(process: ProcessInfo) -> bool:
    return "multiprocessing.spawn" in program_of(process.argv).code or "--multiprocessing-fork" in process.argv


def plain_role(process: ProcessInfo) -> Role | None:
    """The role that a process's own name and command line tell; None: its parent decides."""
    return role_of(process.argv, process.stat.name) or ("launcher" if is_javascript(process) else None)


def roles(processes: Mapping[int, ProcessInfo], env: Mapping[int, Mapping[str, str]]) -> dict[int, Role]:
    """The role of each process of a tree, whichever of them was named. A main program is a ``rank``, alone too; one
    that starts ranks is a launcher."""
    found: dict[int, Role] = {}
    for process in sorted(processes.values(), key=lambda p: (p.stat.start_ticks, p.pid)):
        found[process.pid] = _role(process, processes, found, env)
    for pid, role in list(found.items()):
        parent = _python_ancestor(processes[pid], processes)
        if role == "rank" and parent is not None and found[parent.pid] == "rank":
            found[parent.pid] = "launcher"
    return found


def _role(
    process: ProcessInfo,
    processes: Mapping[int, ProcessInfo],
    found: Mapping[int, Role],
    env: Mapping[int, Mapping[str, str]],
) -> Role:
    if process.has_ended and not process.argv:
        return "unknown"
    plain = plain_role(process)
    if plain in (None, "launcher", "other") and is_python(process) and _is_worker(process, processes):
        return "pool-worker"
    if plain is not None:
        return plain
    rank = rank_of(env.get(process.pid, {}), process.argv).rank
    if not is_python(process):
        return "rank" if rank is not None and found.get(process.ppid) == "launcher" else "other"
    parent = _python_ancestor(process, processes)
    if parent is None or found.get(parent.pid) not in ("rank", "pool-worker", "dataloader-worker"):
        return "rank"
    above = rank_of(env.get(parent.pid, {}), parent.argv).rank
    restarts = above is None and program_of(process.argv).name != "-c" and same_program(process, parent)
    if restarts:  # a script that starts itself again: what it was started for is in the child
        return "rank"
    return "rank" if rank is not None and rank != above else "other"


def _is_worker(process: ProcessInfo, processes: Mapping[int, ProcessInfo]) -> bool:
    return start_method(process, processes) in ("fork", "spawn", "forkserver")


def _python_ancestor(process: ProcessInfo, processes: Mapping[int, ProcessInfo]) -> ProcessInfo | None:
    seen = {process.pid}
    parent = processes.get(process.ppid)
    while parent is not None and parent.pid not in seen:
        if is_python(parent):
            return parent
        seen.add(parent.pid)
        parent = processes.get(parent.ppid)
    return None


_RANK_VARIABLES = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE", ("GROUP_RANK", "NODE_RANK")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", ("NODE_RANK",)),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", ()),
    ("PMIX_RANK", "PMIX_LOCAL_RANK", "PMIX_SIZE", ()),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", ()),
    ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE", ()),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", ("SLURM_NODEID",)),
)
"""rank, local rank, world size and node, as each launcher names them; the first that names a rank is believed."""


def rank_of(env: Mapping[str, str], argv: Sequence[str] = ()) -> RankInfo:
    """What the environment says; flags like --local_rank fill what it leaves open."""
    told = RankInfo(node=_first_number(env, ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")))
    for rank, local, world, nodes in _RANK_VARIABLES:
        if rank == "SLURM_PROCID" and "SLURM_STEP_ID" not in env:
            continue  # a batch script has SLURM_PROCID=0 too, and is no task
        if _first_number(env, (rank,)) is not None:
            told = RankInfo(*(_first_number(env, names) for names in ((rank,), (local,), (world,), nodes)))
            break
    flags = rank_flags(argv)
    return RankInfo(
        *(
            value if value is not None else flags.get(name)
            for name, value in (
                ("rank", told.rank),
                ("local_rank", told.local_rank),
                ("world_size", told.world_size),
                ("node", told.node),
            )
        )
    )


def _first_number(env: Mapping[str, str], names: Sequence[str]) -> int | None:
    return next((int(env[name]) for name in names if env.get(name, "").isdecimal()), None)
