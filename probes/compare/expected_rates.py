"""Expected rates of a machine's links, from its facts and the rows of `tool_references.toml`."""

from __future__ import annotations

from collections.abc import Sequence

from probes.base.record import EvidenceRef, Record, Unknown, items_of, known
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.catalogue.thresholds import Thresholds
from probes.compare.tool_references import load_references
from probes.facts import Gpu, MachineFacts
from probes.judging.findings import Evidence, Status

_BOARD = 5
"""GPUs from which a machine with NVLink has switches, so that each pair has all links."""
_WHOLE_BOARD = 8
"""Ranks that the ring's reference applies to.

With fewer GPUs a mesh has fewer links, and switches use other algorithms.
"""


class Expected(Record, kw_only=True):
    """The rate that a transfer should reach."""

    rate: float
    """Bytes per second, one direction."""
    words: str
    """Link in words: `PCIe 5 x16`, `18 NVLinks`."""
    ref: EvidenceRef


def status_of(share: float, limits: Thresholds) -> Status:
    """Return FAIL, WARN or PASS for a share of a reference."""
    if share < limits.measured_fail_fraction.value:
        return Status.FAIL
    return Status.WARN if share < limits.measured_warn_fraction.value else Status.PASS


def model_of(gpu: Gpu | None, catalogue: Catalogue) -> GpuModel | None:
    """Return the checked row by the driver's name, else by the PCI id."""
    if gpu is None:
        return None
    model = catalogue.gpu(gpu.name) if known(gpu.name) else None
    if model is None and known(gpu.pci_device_id):
        model = catalogue.gpu_on_bus(gpu.pci_device_id)
    return model if model is not None and model.checked else None


def only_model(evidence: Evidence) -> GpuModel | None:
    """Return the model of all GPUs; None if unknown or mixed."""
    gpus = evidence.facts.gpus
    models = [model_of(gpu, evidence.catalogue) for gpu in gpus] if known(gpus) else []
    return models[0] if models and all(model == models[0] for model in models) else None


def host_copy_rate(gpu: Gpu | None, model: GpuModel | None) -> Expected | None:
    """Return the rate of the PCIe link that the GPU can have in this slot.

    The link of the catalogue counts if the facts do not state it.
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
    """Return the rate of the NVLinks between two GPUs of one model; None if there are none or unknown."""
    model = models[0] if models else None
    row = (
        load_references().nvlink_rate(model)
        if model is not None and all(other == model for other in models)
        else None
    )
    if row is None or model is None:
        return None
    links = items_of(facts.links)
    link = next((link for link in links if {link.a, link.b} == {a, b}), None)
    if link is not None:
        count = link.nvlink_count if link.kind == "NVLINK" else None
    else:
        is_board = (
            known(facts.gpus)
            and len(facts.gpus) >= _BOARD
            and model.nvlink_count > 6
            and not model.nvlink_bridge
        )
        count = model.nvlink_count if is_board else None
    return Expected(rate=row.rate * count, words=f"{count} NVLinks", ref=row.ref) if count else None


def ring_rate(evidence: Evidence, ranks: int | None, nodes: int | None) -> Expected | None:
    """Return the bus bandwidth of a ring over all GPUs of this machine for messages that saturate the links.

    None across machines, with fewer GPUs than a whole board, and if the GPUs or their links are unknown.
    """
    gpus, model = evidence.facts.gpus, only_model(evidence)
    if (
        isinstance(gpus, Unknown)
        or model is None
        or nodes != 1
        or ranks != len(gpus)
        or len(gpus) < _WHOLE_BOARD
    ):
        return None
    if model.nvlink_bridge:
        return None
    words = f"a ring over {ranks} {model.title}"
    if model.ring_bus_bandwidth_bytes_per_s is not None:
        ref = EvidenceRef(source="catalogue", key=model.id, detail=model.source)
        return Expected(rate=model.ring_bus_bandwidth_bytes_per_s, words=words, ref=ref)
    row = load_references().nvlink_rate(model)
    if row is None or not model.nvlink_count:
        return None
    return Expected(rate=row.rate * model.nvlink_count, words=words, ref=row.ref)
