"""`rigtune list` and `rigtune advise`: the rows of rigtune's tables, and what to install on a machine."""

import sys
from pathlib import Path
from typing import Any

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import (
    PATH,
    Number,
    collect_options,
    format_option,
    paths_of,
    source_of,
    source_options,
)
from assistant.cli.output import emit_answer, emit_data, emit_text
from assistant.formats.json_answer import json_answer
from assistant.pages.blocks import Column, Section, Table
from assistant.text.plain_writer import text_of, width_of_terminal
from assistant.usecases.listing import KINDS, list_entries


@click.group()
def advise_command() -> None:
    """Show what to install before this machine can train."""


@advise_command.command("install")
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@source_options
@click.option(
    "--gpu",
    metavar="GPU",
    help="Advise for this GPU of `rigtune list gpus` instead of the GPUs that this machine has.",
)
@click.option("--count", type=int, default=1, show_default=True, help="Number of these GPUs, with --gpu.")
@click.option(
    "--os",
    "operating_system",
    metavar="NAME",
    help="Advise for this distribution instead of the installed one, such as 'Ubuntu 24.04'.",
)
@click.option("--supplies-watts", "supplies_w", type=Number(0, 1e6, min_open=True), metavar="WATTS",
              help="Power that the power supplies deliver together.")  # fmt: skip
@format_option("text", "json")
def install(
    more_paths: tuple[Path, ...],
    from_paths: tuple[Path, ...],
    machine: str | None,
    gpu: str | None,
    count: int,
    operating_system: str | None,
    supplies_w: float | None,
    output_format: str,
) -> None:
    """Print the commands that install the driver, CUDA toolkit, Fabric Manager and container toolkit.

    The commands suit this distribution and these GPUs; each is shown with its reason and source. Nothing is
    installed: you run the commands yourself.
    """
    from assistant.pages.advice_page import advice_page
    from assistant.usecases.advise import advise_install
    from assistant.usecases.probe import probe_machine
    from probes.catalogue.hardware import load_catalogue

    probing = probe_machine(
        source_of(paths_of(from_paths, more_paths), machine), collect_options(None, ask_interpreters=False)
    )
    advice = advise_install(
        follow(probing, quiet=True),
        load_catalogue(),
        gpu=gpu,
        count=count,
        operating_system=operating_system,
        supplies_w=supplies_w,
    )
    emit_answer(advice, output_format, lambda _: advice_page(advice))


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@format_option("text", "json")
def list_command(kind: str, output_format: str) -> None:
    """List checks, benchmarks, launchers, programs, models, machines, gpus, stacks,
    training-recipes, kinds, or rules.

    Programs are the training software that `rigtune plan --program` can plan for. Stacks are software stacks
    whose speed `rigtune predict` can model. Kinds are the kinds of tool output that `--from` can read. Rules
    are the rules of `rigtune lint`, whose option `--explain RULE` shows more.
    """
    entries = list_entries(kind)
    if output_format == "json":
        emit_data(json_answer({"schema_version": 1, kind: entries}).decode())
        return
    rows = tuple(_cells(kind, entry) for entry in entries)
    columns = (*(Column(fixed=True) for _ in rows[0][1:]), Column())
    # A terminal gets folded lines; a pipe gets one line per row, for grep and awk.
    width = width_of_terminal() if sys.stdout.isatty() else sys.maxsize
    emit_text(text_of((Section("", (Table(columns, rows),)),), width=width))


def _cells(kind: str, entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one line.

    A check also has its group, tier and weight, and after the title the data that it needs; a benchmark has
    its suites.
    """
    if kind == "benchmarks":
        return entry["id"], ", ".join(entry["suites"]) or "on request", _benchmark_words(entry)
    if kind == "rules":
        return (entry["id"], entry["severity"], entry["title"])
    if kind != "checks":
        return (entry["id"], entry["title"])
    needs = f"  (needs {', '.join(entry['needs'])})" if entry["needs"] else ""
    weight = "required" * entry["required"]
    return (entry["id"], entry["group"], entry["tier"], weight, entry["title"] + needs)


def _benchmark_words(entry: dict[str, Any]) -> str:
    """Return the title, the rough duration in each suite, what the benchmark occupies and what it needs."""
    costs = (
        f"{entry['cost_s']:g} to {entry['full_cost_s']:g} s"
        if len(entry["suites"]) != 1
        else f"{entry['full_cost_s']:g} s"
    )
    needs = f"; needs {entry['applies']}" if entry["applies"] else ""
    return f"{entry['title']} (about {costs}, occupies {entry['occupies']}{needs})"
