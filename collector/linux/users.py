"""User names without the name service, which may ask a directory server that no longer answers."""

from __future__ import annotations

_MAX_BYTES = 1024 * 1024


def user_names(passwd: str = "/etc/passwd") -> dict[int, str]:
    """uid -> name, of the local users; empty when the file cannot be read."""
    try:
        with open(passwd, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_BYTES).splitlines()
    except OSError:
        return {}
    fields = [line.split(":") for line in lines]
    return {int(f[2]): f[0] for f in reversed(fields) if len(f) > 3 and f[2].isdecimal()}
