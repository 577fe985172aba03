"""Start the smoke test with a recipe's launcher, and judge the ranks that the launch starts."""

import os
import secrets
import shlex
import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

from assistant.processes.runner import tail_of
from assistant.storage import read_bytes, remove_file, write_files
from assistant.usecases.events import Event, Progress, StageStarted, result_of
from assistant.usecases.explain_compared import known_beside
from assistant.usecases.export import export_recipe
from assistant.usecases.short_run import cause_in, started_by, waiting_job
from probes.base.errors import InputError, UsageError, WorkerError
from probes.base.units import duration, plural
from probes.judging.findings import Finding, Remedy, Status
from probes.logs.readers.nccl_transport_lines import transport_names
from probes.logs.reading import Reading
from recipes.launch.launch_files import find_launcher
from recipes.launch.recipe import Recipe
from recipes.launch.verifying.smoke_judging import judge_smoke
from recipes.launch.verifying.smoke_recipe import SMOKE, smoke_arguments, smoke_files, smoke_recipe
from recipes.launch.verifying.smoke_report import RankRecord, SmokeReport, read_smoke_report

LIMIT_S = 120.0
"""Time that all ranks may take to import torch and to meet."""
_START_S = 180.0
"""Further time for a slow start of the launcher, after which a launch that reports nothing is ended."""
_POLL_S = 0.5
_REPORT_BYTES = 64 * 1024**2
"""Largest report: 64 KiB for each of 1000 ranks."""
_MOST_CAUSES = 3


class SmokeTest(NamedTuple):
    """A smoke test that has ended."""

    findings: tuple[Finding, ...]
    ranks: tuple[RankRecord, ...]
    transports: tuple[str, ...]
    """Transports in NCCL's log: `NET/IB/GDRDMA`, `P2P/CUMEM`; empty for gloo."""
    log: Path

    @property
    def is_proven(self) -> bool:
        """Return whether no assertion failed."""
        return all(finding.status is not Status.FAIL for finding in self.findings)


def smoke_command(recipe: Recipe, folder: Path, launcher: str, nonce: int, limit_s: float) -> tuple[str, ...]:
    """Return the command that starts the smoke test in `folder`. Raises UsageError."""
    return _started(recipe, folder, launcher, nonce, limit_s)[1]


def _started(
    recipe: Recipe, folder: Path, launcher: str, nonce: int, limit_s: float
) -> tuple[Recipe, tuple[str, ...], Path]:
    """Return the recipe of the smoke test, the command that starts the test, and the file of its output.

    Raises UsageError for a launcher that cannot start the test.
    """
    if software := find_launcher(launcher).software:
        raise UsageError(
            f"launcher {launcher} starts only programs that use {software}, and the smoke test does not",
            "verify with --launcher torchrun, slurm or mpi",
        )
    test = smoke_recipe(recipe, str(folder))
    arguments = smoke_arguments(recipe, str(folder / f"{SMOKE}.jsonl"), nonce, limit_s)
    return test, *started_by(test, launcher, folder, arguments, SMOKE)


def smoke_test(
    recipe: Recipe, folder: Path, *, launcher: str, python: str = "", limit_s: float = LIMIT_S
) -> Generator[Event, None, SmokeTest]:
    """Start the smoke test on all ranks of the recipe, and return its findings.

    The launch files and the test are written to `folder`, which every host must have under the same path.
    `python` overrides the recipe's interpreter; `limit_s` limits each part of the test. Raises UsageError for
    a recipe that cannot be started from here, OutputError if a file cannot be written, and WorkerError if
    nothing can be started.
    """
    sizes = recipe.parallelism
    where = f"{plural(sizes.ranks_per_node, 'rank')} on {plural(sizes.nodes, 'node')}"
    yield StageStarted(stage="verify", title=f"Smoke test of {recipe.name} with {launcher}: {where}")
    nonce = secrets.randbelow(10**6) + 1
    test, command, output = _started(recipe, folder, launcher, nonce, limit_s)
    yield from result_of(export_recipe(test, (launcher,), folder, overwrite=True))
    write_files(folder, smoke_files())
    for path in _report_files(folder):
        remove_file(path)
    yield Progress(stage="verify", message=shlex.join(command))
    # The smoke test shows by itself whether the job can run here.
    variables = {"RIGTUNE_PREFLIGHT": "0", "RIGTUNE_LOGS": str(folder / "logs")}
    if python:
        variables["RIGTUNE_PYTHON"] = python
    began, code = time.monotonic(), None
    log = folder / f"{SMOKE}.log"
    # A scheduler may keep the job in its queue, and the test itself ends when its own limit is reached.
    most_s = float("inf") if output != log else 2 * limit_s + _START_S
    with waiting_job(command, variables, log, output) as job:
        while code is None and time.monotonic() - began < most_s:
            code = job.wait(_POLL_S)
    cause = cause_in(tail_of(output))
    ended = f"{cause or 'the launch ended'} (exit code {code})" if code else ""
    if code is None:
        ended = f"the launch did not end within {duration(most_s)}"
    if code in (126, 127):
        tail = (tail_of(output) or tail_of(log)).splitlines()
        words = tail[-1] if tail else "the launcher's output is empty"
        raise WorkerError(
            f"the launch of {recipe.name} could not start: {words} (exit code {code})", f"the log is {log}"
        )
    report = _read_reports(folder)
    used = transport_names("\n".join(each.nccl_log for each in report.ranks))
    findings = judge_smoke(recipe, report, nonce, used=used, ended=ended)
    if any(finding.status is Status.FAIL for finding in findings):
        findings = (*findings, *_causes(output, recipe))
    for finding in findings:
        words = f"{finding.status.value} {finding.check_id}: {finding.summary}"
        yield Progress(stage="verify", message=words)
    return SmokeTest(findings, report.ranks, used, output)


def _report_files(folder: Path) -> list[Path]:
    return [folder / f"{SMOKE}.jsonl", *sorted(folder.glob(f"{SMOKE}.jsonl.rank*"))]


def _read_reports(folder: Path) -> SmokeReport:
    parts: list[bytes] = []
    unread: list[str] = []
    for path in _report_files(folder):
        try:
            parts += [read_bytes(path, limit_bytes=_REPORT_BYTES)] if os.path.lexists(path) else []
        except InputError as error:
            unread.append(error.message)
    return read_smoke_report(parts, unread)


def _causes(output: Path, recipe: Recipe) -> list[Finding]:
    """Return the causes of a failed launch that `explain` finds in the output of the launch."""
    try:
        text = read_bytes(output, limit_bytes=_REPORT_BYTES)
    except InputError:
        return []
    reading = Reading()
    reader = reading.source(str(output))
    reading.feed(reader, text)
    reader.end()
    explanation = reading.explanation(known_beside(reading.events(), recipe, None))
    return [
        Finding(
            check_id=f"explain-{diagnosis.cause_id}",
            subject="log",
            status=Status.WARN,
            summary=diagnosis.summary,
            remedy=Remedy(text=diagnosis.remedy, command=diagnosis.command or ""),
        )
        for diagnosis in explanation.diagnoses[:_MOST_CAUSES]
        if diagnosis.is_fault
    ]
