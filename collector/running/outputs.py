"""Where a command line says that its log and its results go, and whether we may write there: we are the job's user.

Tried before the job starts, and without a trace: a folder gets an unnamed file (O_TMPFILE) that is gone at once, a
file that is there is opened for appending and closed. A mount that does not answer costs `LIMIT_S` and is told.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from functools import partial

from ..linux import grandchild

LIMIT_S = 1.0
MOST = 8
LOG_FLAGS = ("--log", "--log-file", "--log_file", "--logfile", "--log-path", "--log_path")
FOLDER_FLAGS = (
    "--output-dir", "--output_dir", "--out-dir", "--out_dir", "--outdir", "--output-path", "--output_path",
    "--log-dir", "--log_dir", "--logdir", "--logging-dir", "--logging_dir", "--save-dir", "--save_dir", "--save-path",
    "--checkpoint-dir", "--checkpoint_dir", "--ckpt-dir", "--ckpt_dir", "--work-dir", "--work_dir",
    "--default-root-dir", "--default_root_dir", "--save",
)  # fmt: skip


def named(argv: Sequence[str], flags: Sequence[str], folder: str) -> dict[str, str]:
    """Path -> flag, of ``--flag PATH`` and ``--flag=PATH``. Nothing is asked of the files."""
    found: dict[str, str] = {}
    for word, following in zip(argv, [*argv[1:], ""]):
        flag, equals, value = word.partition("=")
        path = value if equals else following
        is_known = bool(folder) or path.startswith("/")
        if flag in flags and path and is_known and not path.startswith("-") and "://" not in path:
            found.setdefault(os.path.normpath(os.path.join(folder, path)), flag)
    return found


def current_folder() -> str:
    """What relative paths mean; empty once that folder has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def logs(argv: Sequence[str], folder: str) -> list[str]:
    """The files that a command line names as its log."""
    return list(named(argv, LOG_FLAGS, folder))


def complaints(argv: Sequence[str], folder: str) -> list[str]:
    """A line for each log and each folder that cannot be written."""
    wanted = [*named(argv, LOG_FLAGS, folder).items(), *named(argv, FOLDER_FLAGS, folder).items()][:MOST]
    answers = grandchild.ask_all([partial(problem, path) for path, _ in wanted], LIMIT_S) if wanted else []
    said = []
    for (path, flag), answer in zip(wanted, answers):
        why = "its file system does not answer" if answer.timed_out else answer.value
        if why:
            said.append(f"{flag} {path} cannot be written: {why}")
    return said


def problem(path: str) -> str:
    """Why nothing can be written to a file, or made in a folder or in the nearest one above that exists; or empty."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        above = os.path.dirname(path)
        why = problem(above) if above != path else ""
        return why if not why or why.endswith(")") else f"{why} ({above})"
    except OSError as error:
        return error.strerror or str(error)
    try:
        if stat.S_ISDIR(mode):
            _try_folder(path)
        elif stat.S_ISREG(mode):
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _try_folder(path: str) -> None:
    try:
        os.close(os.open(path, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        has_no_unnamed = error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
        if not (has_no_unnamed and os.access(path, os.W_OK | os.X_OK)):
            raise
