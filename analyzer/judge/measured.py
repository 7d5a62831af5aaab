"""What a pack's ``calibration.json`` says of it: how often its rules were right, and what their odds are worth.

``flatline rules calibrate --write`` makes the file from labelled cases. It holds counts only, no text of any case.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from flatline.bundle.strict_json import JsonError, loads

from ..findings import Measured, Word
from . import rank
from .language import Identifier, Model
from .yaml_source import MAX_BYTES, Problem

FILE = "calibration.json"
SCHEMA = "flatline-calibration/1"

Count = Annotated[int, Field(ge=0)]
Parameter = Annotated[float, Field(gt=-100, lt=100, allow_inf_nan=False)]


class WordRecord(Model):
    """How often causes of one word were right, all rules together, each family of causes by the odds of the others."""

    said: Count
    right: Count
    is_confirmed: bool
    """Whether so many right ones leave no doubt that the word's floor is kept."""


class RuleRecord(Model):
    """How one rule did in the cases; `named`: it was the first to name a cause."""

    fired: Count
    named: Count
    right: Count
    wrong_confident: Count


class Calibration(Model):
    """The file."""

    schema_: Literal["flatline-calibration/1"] = Field(alias="schema")
    pack: str
    """Which rules were measured: ``built-in 1 (sha256 1a2b3c4d5e6f)``."""
    cases: Count
    slope: Annotated[Parameter, Field(gt=0)]
    offset: Parameter
    words: dict[Word, WordRecord]
    figures: dict[str, dict[str, int]]
    """shape -> name -> count."""
    losses: dict[str, dict[str, float]] = Field(default={})
    """Which odds -> log-loss and Brier score."""
    rules: dict[Identifier, RuleRecord]

    @property
    def is_confirmed(self) -> bool:
        """Whether every word keeps its promise."""
        return all(record.is_confirmed for record in self.words.values() if record.said)

    def of_rule(self, rule: str) -> Measured | None:
        """None for a rule that was not measured: it is newer, or fired in no case."""
        record = self.rules.get(rule)
        return None if record is None else Measured(cases=self.cases, named=record.named, right=record.right)


def parse_calibration(text: str, file: str) -> Calibration | Problem:
    """The file's content, or the first thing that is wrong with it."""
    if len(text.encode(errors="replace")) > MAX_BYTES:
        return Problem(file, 1, 1, "a calibration may have 1 MB at most")
    try:
        return TypeAdapter(Calibration).validate_python(loads(text))
    except JsonError as error:
        return Problem(file, 1, 1, str(error))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        return Problem(file, 1, 1, f"{'.'.join(map(str, fault['loc'])) or 'document'}: {fault['msg']}")


@cache
def built_in() -> Calibration | None:
    """Of the rules of this package; None where the file is not there or not in order."""
    try:
        text = Path(str(resources.files("flatline.rules"))).joinpath(FILE).read_text(encoding="utf-8")
    except OSError:
        return None
    parsed = parse_calibration(text, FILE)
    return parsed if isinstance(parsed, Calibration) else None


def probability(z: float) -> float:
    """p(z) by what was measured. Until every word is confirmed, the more careful of that and the odds themselves."""
    calibration = built_in()
    plain = rank.probability(z)
    if calibration is None:
        return plain
    fitted = rank.probability(z, calibration.slope, calibration.offset)
    return fitted if calibration.is_confirmed else min(plain, fitted)
