"""README.txt of a bundle: what this is, for whoever finds it attached to a ticket."""

from __future__ import annotations

from collections.abc import Mapping

from flatline.bundle.format import LedgerEntry, Manifest
from flatline.redaction.told import what_is_hidden


def readme(manifest: Manifest, hidden: Mapping[str, int]) -> str:
    """Plain text, in the order a reader asks: what, how complete, what was hidden, how to open it."""
    parts = (_what(manifest), _hidden(manifest, hidden), _ledger(manifest.ledger), _how())
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _what(manifest: Manifest) -> list[str]:
    targets = ", ".join(f"pid {t.pid} ({t.role})" for t in manifest.targets) or "no process"
    lines = [
        "This is a flatline bundle: what a running job looked like from outside.",
        f"Taken {manifest.created_at} by flatline {manifest.tool_version} from {targets}.",
    ]
    if not manifest.complete:
        lines.append("It is NOT complete: it was published while collecting went on.")
    elif manifest.ended_by != "finished":
        lines.append(f"Collecting was ended early by: {manifest.ended_by}. What had been gathered until then is here.")
    return lines


def _hidden(manifest: Manifest, hidden: Mapping[str, int]) -> list[str]:
    if manifest.sensitivity == "UNREDACTED":
        return ["NOTHING WAS HIDDEN. Do not attach this file to a public ticket."]
    lines = what_is_hidden(hidden)
    if manifest.redaction == "first pass only":
        lines.append("FIRST PASS ONLY: what was learnt late may stand in what was written early.")
        lines.append("`flatline redact BUNDLE` finishes it.")
    return lines


def _ledger(ledger: tuple[LedgerEntry, ...]) -> list[str]:
    lines = ["What each probe did:"]
    for entry in ledger:
        lines.append(f"  {entry.probe:16} {entry.status:8} {entry.seconds:6.1f} s  {entry.message}".rstrip())
        if entry.hint:
            lines.append(f"  {'':16} to get it: {entry.hint}")
    return lines


def _how() -> list[str]:
    return [
        "To open it: any unzip, or",
        "  flatline analyze BUNDLE            the likely cause, with its evidence",
        "  flatline show BUNDLE [MEMBER]      what is inside",
        "  flatline redact BUNDLE --hide TEXT make a bundle of it that hides more",
        "  flatline redact --check BUNDLE     look whether anything is left that should not be here",
    ]
