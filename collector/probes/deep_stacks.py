"""What the stacks probe does not show: the kernel's stacks, the C frames between the Python ones, local variables.

The rungs, from harmless to heavy; which one was reached is said of every process that was looked at:

1. the kernel's own stacks (/proc, stops nothing, root only);
2. py-spy without stopping anything: the stacks probe, and here once more for ``--locals``;
3. with C frames: py-spy --native, else pystack. These stop the process while they look, so: only when every round of
   every other probe is over, one process per role, one at a time, and never one that `attach` refuses;
4. CPython's own unwinder, where no py-spy is installed;
5. the process's own faulthandler, where it has announced one: that takes a signal;
6. gdb.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from flatline.bundle.facts import LOCALS_SAMPLE, NATIVE_SAMPLE, Frame, ToolRun, process_id
from flatline.redaction.names import classify
from flatline.texts.stack_lines import RawThread

from ..linux import grandchild
from ..linux.procfs import ProcFS, Stat
from ..stacks import attach, faulthandler, gdb, kernel, native, pyspy, thread_ids, unwinder
from ..supervision import descendants
from ..tools import ToolOutput, find_tool, run_pool
from .interface import Artefact, Doing, Facts, Gap, Item, Run, Secret, Target, View, sleep_until
from .process_rows import python_version

MOST_ATTACHED = 6
"""Processes, one per role."""
MOST_WITH_LOCALS = 16
LOCAL_CHARS = 200
MARGIN_S = 0.5
"""After the window, for the last round of the others."""
OTHERS_LIMIT_S = 2.0
"""How long, beyond that, a py-spy of the last round is waited for."""
RESERVE_S = 0.5
_KERNEL_S = 1.5
_UNWINDER_S = 1.0
_LOCALS_S = 1.0
_ABOVE = "py-spy without stopping it, and the kernel's stacks"


class _Tool(NamedTuple):
    """One way to see C frames."""

    name: str
    argv: Callable[[str, int | str], list[str]]
    parse: Callable[[bytes], Sequence[RawThread]]
    ours: bool
    """Installed with us, rather than with the host."""
    numbers_as_target: bool
    """Prints thread ids as the process itself counts them."""


_TOOLS = (
    _Tool("py-spy", pyspy.native_argv, pyspy.parse, ours=True, numbers_as_target=True),
    _Tool("pystack", native.pystack_argv, native.parse_pystack, ours=True, numbers_as_target=True),
)
_GDB = _Tool("gdb", gdb.argv, gdb.parse, ours=False, numbers_as_target=False)


@dataclass(frozen=True)
class _Look:
    """What the tools made of one process."""

    rung: str
    """For the ledger: the deepest way that worked, or why there is none."""
    items: tuple[Item, ...] = ()
    refused: bool = False
    harm: str = ""


class DeepStacks:
    """Kernel stacks, C frames of one process per role, and with --locals the variables of main threads."""

    name = "deep-stacks"
    tables = ("frames", "tool_runs")
    limit_s = 7.0
    spans_window = True
    reads = (
        "/proc/PID/{exe,fd,fdinfo,maps,mem,mountinfo,root,stat,status}",
        "/proc/PID/task/TID/{stack,stat,status}",
        "TMPDIR/flatline-recorder-*, as the job's user, where a process has announced its faulthandler",
    )
    runs = (
        Run(shlex.join(pyspy.argv("py-spy", "PID", with_locals=True)), _LOCALS_S, "Python processes, with --locals"),
        *(
            Run(shlex.join(tool.argv(tool.name, "PID")), attach.LIMIT_S, "one process per role, unless --no-attach")
            for tool in (*_TOOLS, _GDB)
        ),
    )

    def gather(self, view: View) -> Iterator[Item]:
        """Best and most harmless first; what stops a process comes last."""
        yield from _Deepening(view).items()


class _Deepening:
    def __init__(self, view: View) -> None:
        self._view = view
        self._proc = ProcFS(view.proc)
        self._targets = [t for t in view.targets if t.relation != "ancestor" and t.pid not in view.own_pids]
        self._runs: list[ToolRun] = []

    def items(self) -> Iterator[Item]:
        yield Doing("kernel stacks")
        yield from self._kernel()
        if self._view.attach or self._view.locals:
            yield Doing("waiting for the last round of the other probes")
            self._wait_for_others()
        if self._view.locals:
            yield Doing("local variables")
            yield from self._locals()
        if self._view.attach:
            yield from self._native()
        if self._runs:
            yield Facts("facts/deep-stacks.json", {"tool_runs": self._runs})

    # --- rung 1: the kernel ---

    def _kernel(self) -> Iterator[Item]:
        pids = [target.pid for target in self._targets]
        answer = grandchild.ask(lambda: kernel.read(self._proc, pids), _KERNEL_S)
        if answer.timed_out or answer.value is None:
            yield Gap("timeout", f"the kernel stacks were not read within {_KERNEL_S:g} s", tables=("frames",))
            return
        stacks, denied = answer.value
        now = time.monotonic_ns()
        rows = [row for stack in stacks for row in kernel.rows(stack, now)]
        if rows:
            yield Facts("facts/kernel-stacks.json", {"frames": rows})
        if denied:
            yield Gap("ok", "kernel stacks are shown to root only", "sudo flatline collect …")

    # --- when the others are done ---

    def _wait_for_others(self) -> None:
        """A process that stands while another probe samples it would look stopped."""
        last_ns = self._view.sample_at_ns(max(0, self._view.samples - 1)) + int(MARGIN_S * 1e9)
        sleep_until(last_ns)
        end = time.monotonic() + OTHERS_LIMIT_S
        while time.monotonic() < end and self._others_look():
            time.sleep(0.05)

    def _others_look(self) -> bool:
        parent = os.getppid()
        if parent not in self._view.own_pids:
            return False
        names = (found.name for pid in descendants.tree(parent) if (found := descendants.standing(pid)))
        return "py-spy" in names

    # --- locals ---

    def _locals(self) -> Iterator[Item]:
        program = find_tool("py-spy", ours=True)
        wanted = {target.pid: target for target in self._targets if target.is_python and not target.is_guarded}
        if program is None or not wanted:
            yield Gap("absent", "no local variables: there is no py-spy, or no Python process", tables=("frames",))
            return
        commands = (
            (pid, pyspy.argv(program, pid, with_locals=True))
            for pid, target in list(wanted.items())[:MOST_WITH_LOCALS]
            if self._is_the_same(target)
        )
        deadline_ns = self._view.deadline_ns - int(RESERVE_S * 1e9)
        for pid, output in run_pool(commands, parallel=2, limit_s=_LOCALS_S, deadline_ns=deadline_ns):
            rows = self._local_rows(wanted[pid], output)
            if rows:
                yield from _secrets(rows)
                yield Facts(f"stacks/{pid}.all-locals.json", {"frames": rows})
            else:
                failed = pyspy.failure(output)
                message = f"no local variables of pid {pid}: {failed.message}"
                yield Gap("partial", message, failed.hint, process_id(pid), ("frames",))

    def _local_rows(self, target: Target, output: ToolOutput) -> list[Frame]:
        threads = _parsed(pyspy.parse, output)
        tids = thread_ids.identify(self._proc, target.pid, threads, {})
        main = [thread for thread in threads if tids.get(thread.pthread) == target.pid]
        rows = native.rows(target.pid, main, tids, sample=LOCALS_SAMPLE, mono_ns=time.monotonic_ns())
        printed = [frame for thread in main for frame in thread.frames]
        return [
            replace(row, locals={name: cut(text) for name, text in frame.locals} or None)
            for row, frame in zip(rows, printed)
        ]

    # --- rung 3: C frames ---

    def _native(self) -> Iterator[Item]:
        reached = []
        for target in self._chosen():
            if not self._has_time():
                yield Gap("partial", f"no time was left for the C frames of pid {target.pid}", tables=("frames",))
                break
            yield Doing(f"C frames of pid {target.pid}")
            look = self._look(target)
            yield from look.items
            reached.append(f"pid {target.pid} ({target.role}): {look.rung}")
            if look.harm:
                yield Gap("error", f"pid {target.pid}: {look.harm}", f"kill -CONT {target.pid}", process_id(target.pid))
        if reached:
            yield Gap("ok", "; ".join(reached))

    def _chosen(self) -> list[Target]:
        """The first Python process of each role; the job's own first."""
        by_role: dict[str, Target] = {}
        for target in self._targets:
            if target.is_python:
                by_role.setdefault(target.role, target)
        return list(by_role.values())[:MOST_ATTACHED]

    @property
    def _has_py_spy(self) -> bool:
        return find_tool("py-spy", ours=True) is not None

    def _has_time(self) -> bool:
        return self._view.left_s() > attach.LIMIT_S + attach.CLEANUP_S + RESERVE_S

    def _is_the_same(self, target: Target) -> bool:
        stat = self._proc.stat(target.pid)
        return isinstance(stat, Stat) and stat.start_ticks == target.start_ticks

    def _look(self, target: Target) -> _Look:
        """Climb down the ladder until a rung brings a stack."""
        said = []
        for rung in self._rungs():
            look = rung(target) if self._has_time() else None
            if look is None:
                continue
            if look.items or look.refused or look.harm:
                return look
            said.append(look.rung)
        return _Look("; ".join((_ABOVE if self._has_py_spy else "the kernel's stacks alone", *said)))

    def _rungs(self) -> Iterator[Callable[[Target], _Look | None]]:
        """Each gives None where it does not apply."""
        for tool in _TOOLS:
            yield partial(self._attach, tool=tool)
        if not self._has_py_spy:
            yield self._unwind
        yield self._ask_handler
        yield partial(self._attach, tool=_GDB)

    def _attach(self, target: Target, tool: _Tool) -> _Look | None:
        program = find_tool(tool.name, ours=tool.ours)
        if program is None:
            return None
        done = attach.attach(target, tool.argv(program, target.pid), proc=self._view.proc)
        if done.output is None:
            why = done.refused or done.outcome
            self._note(tool, target, None, f"not attached: {why}")
            rung = f"{_ABOVE}; nothing attached to it, as {why}"
            return _Look(rung, refused=True, harm=done.outcome if done.is_harmed else "")
        threads = _parsed(tool.parse, done.output)
        failed = "" if threads else _failure(tool, done.output)
        self._note(tool, target, done.output, failed, done.outcome)
        rung = f"{tool.name}, with C frames" if threads else f"{tool.name}: {failed}"
        rung += f" ({done.outcome})" if done.outcome else ""
        items = (self._facts(target, tool, threads),) if threads else ()
        if tool.name == "gdb" and threads:
            items = (*items, Artefact(f"raw/gdb-{target.pid}.txt", done.output.stdout))
        return _Look(rung, items, harm=done.outcome if done.is_harmed else "")

    def _facts(self, target: Target, tool: _Tool, threads: Sequence[RawThread]) -> Facts:
        if tool.name == "py-spy":
            tids = thread_ids.identify(self._proc, target.pid, threads, {})
        elif tool.numbers_as_target:
            tids = thread_ids.numbering(self._proc, target.pid)
        else:
            tids = {thread.os_thread_id or 0: thread.os_thread_id or 0 for thread in threads}
        return self._stack(target, threads, tids)

    def _stack(self, target: Target, threads: Sequence[RawThread], tids: dict[int, int]) -> Facts:
        rows = native.rows(target.pid, threads, tids, sample=NATIVE_SAMPLE, mono_ns=time.monotonic_ns())
        return Facts(f"stacks/{target.pid}.native.json", {"frames": list(rows)})

    # --- the rungs that are no tool ---

    def _unwind(self, target: Target) -> _Look:
        exe = self._proc.link(target.pid, "exe")
        why_not = unwinder.why_not(python_version(exe, ()) if isinstance(exe, str) else None)
        if why_not:
            return _Look(why_not)
        answer = grandchild.ask(lambda: unwinder.read(target.pid), _UNWINDER_S)
        outcome = "timeout" if answer.timed_out else "error" if answer.error else "ok"
        self._runs.append(
            ToolRun("unwinder", outcome, round(answer.seconds, 3), process=process_id(target.pid), sample=NATIVE_SAMPLE)
        )
        if not answer.value:
            return _Look(f"CPython's unwinder: {answer.error or outcome}")
        tids = thread_ids.numbering(self._proc, target.pid)
        return _Look("CPython's unwinder", (self._stack(target, answer.value, tids),))

    def _ask_handler(self, target: Target) -> _Look | None:
        if target.is_guarded:
            return None
        tmpdir = self._view.env_names.get(target.pid, {}).get("TMPDIR", "")
        found = faulthandler.find(target, tmpdir, proc=self._view.proc)
        if found is None:
            return None
        if isinstance(found, str):
            return _Look(f"faulthandler: {found}")
        asked = faulthandler.ask(target, found, proc=self._view.proc)
        threads = faulthandler.parse(asked.text)
        why = asked.refused or asked.failed or ("" if threads else "it printed no stack")
        outcome = "not-started" if asked.refused else "ok" if threads else "timeout" if asked.failed else "error"
        self._runs.append(
            ToolRun(
                "faulthandler",
                outcome,
                round(asked.seconds, 3),
                process=process_id(target.pid),
                sample=NATIVE_SAMPLE,
                message=why or None,
            )
        )
        if not threads:
            return _Look(f"faulthandler: {why}")
        tids = thread_ids.identify(self._proc, target.pid, threads, {})
        raw = Artefact(f"raw/faulthandler-{target.pid}.txt", asked.text)
        return _Look(f"faulthandler{f' ({why})' if why else ''}", (self._stack(target, threads, tids), raw))

    def _note(self, tool: _Tool, target: Target, output: ToolOutput | None, *said: str) -> None:
        run = ToolRun(
            tool=tool.name,
            outcome=output.outcome if output else "not-started",
            seconds=round(output.seconds, 3) if output else None,
            stuck_pid=output.pid if output and output.left_running else None,
            process=process_id(target.pid),
            sample=NATIVE_SAMPLE,
            message="; ".join(filter(None, said)) or None,
        )
        self._runs.append(run)


def _parsed(parse: Callable[[bytes], Sequence[RawThread]], output: ToolOutput) -> Sequence[RawThread]:
    """Empty when the tool failed, or printed no frame at all."""
    if output.outcome != "ok":
        return ()
    try:
        threads = parse(output.stdout)
    except ValueError:
        return ()
    return threads if any(thread.frames for thread in threads) else ()


def _failure(tool: _Tool, output: ToolOutput) -> str:
    if tool.name == "py-spy":
        return pyspy.failure(output).message
    if output.outcome != "ok":
        return f"{tool.name} ended with: {output.outcome}"
    return f"{tool.name} printed no stack"


def _secrets(rows: Sequence[Frame]) -> Iterator[Secret]:
    """The value of a variable that is named like a secret must not stand anywhere else either."""
    for row in rows:
        for name, text in (row.locals or {}).items():
            kind, value = classify(name), pyspy.unquoted(text)
            if kind is not None and kind.certain and value:
                yield Secret(kind.kind, value)


def cut(text: str) -> str:
    """At most `LOCAL_CHARS` characters, ending between two words: half a secret would not be known for one."""
    whole = len(text) <= LOCAL_CHARS and not text.endswith(("...", "...'", '..."'))
    if whole:
        return text
    kept = text[:LOCAL_CHARS]
    end = max(kept.rfind(" "), kept.rfind(","))
    return kept[: end + 1] + "…"
