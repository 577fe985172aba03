"""Check that all NICs are present, with equal firmware, the names of their places, and no virtual functions.

The expected number is known only if the machine's product name or the places of its NICs identify a machine
of the catalogue. Source: the rows' own sources (`probes/data/machines.toml`, `nics.toml`); AMD-AGI/Primus,
preflight (firmware equal across a fleet); rdma-core, persistent naming; facebookresearch/gcm, health checks
(interfaces bound to other cards).
"""

from collections import Counter
from collections.abc import Iterable

from probes.base.patterns import pattern
from probes.base.record import EvidenceRef, Unknown, known, value_or
from probes.base.units import plural
from probes.catalogue.hardware import MachineModel
from probes.catalogue.nic_models import Layout, expected_ref, load_nic_models
from probes.facts import Nic
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.rails import Rails, training_rails
from probes.judging.reporting import HOST, Judged, judge_each, on_fact, on_nics, subject_name

COUNT = Judge(
    check_id="nic-count",
    why="A missing NIC lowers the bandwidth to other nodes, or stops the job.",
)
_MISSING = Remedy(
    text="Look for the card on the PCI bus: if it is missing there, reseat it or call the vendor; otherwise "
    "find out why its driver does not use it.",
    command="lspci -d 15b3:",
)
FIRMWARE = Judge(
    check_id="nic-firmware",
    why="Cards of one kind with different firmware differ in rate, congestion control and faults.",
)
NAMING = Judge(
    check_id="nic-naming",
    why="NCCL_IB_HCA, topology files and monitoring use names: a name at another place connects a GPU to "
    "the wrong rail.",
)
VIRTUAL = Judge(
    check_id="nic-virtual",
    why="A virtual function shares its port with others and may lack GPUDirect RDMA and full queues.",
)
_NUMBERED = pattern(r"([A-Za-z][A-Za-z0-9]*_)(\d{1,4})")


@on_fact(COUNT, "the RDMA ports", lambda facts: facts.nics)
def nic_count(nics: tuple[Nic, ...], evidence: Evidence) -> Finding:
    layout = load_nic_models().layout(evidence.facts) if nics else None
    if layout is not None:
        return _by_places(nics, layout)
    machine = _machine(evidence)
    if machine is not None:
        return _by_number(machine, training_rails(evidence.facts))
    return COUNT.skipped(HOST, "the number of NICs of a machine of this kind is unknown")


def _machine(evidence: Evidence) -> MachineModel | None:
    """Return the machine of the catalogue that has this product name.

    Clouds use one product name for machines with different NICs, so their machines are left out.
    """
    product = evidence.facts.dmi.product_name
    rows = evidence.catalogue.machines_sold_as(product) if known(product) else ()
    return rows[0] if len({row.nic_count for row in rows}) == 1 and not rows[0].virtual else None


def _by_places(nics: tuple[Nic, ...], layout: Layout) -> Finding:
    addresses = {nic.pci_bus_id for nic in nics}
    missing = [place for place in layout.rails if place.address not in addresses]
    refs = (expected_ref(layout, layout.id),)
    if missing:
        return COUNT.failed(
            HOST,
            "NICs of this machine are missing",
            expected=f"{plural(len(layout.rails), 'NIC')} in a {layout.title}",
            observed=f"none at {', '.join(place.address for place in missing)}",
            remedy=_MISSING,
            evidence=refs,
        )
    return COUNT.passed(
        HOST, "all NICs are present", observed=f"{len(layout.rails)} as in a {layout.title}", evidence=refs
    )


def _by_number(machine: MachineModel, rails: Rails) -> Finding:
    present = len(rails.active) + len(rails.slower) + len(rails.down)
    refs = (EvidenceRef(source="catalogue", key=machine.id, detail=machine.source),)
    if present < machine.nic_count:
        return COUNT.failed(
            HOST,
            "training ports of this machine are missing",
            expected=f"{plural(machine.nic_count, 'port')}: {machine.title}",
            observed=f"{present}",
            remedy=_MISSING,
            evidence=refs,
        )
    return COUNT.passed(
        HOST, "all training ports are present", observed=f"{present}: {machine.title}", evidence=refs
    )


@on_nics(FIRMWARE)
def nic_firmware(nics: tuple[Nic, ...], evidence: Evidence) -> Iterable[Finding]:
    versions: dict[tuple[str, str], Counter[str]] = {}
    for nic in nics:
        if known(nic.firmware_version):
            versions.setdefault(_family(nic), Counter())[nic.firmware_version] += 1

    def judge(nic: Nic) -> Judged:
        if isinstance(nic.firmware_version, Unknown):
            return nic.firmware_version
        (usual, times), *rest = versions[_family(nic)].most_common()
        if nic.firmware_version == usual or (rest and rest[0][1] == times and times == 1):
            return nic.firmware_version
        return FIRMWARE.warned(
            subject_name(nic),
            "the firmware differs from the firmware of the other cards of this kind",
            expected=usual,
            observed=nic.firmware_version,
            remedy=Remedy(
                text="Install the same firmware on all these cards.",
                command="mlxfwmanager --query",
                needs_root=True,
            ),
        )

    return judge_each(
        FIRMWARE, nics, judge, what="the firmware version", good="cards of one kind have the same firmware"
    )


def _family(nic: Nic) -> tuple[str, str]:
    """Return the parameter set of a card, or else its device type, and the first number of its firmware.

    Virtual functions of several chips may have one device type; the first number distinguishes the chips.
    """
    part = nic.board_id if known(nic.board_id) else nic.device_type
    return value_or(part, ""), value_or(nic.firmware_version, "").partition(".")[0]


@on_nics(NAMING)
def nic_naming(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    layout = load_nic_models().layout(evidence.facts)
    if layout is None:
        # The kernel numbers devices in the order of the bus scan, which often differs from that of the
        # addresses.
        return NAMING.skipped(HOST, "the expected names at the places of this machine are unknown")
    names = {place.address: place.device for place in layout.rails}
    placed = [nic for nic in nics if str(nic.pci_bus_id) in names and _NUMBERED.fullmatch(nic.name)]
    if not placed:
        return NAMING.skipped(HOST, "no device at the expected places has a numbered name such as mlx5_0")

    def judge(nic: Nic) -> Judged:
        expected = names[str(nic.pci_bus_id)]
        if nic.name == expected:
            return ""
        return NAMING.warned(
            subject_name(nic),
            "the device has the name that belongs to another place",
            expected=f"{expected}, as in a {layout.title}",
            observed=f"{nic.name} at {nic.pci_bus_id}",
            remedy=Remedy(
                text="Look at the udev rules for persistent names (60-rdma-persistent-naming.rules) and "
                "reboot.",
                command="rdma link",
            ),
            evidence=(expected_ref(layout, layout.id),),
        )

    return judge_each(
        NAMING,
        placed,
        judge,
        what="the place of the device",
        good="the names of RDMA devices match their PCI addresses",
    )


@on_nics(VIRTUAL)
def nic_virtual(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = training_rails(evidence.facts)
    ports = (*rails.active, *rails.slower, *rails.down)
    has_whole_ports = any(nic.is_virtual_function is False for nic in ports)

    def judge(nic: Nic) -> Judged:
        card = load_nic_models().card(nic)
        if isinstance(nic.is_virtual_function, Unknown):
            return (
                "a virtual function, which the cloud passes through"
                if card and card.virtual
                else nic.is_virtual_function
            )
        if not nic.is_virtual_function or not has_whole_ports:
            return "virtual functions" if nic.is_virtual_function else ""
        return VIRTUAL.warned(
            subject_name(nic),
            "a virtual function among physical devices",
            expected="physical functions",
            observed="a virtual function of a card of this host",
            remedy=Remedy(
                text="Exclude the virtual function with NCCL_IB_HCA, or remove it.",
                command="cat /sys/class/infiniband/*/device/sriov_numvfs",
            ),
        )

    if not ports:
        return VIRTUAL.skipped(HOST, "no port is used for training")
    return judge_each(
        VIRTUAL,
        ports,
        judge,
        what="whether the device is a virtual function",
        good="no virtual function is among physical RDMA devices",
    )
