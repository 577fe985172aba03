"""Name the expectations of a learned policy that may come from a fault of the machine.

A value is doubtful if a check of it gives a FAIL or WARN, if the GPUs or ports of the machine differ in it,
or if another machine of the kind has another value (`assistant/usecases/learn.py` compares the machines).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from probes.base.grouping import grouped
from probes.base.record import items_of, known
from probes.facts import Gpu, MachineFacts, Nic
from probes.judging.findings import Finding, Status
from probes.judging.policies.learning import GPU_VALUES, NIC_VALUES, Doubt, stated
from probes.judging.policies.policy import Policy
from probes.judging.rails import training_rails
from probes.judging.reporting import fold_names, subject_name, unfolded

_NIC_CHECKS = ("nic-state", "nic-count", "nic-subnet-manager", "nic-netdev")
CHECKS_OF: dict[str, tuple[str, ...]] = {
    "gpu.model": ("gpu-model",),
    "gpu.count": ("gpu-driver", "gpu-count", "gpu-lost"),
    "gpu.memory_bytes": ("gpu-memory-size",),
    "gpu.vbios": ("vbios",),
    "gpu.driver": ("driver-library", "driver-flavour", "driver-cuda", "fabric-manager-version"),
    "gpu.mig": ("mig-mode",),
    "gpu.ecc": ("ecc-mode",),
    "gpu.power_limit_w": ("gpu-power-limit",),
    "gpu.sm_clock_max_mhz": (),
    "gpu.memory_clock_max_mhz": (),
    "gpu.application_sm_clock_mhz": ("application-clocks",),
    "gpu.pcie_generation": ("pcie-speed",),
    "gpu.pcie_width": ("pcie-link",),
    "gpu.nvlinks": ("nvlink-active", "nvlink-mesh"),
    "nic.count": _NIC_CHECKS,
    "nic.rate_gbps": ("nic-rate", "nic-speed", "nic-width"),
    "nic.link_layer": ("nic-mixture",),
    "nic.pcie_generation": ("pcie-speed",),
    "nic.pcie_width": ("pcie-link",),
    "nic.firmware": (),
    "nic.places": ("nic-naming",),
    "software.operating_system": (),
    "software.kernel": (),
    "software.cuda": ("driver-cuda",),
    "software.cuda_toolkit": (),
    "software.nccl": ("nccl-version", "nccl-duplicates"),
    "software.torch": ("torch-cuda", "torch-architecture"),
    "software.fabric_manager": ("fabric-manager-version",),
    "software.ofed": (),
    "host.memory_bytes": ("memory-balance", "memory-errors"),
    "host.cpus": (),
    "host.numa_nodes": ("numa-hidden", "memory-balance"),
    "host.mounts": ("read-only-filesystems",),
    "host.services": ("services", "fabric-manager"),
    "host.modules": ("rdma-modules", "peermem"),
    "host.bios": (),
    "host.bmc": (),
    "host.sysctl": (),
    "host.sysctl.kernel.numa_balancing": ("numa-balancing",),
    "host.sysctl.net.core.somaxconn": ("somaxconn",),
    "host.sysctl.net.ipv4.conf.all.arp_announce": ("interface-subnets",),
    "host.sysctl.net.ipv4.conf.all.arp_ignore": ("interface-subnets",),
    "host.sysctl.net.ipv4.ip_local_port_range": ("port-range",),
    "host.kernel_arguments": ("iommu",),
}
"""The checks that judge the value of an expectation; empty if rigtune has no such check."""


def doubts_of(policy: Policy, facts: MachineFacts, findings: Sequence[Finding]) -> tuple[Doubt, ...]:
    """Return the doubts about a policy that was learned from `facts`; `findings` judge the same facts."""
    bad = [finding for finding in findings if finding.status in (Status.FAIL, Status.WARN)]
    sections = {name: getattr(policy, name) for name in ("gpu", "nic", "software", "host")}
    places = [f"{name}.{field}" for name, section in sections.items() for field in stated(section)]
    places += [f"host.sysctl.{name}" for name in policy.host.sysctl]
    judged = [
        Doubt(place=place, reason=reason)
        for place in places
        for reason in _complaints([each for each in bad if _judges(each, place, facts)])
    ]
    differing = (
        *_unequal("gpu", GPU_VALUES | _GPU_VERSIONS, items_of(facts.gpus), policy.gpu),
        *_unequal("nic", NIC_VALUES, training_rails(facts).active, policy.nic),
        *_unequal_firmware(facts, policy),
    )
    named = {doubt.place for doubt in judged}
    return (*judged, *(doubt for doubt in differing if doubt.place not in named))


def _judges(finding: Finding, place: str, facts: MachineFacts) -> bool:
    """Return whether the finding judges the value of an expectation.

    Checks of PCIe links judge GPUs and NICs alike; the subject distinguishes them.
    """
    if finding.check_id not in CHECKS_OF.get(place, ()):
        return False
    devices: tuple[Gpu | Nic, ...] = items_of(facts.gpus if place.startswith("gpu.") else facts.nics)
    return "pcie" not in place or not set(map(subject_name, devices)).isdisjoint(unfolded(finding.subject))


def _complaints(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the texts of findings; findings that differ only in their subject share a text."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        observed = f" ({finding.observed})" if finding.observed else ""
        alike = f"{finding.check_id} {finding.status.value}", f"{finding.summary}{observed}"
        subjects.setdefault(alike, []).extend(unfolded(finding.subject))
    for (check, words), names in subjects.items():
        yield f"{check} on {fold_names(names)}: {words}"


_GPU_VERSIONS: dict[str, Callable[[Gpu], Any]] = {
    "model": lambda gpu: gpu.name,
    "vbios": lambda gpu: gpu.vbios_version,
}


def _unequal(
    section: str, values: dict[str, Callable[[Any], Any]], devices: Sequence[Gpu | Nic], wishes: object
) -> Iterator[Doubt]:
    """Yield a doubt for each field in which the devices differ; the policy expects all values or none."""
    for field, value_of in values.items():
        words = _difference([(subject_name(device), value_of(device)) for device in devices])
        if words:
            outcome = "not expected" if getattr(wishes, field) in (None, ()) else "each value is expected"
            yield Doubt(place=f"{section}.{field}", reason=f"{outcome}, because {words}")


def _unequal_firmware(facts: MachineFacts, policy: Policy) -> Iterator[Doubt]:
    for kind, versions in policy.nic.firmware.items():
        cards = [nic for nic in items_of(facts.nics) if nic.device_type == kind]
        words = _difference([(subject_name(nic), nic.firmware_version) for nic in cards])
        if words and not isinstance(versions, str):
            reason = f"each version is expected, because {words}"
            yield Doubt(place=f"nic.firmware.{kind}", reason=reason)


def _difference(values: Iterable[tuple[str, Any]]) -> str:
    """Return `GPU3 has 500, and GPU0-2 have 700`; empty if all values are alike."""
    by_value = grouped((value if known(value) else None, name) for name, value in values)
    if len(by_value) < 2 or by_value.keys() == {None}:
        return ""
    usual, _ = Counter({value: len(names) for value, names in by_value.items()}).most_common(1)[0]
    odd = [_has(names, value) for value, names in by_value.items() if value != usual]
    return f"{', '.join(odd)}, and {_has(by_value[usual], usual)}"


def _has(names: Sequence[str], value: object) -> str:
    verb = "has" if len(names) == 1 else "have"
    if isinstance(value, float):
        value = f"{value:g}"
    elif isinstance(value, bool):
        value = "the mode on" if value else "the mode off"
    return f"{fold_names(names)} {verb} {'an unknown value' if value is None else value}"
