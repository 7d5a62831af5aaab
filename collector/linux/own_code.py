"""Our own program may lie on a mount that stops answering while it runs: a Python of the site, a virtual environment.

Whatever of it has not been looked at yet is then a page that never comes, and who waits for one sleeps where no signal
reaches him: that would be collect itself, beyond every deadline. So all of it is had from the file system at the start.
"""

from __future__ import annotations

try:
    import ctypes
except ImportError:  # a Python built without libffi
    ctypes = None

_MADV_WILLNEED = 3
_MADV_POPULATE_READ = 22
"""Since Linux 5.14; before, the kernel is only asked to begin."""


def keep_at_hand() -> None:
    """Have every page of the interpreter and its libraries read: some milliseconds where they are cached."""
    if ctypes is None:
        return
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    for begin, size in _mapped_files():
        if madvise(begin, size, _MADV_POPULATE_READ):
            madvise(begin, size, _MADV_WILLNEED)


def _mapped_files() -> list[tuple[int, int]]:
    """Where they lie in our memory, and their sizes: proc_pid_maps(5)."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            fields = [line.split(None, 5) for line in maps]
    except OSError:
        return []
    found = []
    for field in fields:
        if len(field) == 6 and field[5].startswith(b"/") and field[1].startswith(b"r"):
            begin, end = (int(word, 16) for word in field[0].split(b"-"))
            found.append((begin, end - begin))
    return found
