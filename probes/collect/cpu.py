"""Collect the processors, and the part that this process may use."""

from __future__ import annotations

import re

from probes.base.evidence import file_ref
from probes.base.record import NOT_RECORDED, EvidenceRef, Reason, Unknown, map_known, value_or
from probes.collect.collecting import CollectOptions
from probes.facts import Cpu
from probes.parsers.host.cpulist import parse_cpu_list
from probes.parsers.host.procfs import CpuInfo, parse_cpuinfo, parse_status
from probes.reading.cgroup import Limit, cpu_quota
from probes.reading.merging import merge
from probes.reading.readers.reader_rows import CPUS
from probes.reading.readers.text_reader import read_all, records_of
from probes.sources.base import Source, read_int, read_text

_CPUINFO = "/proc/cpuinfo"
_ARCH = "/proc/sys/kernel/arch"
_STATUS = "/proc/self/status"
_CPUS = "/sys/devices/system/cpu"
_NAME = re.compile(r"cpu(\d{1,5})")
_VOLATILE = frozenset({"allowed_cpus", "governor", "flags", "model", "max_mhz", "virtualization_flag"})
"""Fields that change, depend on the process that asks, or are worded differently."""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `cpu` and contradictions."""
    info = map_known(read_text(source, _CPUINFO), parse_cpuinfo)
    quota = cpu_quota(source)
    files = [_CPUINFO, _STATUS, _CPUS, *([quota.file] if quota.file else [])]
    own = _cpu(source, info, quota, tuple(file_ref(file) for file in files))
    given_cpus = () if source.is_live else records_of(read_all(source, CPUS))
    if not given_cpus:
        return {"cpu": own}
    merged, contradictions = merge("CPU", _by_trust(own, given_cpus), volatile=_VOLATILE)
    return {"cpu": merged, "contradictions": contradictions}


def _by_trust(own: Cpu, given_cpus: tuple[Cpu, ...]) -> tuple[Cpu, ...]:
    """Return the kernel's own files first, unless none was recorded: then they are no evidence either."""
    return given_cpus if isinstance(own.logical_cpus, Unknown) else (own, *given_cpus)


def _cpu(source: Source, info: CpuInfo | Unknown, quota: Limit, evidence: tuple[EvidenceRef, ...]) -> Cpu:
    architecture = read_text(source, _ARCH)  # since Linux 6.1
    allowed, governor = _allowed(source, quota), _governor(source)
    if isinstance(info, Unknown):
        sockets, cores = _topology(source)
        online = _online(source)
        return Cpu(
            model=info,
            architecture=architecture,
            sockets=sockets,
            physical_cores=cores,
            logical_cpus=map_known(online, len),
            allowed_cpus=allowed,
            governor=governor,
            flags=info,
            threads_per_core=_threads(source),
            max_mhz=_max_mhz(source),
            evidence=evidence,
        )
    sockets, cores = info.sockets, info.physical_cores
    if isinstance(sockets, Unknown) or isinstance(cores, Unknown):
        sockets, cores = _topology(source)
    return Cpu(
        model=info.model,
        architecture=value_or(architecture, info.architecture),
        sockets=sockets,
        physical_cores=cores,
        logical_cpus=info.logical_cpus,
        allowed_cpus=allowed,
        governor=governor,
        flags=info.flags,
        threads_per_core=_threads(source),
        virtualization_flag=info.hypervisor,
        max_mhz=_max_mhz(source),
        evidence=evidence,
    )


def _allowed(source: Source, quota: Limit) -> int | Unknown:
    """Return the CPUs of the affinity mask, or fewer if the control group grants less time.

    A quota is rounded down: threads beyond it would be stopped in every period.
    """
    status = read_text(source, _STATUS)
    if isinstance(status, Unknown):
        return status
    cpus = parse_cpu_list(parse_status(status).get("Cpus_allowed_list", ""))
    if isinstance(cpus, Unknown):
        return cpus
    if not cpus:
        return Unknown(Reason.UNPARSABLE, f"{_STATUS} has no Cpus_allowed_list")
    if isinstance(quota.value, Unknown):
        return quota.value
    return len(cpus) if quota.value is None else min(len(cpus), max(1, int(quota.value)))


def _topology(source: Source) -> tuple[int | Unknown, int | Unknown]:
    """Return sockets and cores from sysfs, for architectures whose /proc/cpuinfo does not state them."""
    cpus = _online(source)
    if isinstance(cpus, Unknown):
        return cpus, cpus
    packages: set[int] = set()
    cores: set[tuple[int, int]] = set()
    for cpu in cpus:
        folder = f"{_CPUS}/cpu{cpu}/topology"
        package, core = (
            read_int(source, f"{folder}/physical_package_id"),
            read_int(source, f"{folder}/core_id"),
        )
        for answer in (package, core):
            if isinstance(answer, Unknown):
                return answer, answer
        if isinstance(package, int) and isinstance(core, int):
            packages.add(package)
            cores.add((package, core))
    if packages == {-1}:
        not_stated = Unknown(Reason.NOT_SUPPORTED, "the platform does not state CPU packages")
        return not_stated, not_stated
    return len(packages), len(cores)


def _governor(source: Source) -> str | Unknown:
    """Return the frequency governor; several if CPUs differ."""
    policies = source.names(f"{_CPUS}/cpufreq")
    if isinstance(policies, Unknown):
        if policies.reason is Reason.TOOL_MISSING:
            return Unknown(Reason.NOT_SUPPORTED, "the kernel does not control CPU frequencies here")
        return policies
    governors: set[str] = set()
    for policy in policies:
        if policy.startswith("policy"):
            governor = read_text(source, f"{_CPUS}/cpufreq/{policy}/scaling_governor")
            if isinstance(governor, Unknown):
                return governor
            governors.add(governor)
    if not governors:
        return Unknown(Reason.NOT_SUPPORTED, "the kernel does not control CPU frequencies here")
    return ", ".join(sorted(governors))


def _online(source: Source) -> tuple[int, ...] | Unknown:
    """Return the CPUs that are online; CPUs with a folder if a copy of sysfs lacks the list."""
    text = read_text(source, f"{_CPUS}/online")
    if not isinstance(text, Unknown):
        return parse_cpu_list(text)
    names = source.names(_CPUS)
    with_folder = (
        ()
        if isinstance(names, Unknown)
        else tuple(sorted(int(m[1]) for name in names if (m := _NAME.fullmatch(name))))
    )
    return with_folder or text


def _threads(source: Source) -> int | Unknown:
    """Return the hardware threads of the first core."""
    cpus = _online(source)
    if isinstance(cpus, Unknown) or not cpus:
        return cpus if isinstance(cpus, Unknown) else NOT_RECORDED
    text = read_text(source, f"{_CPUS}/cpu{cpus[0]}/topology/thread_siblings_list")
    return map_known(map_known(text, parse_cpu_list), len)


def _max_mhz(source: Source) -> float | Unknown:
    kilohertz = read_int(source, f"{_CPUS}/cpu0/cpufreq/cpuinfo_max_freq")
    return map_known(kilohertz, lambda kilohertz: kilohertz / 1000)
