"""What carries collectives: PCI bridges, and the ports of InfiniBand and RoCE adapters.

Of lspci, ibstat, ibstatus, ibv_devinfo, show_gids and the counters below /sys/class/infiniband.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from flatline.bundle.facts import PciAcs, RdmaPort
from flatline.texts.gpu.readings import bus_id, number, whole

from .interface import HOST, Line, Lines, Parsed, Parser
from .spans import Span, span

# --- lspci ---

_SLOT = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_DEVICE = re.compile(
    rf"(?P<slot>{_SLOT}) (?P<name>(?:[A-Z0-9][\w/-]*(?: [\w/()-]+){{0,6}} ?)(?:\[[0-9a-f]{{4}}\])?: \S.{{0,300}})$"
)
_DEVICE_BEGIN = rf"{_SLOT} [A-Z0-9][\w/-]*(?: [\w/()-]+){{0,6}} ?(?:\[[0-9a-f]{{4}}\])?: \S"
_ACS = re.compile(r"ACSCtl:\s*(?P<flags>SrcValid[+-].*)")
_REGISTER = re.compile(rf"(?P<slot>{_SLOT}) \(cap 0d @[0-9a-f]{{2,4}}\) @[0-9a-f]{{2,4}} = (?P<bits>[0-9a-f]{{4}})$")
"""``setpci -v -s SLOT ECAP_ACS+6.w``: what ACS is told to do."""
_SRC_VALID, _REDIRECTS = 0x01, 0x04 | 0x08 | 0x10
_DETAIL = re.compile(
    r"[A-Z0-9][\w .()/-]{0,40}:|.*[+-](?:\s|$)|\S.{0,60}(?:behind|\[size=)|Region|Capabilities|[\w ]+, |<access denied>"
)


def parse_lspci(lines: Lines, start: int) -> Parsed | None:
    """Devices, with -v what is indented below each, and lines of ACS that grep has left."""
    base = _indent(lines[start].text)
    found = _lspci_span(lines, start, base)
    rows: list[PciAcs] = []
    device: re.Match[str] | None = None
    devices = 0
    for line in found.lines:
        if named := _DEVICE.match(line.bare):
            device, devices = named, devices + 1
        elif told := _ACS.match(line.bare):
            rows.append(_acs(line, device, told["flags"]))
    about = f"{devices} devices, {sum(row.redirects is True or row.validates is True for row in rows)} with ACS on"
    return Parsed(found.end, tuple(rows), about=about)


def parse_setpci(lines: Lines, start: int) -> Parsed | None:
    """The control register of ACS, a bridge a line."""
    found = span(lines, start, _REGISTER.match)
    rows = [
        PciAcs(HOST, bus_id(told["slot"]), validates=bool(int(told["bits"], 16) & _SRC_VALID),
               redirects=bool(int(told["bits"], 16) & _REDIRECTS), line=line.number)
        for line in found.lines
        if (told := _REGISTER.match(line.bare))
    ]  # fmt: skip
    return Parsed(found.end, tuple(rows), about=f"ACS of {len(rows)} bridges") if rows else None


def _lspci_span(lines: Lines, start: int, base: int) -> Span:
    end, blanks = start + 1, 0
    for index in range(start + 1, len(lines)):
        bare = lines[index].bare
        blanks = 0 if bare else blanks + 1
        if blanks > 3:
            break
        if not bare:
            continue
        below = _indent(lines[index].text) > base and _DETAIL.match(bare)
        if not (below or _DEVICE.match(bare) or _ACS.match(bare)):
            break
        end = index + 1
    return Span(end, tuple(line for line in lines[start:end] if line.bare))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _acs(line: Line, device: re.Match[str] | None, flags: str) -> PciAcs:
    slot = device["slot"] if device else ""
    full = bus_id(slot if slot.count(":") == 2 else f"0000:{slot}") if slot else None
    redirects = bool(re.search(r"(?:ReqRedir|CmpltRedir|UpstreamFwd)\+", flags))
    name = device["name"][:200] if device else None
    return PciAcs(HOST, full, name, "SrcValid+" in flags, redirects, line=line.number)


# --- InfiniBand and RoCE ---

_STATES = {"ACTIVE": "active", "DOWN": "down", "INIT": "init", "INITIALIZING": "init", "ARMED": "armed"}
_BEGINS = re.compile(
    r"CA '[\w.-]{1,40}'$|Infiniband device '[\w.-]{1,40}' port \d{1,2} status:$|hca_id:\s*\S|DEV\s+PORT\s+INDEX\s+GID|"
    r"GID\[ {0,3}\d{1,3}\]:\s|phys_state:\s+\S|link_layer:\s+\S|/sys/class/infiniband/[\w.-]{1,40}/ports/\d{1,2}/\S+:"
)
_HEAD = re.compile(
    r"(?:CA '|Infiniband device '|hca_id:\s*)(?P<device>[\w.-]{1,40})'?(?: port (?P<port>\d{1,2}) status:)?$"
)
_PORT = re.compile(r"(?:Port |port:\s+)(?P<port>\d{1,2}):?$")
_VALUE = re.compile(r"(?P<name>[A-Za-z][\w ]{1,30}(?:\[ {0,3}\d{1,3}\])?):\s*(?P<value>\S.*)?$")
_GID_ROW = re.compile(
    r"(?P<device>[a-z]\w{1,30})\s+(?P<port>\d{1,2})\s+(?P<index>\d{1,3})\s+(?P<gid>[0-9a-f:]{10,39})\s+"
    r"(?P<rest>.*?)(?P<type>v[12]|IB|RoCE v[12])(?:\s+\S+)?$"
)
_COUNTER = re.compile(
    r"/sys/class/infiniband/(?P<device>[\w.-]{1,40})/ports/(?P<port>\d{1,2})/(?:hw_)?counters/"
    r"(?P<name>\w{1,60}):\s*(?P<value>\d{1,19})$"
)
_OTHER = re.compile(r"DEV\s+PORT|-{3,}|n_gids_found=|\(GID|ibpanic|ibwarn|/sys/class/infiniband/")
_TITLES = re.compile(
    r"(?:CA type|Number of ports|Firmware version|Hardware version|Node GUID|System image GUID|State|"
    r"Physical state|Rate|Base lid|LMC|"
    r"SM lid|Capability mask|Port GUID|Link layer|default gid|base lid|sm lid|state|phys state|rate|"
    r"link_layer|transport|fw_ver|"
    r"node_guid|sys_image_guid|vendor_id|vendor_part_id|hw_ver|board_id|phys_port_cnt|port|max_mtu|active_mtu|port_lid|sm_lid|"
    r"port_lmc|max_msg_sz|port_cap_flags\w*|max_vl_num|bad_pkey_cntr|qkey_viol_cntr|sm_sl|pkey_tbl_len|gid_tbl_len|subnet_timeout|"
    r"init_type_reply|active_width|active_speed|phys_state|GID\[ {0,3}\d{1,3}\]|device_cap_flags|max_\w+|"
    r"atomic_cap|local_ca_ack_delay|"
    r"hca_core_clock|\w*_caps):\s"
)


@dataclass
class _Ports:
    """What was read so far."""

    device: str = "unknown"
    port: int = 1
    firmware: str | None = None
    rows: dict[tuple[str, int], RdmaPort] = field(default_factory=dict)

    def add(self, line: Line, device: str | None = None, port: int | None = None, **more: Any) -> None:
        key = (device or self.device, self.port if port is None else port)
        row = self.rows.get(key) or RdmaPort(HOST, *key, firmware=self.firmware, line=line.number)
        self.rows[key] = replace(row, **more)


def parse_ports(lines: Lines, start: int) -> Parsed | None:
    """Adapters one after another; without the head of one, its values are those of an unknown device."""
    found = span(lines, start, lambda text: _BEGINS.match(text) or _TITLES.match(f"{text} ") or _PORT.match(text)
                 or _OTHER.match(text) or _GID_ROW.match(text))  # fmt: skip
    ports = _Ports()
    for line in found.lines:
        _take(ports, line)
    rows = tuple(ports.rows.values())
    whole = frozenset(
        {"rdma_ports"} if rows and lines[start].bare.startswith(("CA '", "Infiniband device", "hca_id")) else ()
    )
    active = sum(row.state == "active" for row in rows)
    return Parsed(found.end, rows, whole, f"{len(rows)} ports, {active} active")


def _take(ports: _Ports, line: Line) -> None:
    bare = line.bare
    if head := _HEAD.match(bare):
        ports.device, ports.port, ports.firmware = head["device"], int(head["port"] or 1), None
    elif port := _PORT.match(bare):
        ports.port = int(port["port"])
        ports.add(line)
    elif counted := _COUNTER.match(bare):
        key = (counted["device"], int(counted["port"]))
        known = ports.rows[key].counters if key in ports.rows else None
        ports.add(line, *key, counters={**(known or {}), counted["name"]: int(counted["value"])})
    elif gid := _GID_ROW.match(bare):
        kind = {"v1": "RoCE v1", "v2": "RoCE v2"}.get(gid["type"], gid["type"])
        _add_gid(ports, line, f"{gid['index']} {gid['gid']} {kind}", gid["device"], int(gid["port"]))
    elif value := _VALUE.match(bare):
        _take_value(ports, line, value["name"].strip(), (value["value"] or "").strip())


def _add_gid(ports: _Ports, line: Line, text: str, device: str | None = None, port: int | None = None) -> None:
    key = (device or ports.device, ports.port if port is None else port)
    known = ports.rows[key].gids if key in ports.rows else None
    ports.add(line, *key, gids=(*(known or ()), text))


def _take_value(ports: _Ports, line: Line, name: str, value: str) -> None:
    lower = name.lower()
    if lower in ("firmware version", "fw_ver"):
        ports.firmware = value
    elif lower == "state":
        word = re.sub(r"PORT_|^\d+: |\s*\(\d+\)|ize$", "", value).strip().upper()
        ports.add(line, state=_STATES.get(word, "unknown"))
    elif lower in ("physical state", "phys state", "phys_state"):
        ports.add(line, physical=re.sub(r"^\d+: |\s*\(\d+\)", "", value))
    elif lower in ("link layer", "link_layer"):
        ports.add(line, layer={"infiniband": "infiniband", "ethernet": "ethernet"}.get(value.lower(), "unknown"))
    elif lower == "rate":
        ports.add(line, rate=number(value))
    elif lower.startswith("gid["):
        gid, _, kind = value.partition(",")
        _add_gid(ports, line, f"{whole(lower[4:].strip(' ]'))} {gid.strip()} {kind.strip()}".rstrip())


PARSERS = (
    Parser("setpci", re.compile(rf"{_SLOT} \(cap 0d @"), parse_setpci),
    Parser("lspci", re.compile(rf"{_DEVICE_BEGIN}|ACSCtl:\s*SrcValid"), parse_lspci),
    Parser("rdma-ports", _BEGINS, parse_ports),
)
