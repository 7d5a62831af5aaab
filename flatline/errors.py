"""Every error a user can meet, and the exit codes that go with them.

The library raises these; only ``commands/`` print them and choose the exit code.
"""

from __future__ import annotations

from flatline.visible import visible

EXIT_OK = 0
EXIT_SOMETHING_MISSING = 1
"""doctor: something that a collect would want cannot be had here."""
EXIT_USAGE = 2
EXIT_NO_STACK = 3
"""collect: the bundle was written, but without any stack of the target."""
EXIT_NO_TARGET = 4
"""collect: no such target, or no way to choose one."""
EXIT_NOWHERE_TO_WRITE = 5
"""collect: neither the output place nor TMPDIR can be written."""
EXIT_OUTPUT_LOST = 6
"""Every command: standard output could not be written; a bundle or report that went to a file is there."""
EXIT_CAUSE_NAMED = 10
"""analyze: a cause was named, or it crashed or is degraded."""
EXIT_UNDECIDED = 11
"""analyze: stuck or unknown, and undecided."""
EXIT_UNREADABLE = 20
"""analyze, show, salvage: the input could not be read."""


class FlatlineError(Exception):
    """What happened, the likely reasons, and the next command to type.

    ``str(error)`` is the first line; `lines` is what a command prints.
    """

    exit_code = EXIT_USAGE

    def __init__(
        self, what: str, *, why: tuple[str, ...] = (), listing: tuple[str, ...] = (), next_step: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.listing = listing
        """What there is to choose from, one per line."""
        self.next_step = next_step

    def lines(self) -> list[str]:
        """The message as a person reads it on a terminal; what others named in it cannot steer that."""
        out = [f"flatline: {self.what}"]
        out += [f"  likely: {reason}" for reason in self.why]
        out += [f"  {line}" for line in self.listing]
        if self.next_step:
            out.append(f"  next:   {self.next_step}")
        return [visible(line) for line in out]


class UsageError(FlatlineError):
    """The command line does not make sense."""


class NoTargetError(FlatlineError):
    """There is nothing to collect from, or more than one thing and no way to ask."""

    exit_code = EXIT_NO_TARGET


class TargetGoneError(NoTargetError):
    """Nothing that was asked for is running, any more or yet; what it left may still be there."""


class NowhereToWriteError(FlatlineError):
    """Neither the wanted place nor TMPDIR takes a file."""

    exit_code = EXIT_NOWHERE_TO_WRITE


class OutputLostError(FlatlineError):
    """Standard output takes nothing: the disk it is redirected to is full, or its mount is broken."""

    exit_code = EXIT_OUTPUT_LOST


class UnreadableBundleError(FlatlineError):
    """The input is no bundle, is refused as hostile, or is of a newer major version."""

    exit_code = EXIT_UNREADABLE


class RuleError(FlatlineError):
    """A rule file is wrong; `what` begins with file:line:column."""
