"""Descriptions that a person gives: the expected machine, and the cluster around it.

They are not observations.
"""

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown


class ExpectedDevice(Record, kw_only=True):
    """A PCI device that should be at an address."""

    bus_id: str
    kind: str
    """Kind, as the profile names it: `gpu`, `ib`, `net`, `nvme`, `pci`."""
    name: str = ""
    """Path of the device: `/dev/nvidia0`, `/sys/class/net/ib0`."""
    slot: str = ""
    generations: tuple[int, ...] = ()
    """PCIe generations that the device's link may have; empty if the profile names none."""
    width: int | None = None
    is_critical: bool = False
    """True if the profile marks the device as critical for the topology."""


class ExpectedPort(Record, kw_only=True):
    """A network port that should exist."""

    name: str
    """The RDMA device (`mlx5_0`), or the interface if there is no RDMA device."""
    netdev: str | None = None
    link_layer: str
    """`InfiniBand` or `Ethernet`."""
    rate_gbps: float | None = None
    mtu: int | None = None
    firmware_versions: tuple[str, ...] = ()
    """Accepted versions; empty if any version is accepted."""


class Profile(Record, kw_only=True):
    """An expected hardware profile."""

    devices: tuple[ExpectedDevice, ...] | Unknown = NOT_RECORDED
    ports: tuple[ExpectedPort, ...] | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Cluster(Record, kw_only=True):
    """A model of a cluster: its switch tree and the nodes below."""

    nodes: int | Unknown = NOT_RECORDED
    switches: int | Unknown = NOT_RECORDED
    tiers: int | Unknown = NOT_RECORDED
    """Levels of switches, from the top level to the switches to which nodes connect."""
    nvlink_domains: int | Unknown = NOT_RECORDED
    nodes_per_domain: tuple[int, ...] | Unknown = NOT_RECORDED
    """Nodes of each NVLink domain, in the order of the text."""
    evidence: tuple[EvidenceRef, ...] = ()
