"""Outlines: texts with every digit as a 5. Lines of a log that differ in their numbers have the same one."""

from __future__ import annotations

from itertools import accumulate

_FIVES = str.maketrans("012346789", "555555555")
_FIVES_AND_LINES = bytes.maketrans(b"012346789\r", b"555555555\n")


def outline(text: str) -> str:
    """The text with every digit as a 5."""
    return text if text.isalpha() else text.translate(_FIVES)


class Lines:
    """A text and the outlines of its lines, which end at a line feed or a carriage return."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.outlines = text.encode("utf-8", "surrogatepass").translate(_FIVES_AND_LINES).split(b"\n")
        self._starts: list[int] | None = None

    def with_text(self, text: str) -> Lines:
        """Those of another text; the same when it is the same."""
        return self if text == self.text else Lines(text)

    @property
    def starts(self) -> list[int]:
        """Where each line begins; one more for the end of the text."""
        if self._starts is None:
            lengths = [len(line) + 1 for line in self.text.replace("\r", "\n").split("\n")]
            self._starts = [0, *accumulate(lengths)]
            self._starts[-1] -= 1
        return self._starts
