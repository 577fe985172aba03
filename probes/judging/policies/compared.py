"""Compare values of a machine with the expectations of a policy, and report each difference."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from probes.base.record import DEEP_ONLY, EvidenceRef, Unknown, first_unknown, only_known
from probes.facts import Gpu, Nic
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.policies.policy import policy_ref
from probes.judging.reporting import HOST, evidence_of, fold_names, subject_name

Value = TypeVar("Value")

_REMEDY = "Repair or replace the part that differs. If the policy is out of date, change the policy."


class Wish(NamedTuple):
    """One expectation: the field of the policy, its subject in words, and the expected value in words."""

    place: str
    what: str
    expected: str


class Held(NamedTuple):
    """One expectation of the policy (field `place`), with the observed value."""

    place: str
    what: str
    expected: str
    observed: str | Unknown
    holds: bool
    subjects: tuple[str, ...] = (HOST,)
    evidence: tuple[EvidenceRef, ...] = ()


def compared(judge: Judge, evidence: Evidence, held: Iterator[Held]) -> Iterator[Finding]:
    """Yield one finding for each difference.

    Values that could not be read share a finding by reason; values that only a deep check reads give a
    SKIP.
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
            "as the policy expects",
            observed=", ".join(dict.fromkeys(expectation.what for expectation in met)),
            evidence=tuple(policy_ref(expectation.place) for expectation in met),
        )
    if not expectations:
        yield judge.skipped(HOST, "the policy expects nothing of it")


def of_each(
    wish: Wish,
    gpus: tuple[Gpu, ...] | Unknown,
    value_of: Callable[[Gpu], Value | Unknown],
    holds: Callable[[Value], bool],
    words: Callable[[Value], str],
) -> Iterator[Held]:
    """Compare one expectation with every GPU; GPUs with the same value share one result."""
    if isinstance(gpus, Unknown):
        yield Held(*wish, gpus, holds=False)
        return
    groups: dict[object, list[Gpu]] = {}
    for gpu in gpus:
        groups.setdefault(value_of(gpu), []).append(gpu)
    for same in groups.values():
        value = value_of(same[0])
        names, refs = tuple(map(subject_name, same)), evidence_of(same)
        if isinstance(value, Unknown):
            yield Held(*wish, value, holds=False, subjects=names)
        else:
            yield Held(*wish, words(value), holds(value), names, refs)


def different(values: Iterable[Value | Unknown], nics: object) -> tuple[Value, ...] | Unknown:
    """Return the different values, or why one of them is unknown."""
    different = dict.fromkeys(values)
    return first_unknown(nics, *different) or tuple(only_known(different))


def is_near(size: int, wanted: int, share_percent: float) -> bool:
    return abs(size - wanted) <= wanted * share_percent / 100


def active_links(gpu: Gpu) -> int | Unknown:
    """Return the number of NVLinks that are up, or why one of them is unknown."""
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
NIC_AMOUNTS: tuple[tuple[str, str, Callable[[Nic], float | Unknown]], ...] = (
    ("pcie_generation", "the PCIe generation", lambda nic: nic.pcie.generation),
    ("pcie_width", "the PCIe width", lambda nic: nic.pcie.width),
)
"""Field of the policy, its subject in words, and the fact of a port."""
