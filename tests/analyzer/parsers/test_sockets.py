"""Sockets and open files: what ss, netstat and lsof of this machine print, and rows without their headline."""

from __future__ import annotations

import os
import socket
import sys

import pytest
from parsing import blocks_of, only, printed, rows_of

from flatline.bundle.facts import Fd, Process, Socket


@pytest.fixture
def connection():
    """A listener and a connection of this process to it; its two ends."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            yield near


@pytest.mark.parametrize("options", [("-tanp",), ("-tanpoi",), ("-tanpe",), ("-anp",)])
def test_ss_tells_whose_connection_it_is(connection: socket.socket, options: tuple[str, ...]):
    block = only(printed("ss", *options, check=False), "ss")
    local = f"127.0.0.1:{connection.getsockname()[1]}"
    mine = next(row for row in rows_of(block, Socket) if row.local == local and row.state == "ESTABLISHED")
    assert mine.remote == f"127.0.0.1:{connection.getpeername()[1]}"
    holders = [(fd.process, fd.fd) for fd in rows_of(block, Fd) if fd.inode == mine.inode]
    assert (f"h1/{os.getpid()}", connection.fileno()) in holders


def test_netstat_tells_the_same_connection(connection: socket.socket):
    blocks = [block for block in blocks_of(printed("netstat", "-tan", check=False)) if block.kind == "netstat"]
    rows = [row for block in blocks for row in rows_of(block, Socket)]
    assert f"127.0.0.1:{connection.getsockname()[1]}" in {row.local for row in rows}


def test_lsof_tells_descriptors_and_what_they_are(connection: socket.socket):
    read, write = os.pipe()
    block = only(printed("lsof", "-nP", "-p", os.getpid(), check=False), "lsof")
    os.close(write)
    fds = {fd.fd: fd for fd in rows_of(block, Fd)}
    (process,) = rows_of(block, Process)
    assert (process.pid, process.cwd) == (os.getpid(), os.getcwd())
    assert (fds[read].kind, fds[read].mode, fds[read].inode) == ("pipe", "read", os.fstat(read).st_ino)
    assert fds[connection.fileno()].kind == "socket"
    ends = {row.inode: row for row in rows_of(block, Socket)}
    assert ends[os.fstat(connection.fileno()).st_ino].state == "ESTABLISHED"
    os.close(read)


def test_rows_without_their_headline_are_read():
    line = 'SYN-SENT 0 1 10.0.0.3:41000 10.0.0.9:29500 users:(("python",pid=77,fd=12)) timer:(on,3.1sec,4)\n'
    block = only(line, "ss")
    (row,) = rows_of(block, Socket)
    assert (row.state, row.remote, row.timer, row.retransmits) == ("SYN_SENT", "10.0.0.9:29500", "retransmit", 4)
    assert [(fd.process, fd.fd, fd.inode) for fd in rows_of(block, Fd)] == [("h1/77", 12, row.inode)]
    block = only("python3 77 root 3r FIFO 0,13 0t0 811 pipe\npython3 77 root 0u CHR 136,3 0t0 6 /dev/pts/3\n", "lsof")
    assert [(fd.fd, fd.kind, fd.mode) for fd in rows_of(block, Fd)] == [(3, "pipe", "read"), (0, "tty", "both")]


@pytest.mark.parametrize(
    "line", ["LISTEN to the log", "tcp 1 2 lost", "python 77 crashed", f"{sys.platform} 12 root cwd"]
)
def test_ordinary_lines_are_neither(line: str):
    assert [block.kind for block in blocks_of(line)] == ["log"]


UNIX = """\
Active UNIX domain sockets (servers and established)
Proto RefCnt Flags       Type       State         I-Node   PID/Program name     Path
unix  2      [ ACC ]     STREAM     LISTENING     30101    812/python           /tmp/plasma/store.sock
unix  3      [ ]         STREAM     CONNECTED     30102    812/python           @/tmp/torch-a
unix  2      [ ]         DGRAM                    30103    -
"""


def test_netstat_tells_unix_sockets_too():
    rows = rows_of(only(UNIX, "netstat-unix"), Socket)
    assert [(row.inode, row.type, row.state, row.local) for row in rows] == [
        (30101, "stream", "LISTEN", "/tmp/plasma/store.sock"), (30102, "stream", "ESTABLISHED", "@/tmp/torch-a"),
        (30103, "dgram", None, None),
    ]  # fmt: skip


def test_netstat_as_it_runs_here_tells_the_sockets_that_listen(tmp_path):
    path = f"{tmp_path}/s"[-100:]
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(path)
        local.listen()
        text = printed("netstat", "-anp", check=False)
        place = f"127.0.0.1:{tcp.getsockname()[1]}"
    rows = [row for block in blocks_of(text) for row in rows_of(block, Socket)]
    assert {place, path} <= {row.local for row in rows if row.state == "LISTEN"}
