"""What a poll waits for, where a trace tells what its descriptors are."""

from __future__ import annotations

import pytest
from flatline.analyzer.derive import derive
from flatline.analyzer.intake.assemble import case_of_texts
from flatline.analyzer.intake.sieve import Kept
from flatline.analyzer.intake.sources import Source

from flatline.bundle.facts import WaitEdge

EPOLL = (
    "epoll_create1(EPOLL_CLOEXEC) = 4\nsocket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 7\n"
    'connect(7, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("192.0.2.58")}, 16) = -1 EINPROGRESS (x)\n'
    "epoll_ctl(4, EPOLL_CTL_ADD, 7, {events=EPOLLOUT, data={u32=7, u64=7}}) = 0\nepoll_wait(4, "
)


def edges_of(text: str) -> list[WaitEdge]:
    case = case_of_texts([Source("t.txt", Kept(tuple(text.split("\n")), size=len(text)))], "t")
    derive(case)
    return case.store.rows("wait_edges")


@pytest.mark.parametrize(
    ("text", "kind", "strength", "says"),
    [
        ("poll([{fd=5<pipe:[811]>, events=POLLIN}], 1, -1", "pipe-read", "strong", "in poll for something in a pipe"),
        ("poll([{fd=5<TCP:[10.0.0.1:4->192.0.2.58:443]>, events=POLLIN}], 1, -1", "socket-read", "strong",
         "in poll for 192.0.2.58:443 to send something"),
        ("poll([{fd=5<TCP:[10.0.0.1:4->192.0.2.58:443]>, events=POLLIN}], 1, 30000", "socket-read", "suggested",
         "in poll for 192.0.2.58:443 to send something"),
        (EPOLL, "socket-connect", "suggested", "in its event loop for 192.0.2.58:443 to take its connection"),
        ("poll([{fd=0</dev/pts/2>, events=POLLIN}], 1, -1", "terminal-read", "proven", "to type on the terminal pts/2"),
        ("poll([{fd=0<pipe:[3]>, events=POLLIN}], 1, -1", "stdin-read", "strong", "input on its standard input"),
    ],
    ids=["pipe", "socket", "with a time-out", "epoll", "terminal", "standard input"],
)  # fmt: skip
def test_it_waits_for_the_other_end_of_what_it_watches(text: str, kind: str, strength: str, says: str):
    (found,) = edges_of(text)
    assert (found.kind, found.strength) == (kind, strength)
    assert says in found.text


def test_of_several_pipes_one_has_to_say_something():
    text = "poll([{fd=5<pipe:[1]>, events=POLLIN}, {fd=7<pipe:[2]>, events=POLLIN}], 2, -1"
    assert [(edge.awaited, edge.strength) for edge in edges_of(text)] == [
        ("pipe:h1/1", "suggested"), ("pipe:h1/2", "suggested"),
    ]  # fmt: skip


def test_descriptors_that_nothing_explains_are_named():
    (found,) = edges_of("poll([{fd=5, events=POLLIN}, {fd=7, events=POLLIN}], 2, -1")
    assert (found.kind, found.strength) == ("poll", "suggested")
    assert found.reason == "what its descriptors 5, 7 are is not known"
