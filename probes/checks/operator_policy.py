"""Compare the machine with the operator's policy, and check that its waivers are still valid.

Source: the policy file. Only limits and expectations that the policy states are judged here.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from probes.base.record import (
    DEEP_ONLY,
    EvidenceRef,
    Reason,
    Unknown,
    first_unknown,
    items_of,
    known,
    map_known,
    only_known,
)
from probes.base.units import gbit_per_s, gib
from probes.facts import Gpu, Software, TrainingPython
from probes.judging.environment_values import nccl_version
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.policies.expected_versions import any_matches, words_of
from probes.judging.policies.policy import HostExpectation, policy_ref
from probes.judging.rails import training_rails
from probes.judging.reporting import (
    HOST,
    evidence_of,
    fold_names,
    has_no_gpu,
    responsive_of,
    subject_name,
)
from probes.parsers.topology.pci_addresses import normal_address

GPUS = Judge(check_id="policy-gpus", why="Jobs are planned for the GPUs that the policy states.")
NICS = Judge(check_id="policy-nics", why="Jobs are planned for the network that the policy states.")
VERSIONS = Judge(
    check_id="policy-versions",
    why="Nodes with different software fail or slow down the jobs that they share.",
)
HOST_STATE = Judge(
    check_id="policy-host", why="Jobs rely on the memory, file systems and services that the policy states."
)
WAIVERS = Judge(check_id="policy-waivers", why="An expired waiver no longer covers its problem.")

_REMEDY = "Repair or replace what differs; if the policy is outdated, change the policy."

Value = TypeVar("Value")
Wanted = str | tuple[str, ...] | None


class Wish(NamedTuple):
    """An expectation: the field of the policy, and texts that name the subject and the expected value."""

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


def policy_gpus(evidence: Evidence) -> Iterator[Finding]:
    """Compare model, number, memory, VBIOS and MIG mode of the GPUs."""
    return _findings(GPUS, evidence, _held_gpus(evidence))


def policy_nics(evidence: Evidence) -> Iterator[Finding]:
    """Compare number, rate, link layer, firmware and places of the training ports."""
    return _findings(NICS, evidence, _held_nics(evidence))


def policy_versions(evidence: Evidence) -> Iterator[Finding]:
    """Compare driver, operating system, kernel and libraries."""
    return _findings(VERSIONS, evidence, _held_versions(evidence))


def policy_host(evidence: Evidence) -> Iterator[Finding]:
    """Compare memory, processors, mounts, services and kernel modules."""
    return _findings(HOST_STATE, evidence, _held_host(evidence))


def policy_waivers(evidence: Evidence) -> Iterator[Finding]:
    """Report waivers that have expired.

    Waivers that cover no finding are notes of the verdict, as they are known only after all other checks.
    """
    waivers = evidence.policy.waivers
    if not waivers:
        yield WAIVERS.skipped(HOST, "the policy waives nothing")
        return
    if evidence.today is None:
        yield WAIVERS.undetermined(
            HOST, Unknown(Reason.NOT_RECORDED, "the day of the check"), what="today's date"
        )
        return
    expired = [waiver for waiver in waivers if not waiver.holds_on(evidence.today)]
    for index, waiver in enumerate(waivers):
        if waiver in expired:
            yield WAIVERS.warned(
                waiver.subject,
                f"the waiver of {waiver.check} has expired",
                expected="a date that is still to come, or no waiver",
                observed=f"expired on {waiver.expires}: {waiver.reason}",
                remedy=Remedy(text=f"Solve what {waiver.check} finds, or renew the waiver with a new date."),
                evidence=(policy_ref(f"waivers[{index}]"),),
            )
    if not expired:
        yield WAIVERS.passed(HOST, f"{len(waivers)} valid", evidence=(policy_ref("waivers"),))


def _findings(judge: Judge, evidence: Evidence, held: Iterator[Held]) -> Iterator[Finding]:
    """Yield one finding for each difference.

    Values that were not read for the same reason share one finding (a SKIP if only a deep check reads them).
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
        yield judge.skipped(HOST, "the policy states no expectation for this part")


def _held_gpus(evidence: Evidence) -> Iterator[Held]:
    wanted, gpus = evidence.policy.gpu, evidence.facts.gpus
    if wanted.count is not None:
        number = "0" if has_no_gpu(evidence.facts) else map_known(gpus, lambda gpus: str(len(gpus)))
        yield Held("gpu.count", "the number of GPUs", str(wanted.count), number, number == str(wanted.count))
    # A machine whose GPUs cannot be read meets a policy that expects no GPU.
    judged_gpus = () if wanted.count == 0 and isinstance(gpus, Unknown) else map_known(gpus, responsive_of)
    if wanted.model is not None:
        row = evidence.catalogue.gpu(wanted.model)

        def is_model(name: str) -> bool:
            is_named = name.lower() == str(wanted.model).lower()
            return is_named or (row is not None and evidence.catalogue.gpu(name) == row)

        wish = Wish("gpu.model", "the model", f"{row.title} ({row.id})" if row is not None else wanted.model)
        yield from _of_each(wish, judged_gpus, lambda gpu: gpu.name, is_model, str)
    if wanted.memory_bytes is not None:
        size, share = wanted.memory_bytes, wanted.memory_tolerance_percent
        wish = Wish("gpu.memory_bytes", "the memory", f"{gib(size)}, give or take {share:g} %")
        yield from _of_each(
            wish, judged_gpus, lambda gpu: gpu.memory_bytes, lambda has: _is_near(has, size, share), gib
        )
    if wanted.vbios is not None:
        vbios = wanted.vbios
        wish = Wish("gpu.vbios", "the VBIOS", words_of(vbios))
        yield from _of_each(
            wish, judged_gpus, lambda gpu: gpu.vbios_version, lambda has: any_matches(has, vbios), str
        )
    if wanted.mig is not None:
        mig = wanted.mig
        yield from _of_each(
            Wish("gpu.mig", "the MIG mode", "on" if mig else "off"),
            judged_gpus,
            lambda gpu: gpu.mig_enabled,
            lambda has: has is mig,
            lambda enabled: "on" if enabled else "off",
        )


def _of_each(
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


def _held_nics(evidence: Evidence) -> Iterator[Held]:
    wanted, nics = evidence.policy.nic, evidence.facts.nics
    active = training_rails(evidence.facts).active
    refs = evidence_of(active)
    names = tuple(map(subject_name, active)) or (HOST,)
    if wanted.count is not None:
        number = f"{len(active)}: {fold_names(names)}" if active else "0"
        yield Held(
            "nic.count",
            "the number of training ports",
            str(wanted.count),
            nics if isinstance(nics, Unknown) else number,
            len(active) == wanted.count,
            evidence=refs,
        )
    if wanted.rate_gbps is not None and wanted.count != 0:
        rates = _same((nic.rate_gbps for nic in active), nics)
        yield Held(
            "nic.rate_gbps",
            "the rate",
            gbit_per_s(wanted.rate_gbps),
            map_known(rates, lambda rates: ", ".join(map(gbit_per_s, rates)) or "no port"),
            rates == (wanted.rate_gbps,),
            names,
            refs,
        )
    if wanted.link_layer is not None and wanted.count != 0:
        layers = _same((nic.link_layer for nic in active), nics)
        yield Held(
            "nic.link_layer",
            "the link layer",
            wanted.link_layer,
            map_known(layers, lambda layers: ", ".join(layers) or "no port"),
            layers == (wanted.link_layer,),
            names,
            refs,
        )
    for kind, versions in wanted.firmware.items():
        wish = Wish(f"nic.firmware.{kind}", f"the firmware of {kind}", words_of(versions))
        cards = [nic for nic in items_of(nics) if nic.device_type == kind]
        if not cards:
            yield Held(*wish, nics if isinstance(nics, Unknown) else "no such card", holds=False)
        for nic in cards:
            version = nic.firmware_version
            holds = known(version) and any_matches(version, versions)
            yield Held(*wish, version, holds, (subject_name(nic),), nic.evidence)
    for name, bus_id in wanted.places.items():
        address = normal_address(bus_id)
        ports = [nic for nic in items_of(nics) if nic.name == name]
        port = next((nic for nic in ports if nic.pci_bus_id == address), ports[0] if ports else None)
        place = port.pci_bus_id if port else nics if isinstance(nics, Unknown) else "no such device"
        refs = port.evidence if port else ()
        yield Held(f"nic.places.{name}", "the place", bus_id, place, place == address, (name,), refs)


def _same(values: Iterable[Value | Unknown], nics: object) -> tuple[Value, ...] | Unknown:
    """Return the different values, or the Unknown of a value that could not be read."""
    different = dict.fromkeys(values)
    return first_unknown(nics, *different) or tuple(only_known(different))


def _held_versions(evidence: Evidence) -> Iterator[Held]:
    wanted, facts = evidence.policy.software, evidence.facts
    software, training = facts.software, facts.training
    rows: tuple[tuple[str, str, str | Unknown | None, Software | TrainingPython], ...] = (
        ("operating_system", "the operating system", software.operating_system, software),
        ("kernel", "the kernel", software.kernel, software),
        ("cuda", "the driver's CUDA", software.cuda_driver_version, software),
        ("cuda_toolkit", "the CUDA toolkit", software.cuda_toolkit_version, software),
        ("nccl", "NCCL", nccl_version(facts), training),
        ("torch", "torch", training.torch_version, training),
        ("fabric_manager", "the Fabric Manager", software.fabric_manager_version, software),
    )
    expected: list[tuple[str, str, Wanted, str | Unknown | None, Software | TrainingPython]] = [
        ("gpu.driver", "the driver", evidence.policy.gpu.driver, _driver(evidence), software),
        *(
            (f"software.{name}", what, getattr(wanted, name), version, part)
            for name, what, version, part in rows
        ),
    ]
    for place, what, versions, version, record in expected:
        if versions is None:
            continue
        yield Held(
            place,
            what,
            words_of(versions),
            "not installed" if version is None else version,
            isinstance(version, str) and any_matches(version, versions),
            evidence=record.evidence,
        )


def _driver(evidence: Evidence) -> str | Unknown | None:
    """Return the driver version from the software facts, or else from the first GPU."""
    version, gpus = evidence.facts.software.driver_version, evidence.facts.gpus
    return gpus[0].driver_version if isinstance(version, Unknown) and known(gpus) and gpus else version


def _held_host(evidence: Evidence) -> Iterator[Held]:
    wanted, facts = evidence.policy.host, evidence.facts
    if wanted.memory_bytes is not None:
        size, share, total = wanted.memory_bytes, wanted.memory_tolerance_percent, facts.memory.total_bytes
        expected = f"{gib(size)}, give or take {share:g} %"
        holds = known(total) and _is_near(total, size, share)
        refs = facts.memory.evidence
        yield Held(
            "host.memory_bytes", "the host memory", expected, map_known(total, gib), holds, evidence=refs
        )
    if wanted.cpus is not None:
        cpus = facts.cpu.logical_cpus
        yield Held(
            "host.cpus",
            "the number of CPUs",
            str(wanted.cpus),
            map_known(cpus, str),
            cpus == wanted.cpus,
            evidence=facts.cpu.evidence,
        )
    if wanted.numa_nodes is not None:
        count = map_known(facts.numa_nodes, lambda nodes: sum(n.is_gpu_memory is not True for n in nodes))
        yield Held(
            "host.numa_nodes",
            "the number of NUMA nodes",
            str(wanted.numa_nodes),
            map_known(count, str),
            count == wanted.numa_nodes,
        )
    yield from _held_names(wanted, evidence)


def _held_names(wanted: HostExpectation, evidence: Evidence) -> Iterator[Held]:
    """Compare mounts, services and modules, each name separately."""
    facts = evidence.facts
    mounts = map_known(facts.storage, lambda disks: {disk.mount: "mounted" for disk in disks})
    units = map_known(
        facts.software.services, lambda services: {_unit(service.name): service.value for service in services}
    )
    # The kernel does not distinguish between - and _ in names of modules.
    loaded = map_known(facts.software.modules, lambda modules: dict.fromkeys(map(_module, modules), "loaded"))
    tables: tuple[tuple[str, str, tuple[str, ...], dict[str, str] | Unknown, str, str], ...] = (
        ("host.mounts", "mount", wanted.mounts, mounts, "mounted", "not mounted"),
        (
            "host.services",
            "service",
            tuple(map(_unit, wanted.services)),
            units,
            "active",
            "not installed",
        ),
        (
            "host.modules",
            "kernel module",
            tuple(map(_module, wanted.modules)),
            loaded,
            "loaded",
            "not loaded",
        ),
    )
    for place, what, names, states, good, absent in tables:
        for name in names:
            state = states if isinstance(states, Unknown) else states.get(name, absent)
            yield Held(place, f"the {what} {name}", good, state, state == good)


def _unit(name: str) -> str:
    """Return the unit of a service: `nvidia-fabricmanager` means `nvidia-fabricmanager.service`."""
    return name.removesuffix(".service")


def _module(name: str) -> str:
    return name.replace("-", "_")


def _is_near(size: int, wanted: int, share_percent: float) -> bool:
    return abs(size - wanted) <= wanted * share_percent / 100
