"""Outputs of lspci: verbose, short, as a tree, for scripts, and single lines of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.parsers.topology.lspci import parse_devices, parse_gpus, parse_links, parse_nics, recognise
from tests.support.damage import damaged

VERBOSE = """\
15:01.0 PCI bridge: Intel Corporation Device 352a (rev 10) (prog-if 00 [Normal decode])
\tControl: I/O- Mem+ BusMaster+
\tNUMA node: 1
\tBus: primary=15, secondary=16, subordinate=1a, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+ NonFatalErr+
\t\t\tMaxPayload 256 bytes, MaxReadReq 128 bytes
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x16
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

16:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
\tControl: I/O- Mem+ BusMaster+
\tNUMA node: 1
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
\tKernel driver in use: nvidia

17:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\tControl: I/O- Mem+ BusMaster+
\tCapabilities: <access denied>
"""


def test_a_verbose_listing_is_a_tree_with_links_and_settings() -> None:
    bridge, gpu, nic = parse_devices(VERBOSE)
    assert (bridge.bus_id, bridge.kind, bridge.parent, bridge.numa_node) == (
        "0000:15:01.0",
        "bridge",
        None,
        1,
    )
    assert bridge.acs == (
        "source_validation",
        "request_redirect",
        "completion_redirect",
        "upstream_forwarding",
    )
    assert (bridge.max_payload_bytes, bridge.max_payload_supported_bytes, bridge.driver) == (
        256,
        512,
        "pcieport",
    )
    assert (gpu.kind, gpu.device_id, gpu.parent, gpu.acs) == ("gpu", "10de:2330", "0000:15:01.0", None)
    assert (gpu.pcie.generation, gpu.pcie.generation_max, gpu.pcie.width, gpu.pcie.width_max) == (1, 5, 8, 16)
    assert (gpu.downgraded, gpu.max_read_request_bytes) == (("speed", "width"), 4096)
    assert nic.kind == "rdma"
    assert isinstance(nic.acs, Unknown)
    assert nic.acs.reason is Reason.PERMISSION
    assert gpu.evidence[0].detail == "line 16"


def test_gpus_and_nics_are_named_by_what_is_known() -> None:
    (gpu,) = parse_gpus(VERBOSE)
    (nic,) = parse_nics(VERBOSE)
    assert (gpu.index, gpu.name, gpu.pci_bus_id) == (-1, "NVIDIA H100 80GB HBM3", "0000:16:00.0")
    assert (nic.name, nic.link_layer, nic.pci_bus_id) == ("", "InfiniBand", "0000:17:00.0")
    assert [(link.a, link.b, link.kind) for link in parse_links(VERBOSE.replace("17:00.0", "16:01.0"))] == [
        ("GPU0", "0000:16:01.0", "PIX")
    ]


@pytest.mark.parametrize(
    ("line", "kind", "device_id"),
    [
        (
            "0a:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)",
            "gpu",
            "10de:20b2",
        ),
        (
            "0001:00:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:1af1] (rev a1)",
            "nvswitch",
            "10de:1af1",
        ),
        ("1a:00.0 0207: 15b3:1021", "rdma", "15b3:1021"),
        (
            "03:00.0 Ethernet controller: Intel Corporation I350 Gigabit Network Connection (rev 01)",
            "ethernet",
            NOT_RECORDED,
        ),
        (
            "05:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 52)",
            "other",
            NOT_RECORDED,
        ),
        (
            "c1:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Device "
            "[1002:74a1]",
            "gpu",
            "1002:74a1",
        ),
        (
            "02:00.0 Non-Volatile memory controller: Samsung Electronics Co Ltd NVMe SSD Controller",
            "nvme",
            NOT_RECORDED,
        ),
    ],
)
def test_short_forms(line: str, kind: str, device_id: object) -> None:
    assert recognise(line)
    (device,) = parse_devices(line)
    assert (device.kind, device.device_id) == (kind, device_id)


@pytest.mark.parametrize(
    ("line", "generation", "most", "downgraded"),
    [
        ("LnkSta: Speed 16GT/s (ok), Width x16 (ok)", 4, 4, ()),
        ("\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)", 1, NOT_RECORDED, ("speed",)),
    ],
)
def test_a_link_line_alone_names_no_device(
    line: str, generation: int, most: object, downgraded: tuple[str, ...]
) -> None:
    assert recognise(line)
    (device,) = parse_devices(line)
    assert (device.bus_id, device.pcie.generation, device.pcie.generation_max) == ("", generation, most)
    assert device.downgraded == downgraded


TREE = """\
-+-[0000:b2]-+-00.0  Intel Corporation Ice Lake Memory Map/VT-d
 |           +-02.0-[b3-b6]----00.0-[b4-b6]--+-00.0-[b5]----00.0  NVIDIA Corporation GA100 [A100 SXM4 80GB] \
[10de:20b2]
 |           |                               \\-10.0-[b6]--+-00.0  Mellanox Technologies MT28908 Family \
[ConnectX-6]
 |           |                                            \\-00.1  NVIDIA Corporation GA102 High Definition \
Audio Controller
 \\-[0001:00]---02.0-[01]--
"""


def test_a_tree_shows_places_and_the_kinds_that_names_imply() -> None:
    assert recognise(TREE)
    devices = {device.bus_id: device for device in parse_devices(TREE)}
    assert [(address, device.kind, device.parent) for address, device in devices.items()] == [
        ("0000:b2:00.0", "other", None),
        ("0000:b2:02.0", "bridge", None),
        ("0000:b3:00.0", "bridge", "0000:b2:02.0"),
        ("0000:b4:00.0", "bridge", "0000:b3:00.0"),
        ("0000:b5:00.0", "gpu", "0000:b4:00.0"),
        ("0000:b4:10.0", "bridge", "0000:b3:00.0"),
        ("0000:b6:00.0", "rdma", "0000:b4:10.0"),
        ("0000:b6:00.1", "other", "0000:b4:10.0"),
        ("0001:00:02.0", "bridge", None),
    ]
    assert (devices["0000:b5:00.0"].device_id, devices["0000:b5:00.0"].evidence[0].detail) == (
        "10de:20b2",
        "line 2",
    )
    assert [(link.a, link.b, link.kind) for link in parse_links(TREE)] == [("GPU0", "0000:b6:00.0", "PIX")]


def test_a_tree_without_names_has_only_places_and_adds_them_to_a_list_without_places() -> None:
    tree = "-[0000:00]-+-00.0\n           \\-01.1-[81]----00.0\n"
    assert {device.kind for device in parse_devices(tree)} == {"other", "bridge"}
    (gpu, *_) = parse_devices(f"81:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n{tree}")
    assert (gpu.kind, gpu.parent) == ("gpu", "0000:00:01.1")


def test_a_tree_whose_lines_are_cut_invents_nothing() -> None:
    assert parse_devices(TREE.split("\n", 3)[3]) == parse_devices("\n".join(TREE.splitlines()[3:]))
    assert {device.bus_id for device in parse_devices("\n".join(TREE.splitlines()[2:]))} == {"0001:00:02.0"}


MACHINE = """\
Slot:\t17:00.0
Class:\t3D controller [0302]
Vendor:\tNVIDIA Corporation [10de]
Device:\tGH100 [H100 SXM5 80GB] [2330]
Rev:\tff
NUMANode:\t1
PhySlot:\t4
"""


@pytest.mark.parametrize(
    ("text", "kind", "device_id"),
    [
        (MACHINE, "gpu", "10de:2330"),
        (MACHINE.replace(" [0302]", "").replace(" [10de]", "").replace(" [2330]", ""), "gpu", NOT_RECORDED),
        ('3b:00.0 "0302" "10de" "20b5" -ra1 "10de" "1533"', "gpu", "10de:20b5"),
        (
            '18:00.0 "Infiniband controller" "Mellanox Technologies" "MT27800 Family" "" ""',
            "rdma",
            NOT_RECORDED,
        ),
    ],
)
def test_the_forms_for_scripts(text: str, kind: str, device_id: object) -> None:
    assert recognise(text)
    (device,) = parse_devices(text)
    assert (device.kind, device.device_id) == (kind, device_id)
    if text.startswith("Slot"):
        assert (device.numa_node, device.slot, device.responds) == (1, "4", False)


def test_a_device_that_reads_as_all_ones_is_gone() -> None:
    short = "b1:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev ff)"
    verbose = VERBOSE.replace(
        "\tNUMA node: 1\n\tCapabilities", "\t!!! Unknown header type 7f\n\tCapabilities"
    )
    assert parse_devices(short)[0].responds is False
    assert [device.responds for device in parse_devices(verbose)] == [NOT_RECORDED, False, NOT_RECORDED]


def test_single_lines_of_acs_controls_are_each_a_bridge_without_a_name() -> None:
    line = "\t\tACSCtl:\tSrcValid{} TransBlk- ReqRedir{} CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n"
    text = line.format("-", "-") + line.format("+", "+")
    assert recognise(text)
    assert [(device.bus_id, device.acs) for device in parse_devices(text)] == [
        ("", ()),
        ("", ("source_validation", "request_redirect")),
    ]


@pytest.mark.parametrize(
    "text", ["", "pci 0000:19:00.0: [10de:2330] type 00", "GPU0 X NV18", "12:00:00.1 up 3 days: fine"]
)
def test_other_texts_are_not_recognised_and_have_no_devices(text: str) -> None:
    assert not recognise(text)
    assert parse_devices(text) == ()


@given(st.one_of(st.text(max_size=400), damaged(VERBOSE), damaged(TREE), damaged(MACHINE)))
def test_damage_raises_nothing_and_invents_no_address(text: str) -> None:
    recognise(text)
    for device in parse_devices(text):
        assert (
            device.bus_id == ""
            or device.bus_id.removeprefix("0000:")[:5] in text.lower()
            or device.bus_id[:12] in text.lower()
            or device.bus_id[-4:] in text
        )
    parse_gpus(text), parse_nics(text), parse_links(text)
