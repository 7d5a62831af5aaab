"""What batch systems say of jobs: squeue, scontrol show job, sacct; kubectl get pods and describe pod.

A row of the table `scheduler` per job or pod: its state, and the reason why it waits or ended.
"""

from __future__ import annotations

import re
from dataclasses import replace

from flatline.bundle.facts import Scheduler

from .columns import split_row
from .interface import LOOKAHEAD, Line, Lines, Parsed, Parser, any_of
from .spans import rows_of

_STATES = {
    "PD": "PENDING", "R": "RUNNING", "CG": "COMPLETING", "CD": "COMPLETED", "F": "FAILED", "TO": "TIMEOUT",
    "S": "SUSPENDED", "CA": "CANCELLED", "NF": "NODE_FAIL", "PR": "PREEMPTED", "CF": "CONFIGURING",
    "OOM": "OUT_OF_MEMORY", "ST": "STOPPED", "RQ": "REQUEUED", "RH": "REQUEUE_HOLD", "BF": "BOOT_FAIL",
    "DL": "DEADLINE", "SE": "SPECIAL_EXIT", "SO": "STAGE_OUT",
}  # fmt: skip
_STATE_WORDS = (
    "PENDING|RUNNING|COMPLETING|COMPLETI|COMPLETED|FAILED|TIMEOUT|SUSPENDED|CANCELLED|NODE_FAIL|PREEMPTED|CONFIGURING|"
    "CONFIGUR|OUT_OF_MEMORY|OUT_OF_ME\\+|OUT_OF_M|STOPPED|REQUEUED|BOOT_FAIL|DEADLINE|REVOKED|RESIZING"
)
_SHORT = {
    "COMPLETI": "COMPLETING",
    "CONFIGUR": "CONFIGURING",
    "OUT_OF_ME+": "OUT_OF_MEMORY",
    "OUT_OF_M": "OUT_OF_MEMORY",
}
_SQUEUE_COLUMN = (
    r"(?:JOBID|PARTITION|NAME|USER|GROUP|ACCOUNT|QOS|ST|STATE|(?:START_|SUBMIT_|END_)?TIME(?:_LIMIT|_LEFT)?|NODES|CPUS|"
    r"MIN_(?:CPUS|MEMORY)|PRIORITY|TRES_PER_(?:NODE|JOB)|FEATURES|DEPENDENCY|SCHEDNODES|EXEC_HOST|REASON|"
    r"NODELIST(?:\(REASON\))?)"
)
_SQUEUE_HEAD = re.compile(
    rf"(?=.{{0,200}}\bJOBID\b)(?=.{{0,200}}\bST(?:ATE)?\s)(?:{_SQUEUE_COLUMN}\s+){{2,20}}{_SQUEUE_COLUMN}$"
)
_SQUEUE_JOB = re.compile(r"\d{1,10}(?:_(?:\d{1,7}|\[[\d,%:-]{1,100}\]))?(?:\+\d{1,6})?$")
_SQUEUE_ROW = re.compile(
    r"(?P<job>\d{1,10}(?:_(?:\d{1,7}|\[[\d,%:-]{1,100}\]))?(?:\+\d{1,6})?)\s+(?P<queue>[\w.,*-]{1,40})\s+"
    rf"(?P<name>\S.{{0,40}}?)\s+(?P<user>[\w.@+⟪·⟫-]{{1,32}})\s+(?P<state>{'|'.join(_STATES)}|{_STATE_WORDS})\s+"
    r"(?:[\d:.-]{1,25}|N/A|UNLIMITED|INVALID|\d{4}-\d\d-\d\dT\S{1,20})\s+(?:(?:[\d:-]{1,20}|UNLIMITED)\s+)?"
    r"\d{1,6}\s+(?:\(null\)\s+)?(?P<where>\S.{0,300})$"
)
_PAIR = re.compile(r"(?:^|\s)(?P<name>[A-Z]\w{1,40})=(?P<value>\S*)")
_JOB = re.compile(r"JobId=(?P<job>\d{1,10}(?:_\S{1,40})?)\s")
_SACCT_HEAD = re.compile(r"(?:JobID|JobIDRaw)\s+\S.*\b(?:State|ExitCode)\b")
_POD_STATUS = (
    r"Running|Pending|Succeeded|Failed|Unknown|CrashLoopBackOff|OOMKilled|Error|Completed|Terminating|Evicted|"
    r"ContainerCreating|ImagePullBackOff|ErrImagePull|Init:\S{1,30}|PodInitializing|CreateContainer\w{1,20}|NotReady|"
    r"ContainerStatusUnknown|UnexpectedAdmissionError|NodeLost|Preempting|InvalidImageName|RunContainerError|StartError"
)
_PODS_HEAD = re.compile(r"(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE")
_POD_ROW = re.compile(
    r"(?:(?P<space>[a-z0-9-]{1,63})\s+)?(?P<name>[a-z0-9][a-z0-9.-]{1,252})\s+\d{1,4}/\d{1,4}\s+"
    rf"(?P<state>{_POD_STATUS})\s+"
    r"(?P<restarts>\d{1,6}(?: \(\S{1,12} ago\))?)\s+(?P<age>\S{1,12})(?:\s.{0,300})?$"
)
_DESCRIBED = re.compile(r"(?P<name>[A-Z][A-Za-z /-]{1,40}):(?:\s+(?P<value>\S.{0,1000}))?$")
_EVENT = re.compile(
    r"(?P<type>Normal|Warning)\s+(?P<reason>[A-Z]\w{2,40})\s+(?P<age>\S.{0,40}?)\s{2,}(?P<source>[\w./-]{1,80})\s+"
    r"(?P<message>\S.{0,2000})$"
)
_TROUBLE = frozenset(
    ["FailedScheduling", "FailedMount", "FailedAttachVolume", "BackOff", "Failed", "Unhealthy", "Evicted", "OOMKilling",
     "NodeNotReady", "FailedCreatePodSandBox", "FailedKillPod", "Preempted", "TaintManagerEviction",
     "NotTriggerScaleUp",
     "UnexpectedAdmissionError", "NetworkNotReady", "SystemOOM"]
)  # fmt: skip


def parse_squeue(lines: Lines, start: int) -> Parsed | None:
    """Rows as squeue prints them, with or without the headline; below one in whatever columns were asked for (-o)."""
    head = lines[start] if _SQUEUE_HEAD.match(lines[start].bare) else None
    begun = start + bool(head)
    end, rows = rows_of(lines, begun, lambda line: _queued(line) or (_in_columns(line, head) if head else None))
    return Parsed(end, tuple(rows), about=f"{len(rows)} jobs") if rows or head else None


def _in_columns(line: Line, head: Line) -> Scheduler | None:
    row = split_row(line.text, head.bare.split(), head.text) or {}
    job, state = row.get("JOBID", ""), row.get("ST") or row.get("STATE", "")
    if not _SQUEUE_JOB.match(job) or not (state in _STATES or re.fullmatch(_STATE_WORDS, state)):
        return None
    node, _, why = (row.get("NODELIST(REASON)") or row.get("NODELIST", "")).partition("(")
    reason = row.get("REASON", why).strip("()")
    return Scheduler(
        "slurm", job, _STATES.get(state, _SHORT.get(state, state)), _told(reason), queue=row.get("PARTITION"),
        node=_told(node), source="tool", line=line.number,
    )  # fmt: skip


def _told(text: str) -> str | None:
    return None if text in ("", "None", "null", "N/A", "n/a") else text


def _queued(line: Line) -> Scheduler | None:
    found = _SQUEUE_ROW.match(line.bare)
    if found is None:
        return None
    where, state = found["where"], found["state"]
    reason = where[1:].partition(")")[0] if where.startswith("(") else None
    return Scheduler(
        "slurm", found["job"], _STATES.get(state, _SHORT.get(state, state)), reason or None, queue=found["queue"],
        node=None if where.startswith("(") else where.split()[0], source="tool", line=line.number,
    )  # fmt: skip


def parse_job(lines: Lines, start: int) -> Parsed | None:
    """``scontrol show job``: pairs in indented lines, or all in one (-o)."""
    head = _JOB.match(f"{lines[start].bare} ")
    if head is None:
        return None
    pairs: dict[str, str] = {}
    end = start
    for index in range(start, len(lines)):
        bare = lines[index].bare
        found = {m["name"]: m["value"] for m in _PAIR.finditer(bare)}
        if not found or (index > start and "JobId" in found) or index - start > LOOKAHEAD:
            break
        pairs = {**found, **pairs}  # the first one counts: a comment at the end may hold anything
        end = index + 1
    if "JobState" not in pairs:
        return None
    plain = {
        name: None if value in ("None", "(null)", "Unknown", "N/A", "") else value for name, value in pairs.items()
    }
    row = Scheduler(
        "slurm", head["job"], plain.get("JobState"), plain.get("Reason"), node=plain.get("NodeList"),
        queue=plain.get("Partition"), ends_at=plain.get("EndTime"), source="tool", line=lines[start].number,
    )  # fmt: skip
    return Parsed(end, (row,), about=f"job {row.job}: {row.state}")


def parse_sacct(lines: Lines, start: int) -> Parsed | None:
    """Columns that the line of dashes below the headline measures."""
    if start + 1 >= len(lines) or not re.fullmatch(r"(?:-{2,80} ?)+", lines[start + 1].bare):
        return None
    spans = [found.span() for found in re.finditer(r"-+", lines[start + 1].text)]
    names = [lines[start].text[first:last].strip() for first, last in spans]
    rows: list[Scheduler] = []
    end = start + 2
    for index in range(start + 2, len(lines)):
        text = lines[index].text
        row = {n: text[first:last].strip() for n, (first, last) in zip(names, spans, strict=True)}
        job = row.get("JobID") or row.get("JobIDRaw") or ""
        if not re.match(r"\d{1,10}", job):
            break
        end = index + 1
        state = row.get("State", "").split(" ")[0]
        if "." not in job and state:
            node, queue = row.get("NodeList") or None, row.get("Partition") or None
            rows.append(Scheduler("slurm", job, _SHORT.get(state, state), node=node, queue=queue, source="tool",
                                  line=lines[index].number))  # fmt: skip
    return Parsed(end, tuple(rows), about=f"{len(rows)} jobs")


def parse_pods(lines: Lines, start: int) -> Parsed | None:
    """``kubectl get pods``."""
    begun = start + bool(_PODS_HEAD.match(lines[start].bare))
    end, rows = rows_of(lines, begun, _listed)
    return Parsed(end, tuple(rows), about=f"{len(rows)} pods") if rows or begun > start else None


def _listed(line: Line) -> Scheduler | None:
    found = _POD_ROW.match(line.bare)
    if found is None:
        return None
    return Scheduler("kubernetes", found["name"], found["state"], queue=found["space"], source="tool",
                     line=line.number)  # fmt: skip


def parse_pod(lines: Lines, start: int) -> Parsed | None:
    """``kubectl describe pod``: fields, the states of its containers, its events."""
    if not any(
        re.match(r"\s*(?:Namespace|Priority|Node|Start Time):", line.text) for line in lines[start + 1 : start + 6]
    ):
        return None
    fields: dict[str, str] = {}
    reasons: list[str] = []
    events: list[Scheduler] = []
    end, blank = start, 0
    for index in range(start, len(lines)):
        line = lines[index]
        blank = 0 if line.bare else blank + 1
        event = _event(line)
        field = _DESCRIBED.match(line.bare)
        inside = line.text.startswith(("  ", "\t")) or field is not None
        if blank > 2 or (line.bare and event is None and not inside):
            break
        if event is not None:
            events.append(event)
        elif field is not None and field["value"]:
            fields.setdefault(field["name"], field["value"].strip())
            if field["name"] == "Reason":
                reasons.append(field["value"].strip())
        end = index + 1 if line.bare else end
    telling = next((r for r in reasons if r not in ("Completed", "Running")), None)
    telling = telling or next((e.reason for e in reversed(events)), None)
    row = Scheduler("kubernetes", fields.get("Name"), fields.get("Status"), telling, node=_node(fields.get("Node")),
                    queue=fields.get("Namespace"), source="tool", line=lines[start].number)  # fmt: skip
    named = [replace(event, job=event.job or row.job, queue=row.queue) for event in events]
    return Parsed(end, (row, *named), about=f"pod {row.job}: {row.state}")


def _node(text: str | None) -> str | None:
    return None if text in (None, "<none>") else (text or "").partition("/")[0]


def parse_events(lines: Lines, start: int) -> Parsed | None:
    """Events alone: the end of a describe, or what ``kubectl get events`` prints."""
    rows: list[Scheduler] = []
    end = start
    for index in range(start, len(lines)):
        bare = lines[index].bare
        found = _EVENT.match(bare)
        if found is None:
            break
        event = _event(lines[index])
        rows += [event] if event else []
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{end - start} events") if end > start else None


def _event(line: Line) -> Scheduler | None:
    """An event that tells of trouble."""
    found = _EVENT.match(line.bare)
    if found is None or found["type"] != "Warning" or found["reason"] not in _TROUBLE:
        return None
    return Scheduler("kubernetes", state="event", reason=f"{found['reason']}: {found['message']}"[:500], source="tool",
                     line=line.number)  # fmt: skip


PARSERS = (
    Parser("squeue", any_of(_SQUEUE_HEAD, _SQUEUE_ROW), parse_squeue),
    Parser("scontrol-job", re.compile(r"JobId=\d{1,10}"), parse_job),
    Parser("sacct", _SACCT_HEAD, parse_sacct),
    Parser("kubectl-pods", any_of(_PODS_HEAD, _POD_ROW), parse_pods),
    Parser("kubectl-pod", re.compile(r"Name:\s+[a-z0-9][a-z0-9.-]{1,252}$"), parse_pod),
    Parser("kubectl-events", any_of(_EVENT), parse_events, is_log=True),
)
