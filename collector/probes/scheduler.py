"""The batch system or CI service that the job runs under, and what it says of the job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from flatline.bundle.facts import Scheduler, ToolRun, process_id

from .. import tools
from ..confine import Confined, ConfineFailed, run_as_target
from ..job import schedulers
from ..linux.procfs import text_of
from .interface import Artefact, Doing, Facts, Gap, Item, Run, View

_TOOL_S = 3.0
_LOOK_S = 1.0
_MOST_BYTES = 256 << 10
_MOST_ASKED = 2
_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
"""Beside the token, which is never opened."""


class SchedulerFacts:
    """Slurm, Kubernetes, Ray, LSF, PBS or a CI service: the job's number, node, queue and state."""

    name = "scheduler"
    tables = ("scheduler",)
    limit_s = 8.0
    spans_window = False
    reads = ("the environment of the job, as read when it was found", _NAMESPACE)
    runs = tuple(
        Run(shlex.join([*argv, "JOB"]), _TOOL_S, f"jobs of {kind}") for kind, argv in schedulers.QUESTIONS.items()
    )

    def gather(self, view: View) -> Iterator[Item]:
        rows = list(_of_environments(view).values())
        if not any(row.kind == "kubernetes" for row in rows):
            rows += _of_mounted_account(view)
        runs: list[ToolRun] = []
        for number, row in enumerate(rows):
            argv = _question(row) if len(runs) < _MOST_ASKED else None
            if argv is None:
                continue
            yield Doing(f"asking {row.kind} about job {row.job}")
            output = tools.run(argv, limit_s=_TOOL_S, max_bytes=_MOST_BYTES)
            runs.append(ToolRun(output.name, output.outcome, round(output.seconds, 2), message=output.message or None))
            rows[number] = schedulers.answered(row, text_of(output.stdout))
            yield from _told(row, rows[number], output)
        yield Facts("facts/scheduler.json", {"scheduler": rows, **({"tool_runs": runs} if runs else {})})


def _question(row: Scheduler) -> list[str] | None:
    argv = schedulers.question(row)
    program = tools.find_tool(argv[0]) if argv else None
    return [program, *argv[1:]] if argv and program else None


def _told(row: Scheduler, answer: Scheduler, output: tools.ToolOutput) -> Iterator[Item]:
    if output.stdout:
        yield Artefact(f"raw/{output.name}-job.txt", output.stdout)
    if answer.source != "tool":
        why = text_of(output.stderr).strip().partition("\n")[0][:200] or output.message or output.outcome
        status = "timeout" if output.outcome in ("timeout", "left-running") else "partial"
        yield Gap(status, f"{output.name} said nothing of job {row.job}: {why}", tables=("scheduler",))


def _of_environments(view: View) -> Mapping[object, Scheduler]:
    """Each job once, with the first process that tells of it: the target before its launchers."""
    found: dict[object, Scheduler] = {}
    for target in view.targets:
        for row in schedulers.of_environment(view.env_names.get(target.pid, {})):
            found.setdefault((row.kind, row.job), replace(row, process=process_id(target.pid)))
    return found


def _of_mounted_account(view: View) -> Iterator[Scheduler]:
    """A pod's account is mounted into it, whatever became of the environment."""

    def look(confined: Confined) -> Iterator[str]:
        yield confined.read(_NAMESPACE, 0, 256).decode("utf-8", "replace").strip()

    for target in [target for target in view.targets if target.relation != "ancestor"][:1]:
        for answer in run_as_target(target, look, proc=view.proc, limit_s=_LOOK_S):
            if not isinstance(answer, ConfineFailed):
                process = process_id(target.pid)
                yield Scheduler("kubernetes", queue=answer or None, process=process, source="environment")
