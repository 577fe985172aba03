"""The catalogue: what each GPU and machine can do by published figures. Rows are data with a source and a
date.

An unknown GPU has no row, and then no peak: rigtune never guesses one.
"""

from __future__ import annotations

import functools
import re
from typing import Literal

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import read_rows, rows_with


class GpuModel(StrictRecord, kw_only=True):
    """Published and measured figures of one GPU model. Rates are dense (no sparsity), one direction, per
    GPU.
    """

    id: str
    title: str
    driver_name: str = ""
    """The name that today's driver gives, in full."""
    names: tuple[str, ...] = ()
    """Its other names, as regular expressions that are matched in full and without case."""
    architecture: str
    compute_capability: str
    """AMD's name of the instruction set (`gfx942`) or the vendor's of the chip where there is no such
    number.
    """
    pci_device_ids: tuple[str, ...] = ()
    """Vendor and device as `lspci -nn` prints them: `10de:2330`. From NVIDIA/open-gpu-kernel-modules, README,
    compatible GPUs; those of V100 and T4 from the PCI ID repository (2026-11).
    """
    memory_bytes: int
    peak_flops_per_s: dict[str, float]
    """By dtype: fp32, tf32, bf16, fp16, fp8, fp4."""
    achievable_flops_per_s: dict[str, float] = {}
    """Best measured GEMM rate by dtype, where somebody published it."""
    memory_bandwidth_bytes_per_s: float
    link_kind: Literal["nvlink", "xgmi", "ethernet"] = "nvlink"
    """What the links counted below are: NVIDIA's, AMD's, or the Ethernet ports of a Gaudi."""
    nvlink_count: int = 0
    nvlink_bandwidth_bytes_per_s: float = 0.0
    """One link, one direction."""
    nvlink_bridge: bool = False
    """True where the links need a bridge, which may be absent."""
    ring_bus_bandwidth_bytes_per_s: float | None = None
    """Measured all-reduce bus bandwidth of a full NVLink domain with the ring algorithm."""
    pcie_generation: int
    pcie_width: int = 16
    host_link_bytes_per_s: float = 0.0
    """One direction of a link to the host's processor other than PCIe (NVLink-C2C); 0 where there is none."""
    power_limit_w: float | None = None
    multiprocessors: int | None = None
    """Streaming multiprocessors or compute units."""
    source: str
    date: str
    notes: str = ""


class MachineModel(StrictRecord, kw_only=True):
    """A machine that can be planned for without being there."""

    id: str
    title: str
    gpu: str
    """Id of the GPU row."""
    gpu_count: int
    nvswitch: bool = False
    nvlink_count: int = 0
    """NVLinks between two GPUs of the node; with `nvswitch`, all of a GPU's links."""
    gpus_per_switch: int = 0
    """GPUs below one PCIe switch, together with their NICs; 0 where every device hangs on a root port of the
    host.
    """
    switch_link: Literal["PIX", "PXB"] = "PIX"
    """Distance between two devices of the same `gpus_per_switch` group."""
    gpu_link: Literal["PHB", "NODE"] = "NODE"
    """PCIe distance between two devices of one NUMA node that share no switch."""
    gpu_numa_nodes: tuple[int, ...] = ()
    """NUMA node of each GPU; empty where the GPUs are spread evenly in their order."""
    nic_count: int = 0
    nic_rate_gbps: float = 0.0
    nic_link_layer: str = "InfiniBand"
    nic_type: str = ""
    """The part number that the driver shows (MT4129 is a ConnectX-7), or the driver's name for devices
    without one.
    """
    nic_pcie_generation: int | None = None
    nic_pcie_width: int = 16
    ethernet_rate_gbps: float | None = None
    """Of the host's own network, which every machine has; None where it is not known."""
    cpu_model: str
    cpu_flags: tuple[str, ...]
    """Those of /proc/cpuinfo that matter for training."""
    architecture: Literal["x86_64", "aarch64"] = "x86_64"
    virtual: bool = False
    """True for a virtual machine."""
    dmi: dict[str, str] = {}
    """Files of /sys/class/dmi/id by which the maker or cloud is known."""
    sockets: int
    cores_per_socket: int
    threads_per_core: int = 2
    numa_nodes: int
    memory_bytes: int
    driver_version: str
    cuda_driver_version: str
    operating_system: str = "Ubuntu 22.04"
    source: str
    date: str
    notes: str = ""


class Catalogue:
    """All catalogue rows. Those shipped with rigtune are read when they are first wanted: a machine without
    GPU needs none.
    """

    def __init__(
        self,
        gpus: tuple[GpuModel, ...] | None = (),
        machines: tuple[MachineModel, ...] | None = (),
        described: tuple[GpuModel, ...] | None = (),
    ) -> None:
        """None stands for the rows shipped with rigtune."""
        self._gpus = gpus
        self._machines = machines
        self._described = described

    @property
    def gpus(self) -> tuple[GpuModel, ...]:
        if self._gpus is None:
            self._gpus = msgspec.convert(read_rows("gpus")["gpus"], tuple[GpuModel, ...])
        return self._gpus

    @property
    def machines(self) -> tuple[MachineModel, ...]:
        if self._machines is None:
            self._machines = msgspec.convert(read_rows("machines")["machines"], tuple[MachineModel, ...])
        return self._machines

    @property
    def described(self) -> tuple[GpuModel, ...]:
        """GPUs that runs are predicted for by what their datasheets say, and that no check has met."""
        if self._described is None:
            self._described = msgspec.convert(read_rows("described_gpus")["gpus"], tuple[GpuModel, ...])
        return self._described

    def model(self, gpu_id: str) -> GpuModel | None:
        """The row of a GPU by its id, also of those that are only described."""
        return next((row for rows in (self.gpus, self.described) for row in rows if row.id == gpu_id), None)

    def _naming(self, words: str) -> tuple[GpuModel, ...]:
        """At least the rows with these words: of the shipped ones, no others are read for it."""
        return self._gpus if self._gpus is not None else _gpus_with(words)

    def gpu(self, name: str) -> GpuModel | None:
        """The row of a GPU by its id or by the name that the driver gives; None where it is not in the
        catalogue.
        """
        wanted = name.strip().lower()
        for row in self._naming(wanted):
            if wanted in (row.id.lower(), row.driver_name.lower()):
                return row
        # Only names of long ago and of special models need the patterns.
        return next(
            (
                row
                for row in self.gpus
                if any(re.fullmatch(name, wanted, re.IGNORECASE) for name in row.names)
            ),
            None,
        )

    def gpu_by_device(self, device_id: str) -> GpuModel | None:
        """The row of a GPU by its PCI vendor and device id, which a bus shows without a driver."""
        wanted = device_id.strip().lower()
        return next((row for row in self.gpus if wanted in row.pci_device_ids), None)

    def machines_sold_as(self, product: str) -> tuple[MachineModel, ...]:
        """The rows of machines whose DMI has this product name."""
        rows = self._machines if self._machines is not None else _machines_with(product)
        return tuple(row for row in rows if row.dmi.get("product_name") == product)

    def machine(self, machine_id: str) -> MachineModel | None:
        return next((row for row in self.machines if row.id == machine_id.strip().lower()), None)


@functools.lru_cache(maxsize=64)
def _gpus_with(words: str) -> tuple[GpuModel, ...]:
    return msgspec.convert(rows_with("gpus", words), tuple[GpuModel, ...])


@functools.lru_cache(maxsize=8)
def _machines_with(words: str) -> tuple[MachineModel, ...]:
    return msgspec.convert(rows_with("machines", words), tuple[MachineModel, ...])


@functools.lru_cache(maxsize=1)
def load_catalogue() -> Catalogue:
    """The rows shipped with rigtune, from `probes/data/gpus.toml`, `described_gpus.toml` and
    `machines.toml`.
    """
    return Catalogue(gpus=None, machines=None, described=None)
