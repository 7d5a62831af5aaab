"""How a job is when only texts tell of it: what its logs say last, what the kernel says, which states are listed.

A stack outranks a log: this is asked where there is none, or where those pasted decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from flatline.bundle.facts import KernelEvent, Log, LoggedError

from ..case import FactStore
from ..findings import Verdict, VerdictState
from .logs.collectives import watched
from .logs.pace import Pace, looked_at, pace_of
from .logs.progress import Progress
from .logs.reading import LogText
from .logs.sign_table import WATCHDOG_ENDED
from .logs.signs import LAST_WORDS, Read, Sign, calls_of, cut_stack, read
from .looks import Told, told_by_looks

OWN_CHILD = (
    ("popen_fork.py", ""),
    ("popen_spawn_posix.py", ""),
    ("dataloader.py", "_shutdown_workers"),
    ("dataloader.py", "_try_get_data"),
    ("distributed_c10d.py", ""),
    ("threading.py", "_shutdown"),
)
"""(end of the file, function) of waits that only the job itself can end."""
ALMOST = 0.5
"""Of a time-out: a bar that has run so long when it struck was running while the others waited."""
STALLED = 0.8
"""A stall inspector says itself that ranks wait, and for which: no cause says it better."""
FEW = 10
"""Collectives of a job that has not begun to train."""
SLOW_EACH_S = 60.0
"""Seconds per item from which on a bar that moves is called slow."""
SLOW_STEP_S = 300.0
"""Of a step that a line tells: what is called so may be long by design."""
EVEN = 3.0
"""Times by which the speed that a bar shows may differ from its mean: it had not stalled when it was drawn."""
LONG_S = 3600.0
"""Still to go, of data that is prepared: slow, not stuck."""
GETS_ON = 0.35
"""How sure it is of a log's end that it goes on like that: less than of any stack that somebody has taken later."""
LATELY = 2.0
"""Of its own longest pauses: who got on so long ago is not late."""
SILENT = 10.0
"""Of them from which on a log has fallen silent, and that time is no shorter than `SILENT_S`."""
SILENT_S = 600.0
ZONE_S = 1800.0
"""What clocks of different time zones differ by is a multiple of this."""
MAX_ZONES_S = 14 * 3600.0
LATE_TROUBLE = 10
MAX_FALLBACKS = 20
"""Lines about the device that are looked at; the first ones tell."""
FATAL_XIDS = frozenset({48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140})
"""After which the device, or the context on it, is lost or limited."""
KERNEL_LOG = "raw/kernel-log.txt"
"""Where the collector puts the host's log."""
QUOTE = 160
_LAUNCHER = re.compile(r"torch/distributed/(?:elastic|run\.py|launch|launcher)|/subprocess\.py$|/bin/torchrun$")
"""Who has started the ranks stands where it always stands."""
_KEYS = re.compile(r"(?:\^C)+\s*$")
"""That somebody has pressed Ctrl-C, and nothing of what he has ended."""
_WAIT_CALL = re.compile(r"\.(?:wait|acquire|get|join|recv|poll|select|result|communicate|waitpid)\(|\bsleep\(")


def told_by_texts(store: FactStore, texts: Sequence[LogText]) -> Told | None:
    """The weightiest that any text says; None: none says how the job is."""
    reads = [read(text, _errors_in(store.rows("errors"), text.log)) for text in texts]
    told = [*_dumps(store.rows("errors")), *_kernel(_of_the_job(store)), *told_by_looks(store)]
    for one in reads:
        told += _of_log(one)
    told += _by_the_clock(reads, looked_at(texts))
    return min(told, key=_weight, default=None)


def as_verdict(verdict: Verdict, told: Told | None, logs: int) -> Verdict:
    """The verdict of the stacks, or what the texts say where those decide nothing."""
    if told is not None:
        because = [told.because, *verdict.because]
        return verdict.model_copy(update={"state": told.state, "confidence": told.confidence, "because": because})
    if not logs:
        return verdict
    nothing = "no line of its log says that it ended, or that a wait was given up"
    return verdict.model_copy(update={"because": [*verdict.because, nothing]})


_ORDER: tuple[VerdictState, ...] = ("hung", "crashed", "waiting", "slow", "degraded", "healthy", "unknown")


def _weight(told: Told) -> tuple[float, int]:
    """The surest; of equals what weighs most."""
    return -told.confidence, _ORDER.index(told.state)


# --- one log ---


def _of_log(one: Read) -> Iterator[Told]:
    """What a log says: the first of these that it says at all."""
    for ask in (
        _timed_out,
        _crashed,
        _asked,
        _stalled,
        _interrupted,
        _waits,
        _cut,
        _fallback,
        _slow,
        _trouble,
    ):
        told = ask(one)
        if told is not None:
            yield told
            return


def _timed_out(one: Read) -> Told | None:
    """A time-out is a hang that somebody put an end to; unless a rank was at work meanwhile, or had died before."""
    sign = next((s for s in one.of("timed-out") if not one.goes_on_after(s)), None)
    if sign is None:
        return None
    killed = next((s for s in one.of("ended") if s.what == WATCHDOG_ENDED), None)
    if killed is not None:
        return Told("crashed", 0.8, f"{_said(one, killed)}; before: {_said(one, sign)}")
    died = next((s for s in one.of("ended") if s.index < sign.index and not one.goes_on_after(s)), None)
    if died is not None:
        return Told("crashed", 0.8, f"{_said(one, died)}, before the others' time-out")
    bar = _at_work(one, sign)
    if bar is not None:
        return Told("slow", 0.8, f"{_said(one, sign)}, but meanwhile a rank got on: {bar.text}")
    return Told("hung", 0.85, _said(one, sign))


def _at_work(one: Read, sign: Sign) -> Progress | None:
    """A bar that was moving at the time-out: it had run for about as long, and prepares data or is at the beginning."""
    bars = [state for index, state in one.progress if index <= sign.index + LATE_TROUBLE and state.is_bar]
    moving = [bar for bar in bars if bar.done and not bar.is_complete and bar.seconds_each is not None]
    if not moving or moving[-1].elapsed_s is None:
        return None
    bar = moving[-1]
    seq, limit = watched(sign.line).seq, watched(sign.line).limit_s
    long_enough = (bar.elapsed_s or 0) >= (ALMOST * limit if limit else 60.0)
    early = limit is not None and (bar.elapsed_s or 0) <= 1.2 * limit and seq is not None and seq <= FEW
    return bar if long_enough and (bar.is_data_work or early) else None


def _crashed(one: Read) -> Told | None:
    """The error that ended it, after which the log does not go on; what follows from an interruption is none."""
    interrupted = next((s.index for s in one.of("interrupted")), one.size)
    ended = [s for s in one.of("ended") if s.index < interrupted and not one.goes_on_after(s)]
    refused = [s for s in one.of("not-given") if one.is_last_word(s) and not one.goes_on_after(s)]
    later = one.of("interrupted", "waits")
    if ended and not (later and later[-1].index > ended[-1].index and one.is_last_word(later[-1])):
        return Told("crashed", 0.8, _said(one, ended[0]))
    return Told("crashed", 0.55, _said(one, refused[-1])) if refused else None


def _asked(one: Read) -> Told | None:
    line = one.prompt()
    return Told("waiting", 0.8, f"its log ends with a question: {_quoted(one, line)}") if line is not None else None


def _stalled(one: Read) -> Told | None:
    sign = next((s for s in reversed(one.of("stalled")) if not one.goes_on_after(s)), None)
    return Told("waiting", STALLED, _said(one, sign)) if sign is not None else None


def _interrupted(one: Read) -> Told | None:
    """Who interrupts a job had waited in vain; where it stood tells whether only the job itself could have gone on."""
    sign = next((s for s in reversed(one.of("interrupted")) if not one.goes_on_after(s)), None)
    if sign is None or "scheduler" in sign.what:
        return None
    calls = [call for call in calls_of(one, sign) if not _LAUNCHER.search(call[0])]
    if not calls and _KEYS.match(sign.line.text):
        return None  # the end of a command, such as one that follows a log
    own = [c for c in calls[:8] if any(c[0].endswith(file) and (not name or c[1] == name) for file, name in OWN_CHILD)]
    if own or not calls:
        return Told("hung", 0.65 if own else 0.5, f"{_said(one, sign)}{_in(own)}")
    return Told("waiting", 0.6, f"{_said(one, sign)}{_in(calls)}")


def _in(calls: Sequence[tuple[str, str]]) -> str:
    return f", in {calls[0][1]} ({calls[0][0].rpartition('/')[2]})" if calls else ""


def _waits(one: Read) -> Told | None:
    sign = next(iter(reversed(one.of("waits", "joining"))), None)
    if sign is not None and _nothing_after(one, sign):
        return Told("waiting", 0.65 if sign.kind == "waits" else 0.55, _said(one, sign))
    bar = _last_bar(one)
    if bar is not None and bar.is_download and not bar.is_complete:
        return Told("waiting", 0.55, f"its log ends within a download: {bar.text}")
    return None


def _nothing_after(one: Read, sign: Sign) -> bool:
    """Whether it is the last word, or what follows is only more trouble."""
    after = [s for s in one.signs if s.index > sign.index and s.kind != "trouble"]
    return not after and one.plain_after(sign) <= LAST_WORDS


def _cut(one: Read) -> Told | None:
    """A traceback of which the error is lost: a stack that waits was interrupted, any other was the end."""
    code = cut_stack(one)
    if code is None:
        return None
    last = one.text.lines[-1]
    if _WAIT_CALL.search(code):
        return Told("waiting", 0.5, f"its log ends with a stack that waits: {_quoted(one, last)}")
    return Told("crashed", 0.5, f"its log ends within a traceback: {_quoted(one, last)}")


def _slow(one: Read) -> Told | None:
    bar = _last_bar(one)
    if bar is None or bar.is_complete or not bar.done:
        return None
    if (bar.seconds_each or 0) < SLOW_EACH_S:
        return _long_work(bar)
    return Told("slow", 0.55, f"its last word is {bar.text}: {bar.seconds_each:.0f} s each")


def _long_work(bar: Progress) -> Told | None:
    """Data that is prepared at an even speed, with hours to go."""
    left, each, elapsed = bar.left_s or 0.0, bar.seconds_each, bar.elapsed_s
    if not bar.is_data_work or bar.is_download or left < LONG_S or not each or not elapsed:
        return None
    if not 1 / EVEN <= elapsed / bar.done / each <= EVEN:
        return None
    return Told("slow", 0.55, f"its last word is {bar.text}: it gets on evenly, and has {left / 3600:.0f} h to go")


def _last_bar(one: Read) -> Progress | None:
    """The bar that the log ends with."""
    if not one.progress or one.progress[-1][0] < one.size - 1 - LAST_WORDS:
        return None
    return one.progress[-1][1]


def _fallback(one: Read) -> Told | None:
    """What a job says of its device before it begins; who says it between two steps says it of something else."""
    sign = next((s for s in one.of("fallback")[:MAX_FALLBACKS] if not one.goes_on_over(s)), None)
    return Told("degraded", 0.6, _said(one, sign)) if sign is not None else None


def _trouble(one: Read) -> Told | None:
    trouble = [s for s in one.of("trouble") if s.index >= one.size - LATE_TROUBLE]
    return Told("degraded", 0.45, f"{_said(one, trouble[0])}, and not that it ended") if trouble else None


# --- all logs ---


def _by_the_clock(reads: Sequence[Read], looked: datetime | None) -> Iterator[Told]:
    """Whether the log that got on last was late, by its own pace, when somebody looked at the clock; without a clock,
    that a log got on up to its end."""
    paced = [(one, pace) for one in reads if (pace := pace_of(state for _, state in one.progress)) is not None]
    paced = [(one, pace) for one, pace in paced if not _says_more_after(one, pace)]
    timed = [(silent, one, pace) for one, pace in paced if looked and (silent := pace.silent_s(looked)) is not None]
    if timed:
        yield from _late(*min(timed, key=lambda found: found[0]))
        return
    for one, pace in paced:
        if _last_bar(one) is pace.last and not pace.last.is_complete and not pace.last.is_download:
            said = f"its log gets on up to its end: {_quoted(one, pace.last.line)}"
            yield Told(_moves(pace), GETS_ON, f"{said}; what came then does not show")
            return


def _late(silent: float, one: Read, pace: Pace) -> Iterator[Told]:
    said = f"{_quoted(one, pace.last.line)} was written {silent:.0f} s before somebody looked at the clock"
    usual = f"{pace.pause_s:.0f} s are usual"
    if 0 <= silent <= LATELY * pace.pause_s:
        yield Told(_moves(pace), 0.7, f"it gets on: {said}; {usual}")
    elif silent >= max(SILENT * pace.pause_s, SILENT_S) and not _may_be_a_zone(silent, LATELY * pace.pause_s):
        yield Told("hung", 0.6, f"its log has fallen silent: {said}; {usual}")


def _moves(pace: Pace) -> VerdictState:
    """What somebody who waits for it calls its pace."""
    is_slow = pace.last.is_data_work or (pace.seconds_each or 0.0) >= SLOW_STEP_S
    return "slow" if is_slow else "healthy"


def _says_more_after(one: Read, pace: Pace) -> bool:
    """Whether what it says later tells more of it."""
    at = max(index for index, state in one.progress if state.line is pace.last.line)
    return any(sign.index > at and sign.kind not in ("joined", "fallback", "trouble") for sign in one.signs)


def _may_be_a_zone(silent: float, late: float) -> bool:
    """Whether the clock may only be one of another time zone than the log's."""
    return silent % ZONE_S <= late and silent <= MAX_ZONES_S


# --- other texts ---


def _dumps(errors: Iterable[LoggedError]) -> Iterator[Told]:
    """A dump of all stacks that a timer of the job's own made: nothing had called the timer off."""
    for error in errors:
        if error.kind == "timeout":
            after = f" after {error.timeout_s:.0f} s" if error.timeout_s else ""
            yield Told("hung", 0.7, f"{error.artefact}:{error.line}: its own watchdog dumped the stacks{after}")
            return


def _of_the_job(store: FactStore) -> list[KernelEvent]:
    """What the kernel says of anybody's task stands in every bundle made on the host; what is pasted was chosen."""
    ours = {process.pid for process in store.rows("processes")}
    return [event for event in store.rows("kernel_events") if event.pid in ours or not _is_whole_log(event)]


def _is_whole_log(event: KernelEvent) -> bool:
    return event.pid is not None and event.kind in ("hung-task", "soft-lockup") and event.artefact.endswith(KERNEL_LOG)


def _kernel(events: Sequence[KernelEvent]) -> Iterator[Told]:
    told = {"hung-task": ("hung", 0.75, "the kernel reports a task that does not come back"),
            "soft-lockup": ("hung", 0.75, "the kernel reports a processor that does not come back")}  # fmt: skip
    for event in events:
        state, confidence, what = told.get(event.kind, ("", 0.0, ""))
        if state:
            yield Told(state, confidence, f"{event.artefact}:{event.line}: {what}")  # type: ignore[arg-type]
        elif event.kind == "xid" and event.code in FATAL_XIDS:
            yield Told("degraded", 0.5, f"{event.artefact}:{event.line}: the driver reports Xid {event.code}")
        elif event.kind == "nfs" and event.resolved is not True:
            yield Told("hung", 0.6, f"{event.artefact}:{event.line}: a file server does not answer")


# --- words ---


def _said(one: Read, sign: Sign) -> str:
    return f"{sign.what}: {_quoted(one, sign.line)}"


def _quoted(one: Read, line: object) -> str:
    text = getattr(line, "bare", "")
    shown = text if len(text) <= QUOTE else f"{text[: QUOTE - 1]}…"
    return f"“{shown}” ({one.text.at(line)})"  # type: ignore[arg-type]


def _errors_in(errors: Iterable[LoggedError], log: Log) -> list[LoggedError]:
    return [error for error in errors if error.artefact == log.text]
