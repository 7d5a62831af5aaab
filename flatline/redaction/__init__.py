"""What hides secrets before anything reaches the disk."""

from __future__ import annotations

from .redactor import Found, Redactor

__all__ = ["Found", "Redactor", "redact_text"]


def redact_text(text: str) -> str:
    """One text on its own, its secrets replaced by marks; marks of an earlier redaction stay."""
    return Redactor(keep_marks=True).text(text)
