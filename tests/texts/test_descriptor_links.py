"""What a descriptor's link says, wherever it is printed."""

import os
import select
import socket

import pytest

from flatline.texts.descriptor_links import kind_of_link, kind_of_printed


def test_links_of_this_process_say_what_they_are():
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    poll, terminal = select.epoll(), os.openpty()
    memory = os.memfd_create("x")
    try:
        inode = os.fstat(ours.fileno()).st_ino
        assert kind_of_link(link(ours.fileno())) == ("socket", inode)
        assert kind_of_link(link(write)) == ("pipe", os.fstat(write).st_ino)
        assert [kind_of_link(link(fd))[0] for fd in (poll.fileno(), terminal[1], memory)] == ["eventpoll", "tty", "memfd"]
    finally:
        for fd in (read, write, memory, *terminal):
            os.close(fd)
        poll.close(), ours.close(), theirs.close()


def link(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


@pytest.mark.parametrize(
    ("text", "kind", "printed"),
    [
        ("/dev/null", "null", "null"), ("/dev/nvidia0", "unknown", "device"), ("/dev/shm/nccl-x", "unknown", "file"),
        ("/dev/ptmx", "tty", "tty"), ("/dev/tty", "tty", "tty"), ("/data/a", "unknown", "file"),
        ("anon_inode:[eventfd]", "eventfd", "eventfd"), ("anon_inode:inotify", "inotify", "inotify"),
        ("anon_inode:[perf_event]", "other", "other"), ("net:[4026531840]", "other", "other"),
    ],
)  # fmt: skip
def test_a_path_is_that_of_anything_until_it_is_looked_at_or_only_its_text_is_there(text, kind, printed):
    assert (kind_of_link(text)[0], kind_of_printed(text)) == (kind, printed)
