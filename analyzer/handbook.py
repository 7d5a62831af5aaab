"""Pages made from the rules and the facts themselves: ``docs/rules/``, ``docs/coverage.md``, ``docs/facts.md``.

``python -m flatline.analyzer.handbook .`` writes them below a checkout; a test holds the written ones against this. One
page per family, not per rule: look-alikes are told apart best when they stand beside each other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from flatline.bundle import facts

from .judge.compiling import Weighed
from .judge.describe import branches, head
from .judge.fields import LOG_FIELDS, LOG_TABLE, VIRTUAL
from .judge.pack import LoadedRule, Rulebook, load_rulebook
from .judge.phrases import PHRASES
from .judge.reach import tables_of
from .schemas import described

MADE = "<!-- Made by `make docs` from the code; edits here are lost. -->\n"
SEEN_IN = "tests/end_to_end"
"""Tests in which whole programs or whole reports go through the analyzer."""


def pages(root: Path) -> dict[str, str]:
    """Path below the checkout -> text."""
    book = load_rulebook()
    rules = sorted(book.rules, key=lambda rule: (rule.family, rule.model.cause, rule.id))
    made = {
        f"docs/rules/{family}.md": _family(family, list(its), book)
        for family, its in groupby(rules, key=lambda rule: rule.family)
    }
    return {**made, "docs/coverage.md": _coverage(rules, book, root), "docs/facts.md": _facts()}


# --- a page of rules ---


def _family(family: str, rules: Sequence[LoadedRule], book: Rulebook) -> str:
    lines = [MADE, f"# Rules: {family}", ""]
    lines += [f"- [{rule.id}](#{rule.id}): {book.causes[rule.model.cause].title}" for rule in rules]
    for rule in rules:
        lines += ["", *_rule(rule)]
    return "\n".join(lines) + "\n"


def _rule(rule: LoadedRule) -> Iterator[str]:
    model = rule.model
    yield f"## {rule.id}"
    yield ""
    variant = f", variant `{model.variant}`" if model.variant else ""
    yield f'Cause `{model.cause}`{variant}; {model.status}, version {model.version}. "{_plain(model.title)}"'
    yield ""
    yield _plain(model.why)
    for name in ("requires", "supports", "contradicts"):
        yield from _part(name, getattr(rule, name))
    for name, ids in (("Explains", model.explains), ("Supersedes", model.supersedes), ("Excludes", model.excludes)):
        if ids:
            yield f"\n{name}: {', '.join(f'`{one}`' for one in ids)}."
    yield "\nWhat to do:\n"
    yield from (f"- {_plain(text)}" for text in model.fix)
    yield "\nTo confirm:\n"
    yield from (f"- {_plain(text)}" for text in model.confirm)
    yield f"\nThe process: {_plain(model.action)}"
    yield f"\nNot this when: {_plain(model.not_this_when)}"
    if model.refs:
        yield "\nRead on: " + ", ".join(f"<{ref}>" if "://" in ref else _plain(ref) for ref in model.refs)


def _part(name: str, parts: Sequence[Weighed]) -> Iterator[str]:
    if not parts:
        return
    yield f"\n{name.capitalize()}:\n"
    for weighed in parts:
        weight = f" ({weighed.weight}, {weighed.group})" if weighed.weight else ""
        yield f"- {_code(head(weighed.model))}{weight}"
        yield from _below(weighed.model, "  ")


def _below(model: Any, indent: str) -> Iterator[str]:
    for branch in branches(model):
        yield f"{indent}- {_code(head(branch))}"
        yield from _below(branch, indent + "  ")


def _plain(text: str) -> str:
    """A text of a rule on one line; nothing in it is markup."""
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)


def _code(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    return f"{ticks}{' '.join(text.split())}{ticks}"


# --- coverage ---


def _coverage(rules: Sequence[LoadedRule], book: Rulebook, root: Path) -> str:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / SEEN_IN).glob("*.py")))
    rows = [_covered(rule, tests) for rule in rules]
    without = sorted(set(book.causes) - {rule.model.cause for rule in rules})
    seen = sum("its own cases only" not in row for row in rows)
    return "\n".join(
        [
            MADE,
            "# What the rules cover",
            "",
            f"{len(rules)} rules for {len(book.causes) - len(without)} of {len(book.causes)} causes; {seen} were seen",
            "to fire outside their own cases: in a test of a whole program or report, or in labelled reports.",
            f"Causes that are verdicts first, and have no rule: {', '.join(without) or 'none'}.",
            "",
            "| cause | variant | rule | status | kinds of evidence | seen to fire |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            *_finer(book),
        ]
    )


def _finer(book: Rulebook) -> list[str]:
    """The variants of the causes: the rule that tells each, or why none can."""
    families = {rule.id: rule.family for rule in book.rules}
    told = [(cause.id, variant, by) for cause in book.causes.values() for variant, by in cause.variants.items()]
    rows = [
        f"| {cause} | {variant} | {f'[{by}](rules/{families[by]}.md#{by})' if by in families else _plain(by)} |"
        for cause, variant, by in told
    ]
    return [
        "## Finer situations",
        "",
        f"{sum(by in families for _, _, by in told)} of {len(told)} are told by a rule; of the others, why the rule of",
        "their cause, or of another one, is as far as a bundle goes.",
        "",
        "| cause | situation | told by, or why not |",
        "|---|---|---|",
        *rows,
        "",
    ]


def _covered(rule: LoadedRule, tests: str) -> str:
    model = rule.model
    seen = []
    if re.search(rf"[\"'\s]{re.escape(rule.id)}[\"'\s]", tests):
        seen.append("whole cases in tests")
    if rule.measured is not None and rule.measured.named:
        seen.append(f"{rule.measured.named} labelled reports (right in {rule.measured.right})")
    kinds = sorted({table for part in (rule.requires, rule.supports) for w in part for table in tables_of(w.model)})
    link = f"[{rule.id}](rules/{rule.family}.md#{rule.id})"
    found = "; ".join(seen) or "its own cases only"
    return f"| {model.cause} | {model.variant or ''} | {link} | {model.status} | {', '.join(kinds)} | {found} |"


# --- facts ---


def _facts() -> str:
    adapters = [(name, "validation", TypeAdapter(kind)) for name, kind in sorted(facts.TABLES.items())]
    by_name, whole = TypeAdapter.json_schemas(adapters)  # type: ignore[arg-type]
    definitions = described(whole["$defs"], facts)
    lines = [MADE, "# The facts that rules ask", ""]
    lines += [
        "Every row may also have `artefact`, `line` and `pointer`: where it was read. A field that ends in `_s` is a"
    ]
    lines += ['number of seconds; a text shows it with its unit: `{t.period_s}` is "2 s", "5 min", "3 days".']
    lines += [
        "",
        f"## {LOG_TABLE}",
        "",
        "A line that `find: log` has found. It has the named groups of its pattern (digits are a",
    ]
    lines += ["number), the fields of its log ([logs](#logs)), and:", "", "| field | |", "|---|---|"]
    lines += [f"| `{field}` | {meaning} |" for field, meaning in LOG_FIELDS.items()]
    for name, _, _ in adapters:
        kind = by_name[name, "validation"]["$ref"].rpartition("/")[2]  # type: ignore[index]
        lines += ["", f"## {name}", "", _described(definitions[kind].get("description", "")), ""]
        lines += ["| field | type | |", "|---|---|---|", *_fields(name, definitions[kind]["properties"])]
    return "\n".join(lines) + "\n"


def _fields(table: str, properties: dict[str, Any]) -> Iterable[str]:
    for field, schema in properties.items():
        if field not in ("artefact", "line", "pointer"):
            yield f"| `{field}` | {_type(schema)} | {_described(schema.get('description', ''))} |"
    for field in VIRTUAL.get(table, {}):
        yield f"| `{field}` | | worked out from the others |"
    for field, phrase in PHRASES.get(table, {}).items():
        yield f"| `{field}` | | in texts only: {_described(phrase.__doc__ or '')} |"


def _described(text: str) -> str:
    """A docstring as Markdown: what it has in backticks, single or double, is code."""
    parts = re.split(r"(``.+?``|`[^`]+`)", " ".join(text.split()))
    code = [f"`{part.strip('`')}`".replace("|", "\\|") for part in parts[1::2]]
    return "".join(prose + quoted for prose, quoted in zip(map(_escaped, parts[::2]), [*code, ""], strict=True))


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def main(root: str) -> None:
    """Write every page below a checkout; pages of families that are no more are removed."""
    made = pages(Path(root))
    (Path(root) / "docs" / "rules").mkdir(exist_ok=True)
    for path in (Path(root) / "docs" / "rules").glob("*.md"):
        if f"docs/rules/{path.name}" not in made:
            path.unlink()
    for name, text in made.items():
        (Path(root) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
