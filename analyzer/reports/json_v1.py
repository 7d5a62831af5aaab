"""The machine-readable result, as `flatline.analyzer.findings.Report` publishes it."""

from __future__ import annotations

import re

from .view import View

_STEERING = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""What a terminal or a viewer obeys instead of showing it; in JSON it stands in strings only."""


def render(view: View, **_: object) -> str:
    """JSON, two spaces deep, ending in a newline; quoted text can steer no terminal that it is printed on."""
    text = view.report.model_dump_json(by_alias=True, indent=2)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"
