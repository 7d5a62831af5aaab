"""Sockets: ss (-tanp, -tanpoi, -x, with and without its headline), netstat -anp.

A socket of which no inode is printed gets the negative number of its line: it joins the rows of this text only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from flatline.bundle.facts import Fd, Socket, process_id

from .interface import HOST, Line, Lines, Parsed, Parser, any_of

_STATES = {
    "LISTEN": "LISTEN", "ESTAB": "ESTABLISHED", "ESTABLISHED": "ESTABLISHED", "SYN-SENT": "SYN_SENT",
    "SYN_SENT": "SYN_SENT", "SYN-RECV": "SYN_RECV", "SYN_RECV": "SYN_RECV", "FIN-WAIT-1": "FIN_WAIT1",
    "FIN_WAIT1": "FIN_WAIT1", "FIN-WAIT-2": "FIN_WAIT2", "FIN_WAIT2": "FIN_WAIT2", "TIME-WAIT": "TIME_WAIT",
    "TIME_WAIT": "TIME_WAIT", "CLOSE-WAIT": "CLOSE_WAIT", "CLOSE_WAIT": "CLOSE_WAIT", "LAST-ACK": "LAST_ACK",
    "LAST_ACK": "LAST_ACK", "CLOSING": "CLOSING", "UNCONN": "CLOSE", "CLOSE": "CLOSE",
}  # fmt: skip
_STATE = "|".join(sorted(_STATES, key=len, reverse=True))
_END = r"(?:\[?[\w.:%*@⟪·⟫-]{1,100}\]?(?:%\w{1,20})?:(?:[\w*-]{1,30}))"
_SS_HEAD = re.compile(r"(?:Netid\s+)?State\s+Recv-Q\s+Send-Q\s+Local Address:Port\s+Peer Address:Port")
_SS_ROW = re.compile(
    rf"(?:(?P<netid>tcp|udp|u_str|u_dgr|u_seq|nl|p_raw|p_dgr|raw|icmp6|v_str|mptcp|sctp|\?\?\?)\s+)?"
    rf"(?P<state>{_STATE})\s+"
    rf"(?P<rx>\d{{1,12}})\s+(?P<tx>\d{{1,12}})\s+(?P<rest>\S.*)$"
)
_INET = re.compile(rf"(?P<local>{_END})\s+(?P<remote>{_END})(?P<more>.*)$")
_UNIX = re.compile(r"(?P<path>\*|@?\S{1,200}) (?P<inode>\d{1,18})\s+\* (?P<peer>\d{1,18})(?P<more>.*)$")
_USERS = re.compile(r"\(\"(?P<name>[^\"]{0,64})\",(?:pid=)?(?P<pid>\d{1,9}),(?:fd=)?(?P<fd>\d{1,9})\)")
_INODE = re.compile(r"\bino:(?P<inode>\d{1,18})")
_TIMER = re.compile(r"timer:\((?P<kind>\w{2,12}),[^,)]{1,20}(?:,(?P<count>\d{1,4}))?\)")
_TIMERS = {"on": "retransmit", "keepalive": "keepalive", "timewait": "time-wait", "persist": "probe"}
_NETSTAT_HEAD = re.compile(r"Active Internet connections|Proto\s+Recv-Q\s+Send-Q\s+Local Address\s+Foreign Address")
_NETSTAT_ROW = re.compile(
    r"(?P<proto>tcp6?|udp6?|udplite6?|raw6?)\s+(?P<rx>\d{1,12})\s+(?P<tx>\d{1,12})\s+"
    r"(?P<local>\S{1,100}:\S{1,30})\s+(?P<remote>\S{1,100}:\S{1,30})"
    rf"(?:\s+(?P<state>{_STATE}|\d{{1,2}}))?(?:\s+(?P<user>\d{{1,9}}|[a-z_⟪][\w.⟫·-]{{0,31}})\s+(?P<inode>\d{{1,18}}))?"
    r"(?:\s+(?:(?P<pid>\d{1,9})/(?P<name>\S.{0,40}?)|-))?"
    r"(?:\s+(?P<timer>off|on|keepalive|timewait|probe) \([\d./]{3,40}\))?\s*$"
)

_NETSTAT_UNIX_HEAD = re.compile(r"Active UNIX domain sockets|Proto\s+RefCnt\s+Flags\s+Type\s+State\s+I-Node")
_NETSTAT_UNIX = re.compile(
    r"unix\s+\d{1,9}\s+\[[ A-Z]{0,30}\]\s+(?P<type>STREAM|DGRAM|SEQPACKET)\s+"
    r"(?P<state>LISTENING|CONNECTED|CONNECTING|DISCONNECTING)?\s+(?P<inode>\d{1,18})"
    r"(?:\s+(?:(?P<pid>\d{1,9})/(?P<name>\S.{0,20}?)|-))?(?:\s+(?P<path>[@/]\S{0,200}|[\w-]{1,40}/\S{1,200}))?\s*$"
)
_UNIX_TYPES: dict[str, Literal["stream", "dgram", "seqpacket"]] = {
    "STREAM": "stream", "DGRAM": "dgram", "SEQPACKET": "seqpacket"
}  # fmt: skip
_UNIX_STATES = {"LISTENING": "LISTEN", "CONNECTED": "ESTABLISHED"}


def parse_ss(lines: Lines, start: int) -> Parsed | None:
    """Its rows; what -o, -i and -e print below one belongs to it."""
    rows: list[Any] = []
    begun = end = start + bool(_SS_HEAD.match(lines[start].bare))
    count = 0
    for index in range(begun, len(lines)):
        line = lines[index]
        found = _SS_ROW.match(line.bare)
        row = list(_socket(found, line)) if found else []
        if row:
            rows += row
            count += 1
        elif line.bare and not (found or (count and line.text[:1].isspace())):
            break
        if line.bare:
            end = index + 1
    return Parsed(end, tuple(rows), about=f"{count} sockets") if count or begun > start else None


def _socket(found: re.Match[str], line: Line) -> Iterator[Socket | Fd]:
    unix = _UNIX.match(found["rest"])
    inet = None if unix else _INET.match(found["rest"])
    ends = unix or inet
    if ends is None:
        return
    more = ends["more"]
    told, timer = _INODE.search(more), _TIMER.search(more)
    inode = int(ends["inode"]) if unix else int(told["inode"]) if told else -line.number
    kind: Literal["stream", "dgram"] = "dgram" if (found["netid"] or "tcp") in ("udp", "u_dgr") else "stream"
    yield Socket(
        inode, "unix" if unix else "inet6" if inet and inet["local"].startswith("[") else "inet", kind,
        state=_STATES[found["state"]], local=ends["path"] if unix else ends["local"],
        remote=None if unix or ends["remote"].endswith(":*") else ends["remote"],
        peer_inode=(int(unix["peer"]) or None) if unix else None, rx_queue=int(found["rx"]), tx_queue=int(found["tx"]),
        timer=_TIMERS.get(timer["kind"]) if timer else None,
        retransmits=int(timer["count"]) if timer and timer["count"] and timer["kind"] == "on" else None,
        source="unknown", line=line.number,
    )  # fmt: skip
    for user in _USERS.finditer(more):
        yield Fd(process_id(int(user["pid"]), HOST), int(user["fd"]), "socket",
                 path=f"socket:[{inode}]" if inode > 0 else None, inode=inode, line=line.number)  # fmt: skip


def parse_netstat(lines: Lines, start: int) -> Parsed | None:
    """Its rows of TCP and UDP, which do not name descriptors."""
    rows: list[Any] = []
    begun = start
    while begun < len(lines) and begun - start < 2 and _NETSTAT_HEAD.match(lines[begun].bare):
        begun += 1
    end = begun
    for index in range(begun, len(lines)):
        line = lines[index]
        found = _NETSTAT_ROW.match(line.bare)
        if found is None:
            break
        remote = None if found["remote"].endswith(":*") else found["remote"]
        rows.append(Socket(
            int(found["inode"]) if found["inode"] else -line.number,
            "inet6" if found["proto"].endswith("6") else "inet",
            "raw" if found["proto"].startswith("raw") else "dgram" if found["proto"].startswith("udp") else "stream",
            state=_STATES.get(found["state"] or ""), local=found["local"], remote=remote, rx_queue=int(found["rx"]),
            tx_queue=int(found["tx"]), timer=_TIMERS.get(found["timer"] or ""), line=line.number,
        ))  # fmt: skip
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{len(rows)} sockets") if rows else None


def parse_netstat_unix(lines: Lines, start: int) -> Parsed | None:
    """Its rows of UNIX sockets, which tell no peer."""
    rows: list[Socket] = []
    begun = start
    while begun < len(lines) and begun - start < 2 and _NETSTAT_UNIX_HEAD.match(lines[begun].bare):
        begun += 1
    end = begun
    for index in range(begun, len(lines)):
        found = _NETSTAT_UNIX.match(lines[index].bare)
        if found is None:
            break
        rows.append(Socket(
            int(found["inode"]), "unix", _UNIX_TYPES[found["type"]], state=_UNIX_STATES.get(found["state"] or ""),
            local=found["path"], line=lines[index].number,
        ))  # fmt: skip
        end = index + 1
    return Parsed(end, tuple(rows), about=f"{len(rows)} sockets") if rows else None


PARSERS = (
    Parser("ss", any_of(_SS_HEAD, _SS_ROW), parse_ss),
    Parser("netstat", any_of(_NETSTAT_HEAD, _NETSTAT_ROW), parse_netstat),
    Parser("netstat-unix", any_of(_NETSTAT_UNIX_HEAD, _NETSTAT_UNIX), parse_netstat_unix),
)
