"""``--review``: a person sees what the bundle will show, artefact by artefact, and hides more before it is closed.

Only on a terminal, and never for ever: when nobody answers for some minutes, the bundle is written as it stands.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from flatline.errors import FlatlineError, UsageError
from flatline.redaction import Redactor
from flatline.redaction.documents import redact_document
from flatline.redaction.marks import MARK
from flatline.redaction.wishes import wishes_of
from flatline.visible import visible

PATIENCE_S = 300.0
"""How long nobody may answer."""
POLL_S = 0.25
SHOWN_LINES = 40

HELP = """\
Enter or w     write the bundle
N              show artefact N as it will be; N LINE from that line on
hide TEXT      hide this text everywhere; hide /REGEX/ what the regular expression matches
drop N         leave artefact N out
l              list again"""


@dataclass
class Review:
    """The conversation. `answer` returns a line, or None: nobody answers, or the collect is to end."""

    redactor: Redactor
    names: Sequence[str]
    read: Callable[[str], bytes]
    out: TextIO
    answer: Callable[[], str | None]
    dropped: set[str] = field(default_factory=set)
    changed: bool = False
    """Whether something was hidden or dropped."""

    def run(self) -> None:
        """Until the person is content."""
        self._list()
        self._say(HELP)
        while True:
            said = self.answer()
            if said is None:
                self._say("No answer: the bundle is written as it stands.")
                return
            if said.strip() in ("", "w"):
                return
            try:
                self._do(said.strip())
            except FlatlineError as error:
                self._say(error.what)

    def _do(self, said: str) -> None:
        word, _, rest = said.partition(" ")
        if word == "hide" and rest.strip():
            before = self._marks()
            self.redactor.wish(wishes_of(hide=[rest.strip()]))
            self.changed = True
            self._say(f"hidden; in {sum(1 for one, two in zip(before, self._marks()) if one != two)} artefacts")
        elif word == "drop":
            name = self._named(rest)
            self.dropped.add(name)
            self.changed = True
            self._say(f"{name} is left out")
        elif word.isdigit():
            self._show(self._named(word), int(rest) if rest.strip().isdigit() else 1)
        elif word == "l":
            self._list()
        else:
            self._say(HELP)

    def _named(self, number: str) -> str:
        at = int(number) if number.strip().isdigit() else 0
        if not 1 <= at <= len(self.names):
            raise UsageError(f"there is no artefact {number.strip() or '?'}; they are 1 to {len(self.names)}")
        return self.names[at - 1]

    def text(self, name: str) -> str:
        """The artefact as it will be."""
        text = self.read(name).decode("utf-8", "surrogateescape")
        return self.redactor.rewrite(text) or text if not self.changed else redact_document(name, text, self.redactor)

    def _marks(self) -> list[int]:
        return [len(MARK.findall(self.text(name))) for name in self.names]

    def _list(self) -> None:
        self._say("What the bundle will hold, and what is hidden in it:")
        for number, name in enumerate(self.names, 1):
            text = self.text(name)
            kinds = Counter(mark[1:].partition("·")[0] for mark in MARK.findall(text))
            hidden = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items())) or "nothing"
            state = "left out" if name in self.dropped else f"{text.count(chr(10)) + 1} lines; hidden: {hidden}"
            self._say(f"{number:4}  {name}  {state}")

    def _show(self, name: str, first: int) -> None:
        lines = self.text(name).split("\n")
        for number, line in enumerate(lines[first - 1 : first - 1 + SHOWN_LINES], first):
            self._say(f"{number:6}  {line[:500]}")
        if first - 1 + SHOWN_LINES < len(lines):
            self._say(f"… {len(lines)} lines in all")

    def _say(self, text: str) -> None:
        self.out.write("\n".join(map(visible, text.split("\n"))) + "\n")
        self.out.flush()


def is_possible() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def ask_terminal(is_over: Callable[[], bool], patience_s: float = PATIENCE_S) -> str | None:
    """One line from standard input; None after `patience_s`, at its end, or once `is_over`."""
    sys.stderr.write("review> ")
    sys.stderr.flush()
    descriptor, said, until = sys.stdin.fileno(), b"", time.monotonic() + patience_s
    while not said.endswith(b"\n"):
        if is_over() or time.monotonic() > until:
            return None
        try:
            ready, _, _ = select.select([descriptor], [], [], POLL_S)
        except InterruptedError:
            continue
        if ready:
            more = os.read(descriptor, 4096)
            if not more:
                return None
            said += more
    return said.decode("utf-8", "replace")


def left_out(name: str) -> bytes:
    """What stands in the place of an artefact that is left out: of its kind, and empty."""
    if name.endswith(".json"):
        return b'{"tables":{}}\n'
    return b"" if name.endswith(".jsonl") else b"(left out by the person who collected this)\n"
