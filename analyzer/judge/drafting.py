"""A new rule and its test file, drafted: in order but for what is marked TODO (`pack.MARK`), which `lint` lists."""

from __future__ import annotations

import re
from pathlib import Path

from flatline.errors import RuleError

from .language import ENGINE
from .pack import CAUSES_FILE, PACK_FILE, TEST_SUFFIX, Cause, Rulebook

_RULE = """\
# TODO: read docs/rules.md, fill in every TODO, then: flatline rules lint && flatline rules test {id}
id: {id}
version: 1
status: experimental
cause: {cause}
title: "TODO: one line that names who waits for what ({{line.path|the log}} says so)"
why: "TODO: what happens, in two or three sentences a user understands. ({title})"
requires: # TODO: all of these must hold
  - {{weight: medium, group: told, find: log, as: line, where: {{pattern: told}}}}
supports: # TODO: a second fact, from elsewhere than the first: one kind of evidence alone is "possible" at most
  - {{weight: medium, group: state, find: threads, where: {{liveness: frozen}}}}
patterns:
  told: 'TODO a text that every such log has'
fix: ["TODO: what to change, the most likely remedy first"]
confirm: ["TODO: a command that proves or refutes it"]
action: "TODO: is it safe to kill? Does it recover by itself? Is data at risk?"
not_this_when: "TODO: the nearest look-alike, and how to tell it apart"
refs: ["TODO: https://…"]
zh: {{title: "TODO", why: "TODO", action: "TODO", not_this_when: "TODO", fix: ["TODO"]}}
"""
_TESTS = """\
- name: "the log says it, and nothing moves"
  kind: fires
  facts:
    threads: [{{pid: 11, tid: 11, liveness: frozen}}]
    logs: [{{stream: stdout, content: "TODO a text that every such log has\\n"}}]
- name: "a log that says nothing of it"
  kind: silent
  facts:
    logs: [{{stream: stdout, content: "epoch 1\\n"}}]
- name: "the nearest look-alike"
  kind: sibling
  facts:
    logs: [{{stream: stdout, content: "a line that is easily taken for it\\n"}}]
"""


def draft(rule_id: str, cause_id: str, folder: Path, book: Rulebook) -> tuple[Path, Path]:
    """Write the files of a new rule below a pack's folder, which is made if need be; returns them.

    Raises RuleError for an id that is none or is taken, a cause nobody knows, a file that is there, a folder that
    cannot be written.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule_id):
        raise RuleError(
            f"{rule_id!r} is no id: small letters and digits, with a hyphen between", next_step="a-new-rule"
        )
    if rule_id in {rule.id for rule in (*book.rules, *book.drafts, *book.refused)}:
        raise RuleError(f"there is a rule {rule_id!r} already", next_step=f"flatline rules show {rule_id}")
    cause = _cause(cause_id, book)
    rule = folder / cause.family / f"{rule_id}.yaml"
    tests = rule.with_name(rule_id + TEST_SUFFIX)
    title = cause.title.replace("{", "(").replace("}", ")").replace('"', "'").replace("\\", "/")
    try:
        rule.parent.mkdir(parents=True, exist_ok=True)
        if not (folder / PACK_FILE).exists():
            _create(folder / PACK_FILE, f'name: {_pack_name(folder)}\nversion: "1"\nengine: {ENGINE}\n')
        _create(rule, _RULE.format(id=rule_id, cause=cause_id, title=title))
        _create(tests, _TESTS.format())
    except OSError as error:
        raise RuleError(f"{error.filename or rule} cannot be written: {error.strerror}") from None
    return rule, tests


def _cause(cause_id: str, book: Rulebook) -> Cause:
    if cause_id not in book.causes:
        faults = tuple(str(fault) for fault in book.problems if fault.file.endswith(CAUSES_FILE))
        if faults:
            raise RuleError(f"{cause_id!r} is in no causes.yaml that is in order", listing=faults[:10])
        near = [name for name in sorted(book.causes) if set(name.split("-")) & set(cause_id.split("-"))]
        raise RuleError(
            f"{cause_id!r} is in no causes.yaml", listing=tuple(near[:10]),
            next_step="flatline rules list, or an entry in your pack's causes.yaml, with its id, family and title",
        )  # fmt: skip
    return book.causes[cause_id]


def _pack_name(folder: Path) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    return "own" if name in ("", "rules") else name


def _create(path: Path, text: str) -> None:
    """What is there is not written over. OSError when it is."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
