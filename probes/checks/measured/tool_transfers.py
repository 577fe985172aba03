"""Check that the transfers measured by other tools, between GPUs, host and network, are as fast as the links.

The reference is the achievable rate of the GPU's PCIe link, its NVLinks or the RDMA port. If a GPU's links
are unknown, GPUs are only compared with each other. Only copies by the copy engine, over one GPU's link at a
time, are judged; copies by SMs, and several copies at once, may be slower. Large RDMA transfers, and a
loopback within one card, reach a port's rate less a few percent for headers; small messages do not.
Source: `probes/data/tool_references.toml`; NVIDIA/nvbandwidth, README; leptonai/gpud and
azurehpc-health-checks (limits); linux-rdma/perftest; oracle-quickstart/oci-hpc, active health checks.
"""

import re
import statistics
from collections.abc import Iterable, Iterator, Sequence

from probes.base.grouping import grouped
from probes.base.record import items_of, known, value_or
from probes.base.units import duration, gb_per_s, gbit_per_s
from probes.catalogue.thresholds import Thresholds
from probes.compare.reference_rows import ToolReferences, load_references
from probes.compare.reference_values import Expected, host_copy_rate, model_of, peer_copy_rate, status_of
from probes.facts import ToolResult
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.reporting import HOST, SMI_LINK, evidence_of, fold_names, on_results

HOST_COPIES = Judge(
    check_id="host-bandwidth",
    why="Batches, checkpoints and offloaded states cross this link, and so do collectives if GPUs have no "
    "direct path.",
)
PEER_COPIES = Judge(
    check_id="peer-bandwidth",
    why="A slow pair of GPUs slows every ring that passes through it, and thus all GPUs.",
)

_HOST_TESTS = re.compile(
    r"(?:host_to_device|device_to_host)_memcpy_ce|(?:H2D|D2H)-Pinned|cpu_to_gpu_by_dma|gpu_to_cpu_by_dma"
)
_PEER_TESTS = re.compile(r"device_to_device_memcpy_(?:read|write)_ce|gpu_to_gpu(?:_read|_write)?_by_dma")

_PCIE = Remedy(
    text="Look at the PCIe link's speed and width under load, and at the NUMA node on which the copy ran; "
    "reseat the card.",
    command=f"{SMI_LINK} && lspci -vv",
)
_NVLINK = Remedy(
    text="Look at the NVLinks' state, speed and errors of both GPUs, and at the fabric.",
    command="nvidia-smi nvlink -s",
)
NETWORK = Judge(
    check_id="network-bandwidth",
    why="Collectives across machines are no faster than the slowest port among them.",
)

_ONE_WAY = frozenset({"ib_write_bw", "ib_read_bw", "ib_send_bw"})
_LATENCIES = frozenset({"ib_write_lat", "ib_send_lat"})
_PORT = Remedy(
    text="Look at the port's speed, width and errors, at the NUMA node of the process, and at the PCIe link "
    "of the card; run the test with one port at a time.",
    command="ib_write_bw -a -F --report_gbits",
)


@on_results(HOST_COPIES)
def host_bandwidth(results: tuple[ToolResult, ...], evidence: Evidence) -> Iterable[Finding]:
    copies = [copy for copy in results if copy.metric == "bandwidth" and _HOST_TESTS.fullmatch(copy.test)]
    return _judge(HOST_COPIES, evidence, copies, _PCIE)


@on_results(PEER_COPIES)
def peer_bandwidth(results: tuple[ToolResult, ...], evidence: Evidence) -> Iterable[Finding]:
    copies = [copy for copy in results if copy.metric == "bandwidth" and _PEER_TESTS.fullmatch(copy.test)]
    return _judge(PEER_COPIES, evidence, copies, _NVLINK)


def _judge(
    judge: Judge, evidence: Evidence, copies: Sequence[ToolResult], remedy: Remedy
) -> Iterator[Finding]:
    best = _best(copies)
    if not best:
        yield judge.skipped(HOST, "no copy by a copy engine over one link at a time was measured")
        return
    unknown: list[ToolResult] = []
    fine: list[ToolResult] = []
    for result in best:
        expected = _expected(judge, evidence, result.subject)
        if expected is None:
            unknown.append(result)
        elif (finding := _against(judge, evidence.thresholds, result, expected, remedy)) is not None:
            yield finding
        else:
            fine.append(result)
    if fine:
        yield judge.passed(
            _names(fine), "copies are as fast as the link", observed=_spread(fine), evidence=evidence_of(fine)
        )
    yield from _among_peers(judge, evidence.thresholds, unknown, remedy)


def _best(results: Sequence[ToolResult]) -> list[ToolResult]:
    """Return the fastest result of each test and subject, because tools repeat a copy for each NUMA node."""
    best: dict[tuple[str, str, str], ToolResult] = {}
    for result in results:
        key = (result.tool, result.test, result.subject)
        if isinstance(result.value, float) and (key not in best or result.value > _value(best[key])):
            best[key] = result
    return list(best.values())


def _against(
    judge: Judge, limits: Thresholds, result: ToolResult, expected: Expected, remedy: Remedy
) -> Finding | None:
    status = status_of(_value(result) / expected.rate, limits)
    if status is Status.PASS:
        return None
    return judge.problem(
        result.subject,
        f"{result.test} is slow",
        fails=status is Status.FAIL,
        expected=f"about {gb_per_s(expected.rate)} ({expected.words})",
        observed=f"{gb_per_s(_value(result))} by {result.tool}",
        remedy=remedy,
        evidence=(*result.evidence, expected.ref, limits.measured_warn_fraction.ref),
    )


def _expected(judge: Judge, evidence: Evidence, subject: str) -> Expected | None:
    gpus = {f"GPU{gpu.index}": gpu for gpu in items_of(evidence.facts.gpus)}
    names = subject.split("-")
    models = [model_of(gpus.get(name), evidence.catalogue) for name in names]
    if judge is HOST_COPIES:
        return host_copy_rate(gpus.get(subject), models[0]) if len(names) == 1 else None
    return peer_copy_rate(evidence.facts, names[0], names[1], models) if len(names) == 2 else None


def _among_peers(
    judge: Judge, limits: Thresholds, results: Sequence[ToolResult], remedy: Remedy
) -> Iterator[Finding]:
    """Report GPUs whose best rate is far below the rate of the others.

    Pairs may differ by design, so only a GPU whose pairs are all slow is reported.
    """
    tests = grouped(((result.tool, result.test), result) for result in results)
    for same in tests.values():
        best: dict[str, ToolResult] = {}
        for result in same:
            for name in result.subject.split("-"):
                if name not in best or _value(result) > _value(best[name]):
                    best[name] = result
        if len(best) < limits.peers_compared_minimum.value:
            yield judge.skipped(
                _names(same),
                f"{same[0].test}: the links of the GPUs are unknown, and too few GPUs were measured to "
                "compare them with each other",
            )
            continue
        usual = statistics.median(_value(result) for result in best.values())
        slow = {
            name: result
            for name, result in best.items()
            if _value(result) < limits.measured_fail_fraction.value * usual
        }
        for name, result in slow.items():
            yield judge.warned(
                name,
                f"{result.test} is slower than with the other GPUs",
                expected=f"about {gb_per_s(usual)}, like the others",
                observed=f"{gb_per_s(_value(result))} by {result.tool}",
                remedy=remedy,
                evidence=(*result.evidence, limits.measured_fail_fraction.ref),
            )
        if not slow:
            yield judge.passed(
                _names(same),
                f"{same[0].test} is about equally fast on all GPUs",
                observed=_spread(same),
                evidence=evidence_of(same),
            )


def _value(result: ToolResult) -> float:
    return value_or(result.value, 0.0)


def _spread(results: Sequence[ToolResult]) -> str:
    values = [_value(result) for result in results]
    return (
        gb_per_s(min(values)) if len(values) == 1 else f"{gb_per_s(min(values))} to {gb_per_s(max(values))}"
    )


def _names(results: Sequence[ToolResult]) -> str:
    return fold_names(list(dict.fromkeys(name for result in results for name in result.subject.split("-"))))


@on_results(NETWORK)
def network_bandwidth(results: tuple[ToolResult, ...], evidence: Evidence) -> Iterator[Finding]:
    references = load_references()
    rates = _port_rates(evidence)
    groups = grouped(
        ((result.test, result.subject), result) for result in results if isinstance(result.value, float)
    )
    findings = []
    for (test, subject), same in groups.items():
        if test in _ONE_WAY and subject in rates:
            findings.append(_bandwidth(evidence.thresholds, references, subject, rates[subject], same))
        elif test in _LATENCIES:
            findings.append(_latency(references, subject, same))
    judged = [finding for finding in findings if finding is not None]
    yield from judged
    if not judged:
        yield NETWORK.skipped(
            HOST,
            "no transfer that can be judged was measured: large messages over a port of known rate, or the "
            "latency of small messages",
        )


def _port_rates(evidence: Evidence) -> dict[str, float]:
    """Return the rates of the RDMA ports in Gb/s by device; devices with several ports are left out."""
    nics = items_of(evidence.facts.nics)
    names = [nic.name for nic in nics]
    return {nic.name: nic.rate_gbps for nic in nics if known(nic.rate_gbps) and names.count(nic.name) == 1}


def _bandwidth(
    limits: Thresholds, references: ToolReferences, subject: str, rate_gbps: float, same: Sequence[ToolResult]
) -> Finding | None:
    large = [result for result in same if (result.size_bytes or 0) >= references.saturating.network_bytes]
    if not large or rate_gbps <= 0:
        return None
    best = max(large, key=_value)
    expected = rate_gbps * 1e9 / 8 * references.network.fraction
    status = status_of(_value(best) / expected, limits)
    observed = f"{gb_per_s(_value(best))} ({gbit_per_s(round(_value(best) * 8e-9, 1))}) by {best.test}"
    if status is Status.PASS:
        return NETWORK.passed(
            subject, "transfers are as fast as the port", observed=observed, evidence=best.evidence
        )
    return NETWORK.problem(
        subject,
        "RDMA transfers are slower than the port",
        fails=status is Status.FAIL,
        expected=f"about {gb_per_s(expected)} over {gbit_per_s(rate_gbps)}",
        observed=observed,
        remedy=_PORT,
        evidence=(*best.evidence, references.network.ref, limits.measured_warn_fraction.ref),
    )


def _latency(references: ToolReferences, subject: str, same: Sequence[ToolResult]) -> Finding | None:
    row = references.network
    small = [
        result
        for result in same
        if result.size_bytes is not None and result.size_bytes <= row.latency_largest_bytes
    ]
    if not small:
        return None
    best = min(small, key=_value)
    if _value(best) <= row.latency_s:
        return NETWORK.passed(
            subject,
            "the latency is low",
            observed=duration(_value(best)),
            evidence=best.evidence,
        )
    return NETWORK.warned(
        subject,
        "small RDMA transfers have a high latency",
        expected=f"at most {duration(row.latency_s)}",
        observed=f"{duration(_value(best))} by {best.test}",
        remedy=_PORT,
        evidence=(*best.evidence, row.ref),
    )
