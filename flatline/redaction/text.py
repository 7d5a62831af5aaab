"""The text pass: all detectors look at the same text, then their spans are replaced at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .assignments import find_assignments, find_escaped_names
from .blocks import find_answers, find_cells, find_defaults, find_hex_words, find_kube_secrets
from .colours import without_colours
from .over_lines import find_values_below
from .pairs import find_pairs
from .places import find_aws_secrets, find_netrc, find_schemes, find_statements, find_tool_options, find_userinfo
from .private_keys import find_private_keys
from .shapes import find_beginning_at_end, find_shapes
from .spans import Hide, Span, outside_marks, replace_spans
from .spoken import find_jwk, find_kaggle_key, find_spoken
from .unseen import view_of

DETECTORS = (
    find_answers,
    find_assignments,
    find_aws_secrets,
    find_beginning_at_end,
    find_cells,
    find_defaults,
    find_escaped_names,
    find_jwk,
    find_kaggle_key,
    find_kube_secrets,
    find_netrc,
    find_pairs,
    find_private_keys,
    find_schemes,
    find_shapes,
    find_spoken,
    find_statements,
    find_tool_options,
    find_userinfo,
    find_values_below,
)
"""Each yields spans; their order does not matter. Pseudonyms for users, hosts and addresses will be one more row."""


def hide_in_text(text: str, hide: Hide) -> str:
    """The text with every detected secret replaced by what `hide(kind, value)` returns."""
    spans: list[Span] = []
    for view in dict.fromkeys((text, without_colours(text))):
        for detect in DETECTORS:
            spans += detect(view)
    spans += _unseen_within(text)
    spans += find_hex_words(text, DETECTORS)
    return replace_spans(text, outside_marks(text, spans), hide) if spans else text


def _unseen_within(text: str) -> Iterator[Span]:
    """Secrets that have characters in their middle, or in their name's, that nobody sees."""
    view = view_of(text)
    if view is None:
        return
    for detect in DETECTORS:
        for span in detect(view.text):
            start, end = view.span(span.start, span.end)
            yield replace(span, start=start, end=end)
