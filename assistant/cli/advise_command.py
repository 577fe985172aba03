"""`rigtune advise`: what to do before a machine can train."""

from __future__ import annotations

from pathlib import Path

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
from assistant.cli.output import emit_answer
from assistant.pages.advice_page import advice_page


@click.group()
def advise_command() -> None:
    """Advise what to do before a machine can train."""


@advise_command.command("install")
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@source_options
@click.option("--gpu", metavar="GPU", help="Instead of the GPUs found: one of `rigtune list gpus`.")
@click.option("--count", type=int, default=1, show_default=True, help="How many of them, with --gpu.")
@click.option(
    "--os", "operating_system", metavar="NAME", help="Instead of the distribution found: 'Ubuntu 24.04' ..."
)
@click.option("--supplies-watts", "supplies_w", type=Number(0, 1e6, min_open=True), metavar="WATTS",
              help="What the power supplies deliver together.")  # fmt: skip
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
    """Driver, CUDA toolkit, Fabric Manager and container toolkit for this distribution and these GPUs, as
    commands.

    Nothing is installed: the commands are shown with their reasons and sources, for you to run.
    """
    from assistant.usecases.advise import advise_install
    from assistant.usecases.probe import probe_machine
    from probes.catalogue.hardware import load_catalogue

    source = source_of(paths_of(from_paths, more_paths), machine)
    facts = follow(probe_machine(source, collect_options(None, ask_interpreters=False)), quiet=True)
    advice = advise_install(
        facts,
        load_catalogue(),
        gpu=gpu,
        count=count,
        operating_system=operating_system,
        supplies_w=supplies_w,
    )
    emit_answer(advice, output_format, lambda _: advice_page(advice))
