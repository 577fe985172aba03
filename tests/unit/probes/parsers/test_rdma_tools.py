"""Test the parsers of the RDMA tools (such as ibstat and mlxlink) with their outputs and with other text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.facts import Nic
from probes.facts.named import count_of
from probes.parsers.fabric import (
    fabric_maps,
    fi_info,
    ibv_devinfo,
    mlxlink,
    rdma_lists,
    rdma_words,
)
from probes.parsers.fabric import infiniband_files as infiniband

IBSTAT = """CA 'mlx5_3'
	CA type: MT4129
	Number of ports: 1
	Firmware version: 28.40.1000
	Node GUID: 0x946dae0300aa0b01
	Port 1:
		State: Initializing
		Physical state: LinkUp
		Rate: 400
		Base lid: 65535
		SM lid: 0
		Port GUID: 0x946dae0300aa0b02
		Link layer: InfiniBand
ibpanic: [77] main: stat of IB device 'mlx5_4' failed: No such file or directory
"""
IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
	default gid:	 fe80:0000:0000:0000:946d:ae03:00aa:0b01
	base lid:	 0x1f
	sm lid:		 0x2
	state:		 4: ACTIVE
	phys state:	 5: LinkUp
	rate:		 100 Gb/sec (2X HDR)
	link_layer:	 InfiniBand
"""
DEVINFO = """hca_id:	mlx5_1
	transport:			InfiniBand (0)
	fw_ver:				26.41.1002
	node_guid:			b8ce:f603:00bb:0c01
	sys_image_guid:			b8ce:f603:00bb:0c01
	vendor_id:			0x02c9
	vendor_part_id:			4129
	hw_ver:				0x0
	board_id:			MT_0000000838
	phys_port_cnt:			1
		port:	1
			state:			PORT_DOWN (1)
			max_mtu:		4096 (5)
			active_mtu:		1024 (3)
			sm_lid:			0
			port_lid:		0
			link_layer:		Ethernet
			active_width:		4X (2)
			active_speed:		25.0 Gbps (32)
			phys_state:		DISABLED (3)
			GID[  0]:		fe80::bace:f6ff:febb:c01, RoCE v1
			GID[  3]:		::ffff:192.0.2.9, RoCE v2

hca_id:	rdmap16s27
	vendor_id:			0x1d0f
	vendor_part_id:			61345
		port:	1
			state:			PORT_ACTIVE (4)
			active_mtu:		4096 (5)
			link_layer:		Unspecified
"""
NETDEV = """mlx5_0 port 1 ==> ib0 (Up)
0000:3b:00.1 mlx5_1 (MT4125 - MCX623106AN-CDAT) ConnectX-6 Dx EN adapter card fw 22.38.1002 port 1 (DOWN  ) \
==> ens3f1 (Down)
"""
RDMA = """link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 31 sm_lid 2 lmc 0 state ACTIVE physical_state \
LINK_UP
link mlx5_1/1 state DOWN physical_state DISABLED netdev ens3f1
0/1: irdma0/1: state INIT physical_state LINK_UP netdev eno3
"""
GIDS = """DEV	PORT	INDEX	GID					IPv4  		VER	DEV
---	----	-----	---					------------  	---	---
mlx5_2	1	0	fe80:0000:0000:0000:ba59:9fff:fe01:0203			v1	ens1
mlx5_2	1	3	0000:0000:0000:0000:0000:ffff:c000:0209	192.0.2.9  	v2	ens1
n_gids_found=2
"""
MLXLINK = """user@node:~$ mlxlink -d mlx5_6 -c
Operational Info
----------------
State                              : Polling
Physical state                     : ETH_AN_FSM_ENABLE
Speed                              : N/A
Width                              : N/A
FEC                                : N/A

Troubleshooting Info
--------------------
Recommendation                     : Cable is unplugged

Physical Counters and BER Info
------------------------------
Effective Physical BER             : 3E-13
Raw Physical BER                   : 2E-5
Link Down Counter                  : 4
Symbol Errors                      : 12

-E- The "--margin" option is not supported
"""
PERFQUERY = """# Port counters: Lid 31 port 1 (CapMask: 0x5A00)
PortSelect:......................1
SymbolErrorCounter:..............7
LinkDownedCounter:...............2
PortXmitDiscards:................99
VL15Dropped:.....................3
"""
FI_INFO = """provider: efa
---
fi_info:
    fi_domain_attr:
        name: rdmap16s27-rdm
    fi_fabric_attr:
        prov_name: efa
    nic:
        fi_device_attr:
            name: rdmap16s27
            driver: efa
            firmware: (null)
        fi_bus_attr:
            bus_type: FI_BUS_PCI
            fi_pci_attr:
                domain_id: 0
                bus_id: 16
                device_id: 27
                function_id: 0
        fi_link_attr:
            mtu: 8900
            speed: 200000000000
            state: FI_LINK_DOWN
            network_type: Ethernet
"""
LIST = "VM_hostname node1\n946dae0300aa0b01\nVM_hostname node2\n946dae0300aa0b02\n"

TEXTS = {
    infiniband.recognise: IBSTAT,
    rdma_lists.recognise_ibstatus: IBSTATUS,
    ibv_devinfo.recognise: DEVINFO,
    rdma_lists.recognise_ibdev2netdev: NETDEV,
    rdma_lists.recognise_rdma_link: RDMA,
    rdma_lists.recognise_show_gids: GIDS,
    mlxlink.recognise: MLXLINK,
    rdma_lists.recognise_perfquery: PERFQUERY,
    fi_info.recognise: FI_INFO,
    fabric_maps.recognise_guid_list: LIST,
}
PARSERS = (
    infiniband.parse_ibstat,
    rdma_lists.parse_ibstatus,
    ibv_devinfo.parse_nics,
    rdma_lists.parse_ibdev2netdev,
    rdma_lists.parse_rdma_link,
    rdma_lists.parse_show_gids,
    mlxlink.parse_nics,
    rdma_lists.parse_perfquery,
    fi_info.parse_nics,
)


@pytest.mark.parametrize(("recognise", "text"), TEXTS.items())
def test_each_text_is_recognised_only_by_its_own_parser(recognise: Callable[[str], bool], text: str) -> None:
    assert [other for other in TEXTS if other(text)] == [recognise]


def test_ibstat_contains_all_fields_and_a_vanished_device() -> None:
    port, gone = infiniband.parse_ibstat(IBSTAT)
    assert (port.name, port.state, port.physical_state, port.rate_gbps) == ("mlx5_3", "INIT", "LinkUp", 400.0)
    assert (port.node_guid, port.port_guid) == ("946d:ae03:00aa:0b01", "946d:ae03:00aa:0b02")
    assert (port.lid, port.sm_lid, port.link_layer, port.firmware_version) == (
        65535,
        0,
        "InfiniBand",
        "28.40.1000",
    )
    assert (gone.name, isinstance(gone.state, Unknown) and gone.state.reason) == ("mlx5_4", Reason.ERROR)
    (line,) = infiniband.unread_ibstat(IBSTAT)
    assert (line.line, line.text[:7]) == (14, "ibpanic")


def test_ibstat_of_a_card_without_a_name_for_its_type() -> None:
    text = "CA 'mlx5_0'\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Initializing\n\t\tRate: 100\n"
    assert infiniband.recognise(text)
    (port,) = infiniband.parse_ibstat(text)
    assert (port.name, port.state, port.rate_gbps) == ("mlx5_0", "INIT", 100.0)


def test_a_device_whose_ports_were_cut_off_is_there() -> None:
    text = (
        "hca_id: mlx5_0\n\tport: 1\n\t\tstate: PORT_ACTIVE (4)\nhca_id: mlx5_1\n\tvendor_part_id: 4129\n"
        "\tphys_port_cnt: 1\n"
    )
    first, second = ibv_devinfo.parse_nics(text)
    assert (first.name, first.state) == ("mlx5_0", "ACTIVE")
    assert (second.name, second.port) == ("mlx5_1", 1)
    assert isinstance(second.state, Unknown)


def test_ibdev2netdev_in_columns_and_with_remarks() -> None:
    text = "mlx5_0   port  1  ==>  ibp26s0        (Down)  # rail 1 of 8\n"
    assert rdma_lists.recognise_ibdev2netdev(text)
    (nic,) = rdma_lists.parse_ibdev2netdev(text)
    assert (nic.name, nic.netdev, nic.netdev_up) == ("mlx5_0", "ibp26s0", False)


def test_ibstatus() -> None:
    (port,) = rdma_lists.parse_ibstatus(IBSTATUS)
    assert (port.state, port.rate_gbps, port.lanes, port.speed) == ("ACTIVE", 100.0, 2, "HDR")
    assert (port.lid, port.sm_lid, port.port_guid) == (31, 2, "946d:ae03:00aa:0b01")


def test_ibv_devinfo_of_roce_and_efa() -> None:
    roce, efa = ibv_devinfo.parse_nics(DEVINFO)
    assert (roce.device_type, roce.board_id, roce.state, roce.physical_state) == (
        "MT4129",
        "MT_0000000838",
        "DOWN",
        "Disabled",
    )
    assert (roce.mtu, roce.mtu_max, roce.rate_gbps, roce.speed, roce.lanes) == (1024, 4096, 100.0, "EDR", 4)
    assert isinstance(roce.gids, tuple)
    assert [(gid.index, gid.kind, gid.address) for gid in roce.gids] == [
        (0, "RoCE v1", None),
        (3, "RoCE v2", "192.0.2.9"),
    ]
    assert (efa.device_type, efa.state, efa.mtu, isinstance(efa.link_layer, Unknown)) == (
        "efa",
        "ACTIVE",
        4096,
        True,
    )


def test_ibdev2netdev_plain_and_verbose() -> None:
    plain, verbose = rdma_lists.parse_ibdev2netdev(NETDEV)
    assert (plain.netdev, plain.netdev_up, isinstance(plain.pci_bus_id, Unknown)) == ("ib0", True, True)
    assert (verbose.pci_bus_id, verbose.device_type, verbose.firmware_version) == (
        "0000:3b:00.1",
        "MT4125",
        "22.38.1002",
    )
    assert (verbose.state, verbose.netdev, verbose.netdev_up) == ("DOWN", "ens3f1", False)


def test_rdma_link_old_and_new() -> None:
    infini, roce, old = rdma_lists.parse_rdma_link(RDMA)
    assert (infini.link_layer, infini.lid, infini.sm_lid, infini.state) == ("InfiniBand", 31, 2, "ACTIVE")
    assert (roce.state, roce.physical_state, roce.netdev) == ("DOWN", "Disabled", "ens3f1")
    assert (old.name, old.state, old.netdev) == ("irdma0", "INIT", "eno3")


def test_show_gids() -> None:
    (port,) = rdma_lists.parse_show_gids(GIDS)
    assert isinstance(port.gids, tuple)
    assert [(gid.index, gid.kind, gid.address, gid.netdev) for gid in port.gids] == [
        (0, "RoCE v1", None, "ens1"),
        (3, "RoCE v2", "192.0.2.9", "ens1"),
    ]


def test_mlxlink_of_an_unplugged_port() -> None:
    (port,) = mlxlink.parse_nics(MLXLINK)
    assert (port.name, port.state, port.advice) == ("mlx5_6", "DOWN", "Cable is unplugged")
    assert (port.bit_error_rate, port.pre_fec_bit_error_rate) == (3e-13, 2e-5)
    assert isinstance(port.rate_gbps, Unknown)
    assert isinstance(port.counters, tuple)
    assert (count_of(port.counters, "link_downed"), count_of(port.counters, "symbol_error")) == (4, 12)


def test_mlxlink_in_json() -> None:
    text = (
        "# mlxlink -d mlx5_6 "
        '--json\n{"result": {"output": {"Operational Info": {"Speed": "IB-NDR", "State": "Active", '
        '"Physical state": "LinkUp", "Width": "4x"}, "Troubleshooting Info": {"Recommendation": "No issue '
        'was observed"}}}}'
    )
    assert mlxlink.recognise(text)
    (nic,) = mlxlink.parse_nics(text)
    assert (nic.name, nic.state, nic.speed, nic.lanes, nic.evidence) == ("mlx5_6", "ACTIVE", "NDR", 4, ())


def test_perfquery_has_the_names_of_sysfs() -> None:
    (port,) = rdma_lists.parse_perfquery(PERFQUERY)
    assert isinstance(port.counters, tuple)
    names = ("symbol_error", "link_downed", "port_xmit_discards", "VL15_dropped")
    assert (port.name, port.lid, [count_of(port.counters, name) for name in names]) == ("", 31, [7, 2, 99, 3])


def test_fi_info() -> None:
    (port,) = fi_info.parse_nics(FI_INFO)
    assert (port.name, port.state, port.rate_gbps, port.mtu) == ("rdmap16s27", "DOWN", 200.0, 8900)
    assert (port.device_type, port.pci_bus_id) == ("efa", "0000:10:1b.0")


def test_guid_list() -> None:
    assert fabric_maps.hosts_by_guid(LIST) == {"946d:ae03:00aa:0b01": "node1", "946d:ae03:00aa:0b02": "node2"}


@pytest.mark.parametrize("text", ["node_guid", "", "0x", "0x1234567890abcdef0", "g00d:0000:0000:0000"])
def test_no_guid_is_unknown(text: str) -> None:
    assert isinstance(rdma_words.guid(text), Unknown)


@pytest.mark.parametrize("text", ["N/A (no PMA)", "", "-1", "9" * 5000, "1e3", "inf"])
def test_no_counter_is_unknown(text: str) -> None:
    assert isinstance(rdma_words.whole_number(text), Unknown)


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for recognise in TEXTS:
        assert recognise(text) in (True, False)
    for parse in PARSERS:
        assert isinstance(parse(text), tuple)
    assert isinstance(fabric_maps.hosts_by_guid(text), dict)
    assert isinstance(infiniband.unread_ibstat(text), tuple)


@given(st.sampled_from(list(TEXTS.values())), st.data())
def test_a_text_that_is_cut_or_mixed_up_invents_no_port(text: str, data: st.DataObject) -> None:
    lines = text.splitlines(keepends=True)
    start = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    noise = data.draw(st.text(max_size=30))
    mutated = "".join(lines[:start]) + noise + "\n" + "".join(lines[end:])
    for parse in PARSERS:
        names = {nic.name for nic in parse(text)} | {"unnamed", ""}
        assert {nic.name for nic in parse(mutated) if isinstance(nic, Nic) and nic.name not in noise} <= names
