"""The text of /proc/locks and mountinfo is read line by line, and what cannot be understood is left out."""

from __future__ import annotations

import os
import socket
import time

import pytest
from flatline.collector.linux import locks, mounts, sockdiag
from flatline.collector.linux.grandchild import ask, ask_all
from programs import wait_until

MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:41 / /mnt/a\\040b rw - nfs4 server:/export rw,vers=4.2
31 22 0:42 / /data rw - fuse.sshfs host: rw
32 22 0:43 / /odd rw - madeupfs none rw
torn
"""


def test_a_mount_is_local_remote_or_unknown():
    known = {mount.path: mount for mount in mounts.parse(MOUNTINFO)}
    assert [known[path].is_network for path in ("/", "/mnt/a b", "/data", "/odd")] == [False, True, True, None]
    assert not known["/odd"].is_local


@pytest.mark.parametrize(
    ("path", "mount"), [("/data/x", "/data"), ("/database", "/"), ("/data", "/data"), ("/mnt/a b/c", "/mnt/a b")]
)
def test_a_path_lies_on_the_mount_with_the_longest_way_to_it(path, mount):
    found = mounts.mount_of(path, list(mounts.parse(MOUNTINFO)))
    assert found
    assert found.path == mount


def test_a_waiting_request_and_an_ownerless_lock_are_understood():
    text = "1: FLOCK  ADVISORY  WRITE 73 fe:00:21 0 EOF\n"
    text += "1: -> FLOCK  ADVISORY  WRITE 74 fe:00:21 0 EOF\n2: OFDLCK ADVISORY  READ -1 00:1b:9 0 9\n"
    text += "3: FLO"
    held, wanted, ownerless = locks.parse(text)
    assert (held.pid, held.waiting, held.file) == (73, False, ("254:0", 21))
    assert (wanted.pid, wanted.waiting) == (74, True)
    assert (ownerless.pid, ownerless.kind, ownerless.end, ownerless.device) == (None, "ofd", 9, "0:27")


def test_without_sock_diag_the_text_below_proc_gives_the_same_sockets_but_no_unix_peers():
    here, there = socket.socketpair()
    with here, there, socket.create_server(("127.0.0.1", 0)) as server:
        listed = {row.inode: row for row in sockdiag._listed("/proc/self/net")}
        asked = {row.inode: row for row in sockdiag._diagnosed()}
        for one in (here, server):
            inode = os.fstat(one.fileno()).st_ino
            assert (listed[inode].state, listed[inode].type) == (asked[inode].state, asked[inode].type)
        inode = os.fstat(server.fileno()).st_ino
        assert listed[inode].local == asked[inode].local == f"127.0.0.1:{server.getsockname()[1]}"
        assert listed[os.fstat(here.fileno()).st_ino].peer_inode is None
        assert asked[os.fstat(here.fileno()).st_ino].peer_inode == os.fstat(there.fileno()).st_ino


def test_a_question_that_is_not_answered_ends_at_its_limit_and_leaves_no_child():
    began = time.monotonic()
    answer = ask(lambda: time.sleep(600), 0.2)
    assert answer.timed_out
    assert time.monotonic() - began < 30
    if left := answer.left_running:  # it is killed, and a busy host has not let it end yet
        wait_until(lambda: os.waitpid(left, os.WNOHANG)[0] == left, what="it ends")


def test_an_answer_larger_than_a_pipe_and_an_error_both_come_back():
    assert ask(lambda: "x" * 500_000, 30).value == "x" * 500_000
    assert isinstance(ask(lambda: os.stat("/no/such/file"), 30).error, FileNotFoundError)


def test_many_questions_are_asked_at_once(tmp_path):
    def meet(number):
        (tmp_path / str(number)).touch()
        return wait_until(lambda: len(os.listdir(tmp_path)) == 3, what="the others are asked too")

    answers = ask_all([lambda n=n: meet(n) for n in range(3)], 30)
    assert [answer.value for answer in answers] == [True, True, True]
