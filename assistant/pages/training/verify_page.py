"""Show a verification: the assertions about the launch, and a short run compared with its prediction."""

import shlex
from collections.abc import Callable

from assistant.pages.blocks import Column, Page, Row, Section, Table, section, words
from assistant.pages.verdict.verdict_page import problem
from probes.base.grouping import grouped
from probes.base.units import duration, gib, percent, plural
from probes.judging.findings import Status
from recipes.launch.verification import Comparison, Verification, VerifyPlan

_PROBLEMS = (Status.FAIL, Status.WARN)


def verify_page(result: Verification) -> Page:
    """Return the launch, the comparisons of time and memory, the change of the loss, and the log's path.

    Assertions that hold share one line. Then follow failures, warnings, and assertions that are unknown,
    which share a line if they have the same reason.
    """
    unknown = grouped(
        (finding.observed, finding.summary) for finding in result.findings if finding.status is Status.UNKNOWN
    )
    proven = [finding.summary for finding in result.findings if finding.status is Status.PASS]
    problems = [
        problem([finding], verbose=False)
        for status in _PROBLEMS
        for finding in result.findings
        if finding.status is status
    ]
    figures = () if result.program == "none" else _figures(result)
    losses = [loss for loss in (result.loss_first, result.loss_last) if loss is not None]
    lines = [
        *[f"loss {' -> '.join(f'{loss:.3f}' for loss in losses)}"] * bool(losses),
        *(f"! {note}" for note in result.notes),
        *[f"log {result.log}"] * bool(result.log),
        *[f"kept for the next plan of this machine: {result.stored}"] * bool(result.stored),
    ]
    head = section("", [words((_headline(result), "strong"))] if result.findings else [])
    return (
        *((head,) if result.findings else ()),
        *((section("", [Row("; ".join(proven), "proven  ")]),) if proven else ()),
        *problems,
        *(
            section("", [Row(f"{'; '.join(names)} ({reason})", "unknown  ")])
            for reason, names in unknown.items()
        ),
        *figures,
        section("", lines),
    )


def _headline(result: Verification) -> str:
    failed = sum(finding.status is Status.FAIL for finding in result.findings)
    if failed:
        return f"The launch of {result.name} is not what the recipe plans"
    return f"The launch of {result.name} is proven with {result.launcher}"


def _figures(result: Verification) -> Page:
    """Return what ran, and its figures beside their predictions."""
    device = f", {result.device_name}" if result.device_name else ""
    ran = (
        f"{result.name}: {plural(result.steps, 'step')} on world size {result.world_size}, "
        f"{result.backend}{device}" + (" (your program)" if result.program == "own" else "")
    )
    headings = ("", "predicted", "measured", "error", "within its interval")
    time = result.step_time_s
    memory = {
        "allocated per rank": result.peak_memory_bytes,
        "reserved per rank": result.reserved_memory_bytes,
        "worst case per rank": result.worst_memory_bytes,
    }
    rows = (
        *((("step time", *_cells(time, duration)),) if time is not None else ()),
        *((name, *_cells(row, gib)) for name, row in memory.items() if row is not None),
    )
    table = Table(tuple(map(Column, headings)), rows, tone="strong")
    return (section("", [ran]), *((Section("", (table,)),) if rows else ()))


def _cells(row: Comparison, spelled: Callable[[float], str]) -> tuple[str, str, str, str]:
    predicted = spelled(row.predicted) if row.predicted is not None else "not predicted"
    error = (
        f"{'+' if row.relative_error > 0 else ''}{percent(row.relative_error)}"
        if row.relative_error is not None
        else ""
    )
    return predicted, spelled(row.measured), error, {None: "", True: "yes", False: "no"}[row.within_range]


def verify_plan_page(planned: VerifyPlan) -> Page:
    """Return what a verification would run: the commands, the files and the assertions."""
    program = "your own program" if planned.program == "own" else "the reference workload"
    steps = plural(planned.steps, "step")
    return (
        section(
            "",
            [f"{planned.name}: smoke test, then {steps} of {program}; nothing is started"],
        ),
        section(
            "Commands",
            [
                Row(shlex.join(planned.smoke_command), "smoke test  ", literal=True),
                Row(shlex.join(planned.command), "steps       ", literal=True),
            ],
        ),
        section("Asserted", [*planned.asserted]),
        section("Files", [planned.folder, "  ".join(planned.files)]),
        section("", [f"! {note}" for note in planned.notes]),
    )
