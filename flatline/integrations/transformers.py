"""For the Trainer of Hugging Face: ``trainer.add_callback(flatline.integrations.transformers.Phases())``.

The framework is imported when `Phases` is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .training import EVERY_S, Training, harmless

if TYPE_CHECKING:
    Phases: Any


def __getattr__(name: str) -> Any:
    if name != "Phases":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = _class_of(importlib.import_module("transformers").TrainerCallback)
    return globals()[name]


def _class_of(base: Any) -> Any:
    class Phases(base):
        """The training, each epoch and the last whole step as phases; the recorder sees the rest by itself."""

        def __init__(self, every_s: float = EVERY_S) -> None:
            self._training = Training(every_s)

        @harmless
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._training.begins(state.global_step)

        @harmless
        def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._training.epoch_begins(int(state.epoch or 0), state.global_step)

        @harmless
        def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._training.step_ends(state.global_step)

        @harmless
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._training.step_ends(state.global_step)

        @harmless
        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._training.epoch_ends(state.global_step)

        @harmless
        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._training.ends()

    Phases.__qualname__ = "Phases"  # pickled by its name
    return Phases
