"""What the job's user may store on file servers: those of NFS count themselves, and only quota(1) asks them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flatline.bundle.facts import Quota, ToolRun

from .. import tools
from ..linux import quota
from ..linux.mounts import by_id
from ..linux.procfs import ProcFS, text_of
from .interface import Artefact, Doing, Facts, Gap, Item, Run, Target, View

_TOOL_S = 3.0
_MOST_BYTES = 64 << 10
_MOST_USERS = 2
_ASKED_OF = ("nfs", "nfs4")


class Quotas:
    """What the job's user may store on the NFS servers it uses; local ones are asked with their mounts."""

    name = "quotas"
    tables = ("quotas",)
    limit_s = 8.0
    spans_window = False
    reads = ("/proc/PID/mountinfo",)
    runs = (Run("quota -w -p -u UID", _TOOL_S, "each user of the job, where a file system of NFS is mounted"),)

    def gather(self, view: View) -> Iterator[Item]:
        proc = ProcFS(view.proc)
        users = _users(proc, view.targets)
        program = tools.find_tool("quota")
        if program is None:
            if users:
                yield Gap("absent", "quotas of NFS were not asked for", "apt-get install quota", tables=self.tables)
            return
        for uid in users:
            yield Doing(f"asking file servers what uid {uid} may store")
            output = tools.run([program, "-w", "-p", "-u", str(uid)], limit_s=_TOOL_S, max_bytes=_MOST_BYTES)
            text = text_of(output.stdout)
            rows: list[Quota] = list(quota.printed(text, uid))
            run = ToolRun(output.name, output.outcome, round(output.seconds, 2), message=output.message or None)
            if text:
                yield Artefact(f"raw/quota-{uid}.txt", text)
            yield Facts(f"facts/quotas-{uid}.json", {"quotas": rows, "tool_runs": [run]})
            if output.outcome in ("timeout", "left-running"):
                yield Gap("timeout", f"a file server did not say what uid {uid} may store", tables=self.tables)


def _users(proc: ProcFS, targets: Sequence[Target]) -> list[int]:
    """The users of the job's processes that see a file system of NFS."""
    job = [target for target in targets if target.relation != "ancestor"]
    seen = dict.fromkeys(t.uid for t in job if t.uid >= 0)
    if not job or not any(mount.kind in _ASKED_OF for mount in by_id(proc, job[0].pid).values()):
        return []
    return list(seen)[:_MOST_USERS]
