"""Notes about cells of a row that were not understood or are replaced by something else."""

from __future__ import annotations

from recipes.cases.case import Case
from recipes.job.workload import Precision
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_words import USUAL_NETWORK
from recipes.machine.link_words import fabric_of, inter_bandwidth_of, transport_of
from recipes.predict.stacks import BEFORE_FUSED

FIGURES = ("allocated", "reserved", "device")
"""Figures of memory that a row may ask for."""
_NO_FIGURE = ("", "unknown")
_SHOWN = 40


def notes_of(case: Case, cluster: Cluster, precision: Precision) -> list[str]:
    """Return the notes in words, for people; none if all was understood.

    Links that the layout does not use are not looked at.
    """
    notes = []
    intra, inter, figure = (
        case.interconnect_intra,
        case.interconnect_inter,
        case.memory_figure.strip().lower(),
    )
    if intra and cluster.ranks_per_node > 1 and fabric_of(intra) is None:
        notes.append(
            f"interconnect_intra {intra[:_SHOWN]!r} names no known link: such a GPU's usual one is taken"
        )
    if inter and cluster.nodes > 1 and not _names_network(inter, cluster.ranks_per_node):
        notes.append(
            f"interconnect_inter {inter[:_SHOWN]!r} names no known network: "
            "such a machine's usual one is taken"
        )
    network = cluster.inter_bus_bandwidth_bytes_per_s
    if network is not None and cluster.nodes > 1 and network.source.startswith(USUAL_NETWORK):
        notes.append(network.source)
    if figure not in (*FIGURES, *_NO_FIGURE):
        notes.append(
            f"memory_figure {figure[:_SHOWN]!r} is not known: the one that users of the stack print is taken"
        )
    computed = _computed_in(precision, cluster)
    if computed != precision:
        notes.append(
            f"{cluster.device_name} has no unit for {precision}: "
            f"it is taken to compute at its rate of {computed}"
        )
    return notes


def _names_network(text: str, ranks_per_node: int) -> bool:
    return inter_bandwidth_of(text, ranks_per_node) is not None or transport_of(text) != "unknown"


def _computed_in(precision: Precision, cluster: Cluster) -> str:
    """Return the precision of the computation, as `rates_of` and the rows of peaks have it.

    Without a unit for a type a GPU computes in its next wider one.
    """
    peaks, rates = cluster.peak_flops_per_s, cluster.flops_per_s
    if cluster.device != "cuda" or not (peaks or rates):
        return precision
    if precision == "bf16" and "bf16" not in peaks and "bf16" not in rates:
        return "fp16"
    if precision not in ("fp16", "tf32") or cluster.architecture not in BEFORE_FUSED:
        return precision
    is_same = rates.get(precision, peaks.get(precision)) == rates.get("fp32", peaks.get("fp32"))
    return "fp32" if is_same else precision
