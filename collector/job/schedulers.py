"""What batch systems and CI services tell their jobs in the environment, and what their tools say of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from flatline.bundle.facts import Scheduler

Kind = Literal["slurm", "kubernetes", "ray", "lsf", "pbs", "github", "gitlab", "jenkins", "other"]


@dataclass(frozen=True)
class Names:
    """The variables of one system, each with its elder spellings."""

    kind: Kind
    marks: tuple[str, ...]
    """One of them is there: the job runs under it."""
    job: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()


NAMES: Sequence[Names] = (
    Names("github", ("GITHUB_ACTIONS",), ("GITHUB_RUN_ID",), ("RUNNER_NAME",), ("GITHUB_WORKFLOW",)),
    Names("gitlab", ("GITLAB_CI",), ("CI_JOB_ID",), ("CI_RUNNER_DESCRIPTION",), ("CI_PIPELINE_ID",)),
    Names("jenkins", ("JENKINS_URL",), ("BUILD_TAG", "BUILD_ID"), ("NODE_NAME",), ("JOB_NAME",)),
    Names("kubernetes", ("KUBERNETES_SERVICE_HOST",), ("POD_NAME", "HOSTNAME"), ("NODE_NAME",), ("POD_NAMESPACE",)),
    Names("lsf", ("LSB_JOBID",), ("LSB_JOBID",), ("LSB_EXEC_HOSTS", "LSB_HOSTS"), ("LSB_QUEUE",)),
    Names("other", ("SGE_TASK_ID", "SGE_ROOT"), ("JOB_ID",), (), ("QUEUE",)),
    Names("pbs", ("PBS_JOBID",), ("PBS_JOBID",), ("PBS_NODENUM",), ("PBS_QUEUE",)),
    Names("ray", ("RAY_JOB_ID", "RAY_ADDRESS", "RAY_NODE_ID"), ("RAY_JOB_ID",), ("RAY_NODE_ID",)),
    Names(
        "slurm", ("SLURM_JOB_ID", "SLURM_JOBID"), ("SLURM_JOB_ID", "SLURM_JOBID"), ("SLURMD_NODENAME",),
        ("SLURM_JOB_PARTITION",),
    ),
)  # fmt: skip
"""Their manuals: sbatch(1), the downward API of Kubernetes, Ray, bsub(1), qsub(1), the CI services' variables."""


def of_environment(env: Mapping[str, str]) -> Iterator[Scheduler]:
    """The systems that a process's environment tells of; a job of Slurm on Kubernetes has two."""
    for names in NAMES:
        if any(env.get(mark) for mark in names.marks):
            job, node, queue = (_first(env, some) for some in (names.job, names.node, names.queue))
            yield Scheduler(names.kind, job=job, node=node, queue=queue, source="environment")


def _first(env: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((env[name] for name in names if env.get(name)), None)


# --- their tools ---

_JOB_ID = re.compile(r"\d{1,12}[\w.\[\]+-]{0,64}")
"""Nothing that a tool could take for an option."""
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "slurm": ("scontrol", "show", "job"),
    "lsf": ("bjobs", "-l"),
    "pbs": ("qstat", "-f"),
}
"""Before the job's number."""
_PAIR = re.compile(r"(?:^|\s)(\w+)=(\S+)")


def question(row: Scheduler) -> list[str] | None:
    """The command that asks the system about this job."""
    if not row.job or not _JOB_ID.fullmatch(row.job):
        return None
    asked = QUESTIONS.get(row.kind)
    return [*asked, row.job] if asked else None


def answered(row: Scheduler, text: str) -> Scheduler:
    """The row with what the answer to `question` adds; unchanged when it is not one."""
    told = {"slurm": _of_slurm, "pbs": _of_pbs, "lsf": _of_lsf}[row.kind](text)
    known = {name: value for name, value in told.items() if value}
    return replace(row, **known, source="tool") if "state" in known else row


def _of_slurm(text: str) -> dict[str, str | None]:
    """``JobState=RUNNING Reason=None …`` (scontrol(1))."""
    pairs = dict(reversed(_PAIR.findall(text)))  # the first one counts: a comment at the end may hold anything
    reason, ends = pairs.get("Reason"), pairs.get("EndTime")
    return {
        "state": pairs.get("JobState"),
        "reason": None if reason == "None" else reason,
        "queue": pairs.get("Partition"),
        "ends_at": None if ends in ("Unknown", "None") else ends,
    }


def _of_pbs(text: str) -> dict[str, str | None]:
    """``    job_state = R`` (qstat(1B))."""
    pairs = {name.strip(): value.strip() for name, _, value in (line.partition(" = ") for line in text.splitlines())}
    return {"state": pairs.get("job_state"), "reason": pairs.get("comment"), "queue": pairs.get("queue")}


def _of_lsf(text: str) -> dict[str, str | None]:
    """``Job <7>, …, Status <RUN>, Queue <gpu>`` (bjobs(1)); a line that is too long goes on in column 22."""
    flat = re.sub(r"\n {21}", "", text)
    state, queue = re.search(r"Status <(\w+)>", flat), re.search(r"Queue <([^>]{1,80})>", flat)
    return {"state": state[1] if state else None, "queue": queue[1] if queue else None}
