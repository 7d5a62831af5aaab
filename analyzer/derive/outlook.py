"""How a wait for the world outside goes on: as designed, or on what nobody here can know. Said in words for a user."""

from __future__ import annotations

from dataclasses import dataclass

from flatline.bundle.facts import Thread, WaitEdge

from .chains import Path


@dataclass(frozen=True)
class Outlook:
    """Whether a program waits like this when all is well (None: that cannot be known), and what would end it."""

    by_design: bool | None
    text: str


UNKNOWABLE = "whether that happens cannot be known from here"
_UNREAD = f"it goes on when the one that sleeps wakes up and reads what was written for it; {UNKNOWABLE}"
_RESTS = {
    "signal": "it waits for a signal that tells it to go on or to end, as a service at rest does: this is by design",
    "socket-accept": "it serves, and no client has come: this is by design",
    "poll": "it serves, and no request has come: this is by design",
    "worker": "it is an idle worker that waits for its next task: this is by design",
}
"""Waits of programs that have nothing to do."""
_GOES_ON = {
    "stdin-read": "it goes on when it is given input",
    "terminal-read": "it goes on when somebody types an answer",
    "terminal-write": "it goes on when the terminal takes output again",
    "socket-connect": "it goes on when {what} takes its connection, or the kernel gives up after some minutes",
    "socket-write": "it goes on when {what} reads",
    "pipe-write": "it goes on when {what} is read",
    "pipe-read": "it goes on when something is written into {what}",
    "file-lock": "it goes on when the lock on {what} is given back",
    "lock-file": "it goes on when the lock file {what} is removed",
    "fifo-open": "it goes on when somebody opens the other end of {what}",
    "child": "it goes on when that process ends",
    "collective": "it goes on when the missing ranks join",
    "traced": "it goes on when its debugger lets it go",
}
_WHAT = {"socket-connect": "the peer", "socket-write": "the peer", "pipe-write": "its pipe", "pipe-read": "its pipe",
         "file-lock": "the file", "lock-file": "", "fifo-open": "the FIFO"}  # fmt: skip


def outlook_of(path: Path) -> Outlook:
    """Of a chain that ends outside the job."""
    edge = path.last_edge
    if edge is None:
        return Outlook(None, f"what it waits for does not show, so {UNKNOWABLE}")
    thread = next((step.thread for step in reversed(path.steps) if step.thread is not None), path.root)
    if any(before.kind in ("collective", "rendezvous") for before in path.edges[:-1]):
        return Outlook(None, f"ranks wait for one that does something else: {_GOES_ON['collective']}; {UNKNOWABLE}")
    if edge.kind == "timer":
        unread = any(before.kind in ("pipe-write", "socket-write") for before in path.edges[:-1])
        return Outlook(None, _UNREAD) if unread else _sleep(thread)
    if edge.kind in _RESTS:
        return Outlook(True, _RESTS[edge.kind])
    if edge.kind == "socket-read":
        return _answer(thread, edge)
    goes_on = _GOES_ON.get(edge.kind, "it goes on when {what} lets it")
    what = edge.resource or _WHAT.get(edge.kind, "what it waits for")
    return Outlook(None, f"{goes_on.format(what=what)}; {UNKNOWABLE}")


def _sleep(thread: Thread) -> Outlook:
    if not thread.period_s:
        return Outlook(True, "it sleeps for a set time and goes on by itself: this is by design")
    again = f"it sleeps and looks again, about every {thread.period_s:.2g} s, as schedulers and monitors do"
    return Outlook(True, f"{again}: this is by design, and what it looks for shows in its code only")


def _answer(thread: Thread, edge: WaitEdge) -> Outlook:
    call, peer = thread.syscall, edge.resource or "its peer"
    if call is not None and call.timed:
        return Outlook(None, f"it goes on when {peer} answers or its timeout ends; {UNKNOWABLE}")
    without = " without a timeout" if call is not None and call.timed is False else ""
    return Outlook(None, f"it waits{without} for {peer} to answer; {UNKNOWABLE}")
