"""Cases of the check that compares a machine with its description."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.facts import ExpectedDevice, ExpectedPort, MachineFacts, PciDevice, PcieLink, Profile
from tests.support.check_case import NODE, NOT_RECORDED, Case

GPU, CARD, DISK, SWITCH = "0000:19:00.0", "0000:1a:00.0", "0000:05:00.0", "0000:c4:00.0"
DEVICES = (
    ExpectedDevice(bus_id=GPU, kind="gpu", slot="GPU_0", generations=(5,), width=16),
    ExpectedDevice(bus_id=CARD, kind="ib", slot="PCIE_0", generations=(5,), width=16),
    ExpectedDevice(bus_id=DISK, kind="nvme", slot="U.2_0", generations=(3, 4), width=4),
    ExpectedDevice(bus_id=SWITCH, kind="pci", slot="NVSW", is_critical=True),
)
PORTS = (ExpectedPort(name="mlx5_0", link_layer="InfiniBand", rate_gbps=400.0),)


def present(**changes: Any) -> tuple[PciDevice, ...]:
    """The devices of the profile; a change is a link, or None for a device that is gone."""
    link = PcieLink(generation=1, generation_max=5, width=16, width_max=16)
    disk = PcieLink(generation=4, generation_max=4, width=4, width_max=4)
    links: dict[str, Any] = {"gpu": link, "rdma": link, "nvme": disk, "nvswitch": PcieLink()} | changes
    addresses = {"gpu": GPU, "rdma": CARD, "nvme": DISK, "nvswitch": SWITCH}
    return tuple(
        PciDevice(bus_id=addresses[kind], kind=kind, pcie=pcie)  # type: ignore[arg-type]
        for kind, pcie in links.items()
        if pcie is not None
    )


def node(devices: Any, **profile: Any) -> MachineFacts:
    return msgspec.structs.replace(
        NODE, pci_devices=devices, profile=Profile(devices=DEVICES, ports=PORTS, **profile)
    )


def ports(profile: Profile) -> MachineFacts:
    return msgspec.structs.replace(NODE, pci_devices=present(), profile=profile)


MOVED = (*present(gpu=None), PciDevice(bus_id="0000:2a:00.0", kind="gpu"))
SLOW_PORT = Profile(ports=(ExpectedPort(name="mlx5_0", link_layer="InfiniBand", rate_gbps=800.0),))
OTHER_PORT = Profile(ports=(ExpectedPort(name="mlx5_40", link_layer="InfiniBand"),))

DESCRIPTION_CASES = (
    Case("profile-match", "no profile", NODE, ("SKIP host",)),
    Case("profile-match", "all there", node(present()), ("PASS host",)),
    Case("profile-match", "bus not read", node(NOT_RECORDED), ("UNKNOWN host",)),
    Case("profile-match", "GPU gone", node(present(gpu=None)), ("FAIL GPU_0",)),
    Case("profile-match", "GPU elsewhere", node(MOVED), ("FAIL GPU_0",)),
    Case("profile-match", "critical device gone", node(present(nvswitch=None)), ("FAIL NVSW",)),
    Case("profile-match", "disk gone", node(present(nvme=None)), ("WARN U.2_0",)),
    Case(
        "profile-match",
        "narrow",
        node(present(rdma=PcieLink(generation=5, generation_max=5, width=8, width_max=16))),
        ("WARN PCIE_0",),
    ),
    Case(
        "profile-match", "slow slot", node(present(gpu=PcieLink(generation_max=4, width=16))), ("WARN GPU_0",)
    ),
    Case("profile-match", "slow port", ports(SLOW_PORT), ("WARN mlx5_0",)),
    Case(
        "profile-match",
        "no such port",
        msgspec.structs.replace(NODE, pci_devices=present(), profile=OTHER_PORT),
        ("FAIL mlx5_40",),
    ),
)
