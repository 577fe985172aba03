"""Check that the machine has all its NICs for training.

The number is only known for a known machine: a machine of the catalogue, by its maker's product name, or a
machine whose NICs are in known places. Source: the rows' own sources (`probes/data/machines.toml`,
`nics.toml`).
"""

from __future__ import annotations

from probes.base.record import EvidenceRef, Unknown, known
from probes.catalogue.hardware import MachineModel
from probes.catalogue.nic_models import Layout, expected_ref, load_nic_models
from probes.facts import Nic
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import Rails, training_rails
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="nic-count",
    why="A NIC that is missing takes its share of the bandwidth to other nodes, or stops the job.",
)
REMEDY = Remedy(
    text="Look for the card on the PCI bus: if it is not there, reseat it or call the maker; else look why "
    "its driver left it.",
    command="lspci -d 15b3:",
)


def check(evidence: Evidence) -> Finding:
    facts = evidence.facts
    if isinstance(facts.nics, Unknown):
        return JUDGE.undetermined(HOST, facts.nics, what="the RDMA ports")
    layout = load_nic_models().layout(facts) if facts.nics else None
    machine = _machine(evidence)
    if layout is not None:
        return _by_places(facts.nics, layout)
    if machine is not None:
        return _by_number(machine, training_rails(facts))
    return JUDGE.skipped(HOST, "the number of NICs of a machine of this kind is unknown")


def _machine(evidence: Evidence) -> MachineModel | None:
    """Return the catalogue's machine with this product name.

    Clouds give one name to machines with different NICs, so their machines are left out.
    """
    product = evidence.facts.dmi.product_name
    rows = evidence.catalogue.machines_sold_as(product) if known(product) else ()
    return rows[0] if len({row.nic_count for row in rows}) == 1 and not rows[0].virtual else None


def _by_places(nics: tuple[Nic, ...], layout: Layout) -> Finding:
    addresses = {nic.pci_bus_id for nic in nics}
    missing = [place for place in layout.rails if place.address not in addresses]
    refs = (expected_ref(layout, layout.id),)
    if missing:
        return JUDGE.failed(
            HOST,
            "NICs of this machine are missing",
            expected=f"{len(layout.rails)} NICs in a {layout.title}",
            observed=f"none at {', '.join(place.address for place in missing)}",
            remedy=REMEDY,
            evidence=refs,
        )
    return JUDGE.passed(
        HOST, "all NICs are there", observed=f"{len(layout.rails)} as in a {layout.title}", evidence=refs
    )


def _by_number(machine: MachineModel, rails: Rails) -> Finding:
    present = len(rails.active) + len(rails.slower) + len(rails.down)
    refs = (EvidenceRef(source="catalogue", key=machine.id, detail=machine.source),)
    if present < machine.nic_count:
        return JUDGE.failed(
            HOST,
            "training ports of this machine are missing",
            expected=f"{machine.nic_count} ports: {machine.title}",
            observed=f"{present}",
            remedy=REMEDY,
            evidence=refs,
        )
    return JUDGE.passed(
        HOST, "all training ports are there", observed=f"{present}: {machine.title}", evidence=refs
    )
