"""Are the cards what they seem: one firmware per kind, names in the order of their places, and whole devices?

Source: AMD-AGI/Primus, preflight (firmware equal across a fleet); systemd.link and rdma-core, persistent naming (names are given
in the order of PCI addresses); facebookresearch/gcm, health checks (interfaces bound to other cards).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from probes.facts import Nic
from probes.findings import Evidence, Finding, Judge, Remedy
from probes.judging import HOST, Judged, judge_each, nics_of, subject_name
from probes.nic_models import Layout, expected_ref, load_nic_models
from probes.rails import training_rails
from probes.record import Unknown, known

FIRMWARE = Judge(
    check_id="nic-firmware", why="Cards of one kind with different firmware differ in rate, congestion control and faults."
)
NAMING = Judge(
    check_id="nic-naming",
    why="NCCL_IB_HCA, topology files and monitoring go by names: a name at another place joins the wrong rail to a GPU.",
)
VIRTUAL = Judge(
    check_id="nic-virtual", why="A virtual function shares its port with others and may lack GPUDirect RDMA and full queues."
)
_NUMBERED = re.compile(r"([A-Za-z][A-Za-z0-9]*_)(\d{1,4})")


def nic_firmware(evidence: Evidence) -> Iterator[Finding]:
    nics = yield from nics_of(FIRMWARE, evidence)
    if not nics:
        return
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
            "the firmware differs from that of the other cards of this kind",
            expected=usual,
            observed=nic.firmware_version,
            remedy=Remedy(text="Bring the cards to one firmware.", command="mlxfwmanager --query", needs_root=True),
        )

    yield from judge_each(FIRMWARE, nics, judge, what="the firmware version", good="cards of one kind have one firmware")


def _family(nic: Nic) -> tuple[str, str]:
    """Part and parameter set; the first number of a version tells the chip where virtual functions share a part number."""
    part = nic.board_id if known(nic.board_id) else nic.device_type
    version = nic.firmware_version if known(nic.firmware_version) else ""
    return (part if known(part) else "", version.partition(".")[0])


def nic_naming(evidence: Evidence) -> Iterator[Finding]:
    nics = yield from nics_of(NAMING, evidence)
    if not nics:
        return
    layout = load_nic_models().layout(evidence.facts)
    places = {place.address: place.device for place in layout.rails} if layout else {}
    misplaced = _out_of_order(nics)

    def judge(nic: Nic) -> Judged:
        if isinstance(nic.pci_bus_id, Unknown):
            return nic.pci_bus_id
        expected = places.get(nic.pci_bus_id)
        if layout is not None and expected is not None and _is_numbered(nic) and nic.name != expected:
            return _wrong(nic, f"{expected}, as in a {layout.title}", layout)
        if layout is None and nic.name in misplaced:
            return _wrong(nic, "numbers that rise with the PCI address", None)
        return ""

    yield from judge_each(NAMING, nics, judge, what="the place of the device", good="RDMA devices bear the names of their place")


def _is_numbered(nic: Nic) -> bool:
    return _NUMBERED.fullmatch(nic.name) is not None


def _wrong(nic: Nic, expected: str, layout: Layout | None) -> Finding:
    return NAMING.warned(
        subject_name(nic),
        "the device bears the name of another place",
        expected=expected,
        observed=f"{nic.name} at {nic.pci_bus_id}",
        remedy=Remedy(
            text="Look at the udev rules for persistent names (60-rdma-persistent-naming.rules) and reboot.",
            command="rdma link",
        ),
        evidence=(expected_ref(layout, layout.id),) if layout else (),
    )


def _out_of_order(nics: tuple[Nic, ...]) -> set[str]:
    """The names whose number is lower than one at a lower address. The kernel counts in the order of its bus scan."""
    numbered: dict[str, list[tuple[str, int, str]]] = {}
    for nic in nics:
        match = _NUMBERED.fullmatch(nic.name)
        if match is not None and known(nic.pci_bus_id):
            numbered.setdefault(match[1], []).append((nic.pci_bus_id, int(match[2]), nic.name))
    found: set[str] = set()
    for group in numbered.values():
        highest = -1
        for _, number, name in sorted(set(group)):
            if number < highest:
                found.add(name)
            highest = max(highest, number)
    return found


def nic_virtual(evidence: Evidence) -> Iterator[Finding]:
    if not (yield from nics_of(VIRTUAL, evidence)):
        return
    rails = training_rails(evidence.facts)
    ports = (*rails.active, *rails.slower, *rails.down)
    kinds = Counter(nic.is_virtual_function for nic in ports if known(nic.is_virtual_function))

    def judge(nic: Nic) -> Judged:
        card = load_nic_models().card(nic)
        if isinstance(nic.is_virtual_function, Unknown):
            return "a virtual function, as the cloud passes it through" if card and card.virtual else nic.is_virtual_function
        if not nic.is_virtual_function or not kinds[False]:
            return "virtual functions" if nic.is_virtual_function else ""
        return VIRTUAL.warned(
            subject_name(nic),
            "a virtual function among whole devices",
            expected="physical functions",
            observed="a virtual function of a card of this host",
            remedy=Remedy(
                text="Leave it out with NCCL_IB_HCA, or remove it.", command="cat /sys/class/infiniband/*/device/sriov_numvfs"
            ),
        )

    if not ports:
        yield VIRTUAL.skipped(HOST, "no port is for training")
        return
    yield from judge_each(VIRTUAL, ports, judge, what="whether it is a virtual function", good="RDMA devices are whole")
