"""py-spy dump: how it is called, what it prints, and what its failures mean.

``--nonblocking``: the target is never stopped, a stopped one can be read, and a thread in state D does not take
py-spy with it. The price is that a moving stack may fail or come back torn; that is itself a sign of motion.
Only `native_argv` stops the target: see attach. Verified with py-spy 0.4.3.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from typing import Literal

from flatline.texts.stack_lines import RawThread, pyspy_thread

from ..supervision import lifecycle
from ..tools import ToolOutput

Reason = Literal["permission", "gone", "moving", "not-python", "unsupported", "timeout", "flooded", "error"]

LOCALS_VERBOSITY = "-llll"
"""py-spy cuts a local at 128 characters times the number of l's."""
PERMISSION_HINT = (
    "run as root or as the job's user; in a container: --cap-add SYS_PTRACE; "
    "on the host: sudo sysctl kernel.yama.ptrace_scope=0"
)


@dataclass(frozen=True)
class Failure:
    """Why there is no stack, in plain words."""

    reason: Reason
    message: str
    hint: str = ""


def argv(program: str, pid: int | str, *, with_locals: bool = False) -> list[str]:
    """The command line of one look at one process.

    Without --full-filenames py-spy looks for an ``__init__.py`` beside every file a frame names, as whoever we are,
    and hangs when one of them is on a dead mount.
    """
    extra = [LOCALS_VERBOSITY] if with_locals else []
    return [program, "dump", "--json", "--nonblocking", "--full-filenames", *extra, "--pid", str(pid)]


def native_argv(program: str, pid: int | str) -> list[str]:
    """One look that also follows the C stack: it stops the process meanwhile, and takes 100 MB. See attach."""
    return [program, "dump", "--json", "--native", "--full-filenames", "--pid", str(pid)]


def core_argv(program: str, core: str) -> list[str]:
    """The Python stacks in a core dump."""
    return [program, "dump", "--json", "--full-filenames", "--core", core]


def parse(stdout: bytes) -> list[RawThread]:
    """The threads of a dump. ValueError when it is not one (cut short, not JSON, another shape)."""
    try:
        printed = json.loads(stdout.decode("utf-8", "backslashreplace"))
    except RecursionError:
        raise ValueError("py-spy printed no list of threads") from None
    if not isinstance(printed, list):
        raise ValueError("py-spy printed no list of threads")
    return [pyspy_thread(thread) for thread in printed if isinstance(thread, dict)]


def unquoted(text: str) -> str | None:
    """The string a local's repr stands for; None when it is no string or was cut. py-spy escapes nothing."""
    if len(text) < 2 or text[0] not in "\"'" or text[0] != text[-1] or text.endswith("..." + text[-1]):
        return None
    return text[1:-1]


def failure(output: ToolOutput) -> Failure:
    """What a dump that brought no stacks means. py-spy answers with a Rust backtrace; nobody should have to read it."""
    if output.outcome in ("timeout", "left-running", "not-started"):
        return Failure("timeout", f"py-spy gave no answer within {output.seconds:.1f} s")
    if output.outcome == "flooded":
        return Failure("flooded", "py-spy printed more than is kept")
    if output.outcome in ("denied", "absent") or output.exit_code is None:
        return Failure("error", f"py-spy could not be started: {output.message or output.outcome}")
    return _explained(output.stderr.decode("utf-8", "replace"), output.exit_code)


def _explained(stderr: str, exit_code: int) -> Failure:
    said = stderr.lower()
    if "permission denied" in said or "operation not permitted" in said:
        return Failure("permission", "py-spy may not read the process", PERMISSION_HINT)
    if "no such process" in said or "no such file or directory" in said:
        return Failure("gone", "the process ended before its stack was taken")
    if "unsupported version" in said:
        return Failure("unsupported", "this py-spy does not know the process's Python", "pip install -U py-spy")
    if "failed to find python version" in said:
        return Failure("not-python", "py-spy finds no Python in the process")
    if "failed to find" in said or "interpreter" in said or "bad address" in said:
        return Failure("moving", "py-spy could not follow the stack: it moves, or it is not an interpreter it knows")
    if exit_code == 0:
        return Failure("moving", "py-spy printed no complete stack")
    if exit_code == -signal.SIGSYS:
        return Failure("permission", "py-spy was ended for looking: a seccomp filter forbids it", PERMISSION_HINT)
    ended = f"ended by {lifecycle.signal_name(-exit_code)}" if exit_code < 0 else f"exit code {exit_code}"
    return Failure("error", f"py-spy failed: {_first_line(stderr) or ended}")


def _first_line(stderr: str) -> str:
    lines = (line.strip() for line in stderr.splitlines())
    return next((line.removeprefix("Error: ")[:200] for line in lines if line), "")
