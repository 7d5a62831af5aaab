"""``quota`` (-s, -v), ``lfs quota``: what one user may store; a long name stands in a line of its own.

Disk quotas for user ann (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      /dev/sda1   90000*  80000  100000   6days      12       0       0
"""

from __future__ import annotations

import re

from flatline.bundle.facts import Quota

from .interface import Lines, Parsed, Parser

_HEAD = re.compile(r"Disk quotas for (?:usr|user) \S{1,64} \(uid (?P<uid>\d{1,10})\):(?P<none> none)?")
_COLUMNS = re.compile(r"Filesystem\s+(?:blocks|space|kbytes|used)\s+quota\s+limit\s+grace")
_AMOUNT = r"\[?\d{1,18}(?:\.\d{1,3})?[KMGTPkmgtp]?\]?\*?"
_ROW = re.compile(
    rf"(?P<path>\S{{1,400}})\s+(?P<used>{_AMOUNT})\s+(?P<soft>{_AMOUNT})\s+(?P<hard>{_AMOUNT})"
    rf"(?:\s+(?:-|none|expired|\d{{1,4}}(?:days?|[wdhms]\S{{0,12}}|:\d\d)))?"
    rf"(?:\s+(?P<files>{_AMOUNT})\s+(?P<files_soft>{_AMOUNT})\s+(?P<files_hard>{_AMOUNT}))?(?:\s.{{0,40}})?$"
)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}


def parse(lines: Lines, start: int) -> Parsed | None:
    """The head, the columns, a row for each file system."""
    head = _HEAD.match(lines[start].bare)
    if head is None:
        return None
    rows: list[Quota] = []
    end, alone = start + 1, ""
    for index in range(start + 1, len(lines)):
        bare = lines[index].bare
        found = _ROW.match(f"{alone} {bare}" if alone else bare)
        if found is not None:
            rows.append(_quota(found, int(head["uid"]), lines[index].number))
            alone, end = "", index + 1
        elif _COLUMNS.match(bare):
            end = index + 1
        elif not bare or alone or re.search(r"\s", bare):
            break
        else:
            alone = bare
    if not rows and not head["none"]:
        return None
    return Parsed(end, tuple(rows), about=f"{len(rows)} quotas")


def _quota(found: re.Match[str], uid: int, number: int) -> Quota:
    used, soft, hard = (_amount(found[name], 1024) for name in ("used", "soft", "hard"))
    files, files_soft, files_hard = (_amount(found[name], 1) for name in ("files", "files_soft", "files_hard"))
    return Quota(
        uid, found["path"], used, soft or None, hard or None, files, files_soft or None, files_hard or None, line=number
    )  # fmt: skip


def _amount(text: str | None, unit: int) -> int | None:
    """In bytes, or in files."""
    if text is None:
        return None
    bare = text.strip("[]*")
    letter = bare[-1].lower() if bare[-1].isalpha() else ""
    return int(float(bare.rstrip("KMGTPkmgtp")) * (_UNITS[letter] if letter else unit))


PARSERS = (Parser("quota", _HEAD, parse),)
