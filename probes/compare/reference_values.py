"""Rates that a machine should reach, from its facts and the rows of published results; pure functions."""

from collections.abc import Callable, Sequence

from probes.base.record import EvidenceRef, Record, Unknown, items_of, known, only_known
from probes.base.units import gib, plural
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.catalogue.thresholds import Thresholds
from probes.compare.reference_rows import (
    AttentionReference,
    CollectiveReference,
    GemmReference,
    MemoryReference,
    load_bench_references,
    load_references,
)
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Status
from probes.judging.measurement_evidence import gpus_in
from probes.judging.rails import training_ports

_BOARD = 5
"""A machine with at least this many GPUs of a model with more than six NVLinks has switches, so that each
pair can use all links.
"""
_WHOLE_BOARD = 8
"""Smallest number of ranks to which the reference for a ring applies.

With fewer GPUs a mesh has fewer links, and switches use other algorithms.
"""


class Expected(Record, kw_only=True):
    """The rate that a transfer should reach."""

    rate: float
    """Bytes per second, one direction."""
    words: str
    """Link as text: `PCIe 5 x16`, `18 NVLinks`."""
    ref: EvidenceRef


def status_of(share: float, limits: Thresholds) -> Status:
    """Return FAIL, WARN or PASS for a share of a reference."""
    if share < limits.measured_fail_fraction.value:
        return Status.FAIL
    return Status.WARN if share < limits.measured_warn_fraction.value else Status.PASS


def model_of(gpu: Gpu | None, catalogue: Catalogue) -> GpuModel | None:
    """Return the catalogue row of the GPU by the driver's name, or else by the PCI id.

    None if there is no verified row.
    """
    if gpu is None:
        return None
    model = catalogue.gpu(gpu.name) if known(gpu.name) else None
    if model is None and known(gpu.pci_device_id):
        model = catalogue.gpu_on_bus(gpu.pci_device_id)
    return model if model is not None and model.checked else None


def only_model(evidence: Evidence) -> GpuModel | None:
    """Return the model of all GPUs; None if it is unknown or differs between GPUs."""
    models = [model_of(gpu, evidence.catalogue) for gpu in items_of(evidence.facts.gpus)]
    return models[0] if models and all(model == models[0] for model in models) else None


def host_copy_rate(gpu: Gpu | None, model: GpuModel | None) -> Expected | None:
    """Return the rate of the GPU's PCIe link with the highest possible generation and the present width.

    Both are at most those of the catalogue, which are used if the facts do not state the link.
    """
    if gpu is None:
        return None
    generations = _numbers(gpu.pcie.generation_max, model.pcie_generation if model else None)
    widths = _numbers(gpu.pcie.width, gpu.pcie.width_max, model.pcie_width if model else None)
    row = load_references().host_rate(min(generations)) if generations and widths else None
    if row is None:
        return None
    width = min(widths)
    return Expected(rate=row.rate * width / 16, words=f"PCIe {row.pcie_generation} x{width}", ref=row.ref)


def _numbers(*values: object) -> list[int]:
    return [value for value in values if isinstance(value, int)]


def peer_copy_rate(facts: MachineFacts, a: str, b: str, models: Sequence[GpuModel | None]) -> Expected | None:
    """Return the rate of the NVLinks between two GPUs of one model; None if there is none or if unknown.

    If the facts do not contain the pair, all links of a GPU are assumed on machines with switches.
    """
    model = models[0] if models else None
    row = (
        load_references().nvlink_rate(model)
        if model is not None and all(other == model for other in models)
        else None
    )
    if row is None or model is None:
        return None
    link = next((link for link in items_of(facts.links) if {link.a, link.b} == {a, b}), None)
    if link is not None:
        count = link.nvlink_count if link.kind == "NVLINK" else None
    else:
        has_switches = len(items_of(facts.gpus)) >= _BOARD and model.nvlink_count > 6
        count = model.nvlink_count if has_switches and not model.nvlink_bridge else None
    return Expected(rate=row.rate * count, words=plural(count, "NVLink"), ref=row.ref) if count else None


def ring_rate(evidence: Evidence, ranks: int | None, nodes: int | None) -> Expected | None:
    """Return the bus bandwidth of a ring over all GPUs of this machine for messages that saturate the links.

    None for several machines, for fewer GPUs than a whole board, for NVLink bridges, and if the GPUs are
    unknown or of several models.
    """
    gpus, model = evidence.facts.gpus, only_model(evidence)
    if isinstance(gpus, Unknown) or model is None or model.nvlink_bridge:
        return None
    if nodes != 1 or ranks != len(gpus) or len(gpus) < _WHOLE_BOARD:
        return None
    words = f"a ring over {ranks} {model.title}"
    if model.ring_bus_bandwidth_bytes_per_s is not None:
        ref = EvidenceRef(source="catalogue", key=model.id, detail=model.source)
        return Expected(rate=model.ring_bus_bandwidth_bytes_per_s, words=words, ref=ref)
    row = load_references().nvlink_rate(model)
    if row is None or not model.nvlink_count:
        return None
    return Expected(rate=row.rate * model.nvlink_count, words=words, ref=row.ref)


class Reference(Record, kw_only=True):
    """A value that healthy hardware of this kind reaches."""

    value: float
    """Value in the measurement's unit."""
    words: str
    """Label for people: `H100 SXM, bf16`, `PCIe 5 x16`."""
    ref: EvidenceRef
    firm: bool = True
    """False if a lower value causes a warning at most."""
    fallback: "Reference | None" = None
    """Reference of a slower algorithm whose use is not a fault, such as a ring on a machine whose switch
    could do the reduction.
    """


def gpu_named(evidence: Evidence, name: str) -> Gpu | None:
    """Return the GPU in the facts that has a name such as `GPU3`."""
    return next((gpu for gpu in items_of(evidence.facts.gpus) if f"GPU{gpu.index}" == name), None)


def reference_of(evidence: Evidence, measured: Measurement) -> Reference | None:
    """Return the reference for this hardware, these parameters and this size; None if there is none."""
    rule = _RULES.get(measured.metric)
    return rule(evidence, measured) if rule is not None else None


def _model(evidence: Evidence, measured: Measurement) -> GpuModel | None:
    """Return the model of the only measured GPU; None for a MIG slice, which reaches only a part of
    the GPU's rate.
    """
    names = gpus_in(measured.subject)
    gpu = gpu_named(evidence, names[0]) if len(names) == 1 else None
    return None if gpu is None or gpu.mig_enabled is True else model_of(gpu, evidence.catalogue)


def _reference_of_row(
    row: GemmReference | MemoryReference | AttentionReference | None, words: str
) -> Reference | None:
    return None if row is None else Reference(value=row.value, words=words, ref=row.ref, firm=row.firm)


def _gemm(evidence: Evidence, measured: Measurement) -> Reference | None:
    model, table = _model(evidence, measured), load_bench_references()
    dtype, shape = (
        measured.parameters.get("dtype"),
        [measured.parameters.get(name) for name in ("m", "n", "k")],
    )
    if model is None or not isinstance(dtype, str):
        return None
    if any(not isinstance(size, (int, float)) or size < table.gemm_shapes.least_dimension for size in shape):
        return None
    return _reference_of_row(table.gemm_rate(model.id, dtype), f"{model.title}, {dtype}")


def _attention(evidence: Evidence, measured: Measurement) -> Reference | None:
    model = _model(evidence, measured)
    phase, dtype = str(measured.parameters.get("pass")), measured.parameters.get("dtype")
    head, length = measured.parameters.get("head_dim"), measured.parameters.get("sequence_length")
    if (
        model is None
        or dtype not in ("bf16", "fp16")
        or not isinstance(head, int)
        or not isinstance(length, int)
    ):
        return None
    row = load_bench_references().attention_rate(model.id, phase, head, length)
    return _reference_of_row(row, f"{model.title}, {phase}, head dimension {head}")


def _memory(evidence: Evidence, measured: Measurement) -> Reference | None:
    direction = measured.parameters.get("direction", "device_to_device")
    if direction in ("host_to_device", "device_to_host"):
        return _host_copy(evidence, measured)
    model = _model(evidence, measured)
    if model is None or direction != "device_to_device":
        return None
    return _reference_of_row(
        load_bench_references().memory_rate(model.id), f"{model.title}, read and written"
    )


def _host_copy(evidence: Evidence, measured: Measurement) -> Reference | None:
    """Return the reference of page-locked copies on the GPU's own NUMA node, one GPU at a time.

    Other copies may be slower and have no reference.
    """
    parameters = measured.parameters
    if (
        parameters.get("pinned") is False
        or parameters.get("near") is False
        or parameters.get("concurrent") is True
    ):
        return None
    if measured.bench_id != "host-device" and measured.conditions.get("concurrent_ranks", 1) != 1:
        return None
    names = gpus_in(measured.subject)
    gpu = gpu_named(evidence, names[0]) if len(names) == 1 else None
    return _reference_of_link(host_copy_rate(gpu, model_of(gpu, evidence.catalogue)))


def _peer_copy(evidence: Evidence, measured: Measurement) -> Reference | None:
    names = gpus_in(measured.subject)
    if len(names) != 2 or measured.parameters.get("direction") == "both":
        return None
    models = [model_of(gpu_named(evidence, name), evidence.catalogue) for name in names]
    return _reference_of_link(peer_copy_rate(evidence.facts, names[0], names[1], models))


def _reference_of_link(expected: Expected | None) -> Reference | None:
    return (
        None if expected is None else Reference(value=expected.rate, words=expected.words, ref=expected.ref)
    )


def _collective(evidence: Evidence, measured: Measurement) -> Reference | None:
    layer = measured.parameters.get("layers", "all")
    if measured.parameters.get("backend", "nccl") != "nccl" or layer not in ("all", "nvlink", "nic"):
        return None
    if layer == "nic":
        return _nic_only(evidence, measured)
    nodes = measured.parameters.get("nodes", 1)
    is_one_node = not isinstance(nodes, int) or nodes <= 1
    return _within_node(evidence, measured) if is_one_node else _across_nodes(evidence, measured)


def _nic_only(evidence: Evidence, measured: Measurement) -> Reference | None:
    """Return the reference for an all-reduce over only NICs, if each GPU has its own port."""
    row, rates = load_bench_references().nic_only, _port_rates(evidence)
    size, ranks = measured.parameters.get("bytes"), measured.parameters.get("world_size")
    if (
        not isinstance(size, int)
        or not isinstance(ranks, int)
        or size < row.bytes
        or len(rates) < ranks
        or not rates
    ):
        return None
    rate = min(rates)
    return Reference(
        value=rate * 1e9 / 8 * row.fraction,
        words=f"{row.fraction:.0%} of a port with {rate:g} Gb/s",
        ref=row.ref,
    )


def _port_rates(evidence: Evidence) -> list[float]:
    """Return the rates of the training ports in Gb/s; empty if the rate of one port is unknown."""
    ports = items_of(training_ports(evidence.facts))
    rates = only_known(port.rate_gbps for port in ports)
    return rates if len(rates) == len(ports) else []


def _within_node(evidence: Evidence, measured: Measurement) -> Reference | None:
    model = only_model(evidence)
    collective, size, ranks = (
        measured.parameters.get(name) for name in ("collective", "bytes", "world_size")
    )
    if (
        model is None
        or not isinstance(collective, str)
        or not isinstance(size, int)
        or not isinstance(ranks, int)
    ):
        return None
    nccl = str(measured.conditions.get("nccl_version", ""))
    rows = load_bench_references().collective_rates(model.id, collective, ranks, size, nccl)
    references = {
        algorithm: _collective_reference(row, model, collective, ranks) for algorithm, row in rows.items()
    }
    ring, fast = references.get("ring"), references.get("NVLS") or references.get("")
    if ring is None and collective == "all_reduce" and size >= load_references().saturating.collective_bytes:
        ring = _reference_of_link(ring_rate(evidence, ranks, 1))
    if fast is None or (ring is not None and ring.value >= fast.value):
        return ring
    return Reference(value=fast.value, words=fast.words, ref=fast.ref, firm=fast.firm, fallback=ring)


def _collective_reference(
    row: CollectiveReference, model: GpuModel, collective: str, ranks: int
) -> Reference:
    algorithm = {"ring": ", around a ring", "NVLS": ", in the switch (NVLS)", "": ""}[row.algorithm]
    words = f"{collective.replace('_', '-')} over {ranks} {model.title} from {gib(row.bytes)} up{algorithm}"
    return Reference(value=row.rates[collective], words=words, ref=row.ref, firm=row.firm)


def _across_nodes(evidence: Evidence, measured: Measurement) -> Reference | None:
    """Return a share of the line rate of all training ports of this machine.

    The other machines are assumed to have the same ports.
    """
    collective, size = (measured.parameters.get(name) for name in ("collective", "bytes"))
    if not isinstance(collective, str) or not isinstance(size, int):
        return None
    row = load_bench_references().across(collective, size)
    rates = _port_rates(evidence)
    if row is None or not rates:
        return None
    return Reference(
        value=sum(rates) * 1e9 / 8 * row.fraction,
        words=f"{row.fraction:.0%} of {plural(len(rates), 'port')} with {sum(rates):g} Gb/s in total",
        ref=row.ref,
    )


_RULES: dict[str, Callable[[Evidence, Measurement], Reference | None]] = {
    "gemm_flops_per_s": _gemm,
    "attention_flops_per_s": _attention,
    "memory_bandwidth_bytes_per_s": _memory,
    "peer_bandwidth_bytes_per_s": _peer_copy,
    "bus_bandwidth_bytes_per_s": _collective,
}
