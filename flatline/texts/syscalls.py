"""What /proc/PID/task/TID/syscall says, in words: proc_pid_syscall(5), syscall(2).

The line is ``NR ARG0 … ARG5 SP PC`` in hexadecimal, ``-1 SP PC`` for a task blocked outside a call, or ``running``.
"""

from __future__ import annotations

import os

from flatline.bundle.facts import Syscall

from .syscall_numbers import NAMES

RUNNING = "running"
OUTSIDE = "outside"
"""Name given to a task that is blocked outside a system call: a page fault, a signal stop, an exit."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FD_FIRST = _words(
    "read write close fstat lseek ioctl pread64 pwrite64 readv writev accept accept4 connect bind listen sendto "
    "recvfrom sendmsg recvmsg recvmmsg sendmmsg shutdown getsockname getpeername setsockopt getsockopt fcntl "
    "flock fsync fdatasync ftruncate getdents getdents64 fchdir fchmod fchown fstatfs fsetxattr fgetxattr "
    "flistxattr fremovexattr fallocate readahead fadvise64 syncfs sync_file_range epoll_wait epoll_pwait "
    "epoll_pwait2 epoll_ctl preadv pwritev preadv2 pwritev2 splice tee vmsplice copy_file_range io_uring_enter "
    "io_uring_register timerfd_settime timerfd_gettime inotify_add_watch inotify_rm_watch mq_timedsend "
    "mq_timedreceive pidfd_send_signal pidfd_getfd setns fsmount fsconfig finit_module signalfd4"
)
_AT_CALLS = _words(
    "openat openat2 newfstatat statx mkdirat mknodat unlinkat renameat renameat2 linkat symlinkat readlinkat "
    "fchmodat fchmodat2 fchownat faccessat faccessat2 utimensat execveat name_to_handle_at open_tree"
)
_FD_AT = {"sendfile": 1, "mmap": 4}
"""sendfile waits for its input; the output is the first argument."""

_TIMEOUT_POINTER = {
    "ppoll": 2,
    "select": 4,
    "pselect6": 4,
    "nanosleep": 0,
    "clock_nanosleep": 2,
    "rt_sigtimedwait": 2,
    "semtimedop": 3,
    "recvmmsg": 4,
    "io_getevents": 4,
    "io_pgetevents": 4,
    "epoll_pwait2": 3,
    "mq_timedsend": 4,
    "mq_timedreceive": 4,
    "futex_waitv": 3,
    "futex_wait": 4,
}
"""Position of a timespec's address; 0 there means: for ever."""
_TIMEOUT_MS = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}
"""Position of a timeout in milliseconds; negative means: for ever."""
_FOR_EVER = frozenset({"pause", "rt_sigsuspend", "wait4", "waitid", "flock", "semop", "msgrcv", "msgsnd"})

_FUTEX_WAITS = {0, 6, 9, 11, 13}
"""WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2: those with a timeout (futex(2))."""
_FUTEX_COMMAND = 0x7F
_IO_URING_EXT_ARG = 1 << 3
_AT_FDCWD = -100
_P_PID = 1


def decode(line: str, machine: str | None = None) -> Syscall | None:
    """The call of one raw line; None when the line is not one. `machine` as in uname -m, this host's when left out."""
    words = line.split()
    if words == [RUNNING]:
        return Syscall(RUNNING)
    try:
        number, *values = int(words[0]), *(int(word, 16) for word in words[1:])
    except (ValueError, IndexError):
        return None
    if number == -1 and len(values) == 2:
        return Syscall(OUTSIDE, nr=-1)
    if len(values) != 8:
        return None
    args = tuple(values[:6])
    name = NAMES.get(machine or os.uname().machine, {}).get(number, f"syscall-{number}")
    timed, timeout_s = _timeout(name, args)
    return Syscall(
        name, number, args, fd=_descriptor(name, args), timed=timed, timeout_s=timeout_s, target_pid=_target(name, args)
    )


def timeout_address(call: Syscall) -> int | None:
    """Where in the caller's memory its timeout stands; 0: it has none, None: this call takes none there."""
    position = 3 if call.name == "futex" and call.timed is not None else _TIMEOUT_POINTER.get(call.name)
    return call.args[position] if position is not None and len(call.args) > position else None


def program_counter(line: str) -> int | None:
    """The last field of a raw line; None while the task runs."""
    words = line.split()
    try:
        return int(words[-1], 16) if len(words) in (3, 9) else None
    except ValueError:
        return None


def _signed(value: int) -> int:
    """An int argument: the upper half of its register is not defined."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def descriptor_at(name: str) -> int | None:
    """Which argument of a call is the descriptor that it is about."""
    return 0 if name in _FD_FIRST or name in _AT_CALLS else _FD_AT.get(name)


def timeout_at(name: str) -> int | None:
    """Which argument of a call says how long it waits at most, as milliseconds or as the address of a time."""
    return 3 if name == "futex" else _TIMEOUT_MS.get(name, _TIMEOUT_POINTER.get(name))


def waits_for_ever(name: str) -> bool:
    """Whether a call has no timeout, whatever its arguments."""
    return name in _FOR_EVER


def _descriptor(name: str, args: tuple[int, ...]) -> int | None:
    position = descriptor_at(name)
    if position is None:
        return None
    fd = _signed(args[position])
    return fd if fd >= 0 and fd != _AT_FDCWD else None


def _timeout(name: str, args: tuple[int, ...]) -> tuple[bool | None, float | None]:
    """(timed, seconds): (False, None) waits for ever, (True, None) for a time that is not in the arguments."""
    if name in _TIMEOUT_MS:
        milliseconds = _signed(args[_TIMEOUT_MS[name]])
        return (True, milliseconds / 1000) if milliseconds >= 0 else (False, None)
    if name in _TIMEOUT_POINTER:
        return args[_TIMEOUT_POINTER[name]] != 0, None
    if name == "futex":
        return (args[3] != 0, None) if _signed(args[1]) & _FUTEX_COMMAND in _FUTEX_WAITS else (None, None)
    if name == "io_uring_enter":
        return (None, None) if args[3] & _IO_URING_EXT_ARG else (False, None)
    return (False, None) if name in _FOR_EVER else (None, None)


def _target(name: str, args: tuple[int, ...]) -> int | None:
    """The process asked about, in the caller's own numbering; None for "any" and for process groups."""
    if name == "wait4" or name == "kill":
        pid = _signed(args[0])
    elif name == "waitid" and args[0] == _P_PID:
        pid = _signed(args[1])
    elif name == "tgkill":
        pid = _signed(args[0])
    else:
        return None
    return pid if pid > 0 else None
