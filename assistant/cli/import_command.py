"""`rigtune import`: an existing launch as a recipe."""

from pathlib import Path
from typing import Any

import click

from assistant.cli.diagnostics import say
from assistant.cli.options import PATH, Number, format_option, given_settings, verbosity_options
from assistant.cli.output import emit_answer
from assistant.pages.training.import_page import import_page
from assistant.storage import write_bytes
from assistant.usecases.adopt import import_files
from assistant.usecases.export import how_to_export, refuse_edited_recipe
from probes.base.errors import UsageError
from recipes.launch.imports.adopted import Imported
from recipes.launch.imports.layout_of_launch import SHARDING_WORDS
from recipes.launch.recipe_file import dump_recipe

_WHOLE = click.IntRange(1, 10**12)


@click.command()
@click.argument("files", type=PATH, metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--model", metavar="NAME", help="Model that the files train: a preset, a Hugging Face id, a file."
)
@click.option("--sequence-length", type=_WHOLE, metavar="TOKENS", help="Tokens per sequence.")
@click.option("--nodes", type=_WHOLE, metavar="N", help="Number of nodes of the run.")
@click.option("--ranks-per-node", type=_WHOLE, metavar="N", help="Ranks on each node.")
@click.option("--strategy", type=click.Choice(tuple(SHARDING_WORDS)), help="Sharing of the training state.")
@click.option("--micro-batch", type=_WHOLE, metavar="SEQUENCES", help="Sequences per rank and forward pass.")
@click.option("--grad-accum", type=_WHOLE, metavar="N", help="Micro-batches per optimizer step.")
@click.option("--global-batch", type=_WHOLE, metavar="SEQUENCES", help="Sequences per optimizer step.")
@click.option("--steps", type=_WHOLE, help="Optimizer steps of the run.")
@click.option("--learning-rate", type=Number(1e-12, 1e3), help="Peak learning rate.")
@click.option("--warmup-steps", type=click.IntRange(0, 10**12), help="Steps of the warm-up.")
@click.option(
    "--precision",
    type=click.Choice(("bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4")),
    help="Number format of the training.",
)
@click.option("-o", "--output", type=PATH, metavar="RECIPE", help="Write the recipe (TOML) to this file.")
@click.option("--overwrite", is_flag=True, help="Replace a recipe that was edited, or another file.")
@format_option("text", "json")
@verbosity_options
def import_command(
    files: tuple[Path, ...],
    output: Path | None,
    overwrite: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Read an existing launch into a recipe; the files given together are one launch.

    FILE is an sbatch or shell script with torchrun, accelerate, deepspeed, srun or mpirun, a configuration of
    accelerate, DeepSpeed, torchtitan, LLaMA-Factory or axolotl, a Kubernetes job, or a list of hosts (- for
    standard input). What the files do not state is never guessed: an option gives it. What is not understood
    is kept word for word.
    """
    if output is not None and not overwrite:
        refuse_edited_recipe(output, "rigtune import")
    answer = import_files(files, given_settings(given))
    if output is not None:
        _write(answer, output)
    emit_answer(answer, output_format, lambda _: import_page(answer), is_wide=True)
    if output is not None and answer.recipe is not None and output_format != "json" and not quiet:
        say(f"wrote {output}; next: {how_to_export(answer.recipe, output, answer.batch_system)}")


def _write(answer: Imported, output: Path) -> None:
    """Write the recipe. Raises UsageError if settings are missing."""
    if answer.recipe is None:
        names = ", ".join(each.setting for each in answer.missing)
        options = " ".join(each.option for each in answer.missing)
        raise UsageError(
            f"the files do not state all that a recipe needs: {names} missing", f"give {options}"
        )
    write_bytes(output, dump_recipe(answer.recipe).encode("utf-8", "surrogateescape"))
