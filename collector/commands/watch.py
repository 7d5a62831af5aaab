"""`flatline watch`: the same for a job that runs already."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..linux import grandchild
from ..linux.procfs import ProcFS, Unread, parse_environ
from ..running import keeper, outputs
from ..running.keeper import Keeper
from ..supervision import descendants
from .durations import process_number
from .run import EXIT_TIMEOUT, ended, make_folder, parser_of, plan_of

EXIT_HANG, EXIT_NO_JOB = 10, 4
_ANSWER_S = 2.0
EPILOG = """\
examples:
  flatline watch --pid 4242 --silence 10m --bundle-dir out/

exit codes: 0 the job has ended · 10 it has ended, and was stuck before · 124 ended by flatline, after the bundle was
written, or could not be (standard error says why) · 4 no such process · 2 usage · 130 interrupted; the job runs on
"""


def main(argv: Sequence[str]) -> int:
    """Watch until the job ends."""
    parser = parser_of("watch", "Collect when a running job gets stuck.", EPILOG)
    parser.add_argument("--pid", type=process_number, required=True, metavar="N", help="the job's first process")
    args = parser.parse_args(argv)
    if args.silence is None and args.timeout is None:
        args.silence = 600.0
    if descendants.standing(args.pid) is None:
        keeper.say(f"there is no process {args.pid}")
        return EXIT_NO_JOB
    if (args.timeout is not None or args.on_hang != "collect") and os.getpid() in descendants.tree(args.pid):
        parser.error(f"pid {args.pid} has started this very command, which would end itself with it")
    make_folder(parser, args.bundle_dir)
    keeper.take_signals()
    scratch = Path(tempfile.mkdtemp(prefix="flatline-recorder-run-"))
    try:
        kept = Keeper(
            args.pid, plan_of(args), scratch, _rings(args.pid), own=False, logs=_logs(args.pid), say=keeper.say
        )
        kept.keep()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if kept.is_ended_by_us:
        if not args.quiet:
            keeper.say(ended(None, kept))
        return EXIT_TIMEOUT
    return EXIT_HANG if kept.hang is not None else 0


def _logs(pid: int) -> list[str]:
    """What its command line names as its log; asked in a child, since cmdline(5) waits for a lock of the process."""

    def read() -> list[str]:
        argv = ProcFS().argv(pid)
        return [] if isinstance(argv, Unread) else outputs.logs(argv, os.readlink(f"/proc/{pid}/cwd"))

    return grandchild.ask(read, _ANSWER_S).value or []


def _rings(pid: int) -> Path | None:
    """Where the job's recorder writes, when it was told to keep its rings in one folder.

    Only for our own user: the job names the folder, and what another names is not opened with our rights.
    """
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return None
    except OSError:
        return None
    folder = grandchild.ask(lambda: _folder(pid), _ANSWER_S).value
    return Path(folder) if folder else None


def _folder(pid: int) -> str:
    """Empty when there is none. May block: environ(5) waits for a lock of the process, the folder for its mount."""
    raw = ProcFS().environ(pid)
    variables = {} if isinstance(raw, Unread) else parse_environ(raw)[0]
    folder = variables.get("FLATLINE_RECORDER_DIR", "")
    return folder if folder.startswith("/") and os.path.isdir(folder) else ""
