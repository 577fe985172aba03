"""`rigtune list`: the rows of rigtune's tables."""

import sys
from typing import Any

import click

from assistant.cli.options import format_option
from assistant.cli.output import emit_data, emit_text
from assistant.formats.json_answer import json_answer
from assistant.pages.blocks import Column, Section, Table
from assistant.text.plain_writer import text_of, width_of_terminal
from assistant.usecases.listing import KINDS, list_entries


@click.command()
@click.argument("kind", metavar="TABLE", type=click.Choice(KINDS))
@format_option("text", "json")
def list_command(kind: str, output_format: str) -> None:
    """List the rows of a table: checks, benchmarks, launchers, programs, strategies, models and others.

    TABLE is checks, benchmarks, launchers, programs, placeholders, slots, strategies, models, machines, gpus,
    stacks, training-recipes, kinds or rules.

    Programs are the training software that `rigtune plan --program` can plan for. Placeholders are the names
    in braces that the arguments of your own program may contain. Strategies are ways to train on several GPUs
    that `rigtune plan --why-not` can judge. Stacks are software stacks whose speed `rigtune predict` can
    model. Kinds are the kinds of tool output that `--from` can read. Rules are the rules of `rigtune lint`,
    whose option `--explain RULE` shows more.
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

    Besides id and title, a check has its group, its tier, `required` and the data that it needs, a benchmark
    its suites and costs, a rule its severity, and a strategy how it works and when it is chosen.
    """
    if kind == "benchmarks":
        return entry["id"], ", ".join(entry["suites"]) or "on request", _benchmark_words(entry)
    if kind == "rules":
        return (entry["id"], entry["severity"], entry["title"])
    if kind == "strategies":
        return (entry["id"], f"{entry['title']}. {entry['how']} Chosen when: {entry['chosen_when']}")
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
