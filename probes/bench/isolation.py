"""All-reduce over one layer between the GPUs alone, and over all: which of them is slow
(`probes.compare.slow_layers` says so).

Each layer is a start of its own, because NCCL reads its variables once. What they do (NCCL user guide,
Environment Variables):

    NCCL_P2P_LEVEL=NVL     GPUs read and write each other over NVLink only; before 2.3.4 there is no such variable
    NCCL_P2P_DISABLE=1     not at all, neither over NVLink nor over PCIe. Only digits count: `true` reads as 0
    NCCL_SHM_DISABLE=1     no traffic through the host's memory: it goes to the NICs, also within a node
    NCCL_NVLS_ENABLE=0     no NVLink SHARP, which is a transport of its own (2.17 and newer; ignored before)
    NCCL_MNNVL_ENABLE=0    no NVLink between trays (2.21 and newer)
    NCCL_PXN_DISABLE=1     no way to a NIC over NVLink and another GPU (2.12 and newer)
    NCCL_NET=Socket        no RDMA device is opened (2.10 and newer), so none can carry what is to stay within the node
    NCCL_NET_DISABLE_INTRA=1  no NIC within the node, which NCCL otherwise prefers to the host's memory where it takes the NIC to
                           be the faster; 0, the default, has to be said where a site's nccl.conf says 1 (src/graph/paths.cc)

A variable that is misspelt, overruled or unknown to a version is ignored without a word, so NCCL's own log is
read for what it used. A layer that was not the only one is a failure, not a number.
"""

from __future__ import annotations

import msgspec

from probes.base.record import known
from probes.base.units import GIB, MIB
from probes.bench.answers import failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest
from probes.bench.collective_answers import collective_cases, collective_measurements
from probes.bench.worker_answers import DoneLine, LinesByRank
from probes.compare.slow_layers import LAYERS, Layer, not_isolated
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement, Parameter
from probes.judging.rails import is_down, is_up
from probes.parsers.tools.nccl_transports import transports

LOG_PREFIX = "nccl-debug"
"""Of the files in the work folder that NCCL writes, one per process; the worker reads its own."""
_LOG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,P2P,SHM,NET,NVLS",
    "NCCL_DEBUG_FILE": f"{LOG_PREFIX}.%h.%p",
}
_ENVIRONMENT: dict[Layer, dict[str, str]] = {
    "all": {},
    "nvlink": {"NCCL_P2P_LEVEL": "NVL", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"},
    "host-memory": {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_NET": "Socket",
        "NCCL_NET_DISABLE_INTRA": "1",
    },
    "nic": {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_MNNVL_ENABLE": "0",
        "NCCL_PXN_DISABLE": "1",
        "NCCL_NET_DISABLE_INTRA": "0",
    },
}
_TITLES: dict[Layer, str] = {
    "all": "all-reduce over all layers",
    "nvlink": "all-reduce over NVLink alone",
    "host-memory": "all-reduce through the host's memory alone",
    "nic": "all-reduce over the NICs alone",
}
_SIZES = (64 * MIB, GIB)
"""Large ones only: a layer's bandwidth is in question, not its latency."""
_BUDGET_S = 4.0


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request for each layer that this machine has; none without several GPUs."""
    if context.device != "cuda" or context.ranks_per_node < 2:
        return ()
    missing = layers_left_out(context.facts)
    return tuple(
        BenchRequest(
            bench_id="isolation",
            title=title,
            device=context.device,
            backend=context.backend,
            ranks=context.ranks_per_node,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S,
            cases=collective_cases({"all_reduce": _SIZES}, context.ranks_per_node),
            settings={
                "layers": layer,
                "left_out": "; ".join(f"{name}: {why}" for name, why in missing.items()),
            },
            environment={**_ENVIRONMENT[layer], **_LOG},
        )
        for layer, title in _TITLES.items()
        if layer not in missing
    )


def layers_left_out(facts: MachineFacts) -> dict[Layer, str]:
    """The layers that this machine has not, or that its facts do not show, each with the reason."""
    missing: dict[Layer, str] = {}
    kinds = [link.kind for link in facts.links if _joins_gpus(link.a, link.b)] if known(facts.links) else []
    if not kinds or not all(known(kind) for kind in kinds):
        missing["nvlink"] = "how the GPUs are joined is not known"
    elif all(kind == "NVLINK" for kind in kinds):
        missing["host-memory"] = "all GPUs are joined by NVLink"
    elif "NVLINK" in kinds:
        missing["nvlink"] = "some GPUs have no NVLink to each other, and a ring over all passes them"
    else:
        missing["nvlink"] = "no NVLink joins the GPUs"
    if not known(facts.nics):
        missing["nic"] = "the RDMA devices could not be read"
    elif not facts.nics:
        missing["nic"] = "this machine has no RDMA device"
    elif not any(is_up(nic) for nic in facts.nics):
        is_settled = all(is_down(nic) for nic in facts.nics)
        missing["nic"] = (
            "no port of an RDMA device is active" if is_settled else "the state of the RDMA ports is unknown"
        )
    return missing


def _joins_gpus(a: str, b: str) -> bool:
    return a.startswith("GPU") and b.startswith("GPU")


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Bandwidths with the layer as parameter `layers`, and as condition `transports` what NCCL said it used.

    A failure where NCCL used something else beside the layer.
    """
    layer: Layer = next((name for name in LAYERS if name == request.settings.get("layers")), "all")
    found = collective_measurements(request, lines_by_rank, {"layers": layer})
    if not found:
        return failure_of(request, lines_by_rank)
    used = transports("\n".join(_log_lines(lines_by_rank)))
    others = not_isolated(layer, used)
    if others:
        switches = ", ".join(f"{name}={value}" for name, value in _ENVIRONMENT[layer].items())
        message = f"{request.title}: NCCL did not stay there and used {others}, although {switches} was set"
        return request.failure("unsupported", message)
    told: dict[str, Parameter] = {"transports": ", ".join(used) or "not told"}
    left_out = request.settings.get("left_out")
    if left_out:
        told["layers_left_out"] = left_out
    return tuple(msgspec.structs.replace(one, conditions={**one.conditions, **told}) for one in found)


def _log_lines(lines_by_rank: LinesByRank) -> list[str]:
    """What the workers picked out of NCCL's log files, of all ranks."""
    ends = [line for lines in lines_by_rank.values() for line in lines if isinstance(line, DoneLine)]
    return [str(end.conditions.get("nccl_log", "")) for end in ends]
