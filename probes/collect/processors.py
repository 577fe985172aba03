"""Collect the processors, the number of CPUs that this process may use, and the NUMA nodes.

NUMA nodes without CPUs consist of memory of other devices.
"""

import msgspec

from probes.base.grouping import folded
from probes.base.record import (
    NOT_RECORDED,
    EvidenceRef,
    Reason,
    Unknown,
    file_ref,
    first_unknown,
    items_of,
    map_known,
    only_known,
    quoted,
    value_or,
    when_missing,
)
from probes.collect.collecting import CollectOptions
from probes.facts import Contradiction, Cpu, NumaNode, Reading
from probes.parsers.host.cpulist import mask_list, parse_cpu_list
from probes.parsers.host.procfs import parse_cpuinfo, parse_meminfo, parse_status
from probes.parsers.topology.numactl import numa_status_node
from probes.reading.cgroup import Limit, cpu_quota
from probes.reading.merging import fill_unknown, merge
from probes.reading.texts import CPUS, NUMA_NODES, ReadText, read_all, records_of
from probes.sources.base import Source, read_int, read_text

_CPUINFO = "/proc/cpuinfo"
_ARCH = "/proc/sys/kernel/arch"
_STATUS = "/proc/self/status"
_CPUS = "/sys/devices/system/cpu"
_NODES = "/sys/devices/system/node"
_GPUS = "/proc/driver/nvidia/gpus"
_VOLATILE = frozenset({"allowed_cpus", "governor", "flags", "model", "max_mhz", "virtualization_flag"})
"""Fields whose values change, depend on the process, or are worded differently by tools."""
_NO_GOVERNOR = Unknown(Reason.NOT_SUPPORTED, "the kernel does not control CPU frequencies here")
_NO_PACKAGES = Unknown(Reason.NOT_SUPPORTED, "the platform does not state CPU packages")


def collect_cpu(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `cpu` and contradictions."""
    quota = cpu_quota(source)
    files = (_CPUINFO, _STATUS, _CPUS, *([quota.file] if quota.file else []))
    own = _cpu(source, quota, tuple(map(file_ref, files)))
    given_cpus = () if source.is_live else records_of(read_all(source, CPUS))
    if not given_cpus:
        return {"cpu": own}
    # The kernel's own files come first. If they were not recorded, they are left out.
    by_trust = given_cpus if isinstance(own.logical_cpus, Unknown) else (own, *given_cpus)
    merged, contradictions = merge("CPU", by_trust, volatile=_VOLATILE)
    return {"cpu": merged, "contradictions": contradictions}


def _cpu(source: Source, quota: Limit, evidence: tuple[EvidenceRef, ...]) -> Cpu:
    info = map_known(read_text(source, _CPUINFO), parse_cpuinfo)
    architecture = read_text(source, _ARCH)  # since Linux 6.1
    online = _online(source)
    cpu = Cpu(
        model=map_known(info, lambda info: info.model),
        architecture=architecture,
        sockets=map_known(info, lambda info: info.sockets),
        physical_cores=map_known(info, lambda info: info.physical_cores),
        logical_cpus=map_known(online, len),
        allowed_cpus=_allowed(source, quota),
        governor=_governor(source),
        flags=map_known(info, lambda info: info.flags),
        threads_per_core=_threads(source, online),
        max_mhz=map_known(read_int(source, f"{_CPUS}/cpu0/cpufreq/cpuinfo_max_freq"), lambda khz: khz / 1000),
        evidence=evidence,
    )
    if not isinstance(info, Unknown):
        cpu = msgspec.structs.replace(
            cpu,
            architecture=value_or(architecture, info.architecture),
            logical_cpus=info.logical_cpus,
            virtualization_flag=info.hypervisor,
        )
    if first_unknown(cpu.sockets, cpu.physical_cores):
        sockets, cores = _topology(source, online)
        cpu = msgspec.structs.replace(cpu, sockets=sockets, physical_cores=cores)
    return cpu


def _allowed(source: Source, quota: Limit) -> int | Unknown:
    """Return the number of CPUs in the affinity mask, or fewer if the control group limits CPU time.

    A quota is rounded down, because the kernel would stop additional threads in every period.
    """
    status = map_known(read_text(source, _STATUS), parse_status)
    cpus = map_known(status, lambda status: parse_cpu_list(status.get("Cpus_allowed_list", "")))
    if isinstance(cpus, Unknown):
        return cpus
    if not cpus:
        return Unknown(Reason.UNPARSABLE, f"{_STATUS} has no Cpus_allowed_list")
    if isinstance(quota.value, Unknown):
        return quota.value
    return len(cpus) if quota.value is None else min(len(cpus), max(1, int(quota.value)))


def _topology(source: Source, cpus: tuple[int, ...] | Unknown) -> tuple[int | Unknown, int | Unknown]:
    """Return sockets and cores from sysfs, for architectures whose /proc/cpuinfo does not list them."""
    if isinstance(cpus, Unknown):
        return cpus, cpus
    cores: set[tuple[int, int]] = set()
    for cpu in cpus:
        folder = f"{_CPUS}/cpu{cpu}/topology"
        package = read_int(source, f"{folder}/physical_package_id")
        core = read_int(source, f"{folder}/core_id")
        if isinstance(package, Unknown):
            return package, package
        if isinstance(core, Unknown):
            return core, core
        cores.add((package, core))
    packages = {package for package, _ in cores}
    return (_NO_PACKAGES, _NO_PACKAGES) if packages == {-1} else (len(packages), len(cores))


def _governor(source: Source) -> str | Unknown:
    """Return the frequency governor; several if CPUs differ."""
    policies = when_missing(source.names(f"{_CPUS}/cpufreq"), ())
    if isinstance(policies, Unknown):
        return policies
    governors = [
        read_text(source, f"{_CPUS}/cpufreq/{policy}/scaling_governor")
        for policy in policies
        if policy.startswith("policy")
    ]
    return first_unknown(*governors) or ", ".join(sorted(set(only_known(governors)))) or _NO_GOVERNOR


def _online(source: Source) -> tuple[int, ...] | Unknown:
    """Return the CPUs that are online; if a copy of sysfs lacks this list, the CPUs with a folder."""
    text = read_text(source, f"{_CPUS}/online")
    if not isinstance(text, Unknown):
        return parse_cpu_list(text)
    return _numbered(source, _CPUS, "cpu") or text


def _numbered(source: Source, folder: str, kind: str) -> tuple[int, ...]:
    """Return the numbers in the names of the folders of CPUs or NUMA nodes."""
    names = (name.removeprefix(kind) for name in items_of(source.names(folder)) if name.startswith(kind))
    return tuple(sorted(int(name) for name in names if name.isdecimal() and len(name) < 6))


def _threads(source: Source, cpus: tuple[int, ...] | Unknown) -> int | Unknown:
    """Return the hardware threads of the first core."""
    if isinstance(cpus, Unknown) or not cpus:
        return cpus if isinstance(cpus, Unknown) else NOT_RECORDED
    text = read_text(source, f"{_CPUS}/cpu{cpus[0]}/topology/thread_siblings_list")
    return map_known(map_known(text, parse_cpu_list), len)


def collect_numa(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `numa_nodes`, and contradictions."""
    own = _nodes_of_kernel(source)
    texts = () if source.is_live else read_all(source, NUMA_NODES)
    if not records_of(texts):
        return {"numa_nodes": own}
    by_index = {node.index: node for node in items_of(own)}
    for node in records_of(texts):
        by_index[node.index] = fill_unknown(by_index.get(node.index, node), msgspec.structs.asdict(node))
    return {
        "numa_nodes": tuple(by_index[index] for index in sorted(by_index)),
        "contradictions": _contradictions(texts),
    }


def _nodes_of_kernel(source: Source) -> tuple[NumaNode, ...] | Unknown:
    online = read_text(source, f"{_NODES}/online")
    if isinstance(online, Unknown):
        if online.reason is Reason.TOOL_MISSING:
            return ()  # a kernel built without NUMA has no such folder
        if isinstance(source.names(_NODES), Unknown):
            return online
    indexes = parse_cpu_list(online) if isinstance(online, str) else _numbered(source, _NODES, "node")
    if isinstance(indexes, Unknown):
        return indexes
    nodes = tuple(_node(source, index) for index in indexes)
    if all(node.cpus != "" for node in nodes):
        return nodes
    gpu_nodes = _gpu_nodes(source)
    return tuple(
        msgspec.structs.replace(
            node, is_gpu_memory=gpu_nodes if isinstance(gpu_nodes, Unknown) else node.index in gpu_nodes
        )
        for node in nodes
    )


def _node(source: Source, index: int) -> NumaNode:
    folder = f"{_NODES}/node{index}"
    sizes = map_known(read_text(source, f"{folder}/meminfo"), parse_meminfo)

    def size(name: str) -> int | Unknown:
        absent = Unknown(Reason.UNPARSABLE, f"{folder}/meminfo has no {name}")
        return map_known(sizes, lambda sizes: sizes.get(name, absent))

    return NumaNode(
        index=index,
        cpus=_cpus(source, folder),
        memory_bytes=size("MemTotal"),
        memory_free_bytes=size("MemFree"),
        distances=map_known(read_text(source, f"{folder}/distance"), _row),
        is_gpu_memory=False,
    )


def _cpus(source: Source, folder: str) -> str | Unknown:
    """Return the CPUs of a node that are online."""
    text = read_text(source, f"{folder}/cpulist")
    if isinstance(text, Unknown):
        mask = read_text(source, f"{folder}/cpumap")
        return text if isinstance(mask, Unknown) else mask_list(mask)
    cpus, online = parse_cpu_list(text), map_known(read_text(source, f"{_CPUS}/online"), parse_cpu_list)
    if isinstance(cpus, Unknown) or isinstance(online, Unknown) or not online or set(cpus) <= set(online):
        return text
    return folded(cpu for cpu in cpus if cpu in set(online))


def _row(text: str) -> tuple[int, ...] | Unknown:
    numbers = text.split()
    if not numbers or not all(number.isdecimal() and len(number) < 5 for number in numbers):
        return Unknown(Reason.UNPARSABLE, f"distance: {quoted(text)}")
    return tuple(int(number) for number in numbers)


def _gpu_nodes(source: Source) -> frozenset[int] | Unknown:
    """Return the nodes that the NVIDIA driver created for GPU memory."""
    gpus = when_missing(source.names(_GPUS), ())
    if isinstance(gpus, Unknown):
        return gpus
    texts = [read_text(source, f"{_GPUS}/{gpu}/numa_status") for gpu in gpus]
    nodes = [numa_status_node(text) for text in only_known(texts)]
    return frozenset(node for node in nodes if node is not None)


def _contradictions(texts: tuple[ReadText[NumaNode], ...]) -> tuple[Contradiction, ...]:
    """Return the nodes for which texts report different CPUs."""
    readings: dict[int, dict[str, Reading]] = {}
    for read in texts:
        for node in read.records:
            cpus = map_known(node.cpus, parse_cpu_list)
            if not isinstance(cpus, Unknown) and cpus:
                text = folded(cpus)
                readings.setdefault(node.index, {}).setdefault(
                    text, Reading(value=text, evidence=read.output.evidence)
                )
    return tuple(
        Contradiction(subject=f"NUMA node {index}", field="cpus", readings=tuple(values.values()))
        for index, values in sorted(readings.items())
        if len(values) > 1
    )
