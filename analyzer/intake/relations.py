"""Which of the processes in pasted texts are the job: a bundle says so, a list of all processes of a host does not.

What a text describes closely (a stack, a system call, a stopped job) is what the question is about. A list alone is
read for what looks like training: Python programs that no system runs for itself, launchers, workers. Where nothing
does, what the kernel holds in state D or has stopped is what was shown. Everything else stays unrelated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flatline.bundle.facts import Process, Relation, Thread, process_id
from flatline.texts.command_lines import EDITOR, program_of

from ..derive.told import processes_told, threads_told

GPU_TOOLS = re.compile(r"nvidia-|nv-hostengine|dcgm|rocm-smi|amd-smi|amdsmi|npu-smi|gpustat|nvtop|cuda-gdb|gdscheck")
"""Programs that do little but ask the driver of an accelerator: one in state D is what the text is about."""
_SYSTEM_PYTHON = re.compile(
    r"networkd-dispatcher|unattended-upgrade|firewalld|fail2ban|cloud-init|cloud-id|supervisord|salt-minion|salt-call|ansible|"
    r"tuned|blueman|system-config|update-manager|software-properties|apport|glances|mdstat|nfsiostat|google_|waagent|"
    r"walinuxagent|certbot|virt-manager|solaar|dstat|iotop|gunicorn|uwsgi|pip3?$|hsflow|oci-|amazon-ssm|node_exporter|"
    r"py-spy|pystack|flatline"
)
_JOB_ROLES = frozenset({"rank", "dataloader-worker", "pool-worker", "compile-worker"})
_LAUNCHERS = re.compile(
    r"torchrun|accelerate|deepspeed|mpirun|mpiexec|horovodrun|srun|colossalai|composer|raylet|torch\.distributed|torchx|"
    r"pt_elastic|orted|prted|hydra_pmi_proxy"
)


def with_relations(tables: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The tables, their processes and threads with their relation to the job; unchanged where it is told already."""
    known: dict[str, Process] = {row.id: row for row in tables.get("processes", ())}
    if any(row.relation != "unknown" for row in known.values()):
        return {name: list(rows) for name, rows in tables.items()}
    threads = {row.id: row for row in tables.get("threads", ())}
    threads |= {row.id: row for row in threads_told(tables.get("frames", ()), threads)}
    known |= {row.id: row for row in processes_told(threads.values(), known)}
    if not known:
        return {name: list(rows) for name, rows in tables.items()}
    related = _related(known, _described(tables, threads.values()) & known.keys())
    processes = [replace(row, **related.get(row.id, {})) for row in known.values()]
    roles = {row.id: row for row in processes}
    return {
        **{name: list(rows) for name, rows in tables.items()},
        "processes": processes,
        "threads": [
            replace(t, relation=roles[t.process].relation, role=roles[t.process].role) for t in threads.values()
        ],
    }


def _related(known: Mapping[str, Process], described: Collection[str]) -> dict[str, dict[str, Any]]:
    """By the process's id: what changes in its row."""
    tree = _Tree(known)
    job = _job(tree, described)
    found: dict[str, dict[str, Any]] = {}
    for identity in known:
        relation = _relation(tree, identity, job)
        if relation is not None:
            found[identity] = {"relation": relation, **_role(tree, identity, relation)}
    for identity in [i for i in found if found[i]["relation"] == "target"]:
        for above in tree.above(identity):
            found.setdefault(above, {"relation": "ancestor"})
    return found


def _relation(tree: _Tree, identity: str, job: Collection[str]) -> Relation | None:
    below = any(above in job for above in tree.above(identity))
    if below:
        return "descendant"
    return "target" if identity in job else None


def _role(tree: _Tree, identity: str, relation: Relation) -> dict[str, Any]:
    """A Python program below a launcher is a rank."""
    row, parent = tree.rows[identity], tree.parent(identity)
    launched = parent is not None and tree.rows[parent].role == "launcher"
    return {"role": "rank"} if relation == "descendant" and launched and row.is_python and row.role == "unknown" else {}


def _job(tree: _Tree, described: Collection[str]) -> frozenset[str]:
    looks = {i for i, row in tree.rows.items() if looks_like_job(row)}
    tools = {i for i, row in tree.rows.items() if row.state == "D" and GPU_TOOLS.match(row.name or "")}
    if described:
        nameless = any(tree.rows[i].pid < 0 for i in described)
        near = looks if nameless else tree.near(looks, described)
        return frozenset({*described, *near, *tools})
    if looks or tools:
        return frozenset({*looks, *tools})
    own = {i: row for i, row in tree.rows.items() if not is_kernel_thread(row)}
    for states in ({"D"}, {"T", "t"}):
        if held := frozenset(i for i, row in own.items() if row.state in states):
            return held
    return frozenset()


def looks_like_job(row: Process) -> bool:
    """Whether a process of a list looks like training, by its name and command line."""
    words = " ".join((row.argv or ())[:4]) or row.name or ""
    program = program_of(row.argv or ())
    if EDITOR.search(words) or _SYSTEM_PYTHON.search(program.name or words):
        return False
    if row.rank is not None or row.role in _JOB_ROLES or (row.name or "").startswith(("pt_", "ray::")):
        return True
    if row.role == "launcher":
        return bool(_LAUNCHERS.search(words))
    return bool(row.is_python) and row.role == "unknown"


def is_kernel_thread(row: Process) -> bool:
    """``[kworker/0:1]``: a child of kthreadd, or a name without a command line and without memory."""
    return row.pid == 2 or row.ppid == 2 or (row.argv is None and row.rss == 0)


def _described(tables: Mapping[str, Sequence[Any]], threads: Iterable[Thread]) -> frozenset[str]:
    """Processes that a text tells more of than a list does."""
    stacks = {f.thread.rpartition("/")[0] for f in tables.get("frames", ()) if f.kind != "kernel"}
    calls = {t.process for t in threads if t.syscall is not None}
    nameless = {p.id for p in tables.get("processes", ()) if p.pid < 0}
    open_files = {row.process for row in tables.get("fds", ())}
    return frozenset({*stacks, *calls, *nameless, *(open_files if len(open_files) <= 2 else ())})


class _Tree:
    """Who started whom."""

    def __init__(self, rows: Mapping[str, Process]) -> None:
        self.rows = rows

    def parent(self, identity: str) -> str | None:
        row = self.rows[identity]
        above = process_id(row.ppid, row.host) if row.ppid else None
        return above if above in self.rows and above != identity else None

    def above(self, identity: str) -> Iterator[str]:
        """Its parent, the parent's, and so on."""
        seen = {identity}
        above = self.parent(identity)
        while above is not None and above not in seen:
            yield above
            seen.add(above)
            above = self.parent(above)

    def near(self, candidates: Collection[str], others: Collection[str]) -> set[str]:
        """Those above or below one of the others, or with the same parent, which is no root of the host."""
        above = {identity for other in others for identity in self.above(other)}
        parents = {self.rows[other].ppid for other in others} - {None, 0, 1}
        return {
            identity
            for identity in candidates
            if identity in above
            or self.rows[identity].ppid in parents
            or not {identity, *self.above(identity)}.isdisjoint(others)
        }
