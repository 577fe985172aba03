"""Compare values of a machine with the expectations of a policy, and report each difference."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from probes.base.grouping import grouped
from probes.base.record import DEEP_ONLY, EvidenceRef, Unknown, first_unknown, known, map_known, only_known
from probes.facts import Gpu, MachineFacts, Nic
from probes.judging.environment_values import nccl_version
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.policies.policy import policy_ref
from probes.judging.reporting import HOST, evidence_of, fold_names, subject_name

Value = TypeVar("Value")

_REMEDY = "Repair or replace what differs; if the policy is outdated, change the policy."


class Wish(NamedTuple):
    """An expectation: the field of the policy, and texts that name the subject and the expected value."""

    place: str
    what: str
    expected: str


class Held(NamedTuple):
    """An expectation of the policy (field `place`), with the observed value."""

    place: str
    what: str
    expected: str
    observed: str | Unknown
    holds: bool
    subjects: tuple[str, ...] = (HOST,)
    evidence: tuple[EvidenceRef, ...] = ()


def compared(judge: Judge, evidence: Evidence, held: Iterator[Held]) -> Iterator[Finding]:
    """Yield one FAIL for each difference, and one PASS for all expectations that hold.

    Values that could not be read share an UNKNOWN if the reason is the same; values that only a deep check
    reads share a SKIP. Without expectations, yield one SKIP.
    """
    met: list[Held] = []
    unread: dict[Unknown, list[Held]] = {}
    expectations = tuple(held)
    for expectation in expectations:
        if isinstance(expectation.observed, Unknown):
            unread.setdefault(expectation.observed, []).append(expectation)
        elif expectation.holds:
            met.append(expectation)
        else:
            yield judge.failed(
                fold_names(expectation.subjects),
                f"{expectation.what} differs from {evidence.stated_by.get(expectation.place, 'the policy')}",
                expected=expectation.expected,
                observed=expectation.observed,
                remedy=Remedy(text=_REMEDY),
                evidence=(policy_ref(expectation.place), *expectation.evidence),
            )
    for unknown, unjudged in unread.items():
        what = ", ".join(dict.fromkeys(expectation.what for expectation in unjudged))
        refs = tuple(policy_ref(expectation.place) for expectation in unjudged)
        if unknown == DEEP_ONLY:
            yield judge.skipped(HOST, f"{what}: {unknown.detail}", evidence=refs)
        else:
            yield judge.undetermined(HOST, unknown, what=what, evidence=refs)
    if met:
        yield judge.passed(
            HOST,
            _as_expected(met, evidence),
            observed=", ".join(dict.fromkeys(expectation.what for expectation in met)),
            evidence=tuple(policy_ref(expectation.place) for expectation in met),
        )
    if not expectations:
        yield judge.skipped(HOST, "no expectation is stated for this part")


def _as_expected(met: list[Held], evidence: Evidence) -> str:
    """Return `as the policy expects`, or the options of the command line that state the expectations."""
    sources = dict.fromkeys(evidence.stated_by.get(each.place, "the policy") for each in met)
    return f"as {' and '.join(sources)} expect{'s' * (len(sources) == 1)}"


def compare_each(
    wish: Wish,
    gpus: tuple[Gpu, ...] | Unknown,
    value_of: Callable[[Gpu], Value | Unknown],
    holds: Callable[[Value], bool],
    words: Callable[[Value], str],
) -> Iterator[Held]:
    """Compare an expectation with every GPU; GPUs with the same value share one result."""
    if isinstance(gpus, Unknown):
        yield Held(*wish, gpus, holds=False)
        return
    groups = grouped((value_of(gpu), gpu) for gpu in gpus)
    for same in groups.values():
        value = value_of(same[0])
        names, refs = tuple(map(subject_name, same)), evidence_of(same)
        if isinstance(value, Unknown):
            yield Held(*wish, value, holds=False, subjects=names)
        else:
            yield Held(*wish, words(value), holds(value), names, refs)


def different(values: Iterable[Value | Unknown], nics: object) -> tuple[Value, ...] | Unknown:
    """Return each distinct value once, or the first Unknown among `nics` and the values."""
    different = dict.fromkeys(values)
    return first_unknown(nics, *different) or tuple(only_known(different))


def is_near(size: int, wanted: int, share_percent: float) -> bool:
    return abs(size - wanted) <= wanted * share_percent / 100


def active_links(gpu: Gpu) -> int | Unknown:
    """Return the number of NVLinks that are up, or the Unknown of a link that could not be read."""
    if isinstance(gpu.nvlinks, Unknown):
        return gpu.nvlinks
    return first_unknown(*(link.active for link in gpu.nvlinks)) or sum(
        link.active is True for link in gpu.nvlinks
    )


GPU_MODES: tuple[tuple[str, str, Callable[[Gpu], bool | Unknown]], ...] = (
    ("mig", "the MIG mode", lambda gpu: gpu.mig_enabled),
    ("ecc", "ECC", lambda gpu: gpu.ecc_enabled),
)
"""Field of the policy, its subject in words, and the fact."""
GPU_AMOUNTS: tuple[tuple[str, str, str, Callable[[Gpu], float | Unknown]], ...] = (
    ("power_limit_w", "the power limit", " W", lambda gpu: gpu.power_limit_w),
    ("sm_clock_max_mhz", "the highest SM clock", " MHz", lambda gpu: gpu.sm_clock_max_mhz),
    ("memory_clock_max_mhz", "the highest memory clock", " MHz", lambda gpu: gpu.limits.memory_clock_max_mhz),
    (
        "application_sm_clock_mhz",
        "the application clock",
        " MHz",
        lambda gpu: gpu.limits.application_sm_clock_mhz,
    ),
    ("pcie_generation", "the PCIe generation", "", lambda gpu: gpu.pcie.generation_max),
    ("pcie_width", "the PCIe width", " lanes", lambda gpu: gpu.pcie.width),
    ("nvlinks", "the number of active NVLinks", "", active_links),
)
"""Field of the policy, its subject in words, its unit, and the fact."""


class VersionRow(NamedTuple):
    """A version that a policy can expect."""

    section: str
    """Section of the policy, such as `software`."""
    field: str
    """Field of the section, such as `kernel`."""
    what: str
    """Subject in words."""
    part: str
    """Part of the facts whose evidence the finding cites."""
    value_of: Callable[[MachineFacts], str | Unknown | None]

    @property
    def place(self) -> str:
        return f"{self.section}.{self.field}"


def _driver(facts: MachineFacts) -> str | Unknown | None:
    """Return the driver version from the software facts, or else from the first GPU."""
    version, gpus = facts.software.driver_version, facts.gpus
    return gpus[0].driver_version if isinstance(version, Unknown) and known(gpus) and gpus else version


def _software_row(field: str, what: str, fact: str = "") -> VersionRow:
    return VersionRow(
        "software", field, what, "software", lambda facts: getattr(facts.software, fact or field)
    )


VERSIONS: tuple[VersionRow, ...] = (
    VersionRow("gpu", "driver", "the driver", "software", _driver),
    _software_row("operating_system", "the operating system"),
    _software_row("kernel", "the kernel"),
    _software_row("cuda", "the driver's CUDA", "cuda_driver_version"),
    _software_row("cuda_toolkit", "the CUDA toolkit", "cuda_toolkit_version"),
    VersionRow("software", "nccl", "NCCL", "training", nccl_version),
    VersionRow("software", "torch", "torch", "training", lambda facts: facts.training.torch_version),
    _software_row("fabric_manager", "the Fabric Manager", "fabric_manager_version"),
    _software_row("ofed", "OFED", "ofed_version"),
    VersionRow("host", "bios", "the BIOS", "dmi", lambda facts: facts.dmi.bios_version),
    VersionRow("host", "bmc", "the BMC", "dmi", lambda facts: facts.dmi.bmc_version),
)
"""Versions that are compared, learned and checked for mistakes in a policy file."""


def service_states(facts: MachineFacts) -> dict[str, str] | Unknown:
    """Return the state of each unit, named without `.service`; of a repeated unit, the last state counts."""
    return map_known(
        facts.software.services,
        lambda services: {service.name.removesuffix(".service"): service.value for service in services},
    )


def numa_node_count(facts: MachineFacts) -> int | Unknown:
    """Return the number of NUMA nodes without the nodes of GPU memory."""
    return map_known(facts.numa_nodes, lambda nodes: sum(node.is_gpu_memory is not True for node in nodes))


NIC_AMOUNTS: tuple[tuple[str, str, Callable[[Nic], float | Unknown]], ...] = (
    ("pcie_generation", "the PCIe generation", lambda nic: nic.pcie.generation),
    ("pcie_width", "the PCIe width", lambda nic: nic.pcie.width),
)
"""Field of the policy, its subject in words, and the fact of a port."""
