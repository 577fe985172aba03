"""The catalogue: published figures of GPUs and machines. Each row has a source and a date.

An unknown GPU has no row and therefore no peak: rigtune never guesses a figure.
"""

import functools
import re
from typing import Literal

from probes.base.errors import UsageError
from probes.base.grouping import grouped
from probes.base.nearest import nearest
from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from probes.catalogue.gpu_names import form_distance, parts_of, size_distance, with_unit

Vendor = Literal["nvidia", "amd", "intel"]
"""Maker of the GPU, whose library of collectives and tools the machine has."""


class GpuModel(StrictRecord, kw_only=True):
    """Published and measured figures of one GPU model, from a row of `probes/data/gpus/`.

    Rates are dense (no sparsity), one direction, per GPU, in operations or bytes per second. If a document
    prints only sparse rates, the dense rate is half of them. For a module with two GPUs (MI250, K80) or four
    (A16), the row describes one GPU, as frameworks count. A figure that could not be confirmed is absent.
    Rows that share a plain name are in one file, the usual GPU first.
    """

    id: str
    title: str
    checked: bool
    """True if a recording of real hardware has confirmed the row.

    Predictions and plans also use other rows; checks compare machines with confirmed rows only.
    """
    driver_name: str = ""
    """The full name that current drivers report."""
    names: tuple[str, ...] = ()
    """Other names that drivers report: regular expressions for the full name, in any case."""
    plain_names: tuple[str, ...] = ()
    """Names that people write, without vendor, form, memory and punctuation (`gpu_names.py`)."""
    form: str = ""
    """Form of the GPU: `sxm`, `sxm3`, `pcie`, `nvl`, `server`, `workstation` or `maxq`.
    The form is given for modules of a board (`sxm`, `sxm3`) and if several forms share one plain name.
    """
    board_gpus: tuple[int, ...] = ()
    """Numbers of GPUs per node of this model, besides the numbers for all SXM boards (`sxm_board_gpus`).

    IBM's AC922 carries 4 or 6 V100 (IBM Power System AC922 technical overview, REDP-5494).
    """
    vendor: Vendor = "nvidia"
    architecture: str
    compute_capability: str
    """Compute capability, from NVIDIA's MIG user guide 610 and Transformer Engine's support matrix.

    For GPUs without such a number: AMD's name of the instruction set (`gfx942`), or the vendor's name of the
    chip.
    """
    pci_device_ids: tuple[str, ...] = ()
    """Vendor and device as `lspci -nn` prints them: `10de:2330`.

    Source: NVIDIA/open-gpu-kernel-modules, README, compatible GPUs; for older GPUs and AMD the PCI ID
    repository, pci.ids (2026-11). An id that products of different size share is left out (10de:2342 is a
    GH200 of 120 or of 480 GB).
    """
    lspci_words: tuple[str, ...] = ()
    """Words in brackets that lspci without -n prints after the name of the chip (pci.ids, 2026-11)."""
    memory_bytes: int
    """Memory of a whole GPU as printed by nvidia-smi in recordings and public logs.

    An unchecked row has the size that a framework reports, or else the nominal size.
    """
    peak_flops_per_s: dict[str, float]
    """Peak rate by dtype: fp32, tf32, bf16, fp16, fp8, nvfp4, mxfp4."""
    achievable_flops_per_s: dict[str, float] = {}
    """Best published measurement of the GEMM rate by dtype, at the best shape of a search."""
    memory_bandwidth_bytes_per_s: float
    link_kind: Literal["nvlink", "xgmi", "ethernet"] = "nvlink"
    """Kind of the links that `nvlink_count` counts: NVIDIA's, AMD's, or the Ethernet ports of a Gaudi."""
    nvlink_count: int = 0
    nvlink_bandwidth_bytes_per_s: float = 0.0
    """Bandwidth of one link in one direction."""
    nvlink_bridge: bool = False
    """True if the links need a bridge, which may be absent."""
    ring_bus_bandwidth_bytes_per_s: float | None = None
    """Measured all-reduce bus bandwidth of a full NVLink domain with the ring algorithm."""
    pcie_generation: int
    pcie_width: int = 16
    host_link_bytes_per_s: float = 0.0
    """Bandwidth in one direction of a link to the host's processor other than PCIe (NVLink-C2C); 0 without
    such a link.
    """
    power_limit_w: float | None = None
    multiprocessors: int | None = None
    """Streaming multiprocessors or compute units.

    Computed from tensor cores by card in karpathy/llm.c 0e69e3a llmc/mfu.h and
    winston-zhang-orz/gpu-specs 097f0fb specs.md unless the source states otherwise.
    """
    design: str = ""
    """Id of the usual machine with this GPU (`recipes/data/designs.toml`)."""
    source: str
    """Documents from which the row was written.

    "(quoted)" marks a document that was only read as a quotation in a public repository, "(not re-read)" a
    document that was not available when the row was written.
    """
    date: str
    """The month in which the documents were read."""
    notes: str = ""


class MachineModel(StrictRecord, kw_only=True):
    """A type of machine for which rigtune can plan without access to such a machine."""

    id: str
    title: str
    gpu: str
    """Id of the GPU row."""
    gpu_count: int
    nvswitch: bool = False
    nvlink_count: int = 0
    """Number of NVLinks between two GPUs of the node; with `nvswitch`, the number of all links of a GPU."""
    gpus_per_switch: int = 0
    """Number of GPUs below one PCIe switch, with their NICs; 0 if each device is on a root port of the host.
    """
    switch_link: Literal["PIX", "PXB"] = "PIX"
    """Distance between two devices of the same `gpus_per_switch` group."""
    gpu_link: Literal["PHB", "NODE"] = "NODE"
    """PCIe distance between two devices of one NUMA node that share no switch."""
    gpu_numa_nodes: tuple[int, ...] = ()
    """NUMA node of each GPU; empty if the GPUs are spread evenly in their order."""
    nic_count: int = 0
    nic_rate_gbps: float = 0.0
    nic_link_layer: str = "InfiniBand"
    nic_type: str = ""
    """Part number of the NIC that the driver reports (MT4129 is a ConnectX-7), or else the driver's name."""
    nic_pcie_generation: int | None = None
    nic_pcie_width: int = 16
    ethernet_rate_gbps: float | None = None
    """Rate of the host's own network, which every machine has; None if unknown."""
    cpu_model: str
    cpu_flags: tuple[str, ...]
    """Flags of /proc/cpuinfo that matter for training."""
    architecture: Literal["x86_64", "aarch64"] = "x86_64"
    virtual: bool = False
    """True for a virtual machine."""
    dmi: dict[str, str] = {}
    """Files of /sys/class/dmi/id that identify the vendor or the cloud, with their content."""
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
    """All rows of GPUs and machines. The rows shipped with rigtune are read at the first use."""

    def __init__(
        self, gpus: tuple[GpuModel, ...] | None = (), machines: tuple[MachineModel, ...] | None = ()
    ) -> None:
        """Use the given rows; None means the rows shipped with rigtune."""
        self._given_gpus = gpus
        self._given_machines = machines

    @functools.cached_property
    def gpus(self) -> tuple[GpuModel, ...]:
        return load_rows("probes", "gpus", GpuModel) if self._given_gpus is None else self._given_gpus

    @functools.cached_property
    def machines(self) -> tuple[MachineModel, ...]:
        return (
            load_rows("probes", "machines", MachineModel)
            if self._given_machines is None
            else self._given_machines
        )

    def gpu(self, name: str) -> GpuModel | None:
        """Return the row of a GPU by its id or by the name that the driver reports; None if there is none."""
        wanted = name.strip().lower()
        for row in self._gpus_with(wanted):
            if wanted in (row.id.lower(), row.driver_name.lower()):
                return row
        # Only old names and special models need the patterns, which are slower.
        return next(
            (
                row
                for row in self.gpus
                if any(re.fullmatch(name, wanted, re.IGNORECASE) for name in row.names)
            ),
            None,
        )

    def checked_gpu(self, name: str) -> GpuModel | None:
        """Return the row with which checks may compare a GPU; None if no recording confirms a row."""
        row = self.gpu(name)
        return row if row is not None and row.checked else None

    def gpu_named(self, words: str, memory_gb: float | None = None) -> GpuModel | None:
        """Return the row of a GPU by a name that people use.

        `memory_gb` is used if the name states no memory. A name without a match may still be an id or a name
        that a driver reports.
        """
        parts = parts_of(words)
        if parts.model not in self._gpus_by_plain_name:
            parts = parts_of(with_unit(words))
        memory_gb = parts.memory_gb if parts.memory_gb is not None else memory_gb

        def distance(row: GpuModel) -> tuple[float, ...]:
            return (
                form_distance(parts.form, row.form),
                size_distance(memory_gb, row.memory_bytes / 1024**3),
                size_distance(parts.watts, row.power_limit_w),
            )

        return min(self._gpus_by_plain_name.get(parts.model, ()), key=distance, default=None) or self.gpu(
            words
        )

    def gpu_on_bus(self, device_id: str, words: str = "") -> GpuModel | None:
        """Return the row of a GPU by its PCI device (`10de:2330`), or else by lspci's words in brackets."""
        device, bracket = device_id.strip().lower(), words.rpartition("[")[2].partition("]")[0]
        row = next((row for row in self._gpus_with(device) if device in row.pci_device_ids), None)
        return row or next((row for row in self._gpus_with(bracket) if bracket in row.lspci_words), None)

    def machines_sold_as(self, product: str) -> tuple[MachineModel, ...]:
        """Return the rows of machines with this product name in their DMI table."""
        return tuple(row for row in self.machines if row.dmi.get("product_name") == product)

    def machine(self, machine_id: str) -> MachineModel | None:
        return next((row for row in self.machines if row.id == machine_id.strip().lower()), None)

    def named_machine(self, name: str) -> MachineModel:
        """Return the row of a machine that the user names. Raises UsageError with the known names."""
        row = self.machine(name)
        if row is not None:
            return row
        known = [row.id for row in self.machines]
        guess = "".join(f"Did you mean {near}? " for near in nearest(name, known, cutoff=0.6))
        raise UsageError(f"there is no catalogue machine {name!r}", f"{guess}Known: {', '.join(known)}.")

    def _gpus_with(self, words: str) -> tuple[GpuModel, ...]:
        """Return the rows of all files that contain these words; other shipped files are not parsed."""
        if not words:
            return ()
        return _shipped_gpus_with(words) if self._given_gpus is None else self._given_gpus

    @functools.cached_property
    def _gpus_by_plain_name(self) -> dict[str, list[GpuModel]]:
        return grouped((name, row) for row in self.gpus for name in row.plain_names)


@functools.lru_cache(maxsize=64)
def _shipped_gpus_with(words: str) -> tuple[GpuModel, ...]:
    return load_rows("probes", "gpus", GpuModel, with_words=words)


@functools.lru_cache(maxsize=1)
def load_catalogue() -> Catalogue:
    """Return the rows shipped with rigtune, from `probes/data/gpus/` and `machines.toml`."""
    return Catalogue(gpus=None, machines=None)
