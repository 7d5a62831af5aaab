"""pstree -p, with -a, -t or -l, in letters (-A) or lines (-U): who started whom, and which threads a process has.

bash(12)-+-python(34)-+-python(35)
         |            `-{python}(36)
         `-sleep(37)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from flatline.bundle.facts import Process, Thread, process_id, thread_id
from flatline.texts.command_lines import rank_flags, role_of

from .interface import HOST, LOOKAHEAD, Line, Lines, Parsed, Parser

_NODE = re.compile(
    r"(?P<name>\{[^{}()]{1,64}\}|[^\s(){}|`+└├│┬─][^(){}`└├│┬]{0,63}?)\((?P<pid>\d{1,10})(?:,[^()\s]{1,64})?\)"
)
_ARGUED = re.compile(r"(?P<name>\{?[^\s,(){}]{1,64}\}?),(?P<pid>\d{1,10})(?:\s(?P<rest>.{0,4000}))?$")
_JOINTS = re.compile(r"(?:---|-\+-|─{3}|─┬─)")
_ART = re.compile(r"[\s|│]*[|`├└]?[-─]*")
_BEGINS = re.compile(
    r"[\s|`│├└─-]{0,400}[^\s(){}]{1,64}\(\d{1,10}\)(?:---|-\+-|─{3}|─┬─)|[\w./:-]{1,64},\d{1,10}(?:$|\s)"
)


@dataclass
class _Tree:
    rows: dict[int, Process] = field(default_factory=dict)
    threads: list[Any] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)
    """Where children hang: (column of the joint, pid), the innermost last."""
    joints: int = 0
    end: int = 0

    def hang(self, column: int) -> int | None:
        """The process whose children stand at that column."""
        while self.open and self.open[-1][0] > column:
            self.open.pop()
        return self.open[-1][1] if self.open else None

    def add(self, name: str, pid: int, parent: int | None, line: Line, rest: str = "") -> None:
        if name.startswith("{"):
            if parent is not None:
                self.threads.append(Thread(thread_id(parent, pid, HOST), process_id(parent, HOST), parent, pid,
                                           name=name[1:-1], line=line.number))  # fmt: skip
            return
        words = (name, *rest.split()) if rest else ()
        self.rows.setdefault(pid, Process(
            process_id(pid, HOST), HOST, pid, ppid=parent, name=name[:64], argv=words or None,
            role=role_of(words, name) or "unknown", rank=rank_flags(words).get("rank"),
            is_python=True if name.startswith("python") else None, line=line.number,
        ))  # fmt: skip


def parse(lines: Lines, start: int) -> Parsed | None:
    """A tree of at least two; what stands alone may be anything."""
    tree = _Tree(end=start)
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.bare:
            break
        if not (_take_nodes(tree, line) or _take_argued(tree, line)):
            break
        tree.end = index + 1
        if index - start > LOOKAHEAD and not tree.joints:
            break
    if not tree.joints or len(tree.rows) + len(tree.threads) < 2:
        return None
    rows = (*tree.rows.values(), *tree.threads)
    return Parsed(tree.end, rows, about=f"{len(tree.rows)} processes, {len(tree.threads)} threads")


def _take_nodes(tree: _Tree, line: Line) -> bool:
    """One line of ``pstree -p``: a chain of processes, each the parent of the next."""
    text = line.text.rstrip()
    begin = _ART.match(text)
    at = begin.end() if begin else 0
    parent = tree.hang(at)
    first = True
    while found := _NODE.match(text, at):
        pid = int(found["pid"])
        tree.add(found["name"], pid, parent, line)
        joint = _JOINTS.match(text, found.end())
        first = False
        if joint is None:
            return found.end() == len(text)
        tree.joints += 1
        if not found["name"].startswith("{"):
            parent = pid
            tree.open.append((joint.end() - 1, pid))
        at = joint.end()
    return not first and text[at:].strip("+.… ") == ""  # the terminal's width cut it


def _take_argued(tree: _Tree, line: Line) -> bool:
    """One line of ``pstree -pa``: a process with its arguments, below its parent."""
    text = line.text.rstrip()
    begin = _ART.match(text)
    at = begin.end() if begin else 0
    found = _ARGUED.match(text, at)
    if found is None:
        return False
    if at == 0 and tree.rows:
        return False  # another tree
    tree.joints += at > 0
    tree.add(found["name"], int(found["pid"]), tree.hang(at), line, found["rest"] or "")
    if not found["name"].startswith("{"):
        tree.open.append((at + 1, int(found["pid"])))
    return True


PARSERS = (Parser("pstree", _BEGINS, parse),)
