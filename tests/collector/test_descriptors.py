"""Who holds the other end: pipes, sockets, terminals and locks of real processes, inside the job and outside it."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from faults.stalling_fuse import stalling_mount, why_not_here
from flatline.collector.probes.descriptors import Descriptors
from job_view import gaps, rows, run_until_ready, target_of, view_of
from programs import FIXTURES, wait_until

from flatline.bundle.facts import process_id

OFD_SETLK = 37
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root sees every process's descriptors")


def gather(*targets, **changes):
    return list(Descriptors().gather(view_of(*targets, **changes)))


def fd_row(items, pid, fd):
    (row,) = [row for row in rows(items, "fds") if (row.process, row.fd) == (process_id(pid), fd)]
    return row


def described(items):
    return {row.id for row in rows(items, "processes")}


@pytest.fixture
def run(start, tmp_path):
    return lambda code, **options: run_until_ready(start, tmp_path, code, **options)


def test_the_reader_of_a_pipe_is_named_and_described_though_it_is_outside_the_job(run):
    pid = run("ready(); time.sleep(600)", stdout=subprocess.PIPE)
    items = gather(pid)
    row = fd_row(items, pid, 1)
    assert (row.kind, row.mode, row.path) == ("pipe", "write", f"pipe:[{row.inode}]")
    assert process_id(os.getpid()) in row.peers
    (holder,) = [row for row in rows(items, "processes") if row.pid == os.getpid()]
    assert (holder.relation, holder.uid) == ("holder", os.getuid())
    assert holder.argv
    (thread,) = [row for row in rows(items, "threads") if row.pid == os.getpid()]
    assert thread.is_main
    assert thread.process == holder.id


@as_root
def test_a_pipe_that_nobody_reads_has_no_peers_rather_than_unknown_ones(run):
    pid = run("r, w = os.pipe(); os.close(r); os.dup2(w, 100); ready(); time.sleep(600)")
    assert fd_row(gather(pid), pid, 100).peers == ()


def test_that_nobody_reads_a_pipe_is_unknown_while_a_process_of_the_host_hides_its_descriptors(run, monkeypatch):
    from flatline.collector.linux import descriptors
    from flatline.collector.linux.procfs import Unread

    links, hidden = descriptors.links, os.getppid()
    monkeypatch.setattr(
        descriptors, "links", lambda proc, pid: Unread("denied") if pid == hidden else links(proc, pid)
    )
    pid = run("r, w = os.pipe(); os.close(r); os.dup2(w, 100); ready(); time.sleep(600)")
    items = gather(pid)
    assert fd_row(items, pid, 100).peers is None
    (host,) = rows(items, "hosts")
    assert host.processes_fds_unseen == 1
    assert any("1 of" in gap.message and gap.status == "partial" for gap in gaps(items))


@as_root
def test_what_the_collector_holds_is_neither_a_peer_nor_nobody(run):
    pid = run("ready(); time.sleep(600)", stdout=subprocess.PIPE)
    row = fd_row(gather(pid, own_pids=(os.getpid(),)), pid, 1)
    assert process_id(os.getpid()) not in (row.peers or ())
    assert row.peers != ()


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js")
def test_a_nodejs_parent_is_the_peer_of_its_childs_stdout_which_is_a_socketpair(start, tmp_path):
    ready = tmp_path / "ready"
    start(
        ["node", FIXTURES / "stuck" / "node_parent_unread.js"],
        env={**os.environ, "READY": str(ready), "PYTHON": sys.executable},
        cwd=tmp_path,
    )
    said = wait_until(lambda: ready.exists() and ready.read_text(), what="node's child is stuck", seconds=60)
    child = int(said)
    parent = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
    items = gather(child)
    row = fd_row(items, child, 1)
    assert row.kind == "socket"
    assert row.peers == (process_id(parent),)
    ends = {one.inode: one for one in rows(items, "sockets")}
    assert ends[row.inode].tx_queue > 0
    assert ends[ends[row.inode].peer_inode].peer_inode == row.inode
    assert any(one.kind == "eventpoll" and one.process == process_id(parent) for one in rows(items, "fds"))


def test_the_reader_of_a_fifo_is_found_by_its_inode(run, start, tmp_path):
    fifo = tmp_path / "in"
    os.mkfifo(fifo)
    start(["sh", "-c", f"exec 0< {fifo}; exec sleep 600"])
    pid = run(f"f = os.open({str(fifo)!r}, os.O_WRONLY); os.dup2(f, 100); ready(); time.sleep(600)")
    row = fd_row(gather(pid), pid, 100)
    assert (row.kind, row.path, row.mode) == ("fifo", str(fifo), "write")
    assert len(row.peers) == 1


def test_the_master_of_a_pty_is_the_terminals_other_end(run):
    master, slave = pty.openpty()
    try:
        pid = run("ready(); time.sleep(600)", stdin=slave, start_new_session=True)
        row = fd_row(gather(pid), pid, 0)
        assert row.kind == "tty"
        assert process_id(os.getpid()) in row.peers
    finally:
        os.close(master)
        os.close(slave)


def test_an_epoll_tells_what_it_watches(run):
    pid = run(
        "import select; e = select.epoll(); r, w = os.pipe(); os.dup2(r, 50); e.register(50, 1)\n"
        "os.dup2(e.fileno(), 60); ready(); time.sleep(600)"
    )
    row = fd_row(gather(pid), pid, 60)
    assert (row.kind, row.watches) == ("eventpoll", (50,))


def test_a_file_that_was_deleted_is_said_to_be(run, tmp_path):
    pid = run("os.dup2(os.open('gone.log', os.O_CREAT | os.O_WRONLY), 100); os.unlink('gone.log'); ready(); time.sleep(600)")
    row = fd_row(gather(pid), pid, 100)
    assert (row.kind, row.deleted, row.mode, row.path) == ("file", True, "write", f"{tmp_path}/gone.log (deleted)")


# --- locks ---


def lock_rows(items, path):
    inode = os.stat(path).st_ino
    return [row for row in rows(items, "locks") if row.inode == inode]


def test_a_flock_names_its_holder_and_who_waits_for_it(run, tmp_path):
    lock = tmp_path / "cache.lock"
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pid = run("import fcntl; f = open('cache.lock'); ready(); fcntl.flock(f, fcntl.LOCK_EX)")
        items = wait_until(
            lambda: (found := gather(pid)) and len(lock_rows(found, lock)) == 2 and found, what="it waits"
        )
    holder, waiter = sorted(lock_rows(items, lock), key=lambda row: row.waiting)
    assert (holder.owner_process, holder.kind, holder.mode) == (process_id(os.getpid()), "flock", "write")
    assert (waiter.owner_process, waiter.waiting, waiter.id) == (process_id(pid), True, holder.id)
    assert holder.path == str(lock)
    assert process_id(os.getpid()) in described(items)


def test_a_record_lock_tells_its_range(run, tmp_path):
    pid = run("import fcntl; f = open('db', 'w'); fcntl.lockf(f, fcntl.LOCK_EX, 10, 5); ready(); time.sleep(600)")
    (row,) = lock_rows(gather(pid), tmp_path / "db")
    assert (row.kind, row.owner_process, row.start, row.end) == ("posix", process_id(pid), 5, 14)


def test_an_ofd_lock_has_no_owner_in_the_kernel_but_its_description_shows_who_holds_it(run, tmp_path):
    with open(tmp_path / "ofd", "w") as held:
        fcntl.fcntl(held, OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        pid = run("f = open('ofd'); ready(); time.sleep(600)")
        (row,) = lock_rows(gather(pid), tmp_path / "ofd")
    assert (row.kind, row.owner_process) == ("ofd", process_id(os.getpid()))


def test_a_flock_whose_taker_has_ended_belongs_to_the_child_that_inherited_it(start, tmp_path):
    code = (
        "import fcntl; f = open('x', 'w'); fcntl.flock(f, fcntl.LOCK_EX)\n"
        "if os.fork(): os._exit(0)\n"
        "open('child', 'w').write(str(os.getpid())); os.rename('child', 'child.pid'); time.sleep(600)"
    )
    begun = start([sys.executable, "-c", "import os, time\n" + code], cwd=tmp_path)
    begun.wait(30)
    child = int(wait_until(lambda: (tmp_path / "child.pid").exists() and (tmp_path / "child.pid").read_text(), what="fork"))
    (row,) = lock_rows(gather(child), tmp_path / "x")
    assert row.owner_process == process_id(child)


# --- sockets ---


def test_connections_beyond_the_backlog_are_syn_sent_and_lead_to_the_listener(run):
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(0)
    with server:
        pid = run(
            "import socket\nmany = [socket.socket() for _ in range(4)]\n"
            f"for n, s in enumerate(many): s.setblocking(False); s.connect_ex({server.getsockname()!r}); os.dup2(s.fileno(), 100 + n)\n"
            "ready(); time.sleep(600)"
        )
        items = gather(pid)
        by_inode = {row.inode: row for row in rows(items, "sockets")}
        ends = [by_inode[fd_row(items, pid, fd).inode] for fd in range(100, 104)]
        assert "SYN_SENT" in {row.state for row in ends}
        waiting = next(row for row in ends if row.state == "SYN_SENT")
        assert (waiting.timer, waiting.remote) == ("retransmit", f"127.0.0.1:{server.getsockname()[1]}")
        assert process_id(os.getpid()) in fd_row(items, pid, 103).peers


def test_a_tcp_peer_on_this_host_is_found_by_its_addresses(run):
    with socket.create_server(("127.0.0.1", 0)) as server:
        pid = run(
            f"import socket; s = socket.create_connection({server.getsockname()!r}); os.dup2(s.fileno(), 100)\n"
            "ready(); time.sleep(600)"
        )
        accepted, _ = server.accept()
        with accepted:
            items = gather(pid)
            assert fd_row(items, pid, 100).peers == (process_id(os.getpid()),)
            inode = os.fstat(accepted.fileno()).st_ino
            assert any(row.inode == inode and row.state == "ESTABLISHED" for row in rows(items, "sockets"))


def test_a_unix_socket_whose_peer_has_closed_has_nobody_at_its_other_end(run):
    pid = run("import socket; a, b = socket.socketpair(); os.dup2(a.fileno(), 100); a.close(); b.close(); ready(); time.sleep(600)")
    assert fd_row(gather(pid), pid, 100).peers == ()


def test_a_unix_connection_that_nobody_accepted_leads_to_the_listener(run, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        server.listen()
        pid = run(
            "import socket; s = socket.socket(socket.AF_UNIX); s.connect('sock'); os.dup2(s.fileno(), 100)\n"
            "ready(); time.sleep(600)"
        )
        assert fd_row(gather(pid), pid, 100).peers == (process_id(os.getpid()),)


@as_root
def test_the_jobs_own_network_namespace_is_asked(run):
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, timeout=20)
    if probe.returncode:
        pytest.skip("network namespaces cannot be made here")
    code = (
        "import ctypes; assert ctypes.CDLL(None).unshare(0x40000000) == 0\n"
        "import socket; a, b = socket.socketpair(); os.dup2(a.fileno(), 100); ready(); time.sleep(600)"
    )
    pid = run(code)
    items = gather(pid)
    row = fd_row(items, pid, 100)
    assert row.peers == (process_id(pid),)
    (socket_row,) = [one for one in rows(items, "sockets") if one.inode == row.inode]
    assert socket_row.source == "sock_diag"
    assert socket_row.netns == os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")


# --- what must not stop it ---


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "a mount can be made here")
def test_a_file_on_a_dead_mount_is_described_without_asking_for_it(run):
    with stalling_mount() as mount:
        pid = run(f"os.dup2(os.open({str(mount.path / 'train.log')!r}, os.O_RDONLY), 100); ready(); time.sleep(600)")
        mount.stall()
        began = time.monotonic()
        items = gather(pid)
        assert time.monotonic() - began < 5
        row = fd_row(items, pid, 100)
        assert (row.kind, row.path) == ("file", str(mount.path / "train.log"))
        assert row.device == f"0:{mount.minor}"


def test_a_process_that_ended_meanwhile_is_no_error(run, start):
    pid = run("ready(); time.sleep(600)")
    gone = start(["true"])
    target = target_of(gone.pid)
    gone.wait(20)
    items = gather(pid, target)
    assert fd_row(items, pid, 0).kind == "null"
    assert not [gap for gap in gaps(items) if gap.status != "partial"]


@as_root
def test_another_users_descriptors_are_a_gap_with_the_command_that_shows_them(run):
    pid = run("ready(); time.sleep(600)")
    code = (
        f"import os, sys; sys.path[:0] = {[str(FIXTURES), str(FIXTURES.parent / 'tests')]!r}\n"
        "from job_view import *\nfrom flatline.collector.probes.descriptors import Descriptors\n"
        f"os.setuid(65534)\nfor gap in gaps(list(Descriptors().gather(view_of({pid})))): print(gap.status, gap.hint)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "denied run it with sudo" in said.stdout, said.stderr


@as_root
def test_inside_a_pid_namespace_nobody_is_never_said(run, tmp_path):
    if subprocess.run(["unshare", "-pf", "--mount-proc", "true"], capture_output=True, timeout=20).returncode:
        pytest.skip("pid namespaces cannot be made here")
    code = (
        f"import os, sys; sys.path[:0] = {[str(FIXTURES), str(FIXTURES.parent / 'tests')]!r}\n"
        "from job_view import *\nfrom flatline.collector.probes.descriptors import Descriptors\n"
        "r, w = os.pipe(); os.close(r)\nitems = list(Descriptors().gather(view_of(os.getpid())))\n"
        "print([row.peers for row in rows(items, 'fds') if row.fd == w], rows(items, 'hosts')[0].processes_fds_unseen)\n"
        "print([gap.hint for gap in gaps(items)])"
    )
    argv = ["unshare", "-pf", "--mount-proc", sys.executable, "-c", code]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert said.stdout.startswith("[None] None"), said.stderr
    assert "outside the container" in said.stdout
