"""What of a row about its machine was not understood, or is taken for something else: said beside the
prediction.
"""

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
    """In words, for people; empty where all was understood.

    Links that the layout has no use for are not looked at.
    """
    found = []
    intra, inter, figure = (
        case.interconnect_intra,
        case.interconnect_inter,
        case.memory_figure.strip().lower(),
    )
    if intra and cluster.ranks_per_node > 1 and fabric_of(intra) is None:
        found.append(
            f"interconnect_intra {intra[:_SHOWN]!r} names no known link: such a GPU's usual one is taken"
        )
    if inter and cluster.nodes > 1 and not _tells_network(inter, cluster.ranks_per_node):
        found.append(
            f"interconnect_inter {inter[:_SHOWN]!r} names no known network: such a machine's usual one is taken"
        )
    network = cluster.inter_bus_bandwidth_bytes_per_s
    if network is not None and cluster.nodes > 1 and network.source.startswith(USUAL_NETWORK):
        found.append(network.source)
    if figure not in (*FIGURES, *_NO_FIGURE):
        found.append(
            f"memory_figure {figure[:_SHOWN]!r} is not known: the one that users of the stack print is taken"
        )
    computed = _computed_in(precision, cluster)
    if computed != precision:
        found.append(
            f"{cluster.device_name} has no unit for {precision}: it is taken to compute at its rate of {computed}"
        )
    return found


def _tells_network(text: str, ranks_per_node: int) -> bool:
    return inter_bandwidth_of(text, ranks_per_node) is not None or transport_of(text) != "unknown"


def _computed_in(precision: Precision, cluster: Cluster) -> str:
    """As `rates_of` and the rows of peaks have it: without a unit for a type, the next wider one that there
    is.
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
