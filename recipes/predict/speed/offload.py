"""Traffic between a GPU and its host's memory if states are offloaded, and the host's optimizer."""

from __future__ import annotations

from typing import NamedTuple

from probes.catalogue.hardware import load_catalogue
from recipes.machine.cluster_records import Cluster
from recipes.machine.links import PCIE_LANE_BYTES_PER_S
from recipes.predict.parameters import parameter
from recipes.predict.speed.communication import beside, exposed_share
from recipes.predict.training_job import TransformerJob


class Offloaded(NamedTuple):
    """Visible seconds."""

    each: float
    """Seconds of one micro-batch."""
    once: float
    """Seconds of one step: the host's optimizer, and the upload of the weights that it updated."""


def offloaded_s(
    job: TransformerJob, *, stored: float, trained: float, forward_s: float, backward_s: float
) -> Offloaded:
    """Return the times of offloading.

    `stored` are the parameters of one rank's shard, `trained` those that the host updates for it.

    Gradients go down beside the backward pass. From the second micro-batch on the sum so far comes up first,
    is added to on the GPU and goes down again, through memory that is not pinned by default, and the host
    waits (DeepSpeed, stage3.py, partition_grads). Offloaded weights come up for the forward pass and again
    for the backward pass, and not after the optimizer's step.
    """
    candidate, cluster, element = job.candidate, job.cluster, job.wide_bytes
    link = _link_bytes_per_s(cluster)
    exposed = exposed_share(cluster, "time.shard_exposed")
    down = element * trained / link
    each = 2.0 * down if candidate.grad_accum > 1 else beside(down, backward_s, exposed)
    host_s = trained * cluster.ranks_per_node * parameter("time.host_optimizer_s")
    if not candidate.offload_weights:
        return Offloaded(each, element * trained / link + host_s)
    up = (element if job.trains_weights else job.workload.base_bits / 8) * stored / link
    return Offloaded(each + beside(up, forward_s, exposed) + beside(up, backward_s, exposed), host_s)


def _link_bytes_per_s(cluster: Cluster) -> float:
    """Return the bytes/s each way with all GPUs of the node at work.

    The rate is that of a GPU on PCIe 4, scaled by the width of its link.
    """
    usual = parameter("time.host_link_bytes_per_s")
    row = load_catalogue().gpu(cluster.gpu) if cluster.gpu else None
    if row is None:
        return usual
    if row.host_link_bytes_per_s:
        return row.host_link_bytes_per_s * parameter("time.module_link_share")
    lanes = PCIE_LANE_BYTES_PER_S.get(row.pcie_generation, PCIE_LANE_BYTES_PER_S[4]) * row.pcie_width
    return usual * lanes / (16 * PCIE_LANE_BYTES_PER_S[4])
