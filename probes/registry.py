"""The ordered tables of what rigtune can probe, check and measure. A new one is a file and a row here.

Rows name modules as text and load them on use, so that listing imports nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Literal

from probes.record import Record


class Row(Record, kw_only=True):
    """One entry of a table."""

    id: str
    title: str
    module: str

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


class ProbeRow(Row, kw_only=True):
    """A collector: `collect(source: Source, options: CollectOptions) -> dict[str, object]` in its module."""

    provides: tuple[str, ...]
    """The fields of `MachineFacts` that it returns, all of them each time."""


Group = Literal["driver", "gpu", "fabric", "network", "host", "software", "storage"]


class CheckRow(Row, kw_only=True):
    """A check: `check(evidence: Evidence) -> Iterator[Finding]` in its module."""

    group: Group
    required: bool = True
    """An UNKNOWN of a required check makes the verdict UNKNOWN."""


class BenchmarkRow(Row, kw_only=True):
    """A benchmark. Its module has `requests(context: BenchContext) -> tuple[BenchRequest, ...]` and
    `interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure`.
    """

    suites: tuple[str, ...]
    occupies: str
    """What nobody else should use meanwhile: `one GPU at a time`, `all GPUs`, `all CPUs`."""
    cost_s: float
    """Rough duration on one machine, shown before it starts."""


def _check(check_id: str, title: str, group: Group, *, required: bool = True) -> CheckRow:
    return CheckRow(
        id=check_id, title=title, module=f"probes.checks.{check_id.replace('-', '_')}", group=group, required=required
    )


PROBES: tuple[ProbeRow, ...] = (
    ProbeRow(id="hostname", title="Name", module="probes.collect.hostname", provides=("hostname",)),
    ProbeRow(id="gpu", title="GPUs", module="probes.collect.gpu", provides=("gpus", "pci_gpus")),
    ProbeRow(id="topology", title="Topology", module="probes.collect.topology", provides=("links",)),
    ProbeRow(id="infiniband", title="InfiniBand and RoCE", module="probes.collect.infiniband", provides=("nics",)),
    ProbeRow(id="interfaces", title="Network interfaces", module="probes.collect.interfaces", provides=("interfaces",)),
    ProbeRow(id="cpu", title="CPU", module="probes.collect.cpu", provides=("cpu",)),
    ProbeRow(id="numa", title="NUMA nodes", module="probes.collect.numa", provides=("numa_nodes",)),
    ProbeRow(id="memory", title="Memory", module="probes.collect.memory", provides=("memory",)),
    ProbeRow(id="limits", title="Limits", module="probes.collect.limits", provides=("limits",)),
    ProbeRow(id="software", title="Software", module="probes.collect.software", provides=("software",)),
    ProbeRow(id="interpreter", title="Training interpreter", module="probes.collect.interpreter", provides=("training",)),
    ProbeRow(id="storage", title="Storage", module="probes.collect.storage", provides=("storage",)),
    ProbeRow(id="container", title="Container", module="probes.collect.container", provides=("container",)),
    ProbeRow(id="cloud", title="Cloud", module="probes.collect.cloud", provides=("cloud",)),
    ProbeRow(id="scheduler", title="Scheduler", module="probes.collect.scheduler", provides=("scheduler",)),
)
"""Collectors: `collect(source: Source, options: CollectOptions) -> dict[str, object]`, fields of `MachineFacts`."""

CHECKS: tuple[CheckRow, ...] = (
    _check("gpu-driver", "The driver answers for the GPUs", "driver"),
    _check("gpu-count", "Every GPU on the PCI bus is available", "driver", required=False),
    _check("gpu-model", "The GPUs are alike", "gpu", required=False),
    _check("ecc-uncorrected", "No uncorrected memory errors", "gpu"),
    _check("row-remap", "No memory row waits for replacement", "gpu"),
    _check("nvlink-fabric", "Every GPU has joined the NVLink fabric", "fabric", required=False),
    _check("fabric-manager", "The Fabric Manager runs", "fabric", required=False),
    _check("nvlink-active", "All NVLinks are up", "fabric"),
    _check("nvlink-speed", "NVLinks run at full speed", "fabric", required=False),
    _check("pcie-link", "PCIe links have their full width", "gpu", required=False),
    _check("gpu-throttle", "Nothing holds the clocks down", "gpu"),
    _check("gpu-power-limit", "Power limits are at their default", "gpu", required=False),
    _check("gpu-busy", "No other program uses the GPUs", "gpu", required=False),
    _check("mig-mode", "No GPU is partitioned", "gpu", required=False),
    _check("compute-mode", "Compute modes are at their default", "gpu", required=False),
    _check("persistence-mode", "Persistence mode is on", "driver", required=False),
    _check("nic-state", "The RDMA ports are up", "network"),
    _check("nic-rate", "Training ports run at one rate", "network", required=False),
    _check("memlock", "Enough memory may be locked for RDMA", "host"),
    _check("shm-size", "Shared memory is large enough", "host"),
    _check("nofile", "Enough files may be open", "host", required=False),
    _check("stack-limit", "The stack limit suits NCCL", "host", required=False),
    _check("cpu-affinity", "All CPUs may be used", "host", required=False),
    _check("cpu-governor", "The CPUs run at full clock", "host", required=False),
    _check("numa", "The NUMA node of each device is known", "host", required=False),
    _check("gpu-nic-affinity", "Every GPU has a training port close by", "network", required=False),
    _check("peermem", "NICs reach GPU memory directly", "network", required=False),
    _check("disk-space", "There is room for checkpoints", "storage", required=False),
    _check("torch-cuda", "Torch runs on this driver", "software", required=False),
    _check("torch-architecture", "Torch has code for these GPUs", "software", required=False),
)
"""What explains other failures stands first; findings of one status keep this order.

Required is what an unprivileged user can read wherever it applies, and without which training fails.
"""

BENCHMARKS: tuple[BenchmarkRow, ...] = (
    BenchmarkRow(
        id="gemm",
        title="Matrix multiplication rate by dtype",
        module="probes.bench.gemm",
        suites=("quick",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=15.0,
    ),
    BenchmarkRow(
        id="memory-copy",
        title="Memory bandwidth, within the device and to the host",
        module="probes.bench.memory_copy",
        suites=("quick",),
        occupies="all GPUs and the host's memory",
        cost_s=8.0,
    ),
    BenchmarkRow(
        id="all-reduce",
        title="All-reduce over the local ranks",
        module="probes.bench.all_reduce",
        suites=("quick",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=12.0,
    ),
    BenchmarkRow(
        id="train-step",
        title="One training step of the reference workload",
        module="probes.bench.train_step",
        suites=("quick",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=20.0,
    ),
)
