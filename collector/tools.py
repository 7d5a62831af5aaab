"""Run a host tool (py-spy, nvidia-smi, lsof …) without ever waiting for it longer than it was allowed.

Runs inside a probe's child. `subprocess` is not used: its `run(timeout=…)` kills and then waits for ever, and
`Popen` waits for the exec, which never comes when the program lies on a dead mount. Here the fork is our own, every
read is non-blocking, and a tool that cannot be reaped is abandoned and named.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Literal, TypeVar

from .linux import grandchild, scarcity
from .supervision import lifecycle

Outcome = Literal["ok", "timeout", "denied", "absent", "error", "flooded", "left-running", "not-started"]
"""As in facts.ToolRun. ``left-running``: over its limit, and it could not or must not be killed."""

DEFAULT_MAX_BYTES = 8 << 20
POLL_S = 0.05
"""A tool's exit is looked for at least this often: a grandchild that holds its pipe hides it from select."""
_REAP_S = 0.2
_ANSWER_S = 1.0
_READ_BYTES = 64 << 10
_READS_PER_PUMP = 32
_EXEC_REFUSED: Mapping[int, Outcome] = {errno.ENOENT: "absent", errno.EACCES: "denied", errno.EPERM: "denied"}

_SCRIPTS = sysconfig.get_path("scripts")
"""Asked now, as that reads a module of Python's: where it is installed may not answer later."""

announce_spared: Callable[[int, str], None] | None = None
"""Set by the supervisor in each child: told (pid, name) of a tool that must not be killed hard, before it execs."""

Key = TypeVar("Key")


@dataclass(frozen=True)
class ToolOutput:
    """How a tool ended and what it printed until then. The texts are as printed: not redacted, not decoded."""

    argv: tuple[str, ...]
    outcome: Outcome
    exit_code: int | None = None
    """None: it did not end, or never began. Minus the signal that ended it."""
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    pid: int | None = None
    left_running: bool = False
    """It is still there: `pid` goes into the ledger."""
    message: str = ""
    """Why it did not begin (``No such file or directory``)."""

    @property
    def name(self) -> str:
        """The program's file name."""
        return os.path.basename(self.argv[0])


class RunningTool:
    """One tool, begun at once, in its own process group, with /dev/null as stdin. Nothing here blocks.

    Wait for `filenos()` to be readable, but not longer than `POLL_S`, and call `pump()` until `output` is there.
    `limit_s` counts from now; `max_bytes` is for stdout and stderr together. `hard_kill=False` is for tools that sit
    in a GPU driver: SIGTERM at the limit, then left alone and named.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        limit_s: float,
        max_bytes: int = DEFAULT_MAX_BYTES,
        env: Mapping[str, str] | None = None,
        hard_kill: bool = True,
    ) -> None:
        self.argv = tuple(argv)
        self.output: ToolOutput | None = None
        self._hard_kill = hard_kill
        self._max_bytes = max_bytes
        self._began_ns = time.monotonic_ns()
        self._limit_ns = self._began_ns + int(max(0.0, limit_s) * 1e9)
        self._give_up_ns: int | None = None
        self._ending: Outcome | None = None
        self._text: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray(), "exec": bytearray()}
        self._pipes: dict[str, int] = {}
        self.pid: int | None = None
        self._env = dict(os.environ, LC_ALL="C") if env is None else dict(env)
        self._begin()

    def filenos(self) -> list[int]:
        """Descriptors to wait on; empty once all are at their end."""
        return list(self._pipes.values())

    def wait_s(self) -> float:
        """How long a select may sleep before `pump` has something to do, in seconds."""
        # At the end of both pipes the exit is due within microseconds, and no descriptor tells of it.
        return POLL_S if self._pipes else POLL_S / 10

    def pump(self) -> None:
        """Take what has been printed and see to limits; sets `output` at the end."""
        if self.output is not None:
            return
        if self.pid is None:
            self._begin()
            return
        self._read()
        now = time.monotonic_ns()
        if self._has_exited():
            self._reap()
        elif self._give_up_ns is not None and now >= self._give_up_ns:
            self._abandon()
        elif self._ending is None and self._printed() > self._max_bytes:
            self._end("flooded", now)
        elif self._ending is None and now >= self._limit_ns:
            self._end("timeout", now)

    def stop(self) -> None:
        """End it now, as if its limit were over; `pump` on until `output` is there."""
        if self.output is not None:
            return
        if self.pid is None:
            self._finish("not-started", None, "no process was left to start it")
        elif self._ending is None:
            self._end("timeout", time.monotonic_ns())

    # --- begin ---

    def _begin(self) -> None:
        """Where the host has no process or descriptor left, `pump` tries again for a moment."""
        try:
            self._start(self._env)
        except OSError as refused:
            waited_s = (time.monotonic_ns() - self._began_ns) / 1e9
            if refused.errno not in scarcity.SCARCE or waited_s > scarcity.WAIT_S:
                self._finish("error", None, refused.strerror or str(refused))
            for name in list(self._pipes):
                os.close(self._pipes.pop(name))

    def _start(self, env: dict[str, str]) -> None:
        pipes: dict[str, tuple[int, int]] = {}
        try:
            for name in self._text:
                pipes[name] = os.pipe()
            go, let_go = os.pipe()
        except OSError:
            for end in (end for pair in pipes.values() for end in pair):
                os.close(end)
            raise
        try:
            ends = (pipes["stdout"][1], pipes["stderr"][1], pipes["exec"][1], go)
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                os.close(let_go)  # our own copy would hide the parent's death from us
                _become(self.argv, env, ends, parent=parent if self._hard_kill else None)
            self.pid = pid
        finally:
            os.close(go)
            for _, write_end in pipes.values():
                os.close(write_end)
            self._pipes = {name: read_end for name, (read_end, _) in pipes.items()}
            if self.pid is None:
                os.close(let_go)
        for read_end in self.filenos():
            os.set_blocking(read_end, False)
        if not self._hard_kill and announce_spared is not None:
            announce_spared(pid, os.path.basename(self.argv[0]))
        try:
            os.write(let_go, b"g")
        except BrokenPipeError:  # killed already by somebody else; `pump` will see it
            pass
        os.close(let_go)

    # --- while it runs ---

    def _read(self) -> None:
        for _ in range(_READS_PER_PUMP):
            if self._printed() > self._max_bytes:
                return
            if not any([self._read_once(name) for name in list(self._pipes)]):
                return

    def _read_once(self, name: str) -> bool:
        try:
            piece = os.read(self._pipes[name], _READ_BYTES)
        except BlockingIOError:
            return False
        if not piece:
            os.close(self._pipes.pop(name))
            return False
        self._text[name] += piece
        return True

    def _printed(self) -> int:
        return len(self._text["stdout"]) + len(self._text["stderr"])

    def _has_exited(self) -> bool:
        assert self.pid is not None
        try:
            # WNOWAIT: the pid must stay ours until its group has been killed.
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    # --- end ---

    def _end(self, why: Outcome, now: int) -> None:
        self._ending = why
        self._give_up_ns = now + int(_REAP_S * 1e9)
        self._signal_group(signal.SIGKILL if self._hard_kill else signal.SIGTERM)

    def _signal_group(self, number: int) -> None:
        assert self.pid is not None
        for send in (os.killpg, os.kill):  # the child may not have made its group yet
            try:
                send(self.pid, number)
                return
            except ProcessLookupError:
                continue
            except PermissionError:  # a set-uid tool
                return

    def _reap(self) -> None:
        assert self.pid is not None
        self._signal_group(signal.SIGKILL if self._hard_kill else signal.SIGTERM)
        try:
            status = os.waitpid(self.pid, 0)[1]
        except ChildProcessError:
            self._finish(self._ending or "error", None, "reaped by somebody else")
            return
        self._read()
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        refused = self._exec_error()
        if refused is not None:
            self._finish(_EXEC_REFUSED.get(refused, "error"), None, os.strerror(refused))
        elif self._printed() > self._max_bytes:
            self._finish("flooded", code)
        else:
            self._finish(self._ending or ("ok" if code == 0 else "error"), code)

    def _exec_error(self) -> int | None:
        text = bytes(self._text["exec"])
        return int(text) if text.isdigit() else None

    def _abandon(self) -> None:
        self._finish("flooded" if self._ending == "flooded" else "left-running", None, left_running=True)

    def _finish(self, outcome: Outcome, code: int | None, message: str = "", *, left_running: bool = False) -> None:
        for name in list(self._pipes):
            os.close(self._pipes.pop(name))
        stdout = bytes(self._text["stdout"][: self._max_bytes])
        self.output = ToolOutput(
            argv=self.argv,
            outcome=outcome,
            exit_code=code,
            stdout=stdout,
            stderr=bytes(self._text["stderr"][: self._max_bytes - len(stdout)]),
            seconds=(time.monotonic_ns() - self._began_ns) / 1e9,
            pid=self.pid,
            left_running=left_running,
            message=message,
        )


def _become(argv: tuple[str, ...], env: dict[str, str], ends: tuple[int, int, int, int], *, parent: int | None) -> None:
    """In the fresh child: turn into the tool, or report the errno. Never returns.

    `parent` None: the tool outlives us, and a pipe nobody reads any more must not kill it in the driver.
    """
    out, err, report, go = ends
    try:
        os.setpgid(0, 0)
        lifecycle.reset_signals()
        if parent is not None:
            lifecycle.die_with_parent(parent)
        else:
            lifecycle.lift_limits()
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if not os.read(go, 1):
            os._exit(0)
        # Above 2 first: a pipe may have got number 0, 1 or 2 where our own were closed.
        report, out, err = (_above_stdio(number) for number in (report, out, err))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        lifecycle.close_descriptors(keep=(0, 1, 2, report))
        os.execvpe(argv[0], argv, env)
    except OSError as refused:
        os.write(report, str(refused.errno).encode())
    finally:
        os._exit(127)


def _above_stdio(number: int) -> int:
    while number <= 2:
        number = os.dup(number)
    return number


def wait(tools: Sequence[RunningTool], until_ns: int | None = None) -> None:
    """Sleep until one of them has printed or may have ended, then pump all of them."""
    seconds = min((tool.wait_s() for tool in tools), default=0.0)
    if until_ns is not None:
        seconds = min(seconds, max(0.0, (until_ns - time.monotonic_ns()) / 1e9))
    poll = select.poll()  # select() itself refuses descriptors above 1023
    for number in (number for tool in tools for number in tool.filenos()):
        poll.register(number, select.POLLIN)
    poll.poll(seconds * 1000)
    for tool in tools:
        tool.pump()


def run(
    argv: Sequence[str],
    *,
    limit_s: float,
    max_bytes: int = DEFAULT_MAX_BYTES,
    env: Mapping[str, str] | None = None,
    hard_kill: bool = True,
) -> ToolOutput:
    """Run one tool to its end or its limit (plus 0.2 s to be reaped). Parameters as for `RunningTool`."""
    tool = RunningTool(argv, limit_s=limit_s, max_bytes=max_bytes, env=env, hard_kill=hard_kill)
    while tool.output is None:
        wait([tool])
    return tool.output


def run_pool(
    argvs: Iterable[tuple[Key, Sequence[str]]],
    *,
    parallel: int,
    limit_s: float,
    deadline_ns: int,
    max_bytes: int = DEFAULT_MAX_BYTES,
    env: Mapping[str, str] | None = None,
    hard_kill: bool = True,
) -> Iterator[tuple[Key, ToolOutput]]:
    """Run many, at most `parallel` at once; yields as they end. At `deadline_ns` (CLOCK_MONOTONIC) the running
    ones are ended and the rest come back as ``not-started``. Closing the generator ends what runs."""
    waiting = iter(argvs)
    running: list[tuple[Key, RunningTool]] = []
    more = True
    try:
        while more or running:
            while more and len(running) < parallel:
                key_argv = next(waiting, None)
                if key_argv is None:
                    more = False
                    break
                left_s = (deadline_ns - time.monotonic_ns()) / 1e9
                key, argv = key_argv
                if left_s <= 0:
                    yield key, ToolOutput(tuple(argv), "not-started", message="no time was left")
                    continue
                limit = min(limit_s, left_s)
                tool = RunningTool(argv, limit_s=limit, max_bytes=max_bytes, env=env, hard_kill=hard_kill)
                running.append((key, tool))
            wait([tool for _, tool in running])
            ended = [(key, tool.output) for key, tool in running if tool.output is not None]
            running = [(key, tool) for key, tool in running if tool.output is None]
            yield from ended
    finally:
        _stop_all([tool for _, tool in running])


def _stop_all(tools: list[RunningTool]) -> None:
    for tool in tools:
        tool.stop()
    while any(tool.output is None for tool in tools):
        wait([tool for tool in tools if tool.output is None])


def find_tool(name: str, *, ours: bool = False) -> str | None:
    """Full path of a program, or None. `ours`: one we were installed with, beside our own interpreter before PATH."""
    if ours:  # what we run from may have stopped answering, and another one may be in PATH
        found = grandchild.ask(lambda: _beside_us(name), _ANSWER_S).value
        if found:
            return found
    return shutil.which(name)


def _beside_us(name: str) -> str | None:
    for folder in (_SCRIPTS, os.path.join(sys.prefix, "bin"), os.path.dirname(sys.executable)):
        path = os.path.join(folder or "", name)
        if folder and os.access(path, os.X_OK):
            return path
    return None
