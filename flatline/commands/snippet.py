"""`flatline snippet`: the few lines for who can edit only the top of a script."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

SNIPPET = '''\
# --- flatline: stacks of all threads on signal 50, and marks, in one file that survives a kill ---
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


def main(argv: Sequence[str]) -> int:
    """Print it."""
    parser = argparse.ArgumentParser(
        prog="flatline snippet",
        description="Lines for the top of a script, where `flatline run` or the recorder cannot be used.",
        epilog="example: flatline snippet | cat - train.py > train_marked.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(argv)
    print(SNIPPET, end="")
    return 0
