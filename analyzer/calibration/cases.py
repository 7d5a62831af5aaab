"""Labelled cases: what is known of a hang, and the evidence that somebody had of it.

A JSONL file holds one a line: `id`, `accept` (causes that are right as root cause), `near_miss` (it looked stuck but
was not, or nobody knows why), `decidable` (whether the cause follows from the evidence at all), `verdict`, and the
evidence: `files` (name -> text), or `path` (a bundle, a folder or a text, relative to the JSONL file). In a folder,
``cases.jsonl`` and ``labels.jsonl`` are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flatline.errors import UsageError

from ..findings import VerdictState

LABELS = ("cases.jsonl", "labels.jsonl")
MAX_CASES = 20_000


class LabelledCase(BaseModel):
    """One line. Fields beside these are the labeller's own, and not looked at."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(min_length=1)
    accept: list[str] = []
    near_miss: bool = False
    decidable: Literal["yes", "family", "symptom", "no"] = "yes"
    verdict: VerdictState | None = None
    files: dict[str, str] = {}
    path: Path | None = None

    @model_validator(mode="after")
    def _has_one_kind_of_evidence(self) -> LabelledCase:
        if bool(self.files) == (self.path is not None):
            raise ValueError("a case has either files or a path")
        for name in self.files:
            pure = PurePosixPath(name)
            if pure.is_absolute() or ".." in pure.parts or not pure.name or "\0" in name:
                raise ValueError(f"{name!r} is no name of a file in a folder")
        return self

    @property
    def counts(self) -> bool:
        """Whether the right cause can be asked of an analyzer."""
        return self.decidable == "yes" and not self.near_miss


def read_cases(paths: Sequence[Path]) -> list[LabelledCase]:
    """Every case, in order. Raises UsageError, with file and line, for what is none, and for one id twice."""
    cases: list[LabelledCase] = []
    places: dict[str, str] = {}
    for file in _label_files(paths):
        for place, case in _cases_in(file):
            if case.id in places:
                raise UsageError(f"{place}: there is a case {case.id!r} at {places[case.id]} already")
            places[case.id] = place
            cases.append(case)
            if len(cases) > MAX_CASES:
                raise UsageError(f"{file}: more than {MAX_CASES:,} cases")
    if not cases:
        raise UsageError("there is no labelled case", next_step="flatline rules calibrate --help")
    return cases


def _label_files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = [path / name for name in LABELS if (path / name).is_file()]
        if not found:
            raise UsageError(f"{path} holds neither {' nor '.join(LABELS)}", why=("a case needs its labels",))
        yield from found


def _cases_in(file: Path) -> Iterator[tuple[str, LabelledCase]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"{file}:{number}", _case(line, file, number)


def _case(line: str, file: Path, number: int) -> LabelledCase:
    try:
        case = LabelledCase.model_validate(json.loads(line))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise UsageError(f"{file}:{number}: {f'{where}: ' if where else ''}{fault['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}:{number}: this is no JSON object: {error}") from None
    return case if case.path is None else case.model_copy(update={"path": file.parent / case.path})
