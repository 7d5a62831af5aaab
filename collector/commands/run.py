"""`flatline run`: start a job, pass everything through, and have the evidence before anything is killed."""

from __future__ import annotations

import argparse
import errno
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from flatline.arguments import Parser
from flatline.recorder import compile_once, environment
from flatline.visible import visible

from ..recorder import places, ring
from ..running import keeper, outputs
from ..running.keeper import Keeper, Plan
from ..running.movement import ring_bytes
from ..running.relay import Relay
from ..supervision import lifecycle
from ..supervision.lifecycle import signal_name
from .durations import duration

EXIT_TIMEOUT, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 124, 126, 127
_SHELL = "/bin/sh"
LINGER_S, PATIENCE_S = 2.0, 10.0
"""How long the output of what outlives the job is waited for, and a reader that takes nothing once we ended the job."""
EPILOG = """\
examples:
  flatline run -- python train.py --config a.yaml
  flatline run --silence 10m --timeout 6h --on-hang collect+kill --bundle-dir out/ -- torchrun train.py

exit codes: the job's own, also when a signal ended it · 124 ended by flatline (--timeout, or --on-hang
collect+kill), after the bundle was written, or could not be (standard error says why) · 126 cannot be executed ·
127 not found · 2 usage
"""


def parser_of(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """What `run` and `watch` have in common."""
    parser = Parser(
        prog=f"flatline {name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--timeout", type=duration, metavar="30m", help="collect and end the job after so long")
    parser.add_argument(
        "--silence",
        type=duration,
        metavar="10m",
        help="act when nothing has moved for so long, and a look that takes some seconds more confirms it",
    )
    parser.add_argument(
        "--on-hang",
        choices=("collect", "collect+kill", "signal"),
        default="collect",
        help="what to do then: collect only (default), end the job as well, or send it SIGTERM",
    )
    parser.add_argument("--grace", type=duration, default=10.0, metavar="10s", help="from SIGTERM to SIGKILL")
    parser.add_argument("--bundle-dir", default="", metavar="DIR", help="where bundles go (default: here)")
    parser.add_argument("--analyze", action="store_true", help="print the whole report, not only verdict and cause")
    parser.add_argument("--quiet", action="store_true", help="say nothing unless it is stuck or ended by us")
    return parser


def plan_of(args: argparse.Namespace) -> Plan:
    """As the keeper wants it."""
    return Plan(args.timeout, args.silence, args.on_hang, args.grace, args.bundle_dir, args.analyze, args.quiet)


def main(argv: Sequence[str]) -> int:
    """Run the command; the exit code is the job's."""
    parser = parser_of("run", "Start a job with the recorder, and collect when it is stuck.", EPILOG)
    parser.add_argument("--no-recorder", action="store_true", help="leave the job's environment as it is")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD ...")
    args = parser.parse_args(argv)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command: flatline run [options] -- CMD ...")
    make_folder(parser, args.bundle_dir)
    scratch = Path(tempfile.mkdtemp(prefix="flatline-recorder-run-"))
    try:
        return _run(command, plan_of(args), scratch, with_recorder=not args.no_recorder)
    finally:
        clear(scratch)


def make_folder(parser: argparse.ArgumentParser, path: str) -> None:
    """--bundle-dir, made before the job begins: what is wrong with it is known at once."""
    try:
        if path:
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        parser.error(f"--bundle-dir {path} cannot be made: {error.strerror}")


def clear(scratch: Path) -> None:
    """Take away our folder, and those of recorders that a kill kept from taking away theirs."""
    for path in scratch.glob(f"{places.KEPT_BEGINS}*"):
        name = path.name.replace(places.KEPT_BEGINS, places.FOLDER_BEGINS)
        for above in {tempfile.gettempdir(), "/tmp"}:
            shutil.rmtree(os.path.join(above, name), ignore_errors=True)  # a process that lives on does without
    shutil.rmtree(scratch, ignore_errors=True)


def _run(command: Sequence[str], plan: Plan, scratch: Path, *, with_recorder: bool) -> int:
    mask = keeper.take_signals()
    lifecycle.become_subreaper()
    given, rings = dict(os.environ), None
    if with_recorder:
        compile_once()
        rings = Path(given.setdefault("FLATLINE_RECORDER_DIR", str(scratch)))
        given = environment(given)
    folder = outputs.current_folder()
    for line in outputs.complaints(command, folder):
        keeper.say(line)
    relays, actions, ends = _streams(scratch)
    try:
        pid = _spawn(command, given, actions, mask)
    except OSError as error:
        keeper.say(f"{command[0]}: {error.strerror}")
        return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_NOT_EXECUTABLE
    finally:
        for end in ends:
            os.close(end)
    for relay in relays:
        relay.start()
    logs = outputs.logs(command, folder)
    kept = Keeper(pid, plan, scratch, rings, own=True, relays=relays, logs=logs, say=keeper.say)
    status = kept.keep()
    _finish(relays, PATIENCE_S if kept.is_ended_by_us else None)
    if status is not None and os.WIFSIGNALED(status) and rings is not None and not kept.is_ended_by_us:
        for line in last_marks(rings):
            keeper.say(line)
    if not plan.quiet:
        keeper.say(ended(status, kept))
    return _ending(status, kept)


def _spawn(
    command: Sequence[str], given: dict[str, str], actions: list[tuple[int, int, int]], mask: set[signal.Signals | int]
) -> int:
    """Its pid. What the kernel cannot execute but a shell can, a script without ``#!``, is one, as for execvp(3)."""
    actions_and_signals: dict[str, Any] = {
        "file_actions": actions,
        "setsigmask": mask,
        "setsigdef": [signal.SIGPIPE, signal.SIGXFSZ],
    }
    try:
        return os.posix_spawnp(command[0], list(command), given, **actions_and_signals)
    except OSError as error:
        path = shutil.which(command[0])
        if error.errno != errno.ENOEXEC or path is None:
            raise
        return os.posix_spawn(_SHELL, [_SHELL, path, *command[1:]], given, **actions_and_signals)


def _streams(scratch: Path) -> tuple[list[Relay], list[tuple[int, int, int]], list[int]]:
    """A relay for each stream that is a pipe or a socket, whose reader might leave it full; a terminal, a file or
    /dev/null is given to the job as it is. And the write ends, ours to close once the job has them."""
    relays: list[Relay] = []
    actions: list[tuple[int, int, int]] = []
    ends: list[int] = []
    shared: dict[tuple[int, int], int] = {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        seen = os.fstat(number)
        if not (stat.S_ISFIFO(seen.st_mode) or stat.S_ISSOCK(seen.st_mode)):
            continue
        place = (seen.st_dev, seen.st_ino)
        if place not in shared:  # 2>&1: one stream, or its order would be lost
            reading, shared[place] = os.pipe()
            relays.append(Relay(reading, number, scratch / f"{name}.log"))
            ends.append(shared[place])
        actions.append((os.POSIX_SPAWN_DUP2, shared[place], number))
    return relays, actions, ends


class _EnoughError(Exception):
    """A signal came while only the reader of the output was waited for."""


def _finish(relays: Sequence[Relay], patience_s: float | None) -> None:
    """Pass on what is held. The job has ended: a signal is for us now, and ends the wait."""
    ending = keeper.waited() & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM}
    while signal.sigtimedwait(ending, 0):  # meant for the job
        pass
    came: list[int] = []

    def stop_waiting(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            raise _EnoughError

    try:
        for number in ending:
            signal.signal(number, stop_waiting)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
        try:
            for relay in relays:
                relay.finish(LINGER_S, patience_s)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    except _EnoughError:
        pass


def last_marks(rings: Path) -> list[str]:
    """Where the processes were that left their ring without an end: what is open, and what came last."""
    from flatline.redaction import Redactor  # slow to load, and seldom wanted

    hide = Redactor().text
    lines: list[str] = []
    for path in sorted(rings.glob(f"{places.KEPT_BEGINS}*"))[-8:]:
        try:
            left = ring.decode(ring_bytes(path))
        except (OSError, ValueError):
            continue
        if left.events and left.events[-1].kind not in ("exit", "os._exit"):
            last = [*left.open, left.events[-1]]
            marks = [visible(f"{one.kind} {hide(one.text)}") for one in last[-2:]]
            lines += [f"pid {left.number('pid')}: last mark: {mark}" for mark in marks]
    return lines[:6]


def ended(status: int | None, kept: Keeper) -> str:
    """How, and after how long."""
    ran_s = kept.ran_s()
    after = f"after {ran_s:.1f} s" if ran_s < 60 else f"after {ran_s / 60:.0f} min"
    if kept.is_ended_by_us:
        return f"ended by flatline {after}; exit code {EXIT_TIMEOUT}"
    if status is not None and os.WIFSIGNALED(status):
        return f"ended by {signal_name(os.WTERMSIG(status))} {after}"
    code = os.WEXITSTATUS(status) if status is not None else 1
    return f"ended {after}; exit code {code}"


def _ending(status: int | None, kept: Keeper) -> int:
    if kept.is_ended_by_us:
        return EXIT_TIMEOUT
    if status is None:
        return 1
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    _die_by(number, kept)
    return 128 + number


def _die_by(number: int, kept: Keeper) -> None:
    """End as the job did, for who looks at how it ended; without a core dump of ours."""
    clear(kept.scratch)
    sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        signal.signal(number, signal.SIG_DFL)
    except OSError:  # SIGKILL needs no handler
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
