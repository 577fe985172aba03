"""Compare versions and the rest of the host with the operator's policy.

Source: the policy file. Only limits and expectations that the policy states are judged here.
"""

import fnmatch
from collections.abc import Iterator

from probes.base.record import NOT_RECORDED, EvidenceRef, Unknown, known, map_known
from probes.base.units import gib
from probes.facts import Kernel
from probes.judging.findings import Evidence, Finding, Judge
from probes.judging.policies.compared import (
    VERSIONS,
    Held,
    compared,
    is_near,
    numa_node_count,
    service_states,
)
from probes.judging.policies.expected_versions import any_matches, setting_matches, words_of
from probes.judging.policies.policy import HostExpectation, Versions
from probes.parsers.kernel.command_line import kernel_arguments, normal_argument

SOFTWARE = Judge(
    check_id="policy-versions",
    why="Nodes with different software fail or slow down the jobs that they share.",
)
HOST_STATE = Judge(
    check_id="policy-host", why="Jobs rely on the memory, file systems and services that the policy states."
)


def policy_versions(evidence: Evidence) -> Iterator[Finding]:
    """Compare driver, operating system, kernel, libraries, BIOS and the management controller."""
    return compared(SOFTWARE, evidence, _held_versions(evidence))


def policy_host(evidence: Evidence) -> Iterator[Finding]:
    """Compare memory, processors, mounts, services, kernel modules, settings and arguments."""
    return compared(HOST_STATE, evidence, _held_host(evidence))


def _held_versions(evidence: Evidence) -> Iterator[Held]:
    policy, facts = evidence.policy, evidence.facts
    for row in VERSIONS:
        versions: Versions = getattr(getattr(policy, row.section), row.field)
        if versions is None:
            continue
        version = row.value_of(facts)
        yield Held(
            row.place,
            row.what,
            words_of(versions),
            "not installed" if version is None else version,
            isinstance(version, str) and any_matches(version, versions),
            evidence=getattr(facts, row.part).evidence,
        )


def _held_host(evidence: Evidence) -> Iterator[Held]:
    wanted, facts = evidence.policy.host, evidence.facts
    if wanted.memory_bytes is not None:
        size, share, total = wanted.memory_bytes, wanted.memory_tolerance_percent, facts.memory.total_bytes
        expected = f"{gib(size)}, give or take {share:g} %"
        holds = known(total) and is_near(total, size, share)
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
        count = numa_node_count(facts)
        yield Held(
            "host.numa_nodes",
            "the number of NUMA nodes",
            str(wanted.numa_nodes),
            map_known(count, str),
            count == wanted.numa_nodes,
        )
    yield from _held_names(wanted, evidence)
    yield from _held_settings(wanted, evidence)


def _held_names(wanted: HostExpectation, evidence: Evidence) -> Iterator[Held]:
    """Compare mounts, services and modules, each name separately."""
    facts = evidence.facts
    mounts = map_known(facts.storage, lambda disks: {disk.mount: "mounted" for disk in disks})
    # The kernel does not distinguish between - and _ in names of modules.
    loaded = map_known(facts.software.modules, lambda modules: dict.fromkeys(map(_module, modules), "loaded"))
    tables: tuple[tuple[str, str, tuple[str, ...], dict[str, str] | Unknown, str, str], ...] = (
        ("host.mounts", "mount", wanted.mounts, mounts, "mounted", "not mounted"),
        (
            "host.services",
            "service",
            tuple(name.removesuffix(".service") for name in wanted.services),
            service_states(facts),
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


def _module(name: str) -> str:
    return name.replace("-", "_")


def _held_settings(wanted: HostExpectation, evidence: Evidence) -> Iterator[Held]:
    """Compare the kernel's settings, and the arguments of its command line."""
    kernel = evidence.facts.kernel
    values = map_known(kernel.sysctls, lambda rows: {row.name: row.value for row in rows})
    for name, setting in wanted.sysctl.items():
        value = values if isinstance(values, Unknown) else values.get(name, NOT_RECORDED)
        holds = isinstance(value, (int, str)) and setting_matches(value, setting)
        expected = str(setting) if isinstance(setting, int) else words_of(setting)
        place = f"host.sysctl.{name}"
        refs = _refs(kernel, name.replace(".", "/"))
        yield Held(place, name, expected, map_known(value, str), holds, evidence=refs)
    arguments = map_known(kernel.command_line, kernel_arguments)
    for field, patterns, good in (
        ("kernel_arguments", wanted.kernel_arguments, True),
        ("kernel_arguments_absent", wanted.kernel_arguments_absent, False),
    ):
        for pattern in patterns:
            normal = normal_argument(pattern)
            matching = arguments if isinstance(arguments, Unknown) else fnmatch.filter(arguments, normal)
            yield Held(
                f"host.{field}",
                f"the kernel argument {pattern}",
                "given" if good else "not given",
                map_known(matching, lambda names: f"given: {' '.join(names)}" if names else "not given"),
                known(matching) and bool(matching) is good,
                evidence=_refs(kernel, "cmdline"),
            )


def _refs(kernel: Kernel, file: str) -> tuple[EvidenceRef, ...]:
    """Return the references to one of the files of the kernel."""
    return tuple(ref for ref in kernel.evidence if ref.key.endswith(f"/{file}"))
