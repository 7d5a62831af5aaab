"""Standard output that cannot be written (a full disk, a broken mount) is told in one line, whatever was printed."""

from __future__ import annotations

import io
import sys
from typing import Any, Optional

from flatline.errors import OutputLostError


class Output(io.FileIO):
    """Standard output. The first write that fails raises OutputLostError; what comes behind it is dropped."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self.lost: Optional[OutputLostError] = None

    def write(self, data: Any, /) -> int:
        """As FileIO does; a reader that went away is no failure of ours."""
        if self.lost is not None:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.lost = OutputLostError(
                f"standard output cannot be written: {error.strerror}; files that were written are there"
            )
            raise self.lost from None


def watched_output() -> Optional[Output]:
    """Put `Output` below standard output; None where that is no file of the system, as under a test."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper) or stream is not sys.__stdout__:
        return None
    stream.flush()
    output = Output(stream.fileno())
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output), stream.encoding, stream.errors, line_buffering=stream.line_buffering
    )
    return output
