"""`rigtune predict`: memory and speed of runs that are described in a table, or by a few settings."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from assistant.cli.counting import counted_modules
from assistant.cli.diagnostics import follow, say
from assistant.cli.options import (
    PATH,
    facts_of,
    measurements_for,
    python_option,
    require_function,
    source_options,
)
from assistant.cli.output import emitting, wants_colour
from assistant.formats.predict_formats import FORMATS, Format, Writer, writer_of
from assistant.storage import refuse_unwritable, writing
from assistant.usecases.case_rows import CaseRow, case_rows
from assistant.usecases.events import Event
from assistant.usecases.model_file import holds_model, read_model
from assistant.usecases.predict import (
    COLLECTIVE_COLUMNS,
    CaseAnswered,
    PredictSummary,
    machine_here,
    predict_cases,
    predict_collectives,
)
from probes.base.errors import OutputError, UsageError
from probes.base.record import quoted
from probes.facts import MachineFacts
from recipes.cases.case import COLUMNS, NOT_INPUTS
from recipes.cases.resolved import HERE, Here
from recipes.cases.table_words import sharing_of
from recipes.job.models.counted import names_own_module
from recipes.job.models.files import names_model_file
from recipes.job.workload import TransformerModel, VisionModel
from recipes.machine.measured_on import has_gpu, machine_words, measured_machine

_SHOWN = 8
"""Largest number of columns that one message names."""


@click.command()
@click.argument("cases", required=False, type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    help="Write to this file, completely or not at all; JSON if its name ends in .json.",
)
@click.option("--set", "settings", multiple=True, metavar="COLUMN=VALUE",
              help="Describe one case without a table: --set model=llama-3-8b --set gpu=H100-SXM-80GB "
                   "--set n_gpus=8.")  # fmt: skip
@click.option("--own-module", "own_modules", multiple=True, metavar="FILE.py:FUNCTION",
              help="Count the parameters and FLOPs of your own module, for cases whose column model has "
                   "exactly this text; see assistant/docs/own_module.md.")  # fmt: skip
@click.option("--model-file", "model_files", multiple=True, metavar="FILE",
              help="Read the model from this config.json, a folder with a config.json, or a TOML file, for "
                   "cases whose column model has exactly this text.")  # fmt: skip
@click.option(
    "--explain",
    metavar="CASE_ID",
    help="Predict only this case of the table, and show the terms of its figures.",
)
@click.option(
    "--collectives",
    is_flag=True,
    help="The cases are single collectives, with the columns gpu, n_gpus, collective, bytes ...",
)
@click.option("--here", is_flag=True, help="Cases that name no GPU run on this machine.")
@source_options
@python_option
@click.option(
    "--measurements",
    type=PATH,
    metavar="FILE",
    help="Rates that `rigtune bench -o FILE` measured, for cases that name no GPU or the measured GPU.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    help="Output format (default: csv for tables, text for --set and --explain).",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
def predict_command(
    cases: Path | None,
    output: Path | None,
    settings: tuple[str, ...],
    own_modules: tuple[str, ...],
    model_files: tuple[str, ...],
    explain: str | None,
    collectives: bool,
    here: bool,
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    measurements: Path | None,
    output_format: Format | None,
    quiet: bool,
) -> None:
    """Predict the runs of CASES, a CSV with a column case_id (- for standard input).

    For each run the output shows whether the run fits into memory, how much memory each part needs, and how
    long each part of a step takes. No run is started. assistant/docs/predict.md lists the columns.

    Exit code 0: predicted; the output has a reason for each case that was refused. 2: the table cannot be
    read, or the only case of --set or --explain was refused.
    """
    if (cases is None) == (not settings):
        raise UsageError(
            "no cases are given" if cases is None else "--set and a table exclude each other",
            "rigtune predict -h",
        )
    columns = COLLECTIVE_COLUMNS if collectives else COLUMNS
    if collectives and (own_modules or model_files):
        raise UsageError(
            "--own-module, --model-file and --collectives exclude each other", "a collective has no model"
        )
    report_skipped = None if quiet else functools.partial(_report_unread, columns=columns)
    rows = iter([_row_of(settings, columns)]) if cases is None else case_rows(cases, columns, report_skipped)
    if explain is not None:
        rows = _only(rows, explain)
    alone = cases is None or explain is not None
    is_json = output is not None and output.suffix.lower() == ".json"
    kind: Format = output_format or ("json" if is_json else "text" if alone else "csv")
    if output is not None:
        refuse_unwritable(output)
        if cases is not None and output.exists() and cases.exists() and output.samefile(cases):
            raise OutputError(f"{output} contains the cases", "write the predictions to another file")
    models = _own_models(own_modules, model_files, settings, python)
    local: Here | None = None
    if here or from_paths or machine or measurements:
        facts = facts_of(from_paths, machine, python)
        local = machine_here(facts, measurements_for(measurements, facts, quiet=quiet).measurements)
        if measurements is not None:
            rows = _on_measured(rows, facts, str(measurements), refuses=alone, quiet=quiet)
    summary: PredictSummary | None = None
    with _sink(output, kind) as write:
        writer = writer_of(kind, collectives=collectives, colour=output is None and wants_colour())
        answers = predict_collectives(rows) if collectives else predict_cases(rows, local, models)
        summary = follow(_written(answers, writer, write, alone), quiet=True)
    if summary is not None and not quiet and not alone:
        _sum_up(summary, output)


def _own_models(
    modules: tuple[str, ...], files: tuple[str, ...], settings: tuple[str, ...], python: str | None
) -> dict[str, VisionModel | TransformerModel]:
    """Return the user's own models by name: models that options name, and the model of `--set model=`.

    Raises UsageError if an option names no function of a module, InputError for a file that cannot be read,
    and WorkerError if the work of a module cannot be counted.
    """
    for target in modules:
        require_function("--own-module", target)
    for setting in settings:
        column, _, value = setting.partition("=")
        name = value.strip() if column.strip().lower() == "model" else ""
        if names_own_module(name):
            require_function("--set model", name)
            modules = (*modules, name)
        elif names_model_file(name) or holds_model(name):
            files = (*files, name)
    models: dict[str, VisionModel | TransformerModel] = {name: read_model(name) for name in files}
    if modules:
        models.update(counted_modules(modules, python))
    return models


def _row_of(settings: tuple[str, ...], columns: tuple[str, ...]) -> CaseRow:
    """Return the case of `--set`. Raises UsageError for an unknown column or an unknown sharding."""
    cells = {"case_id": "case"}
    for setting in settings:
        column, equals, value = setting.partition("=")
        column = column.strip().lower()
        if not equals or column not in columns:
            near = _near(column, columns)
            hint = (
                f"did you mean {near}?"
                if near and equals
                else f"give COLUMN=VALUE; the columns are {', '.join(columns)}"
            )
            raise UsageError(f"--set {quoted(setting)} names no column", hint)
        cells[column] = value
    # Unknown words in a table are ignored, because other people may have written it; an unknown word that was
    # typed in an option is a mistake.
    sharding = cells.get("sharding", "").strip()
    if not sharing_of(sharding).is_known:
        raise UsageError(
            f"sharding is {quoted(sharding)}, which is not known",
            "give ddp, zero1 to zero3, fsdp, hsdp or single",
        )
    return CaseRow(line=1, cells=cells)


def _near(name: str, columns: tuple[str, ...]) -> str:
    """Return the column that is probably meant; empty if no column has a similar name."""
    import difflib

    begun = [column for column in columns if name and column.startswith(f"{name}_")]
    return next(iter(difflib.get_close_matches(name, columns, n=1) or begun), "")


def _report_unread(names: tuple[str, ...], columns: tuple[str, ...]) -> None:
    """Report the columns of a table that rigtune does not read.

    Columns that usually contain measurements and their sources are left out.
    """
    unread = [name for name in names if name not in NOT_INPUTS and not name.startswith(("source_", "raw_"))]
    if not unread:
        return
    shown = [
        f"{name[:40]} (did you mean {near}?)" if (near := _near(name, columns)) else name[:40]
        for name in unread[:_SHOWN]
    ]
    more = f" and {len(unread) - _SHOWN} more" if len(unread) > _SHOWN else ""
    say(f"rigtune: ignored, because these columns are unknown: {', '.join(shown)}{more}")


def _on_measured(
    rows: Iterator[CaseRow], facts: MachineFacts, name: str, *, refuses: bool, quiet: bool
) -> Iterator[CaseRow]:
    """Forward the rows, and report rows whose GPU is not the GPU of the machine that was measured.

    If `refuses` is set, such a row causes a UsageError.
    """
    mine, others = measured_machine(facts), 0
    here = machine_words(mine, facts.source)
    for row in rows:
        gpu = row.cells.get("gpu", "").strip()
        if gpu and gpu.lower() not in HERE and not has_gpu(mine, gpu):
            others += 1
            if refuses:
                raise UsageError(
                    f"{name} was measured on {here}, but the case runs on {gpu[:60]}",
                    "leave --measurements out, or leave gpu blank to predict the measured machine",
                )
        yield row
    if others and not quiet:
        say(
            f"rigtune: {name} was measured on {here}: not used for {others} "
            f"case{'s' * (others != 1)} on other GPUs"
        )


def _only(rows: Iterator[CaseRow], case_id: str) -> Iterator[CaseRow]:
    """Yield the first row with this id. Raises UsageError if no row has this id."""
    for row in rows:
        if row.cells.get("case_id", "").strip() == case_id.strip():
            yield row
            return
    raise UsageError(f"no case is named {quoted(case_id)}", "give a value from the column case_id")


@contextlib.contextmanager
def _sink(output: Path | None, kind: Format) -> Iterator[Callable[[str], object]]:
    """Yield the function that writes text to the file or stdout, in UTF-8 if programs read it.

    Ids that are not UTF-8 are written as they were read.
    """
    if output is not None:
        with writing(output) as file:
            yield lambda text: file.write(text.encode("utf-8", "surrogateescape"))
    else:
        with emitting(is_text=kind == "text") as write:
            yield write


def _written(
    events: Iterator[Event], writer: Writer, write: Callable[[str], object], alone: bool
) -> Iterator[Event]:
    """Write each answer as soon as it arrives, and forward the other events.

    Raises UsageError if the only case was refused.
    """
    before = writer.head
    for event in events:
        if not isinstance(event, CaseAnswered):
            yield event
            continue
        if alone and event.answer.status == "refused":
            raise UsageError(event.answer.reason, "assistant/docs/predict.md lists the values of each column")
        write(before + writer.case(event.answer))
        before = writer.between
    write(writer.foot if before == writer.between else writer.head + writer.foot)


def _sum_up(summary: PredictSummary, output: Path | None) -> None:
    cases = summary.predicted + summary.refused
    words = f"{cases} case{'s' * (cases != 1)}: {summary.predicted} predicted, {summary.refused} refused"
    if summary.refused_for:
        words += f" ({', '.join(f'{column} {number}' for column, number in summary.refused_for.items())})"
    say(f"{words}; wrote {output}" if output is not None else words)
