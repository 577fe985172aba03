"""Read texts: the outputs of commands, and input texts. One reader class serves all kinds of text.

A row names a kind of text (`probes/catalogue/text_kinds.py`), the commands that write such a text on this
machine, and a function of the kind's parser: `(text: str) -> tuple[R, ...]`. The function returns partial
records with only what the text reports. A parser may set `line_ref(12)` as the evidence of a record;
otherwise the evidence is the whole text. The parser is loaded only if a text of its kind exists.

Each table contains the kinds that report one type of record, in the order of trust: the value of a field
comes from the first text that contains it. The collectors merge these records after the records of NVML and
sysfs.
"""

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

import msgspec

from probes.base.record import NOT_RECORDED, EvidenceRef, Record, Unknown, command_ref, items_of, map_known
from probes.facts import (
    Cpu,
    Diagnosis,
    FabricPort,
    FabricSwitch,
    Gpu,
    Link,
    Nic,
    NumaNode,
    PciDevice,
    PeerAccess,
    ToolResult,
    Unread,
)
from probes.reading.nvidia import SMI_NVLINK, SMI_QUERY, SMI_TIMEOUT_S, SMI_TOPOLOGY
from probes.sources.base import Source

R = TypeVar("R", bound=Record)


class Output(Record, kw_only=True):
    """A text and its origin."""

    text: str
    evidence: EvidenceRef
    """Origin: `command`, or `paste` with the file's name."""

    def line(self, number: int) -> EvidenceRef:
        """Return the reference to a line of the text, counted from 1."""
        return EvidenceRef(source=self.evidence.source, key=self.evidence.key, detail=f"line {number}")


def outputs(
    source: Source, kind: str, *argvs: tuple[str, ...], timeout_s: float = 10.0, even_failed: bool = False
) -> tuple[Output, ...] | Unknown:
    """Return the input texts of `kind` and the output of each command in `argvs`; Unknown if there are none.

    `kind` is a row of `probes/catalogue/text_kinds.py`. With `even_failed`, the output of a failed command is
    returned too.
    """
    texts = [
        Output(text=given.text, evidence=EvidenceRef(source="paste", key=given.name))
        for given in source.given(kind)
    ]
    failure: Unknown | None = None
    for argv in argvs:
        result = source.run(argv, timeout_s=timeout_s)
        text = result.text()
        if isinstance(text, Unknown) and even_failed and result.stdout.strip():
            text = result.stdout.decode("utf-8", "replace")
        if not isinstance(text, Unknown):
            texts.append(Output(text=text, evidence=command_ref(argv)))
        else:
            failure = failure or text
    return tuple(texts) or failure or NOT_RECORDED


class ReadText(Record, Generic[R], kw_only=True):
    """Records that one text reports."""

    output: Output
    records: tuple[R, ...]
    unread: tuple[Unread, ...] = ()
    """Lines that could not be read."""
    attached: int | Unknown | None = None
    """Number of GPUs that the driver counts; None if the text does not report it."""
    failure: Unknown | None = None
    """Reason why the driver reports no GPU at all, if the text contains a reason."""


class TextReader(Record, Generic[R], kw_only=True):
    """One kind of text and the functions of its parser's module that read it."""

    kind: str
    parse: str
    """Module below `probes.parsers` and function: `topology.lspci:parse_devices`.

    The function returns one record or a tuple of records.
    """
    commands: tuple[tuple[str, ...], ...] = ()
    timeout_s: float = 10.0
    even_failed: bool = False
    """True if the output of a failed command is used, because a tool fails if one of several devices
    vanishes.
    """
    is_driver: bool = False
    """True if the text contains values that only a working driver can report."""
    is_live: bool = False
    """True if the commands are also started on a live machine."""
    unread: str = ""
    """Second function of the module: `(text: str) -> tuple[Unread, ...]`, with `source` left empty.

    Only set if no other collector reports these lines.
    """
    attached: str = ""
    """Function that returns how many GPUs the driver counts: `(text: str) -> int | Unknown | None`."""
    failure: str = ""
    """Function for a text that only reports an error: `(text: str) -> Unknown | None`."""

    def read(self, source: Source) -> tuple[ReadText[R], ...] | Unknown:
        """Return the content of each text of this kind; Unknown if there is none."""
        texts = outputs(
            source, self.kind, *self.commands, timeout_s=self.timeout_s, even_failed=self.even_failed
        )
        return map_known(texts, lambda texts: tuple(map(self._read, texts)))

    def _read(self, output: Output) -> ReadText[R]:
        parsed = self._function(self.parse.partition(":")[2])(output.text)
        records = parsed if isinstance(parsed, tuple) else (parsed,)
        lines = self._function(self.unread)(output.text) if self.unread else ()
        return ReadText(
            output=output,
            records=tuple(_placed(record, output.evidence) for record in records),
            unread=tuple(msgspec.structs.replace(line, source=output.evidence.key) for line in lines),
            attached=self._function(self.attached)(output.text) if self.attached else None,
            failure=self._function(self.failure)(output.text) if self.failure else None,
        )

    def _function(self, name: str) -> Callable[[str], Any]:
        module = importlib.import_module(f"probes.parsers.{self.parse.partition(':')[0]}")
        return cast("Callable[[str], Any]", getattr(module, name))


def read_all(source: Source, readers: Iterable[TextReader[R]]) -> tuple[ReadText[R], ...]:
    """Return the contents of the texts of all `readers`, in the order of the readers."""
    return tuple(text for reader in readers for text in items_of(reader.read(source)))


def records_of(texts: Iterable[ReadText[R]]) -> tuple[R, ...]:
    """Return the records of all `texts`."""
    return tuple(record for text in texts for record in text.records)


def unread_of(texts: Iterable[ReadText[Any]]) -> tuple[Unread, ...]:
    """Return the lines of all `texts` that could not be read."""
    return tuple(line for text in texts for line in text.unread)


def _placed(record: R, origin: EvidenceRef) -> R:
    """Return `record` with evidence that names the text, and the line if the parser reports the line."""
    if "evidence" not in record.__struct_fields__:
        return record
    references: tuple[EvidenceRef, ...] = getattr(record, "evidence", ())
    refs = tuple(EvidenceRef(source=origin.source, key=origin.key, detail=ref.detail) for ref in references)
    return msgspec.structs.replace(record, evidence=refs or (origin,))


def _driver(
    kind: str, parse: str, *commands: tuple[str, ...], is_live: bool = False, **functions: str
) -> TextReader[Gpu]:
    """Return the reader of a text with which the driver itself reports GPUs."""
    return TextReader(
        kind=kind,
        parse=parse if ":" in parse else f"{parse}:parse_gpus",
        commands=commands,
        timeout_s=SMI_TIMEOUT_S,
        is_driver=True,
        is_live=is_live,
        **functions,  # type: ignore[arg-type] # names of functions
    )


def _nic(
    kind: str,
    parse: str,
    *command: str,
    unread: str = "",
    is_live: bool = False,
) -> TextReader[Nic]:
    return TextReader(
        kind=kind,
        parse=parse,
        commands=(command,) if command else (),
        even_failed=True,
        unread=unread,
        is_live=is_live,
    )


GPUS: tuple[TextReader[Gpu], ...] = (
    _driver(
        "nvidia-smi-xml",
        "nvidia_smi.nvsmi_xml",
        SMI_QUERY,
        is_live=True,
        attached="attached_gpus",
        unread="unread",
    ),
    _driver("nvidia-smi-text", "nvidia_smi.nvsmi_text", attached="attached_gpus", unread="unread"),
    _driver("nvidia-smi-csv", "nvidia_smi.nvsmi_csv", unread="unread"),
    _driver("nvidia-smi-table", "nvidia_smi.nvsmi_table", unread="unread"),
    _driver("nvidia-smi-list", "nvidia_smi.nvsmi_short:parse_list", unread="unread_list"),
    _driver("nvidia-smi-monitor", "nvidia_smi.nvsmi_short:parse_monitor"),
    _driver("nvidia-smi-error", "nvidia_smi.nvsmi_short:parse_error", failure="failure"),
    _driver("nvlink", "nvidia_smi.nvlink_status", SMI_NVLINK, is_live=True),
    _driver("nvlink-errors", "nvidia_smi.nvlink_error_counts", unread="unread"),
    _driver("dcgm-nvlink", "tools.dcgm_nvlink", unread="unread"),
    _driver("dcgm-monitor", "tools.dcgm_monitor"),
    _driver("dcgm-discovery", "tools.dcgm_discovery", attached="attached_gpus"),
    _driver("topology", "topology.topo_matrix", SMI_TOPOLOGY),
    _driver("peer-access", "topology.gpu_tables:parse_p2p_gpus"),
    _driver("rocm-topology", "topology.gpu_tables:parse_rocm_gpus"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_gpus"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_gpus"),
    TextReader(kind="lspci", parse="topology.lspci:parse_gpus"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_gpus"),
    TextReader(kind="nccl-graph", parse="topology.nccl_graph:parse_gpus", unread="parse_unread"),
    TextReader(kind="fabric-manager-log", parse="fabric.fabric_manager_log:parse_gpus"),
    TextReader(kind="dcgm-diagnostic", parse="tools.dcgm_diagnostic:parse_gpus"),
    TextReader(kind="nvbandwidth", parse="tools.nvbandwidth:parse_gpus"),
    TextReader(kind="cuda-bandwidth", parse="tools.cuda_bandwidth:parse_gpus"),
    TextReader(kind="nccl-tests", parse="tools.nccl_tests:parse_gpus"),
)
"""Texts that report GPUs.

A text without NVML's indices (lspci, a template of an NCCL topology) results in `index=UNNUMBERED`. If no
other source reports such a GPU, it is numbered by its PCI address, as in NVML. If there are texts of the
driver, the other texts only add values to the GPUs that the driver reports. On a live machine, NVML is
queried first; the live rows are read if NVML does not answer.
"""

NICS: tuple[TextReader[Nic], ...] = (
    _nic("ibv-devinfo", "fabric.ibv_devinfo:parse_nics", "ibv_devinfo", "-v", is_live=True),
    _nic("ibstatus", "fabric.rdma_lists:parse_ibstatus", "ibstatus"),
    _nic("ibstat", "fabric.infiniband_files:parse_ibstat", "ibstat", unread="unread_ibstat"),
    _nic("port-info", "fabric.port_info:parse_nics"),
    _nic("mlxlink", "fabric.mlxlink:parse_nics"),
    _nic("show-gids", "fabric.rdma_lists:parse_show_gids"),
    _nic("ibdev2netdev", "fabric.rdma_lists:parse_ibdev2netdev", "ibdev2netdev"),
    _nic("rdma-link", "fabric.rdma_lists:parse_rdma_link", "rdma", "link"),
    _nic("fi-info", "fabric.fi_info:parse_nics"),
    _nic("perfquery", "fabric.rdma_lists:parse_perfquery"),
    _nic("nccl-topology", "topology.nccl_topology:parse_nics"),
    _nic("hwloc", "topology.hwloc_xml:parse_nics"),
    _nic("lspci", "topology.lspci:parse_nics"),
)
"""Texts that report NICs.

A text with the PCI device but without the name of the RDMA device (lspci) results in `name=""` and
`pci_bus_id`. The values of such a record are added to all ports of the device. If no other source reports the
device, its name is its address. On a live machine sysfs is read; a deep check also reads the live row, which
reports the RDMA MTU.
"""

LINKS: tuple[TextReader[Link], ...] = (
    TextReader(
        kind="topology",
        parse="topology.topo_matrix:parse_links",
        commands=(SMI_TOPOLOGY,),
        timeout_s=SMI_TIMEOUT_S,
        is_live=True,
        unread="unread",
    ),
    TextReader(kind="rocm-topology", parse="topology.gpu_tables:parse_rocm_links", unread="unread_rocm"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_links"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_links"),
    TextReader(kind="lspci", parse="topology.lspci:parse_links"),
)
"""Texts that report pairs of devices.

Devices have the same names as in the other facts: `GPU0` by NVML's index, and `mlx5_0` by the RDMA device. A
NIC without a known RDMA device has the name or address that the text contains (`NIC3`).
"""

PEER_ACCESS: tuple[TextReader[PeerAccess], ...] = (
    TextReader(kind="peer-access", parse="topology.gpu_tables:parse_peer_access", unread="unread_p2p"),
)

PCI_DEVICES: tuple[TextReader[PciDevice], ...] = (
    TextReader(kind="lspci", parse="topology.lspci:parse_devices", unread="parse_unread"),
    TextReader(kind="pci-values", parse="topology.pci_values:parse_devices"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_devices", unread="parse_unread"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_devices", unread="parse_unread"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_devices"),
    TextReader(kind="fabric-manager-log", parse="fabric.fabric_manager_log:parse_devices"),
    TextReader(kind="dmidecode", parse="topology.dmidecode:parse_slots"),
)

CPUS: tuple[TextReader[Cpu], ...] = (
    TextReader(kind="lscpu", parse="host.lscpu:parse_cpu"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_cpu"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_cpu"),
)

NUMA_NODES: tuple[TextReader[NumaNode], ...] = (
    TextReader(kind="numactl", parse="topology.numactl:parse_numa_nodes"),
    TextReader(kind="lscpu", parse="host.lscpu:parse_numa_nodes"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_numa_nodes"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_numa_nodes"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_numa_nodes"),
)

FABRIC_PORTS: tuple[TextReader[FabricPort], ...] = (
    TextReader(kind="iblinkinfo", parse="fabric.fabric_maps:parse_iblinkinfo", commands=(("iblinkinfo",),)),
    TextReader(
        kind="ibnetdiscover", parse="fabric.fabric_maps:parse_ibnetdiscover", commands=(("ibnetdiscover",),)
    ),
)

FABRIC_SWITCHES: tuple[TextReader[FabricSwitch], ...] = (
    TextReader(kind="ibswinfo", parse="fabric.fabric_maps:parse_switches", commands=(("ibswinfo",),)),
)

MEASUREMENTS: tuple[TextReader[ToolResult], ...] = (
    TextReader(kind="nvbandwidth", parse="tools.nvbandwidth:parse_results", unread="parse_unread"),
    TextReader(kind="cuda-bandwidth", parse="tools.cuda_bandwidth:parse_results"),
    TextReader(kind="nccl-tests", parse="tools.nccl_tests:parse_results"),
    TextReader(kind="perftest", parse="tools.perftest:parse_results"),
    TextReader(kind="fabtests", parse="tools.fabtests:parse_results"),
    TextReader(kind="gpcnet", parse="tools.gpcnet:parse_results"),
)

DIAGNOSES: tuple[TextReader[Diagnosis], ...] = (
    TextReader(kind="dcgm-diagnostic", parse="tools.dcgm_diagnostic:parse_diagnoses", unread="parse_unread"),
    TextReader(kind="dcgm-monitor", parse="tools.dcgm_monitor:parse_diagnoses"),
    TextReader(kind="dcgm-health", parse="tools.dcgm_health:parse_diagnoses"),
)
