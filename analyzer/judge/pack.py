"""Packs: folders of rules. The built-in one is the package flatline.rules; others come with ``--rules DIR``.

A pack is identified by its name, version and the SHA-256 of its rule files, so that a finding can be traced back to
exactly the rules that made it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from pydantic import Field

from flatline.errors import RuleError

from ..findings import Measured, VerdictState
from . import language, measured, rank
from .compiling import Weighed, compile_parts, compile_patterns
from .evaluate import searches
from .language import Identifier, Model, PackInfo, Rule, Text, parse_model, parse_rule
from .logs import LogPattern
from .patterns import Compiled, one_pack
from .readable import readable
from .yaml_source import MAX_BYTES, Document, Problem, YamlRefused, place_of, read_document

PACK_FILE = "pack.yaml"
CAUSES_FILE = "causes.yaml"
TEST_SUFFIX = ".test.yaml"
MARK = "TODO"
"""What a draft still lacks; a rule that says so is not asked."""


class Cause(Model):
    """One entry of causes.yaml: what a finding can name."""

    id: Identifier
    family: Identifier
    title: Text
    leaves: VerdictState | None = None
    """How a job is that has this cause, where it follows: what pasted texts by themselves may not say."""
    variants: dict[Identifier, Text] = Field(default={})
    """Finer situations: the rule that tells each, or in a sentence why none can."""


@dataclass(frozen=True, eq=False)
class LoadedRule:
    """A rule, checked and compiled."""

    model: Rule
    document: Document
    requires: tuple[Weighed, ...]
    supports: tuple[Weighed, ...]
    contradicts: tuple[Weighed, ...]
    path: Path
    patterns: tuple[LogPattern, ...] = ()
    pack: str = ""
    """``built-in 0.1.0 (sha256 1a2b3c4d)``."""
    measured: Measured | None = None
    """How it did in labelled cases, as its pack's calibration says."""
    in_order: bool = True
    """Else it is what can be read of a rule that is not: for `lint`, and never asked."""

    @property
    def id(self) -> str:
        return self.model.id

    @property
    def family(self) -> str:
        return self.path.parent.name

    @property
    def test_path(self) -> Path:
        return self.path.with_name(self.id + TEST_SUFFIX)

    @property
    def unwritten(self) -> list[Problem]:
        """The places that are still to be written; a rule that has one is a draft."""
        return [
            self.document.problem(place, f"{MARK}: {'.'.join(map(str, place))} is still to be written")
            for place in self.document.values
            if isinstance(value := self.document.value(place), str) and MARK in value
        ]


@dataclass(frozen=True)
class Pack:
    """The rules of one folder that are good, and what is wrong with the others."""

    name: str
    version: str
    sha256: str
    rules: tuple[LoadedRule, ...] = ()
    causes: Mapping[str, Cause] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    root: Path = Path()
    engine: int = language.ENGINE
    """The version of the language that it needs."""
    drafts: tuple[LoadedRule, ...] = ()
    """Rules that are still to be written: never asked, and named in `problems`."""
    patterns: Mapping[str, LogPattern] = field(default_factory=dict)
    """What its rules may look for by name, besides their own."""
    refused: tuple[LoadedRule, ...] = ()
    """Rules that are left out, each for a fault that `problems` names: `lint` looks for more in them."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} (sha256 {self.sha256[:12]})"


@dataclass(frozen=True)
class Rulebook:
    """Every pack of one analysis."""

    packs: tuple[Pack, ...]

    @property
    def rules(self) -> list[LoadedRule]:
        return [rule for pack in self.packs for rule in pack.rules]

    @property
    def causes(self) -> dict[str, Cause]:
        return {name: cause for pack in self.packs for name, cause in pack.causes.items()}

    @property
    def problems(self) -> list[Problem]:
        return sorted({problem for pack in self.packs for problem in pack.problems})

    @property
    def drafts(self) -> list[LoadedRule]:
        return [rule for pack in self.packs for rule in pack.drafts]

    @property
    def refused(self) -> list[LoadedRule]:
        return [rule for pack in self.packs for rule in pack.refused]

    def faults(self, problems: Iterable[Problem]) -> list[Problem]:
        """Those that are the user's to mend: where other packs are loaded, what is wrong with our own rules is not."""
        ours = [pack.root for pack in self.packs if pack.root == built_in_folder() and len(self.packs) > 1]
        return [problem for problem in problems if not any(Path(problem.file).is_relative_to(root) for root in ours)]

    def patterns(self) -> list[tuple[str, Compiled]]:
        """What rules look for in all of a log, each once: as it is written, and compiled."""
        wanted = {p.pattern: p.compiled for rule in self.rules for p in rule.patterns if p.everywhere}
        return list(wanted.items())

    def with_drafts(self) -> Rulebook:
        """For who writes them: drafts are rules like others."""
        return Rulebook(tuple(replace(pack, rules=pack.rules + pack.drafts, drafts=()) for pack in self.packs))

    def rule(self, rule_id: str) -> LoadedRule:
        """Also a draft. Raises RuleError when there is no such rule."""
        for rule in (*self.rules, *self.drafts):
            if rule.id == rule_id:
                return rule
        if any(rule.id == rule_id for rule in self.refused):
            raise RuleError(f"the rule {rule_id!r} is not in order, and left out", next_step="flatline rules lint")
        raise RuleError(f"there is no rule {rule_id!r}", next_step="flatline rules list")

    def rules_of(self, name: str) -> list[LoadedRule]:
        """The rule of this id, else those of the cause of this id. Raises RuleError when there is none."""
        of_cause = self.naming(name)
        return of_cause if of_cause and all(rule.id != name for rule in of_cause) else [self.rule(name)]

    def naming(self, cause: str) -> list[LoadedRule]:
        """The rules that name a cause."""
        return [rule for rule in self.rules if rule.model.cause == cause]


def load_rulebook(folders: Sequence[Path] = (), *, built_in: bool = True, own: Path | None = None) -> Rulebook:
    """The built-in rules and those of the folders; of two rules with one id the later pack's is refused.

    A broken rule file is left out and named in `problems`, and so is the user's `own` folder, which is in every
    analysis. Raises RuleError for another folder that cannot be used at all.
    """
    packs = [load_pack(built_in_folder(), trusted=True)] if built_in else []
    shared = packs[0].patterns if packs else {}
    packs += [_own_pack(own, shared)] if own is not None else []
    packs += [load_pack(folder, shared=shared) for folder in folders]
    return _checked_together(packs)


def own_folder() -> Path | None:
    """Where this user's own rules lie: ``$XDG_CONFIG_HOME/flatline/rules``; None when there are none."""
    folder = own_place()
    try:
        return folder if next(folder.rglob("*.yaml"), None) else None
    except OSError:
        return None


def own_place() -> Path:
    """Where they would lie."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    config = Path(home) if home.startswith("/") else Path(os.path.expanduser("~")) / ".config"
    return config / "flatline" / "rules"


def _own_pack(folder: Path, shared: Mapping[str, LogPattern]) -> Pack:
    try:
        return load_pack(folder, shared=shared)
    except RuleError as error:
        return Pack("own", "0", "", problems=(Problem(str(folder), 1, 1, error.what),), root=folder)


def built_in_folder() -> Path:
    """Where the rules of this package lie."""
    return Path(str(resources.files("flatline.rules")))


def rule_files(folder: Path) -> list[Path]:
    """The files of a pack that say something of its rules; none of a folder that is not there."""
    return sorted(path for path in folder.rglob("*.yaml") if not path.name.endswith(TEST_SUFFIX))


def load_pack(folder: Path, *, trusted: bool = False, shared: Mapping[str, LogPattern] | None = None) -> Pack:
    """Every rule below a folder. Raises RuleError when it is no folder, holds no rule or needs another engine.

    `shared` are patterns that its rules may name, besides those of its ``pack.yaml``.
    """
    if not folder.is_dir():
        raise RuleError(f"{folder} is no folder of rules", next_step="flatline rules list --rules DIR")
    files = rule_files(folder)
    if not files:
        raise RuleError(
            f"there is no rule file below {folder}",
            why=("rule files end in .yaml",),
            next_step=f"flatline rules new ID --cause CAUSE --rules {folder}",
        )
    problems: list[Problem] = []
    with one_pack():
        info, own = _info(folder, problems, trusted=trusted)
        shared = {**(shared or {}), **own}
        pack = Pack(info.name, info.version, _sha256(folder, files), root=folder)
        special = {folder / PACK_FILE, folder / CAUSES_FILE}
        loaded = [
            load_rule(path, str(pack), problems, shared, trusted=trusted) for path in files if path not in special
        ]
    rules = [rule for rule in loaded if rule and rule.in_order and not rule.unwritten]
    drafts = [rule for rule in loaded if rule and rule.in_order and rule.unwritten]
    problems += map(_draft, drafts)
    calibration = _calibration(folder, problems)
    return Pack(
        pack.name,
        pack.version,
        pack.sha256,
        tuple(_with_record(rule, calibration) for rule in rules),
        _causes(folder, problems),
        tuple(problems),
        folder,
        info.engine,
        tuple(drafts),
        shared,
        tuple(rule for rule in loaded if rule and not rule.in_order),
    )


def _draft(rule: LoadedRule) -> Problem:
    places = rule.unwritten
    what = f"{MARK}: {rule.id} is a draft and not in use: {len(places)} texts are still to be written"
    return replace(places[0], message=what)


def load_rule(
    path: Path, pack: str, problems: list[Problem], shared: Mapping[str, LogPattern], *, trusted: bool
) -> LoadedRule | None:
    """Read, check and compile one rule; what is wrong is added to `problems`. None when nothing of it can be read."""
    document = read_file(path, problems)
    if document is None:
        return None
    parsed = parse_rule(document)
    problems += parsed if isinstance(parsed, list) else []
    rule = readable(document) if isinstance(parsed, list) else parsed
    if rule is None:
        return None
    if rule.id != path.stem and document.data.get("id") == rule.id:
        problems.append(document.problem(("id",), f"the file must be named {rule.id}.yaml, after the rule's id"))
    before = len(problems)
    patterns = {**shared, **compile_patterns(rule.patterns, document, problems, trusted=trusted)}
    parts = compile_parts(rule, document, patterns, problems, trusted=trusted)
    in_order = not isinstance(parsed, list) and len(problems) == before
    found = [search for part in parts for weighed in part for search in searches(weighed.condition) if search.pattern]
    named = dict.fromkeys([*rule.patterns, *(search.pattern.name for search in found if search.pattern)])
    everywhere = {search.pattern.name for search in found if search.pattern and search.scope == "all"}
    looked_for = tuple(replace(patterns[name], everywhere=name in everywhere) for name in named if name in patterns)
    return LoadedRule(rule, document, *parts, path=path, patterns=looked_for, pack=pack, in_order=in_order)


def read_file(path: Path, problems: list[Problem]) -> Document | None:
    """The document in a file; None, and a problem, when it cannot be read."""
    try:
        return read_document(bounded_bytes(path).decode("utf-8"), str(path))
    except YamlRefused as refused:
        problems += refused.problems
    except UnicodeDecodeError as error:
        line, column = place_of(error.object[: error.start].decode("latin-1"), error.start)
        problems.append(Problem(str(path), line, column, f"cannot be read as UTF-8: {error.reason}"))
    except OSError as error:
        problems.append(Problem(str(path), 1, 1, f"cannot be read: {error.strerror}"))
    return None


def bounded_bytes(path: Path) -> bytes:
    """What a pack's file holds, one byte more than it may hold at most. OSError for a link, a FIFO, a device.

    A pack may come from anybody: a FIFO would block us, and ``/dev/zero`` would never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read(MAX_BYTES + 1)


def _info(folder: Path, problems: list[Problem], *, trusted: bool) -> tuple[PackInfo, dict[str, LogPattern]]:
    """What a pack says of itself, and the patterns that its rules share."""
    path = folder / PACK_FILE
    document = read_file(path, problems) if path.exists() else None
    parsed = parse_model(PackInfo, document) if document else []
    if document is None or isinstance(parsed, list):
        problems += parsed
        return PackInfo(name="local", version="0"), {}
    if parsed.engine > language.ENGINE:
        raise RuleError(
            f"{path}: this pack needs rule engine {parsed.engine}, this is {language.ENGINE}",
            next_step="pip install --upgrade flatline",
        )
    return parsed, compile_patterns(parsed.patterns, document, problems, trusted=trusted)


def _causes(folder: Path, problems: list[Problem]) -> dict[str, Cause]:
    """The entries that are in order: one that is not costs the others nothing."""
    path = folder / CAUSES_FILE
    document = read_file(path, problems) if path.exists() else None
    parsed = parse_model(list[Cause], document) if document else []
    faults = [fault for fault in parsed if isinstance(fault, Problem)]
    problems += faults
    if not faults or document is None or not isinstance(document.data, list):
        return {cause.id: cause for cause in parsed if isinstance(cause, Cause)}
    entries = (parse_model(Cause, replace(document, data=entry)) for entry in document.data)
    return {cause.id: cause for cause in entries if isinstance(cause, Cause)}


def _calibration(folder: Path, problems: list[Problem]) -> measured.Calibration | None:
    path = folder / measured.FILE
    if not path.exists():
        return None
    try:
        parsed = measured.parse_calibration(bounded_bytes(path).decode("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        parsed = Problem(str(path), 1, 1, f"cannot be read: {error}")
    if isinstance(parsed, Problem):
        problems.append(parsed)
        return None
    return parsed


def _with_record(rule: LoadedRule, calibration: measured.Calibration | None) -> LoadedRule:
    return replace(rule, measured=calibration.of_rule(rule.id)) if calibration else rule


def _sha256(folder: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(_readable_bytes(path))
        digest.update(b"\0")
    return digest.hexdigest()


def _readable_bytes(path: Path) -> bytes:
    try:
        return bounded_bytes(path)
    except OSError:  # it is named as a problem where it is read as a rule
        return b""


def _checked_together(packs: Sequence[Pack]) -> Rulebook:
    """Leave out rules whose id is taken, whose cause nobody knows, or that end up explaining themselves; rules refer to
    each other across packs."""
    models = {rule.id: rule.model for pack in packs for rule in pack.rules}
    loops = set(rank.cycles({name: (*model.explains, *model.supersedes) for name, model in models.items()}))
    causes = {name for pack in packs for name in pack.causes}
    taken: set[str] = set()
    checked = []
    for pack in packs:
        problems, rules, refused = list(pack.problems), [], list(pack.refused)
        for rule in pack.rules:
            if rule.id in taken:
                problems.append(rule.document.problem(("id",), f"there is another rule with the id {rule.id}"))
            elif rule.model.cause not in causes:
                problems.append(rule.document.problem(("cause",), f"{rule.model.cause} is in no causes.yaml"))
            elif rule.id in loops:
                key = "explains" if rule.model.explains else "supersedes"
                problems.append(rule.document.problem((key,), "explains itself, through the rules that it explains"))
            else:
                rules.append(rule)
            if rules[-1:] != [rule]:
                refused.append(rule)
            taken.add(rule.id)
        checked.append(replace(pack, rules=tuple(rules), problems=tuple(problems), refused=tuple(refused)))
    return Rulebook(tuple(checked))
