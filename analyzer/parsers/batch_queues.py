"""Queues of other batch systems than Slurm: qstat of PBS, Torque and Grid Engine, bjobs of LSF, condor_q of HTCondor.

120345.pbs01    ann      gpu      train_gpt     --    2  64  256gb 24:00 Q   --
  98124 0.00000 train.sh   ann          Eqw   03/04/2022 10:11:12                     1
81234   ann     PEND  gpu        login1         -        train      Mar  4 10:11
4411.0   ann             3/4  10:02   0+00:00:00 H  0    0.0 train.sh

Their letters become the words of Slurm, for the rules to ask one question: PENDING, RUNNING, HELD, SUSPENDED …
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from flatline.bundle.facts import Scheduler

from .interface import LOOKAHEAD, Line, Lines, Parsed, Parser, any_of
from .spans import rows_of

Kind = Literal["lsf", "pbs", "other"]
_Builder = Callable[[re.Match[str], Line], Scheduler]
_HELD = "held"
"""The reason where none is told. Rules look for the word."""
_JOB = r"(?P<job>\d{1,10}(?:\[[\d,-]{0,40}\])?"


def _row(
    kind: Kind, line: Line, job: str, state: str, reason: str | None = None, queue: str | None = None
) -> Scheduler:
    reason = reason or (_HELD if state == "HELD" else None)
    return Scheduler(kind, job, state, reason, queue=queue, source="tool", line=line.number)


# --- qstat of PBS and Torque ---

_PBS_STATES = {
    "Q": "PENDING", "R": "RUNNING", "H": "HELD", "E": "COMPLETING", "S": "SUSPENDED", "U": "SUSPENDED",
    "W": "PENDING", "T": "PENDING", "B": "RUNNING", "F": "COMPLETED", "C": "COMPLETED", "X": "COMPLETED",
}  # fmt: skip
_PBS_LETTER = f"(?P<state>[{''.join(_PBS_STATES)}])"
_PBS_JOB = rf"{_JOB}\.[\w.*-]{{1,60}})"
_PBS_SHORT = re.compile(
    rf"{_PBS_JOB}\s+\S{{1,64}}\s+\S{{1,32}}\s+(?:\d{{1,6}}:\d\d(?::\d\d)?|0)\s+{_PBS_LETTER}\s+(?P<queue>[\w.@-]{{1,40}})\s*$"
)
_PBS_WIDE = re.compile(
    rf"{_PBS_JOB}\s+\S{{1,32}}\s+(?P<queue>[\w.@-]{{1,40}})\s+\S{{1,64}}\s+(?:\d{{1,9}}|--)\s+(?:\d{{1,6}}|--)\s+"
    rf"(?:\d{{1,6}}|--)\s+(?:\S{{1,12}})\s+(?:\S{{1,12}})\s+{_PBS_LETTER}\s+(?:\d{{1,6}}:\d\d(?::\d\d)?|--)(?:\s.{{0,200}})?$"
)
_PBS_ASIDE = re.compile(r"(?P<comment>[A-Z][a-z].{0,300})$")
"""With -s: what the server says of the job above."""
_PBS_HEAD = re.compile(r"Job [Ii][Dd]\s+(?:Name|Username)\s+\S|-{8,40}\s+-{4,40}\s")


def parse_qstat(lines: Lines, start: int) -> Parsed | None:
    """Both tables, with or without their headlines."""
    rows: list[Scheduler] = []
    end = start
    for index in range(start, len(lines)):
        line = lines[index]
        found = _PBS_SHORT.match(line.bare) or _PBS_WIDE.match(line.bare)
        aside = _PBS_ASIDE.match(line.bare) if rows and line.text[:1].isspace() else None
        if found is not None:
            rows.append(_row("pbs", line, found["job"], _PBS_STATES[found["state"]], queue=found["queue"]))
        elif aside is not None:
            rows[-1] = replace(rows[-1], reason=aside["comment"])
        elif line.bare and (rows or not _PBS_HEAD.match(line.bare)):
            break
        if line.bare:
            end = index + 1
        if not rows and index - start > LOOKAHEAD:
            return None
    return Parsed(end, tuple(rows), about=f"{len(rows)} jobs") if rows else None


_PBS_FULL = re.compile(r"Job Id: (?P<job>\d{1,10}(?:\[\d{0,7}\])?[\w.-]{0,60})$")
_PBS_PAIR = re.compile(r"(?P<name>[A-Za-z][\w.]{0,60}) = (?P<value>.{0,1000})$")


def parse_qstat_full(lines: Lines, start: int) -> Parsed | None:
    """``qstat -f``: pairs below the number of each job; a long value goes on in a line that begins with a tab."""
    rows: list[Scheduler] = []
    pairs: dict[str, str] = {}
    end, last = start, ""
    for index in range(start, len(lines)):
        line = lines[index]
        head, pair = _PBS_FULL.match(line.bare), _PBS_PAIR.match(line.bare)
        if head is not None:
            pairs, last = {}, ""
            rows.append(_row("pbs", line, head["job"], ""))
        elif pair is not None:
            last = pair["name"]
            pairs.setdefault(last, pair["value"])
        elif line.bare and last and line.text[:1].isspace():
            pairs[last] += line.bare
        elif line.bare:
            break
        if line.bare:
            end = index + 1
        state = _PBS_STATES.get(pairs.get("job_state", ""), "")
        rows[-1] = replace(rows[-1], state=state, reason=pairs.get("comment") or (_HELD if state == "HELD" else None),
                           queue=pairs.get("queue"))  # fmt: skip
    told = tuple(row for row in rows if row.state)
    return Parsed(end, told, about=f"{len(told)} jobs") if told else None


# --- qstat of Grid Engine ---

_SGE_HEAD = re.compile(r"job-ID\s+prior\s+name\s+user\s+state\s")
_SGE_ROW = re.compile(
    r"(?P<job>\d{1,10})\s+\d\.\d{5}\s+\S.{0,20}?\s+\S{1,32}\s+(?P<state>[a-zA-Z]{1,4})\s+\d\d/\d\d/\d{4}\s+\d\d:\d\d:\d\d"
    r"(?:\s+(?P<queue>[\w.-]{1,60}@\S{1,60}))?\s+\d{1,6}(?:\s+\S{1,40})?$"
)


def _of_sge(found: re.Match[str], line: Line) -> Scheduler:
    letters = found["state"]
    state = "HELD" if "h" in letters or "E" in letters else "PENDING" if "w" in letters else "RUNNING"
    state = "SUSPENDED" if state == "RUNNING" and re.search("[sST]", letters) else state
    reason = "held: its start has failed (Eqw)" if "E" in letters else None
    return _row("other", line, found["job"], state, reason, found["queue"])


# --- bjobs ---

_LSF_STATES = {
    "PEND": "PENDING", "RUN": "RUNNING", "PSUSP": "HELD", "USUSP": "SUSPENDED", "SSUSP": "SUSPENDED", "WAIT": "PENDING",
    "DONE": "COMPLETED", "EXIT": "FAILED", "ZOMBI": "FAILED", "UNKWN": "UNKNOWN", "PROV": "CONFIGURING",
}  # fmt: skip
_LSF_STATE = f"(?P<state>{'|'.join(_LSF_STATES)})"
_LSF_HEAD = re.compile(r"JOBID\s+USER\s+STAT\s+QUEUE\s+FROM_HOST")
_LSF_ROW = re.compile(rf"(?P<job>\d{{1,10}})\s+\S{{1,32}}\s+{_LSF_STATE}\s+(?P<queue>[\w.-]{{1,40}})\s+\S.{{0,300}}$")
_LSF_LONG = re.compile(r"Job <(?P<job>\d{1,10}(?:\[\d{1,7}\])?)>,")
_LSF_REASONS = re.compile(r"PENDING REASONS:|SUSPENDING REASONS:")


def _of_lsf(found: re.Match[str], line: Line) -> Scheduler:
    return _row("lsf", line, found["job"], _LSF_STATES[found["state"]], queue=found["queue"])


def parse_bjobs_long(lines: Lines, start: int) -> Parsed | None:
    """``bjobs -l``: sentences that go on, in the middle of a word, in column 22; the reasons stand in lines below."""
    text, reasons, end, has_reasons = "", list[str](), start, False
    for index in range(start, min(start + LOOKAHEAD, len(lines))):
        line = lines[index]
        if index > start and _LSF_LONG.match(line.bare):
            break
        if _LSF_REASONS.match(line.bare):
            has_reasons = True
        elif has_reasons and line.bare and line.text[:1].isspace():
            reasons.append(line.bare)
        elif has_reasons or not (line.bare or index - start < 3):
            break
        elif line.bare:
            text += line.bare if re.match(r"\s{10}", line.text) else "\n" + line.bare
        if line.bare:
            end = index + 1
    flat = text.replace("\n", " ")
    head, state = _LSF_LONG.match(flat.strip()), re.search(rf"Status ?<{_LSF_STATE}>", flat)
    if head is None or state is None:
        return None
    queue = re.search(r"Queue ?<([^>]{1,80})>", flat)
    row = _row("lsf", lines[start], head["job"], _LSF_STATES[state["state"]], " ".join(reasons)[:500] or None,
               queue[1] if queue else None)  # fmt: skip
    return Parsed(end, (row,), about=f"job {row.job}: {row.state}")


# --- condor_q ---

_CONDOR_STATES = {"I": "PENDING", "R": "RUNNING", "H": "HELD", "C": "COMPLETED", "X": "CANCELLED", "S": "SUSPENDED",
                  ">": "RUNNING", "<": "RUNNING"}  # fmt: skip
_CONDOR_COUNTS = {"IDLE": "PENDING", "RUN": "RUNNING", "HOLD": "HELD"}
_CONDOR_ID = r"(?P<job>\d{1,9}\.\d{1,6})\s+(?P<user>[\w.@-]{1,32})\s+\d{1,2}/\d{1,2}\s+\d{1,2}:\d\d"
_CONDOR_ROW = re.compile(
    rf"{_CONDOR_ID}\s+\d{{1,4}}\+\d\d:\d\d:\d\d\s+(?P<state>[IRHCXS<>])\s+-?\d{{1,4}}\s+[\d.]{{1,12}}\s+\S"
)
_CONDOR_HELD = re.compile(rf"{_CONDOR_ID}\s+(?P<reason>[A-Z].{{4,500}})$")
_CONDOR_HEAD = re.compile(r"ID\s+OWNER\s+(?:SUBMITTED\s+RUN_TIME\s+ST\s+PRI|HELD_SINCE\s+HOLD_REASON)")
_CONDOR_BATCHES = re.compile(r"OWNER\s+BATCH_NAME\s+SUBMITTED\s+DONE\s+RUN\s+IDLE\s")
_CONDOR_COUNTED = re.compile(
    r"\S{1,32}\s+\S.{0,60}?\s+\d{1,2}/\d{1,2}\s+\d{1,2}:\d\d\s+(?P<counts>(?:(?:\d{1,7}|_)\s+){4,5})(?P<job>\d\S{0,60})"
)


def _of_condor(found: re.Match[str], line: Line) -> Scheduler:
    return _row("other", line, found["job"], _CONDOR_STATES[found["state"]])


def _of_condor_held(found: re.Match[str], line: Line) -> Scheduler:
    return _row("other", line, found["job"], "HELD", f"held: {found['reason']}")


def parse_condor_batches(lines: Lines, start: int) -> Parsed | None:
    """A line for all jobs of a batch: how many wait, run, are held."""
    names = lines[start].bare.split()
    columns = [name for name in ("DONE", "RUN", "IDLE", "HOLD", "TOTAL") if name in names]
    rows: list[Scheduler] = []
    end = start + 1
    for index in range(start + 1, len(lines)):
        found = _CONDOR_COUNTED.match(lines[index].bare)
        counts = found["counts"].split() if found else []
        if found is None or len(counts) != len(columns):
            break
        told = dict(zip(columns, counts, strict=True))
        states = (state for name, state in _CONDOR_COUNTS.items() if told.get(name, "_") not in ("_", "0"))
        rows += [_row("other", lines[index], found["job"], state) for state in states]
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{len(rows)} jobs") if rows else None


# --- lists that have a job in each line ---


def _list_of(head: re.Pattern[str], rows: Mapping[re.Pattern[str], _Builder]) -> Callable[[Lines, int], Parsed | None]:
    """What reads a headline, if it is there, the dashes below it, and the rows."""

    def one(line: Line) -> Scheduler | None:
        found = ((build, match) for row, build in rows.items() if (match := row.match(line.bare)))
        return next((build(match, line) for build, match in found), None)

    def parse(lines: Lines, start: int) -> Parsed | None:
        begun = start + bool(head.match(lines[start].bare))
        if begun > start and begun < len(lines) and re.match(r"-{20}", lines[begun].bare):
            begun += 1
        end, found = rows_of(lines, begun, one)
        return Parsed(end, tuple(found), about=f"{len(found)} jobs") if found else None

    return parse


PARSERS = (
    Parser("qstat", any_of(_PBS_HEAD, _PBS_SHORT, _PBS_WIDE), parse_qstat),
    Parser("qstat-full", _PBS_FULL, parse_qstat_full),
    Parser("qstat-sge", any_of(_SGE_HEAD, _SGE_ROW), _list_of(_SGE_HEAD, {_SGE_ROW: _of_sge})),
    Parser("bjobs", any_of(_LSF_HEAD, _LSF_ROW), _list_of(_LSF_HEAD, {_LSF_ROW: _of_lsf})),
    Parser("bjobs-long", _LSF_LONG, parse_bjobs_long),
    Parser("condor-batches", _CONDOR_BATCHES, parse_condor_batches),
    Parser("condor-jobs", any_of(_CONDOR_HEAD, _CONDOR_ROW),
           _list_of(_CONDOR_HEAD, {_CONDOR_ROW: _of_condor, _CONDOR_HELD: _of_condor_held})),
)  # fmt: skip
