"""`flatline snippet`: the few lines for who can edit only the top of a script."""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path

from flatline.arguments import Parser

SNIPPET = '''\
# --- flatline: stacks of all threads on signal 50, and marks, in one file that survives a kill ---
# (first in the script, but below its docstring and any `from __future__ import`, which Python wants before all else)
import atexit, faulthandler, os, sys, threading, time
_flatline = open(  # for the job's user alone, and through no link that another has laid
    os.path.join(os.environ.get("TMPDIR", "/tmp"), "flatline-%d.txt" % os.getpid()), "a", buffering=1,
    opener=lambda path, _: os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
def flatline_mark(text, _t0=time.monotonic()):
    """Say what comes next: flatline_mark("import torch")."""
    _flatline.write("%.3f %s\\n" % (time.monotonic() - _t0, text))
flatline_mark("start pid %d python %s cwd %s" % (os.getpid(), sys.version.split()[0], os.getcwd()))
faulthandler.register(50, file=_flatline, all_threads=True)  # 50: Slurm and Lightning use SIGUSR1 themselves
if hasattr(threading, "excepthook"):
    _flatline_hook = threading.excepthook
    def _flatline_excepthook(args):
        flatline_mark("thread %s ended with %r" % (getattr(args.thread, "name", "?"), args.exc_value))
        _flatline_hook(args)
    threading.excepthook = _flatline_excepthook
atexit.register(flatline_mark, "exit")
# --- flatline: kill -50 PID prints the stacks; then: flatline analyze $TMPDIR/flatline-PID.txt ---
'''


EPILOG = """\
examples:
  flatline snippet                               # to paste in
  flatline snippet train.py > train_marked.py    # the script with the lines in their place
"""


def main(argv: Sequence[str]) -> int:
    """Print it, or the script with it."""
    parser = Parser(
        prog="flatline snippet",
        description="Lines for the top of a script, where `flatline run` or the recorder cannot be used.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("script", nargs="?", default="", metavar="SCRIPT", help="print this with the lines in place")
    script = parser.parse_args(argv).script
    if not script:
        print(SNIPPET, end="")
        return 0
    try:
        text = marked(Path(script).read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        parser.error(f"{script}: {error.strerror if isinstance(error, OSError) else error}")
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    return 0


def marked(source: bytes) -> bytes:
    """The script, in its own encoding, with the lines below what must stay first: its docstring and what it takes from
    the future. SyntaxError for what is no Python."""
    last = 0
    for number, statement in enumerate(ast.parse(source).body):
        is_docstring = number == 0 and isinstance(statement, ast.Expr) and _is_text(statement.value)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (is_docstring or is_future or statement.lineno <= last):  # or goes on behind a semicolon
            break
        last = statement.end_lineno or last
    lines = source.splitlines(keepends=True)
    if not last:  # below the line of the interpreter and that of the encoding
        last = next((n for n, line in enumerate(lines[:2]) if not line.startswith(b"#")), min(2, len(lines)))
    head = b"".join(lines[:last])
    return head + (b"" if not head or head.endswith(b"\n") else b"\n") + SNIPPET.encode() + b"".join(lines[last:])


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
