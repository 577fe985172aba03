"""Texts that tell something of GPUs: the outputs of tools. Each is a row of `READERS`.

A row names a kind (`probes/catalogue/kinds.py`), the commands that write such a text here, and a function of
the kind's parser: `(text: str) -> tuple[Gpu, ...]`, one partial record per GPU with what the text tells and
nothing else. `read` asks for the texts and completes `evidence`: a parser may leave `line_ref(12)`, and
without any the whole text is named. `collect/gpu.py` puts the records together behind those of NVML, in the
order of the rows: by PCI address, else by UUID, else by index.

A text that does not know NVML's indices (lspci, an NCCL topology) gives `index=UNNUMBERED`
(`probes/facts/gpu_facts.py`); where nothing else tells of such a GPU it is numbered by its PCI address, as
NVML does it. Rows with `driver=True` are the driver's own word; beside them the others only add to the GPUs
that the driver shows. On a live machine nobody is asked but NVML; where that does not answer, the commands of
the rows with `live=True` are tried.
"""

from __future__ import annotations

import importlib
from typing import cast

import msgspec

from probes.base.record import EvidenceRef, Record, Unknown
from probes.facts import Gpu, Unread
from probes.reading.nvidia import SMI_NVLINK, SMI_QUERY, SMI_TIMEOUT_S, SMI_TOPOLOGY
from probes.reading.outputs import Output, outputs
from probes.sources.base import Source


class Told(Record, kw_only=True):
    """What one text says of the machine's GPUs."""

    gpus: tuple[Gpu, ...] = ()
    attached_gpus: int | Unknown | None = None
    """How many the driver counts; None where the text does not tell."""
    failure: Unknown | None = None
    """Why the driver tells of no GPU at all, where the text says so."""
    unread: tuple[Unread, ...] = ()


class GpuReader(Record, kw_only=True):
    """One kind of text and the functions that find GPUs in it."""

    kind: str
    module: str
    function: str = "parse_gpus"
    commands: tuple[tuple[str, ...], ...] = ()
    driver: bool = False
    """True for what only a working driver can tell."""
    live: bool = False
    """True where the commands are worth their time on a live machine whose NVML does not answer."""
    attached: str = ""
    """A second function of the module, for the driver's own count: `(text: str) -> int | Unknown | None`."""
    failure: str = ""
    """Likewise, for a text that is nothing but a complaint: `(text: str) -> Unknown | None`."""
    unread: str = ""
    """Likewise, for lines that could not be read: `(text: str) -> tuple[Unread, ...]`, `source` left
    empty.
    """

    def read(self, source: Source) -> tuple[Told, ...] | Unknown:
        """What each text of this kind tells; Unknown where there is none, with the reason of the command."""
        found = outputs(source, self.kind, *self.commands, timeout_s=SMI_TIMEOUT_S)
        if isinstance(found, Unknown):
            return found
        module = importlib.import_module(self.module)
        return tuple(self._told(module, output) for output in found)

    def _told(self, module: object, output: Output) -> Told:
        gpus = cast("tuple[Gpu, ...]", getattr(module, self.function)(output.text))
        unread = cast("tuple[Unread, ...]", getattr(module, self.unread)(output.text)) if self.unread else ()
        return Told(
            gpus=tuple(_placed(gpu, output) for gpu in gpus),
            attached_gpus=getattr(module, self.attached)(output.text) if self.attached else None,
            failure=getattr(module, self.failure)(output.text) if self.failure else None,
            unread=tuple(msgspec.structs.replace(line, source=output.evidence.key) for line in unread),
        )


def _row(
    kind: str,
    module: str,
    *commands: tuple[str, ...],
    driver: bool = False,
    live: bool = False,
    function: str = "parse_gpus",
    attached: str = "",
    failure: str = "",
    unread: str = "",
) -> GpuReader:
    return GpuReader(
        kind=kind,
        module=f"probes.parsers.{module}",
        function=function,
        commands=commands,
        driver=driver,
        live=live,
        attached=attached,
        failure=failure,
        unread=unread,
    )


READERS: tuple[GpuReader, ...] = (
    _row(
        "nvidia-smi-xml",
        "nvidia_smi.nvsmi_xml",
        SMI_QUERY,
        driver=True,
        live=True,
        attached="attached_gpus",
        unread="unread",
    ),
    _row("nvidia-smi-text", "nvidia_smi.nvsmi_text", driver=True, attached="attached_gpus", unread="unread"),
    _row("nvidia-smi-csv", "nvidia_smi.nvsmi_csv", driver=True, unread="unread"),
    _row("nvidia-smi-table", "nvidia_smi.nvsmi_table", driver=True, unread="unread"),
    _row("nvidia-smi-list", "nvidia_smi.nvsmi_list", driver=True, unread="unread"),
    _row("nvidia-smi-monitor", "nvidia_smi.nvsmi_monitor", driver=True),
    _row("nvidia-smi-error", "nvidia_smi.nvsmi_error", driver=True, failure="failure"),
    _row("nvlink", "nvidia_smi.nvlink_status", SMI_NVLINK, driver=True, live=True),
    _row("nvlink-errors", "nvidia_smi.nvlink_error_counts", driver=True, unread="unread"),
    _row("dcgm-nvlink", "tools.dcgm_nvlink", driver=True, unread="unread"),
    _row("dcgm-discovery", "tools.dcgm_discovery", driver=True, attached="attached_gpus"),
    _row("topology", "topology.topo_matrix", SMI_TOPOLOGY, driver=True),
    _row("peer-access", "topology.topo_p2p", driver=True),
    _row("rocm-topology", "topology.rocm_topology", driver=True),
    _row("nccl-topology", "topology.nccl_topology"),
    _row("hwloc", "topology.hwloc_xml"),
    _row("lspci", "topology.lspci"),
    _row("lstopo", "topology.lstopo_console"),
    _row("nccl-graph", "topology.nccl_graph", unread="parse_unread"),
    _row("fabric-manager-log", "fabric.fabric_manager_log"),
    _row("dcgm-diagnostic", "tools.dcgm_diagnostic"),
    _row("nvbandwidth", "tools.nvbandwidth"),
    _row("cuda-bandwidth", "tools.cuda_bandwidth"),
    _row("nccl-tests", "tools.nccl_tests"),
)
"""In the order of trust: the first that knows a field has the last word."""


def _placed(gpu: Gpu, output: Output) -> Gpu:
    """`gpu` with evidence that leads to the text it was read from."""
    source, key = output.evidence.source, output.evidence.key
    refs = tuple(EvidenceRef(source=source, key=key, detail=ref.detail) for ref in gpu.evidence)
    return msgspec.structs.replace(gpu, evidence=refs or (output.evidence,))
