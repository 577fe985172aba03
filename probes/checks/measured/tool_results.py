"""Judge other tools' results: DCGM's diagnostic and health watches, and collectives.

A failed test of DCGM is a fault of the node until the test passes, except for tests of settings that do not
affect speed. A report without a recognised test is unknown, never a pass.

The reference of collectives applies to a ring within one machine and to messages that are large enough for
the full rate; NVLS and trees may be faster. Across machines, the network determines the rate, and a table
alone does not identify the network: then only a collapse of the rate for larger messages is judged. Source:
NVIDIA DCGM user guide, diagnostics; `probes/data/tool_references.toml`; NVIDIA/nccl-tests,
doc/PERFORMANCE.md; stas00/ml-engineering, network benchmarks.
"""

import re
from collections.abc import Iterator, Sequence

from probes.base.grouping import grouped
from probes.base.record import Reason, Unknown, value_or
from probes.base.units import gb_per_s, gib, plural
from probes.compare.reference_rows import ToolReferences, load_references
from probes.compare.reference_values import Expected, ring_rate, status_of
from probes.compare.slow_parts import collapse_of
from probes.facts import Diagnosis, ToolResult
from probes.judging.findings import Evidence, Finding, Judge, Remedy, Status
from probes.judging.reporting import HOST, evidence_of, fold_names, on_fact, on_results
from probes.parsers.tools.dcgm_words import SETTING_ERRORS, SETTING_TESTS

DIAGNOSIS = Judge(
    check_id="dcgm-diagnosis",
    why="DCGM's tests load the GPU as training does: a GPU that fails them will fail or slow down jobs.",
)

_NUMBER = re.compile(r"\bGPU ?\d{1,4}\b")
"""Name of a GPU in a message; messages that differ only in this name are one problem."""
RESULTS = Judge(
    check_id="collective-results",
    why="A collective that computes wrong values ruins training without any message.",
)
BANDWIDTH = Judge(
    check_id="collective-bandwidth", why="Training waits for its collectives: their rate limits every step."
)
COMPLAINTS = Judge(
    check_id="tool-complaints",
    why="If a tool reports problems with its own measurement, the result is not evidence about the machine.",
)

_AVERAGE = "average"
_MOST_SHOWN = 5
_CORRUPTION = Remedy(
    text="Drain the node. Run the test on pairs of GPUs to find the GPU that is in every wrong pair; check "
    "ECC, NVLink errors, forced relaxed ordering of the NICs, and NCCL's version."
)
_SLOW = Remedy(
    text="Check NVLinks, PCIe links and clocks, then run the test with NCCL_DEBUG=INFO and see which path "
    "NCCL took.",
    command="NCCL_DEBUG=INFO all_reduce_perf -b 1G -e 8G -f 2 -g 8",
)
_CONGESTED = Remedy(
    text="Run the test on pairs of machines within and across switches: if the rate collapses only with "
    "many or distant machines, the network between them drops or pauses packets (flow control, ECN, "
    "routing). Also compare "
    "NCCL_ALGO and NCCL_PROTO."
)


@on_fact(DIAGNOSIS, "the diagnosis", lambda facts: facts.diagnoses)
def dcgm_diagnosis(diagnoses: tuple[Diagnosis, ...], evidence: Evidence) -> Iterator[Finding]:
    groups: dict[tuple[str, str, str], list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        message = _NUMBER.sub("GPU", diagnosis.message)
        groups.setdefault((diagnosis.result, diagnosis.test, message), []).append(diagnosis)
    for (result, test, general), same in groups.items():
        message = same[0].message if len(same) == 1 else general
        if result in ("FAIL", "WARN"):
            yield _problem(result, test, message, same)
        elif result == "UNKNOWN":
            unknown = Unknown(Reason.UNPARSABLE, message or f"{test} has no known result")
            yield DIAGNOSIS.undetermined(
                _names(same), unknown, what="the diagnosis", evidence=evidence_of(same)
            )
    failed = {
        (diagnosis.test, diagnosis.subject) for diagnosis in diagnoses if diagnosis.result in ("FAIL", "WARN")
    }
    fine = [
        diagnosis
        for diagnosis in diagnoses
        if diagnosis.result == "PASS" and (diagnosis.test, diagnosis.subject) not in failed
    ]
    if fine:
        tests = dict.fromkeys(diagnosis.test for diagnosis in fine)
        yield DIAGNOSIS.passed(
            _names(fine), "DCGM's tests passed", observed=", ".join(tests), evidence=evidence_of(fine)
        )
    elif not diagnoses:
        yield DIAGNOSIS.skipped(HOST, "no output of a diagnostic was given")
    elif not any(diagnosis.result in ("FAIL", "WARN", "UNKNOWN") for diagnosis in diagnoses):
        yield DIAGNOSIS.skipped(HOST, "DCGM skipped all its tests", evidence=evidence_of(diagnoses))


def _problem(result: str, test: str, message: str, same: list[Diagnosis]) -> Finding:
    is_setting = test.lower() in SETTING_TESTS or any(
        diagnosis.error_code in SETTING_ERRORS for diagnosis in same
    )
    what = "health watch" if same[0].tool.endswith("health") else "test"
    number = next(
        (f" (error {diagnosis.error_code})" for diagnosis in same if diagnosis.error_code is not None), ""
    )
    return DIAGNOSIS.problem(
        _names(same),
        f"DCGM's {what} {test} {'failed' if result == 'FAIL' else 'warns'}",
        fails=result == "FAIL" and not is_setting,
        expected="Pass",
        observed=(message or result.capitalize()) + number,
        remedy=Remedy(
            text="Drain the node, do what the message recommends, and run the test again; a GPU that fails "
            "twice "
            "needs service.",
            command="dcgmi diag -r 3",
        ),
        evidence=evidence_of(same),
    )


def _names(diagnoses: list[Diagnosis]) -> str:
    return fold_names({diagnosis.subject for diagnosis in diagnoses} - {HOST}) or HOST


@on_results(RESULTS)
def collective_results(results: tuple[ToolResult, ...], evidence: Evidence) -> Finding:
    checked = [result for result in results if result.wrong_values is not None]
    wrong = [result for result in checked if result.wrong_values]
    if wrong:
        return RESULTS.failed(
            HOST,
            "collectives gave wrong results",
            expected="0 wrong values",
            observed="; ".join(_wrong(result) for result in wrong[:_MOST_SHOWN]),
            remedy=_CORRUPTION,
            evidence=evidence_of(wrong),
        )
    if any(result.metric == "bus_bandwidth" for result in checked):
        return RESULTS.passed(
            HOST,
            "collectives gave right results",
            observed="0 wrong values",
            evidence=evidence_of(checked[:1]),
        )
    return RESULTS.skipped(HOST, "no collective was checked for right results")


def _wrong(result: ToolResult) -> str:
    size = f" of {gib(result.size_bytes)}" if result.size_bytes is not None else ""
    return result.message or f"{result.test}{size}: {result.wrong_values} wrong"


@on_results(BANDWIDTH)
def collective_bandwidth(results: tuple[ToolResult, ...], evidence: Evidence) -> Iterator[Finding]:
    curves = grouped(
        (result.test, result)
        for result in results
        if result.metric == "bus_bandwidth"
        and result.size_bytes is not None
        and isinstance(result.value, float)
    )
    references = load_references()
    judged = [_refused(result) for result in results]
    judged += [
        _collapsed(references, test, points) or _slow(evidence, references, test, points)
        for test, points in curves.items()
    ]
    findings = [finding for finding in judged if finding is not None]
    yield from findings
    if not findings:
        yield from _well(evidence, curves)


def _refused(result: ToolResult) -> Finding | None:
    """Report the tool's own result if the average is below the required minimum."""
    if result.test != _AVERAGE or not result.message:
        return None
    return BANDWIDTH.failed(
        HOST,
        "the average bus bandwidth is below the required minimum",
        expected="nine tenths of NCCL_TESTS_MIN_BW",
        observed=gb_per_s(result.value) if isinstance(result.value, float) else result.message,
        remedy=_SLOW,
        evidence=result.evidence,
    )


def _collapsed(references: ToolReferences, test: str, points: Sequence[ToolResult]) -> Finding | None:
    """Return the finding on larger messages that are much slower than smaller ones; None without such."""
    collapse = collapse_of([(point.size_bytes or 0, _value(point), point) for point in points])
    if collapse is None:
        return None
    peak, low = collapse.peak, collapse.low
    return BANDWIDTH.problem(
        HOST,
        f"the rate of {test} collapses for larger messages",
        fails=collapse.fails,
        expected=f"at least the rate with {gib(peak.size_bytes or 0)} ({gb_per_s(_value(peak))})",
        observed=f"{gb_per_s(_value(low))} with {gib(low.size_bytes or 0)}" + _of(low),
        remedy=_CONGESTED,
        evidence=(*peak.evidence, *low.evidence, references.collapse.ref),
    )


def _slow(
    evidence: Evidence, references: ToolReferences, test: str, points: Sequence[ToolResult]
) -> Finding | None:
    reference = _reference(evidence, points)
    large = _large(references, points)
    if reference is None or not large:
        return None
    best = max(large, key=_value)
    status = status_of(_value(best) / reference.rate, evidence.thresholds)
    if status is Status.PASS:
        return None
    return BANDWIDTH.problem(
        HOST,
        f"{test} is slower than the GPUs' links",
        fails=status is Status.FAIL,
        expected=f"about {gb_per_s(reference.rate)} bus bandwidth",
        observed=f"{gb_per_s(_value(best))} with {gib(best.size_bytes or 0)}" + _of(best),
        remedy=_SLOW,
        evidence=(*best.evidence, reference.ref, evidence.thresholds.measured_warn_fraction.ref),
    )


def _reference(evidence: Evidence, points: Sequence[ToolResult]) -> Expected | None:
    return ring_rate(evidence, points[0].ranks, points[0].nodes)


def _large(references: ToolReferences, points: Sequence[ToolResult]) -> list[ToolResult]:
    """Return the results with messages that are large enough for the full rate."""
    return [point for point in points if (point.size_bytes or 0) >= references.saturating.collective_bytes]


def _well(evidence: Evidence, curves: dict[str, list[ToolResult]]) -> Iterator[Finding]:
    """Yield a PASS for the curves with a reference and large messages, or a SKIP without such a curve."""
    referenced = {test: points for test, points in curves.items() if _reference(evidence, points) is not None}
    judged = {test: points for test, points in referenced.items() if _large(load_references(), points)}
    best = {test: max(points, key=_value) for test, points in (judged or curves).items()}
    observed = "; ".join(f"{test} {gb_per_s(_value(point))}" for test, point in best.items())
    refs = evidence_of(list(best.values()))
    if judged:
        yield BANDWIDTH.passed(
            HOST, "collectives are as fast as the GPUs' links", observed=observed, evidence=refs
        )
    elif curves:
        why = "only small messages were measured" if referenced else "there is no reference for this machine"
        yield BANDWIDTH.skipped(HOST, f"{why}: {observed}", evidence=refs)
    else:
        yield BANDWIDTH.skipped(HOST, "no collective was measured")


@on_results(COMPLAINTS)
def tool_complaints(results: tuple[ToolResult, ...], evidence: Evidence) -> Iterator[Finding]:
    by_tool = grouped((result.tool, result) for result in results if result.message)
    for tool, complaining in by_tool.items():
        messages = list(dict.fromkeys(result.message for result in complaining))
        more = f"; and {len(messages) - _MOST_SHOWN} more" if len(messages) > _MOST_SHOWN else ""
        yield COMPLAINTS.warned(
            HOST,
            f"{tool} complains",
            expected="no errors and no warnings",
            observed="; ".join(messages[:_MOST_SHOWN]) + more,
            remedy=Remedy(text="Fix what the tool reports, and measure again."),
            evidence=evidence_of(complaining[:_MOST_SHOWN]),
        )
    if not results:
        yield COMPLAINTS.skipped(HOST, "no measurement of another tool was given")
    elif not by_tool:
        yield COMPLAINTS.passed(HOST, "the tools report no problem")


def _of(point: ToolResult) -> str:
    return f" on {plural(point.ranks, 'GPU')}" if point.ranks else ""


def _value(result: ToolResult) -> float:
    return value_or(result.value, 0.0)
