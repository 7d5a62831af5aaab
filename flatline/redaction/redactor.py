"""The redactor: everything that is written passes through one of these."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from . import shapes, structured
from .hints import Hint
from .learnt import MOST_VALUES, Found, Learnt
from .marks import MARK as MARKS
from .marks import escape_foreign
from .outlines import Lines
from .person_keys import personal_variables, spans_of_variable
from .person_names import is_personal
from .personal import follow_names, hide_personal, pseudonym
from .pseudonyms import KINDS
from .repeats import Repeats
from .rows import redacted_row
from .sieve import Follower, Sieve, changed_pieces, put_pieces, replace_pieces
from .text import hide_in_text
from .values import is_chaseable, looks_secret
from .wishes import KIND as WISHED
from .wishes import Wishes, hide_wished

CACHED_STRINGS = 50_000
LEARNT_AT_ONCE = 64 * 1024
"""Characters, between two looks at the clock."""
LONGEST_NAMED = 4096
LONG = 16_384
"""From this length on a text is looked at through the sieve."""
PASSES = 6
"""A mark can uncover what stood behind it; text without secrets is done after the second look at most."""


class Redactor:
    """Hides secrets in text, environments, command lines and rows; the same secret gets the same mark everywhere.

    `namespace` makes the marks of a child process provisional (see `fork`). `enabled` False passes everything
    unchanged. `keep_marks` is for text that an earlier run has redacted: its marks stay, and their ordinals are not
    used again; otherwise a mark in the input is a forgery and loses its double brackets.

    Names of users and hosts, and addresses, become pseudonyms: numbered as they are met or, with `key`, chosen by it,
    so that all redactors with this key agree.

    Beyond `MOST_VALUES` a secret is hidden where it is met and no longer chased; all such share one mark of ordinal 0.
    """

    def __init__(
        self,
        *,
        namespace: str = "",
        enabled: bool = True,
        keep_marks: bool = False,
        key: bytes = b"",
        learnt: Learnt | None = None,
    ) -> None:
        self.enabled = enabled
        self._keep_marks = keep_marks
        self._learnt = learnt or Learnt(namespace, key)
        self._patterns: tuple[re.Pattern[str], ...] = ()
        self._sieve = Sieve()
        self._followed_values = Follower(lambda outlines: self._learnt.known.places(outlines))
        self._followed_names = Follower(self._places_of_names)
        self._repeats = Repeats(self._names_of, self._learnt.pseudonym, self._learnt.meant, self._learnt.count)
        self._strings: dict[str, tuple[str, Counter[str]]] = {}
        self._strings_at = 0
        """The revision that these have been redacted with."""

    @property
    def revision(self) -> int:
        """Grows whenever something becomes known that is hidden wherever it stands."""
        return self._learnt.revision

    # --- learning ---

    def learn(self, kind: str, value: str) -> str | None:
        """Replace `value` everywhere from now on, in every encoding; its mark.

        None: it is short (under 8) or common (a number, a path, a plain word), so chasing it would hurt the evidence.
        """
        value = value.strip()
        if kind in KINDS:
            return pseudonym(kind, value, self._learnt.pseudonym) if self.enabled and is_personal(kind, value) else None
        if not self.enabled or not is_chaseable(value):
            return None
        return self._learnt.register(kind, value, MOST_VALUES)

    def learn_environment(self, env: Mapping[str, str], *, is_late: Callable[[], bool] = lambda: False) -> None:
        """Learn every secret of an environment, before anything of it is written: those that their names tell first.

        Once `is_late` says so, what is left is not read any more but taken for a secret as a whole.
        """
        with self._learnt.as_one_source():
            for span in personal_variables(env) if self.enabled else ():
                pseudonym(span.kind, span.value, self._learnt.pseudonym)
            unnamed = [value for name, value in env.items() if not structured.hide_named_value(name, value, self.hide)]
            for batch in _batches(unnamed):
                self._learn_words(batch, is_late)

    def learn_argv(self, argv: Sequence[str], *, is_late: Callable[[], bool] = lambda: False) -> None:
        """Learn every secret of a command line."""
        with self._learnt.as_one_source():
            self._learn_words(argv, is_late)

    def _learn_words(self, words: Sequence[str], is_late: Callable[[], bool]) -> None:
        if not is_late():
            self.argv(words)
            return
        for word in words:
            if looks_secret(word) and is_chaseable(word):
                self._learnt.register("unread", word)

    def wish(self, wishes: Wishes) -> None:
        """Hide also what somebody wants hidden, common or not, from now on; `names.keep_names` is for what is kept."""
        if not self.enabled:
            return
        self._patterns += wishes.patterns
        self._learnt.revision += bool(wishes.patterns)
        for value in wishes.values:
            self._learnt.wish(WISHED, value)

    def prepare(self) -> None:
        """Work out once, for all children to come, how the values learnt so far may be spelt."""
        self._learnt.known.prepare()

    @property
    def has_reached_limit(self) -> bool:
        """Whether secrets were met that are hidden in their place only."""
        return self._learnt.has_reached_limit

    # --- hiding ---

    def hide(self, kind: str, value: str) -> str:
        """The mark for a secret met here; from now on it is replaced everywhere, unless it is short or common."""
        return self._learnt.hide(kind, value)

    def text(self, text: str) -> str:
        """Any text, its secrets replaced. Applying it again changes nothing."""
        if not self.enabled or not text:
            return text
        if len(text) >= LONG:
            return self._long(text)
        before, text = "", self._settle_marks(text)
        for _ in range(PASSES):
            if text == before:
                break
            before = text
            text = self._learnt.known.replace(hide_in_text(text, self.hide), self._learnt.hide_again)
        return hide_personal(self._without_beginning(text), self._learnt.names, self._learnt.hide_name)

    def _long(self, text: str) -> str:
        """The same, but what an outline has shown to hold nothing is not looked at: see `sieve`."""
        lines = Lines(self._settle_marks(text))
        for _ in range(PASSES):
            wide = [piece for piece in self._sieve.pieces(lines) if piece.hint is not Hint.LINE]
            after = self._known_in(lines.with_text(replace_pieces(lines.text, wide, self._secrets_of)))
            if after is lines:
                break
            lines = after
        lines = lines.with_text(self._without_beginning(lines.text))
        return self._names_in(lines.with_text(self._named_lines(lines))).text

    def _named_lines(self, lines: Lines) -> str:
        """The text with its names hidden; where a line stands for itself, as in others that repeat."""
        pieces = self._sieve.pieces(lines)
        wide = [piece for piece in pieces if piece.hint is not Hint.LINE]
        single = [piece for piece in pieces if piece.hint is Hint.LINE]
        after = dict(zip(wide, changed_pieces(lines.text, wide, self._names_of)))
        after.update(zip(single, changed_pieces(lines.text, single, self._names_repeated)))
        return put_pieces(lines.text, pieces, [after[piece] for piece in pieces])

    def _names_repeated(self, text: str) -> str:
        return self._repeats.hide(text, self._learnt.names)

    def settled_end(self, text: str) -> int:
        """How much of the beginning of a longer text can be redacted before the rest is known."""
        wide = [piece for piece in self._sieve.pieces(Lines(text)) if piece.hint is not Hint.LINE] if text else []
        return wide[-1].start if wide and wide[-1].end == len(text) else len(text)

    def _secrets_of(self, text: str) -> str:
        return self._learnt.known.replace(hide_in_text(text, self.hide), self._learnt.hide_again)

    def _names_of(self, text: str) -> str:
        return hide_personal(text, self._learnt.names, self._learnt.hide_name)

    def _known_in(self, lines: Lines) -> Lines:
        pieces = self._followed_values.pieces(lines, self.revision) if self._learnt.known else []
        return lines.with_text(replace_pieces(lines.text, pieces, self._known_of))

    def _names_in(self, lines: Lines) -> Lines:
        pieces = self._followed_names.pieces(lines, len(self._learnt.names.shapes)) if self._learnt.names else []
        return lines.with_text(replace_pieces(lines.text, pieces, self._followed_of))

    def _known_of(self, text: str) -> str:
        return self._learnt.known.replace(text, self._learnt.hide_again)

    def _followed_of(self, text: str) -> str:
        return follow_names(text, self._learnt.names, self._learnt.hide_name)

    def _places_of_names(self, outlines: str) -> Iterator[int]:
        return (start for start, *_ in self._learnt.names.outlined().occurrences(outlines))

    def _without_beginning(self, text: str) -> str:
        text = hide_wished(text, self._patterns, self.hide)
        cut = self._learnt.known.beginning_at_end(text)
        if cut is None or not is_chaseable(text[cut[0] :]):
            return text
        return text[: cut[0]] + self._learnt.hide_again(cut[1])

    def env_value(self, name: str, value: str) -> str:
        """The value of an environment variable, judged by its name and by what it holds."""
        if not self.enabled or not value:
            return value
        value = self._settle_marks(value)
        hidden = structured.hide_named_value(name, value, self.hide)
        return self.text(self._named(name, value)) if hidden is None else hidden

    def name(self, kind: str, value: str) -> str:
        """What is known to be the name of a user or a host."""
        return self.text(self._named("USER" if kind == "user" else "HOSTNAME", value)) if self.enabled else value

    def _named(self, name: str, value: str) -> str:
        """The value, hidden as far as its name tells that it is a user or a host."""
        if len(value) >= LONGEST_NAMED or MARKS.search(value):
            return value
        for span in reversed(spans_of_variable(name, value)):
            value = value[: span.start] + pseudonym(span.kind, span.value, self._learnt.hide_name) + value[span.end :]
        return value

    def cut_name(self, name: str) -> str:
        """The name of a thread or a process, which the kernel has cut."""
        kind = shapes.kind_of_beginning(name) if self.enabled else None
        return self.hide(kind, name) if kind else self.text(name)

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """A command line: ``--token VALUE``, ``--token=VALUE``, ``-e NAME=VALUE``, URLs, scripts."""
        if not self.enabled or not argv:
            return tuple(argv)
        return structured.hide_in_argv(argv, self.text)

    def rows(self, table: str, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """Facts rows as JSON-ready dicts, redacted; unknown and empty fields are left out."""
        return [redacted_row(row, self, self._string) for row in rows]

    def _string(self, text: str) -> str:
        """`text`, remembering what repeats: frames and paths do, by the thousand."""
        if self._strings_at != self.revision:
            self._strings_at = self.revision
            self._strings.clear()
        cached = self._strings.get(text)
        if cached is None:
            before = Counter(self._learnt.counts)
            hidden = self.text(text)
            if len(self._strings) < CACHED_STRINGS and self._strings_at == self.revision:
                self._strings[text] = (hidden, self._learnt.counts - before)
            return hidden
        if cached[1]:
            self._learnt.counts.update(cached[1])
        return cached[0]

    def _settle_marks(self, text: str) -> str:
        if self._keep_marks:
            for mark in MARKS.findall(text) if "⟪" in text else ():
                self._learnt.reserve(mark)
        return escape_foreign(text, self._learnt.issued.__contains__)

    # --- parent and children ---

    def fork(self, namespace: str) -> Redactor:
        """For a child process: knows all this one knows; what it meets anew gets marks of its own namespace."""
        learnt = self._learnt.fork(namespace)
        child = Redactor(enabled=self.enabled, keep_marks=self._keep_marks, learnt=learnt)
        child._sieve = self._sieve
        child._patterns = self._patterns
        return child

    def take_found(self) -> list[Found]:
        """What was met since the last call. Holds values: for the parent only, never to be written."""
        return self._learnt.take_found()

    def adopt(self, found: Sequence[Found]) -> dict[str, str]:
        """Learn what a child met; its provisional marks -> the final ones."""
        return self._learnt.adopt(found)

    def rewrite(self, text: str) -> str | None:
        """Already redacted text with all that is known by now; None when nothing changed."""
        if not self.enabled:
            return None
        if len(text) < LONG:
            rewritten = self._followed_of(self._known_of(text))
        else:
            rewritten = self._names_in(self._known_in(Lines(text))).text
        return None if rewritten == text else rewritten

    # --- the report ---

    @property
    def translations(self) -> Mapping[str, str]:
        """Pseudonym -> the name or address; for the owner of the bundle, never to be written into it."""
        return MappingProxyType(self._learnt.meant)

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind -> replacements made."""
        return MappingProxyType(self._learnt.counts)

    def take_counts(self) -> list[dict[str, int]]:
        """What was counted since the last call, for the parent's `add_counts`."""
        return self._learnt.take_counts()

    def add_counts(self, counts: Mapping[str, int], in_place: Mapping[str, int] = MappingProxyType({})) -> None:
        """A child's counts."""
        self._learnt.add_counts(counts, in_place)

    def report(self) -> dict[str, Any]:
        """The body of redaction.json: never a value, a hash or a length."""
        return {"sensitivity": "redacted" if self.enabled else "UNREDACTED", **self._learnt.numbers()}


def _batches(values: Sequence[str]) -> Iterator[list[str]]:
    batch, size = [], 0
    for value in values:
        batch.append(value)
        size += len(value)
        if size >= LEARNT_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
