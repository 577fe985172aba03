"""`rigtune advise`: what to install, and advice on hardware, MIG, containers, the kubelet and the network."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assistant.cli.diagnostics import follow
from assistant.cli.options import (
    PATH,
    Command,
    Number,
    collect_options,
    format_option,
    paths_of,
    source_of,
    source_options,
)
from assistant.cli.output import emit_answer
from probes.base.errors import UsageError

if TYPE_CHECKING:
    from probes.facts import MachineFacts


@click.group()
def advise_command() -> None:
    """Advise on software to install, hardware, MIG, containers, the kubelet and the network.

    Nothing is changed: commands, files and texts are shown for you to use.
    """


def _source_command(name: str, short_help: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return a decorator that makes a subcommand which reads a machine and prints text or JSON."""

    def decorate(function: Callable[..., None]) -> click.Command:
        for add in (
            format_option("text", "json"),
            source_options,
            click.argument("more_paths", nargs=-1, type=PATH, metavar=""),
            advise_command.command(name, short_help=short_help),
        ):
            function = add(function)
        return function  # type: ignore[return-value]

    return decorate


_SUPPLIES = click.option(
    "--supplies-watts",
    "supplies_w",
    type=Number(0, 1e6, min_open=True),
    metavar="WATTS",
    help="Power that the power supplies deliver together.",
)


def _gpu_options(function: Command) -> Command:
    """Add the options that describe a machine by its GPUs, as in `rigtune plan`."""
    function = click.option(
        "--gpus", type=int, metavar="N", help="GPUs of one machine, for --gpu (default: the usual number)."
    )(function)
    return click.option(
        "--gpu",
        metavar="NAME",
        help="Advise on a machine with this GPU, in any spelling; with --from, complete a paste that does "
        "not name its GPUs.",
    )(function)


_NETWORK = click.option(
    "--network", metavar="WORDS", help='Ports of one machine, for --gpu, such as "8x400G IB".'
)


@_source_command("install", "what to install: driver, CUDA toolkit, Fabric Manager")
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
@_SUPPLIES
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
    from probes.catalogue.hardware import load_catalogue

    advice = advise_install(
        _facts(paths_of(from_paths, more_paths), machine),
        load_catalogue(),
        gpu=gpu,
        count=count,
        operating_system=operating_system,
        supplies_w=supplies_w,
    )
    emit_answer(advice, output_format, lambda _: advice_page(advice))


@_source_command("hardware", "power supplies, slots, cooling, NICs and memory")
@_gpu_options
@_NETWORK
@click.option("--cpu", metavar="NAME", help="Processor, for --gpu, such as 'EPYC 9654'.")
@click.option(
    "--sockets", type=click.IntRange(1, 8), default=1, show_default=True, help="Number of these processors."
)
@click.option("--memory", "memory_gib", type=Number(0, 1e6, min_open=True), metavar="GIB",
              help="Memory of the host, for --gpu.")  # fmt: skip
@_SUPPLIES
def hardware(**asked: Any) -> None:
    """Advise on power supplies, slots, cooling, NICs and memory of a machine or a list of parts."""
    _advise("hardware", asked)


@_source_command("mig", "a division of the GPUs for many small jobs")
@_gpu_options
@click.option("--model", metavar="MODEL", help="Model that each of many small jobs trains.")
@click.option("--memory-gib", "need_gib", type=Number(0, 1e4, min_open=True), metavar="GIB",
              help="GPU memory that each of many small jobs needs.")  # fmt: skip
def mig(**asked: Any) -> None:
    """Show the MIG profiles of the GPUs, and the partition that suits many small jobs."""
    _advise("mig", asked)


@_source_command("container", "options of Docker and Podman, a profile of LXD")
@_gpu_options
@_NETWORK
def container(**asked: Any) -> None:
    """Show the options of Docker and Podman, and an LXD profile, for training on this machine."""
    _advise("container", asked)


@_source_command("kubelet", "a configuration of the kubelet for the NUMA nodes")
def kubelet(**asked: Any) -> None:
    """Show a fragment of the kubelet's configuration for the NUMA nodes of this machine."""
    _advise("kubelet", asked)


@_source_command("network", "DSCP, PFC and ECN for RoCE")
@_gpu_options
@_NETWORK
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="Machines of one job (default: several).")
@click.option("--dscp", type=int, metavar="N", help="DSCP of training traffic, from the owner of the fabric.")
@click.option("--priority", type=int, metavar="N", help="Lossless priority, for --dscp (default: DSCP / 8).")
def network(**asked: Any) -> None:
    """Show DSCP, PFC and ECN for RoCE: commands for hosts, and a text for the owner of the fabric."""
    _advise("network", asked)


_OF_PARTS = ("gpu", "gpus", "cpu", "sockets", "network", "memory_gib")


def _advise(subject: Any, asked: dict[str, Any]) -> None:
    from assistant.pages.advice_page import lines_page
    from assistant.usecases.advise import Question, advise
    from probes.catalogue.hardware import load_catalogue
    from probes.facts import MachineFacts
    from recipes.advice.machine_parts import PartsList

    paths = paths_of(asked.pop("from_paths"), asked.pop("more_paths"))
    machine, output_format = asked.pop("machine"), asked.pop("output_format")
    parts = PartsList(**{name: asked.pop(name) for name in _OF_PARTS if name in asked})
    if machine is not None and parts.gpu is not None:
        raise UsageError(
            f"--machine {machine[:60]} and --gpu {parts.gpu[:60]} both describe the machine",
            "give one of them",
        )
    is_read = parts.gpu is None or paths
    facts = _facts(paths, machine) if is_read else MachineFacts()
    advice = advise(facts, load_catalogue(), Question(subject=subject, parts=parts, **asked))
    emit_answer(advice, output_format, lambda _: lines_page(advice))


def _facts(paths: tuple[Path, ...], machine: str | None) -> "MachineFacts":
    from assistant.usecases.probe import probe_machine

    options = collect_options(None, ask_interpreters=False)
    facts: MachineFacts = follow(probe_machine(source_of(paths, machine), options), quiet=True)
    return facts
