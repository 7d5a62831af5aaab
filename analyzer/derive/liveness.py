"""Does a thread get on? From what it did over the observation window, never from one look or from its CPU alone.

`judge_liveness` fills `liveness`, `liveness_reason` and `period_s` of every thread of a scene.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from flatline.bundle.facts import Frame, Liveness, Process, Thread, ThreadSample

from .known import DEVICE_READS, SLEEPS, UNTIMED, known_wait
from .scene import Scene, Stack, innermost_user, is_user, place

IDLE_CPU = 0.02
"""Below this share of one CPU a thread does nothing to speak of."""
SYSTEM_SHARE = 0.5
"""A thread that spends more than this in the kernel, without I/O and at one line, asks the kernel over and over."""
IDLE_LOOP = re.compile(
    r"while (?:[\w\s.\[\]'\"<>=!-]|\.(?:is_set|is_alive|empty|done|exists|poll)\(\))+:(?:\s*(?:pass|continue))?"
    r"|pass|continue|\.\.\.|(?:os\.)?sched_yield\(\)|(?:time\.)?sleep\(0(?:\.0*)?\)"
)
"""A line of a loop that only asks: its head without a call that could do work, or a body that does nothing."""
REPEATED_BYTES = 512
"""A log and what its writer has written are not looked at in the same moment: a line may lie between."""
REPEATED_PAGES, PAGE = 8, 4096
"""Of a disk: lines that are added to a log dirty its last page again and again, and each time it counts as written."""
READ_BYTES = 4096
"""Reads below this are wake-ups through a pipe or an eventfd, not work."""


@dataclass(frozen=True)
class Judgement:
    """The state of a thread, why, and the period of one that polls."""

    liveness: Liveness
    reason: str
    period_s: float | None = None


@dataclass(frozen=True)
class Course:
    """What one thread did between the first look and the last."""

    thread: Thread
    samples: tuple[ThreadSample, ...]
    stacks: tuple[Stack, ...]

    @cached_property
    def window_s(self) -> float:
        return (self.samples[-1].mono_ns - self.samples[0].mono_ns) / 1e9 if len(self.samples) > 1 else 0.0

    @property
    def is_single_look(self) -> bool:
        return self.window_s <= 0

    def _grown(self, *names: str) -> int | None:
        ends = [sum(values) for s in (self.samples[0], self.samples[-1])
                if None not in (values := [getattr(s, n) for n in names])] if self.samples else []  # fmt: skip
        return ends[1] - ends[0] if len(ends) == 2 else None

    @cached_property
    def user_ms(self) -> int:
        return self._grown("user_ms") or 0

    @cached_property
    def system_ms(self) -> int:
        return self._grown("system_ms") or 0

    @cached_property
    def cpu_known(self) -> bool:
        return self._grown("user_ms", "system_ms") is not None

    @property
    def cpu_share(self) -> float:
        return (self.user_ms + self.system_ms) / 1000 / self.window_s if self.window_s else 0.0

    @cached_property
    def wakes(self) -> int | None:
        """Voluntary context switches: how often it went to sleep again."""
        return self._grown("voluntary")

    @property
    def uses_cpu(self) -> bool:
        return self.cpu_share >= IDLE_CPU or self.is_kept_waiting

    @cached_property
    def is_kept_waiting(self) -> bool:
        """Whether it would run all the time, however little of a CPU it gets: a busy host tells nothing of the job."""
        always_ready = len(self.samples) > 1 and all(sample.state == "R" for sample in self.samples)
        return always_ready or bool(self.wakes == 0 and self._grown("involuntary"))

    @cached_property
    def is_woken_waiter(self) -> bool:
        """Whether it waits for somebody in every look, and a busy host only lets it run late when it is woken."""
        waits = [known_wait(stack) for stack in self.stacks if stack]
        found = bool(waits) and all(wait is not None and not wait[0].burns_cpu for wait in waits)
        return found and self.cpu_share < IDLE_CPU and self.is_kept_waiting

    @cached_property
    def ran(self) -> bool:
        """Whether it was on a CPU at all."""
        return bool(self.user_ms + self.system_ms or self.wakes or self._grown("involuntary"))

    @cached_property
    def stays(self) -> bool:
        """Whether every stack shows the same frames at the same lines."""
        return len({tuple(map(place, stack)) for stack in self.stacks if stack}) <= 1

    @cached_property
    def user_stays(self) -> bool:
        """Whether the job's own frames stay at the same lines, whatever library code does below them."""
        return len({tuple(place(f) for f in stack if is_user(f)) for stack in self.stacks if stack}) <= 1

    @cached_property
    def tries_for_lock(self) -> bool:
        """Whether every stack shows it trying for a lock file. That it reads who wrote the file is no work."""
        waits = [known_wait(stack) for stack in self.stacks if stack]
        return self.user_stays and bool(waits) and all(wait and wait[0].whom == "lock-file" for wait in waits)

    @cached_property
    def loops_idly(self) -> str:
        """The head of the loop that it goes round without doing anything in it; empty when it does something."""
        innermost = [stack[0] for stack in self.stacks if stack]
        texts = {self._text(frame) for frame in innermost}
        outer = {tuple(map(place, stack[1:])) for stack in self.stacks if stack}
        if len(innermost) < 2 or len(outer) > 1 or not all(text and IDLE_LOOP.fullmatch(text) for text in texts):
            return ""
        return next((text for text in texts if text.startswith("while")), "")

    @cached_property
    def _lines(self) -> dict[tuple[str | None, int], str]:
        """The lines of the program that any look brought: the file is read around the first place only."""
        read = (frame for stack in self.stacks for frame in stack[:1])
        return {(f.file, line.line): line.text for f in read for line in f.source}

    def _text(self, frame: Frame) -> str:
        """The line at which a frame stands, without its comment; empty when no look brought it."""
        return self._lines.get((frame.file, frame.line_no or 0), "").partition("#")[0].strip()

    @property
    def reads_device(self) -> bool:
        """Whether the line at which it stands asks for a result that is still on the device."""
        frame = next((stack[0] for stack in self.stacks[-1:] if stack), None)
        return frame is not None and bool(DEVICE_READS.search(self._text(frame)))

    @property
    def has_stacks(self) -> bool:
        return sum(1 for stack in self.stacks if stack) > 1

    @property
    def where(self) -> str:
        """``load at data.py:10``."""
        frame = innermost_user(self.stacks[-1]) if self.stacks else None
        frame = frame or (self.stacks[-1][0] if self.stacks and self.stacks[-1] else None)
        if frame is None:
            return "the same place"
        return f"{frame.function} at {(frame.file or '?').rpartition('/')[2]}:{frame.line_no or '?'}"


def judge_liveness(scene: Scene) -> None:
    """Fill the liveness of every thread and, from its main thread, of every process."""
    for process, row in list(scene.processes.items()):
        courses = {t.id: _course(scene, t) for t in scene.threads_of(process)}
        io = _io_grown(scene, process)
        log = _log_grown(scene, process)
        others = sum(course.ran for course in courses.values())
        for course in courses.values():
            alone = others <= 1 or not course.ran
            found = _judge(scene, row, course, io=io and course.ran and (alone or course.thread.is_main),
                           log=log and course.ran and alone, alone=alone)  # fmt: skip
            scene.judged(
                course.thread, liveness=found.liveness, liveness_reason=found.reason, period_s=found.period_s,
                since_s=_since(course, found),
            )  # fmt: skip


def _course(scene: Scene, thread: Thread) -> Course:
    return Course(thread, tuple(scene.samples_of(thread.id)), tuple(scene.stacks_of(thread.id)))


def _since(course: Course, found: Judgement) -> float | None:
    stuck = found.liveness in ("frozen", "polling", "spinning", "stopped", "busy")
    return round(course.window_s, 3) if stuck and course.window_s else None


def _io_grown(scene: Scene, process: str) -> bool:
    samples = scene.process_samples_of(process)
    if len(samples) < 2:
        return False
    first, last = samples[0], samples[-1]

    def grown(name: str) -> int:
        before, after = getattr(first, name), getattr(last, name)
        return 0 if before is None or after is None else after - before

    said = sum(scene.log_growth.get(log.path or "", 0) for log in scene.logs
               if log.path in scene.repeating and process in (log.process, *log.writers))  # fmt: skip
    written = grown("wchar") - (said + said // 2 + REPEATED_BYTES if said else 0)
    stored = grown("write_bytes") - (REPEATED_PAGES * PAGE if said else 0)  # the pages that what it says dirties
    return bool(written > 0 or grown("rchar") >= READ_BYTES or grown("read_bytes") or stored > 0)


def _log_grown(scene: Scene, process: str) -> bool:
    return any(log.path in scene.grown_logs for log in scene.logs if process in (log.process, *log.writers))


def _judge(scene: Scene, process: Process, course: Course, *, io: bool, log: bool, alone: bool) -> Judgement:
    thread = course.thread
    if thread.state in ("Z", "X") or process.state in ("Z", "X"):
        return Judgement("exited", "it has ended")
    if thread.state in ("T", "t"):
        return Judgement("stopped", "it is stopped" if thread.state == "T" else "a tracer holds it")
    if course.is_single_look:
        return _judge_single_look(course)
    if course.tries_for_lock and course.wakes and not log:
        return _polling(course)
    if course.uses_cpu and not course.is_woken_waiter:
        return _judge_running(scene, course, io=io, log=log)
    return _judge_idle(course, io=io, log=log, alone=alone)


def _judge_single_look(course: Course) -> Judgement:
    thread, call = course.thread, course.thread.syscall
    if thread.state == "D":
        return Judgement("frozen", "one look only: in uninterruptible sleep")
    waits = thread.state == "S" and call is not None and (
        call.timed is False or (call.timed is None and call.name in UNTIMED)
    )
    if waits and call is not None:
        return Judgement("frozen", f"one look only: blocked in {call.name} without a timeout")
    return Judgement("unknown", "one look only: whether it moves was not seen")


def _judge_running(scene: Scene, course: Course, *, io: bool, log: bool) -> Judgement:
    percent = f"{course.cpu_share * 100:.0f} % of a CPU"
    if course.loops_idly and not io and not log:
        return Judgement("spinning", f"{percent}, going round `{course.loops_idly}` with nothing in it")
    if course.has_stacks and not course.user_stays:
        return Judgement("moving", "its own lines change")
    wait = _wait_without_sleep(scene, course)
    if wait and course.has_stacks:
        return Judgement("spinning", f"{percent}, but every look finds it {wait}")
    if course.has_stacks and not course.stays:
        return Judgement("moving", "the code it runs changes")
    if io:
        return Judgement("moving", "its process reads or writes")
    if log:
        return Judgement("moving", "its log grows")
    if course.system_ms > SYSTEM_SHARE * (course.user_ms + course.system_ms) and course.has_stacks:
        return Judgement("spinning", f"{percent}, most of it in the kernel, without input or output, in {course.where}")
    if not course.has_stacks:
        return Judgement("busy", f"{percent}; no stack tells at what")
    return Judgement("busy", f"{percent} in {course.where} in all {len(course.stacks)} looks")


def _wait_without_sleep(scene: Scene, course: Course) -> str | None:
    """``in a known wait``: what a thread that burns CPU waits for, when every look shows it there."""
    waits = [known_wait(stack) for stack in course.stacks if stack]
    if waits and all(wait is not None and wait[0].burns_cpu for wait in waits):
        return f"in {waits[-1][1].function}" if waits[-1] else None
    if not course.stays:
        return None
    if (course.thread.syscalls_seen or {}).get("sched_yield"):
        return f"yielding the CPU in {course.where}"
    if course.thread.process in scene.gpu_processes and course.reads_device:
        return f"waiting for the GPU in {course.where}"
    return None


def _judge_idle(course: Course, *, io: bool, log: bool, alone: bool) -> Judgement:
    if course.has_stacks and not course.user_stays:
        return Judgement("moving", "its own lines change")
    waits = bool(course.stacks) and all(known_wait(stack) for stack in course.stacks if stack)
    if io and not (waits and not alone):
        return Judgement("moving", "its process reads or writes")
    if log:
        return Judgement("moving", "its log grows")
    if not course.ran and course.cpu_known and _one_state(course):
        return Judgement("frozen", f"not once on a CPU in {course.window_s:.1f} s")
    if course.has_stacks and not course.stays and not waits:
        return Judgement("moving", "the code it runs changes")
    if course.wakes:
        return _polling(course)
    if course.is_woken_waiter:
        return Judgement("polling", f"ready to run, but hardly given a CPU, in {course.where} in every look")
    if course.thread.state == "D":
        return Judgement("frozen", "in uninterruptible sleep in every look")
    return Judgement("unknown", "it ran for a moment and was not seen to go on")


def _one_state(course: Course) -> bool:
    states = {s.state for s in course.samples}
    return len(states) == 1 and states <= {"S", "D", "I"}


def _polling(course: Course) -> Judgement:
    period = course.window_s / (course.wakes or 1)
    call = course.thread.syscall
    kind = "sleeps" if call is not None and call.name in SLEEPS else "waits"
    at = f" in {course.where}" if course.stacks else ""
    return Judgement("polling", f"wakes about every {period:.2g} s and {kind} again{at}", round(period, 4))
