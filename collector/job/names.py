"""Whose job it is and where it runs: names that are learnt before anything is written, since they stand everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

LARGEST = 4 << 20
"""Bytes that are read of a list of users or hosts."""


def host_names(hosts: Path = Path("/etc/hosts")) -> Iterator[str]:
    """What this host calls itself, and its full name where the list of hosts gives it. No name server is asked."""
    own = os.uname().nodename
    yield own
    for line in _lines(hosts):
        names = line.partition("#")[0].split()[1:]
        if own in names:
            yield from (name for name in names if name.startswith(f"{own}."))


def users(uids: Iterable[int], passwd: Path = Path("/etc/passwd")) -> Iterator[tuple[str, str]]:
    """(kind, name) of who these uids are: their login, and the person's own name. The directory is not asked."""
    wanted = {str(uid) for uid in uids}
    for line in _lines(passwd):
        login, _, rest = line.partition(":")
        fields = rest.split(":")
        if len(fields) < 5 or fields[1] not in wanted:
            continue
        yield "user", login
        person = fields[3].partition(",")[0].strip()
        if " " in person:
            yield "person", person


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
