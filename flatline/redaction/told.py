"""What the README of a bundle says of redaction: what is hidden, what is kept, how to check."""

from __future__ import annotations

from collections.abc import Mapping

from .pseudonyms import KINDS

_MORE = (
    "Kept, since a diagnosis needs it: command lines, paths below the home folders, versions, hashes, run ids, UUIDs",
    "of GPUs, PCI ids, memory addresses, ports, ranks, times; names of jobs, projects, groups and buckets.",
    "Equal values have equal marks. Numbers by kind and by artefact, never a value: redaction.json.",
    "To check: flatline redact --check BUNDLE. A secret that no name, shape or place gives away is not found: look",
    "through logs and source lines before you attach this; flatline redact BUNDLE --hide TEXT hides more.",
)


def what_is_hidden(counts: Mapping[str, int]) -> list[str]:
    """Lines of plain text; `counts` is kind -> replacements."""
    secrets = {kind: number for kind, number in counts.items() if kind not in KINDS and number}
    names = {kind: number for kind, number in counts.items() if kind in KINDS and number}
    return [
        f"Secrets are replaced by marks like ⟪kind·1⟫: {_listed(secrets)}.",
        f"Names and addresses are replaced by pseudonyms like ⟪host·3⟫: {_listed(names)}.",
        *_MORE,
    ]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} x {kind}" for kind, number in sorted(counts.items())) or "none was found"
