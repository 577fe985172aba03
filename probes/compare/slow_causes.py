"""Search a machine's facts for the cause of a slow measurement.

The functions are pure. A cause is a fact about the machine, or a measurement of a part of the machine.
Without a cause, the finding lists what to inspect.
"""

import itertools
from collections.abc import Iterable, Iterator

from probes.base.record import Record, items_of, known
from probes.base.statistics import quantile
from probes.base.units import percent
from probes.compare.comparing import beside_references
from probes.compare.reference_values import gpu_named
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Remedy, Status
from probes.judging.rails import is_down, training_rails
from probes.judging.reporting import SMI_LINK, fold_names, smi_name
from probes.reading.pci.paths import REDIRECTS, tree_of

_FEW_PAIRS = 4
"""Maximum number of slow pairs that are themselves the cause; more slow pairs point to the fabric."""
_COMPUTING = ("gemm", "attention", "sustained")
"""Benchmarks in which healthy GPUs of one model have equal clocks."""


class Cause(Record, kw_only=True):
    """The explanation of a slow measurement."""

    words: str
    """Text that a finding adds after a colon: `its power limit is 400 W, below the default of 700 W`."""
    remedy: Remedy


def of_compute(evidence: Evidence, subject: str) -> Cause | None:
    """Return why a GPU computes slowly: its power limit, its reduced clocks, or other users."""
    gpu = gpu_named(evidence, subject)
    return next(_compute_causes(evidence, gpu), None) if gpu is not None else None


def _compute_causes(evidence: Evidence, gpu: Gpu) -> Iterator[Cause]:
    name = smi_name(gpu)
    limit, default = gpu.power_limit_w, gpu.power_limit_default_w
    if known(limit) and known(default) and round(limit) < round(default):
        yield Cause(
            words=f"its power limit is {limit:.0f} W, below the default of {default:.0f} W",
            remedy=Remedy(
                text="Set the default limit again, unless the site lowers it on purpose.",
                command=f"nvidia-smi -i {name} -pl {default:.0f}",
                needs_root=True,
            ),
        )
    active = held_down(evidence, f"GPU{gpu.index}").union(items_of(gpu.throttle_reasons))
    for row in reversed(evidence.thresholds.throttle_reasons):
        if row.name in active:
            yield Cause(
                words=f"its clocks are reduced: {row.meaning}",
                remedy=Remedy(
                    text=row.remedy, command=f"nvidia-smi -i {name} -q -d PERFORMANCE,TEMPERATURE,POWER"
                ),
            )
    yield from _clock_causes(evidence, gpu)
    clock, usual = gpu.limits.application_sm_clock_mhz, gpu.limits.application_sm_clock_default_mhz
    if known(clock) and known(usual) and clock < usual:
        yield Cause(
            words=f"its application clock is set to {clock} MHz, below the default of {usual} MHz",
            remedy=Remedy(
                text="Reset the application clocks.", command=f"nvidia-smi -i {name} -rac", needs_root=True
            ),
        )
    shared = next(
        (
            row.conditions["gpu_shared_with"]
            for row in evidence.measurements
            if row.subject == f"GPU{gpu.index}" and "gpu_shared_with" in row.conditions
        ),
        "",
    )
    if shared:
        yield Cause(
            words=f"{str(shared).rpartition(': ')[2]} used it at the same time",
            remedy=Remedy(text="Wait for it or end it, and measure again.", command=f"nvidia-smi -i {name}"),
        )
    if known(gpu.processes) and gpu.processes:
        yield Cause(
            words="another process computes on it"
            if len(gpu.processes) == 1
            else f"{len(gpu.processes)} other processes compute on it",
            remedy=Remedy(
                text="Wait for them or end them, and measure again.", command=f"nvidia-smi -i {name}"
            ),
        )


def _clock_causes(evidence: Evidence, gpu: Gpu) -> Iterator[Cause]:
    """Yield a clock below the clock of the other GPUs under the same load, with NVML's reason."""
    own: dict[str, list[float]] = {}
    others: dict[str, list[float]] = {}
    for row in evidence.measurements:
        clock_hz = row.conditions.get("sm_clock_hz")
        if (
            row.bench_id in _COMPUTING
            and isinstance(clock_hz, (int, float))
            and gpu_named(evidence, row.subject) is not None
        ):
            (own if row.subject == f"GPU{gpu.index}" else others).setdefault(row.bench_id, []).append(
                clock_hz
            )
    for bench in sorted(own.keys() & others.keys()):
        mine, usual = quantile(own[bench], 0.5), quantile(others[bench], 0.5)
        if mine < evidence.thresholds.measured_warn_fraction.value * usual:
            reasons = ", ".join(sorted(held_down(evidence, f"GPU{gpu.index}")))
            yield Cause(
                words=f"its SM clock was {mine / 1e6:.0f} MHz under load, "
                f"that of the others {usual / 1e6:.0f} MHz{f' ({reasons})' if reasons else ''}",
                remedy=Remedy(
                    text="See what reduces its clock: power limit, power supply, heat, or clocks that "
                    "somebody set.",
                    command=f"nvidia-smi -i {smi_name(gpu)} -q -d CLOCK,POWER,PERFORMANCE,TEMPERATURE",
                ),
            )
            return


def held_down(evidence: Evidence, subject: str) -> frozenset[str]:
    """Return the clock event reasons that were active on a GPU during its measurements.

    Reasons are NVML's names in lower case.
    """
    rows = (row for row in evidence.measurements if row.subject == subject)
    lists = (str(row.conditions.get("throttle_reasons", "")).split(", ") for row in rows)
    return frozenset(itertools.chain.from_iterable(lists)) - {""}


def of_host_copy(evidence: Evidence, subject: str) -> Cause | None:
    """Return why copies between host and GPU are slow: a narrow PCIe link, or an IOMMU that translates."""
    gpu = gpu_named(evidence, subject)
    if gpu is None:
        return None
    narrow = narrow_link(gpu)
    if narrow is not None:
        return Cause(
            words=f"its PCIe link has {narrow[0]} of {narrow[1]} lanes",
            remedy=Remedy(
                text="Reseat the card and its riser, and look at the slot's settings in the BIOS.",
                command=SMI_LINK,
            ),
        )
    return _of_iommu(evidence.facts)


def narrow_link(gpu: Gpu) -> tuple[int, int] | None:
    """Return the actual and the possible number of PCIe lanes if they differ."""
    width, most = gpu.pcie.width, gpu.pcie.width_max
    return (width, most) if known(width) and known(most) and width < most else None


def of_peer_copy(evidence: Evidence, subjects: Iterable[str]) -> Cause | None:
    """Return why copies between GPUs are slow: NVLinks down, ACS, refused peer access, or a translating
    IOMMU.
    """
    names, facts = tuple(subjects), evidence.facts
    gpus = [gpu for name in names if (gpu := gpu_named(evidence, name)) is not None]
    cause = _of_nvlinks(gpus) or _of_access(facts, names) or _of_acs(facts, _over_pcie(gpus))
    return cause or _of_iommu(facts)


def of_collective(evidence: Evidence) -> Cause | None:
    """Return why collectives within the machine are slow: NVLinks, variables, ACS, slow pairs or GPUs."""
    facts = evidence.facts
    gpus = items_of(facts.gpus)
    cause = _of_nvlinks(gpus) or _of_variables(facts) or _of_acs(facts, _over_pcie(gpus))
    cause = cause or _of_slow_pairs(evidence)
    if cause is not None:
        return cause
    for gpu in gpus:
        slow = of_compute(evidence, f"GPU{gpu.index}")
        if slow is not None:
            return Cause(words=f"of GPU{gpu.index}: {slow.words}", remedy=slow.remedy)
    return None


def _of_slow_pairs(evidence: Evidence) -> Cause | None:
    """Return the cause if copies of a few pairs fail their reference; a ring is as slow as such a pair."""
    copies = [copy for copy in beside_references(evidence) if copy.measured.bench_id == "peer-copy"]
    slow = {copy.measured.subject: copy for copy in copies if copy.status is Status.FAIL}
    if not slow or len(slow) > _FEW_PAIRS or len(slow) == len({copy.measured.subject for copy in copies}):
        return None
    least = min(copy.share for copy in slow.values())
    return Cause(
        words=f"copies of {', '.join(slow)} reach {percent(round(least, 2))} of the rate of their links",
        remedy=Remedy(
            text="Look at the NVLinks' state, speed and errors of these GPUs.", command="nvidia-smi nvlink -s"
        ),
    )


def of_network(evidence: Evidence) -> Cause | None:
    """Return why NCCL is slow over NICs: training ports down or slow, variables, or ACS above GPUs."""
    facts, rails = evidence.facts, training_rails(evidence.facts)
    down = tuple(port for port in rails.down if is_down(port))
    for ports, words in ((down, "not up"), (rails.slower, "slower than the others")):
        if ports and rails.active:
            names = fold_names([port.name for port in ports])
            return Cause(
                words=f"{names} {'are' if len(ports) > 1 else 'is'} {words}",
                remedy=Remedy(text="Look at the port's cable, module and switch port.", command="ibstat"),
            )
    return _of_variables(facts) or _of_acs(facts, items_of(facts.gpus))


def _of_nvlinks(gpus: Iterable[Gpu]) -> Cause | None:
    for gpu in gpus:
        links = items_of(gpu.nvlinks)
        down = [link for link in links if link.active is False and link.disabled is not True]
        if down and len(down) < len(links):
            return Cause(
                words=f"GPU{gpu.index} has {len(down)} of {len(links)} NVLinks down",
                remedy=Remedy(
                    text="Reset the GPU; if the links stay down, have the board checked.",
                    command=f"nvidia-smi nvlink -s -i {smi_name(gpu)}",
                ),
            )
    return None


def _of_access(facts: MachineFacts, names: tuple[str, ...]) -> Cause | None:
    for access in items_of(facts.peer_access):
        is_refused = access.capability in ("read", "write") and access.status != "OK"
        if is_refused and {access.a, access.b} == set(names):
            return Cause(
                words=f"the driver refuses peer access ({access.status})",
                remedy=Remedy(
                    text="Look for the driver's messages about peer access.", command="nvidia-smi topo -p2p r"
                ),
            )
    return None


def _over_pcie(gpus: Iterable[Gpu]) -> list[Gpu]:
    """Return the GPUs for which no active NVLink is known: their copies may pass the bridges above them."""
    return [
        gpu for gpu in gpus if not known(gpu.nvlinks) or all(link.active is not True for link in gpu.nvlinks)
    ]


def _of_acs(facts: MachineFacts, gpus: Iterable[Gpu]) -> Cause | None:
    tree = tree_of(facts)
    for gpu in gpus:
        device = tree.devices.get(gpu.pci_bus_id) if known(gpu.pci_bus_id) else None
        for bridge in tree.above(device) if device is not None else ():
            if isinstance(bridge.acs, tuple) and REDIRECTS & set(bridge.acs):
                return Cause(
                    words=f"ACS of the bridge {bridge.bus_id} sends peer-to-peer traffic through the host",
                    remedy=Remedy(
                        text="Switch ACS off in the BIOS, or clear it on the bridges above the GPUs.",
                        command="lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",
                        needs_root=True,
                    ),
                )
    return None


def _of_iommu(facts: MachineFacts) -> Cause | None:
    if facts.kernel.iommu != "translated":
        return None
    return Cause(
        words="the IOMMU translates every transfer",
        remedy=Remedy(
            text="Boot with iommu=pt, or switch the IOMMU off.", command="cat /proc/cmdline", needs_root=True
        ),
    )


_FORBIDDING = {
    "NCCL_P2P_DISABLE": ("1",),
    "NCCL_P2P_LEVEL": ("LOC", "0"),
    "NCCL_SHM_DISABLE": ("1",),
    "NCCL_IB_DISABLE": ("1",),
    "NCCL_NET_GDR_LEVEL": ("LOC", "0"),
    "NCCL_PROTO": ("LL", "LL128"),
}
"""Variables with the values that disable a fast path of NCCL (NCCL user guide, environment variables)."""


def _of_variables(facts: MachineFacts) -> Cause | None:
    for variable in items_of(facts.environment):
        if variable.is_effective and variable.value in _FORBIDDING.get(variable.name, ()):
            return Cause(
                words=f"{variable.name}={variable.value} disables a fast path of NCCL",
                remedy=Remedy(
                    text=f"Unset {variable.name}, which {variable.origin} sets.",
                    command=f"unset {variable.name}",
                ),
            )
    return None


def forbids_nvls(facts: MachineFacts) -> str:
    """Return the variable that keeps an all-reduce of NCCL out of the switch; empty if no variable does."""
    for variable in items_of(facts.environment):
        if not variable.is_effective:
            continue
        if variable.name == "NCCL_NVLS_ENABLE" and variable.value == "0":
            return "NCCL_NVLS_ENABLE=0"
        if variable.name == "NCCL_ALGO" and not _allows_nvls(variable.value):
            return f"NCCL_ALGO={variable.value}"
    return ""


def _allows_nvls(algorithms: str) -> bool:
    """Return whether a value of NCCL_ALGO lets an all-reduce use NVLS.

    The value has one list for all functions, or lists by function, such as `allreduce:ring;broadcast:tree`. A
    list that begins with `^` excludes its words and allows the others. Source: NVIDIA NCCL user guide,
    NCCL_ALGO, read on 2026-11-23.
    """
    lists = (each.rpartition(":") for each in algorithms.lower().split(";"))
    by_function = {function.strip(): words.strip() for function, _, words in lists}
    words = by_function.get("allreduce", by_function.get("", "nvls"))
    return ("nvls" in words) != words.startswith("^")


VERSIONS = ("torch_version", "cuda_version", "nccl_version", "driver_version", "device_name", "threads")
"""Conditions of a measurement that may explain a difference from an earlier run."""


def changed_since(before: Measurement, after: Measurement) -> tuple[str, ...]:
    """Return the conditions in `VERSIONS` that changed: `torch 2.4.0 -> 2.5.1`."""
    changes = []
    for name in VERSIONS:
        old, new = before.conditions.get(name), after.conditions.get(name)
        if old is not None and new is not None and old != new:
            changes.append(f"{name.removesuffix('_version').replace('_', ' ')} {old} -> {new}")
    return tuple(changes)
