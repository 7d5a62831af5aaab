"""The owner's own file that tells what each pseudonym stands for. It stays with the owner: never part of a bundle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ..errors import UsageError


def write_map(path: str, translations: Mapping[str, str]) -> None:
    """Pseudonym -> name as JSON, for the owner's eyes only. OSError when it is there already, or cannot be made."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(dict(sorted(translations.items())), file, ensure_ascii=False, indent=1)
        file.write("\n")


def already_there(path: str) -> UsageError:
    """Why it is not written."""
    return UsageError(
        f"--keep-map: {path} is there already",
        why=("it may be the only key to another bundle",),
        next_step="--keep-map another-name.json",
    )
