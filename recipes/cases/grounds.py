"""Rates of GPU and links that the figures of a case rest on, each with its source."""

from __future__ import annotations

from probes.base.units import gb_per_s
from recipes.job.candidate import Candidate
from recipes.machine.cluster_records import Cluster, Figure


def grounds_of(candidate: Candidate, cluster: Cluster) -> tuple[str, ...]:
    """Return a line in words for each rate that the time model starts from and the run uses."""
    lines = []
    peak = cluster.peak_flops_per_s.get(candidate.precision)
    measured = cluster.flops_per_s.get(candidate.precision)
    if measured is not None and measured.basis == "measured":
        lines.append(_line(f"{measured.value / 1e12:.4g} TFLOP/s in {candidate.precision}", measured))
    elif peak is not None:
        lines.append(_line(f"{peak.value / 1e12:.4g} TFLOP/s at most in {candidate.precision}", peak))
    if cluster.memory_bandwidth_bytes_per_s is not None:
        lines.append(
            _line(
                f"{gb_per_s(cluster.memory_bandwidth_bytes_per_s.value)} of memory",
                cluster.memory_bandwidth_bytes_per_s,
            )
        )
    ring, network = cluster.intra_bus_bandwidth_bytes_per_s, cluster.inter_bus_bandwidth_bytes_per_s
    if ring is not None and cluster.ranks_per_node > 1:
        lines.append(_line(f"{gb_per_s(ring.value)} around the GPUs of a node", ring))
    if network is not None and cluster.nodes > 1:
        lines.append(_line(f"{gb_per_s(network.value)} from node to node", network))
    return tuple(lines)


def _line(words: str, figure: Figure) -> str:
    return f"{words} ({figure.source})" if figure.source else words
