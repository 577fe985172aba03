"""Notes about cells that were not understood or were replaced, and the rates behind the predicted figures."""

from probes.base.record import quoted
from probes.base.units import gb_per_s
from recipes.cases.case import Case
from recipes.job.candidate import Candidate
from recipes.job.workload import Precision
from recipes.machine.cluster_records import Cluster, Figure
from recipes.machine.from_words import USUAL_NETWORK
from recipes.machine.link_words import fabric_of, inter_bandwidth_of, transport_of
from recipes.predict.parameters import parameter
from recipes.predict.stacks import BEFORE_FUSED
from recipes.predict.training_job import TransformerJob

FIGURES = ("allocated", "reserved", "device")
"""Kinds of memory figures that a row may request."""
_NO_FIGURE = ("", "unknown")


def notes_of(case: Case, cluster: Cluster, precision: Precision) -> list[str]:
    """Return notes about cells that were not understood, and about assumed networks and rates.

    There are no notes about links that the job does not use.
    """
    intra, inter, nodes = case.interconnect_intra, case.interconnect_inter, cluster.nodes
    ranks, network = cluster.ranks_per_node, cluster.inter_bus_bandwidth_bytes_per_s
    figure, computed = case.memory_figure.strip().lower(), _computed_in(precision, cluster)
    no_network = (
        inter and nodes > 1 and inter_bandwidth_of(inter, ranks) is None and transport_of(inter) == "unknown"
    )
    notes = (
        (
            intra and ranks > 1 and fabric_of(intra) is None,
            f"interconnect_intra {quoted(intra)} names no known link: the usual link of this GPU is used",
        ),
        (
            no_network,
            f"interconnect_inter {quoted(inter)} names no known network: "
            "the usual network of such a machine is used",
        ),
        (
            network is not None and nodes > 1 and network.source.startswith(USUAL_NETWORK),
            network.source if network is not None else "",
        ),
        (
            figure not in (*FIGURES, *_NO_FIGURE),
            f"memory_figure {quoted(figure)} is not known: the usual figure of the stack is used",
        ),
        (
            computed != precision,
            f"{cluster.device_name} has no unit for {precision}: its rate for {computed} is used",
        ),
    )
    assumed = cluster.warnings if case.gpu else ()
    return [*assumed, *(words for holds, words in notes if holds)]


def expert_notes(job: TransformerJob) -> list[str]:
    """Return how tokens of a mixture of experts are divided, and how experts are computed."""
    if not job.workload.model.is_moe:
        return []
    notes = []
    if job.candidate.degrees.ep > 1:
        busiest = parameter("time.expert_imbalance")
        notes.append(f"experts: the busiest rank is taken to get {busiest:g} times the mean of all tokens")
    if job.stack.experts == "looped":
        notes.append(f"experts: {job.stack.title} is taken to compute them one after the other")
    elif job.stack.extends_experts:
        notes.append(f"experts: since ep is stated, an extension of {job.stack.title} computes them together")
    return notes


def _computed_in(precision: Precision, cluster: Cluster) -> str:
    """Return the precision in which the GPU computes; `rates_of` uses the same precision.

    On a GPU without a unit for the type, fp16 replaces bf16, and fp32 replaces fp16 and TF32.
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


def grounds_of(candidate: Candidate, cluster: Cluster) -> tuple[str, ...]:
    """Return a line for each rate that the run uses and from which the time model computes its figures."""
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
