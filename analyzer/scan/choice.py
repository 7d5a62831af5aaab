"""Which engine finds the lines: what is installed, and what the length of the text is worth."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from . import by_re2, by_text
from .interface import Finder, Sought

WARM_UP = 2 * 1024**2
"""Bytes after which Hyperscan is built for a text that is known to be long: until then it shows which patterns are in
every other line, and those are left out."""
LONG = 48 * 1024**2
"""Bytes that RE2 scans in the time that Hyperscan takes to be built and to scan them."""
LONG_WITHOUT_RE2 = 4 * 1024**2


def is_long(*, seen: int, left: int) -> bool:
    """Whether a text of which `seen` bytes were read, and `left` are to come at least, is worth Hyperscan."""
    long = LONG if by_re2.re2 is not None else LONG_WITHOUT_RE2
    if seen < long and (left < long or seen < min(WARM_UP, long)):
        return False
    from . import by_hyperscan  # its library takes some twenty milliseconds to load, at every start

    return by_hyperscan.hyperscan is not None


def finder_for(patterns: tuple[Sought, ...]) -> Finder:
    """The finder that is to be had at once."""
    return by_re2.build(patterns) or by_text.build(patterns)


def quick_finder_for(patterns: tuple[Sought, ...]) -> Future[Finder | None]:
    """The quickest, built beside what goes on here (that does not hold the interpreter); None: there is none."""
    from . import by_hyperscan

    return beside(lambda: by_hyperscan.build(patterns))


def beside(work: Callable[[], Finder | None]) -> Future[Finder | None]:
    """What another thread works out."""
    future: Future[Finder | None] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, name="build").start()
    return future
