"""``python -m asyncio pstree PID``: which coroutine of a program waits for which.

    └── (T) Task-1
        └──  main /job/serve.py:13
            └──  TaskGroup.__aexit__ /usr/lib/python3.14/asyncio/taskgroups.py:72
                └── (T) fetch
                    └──  read_all /job/serve.py:31

Every task that waits for no other one is where its program waits. Such a stack is one of the event loop's thread; the
text names neither the thread nor the process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flatline.texts.stack_lines import RawFrame

from .frames import place_of
from .interface import LOOKAHEAD, Line, Lines, Parsed, Parser
from .stacks import Stacks

MOST_LEAVES, MOST_DEEP = 200, 100
"""A program may have thousands of tasks that wait alike."""
_BRANCH = re.compile(r"(?P<indent>[\s│|]*)[├└]──\s+(?P<what>\S.{0,4500})$")
_BEGINS = re.compile(r"[├└]──\s+(?:\(T\) \S|\S{1,400} \S{1,4096}:\d{1,9}$)")
_TASK = re.compile(r"\(T\) (?P<name>.{1,300})$")
_CALL = re.compile(r"(?P<function>\S{1,400}) (?P<place>\S.{0,4095}:\d{1,9})$")


@dataclass(frozen=True)
class _Node:
    """One line of the tree."""

    depth: int
    line: Line
    frame: RawFrame | None
    """None: a task."""


def parse(lines: Lines, start: int) -> Parsed | None:
    """One tree, or several of one program."""
    nodes: list[_Node] = []
    end = start
    for index in range(start, len(lines)):
        if not lines[index].bare:
            continue
        node = _node(lines[index])
        if node is None:
            break
        nodes.append(node)
        end = index + 1
        if len(nodes) == LOOKAHEAD and all(node.frame is None for node in nodes):
            return None
    tasks = sum(node.frame is None for node in nodes)
    if not tasks or tasks == len(nodes):
        return None
    stacks = Stacks()
    process = stacks.process(lines[start])
    for leaf, path in _leaves(nodes):
        thread = process.thread(leaf.line, name=f"task {_name(path)}", is_main=not process.threads)
        for node in reversed(path):
            if node.frame is not None:
                thread.add(node.frame, node.line.number)
    return Parsed(end, stacks.rows(), about=f"{tasks} task{'s' if tasks != 1 else ''}")


def _node(line: Line) -> _Node | None:
    found = _BRANCH.match(line.text)
    if found is None:
        return None
    depth = len(found["indent"])
    if _TASK.match(found["what"]):
        return _Node(depth, line, None)
    call = _CALL.match(found["what"])
    if call is None:
        return None
    file, number = place_of(call["place"])
    return _Node(depth, line, RawFrame(call["function"], file, number))


def _leaves(nodes: list[_Node]) -> list[tuple[_Node, list[_Node]]]:
    """Every node below which there is none, with the way to it from the root."""
    found: list[tuple[_Node, list[_Node]]] = []
    path: list[_Node] = []
    for index, node in enumerate(nodes):
        while path and path[-1].depth >= node.depth:
            path.pop()
        path.append(node)
        is_leaf = index + 1 == len(nodes) or nodes[index + 1].depth <= node.depth
        if is_leaf and node.frame is not None and len(found) < MOST_LEAVES:
            found.append((node, path[-MOST_DEEP:]))
    return found


def _name(path: list[_Node]) -> str:
    tasks = [node for node in path if node.frame is None]
    found = _TASK.search(tasks[-1].line.bare) if tasks else None
    return found["name"] if found else "?"


PARSERS = (Parser("asyncio-tree", _BEGINS, parse),)
