"""The rule language, version 1: what a rule file may say, as pydantic models.

A rule is data. It looks for rows of fact tables (`find`), for their absence (`none`), or for combinations (`any`,
`all`); what it finds gets a name that later conditions join on and the texts quote. Author's guide: docs/rules.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError, model_validator

from ..findings import Word
from .yaml_source import Document, Problem

ENGINE = 1
"""The version of the language this engine speaks; a pack states the one it needs."""

Weight = Literal["weak", "medium", "strong", "decisive"]
WEIGHTS: dict[str, float] = {"weak": 0.7, "medium": 1.4, "strong": 2.8, "decisive": 4.6}
"""Log likelihood ratios: evidence that is 2, 4, 16 or 100 times as likely when the cause is there."""

Scope = Literal["last-line", "tail", "all"]
Status = Literal["experimental", "stable", "deprecated"]
Restated = Literal["degraded", "crashed", "hung", "slow"]
"""What a rule may say of the whole job: it runs, but not as asked; it ended with an error; nothing will bring it on; or
this is what makes it slow."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Identifier = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Reference = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_.]*$")]
Text = Annotated[str, Field(min_length=1)]
Scalar = Union[bool, int, float, str]


class Model(BaseModel):
    """Strict, closed and immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Same(Model):
    """A value of a row bound earlier, instead of a literal."""

    same: Reference


def _shape(value: Any) -> str:
    if isinstance(value, (dict, BaseModel)):
        return "<operators>"
    return "<list>" if isinstance(value, list) else "<literal>"


TextOperand = Union[str, Same]


class Operators(Model):
    """What a field must satisfy; several operators in one mapping must all hold."""

    re: str | None = None
    """RE2 syntax, found anywhere in the text."""
    in_: Union[list[Scalar], Reference, None] = Field(default=None, alias="in")
    """One of a list, or of a list that a bound row has. The word ``unknown`` in a list stands for a value not known."""
    contains: Union[bool, int, float, str, Same, None] = None
    """Of a list: an element. Of a text: a part of it."""
    starts: TextOperand | None = None
    ends: TextOperand | None = None
    gt: Union[int, float, Reference, None] = None
    ge: Union[int, float, Reference, None] = None
    lt: Union[int, float, Reference, None] = None
    le: Union[int, float, Reference, None] = None
    same: Reference | None = None
    """Equal to a field of a bound row. The kind in front of a node (``thread:h1/1/2``) does not count."""
    not_same: Reference | None = None
    exists: bool | None = None
    """Whether the value is known at all; the one operator that is never unknown."""
    not_: Predicate | None = Field(default=None, alias="not")


Predicate = Annotated[
    Union[
        Annotated[Scalar, Tag("<literal>")],
        Annotated[list[Scalar], Tag("<list>")],
        Annotated[Operators, Tag("<operators>")],
    ],
    Discriminator(_shape),
]
Where = dict[str, Predicate]


class Counted(Model):
    """How many rows there must be, compared with a number or with what a bound row says."""

    as_: Name | None = Field(default=None, alias="as")
    """The number, for texts: ``{n.count}``."""
    gt: Union[int, Reference, None] = None
    ge: Union[int, Reference, None] = None
    lt: Union[int, Reference, None] = None
    le: Union[int, Reference, None] = None
    same: Union[int, Reference, None] = None
    not_same: Union[int, Reference, None] = None

    @model_validator(mode="after")
    def _compares(self) -> Counted:
        if not self.model_fields_set - {"as_"}:
            raise ValueError("a count is compared with something: gt, ge, lt, le, same or not_same")
        return self


class Weighted(Model):
    """What every condition of the first level may carry."""

    weight: Weight | None = None
    group: Name | None = None
    """Of a group only the heaviest item counts. Default: the table."""


class Find(Weighted):
    """At least one row (or `at_least` so many) of a table."""

    find: str
    as_: Name | None = Field(default=None, alias="as")
    where: Where = {}
    with_: list[Condition] = Field(default=[], alias="with")
    stack: list[Text] | None = None
    """Frames of the thread, outermost first; ``...`` stands for any frames between."""
    innermost: list[Text] | None = None
    """The same, but ending at the innermost frame."""
    scope: Scope = "all"
    """Of ``find: log``: where the pattern may stand."""
    at_least: Union[Annotated[int, Field(ge=1)], Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")], None] = None
    of: Where = {}
    """What a percentage is taken of; default: all rows of the table."""
    count: Counted | None = None
    """Instead of `at_least`: how many rows there must be. Also none may do: ``{lt: e.value}``."""
    distinct: str | None = None
    """Of ``count``: not rows but different values of this field are counted."""
    after: Name | None = None
    """Of ``find: log``: only lines after this one of the same log."""
    before: Name | None = None

    @model_validator(mode="after")
    def _counts_once(self) -> Find:
        if self.count is not None and self.at_least is not None:
            raise ValueError("count and at_least say the same: one of them is enough")
        if self.distinct is not None and self.count is None:
            raise ValueError("distinct belongs to count")
        return self


class Nothing(Weighted):
    """No row of a table."""

    none: str
    where: Where = {}
    with_: list[Condition] = Field(default=[], alias="with")
    stack: list[Text] | None = None
    innermost: list[Text] | None = None
    scope: Scope = "all"
    after: Name | None = None
    before: Name | None = None


class AnyOf(Weighted):
    """One of several conditions."""

    any: Annotated[list[Condition], Field(min_length=1)]


class AllOf(Weighted):
    """Several conditions together."""

    all: Annotated[list[Condition], Field(min_length=1)]


def _kind(value: Any) -> str:
    if isinstance(value, BaseModel):
        return f"<{type(value).__name__}>"
    keys = set(value) if isinstance(value, dict) else set()
    named = [kind for key, kind in (("none", "<Nothing>"), ("any", "<AnyOf>"), ("all", "<AllOf>")) if key in keys]
    return named[0] if named else "<Find>"


Condition = Annotated[
    Union[
        Annotated[Find, Tag("<Find>")],
        Annotated[Nothing, Tag("<Nothing>")],
        Annotated[AnyOf, Tag("<AnyOf>")],
        Annotated[AllOf, Tag("<AllOf>")],
    ],
    Discriminator(_kind),
]


class Translation(Model):
    """The texts in another language."""

    title: Text | None = None
    why: Text | None = None
    action: Text | None = None
    not_this_when: Text | None = None
    fix: list[Text] = []


class Rule(Model):
    """One rule file."""

    id: Identifier
    version: Annotated[int, Field(ge=1)]
    status: Status
    cause: Identifier
    variant: Identifier | None = None
    at_most: Word | None = None
    """The highest word this rule may say, however much speaks for it."""
    title: Text
    """One line; may quote what was bound: ``{t.pid}``, ``{l.path|a log}``."""
    why: Text
    """What happens, in two or three sentences a user understands."""
    requires: Annotated[list[Condition], Field(min_length=1)]
    supports: list[Condition] = []
    contradicts: list[Condition] = []
    explains: list[Identifier] = []
    """Rules whose findings are symptoms of this one."""
    supersedes: list[Identifier] = []
    """Rules that say the same, less precisely: not shown at all beside this one."""
    excludes: list[Identifier] = []
    """Rules that cannot be true at the same time."""
    verdict: Restated | None = None
    """What the whole job is when this is at least likely; it is a cause then also in a job that gets on."""
    symptom: bool = False
    """It shows on which side to look, and never what is wrong there: no root cause, whatever speaks for it."""
    fix: Annotated[list[Text], Field(min_length=1)]
    """What to change, the most likely remedy first."""
    confirm: Annotated[list[Text], Field(min_length=1)]
    """A command that proves or refutes it."""
    action: Text
    """What to do about the process now: safe to kill? recovers by itself? data at risk?"""
    not_this_when: Text
    """The look-alike, and how to tell it apart."""
    refs: list[Text] = []
    patterns: dict[str, Text] = {}
    """name -> RE2 pattern, for ``find: log``; named groups become fields of the hit."""
    zh: Translation | None = None


for _model in (Same, Operators, Counted, Find, Nothing, AnyOf, AllOf, Rule):
    _model.model_rebuild()


class PackInfo(Model):
    """pack.yaml of a folder of rules."""

    name: Identifier
    version: Text
    engine: Annotated[int, Field(ge=1)] = ENGINE
    patterns: dict[str, Text] = {}
    """What several rules look for: a rule names one of these as it names its own."""


def parse_rule(document: Document) -> Rule | list[Problem]:
    """The rule, or everything that is wrong with it, each with its place."""
    return parse_model(Rule, document)


def parse_model(model: type[Any], document: Document) -> Any | list[Problem]:
    """Validate a document against a pydantic model; faults carry file, line and column."""
    try:
        return TypeAdapter(model).validate_python(document.data)
    except ValidationError as error:
        return [_located(document, fault) for fault in error.errors(include_url=False, include_context=False)]


def _located(document: Document, fault: Any) -> Problem:
    path, name = path_in_document(document.data, fault["loc"])
    message = fault["msg"]
    if fault["type"] == "missing":
        return document.problem(path, f"{name}: is missing")
    if fault["type"] == "extra_forbidden":
        return document.problem(path, f"{name}: there is no such key here", at_key=True)
    return document.problem(path, f"{'.'.join(map(str, path)) or 'document'}: {message}")


def path_in_document(document: Any, loc: tuple[str | int, ...]) -> tuple[tuple[str | int, ...], str]:
    """pydantic's path without the names of union members, which the file does not have; and the last name in it."""
    data: Any = document
    path: list[str | int] = []
    for part in loc:
        keys: Any = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
        if part in keys:
            data = data[part]  # pyright: ignore[reportCallIssue, reportArgumentType]
            path.append(part)
    return tuple(path), str(loc[-1]) if loc else ""


def rule_json_schema() -> dict[str, Any]:
    """The JSON Schema of a rule file, for editors."""
    schema = Rule.model_json_schema(by_alias=True)
    return {**schema, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "flatline rule, version 1"}
