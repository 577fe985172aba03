"""Parse `fi_info -v` of libfabric: the devices that its providers offer."""

from probes.base.record import NOT_RECORDED, Unknown, line_ref, only_known, value_or
from probes.facts import Nic
from probes.parsers.fabric.rdma_words import or_missing, whole_number
from probes.parsers.topology.pci_addresses import normal_address

_STATES = {"FI_LINK_UP": "ACTIVE", "FI_LINK_DOWN": "DOWN"}
_LARGEST_GBPS = 100_000


def recognise(text: str) -> bool:
    return "fi_info:" in text and ("fi_domain_attr:" in text or "fi_fabric_attr:" in text)


def parse_nics(text: str) -> tuple[Nic, ...]:
    """Return each hardware device once; several entries (one per endpoint type) offer the same device."""
    nics: dict[str, Nic] = {}
    section = ""
    entry: dict[str, str] = {}
    start = 0

    def finish_entry() -> None:
        name = entry.get("fi_device_attr.name", "")
        if name and name != "(null)":
            nics.setdefault(name, _nic(name, entry, start))
        entry.clear()

    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if words == "fi_info:":
            finish_entry()
            section, start = "", number
        elif words.endswith("_attr:") or words == "nic:":
            section = words[:-1]
        else:
            name, colon, value = words.partition(":")
            if colon:
                entry.setdefault(f"{section}.{name}", value.strip())
    finish_entry()
    return tuple(nics.values())


def _nic(name: str, entry: dict[str, str], line: int) -> Nic:
    gbps = value_or(whole_number(entry.get("fi_link_attr.speed", "")), 0) / 1e9
    layer = entry.get("fi_link_attr.network_type", "")
    return Nic(
        name=name,
        link_layer=layer if layer in ("InfiniBand", "Ethernet") else NOT_RECORDED,
        state=_STATES.get(entry.get("fi_link_attr.state", ""), NOT_RECORDED),
        rate_gbps=gbps if 0 < gbps < _LARGEST_GBPS else NOT_RECORDED,
        device_type=_device_type(entry),
        firmware_version=_stated(entry.get("fi_device_attr.firmware", "")),
        mtu=value_or(whole_number(entry.get("fi_link_attr.mtu", "")), 0) or NOT_RECORDED,
        pci_bus_id=_bus_id(entry),
        evidence=(line_ref(line),),
    )


def _stated(text: str) -> str | Unknown:
    return NOT_RECORDED if text in ("", "(null)") else text[:60]


def _device_type(entry: dict[str, str]) -> str | Unknown:
    """Return the driver's name, or else the provider if it is `efa`.

    Collectors also use the driver's name as the type of a device without a part name.
    """
    stated = _stated(entry.get("fi_device_attr.driver", ""))
    provider = entry.get("fi_fabric_attr.prov_name", "")
    return provider if isinstance(stated, Unknown) and provider == "efa" else stated


def _bus_id(entry: dict[str, str]) -> str | Unknown:
    names = ("domain_id", "bus_id", "device_id", "function_id")
    numbers = only_known(whole_number(entry.get(f"fi_pci_attr.{name}", "")) for name in names)
    is_whole = len(numbers) == len(names)
    printed = "{:04x}:{:02x}:{:02x}.{:x}".format(*numbers) if is_whole else ""
    return or_missing(normal_address(printed))
