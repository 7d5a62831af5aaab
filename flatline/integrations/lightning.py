"""For PyTorch Lightning: ``Trainer(callbacks=[flatline.integrations.lightning.Phases()])``.

The framework is imported when `Phases` is first asked for: `lightning.pytorch` or `pytorch_lightning`, whichever the
job has loaded. They are the same under two names, and take each other's call-backs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from .training import EVERY_S, Training, harmless

_NAMES = ("lightning.pytorch", "pytorch_lightning")

if TYPE_CHECKING:
    Phases: Any


def __getattr__(name: str) -> Any:
    if name != "Phases":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = _class_of(_framework().Callback)
    return globals()[name]


def _framework() -> Any:
    loaded = [name for name in _NAMES if name in sys.modules]
    there = loaded or [name for name in _NAMES if importlib.util.find_spec(name.split(".")[0])]
    return importlib.import_module((there or list(_NAMES))[0])


def _class_of(base: Any) -> Any:
    class Phases(base):
        """The training, each epoch and the last whole step as phases; the recorder sees the rest by itself."""

        def __init__(self, every_s: float = EVERY_S) -> None:
            super().__init__()
            self._training = Training(every_s)

        @harmless
        def on_train_start(self, trainer: Any, *_: Any) -> None:
            self._training.begins(trainer.global_step)

        @harmless
        def on_train_epoch_start(self, trainer: Any, *_: Any) -> None:
            self._training.epoch_begins(trainer.current_epoch, trainer.global_step)

        @harmless
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            self._training.step_ends(trainer.global_step)

        @harmless
        def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
            self._training.epoch_ends(trainer.global_step)

        @harmless
        def on_train_end(self, *_: Any) -> None:
            self._training.ends()

        @harmless
        def on_exception(self, *_: Any) -> None:
            self._training.ends()

    Phases.__qualname__ = "Phases"  # pickled by its name, as for children that are spawned
    return Phases
