"""Check that RDMA transfers are as fast as the port that they used.

Headers take a few hundredths of a port's rate, and small messages do not fill it. A loop within one card has
the same rate. Source: `probes/data/tool_references.toml`; linux-rdma/perftest; oracle-quickstart/oci-hpc,
active health checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.base.record import known
from probes.base.units import duration, gb_per_s, gbit_per_s
from probes.catalogue.thresholds import Thresholds
from probes.compare.expected_rates import status_of
from probes.compare.tool_references import ToolReferences, load_references
from probes.facts import ToolResult
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.reporting import HOST, on_results

JUDGE = Judge(
    check_id="network-bandwidth",
    why="Collectives across machines are no faster than the slowest port among them.",
)

_ONE_WAY = frozenset({"ib_write_bw", "ib_read_bw", "ib_send_bw"})
_LATENCIES = frozenset({"ib_write_lat", "ib_send_lat"})
_REMEDY = Remedy(
    text="Look at the port's speed, width and errors, at the NUMA node of the process, and at the PCIe link "
    "of the card; run the test with one port at a time.",
    command="ib_write_bw -a -F --report_gbits",
)


@on_results(JUDGE)
def network_bandwidth(results: tuple[ToolResult, ...], evidence: Evidence) -> Iterator[Finding]:
    references = load_references()
    rates = _port_rates(evidence)
    judged = 0
    groups: dict[tuple[str, str], list[ToolResult]] = {}
    for result in results:
        if isinstance(result.value, float):
            groups.setdefault((result.test, result.subject), []).append(result)
    for (test, subject), same in groups.items():
        finding: Finding | None = None
        if test in _ONE_WAY and subject in rates:
            finding = _bandwidth(evidence.thresholds, references, subject, rates[subject], same)
        elif test in _LATENCIES:
            finding = _latency(references, subject, same)
        if finding is not None:
            judged += 1
            yield finding
    if not judged:
        yield JUDGE.skipped(HOST, "no transfer over a port of known rate was measured")


def _port_rates(evidence: Evidence) -> dict[str, float]:
    """Return the rates of the RDMA ports in Gb/s by device; devices with several ports are left out."""
    nics = evidence.facts.nics if known(evidence.facts.nics) else ()
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
        return JUDGE.passed(
            subject, "transfers are as fast as the port", observed=observed, evidence=best.evidence
        )
    return JUDGE.problem(
        subject,
        "RDMA transfers are slower than the port",
        fails=status is Status.FAIL,
        expected=f"about {gb_per_s(expected)} over {gbit_per_s(rate_gbps)}",
        observed=observed,
        remedy=_REMEDY,
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
        return JUDGE.passed(
            subject, "small transfers are quick", observed=duration(_value(best)), evidence=best.evidence
        )
    return JUDGE.warned(
        subject,
        "small RDMA transfers are slow",
        expected=f"at most {duration(row.latency_s)}",
        observed=f"{duration(_value(best))} by {best.test}",
        remedy=_REMEDY,
        evidence=(*best.evidence, row.ref),
    )


def _value(result: ToolResult) -> float:
    return result.value if isinstance(result.value, float) else 0.0
