"""RDMA cards, and machines whose NICs have a fixed place: rows of `probes/data/nics.toml`."""

import functools

import msgspec

from probes.base.record import EvidenceRef, StrictRecord, known
from probes.base.rows import read_rows
from probes.catalogue.thresholds import Cited
from probes.facts import MachineFacts, Nic

_ENOUGH = 0.75
"""Share of a layout's addresses that must have an RDMA device; the rest may be missing."""


class Card(Cited, kw_only=True):
    """A chip, identified by the part name that the driver reports."""

    part: str
    title: str
    rate_gbps: float | None = None
    """Highest rate of one port of any card with this chip."""
    lane: str = ""
    """The fastest speed of one lane: `HDR`."""
    dpu: bool = False
    """True for a BlueField, which is a separate computer, mostly for storage and management."""
    virtual: bool = False


class Place(StrictRecord, kw_only=True):
    """Address and names of a rail."""

    address: str
    device: str
    netdev: str = ""


class Layout(Cited, kw_only=True):
    """A machine whose rails have fixed PCI addresses."""

    id: str
    title: str
    rate_gbps: float
    rails: tuple[Place, ...]
    interfaces: tuple[str, ...] = ()
    """Names of the front-end ports, which also depend on their PCI addresses."""
    interface_rate_gbps: float | None = None


class NicModels(StrictRecord, kw_only=True):
    """All rows."""

    cards: tuple[Card, ...]
    layouts: tuple[Layout, ...]

    def card(self, nic: Nic) -> Card | None:
        """Return the row of a port's card; None if the part is not known."""
        return next((card for card in self.cards if card.part == nic.device_type), None)

    def layout(self, facts: MachineFacts) -> Layout | None:
        """Return the machine whose layout fits the addresses of the RDMA devices; None if no layout fits."""
        if not known(facts.nics):
            return None
        addresses = {nic.pci_bus_id for nic in facts.nics if known(nic.pci_bus_id)}
        for layout in self.layouts:
            present = sum(place.address in addresses for place in layout.rails)
            if present >= _ENOUGH * len(layout.rails):
                return layout
        return None

    def front_end(self, facts: MachineFacts) -> Layout | None:
        """Return the machine type whose front-end interfaces all exist on this machine."""
        if not known(facts.interfaces):
            return None
        names = {interface.name for interface in facts.interfaces}
        return next(
            (row for row in self.layouts if row.interfaces and names.issuperset(row.interfaces)), None
        )


def expected_ref(row: Cited, name: str) -> EvidenceRef:
    """Return a reference to a catalogue row, as the source of an expected value."""
    return EvidenceRef(source="catalogue", key=name, detail=row.source)


@functools.lru_cache(maxsize=1)
def load_nic_models() -> NicModels:
    """Return the rows shipped with rigtune."""
    return msgspec.convert(read_rows("nics"), NicModels)
