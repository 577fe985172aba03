"""`rigtune bench`: measure this machine in the training interpreter."""

import datetime
import re
from pathlib import Path

import click

from assistant.cli.diagnostics import follow, say
from assistant.cli.find_hosts import find_hosts
from assistant.cli.interrupts import stop_on_signals
from assistant.cli.options import (
    PATH,
    facts_of,
    format_option,
    names_of,
    policy_option,
    python_option,
    require_function,
    verbosity_options,
)
from assistant.cli.output import emit_answer, emit_data
from assistant.formats.bench_csv import csv_text
from assistant.formats.json_answer import json_answer
from assistant.pages.measured.bench_costs import list_page
from assistant.pages.measured.bench_page import bench_page
from assistant.storage import refuse_unwritable, write_bytes
from assistant.usecases.bench.baseline import load_baselines, pin, save_run
from assistant.usecases.bench.bench_context import shape_of
from assistant.usecases.bench.bench_list import list_benchmarks
from assistant.usecases.check import judge_measurements
from assistant.usecases.learn import read_policy
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.model_file import transformer_named
from probes.base.errors import ExitCode, OutputError, UsageError
from probes.bench.bench_report import BenchReport, report_of
from probes.bench.bench_requests import BenchSettings, SpreadBy, Suite
from probes.compare.measured_findings import WRONG
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Status
from probes.judging.policies.host_sections import for_host
from probes.judging.verdict import FailOn

_LARGEST_SIDE = 2**20


def _read_shapes(
    _context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[int, int, int], ...]:
    """Return matrix products, each as rows, columns and inner size."""
    shapes = []
    for value in values:
        match = re.fullmatch(r"\s*(\d{1,7})[x×](\d{1,7})[x×](\d{1,7})\s*", value, re.ASCII | re.IGNORECASE)
        sizes = [int(size) for size in match.groups()] if match else []
        if not sizes or not all(1 <= size <= _LARGEST_SIDE for size in sizes):
            message = f"{value!r} is not a matrix product; give rows x columns x inner size: 8192x8192x4096."
            raise click.BadParameter(message, param=option)
        shapes.append((sizes[0], sizes[1], sizes[2]))
    return tuple(shapes)


@click.command()
@python_option
@click.option("--suite", type=click.Choice(("quick", "full")), default="quick", show_default=True,
              help="quick ends within 2 minutes, full within 15.")  # fmt: skip
@click.option(
    "--only",
    multiple=True,
    metavar="ID",
    help="Run only this benchmark; repeatable, or separated by commas.",
)
@click.option("--skip", multiple=True, metavar="ID", help="Leave this benchmark out.")
@click.option(
    "--list",
    "list_only",
    is_flag=True,
    help="List the benchmarks with their cost, and whether they can run here; measure nothing.",
)
@click.option("--pin", "pins", is_flag=True, help="Store this run, so that later runs are compared with it.")
@click.option(
    "--data",
    type=PATH,
    metavar="PATH",
    help="Folder or file of the training data, for storage and data-loader.",
)
@click.option(
    "--step",
    default="",
    metavar="MODULE:FUNCTION|FILE.py:FUNCTION",
    help="Also measure your own training step; see assistant/docs/own_step.md.",
)
@click.option(
    "--shape",
    "shapes",
    callback=_read_shapes,
    multiple=True,
    metavar="MxNxK",
    help="Also measure this matrix product; repeatable.",
)
@click.option(
    "--model",
    metavar="MODEL",
    default="",
    help="Measure the matrix products of this model, a preset or a file (default: a reference model).",
)
@click.option(
    "--noise-scale", is_flag=True, help="Also measure the gradient noise scale, to choose the batch size."
)
@click.option(
    "--hosts",
    default="",
    metavar="A,B,C",
    help="Also measure across these hosts; name this host too.",
)
@click.option("--spread-by", type=click.Choice(("ssh", "slurm", "mpi")), default="ssh", show_default=True,
              help="Program that starts the ranks on the hosts.")  # fmt: skip
@click.option(
    "--find-bad-hosts",
    is_flag=True,
    help="Only search for slow hosts among --hosts, and for slow links between them.",
)
@click.option(
    "--work-directory", type=PATH, metavar="FOLDER", help="Keep requests, answers and logs in this folder."
)
@click.option("--force", is_flag=True, help="Measure even if the GPUs or the host are busy.")
@click.option(
    "--all", "show_all", is_flag=True, help="Show every measured case instead of the best of each sweep."
)
@policy_option
@click.option("--fail-on", type=click.Choice(("fail", "warn")), default="fail", show_default=True,
              help="Least serious finding that gives exit code 1.")  # fmt: skip
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    help="Also write the report to this file: CSV if its name ends in .csv, else JSON.",
)
@format_option("text", "json", "csv")
@verbosity_options
def bench_command(
    python: str | None,
    suite: Suite,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    list_only: bool,
    pins: bool,
    data: Path | None,
    step: str,
    shapes: tuple[tuple[int, int, int], ...],
    model: str,
    noise_scale: bool,
    hosts: str,
    spread_by: SpreadBy,
    find_bad_hosts: bool,
    work_directory: Path | None,
    force: bool,
    show_all: bool,
    policy_file: Path | None,
    fail_on: FailOn,
    output: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Measure the rates that determine training speed on this machine.

    Each result is compared with the usual rate of such hardware, with the last run, and with equal devices.

    After Ctrl-C, finished measurements are kept. Exit code 0: all is well; 1: something is too slow or wrong;
    4: a benchmark gave no result; 130: interrupted.
    """
    wants_csv = output_format == "csv" or (output is not None and output.suffix.lower() == ".csv")
    if (list_only or find_bad_hosts) and wants_csv:
        raise UsageError(f"{'--list' if list_only else '--find-bad-hosts'} has no CSV", "use --format json")
    options = MeasureOptions(
        suite=suite,
        only=names_of(only),
        skip=names_of(skip),
        force=force,
        python=python,
        settings=_settings(data, step, shapes, model=model, noise_scale=noise_scale),
        hosts=names_of((hosts,)),
        spread_by=spread_by,
        work_directory=str(work_directory.absolute()) if work_directory is not None else None,
    )
    policy = read_policy(policy_file) if policy_file is not None else None
    if output is not None:
        refuse_unwritable(output)
    facts = facts_of(python=python)
    policy = for_host(policy, facts.hostname) if policy is not None else None
    if list_only:
        _print_entries(facts, options, output_format)
        return int(ExitCode.OK)
    if find_bad_hosts:
        return find_hosts(facts, options, policy, output=output, output_format=output_format, quiet=quiet)
    with stop_on_signals() as is_stopped:
        measured: MeasurementSet = follow(
            measure_machine(facts, options, is_stopped), quiet=quiet, verbose=verbose
        )
        was_interrupted = is_stopped()
    judgement = judge_measurements(
        facts,
        measured,
        load_baselines(measured.machine, say),
        policy=policy,
        today=datetime.datetime.now().astimezone().date(),
    )
    report = report_of(measured, judgement)
    trouble = _write(report, output) if output is not None else None
    if output_format == "csv":
        emit_data(csv_text(report))
    else:
        emit_answer(
            report,
            output_format,
            lambda width: bench_page(measured, judgement, show_all=show_all, width=width),
            is_wide=True,
        )
    if was_interrupted:
        say("rigtune: interrupted; the finished measurements are shown above")
    else:
        _keep(measured, pins=pins, quiet=quiet)
    if trouble is not None:
        raise trouble
    if was_interrupted:
        return int(ExitCode.INTERRUPTED)
    return _exit_code(measured, judgement, fail_on)


def _write(report: BenchReport, output: Path) -> OutputError | None:
    """Write the report and return the error, if any.

    The caller raises the error only after the report is on stdout and stored, because the measurement took
    minutes.
    """
    try:
        is_table = output.suffix.lower() == ".csv"
        write_bytes(output, csv_text(report).encode() if is_table else json_answer(report))
    except OutputError as error:
        return error
    return None


def _keep(measured: MeasurementSet, *, pins: bool, quiet: bool) -> None:
    """Store the run for later comparisons if it contains measurements.

    Raises OutputError if the run cannot be pinned.
    """
    if not measured.measurements:
        if pins:
            say("rigtune: nothing was measured, so nothing is pinned")
        return
    if pins:
        path = pin(measured)
        if not quiet:
            say(f"pinned: {path}")
        return
    try:
        save_run(measured)
    except OutputError as error:
        say(f"rigtune: this run is not kept for later comparisons: {error.message} (hint: {error.hint})")


def _exit_code(measured: MeasurementSet, judgement: Judgement, fail_on: FailOn) -> int:
    # A wrong result is a finding about the machine, not a failure of the benchmark. A host that is left out
    # is no failure either, if the benchmark measured the other hosts.
    with_result = {measurement.bench_id for measurement in measured.measurements}
    if any(
        failure.kind != WRONG and not (failure.kind == "busy" and failure.bench_id in with_result)
        for failure in measured.failures
    ):
        return int(ExitCode.WORKER)
    statuses = {finding.status for finding in judgement.findings if finding.waived is None}
    is_bad = Status.FAIL in statuses or (fail_on == "warn" and Status.WARN in statuses)
    return int(ExitCode.FINDINGS if is_bad else ExitCode.OK)


def _settings(
    data: Path | None, step: str, shapes: tuple[tuple[int, int, int], ...], *, model: str, noise_scale: bool
) -> BenchSettings:
    """Return the settings that the options describe.

    Raises UsageError for a path that does not exist, a step that names no function or a missing file,
    and an unknown model.
    """
    if data is not None and not data.exists():
        raise UsageError(
            f"--data {data} does not exist", "name a folder or file on the file system that training reads"
        )
    if step:
        require_function("--step", step)
    return BenchSettings(
        data_path=str(data.absolute()) if data is not None else "",
        step=step,
        shapes=shapes,
        model=shape_of(transformer_named(model)) if model else {},
        noise_scale=noise_scale,
    )


def _print_entries(facts: MachineFacts, options: MeasureOptions, output_format: str) -> None:
    """List every benchmark with its cost, what it occupies, and whether it applies here."""
    entries = list_benchmarks(facts, options)
    emit_answer(
        {"schema_version": 1, "benchmarks": entries},
        output_format,
        lambda width: list_page(entries, width=width),
        is_wide=True,
    )
