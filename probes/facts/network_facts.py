"""Facts of the network: RDMA ports, kernel interfaces, and the InfiniBand fabric behind them."""

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown
from probes.facts.gpu_facts import PcieLink
from probes.facts.named import Count, State


class Gid(Record, kw_only=True):
    """An entry of a port's GID table that is not zero."""

    index: int
    gid: str
    kind: str | Unknown = NOT_RECORDED
    """Type of the GID: `IB`, `RoCE v1` or `RoCE v2`."""
    address: str | None = None
    """The IPv4 address that the GID contains, if any."""
    netdev: str | Unknown | None = NOT_RECORDED


class Nic(Record, kw_only=True):
    """A port of an RDMA device (InfiniBand, RoCE, EFA)."""

    name: str
    port: int = 1
    link_layer: str | Unknown = NOT_RECORDED
    """Link layer: `InfiniBand` or `Ethernet`."""
    state: str | Unknown = NOT_RECORDED
    """Logical state in upper case: `ACTIVE`, `INIT`, `ARMED`, `DOWN`."""
    physical_state: str | Unknown = NOT_RECORDED
    """Physical state: `LinkUp`, `Polling`, `Disabled` ..."""
    rate_gbps: float | Unknown = NOT_RECORDED
    lanes: int | Unknown = NOT_RECORDED
    """Link width: 4 for `4X NDR`."""
    speed: str | Unknown = NOT_RECORDED
    """Name of the speed of one lane: `QDR`, `EDR`, `HDR`, `NDR`, `XDR`."""
    device_type: str | Unknown = NOT_RECORDED
    firmware_version: str | Unknown = NOT_RECORDED
    board_id: str | Unknown = NOT_RECORDED
    """The vendor's parameter set (PSID), the same for all cards of one kind."""
    node_guid: str | Unknown = NOT_RECORDED
    """GUID in lower case hex digits in groups of four: `946d:ae03:0012:3456`."""
    port_guid: str | Unknown = NOT_RECORDED
    lid: int | Unknown = NOT_RECORDED
    sm_lid: int | Unknown = NOT_RECORDED
    """LID of the subnet manager; 0 if the port has no subnet manager."""
    mtu: int | Unknown = NOT_RECORDED
    """The active RDMA MTU in bytes."""
    mtu_max: int | Unknown = NOT_RECORDED
    gids: tuple[Gid, ...] | Unknown = NOT_RECORDED
    pkeys: tuple[str, ...] | Unknown = NOT_RECORDED
    """Partition keys that are not zero: `0xffff`."""
    counters: tuple[Count, ...] | Unknown = NOT_RECORDED
    """Port and hardware counters by their sysfs names: `symbol_error`, `link_downed` ..."""
    traffic_class: int | Unknown = NOT_RECORDED
    """RoCE traffic class that the device forces; 0 if the device forces no class."""
    pre_fec_bit_error_rate: float | Unknown = NOT_RECORDED
    bit_error_rate: float | Unknown = NOT_RECORDED
    """Bit error rate after error correction."""
    fec: str | Unknown = NOT_RECORDED
    """Error correction as the tool names it: `RS-FEC - (544,514) + PLR`."""
    advice: str | Unknown | None = NOT_RECORDED
    """Advice of the card's own diagnosis (mlxlink); None if there is no issue."""
    pci_bus_id: str | Unknown = NOT_RECORDED
    numa_node: int | Unknown | None = NOT_RECORDED
    pcie: PcieLink = PcieLink()
    netdev: str | Unknown | None = NOT_RECORDED
    netdev_up: bool | Unknown | None = NOT_RECORDED
    """True if the network interface is up; None if there is no interface."""
    has_verbs_device: bool | Unknown = NOT_RECORDED
    """True if the device file /dev/infiniband/uverbs* exists for this process."""
    is_virtual_function: bool | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()


class Interface(Record, kw_only=True):
    """A network interface of the kernel."""

    name: str
    up: bool | Unknown = NOT_RECORDED
    speed_gbps: float | Unknown = NOT_RECORDED
    mtu: int | Unknown = NOT_RECORDED
    addresses: tuple[str, ...] | Unknown = NOT_RECORDED
    """Addresses with the prefix length: `10.0.0.5/24`."""
    is_virtual: bool | Unknown = NOT_RECORDED
    is_default_route: bool | Unknown = NOT_RECORDED
    bond: str | Unknown | None = NOT_RECORDED
    """The bond of which the interface is a member; None outside of a bond."""
    bond_members: tuple[str, ...] | Unknown | None = NOT_RECORDED
    """Members of the bond; None if the interface is not a bond."""
    carrier_changes: int | Unknown = NOT_RECORDED
    """Link changes since boot, up and down."""
    duplex: str | Unknown = NOT_RECORDED
    link_seen_by_bond: bool | Unknown | None = NOT_RECORDED
    """State of a member's link according to the bonding driver (MII status); None outside of a bond."""
    mtu_configured: int | Unknown | None = NOT_RECORDED
    """MTU in the host's network configuration; None if the configuration sets no MTU."""
    bond_configured: str | Unknown | None = NOT_RECORDED
    configured_name: str | Unknown = NOT_RECORDED
    """The name that the network configuration gives to this hardware address."""
    pci_bus_id: str | Unknown | None = NOT_RECORDED
    neighbour: str | Unknown | None = NOT_RECORDED
    """Switch and port at the other end according to LLDP: `leaf1 Ethernet3`."""
    evidence: tuple[EvidenceRef, ...] = ()


class FabricPort(Record, kw_only=True):
    """A cabled port of the InfiniBand fabric, as reported by a discovery tool."""

    node: str
    """Description of the node: `leaf-01`, `node17 mlx5_0`."""
    node_kind: str
    """Kind of the node: `switch` or `host`."""
    port: int
    peer: str | None = None
    """Description of the node at the other end; None for a link without partner."""
    peer_port: int | None = None
    width: int | Unknown = NOT_RECORDED
    speed: str | Unknown = NOT_RECORDED
    could_be: str | None = None
    """Width or speed that both ends of the link support but do not use, in the tool's words."""
    guid: str | Unknown = NOT_RECORDED
    """GUID of the node."""
    evidence: tuple[EvidenceRef, ...] = ()


class FabricSwitch(Record, kw_only=True):
    """A switch of the InfiniBand fabric, as reported by `ibswinfo`."""

    name: str | Unknown = NOT_RECORDED
    part_number: str | Unknown = NOT_RECORDED
    firmware_version: str | Unknown = NOT_RECORDED
    temperature_c: int | Unknown = NOT_RECORDED
    power_supplies: tuple[State, ...] | Unknown = NOT_RECORDED
    """Status of each power supply, in the order of their numbers: `OK`, `ERROR` or similar."""
    fans: tuple[State, ...] | Unknown = NOT_RECORDED
    evidence: tuple[EvidenceRef, ...] = ()
