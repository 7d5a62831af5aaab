"""What the job knows that must not be written: learnt in a disposable child, before anything of the job is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flatline.redaction import Redactor

from ..linux.patience import Patience
from ..linux.procfs import ProcFS, Unread, parse_environ
from ..probes.interface import Doing, Gap, Item, Result, Secret, View
from .names import host_names, users
from .targets import LOCKED

_SENDING_S = 0.5
"""Kept back to send what was found."""


@dataclass(frozen=True)
class LearnProbe:
    """Reads the environment of every process of the tree, and learns the secrets in all of them and in the arguments,
    and the names of the job's users and of this host.

    Yields `Result({pid: {name: value}})` for each process whose environment could be read, at once: one that blocks
    loses only itself. An overwritten environment has no row, an empty one has {}. Then a `Secret` for each one found.
    """

    name = "learn"
    tables = ("env",)
    limit_s = 4.0
    spans_window = False

    def gather(self, view: View) -> Iterator[Item]:
        proc, patience = ProcFS(view.proc), Patience()
        environments: list[Mapping[str, str]] = [dict(os.environ)]
        for target in view.targets:
            yield Doing(f"environ of pid {target.pid}")
            raw = patience.read(lambda pid=target.pid: proc.environ(pid))
            if isinstance(raw, Unread):
                continue
            variables, state = parse_environ(raw)
            if variables or state == "empty":
                yield Result({target.pid: variables})
                environments.append(variables)
        if patience.lost:
            yield Gap("partial", f"{patience.lost} environments did not answer: {LOCKED}", tables=("env",))
        yield Doing("secrets")
        yield from _secrets(view, environments)


def _secrets(view: View, environments: list[Mapping[str, str]]) -> Iterator[Item]:
    """The ranks of one job share most of their variables and words: each is looked at once."""
    redactor = Redactor()
    late = False

    def is_late() -> bool:
        nonlocal late
        late = late or (view.deadline_ns > 0 and view.left_s() < _SENDING_S)
        return late

    for name in host_names():
        redactor.learn("host", name)
    for kind, name in users({os.getuid(), *(target.uid for target in view.targets)}):
        redactor.learn(kind, name)
    yield from _found(redactor)
    seen: set[object] = set()
    for environment in environments:
        redactor.learn_environment(_unseen(environment, seen), is_late=is_late)
        yield from _found(redactor)
    for target in view.targets:
        if target.argv not in seen:
            seen.add(target.argv)
            redactor.learn_argv(target.argv, is_late=is_late)
            yield from _found(redactor)
    if late:
        yield Gap("partial", "no time was left to look for secrets in all variables: long values are hidden whole")
    if redactor.has_reached_limit:
        yield Gap("partial", "there are more secrets than can be followed: the others are hidden in their place only")


def _unseen(environment: Mapping[str, str], seen: set[object]) -> dict[str, str]:
    new = {name: value for name, value in environment.items() if (name, value) not in seen}
    seen.update(new.items())
    return new


def _found(redactor: Redactor) -> Iterator[Secret]:
    for one in redactor.take_found():
        yield Secret(one.kind, one.value)
