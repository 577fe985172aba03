"""Measure all-reduce over each connection layer between the GPUs separately, and over all layers.

`probes/compare/slow_parts.py` names the slow layer. Each layer needs a start of its own, because NCCL reads
its variables once. The variables have these effects (NCCL user guide, Environment Variables):

    NCCL_P2P_LEVEL=NVL        GPUs access each other over NVLink only (2.3.4 and newer)
    NCCL_P2P_DISABLE=1        GPUs do not access each other, neither over NVLink nor over PCIe; NCCL reads
                              `true` as 0
    NCCL_SHM_DISABLE=1        no traffic through the host's memory; NICs are used within a node too
    NCCL_NVLS_ENABLE=0        no NVLink SHARP, which is a separate transport (2.17 and newer; ignored before)
    NCCL_MNNVL_ENABLE=0       no NVLink between trays (2.21 and newer)
    NCCL_PXN_DISABLE=1        no path to a NIC over NVLink and another GPU (2.12 and newer)
    NCCL_NET=Socket           no RDMA device is opened, so no RDMA device carries traffic within a node (2.10
                              and newer)
    NCCL_NET_DISABLE_INTRA=1  no NIC within the node; without this variable NCCL prefers a NIC to the host's
                              memory if it estimates the NIC to be faster; the default 0 must be set
                              explicitly if a site's nccl.conf sets 1 (src/graph/paths.cc)

NCCL ignores a misspelt, overruled or unknown variable without a message, so NCCL's log is read for the
transports that were used. If NCCL used a transport that does not belong to the layer, the result is a failure
instead of a number.
"""

from probes.base.record import items_of, known
from probes.base.units import GIB, MIB
from probes.bench.answers import failure_of, with_conditions
from probes.bench.bench_requests import BenchContext, BenchRequest, DoneLine, LinesByRank, Outcome
from probes.bench.collective_answers import collective_cases, collective_measurements
from probes.compare.slow_parts import LAYERS, Layer, not_isolated
from probes.facts import MachineFacts
from probes.facts.measurements import Parameter
from probes.judging.rails import is_down, is_up
from probes.parsers.tools.nccl_log import transports

LOG_PREFIX = "nccl-debug"
"""Prefix of the files that NCCL writes into the work folder; each worker reads the file of its process."""
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
    "host-memory": "all-reduce only through the host's memory",
    "nic": "all-reduce over the NICs alone",
}
_SIZES = (64 * MIB, GIB)
"""Only large messages, because these measure the bandwidth of a layer instead of the latency."""
_BUDGET_S = 4.0


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request for each layer that this machine has; none for a single GPU."""
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
    """Return the layers that are not measured, each with the reason: the machine lacks them or does not need
    them, or their presence is unknown.
    """
    missing: dict[Layer, str] = {}
    kinds = [
        link.kind for link in items_of(facts.links) if link.a.startswith("GPU") and link.b.startswith("GPU")
    ]
    if not kinds or not all(known(kind) for kind in kinds):
        missing["nvlink"] = "the links between the GPUs are unknown"
    elif all(kind == "NVLINK" for kind in kinds):
        missing["host-memory"] = "all GPUs are joined by NVLink"
    elif "NVLINK" in kinds:
        missing["nvlink"] = "some GPUs have no NVLink to each other, and a ring over all GPUs includes them"
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return bandwidths with the parameter `layers` and the condition `transports`, from NCCL's log.

    Return a failure if NCCL used a transport that does not belong to the layer.
    """
    layer: Layer = next((name for name in LAYERS if name == request.settings.get("layers")), "all")
    measurements = collective_measurements(request, lines_by_rank, {"layers": layer})
    if not measurements:
        return failure_of(request, lines_by_rank)
    ends = [line for lines in lines_by_rank.values() for line in lines if isinstance(line, DoneLine)]
    used = transports("\n".join(str(end.conditions.get("nccl_log", "")) for end in ends))
    others = not_isolated(layer, used)
    if others:
        switches = ", ".join(f"{name}={value}" for name, value in _ENVIRONMENT[layer].items())
        message = f"{request.title}: NCCL used other transports ({others}), although {switches} was set"
        return request.failure("unsupported", message)
    conditions: dict[str, Parameter] = {"transports": ", ".join(used) or "unknown"}
    if request.settings.get("left_out"):
        conditions["layers_left_out"] = request.settings["left_out"]
    return tuple(with_conditions(row, conditions) for row in measurements)
