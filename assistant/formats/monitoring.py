"""Write a verdict for monitoring: the line of reason, the output of a Nagios plugin, Prometheus metrics.

Slurm, NHC, node-problem-detector and the journal store the line of reason. Sources (2026-11): for Nagios the
plugin guidelines on output and performance data; for Prometheus the text-based exposition format, which the
textfile collector of node_exporter reads. The metric names resemble those of node_exporter's textfile scripts
and of goss. A larger value of `rigtune_check_status` is more serious: 0 pass, 1 warn, 2 unknown, 3 fail.
Checks that do not apply have no sample. Each GPU has its own series with index and UUID, even if several GPUs
share a finding.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from assistant.formats.build import build_labels
from assistant.text.plain_writer import clean
from probes.base.record import printable
from probes.facts import Gpu
from probes.judging.check_table import CHECKS
from probes.judging.findings import WORST_FIRST, Finding, Status
from probes.judging.reporting import unfolded
from probes.judging.verdict import FailOn, Verdict, decisive

_LONGEST = 200
"""Maximum number of characters. Programs may cut the line earlier, so the check's id comes first.

For example, node-problem-detector keeps 80 characters.
"""
WORDS = {
    Status.PASS: "OK",
    Status.WARN: "WARNING",
    Status.FAIL: "CRITICAL",
    Status.UNKNOWN: "UNKNOWN",
    Status.SKIP: "UNKNOWN",
}
_MOST_LINES = 20
_LABELS = (
    (Status.FAIL, "failed", ";;0"),
    (Status.UNKNOWN, "unknown", ""),
    (Status.WARN, "warned", ";0"),
    (Status.PASS, "passed", ""),
    (Status.SKIP, "skipped", ""),
)
"""Name of each outcome, with the limits above which Nagios itself reports a warning or a failure."""
VALUES = {Status.PASS: 0, Status.WARN: 1, Status.UNKNOWN: 2, Status.FAIL: 3}
_VALUES_IN_WORDS = "0 pass, 1 warn, 2 unknown, 3 fail"
_READINGS: tuple[tuple[str, str, Callable[[Gpu], object]], ...] = (
    ("rigtune_gpu_temperature_celsius", "Temperature of the GPU.", lambda gpu: gpu.temperature_c),
    ("rigtune_gpu_power_watts", "Power that the GPU draws.", lambda gpu: gpu.power_w),
    ("rigtune_gpu_power_limit_watts", "Power limit in force.", lambda gpu: gpu.power_limit_w),
    (
        "rigtune_gpu_ecc_corrected_total",
        "Corrected memory errors since the driver was loaded.",
        lambda gpu: gpu.ecc_corrected_volatile,
    ),
    (
        "rigtune_gpu_ecc_uncorrected_total",
        "Uncorrected memory errors since the driver was loaded.",
        lambda gpu: gpu.ecc_uncorrected_volatile,
    ),
    (
        "rigtune_gpu_pcie_replays_total",
        "Repeated PCIe packets since the reset.",
        lambda gpu: gpu.pcie_replays,
    ),
)
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def problem_line(finding: Finding) -> str:
    """Return `nvlink-active GPU3: NVLinks are down (17 up; down: link 0)`."""
    observed = (
        f" ({finding.observed})" if finding.observed and finding.observed not in finding.summary else ""
    )
    return shortened(f"{finding.check_id} {finding.subject}: {finding.summary}{observed}")


def reason_line(verdict: Verdict, fail_on: FailOn = "fail", *, first_only: bool = False) -> str:
    """Return the worst reason why the exit code is not 0, and the ids of other checks; empty for code 0."""
    problems = decisive(verdict, fail_on)
    if not problems:
        return "verdict host: nothing is known about this machine" * (verdict.verdict is Status.UNKNOWN)
    line = problem_line(problems[0])
    others = dict.fromkeys(each.check_id for each in problems if each.check_id != problems[0].check_id)
    return line if first_only or not others else shortened(f"{line}; also {', '.join(others)}")


def shortened(text: str) -> str:
    """Return one printable line of at most `_LONGEST` characters."""
    line = clean(" ".join(text.split()))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3].rstrip() + "..."


def nagios_text(verdict: Verdict) -> str:
    """Return `RIGTUNE CRITICAL - nvlink-active GPU3: ... | failed=1;;0 ...`, then the other problems.

    The number `blocking` counts the problems that determine the exit code. These problems come first, one per
    line.
    """
    problems = [
        problem_line(finding)
        for finding in verdict.findings
        if finding.waived is None
        and (
            finding.status in (Status.FAIL, Status.WARN)
            or (finding.status is Status.UNKNOWN and finding.check_id in verdict.required_unknown)
        )
    ]
    nothing = f"fit to train, {verdict.counts[Status.PASS]} passed"
    if verdict.verdict is Status.UNKNOWN:
        nothing = "nothing is known about this machine"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    numbers = [f"{name}={verdict.counts[status]}{limits}" for status, name, limits in _LABELS]
    numbers.append(f"blocking={len(decisive(verdict))}")
    if verdict.duration_s is not None:
        numbers.append(f"time={verdict.duration_s:.3f}s")
    answer = _plain(f"RIGTUNE {WORDS[verdict.verdict]} - {problems[0] if problems else nothing}{more}")
    lines = [f"{answer} | {' '.join(numbers)}"]
    lines += [_plain(line) for line in problems[1 : _MOST_LINES + 1]]
    return "\n".join(lines) + "\n"


def nagios_failure(message: str) -> str:
    """Return the line for a command that has no verdict."""
    return _plain(shortened(f"RIGTUNE UNKNOWN - {printable(message)}")) + "\n"


def _plain(line: str) -> str:
    """Return the line without the character `|`, which begins the performance data."""
    return printable(line).replace("|", "/")


def prometheus_text(verdict: Verdict, gpus: Sequence[Gpu] = ()) -> str:
    """Return all metrics, each with its help and type; `gpus` are the GPUs that the verdict is about."""
    labels_of_gpus = {f"GPU{gpu.index}": _gpu_labels(gpu) for gpu in gpus}
    lines = metric_lines(
        "rigtune_build_info", "Version and commit of rigtune; the value is 1.", [(build_labels(), 1)]
    )
    lines += metric_lines(
        "rigtune_verdict", f"Fit to train: {_VALUES_IN_WORDS}.", [({}, VALUES[verdict.verdict])]
    )
    required = {row.id for row in CHECKS if row.required}
    lines += metric_lines(
        "rigtune_check_status",
        f"Outcome of a check: {_VALUES_IN_WORDS}; severity is required if an unknown outcome matters.",
        [
            (
                {**labels, "severity": "required" if labels["check"] in required else "optional"},
                VALUES[status],
            )
            for labels, status in _worst(
                (finding for finding in verdict.findings if finding.waived is None), labels_of_gpus
            )
        ],
    )
    lines += metric_lines(
        "rigtune_check_waived",
        "Outcome of a check that the policy waives.",
        [
            (labels, VALUES[status])
            for labels, status in _worst(
                (finding for finding in verdict.findings if finding.waived), labels_of_gpus
            )
        ],
    )
    lines += metric_lines(
        "rigtune_findings",
        "Findings that are not waived, by outcome.",
        [({"status": status.value.lower()}, verdict.counts[status]) for status in WORST_FIRST],
    )
    for name, words, reading in _READINGS:
        values = [(_gpu_labels(gpu), value) for gpu in gpus if isinstance(value := reading(gpu), int | float)]
        lines += metric_lines(name, words, values)
    if verdict.duration_s is not None:
        lines += metric_lines(
            "rigtune_run_duration_seconds", "How long the check took.", [({}, round(verdict.duration_s, 3))]
        )
    if verdict.started is not None:
        lines += metric_lines(
            "rigtune_last_run_timestamp_seconds",
            "When the check began.",
            [({}, round(verdict.started.timestamp(), 3))],
        )
    return "\n".join(lines) + "\n"


def _worst(
    findings: Iterable[Finding], labels_of_gpus: Mapping[str, dict[str, str]]
) -> list[tuple[dict[str, str], Status]]:
    """Return one sample for each check and subject (the worst), because a series must not appear twice."""
    worst: dict[tuple[str, str], Status] = {}
    for finding in findings:
        for subject in unfolded(finding.subject) if finding.status in VALUES else ():
            key = (finding.check_id, clean(printable(subject)))
            worst[key] = min(worst.get(key, finding.status), finding.status, key=WORST_FIRST.index)
    return [
        ({"check": check_id, "subject": subject, **labels_of_gpus.get(subject, {})}, status)
        for (check_id, subject), status in worst.items()
    ]


def _gpu_labels(gpu: Gpu) -> dict[str, str]:
    """Return the labels of a GPU, which are the same in every run."""
    return {"gpu": str(gpu.index), **({"uuid": gpu.uuid} if isinstance(gpu.uuid, str) else {})}


def metric_lines(name: str, words: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    """Return the help, the type and the samples of a gauge; no lines if there is no sample."""
    lines = [f"{name}{_labels(labels)} {value}" for labels, value in samples]
    return [f"# HELP {name} {words}", f"# TYPE {name} gauge", *lines] if lines else []


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""
