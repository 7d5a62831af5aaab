"""flatline: what a training job leaves when it is alive but silent, and why.

This module is imported by the jobs themselves, so it stays Python 3.7, imports nothing and never raises.
"""

__version__ = "0.1.0"


class phase:
    """Mark a phase of the job: ``with flatline.phase("build model"): ...``.

    Does nothing unless a recorder in this process has set ``phase.listener`` to a callable
    ``listener(name, "enter" | "leave")``; a listener that raises never reaches the job.
    """

    listener = None

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> "phase":
        self._tell("enter")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._tell("leave")

    def _tell(self, event: str) -> None:
        if phase.listener is None:
            return
        try:
            phase.listener(self.name, event)
        except Exception:  # noqa: BLE001, S110 - the job must not break because a marker did
            pass
