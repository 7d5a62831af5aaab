"""PCI bridges and RDMA ports, as lspci and the InfiniBand tools print them."""

from __future__ import annotations

from parsing import blocks_of, only, rows_of
from programs import FIXTURES

from flatline.bundle.facts import PciAcs, RdmaPort

FOLDER = FIXTURES / "pasted" / "interconnect"


def ports(name: str) -> list[RdmaPort]:
    return rows_of(only((FOLDER / name).read_text(), "rdma-ports"), RdmaPort)


def test_ibstat_tells_state_layer_and_rate_of_every_port():
    down, active = ports("ibstat.txt")
    assert (down.device, down.state, down.physical, down.layer, down.rate) == (
        "mlx5_3",
        "down",
        "Polling",
        "infiniband",
        10.0,
    )
    assert (active.device, active.state, active.layer, active.firmware) == (
        "mlx5_4",
        "active",
        "ethernet",
        "28.39.2048",
    )


def test_ibstatus_and_ibv_devinfo_tell_it_in_other_words():
    (first,) = ports("ibstatus.txt")
    assert (first.device, first.state, first.physical, first.rate) == ("mlx5_0", "init", "LinkUp", 100.0)
    (second,) = ports("ibv_devinfo.txt")
    assert (second.device, second.state, second.layer) == ("mlx5_1", "active", "ethernet")
    assert second.gids == ("0 fe80:0000:0000:0000:0000:00ff:fe00:0001 RoCE v1", "3 ::ffff:192.0.2.77 RoCE v2")


def test_show_gids_tells_which_index_is_which_version():
    (port,) = ports("show_gids.txt")
    assert [gid.split()[0] + " " + gid.split(maxsplit=2)[2] for gid in port.gids] == ["0 RoCE v1", "3 RoCE v2"]


def test_counters_and_a_part_of_ibv_devinfo_are_enough():
    text = "/sys/class/infiniband/mlx5_2/ports/1/hw_counters/out_of_sequence:7\n/sys/class/infiniband/mlx5_2/ports/1/hw_counters/local_ack_timeout_err:73"
    (port,) = rows_of(only(text, "rdma-ports"), RdmaPort)
    assert (port.device, port.counters) == ("mlx5_2", {"out_of_sequence": 7, "local_ack_timeout_err": 73})
    (part,) = rows_of(only("link_layer:\t\tEthernet\nGID[  0]:\t\tfe80::1, RoCE v1", "rdma-ports"), RdmaPort)
    assert (part.device, part.layer, part.gids) == ("unknown", "ethernet", ("0 fe80::1 RoCE v1",))


def test_the_bridge_above_a_line_of_acs_is_named():
    (row,) = rows_of(only((FOLDER / "lspci-vvv.txt").read_text(), "lspci"), PciAcs)
    assert (row.bus_id, row.redirects, row.validates) == ("00000000:17:00.0", True, True)
    assert row.name.startswith("PCI bridge: Example Devices")


def test_lines_that_grep_left_are_rows_without_a_bridge():
    text = "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
    off, on = rows_of(only(text, "lspci"), PciAcs)
    assert (off.validates, on.validates, on.redirects, on.bus_id, on.line) == (False, True, False, None, 2)


def test_an_error_after_a_listing_is_not_of_it():
    kinds = [b.kind for b in blocks_of((FOLDER / "ibstatus.txt").read_text() + "Error: connection refused")]
    assert kinds == ["rdma-ports", "log"]


def test_the_register_of_acs_says_what_a_bridge_does():
    text = "0000:17:00.0 (cap 0d @148) @14e = 001d\n0000:17:04.0 (cap 0d @148) @14e = 0000\n"
    rows = rows_of(only(text, "setpci"), PciAcs)
    assert [(row.validates, row.redirects) for row in rows] == [(True, True), (False, False)]
