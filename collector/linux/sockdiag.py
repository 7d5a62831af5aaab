"""Sockets and who is at their other end: sock_diag(7) over netlink, or /proc/PID/net where that is refused.

One netlink socket sees one network namespace. For a job in another one a grandchild enters it (setns(2), needs
CAP_SYS_ADMIN); without that right /proc/PID/net gives inodes and states, but no peers of unix sockets.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from flatline.bundle.facts import Socket

from .grandchild import ask

try:
    import ctypes
except ImportError:  # a Python built without libffi: other network namespaces are read from /proc
    ctypes = None  # type: ignore[assignment]

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
UDIAG_SHOW_NAME, UDIAG_SHOW_PEER, UDIAG_SHOW_ICONS, UDIAG_SHOW_RQLEN = 0x1, 0x4, 0x8, 0x10
UNIX_DIAG_NAME, UNIX_DIAG_PEER, UNIX_DIAG_ICONS, UNIX_DIAG_RQLEN = 0, 2, 3, 4
CLONE_NEWNET = 0x40000000

_ANSWER_S = 1.0
"""The kernel answers in under a millisecond; longer means that it will not."""
_STATES = {
    1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT", 7: "CLOSE",
    8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "NEW_SYN_RECV",
}  # fmt: skip
_STATES_WITH_OWNER = 0xFFFFFFFF & ~(1 << 6)
"""All but TIME_WAIT, which belongs to nobody, and of which a busy host has tens of thousands."""
_TIMERS = {0: "off", 1: "retransmit", 2: "keepalive", 3: "time-wait", 4: "probe"}
_TYPES = {1: "stream", 2: "dgram", 3: "raw", 5: "seqpacket"}
_INET = ((socket.AF_INET, "inet"), (socket.AF_INET6, "inet6"))
_PROTOCOLS = ((socket.IPPROTO_TCP, "stream"), (socket.IPPROTO_UDP, "dgram"))


def read_sockets(pid: int, wanted: Collection[int], *, proc: str = "/proc") -> tuple[list[Socket], str]:
    """The sockets with the `wanted` inodes and their peers, in the network namespace of `pid`.

    Returns the rows and, when peers are missing because sock_diag could not be asked there, the reason.
    """
    netns, own = _netns(f"{proc}/{pid}"), _netns("/proc/self")
    try:
        if netns is None or netns == own:
            rows = list(_diagnosed())
        else:
            rows = _diagnosed_in_namespace_of(f"{proc}/{pid}/ns/net")
        reason = ""
    except OSError as error:
        rows, reason = list(_listed(f"{proc}/{pid}/net")), error.strerror or str(error)
    rows = [replace(row, netns=netns) for row in _with_peers_by_address(rows)]
    peers = {row.peer_inode for row in rows if row.inode in wanted}
    return [row for row in rows if row.inode in wanted or row.peer_inode in wanted or row.inode in peers - {0}], reason


def _netns(process: str) -> str | None:
    try:
        return os.readlink(f"{process}/ns/net")
    except OSError:
        return None


def _diagnosed_in_namespace_of(namespace: str) -> list[Socket]:
    def enter_and_list() -> list[Socket]:
        _enter(namespace)
        return list(_diagnosed())

    answer = ask(enter_and_list, 2 * _ANSWER_S)
    if answer.error:
        raise answer.error
    if answer.timed_out:
        raise TimeoutError("sock_diag did not answer in the job's network namespace")
    return answer.value


def _enter(namespace: str) -> None:
    if ctypes is None:
        raise OSError("this Python has no ctypes to call setns with")
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # os.setns exists from Python 3.12 on
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


# --- netlink ---


def _diagnosed() -> Iterator[Socket]:
    """All unix, TCP and UDP sockets of our network namespace."""
    yield from _unix_diagnosed()
    for family, family_name in _INET:
        for protocol, type_name in _PROTOCOLS:
            request = struct.pack("=BBBBI48x", family, protocol, 0, 0, _STATES_WITH_OWNER)
            for message in _dump_if_built_in(request):
                yield _inet_row(message, family, family_name, type_name)


def _unix_diagnosed() -> Iterator[Socket]:
    """A connection that nobody has accepted has no peer inode yet; the listener that queues it stands in for it."""
    show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER | UDIAG_SHOW_ICONS | UDIAG_SHOW_RQLEN
    messages = list(_dump(struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, show, 0, 0)))
    rows = [_unix_row(message) for message in messages]
    queued_at = {
        client: row.inode for row, message in zip(rows, messages) for client in _queued_connections(message)
    }
    for row in rows:
        yield row if row.peer_inode else replace(row, peer_inode=queued_at.get(row.inode))


def _queued_connections(message: bytes) -> tuple[int, ...]:
    icons = dict(_attributes(message[16:])).get(UNIX_DIAG_ICONS, b"")
    return struct.unpack(f"={len(icons) // 4}I", icons)


def _dump_if_built_in(request: bytes) -> Iterator[bytes]:
    """inet_diag and udp_diag are modules of their own: one that is missing does not take the others with it."""
    try:
        yield from _dump(request)
    except FileNotFoundError:
        return


def _dump(request: bytes) -> Iterator[bytes]:
    """Send one dump request and yield the payload of each answer. OSError when the kernel refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(_ANSWER_S)
        header = struct.pack("=IHHII", 16 + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
        netlink.send(header + request)
        while True:
            for kind, payload in _messages(netlink.recv(1 << 18)):
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", payload)[0]
                    raise OSError(code, os.strerror(code))
                yield payload


def _messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 16 <= len(datagram):
        length, kind = struct.unpack_from("=IH", datagram, at)
        if length < 16:
            return
        yield kind, datagram[at + 16 : at + length]
        at += (length + 3) & ~3


def _unix_row(message: bytes) -> Socket:
    _, kind, state, _, inode = struct.unpack_from("=BBBBI", message)
    attributes = dict(_attributes(message[16:]))
    name, peer, queues = (attributes.get(key) for key in (UNIX_DIAG_NAME, UNIX_DIAG_PEER, UNIX_DIAG_RQLEN))
    rx, tx = struct.unpack("=II", queues[:8]) if queues else (None, None)
    return Socket(
        inode,
        family="unix",
        type=_TYPES.get(kind, "unknown"),  # type: ignore[arg-type]
        state=_STATES.get(state),
        local=_unix_name(name) if name else None,
        peer_inode=struct.unpack("=I", peer[:4])[0] if peer else None,
        rx_queue=rx,
        tx_queue=tx,
        source="sock_diag",
    )


def _attributes(blob: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(blob):
        length, kind = struct.unpack_from("=HH", blob, at)
        if length < 4:
            return
        yield kind, blob[at + 4 : at + length]
        at += (length + 3) & ~3


def _unix_name(name: bytes) -> str:
    """An abstract name begins with a zero byte, which unix(7) and ss write as ``@``."""
    return name.rstrip(b"\0").replace(b"\0", b"@").decode(errors="backslashreplace")


def _inet_row(message: bytes, family: int, family_name: str, type_name: str) -> Socket:
    _, state, timer, retransmits = struct.unpack_from("=BBBB", message)
    local_port, remote_port = struct.unpack_from("!HH", message, 4)
    rx, tx, _, inode = struct.unpack_from("=IIII", message, 56)
    return Socket(
        inode,
        family=family_name,  # type: ignore[arg-type]
        type=type_name,  # type: ignore[arg-type]
        state=_STATES.get(state),
        local=_address(family, message[8:24], local_port),
        remote=_address(family, message[24:40], remote_port),
        rx_queue=rx,
        tx_queue=tx,
        timer=_TIMERS.get(timer),
        retransmits=retransmits,
        source="sock_diag",
    )


def _address(family: int, raw: bytes, port: int) -> str:
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, raw[:4])}:{port}"
    return f"[{socket.inet_ntop(family, raw[:16])}]:{port}"


def _with_peers_by_address(rows: list[Socket]) -> Iterator[Socket]:
    """Give a TCP socket its peer on this host: the socket with its addresses the other way round, or, as long as
    nobody has accepted the connection, the socket that listens for it."""
    by_ends = {(row.local, row.remote): row for row in rows if _is_connection(row)}
    listeners = {row.local: row.inode for row in rows if row.state == "LISTEN" and row.family in ("inet", "inet6")}
    for row in rows:
        peer = _peer_by_address(row, by_ends, listeners) if _is_connection(row) else None
        yield replace(row, peer_inode=peer) if peer else row


def _is_connection(row: Socket) -> bool:
    return row.type == "stream" and row.family in ("inet", "inet6") and row.state != "LISTEN"


def _peer_by_address(
    row: Socket, by_ends: Mapping[tuple[str | None, str | None], Socket], listeners: Mapping[str | None, int]
) -> int | None:
    mirrored = by_ends.get((row.remote, row.local))
    if mirrored and mirrored.inode:
        return mirrored.inode
    unaccepted = row.state == "SYN_SENT" or (mirrored and mirrored.state in ("ESTABLISHED", "SYN_RECV", "CLOSE_WAIT"))
    if not unaccepted or not row.inode:
        return None
    address, port = str(row.remote).rsplit(":", 1)
    to_self = address == str(row.local).rsplit(":", 1)[0] or address.startswith("127.") or address == "[::1]"
    places = (f"{address}:{port}", f"0.0.0.0:{port}", f"[::]:{port}") if to_self else (f"{address}:{port}",)
    return next((listeners[place] for place in places if place in listeners), None)


# --- /proc/PID/net, without peers of unix sockets ---


def _listed(folder: str) -> Iterator[Socket]:
    for line in _lines_after_title(f"{folder}/unix"):
        row = _unix_from_text(line)
        if row:
            yield row
    for family, family_name in _INET:
        for name, type_name in (("tcp", "stream"), ("udp", "dgram")):
            suffix = "6" if family == socket.AF_INET6 else ""
            for line in _lines_after_title(f"{folder}/{name}{suffix}"):
                row = _inet_from_text(line, family, family_name, type_name)
                if row:
                    yield row


def _lines_after_title(path: str) -> Iterable[str]:
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return file.read().splitlines()[1:]
    except OSError:
        return ()


def _unix_from_text(line: str) -> Socket | None:
    """``Num: RefCount Protocol Flags Type St Inode Path``; St is SS_* here, not a TCP state."""
    parts = line.split(None, 7)
    try:
        flags, kind, state, inode = int(parts[3], 16), int(parts[4], 16), int(parts[5], 16), int(parts[6])
    except (IndexError, ValueError):
        return None
    accepts = flags & 0x10000  # __SO_ACCEPTCON, net(7) of the kernel's net/unix/af_unix.c
    return Socket(
        inode,
        family="unix",
        type=_TYPES.get(kind, "unknown"),  # type: ignore[arg-type]
        state="LISTEN" if accepts else "ESTABLISHED" if state == 3 else "CLOSE",
        local=parts[7] if len(parts) > 7 else None,
        source="proc",
    )


def _inet_from_text(line: str, family: int, family_name: str, type_name: str) -> Socket | None:
    """``sl local remote st tx:rx tr:when retrnsmt uid timeout inode …`` (proc_pid_net(5))."""
    parts = line.split()
    try:
        tx, rx = (int(part, 16) for part in parts[4].split(":"))
        return Socket(
            int(parts[9]),
            family=family_name,  # type: ignore[arg-type]
            type=type_name,  # type: ignore[arg-type]
            state=_STATES.get(int(parts[3], 16)),
            local=_address_from_text(family, parts[1]),
            remote=_address_from_text(family, parts[2]),
            rx_queue=rx,
            tx_queue=tx,
            timer=_TIMERS.get(int(parts[5].split(":")[0], 16)),
            retransmits=int(parts[6], 16),
            source="proc",
        )
    except (IndexError, ValueError):
        return None


def _address_from_text(family: int, text: str) -> str:
    """Addresses are printed as 32-bit words in the host's byte order, ports as plain numbers."""
    address, port = text.split(":")
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return _address(family, struct.pack(f"={len(words)}I", *words), int(port, 16))
