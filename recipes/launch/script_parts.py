"""The parts of every launch script: the template engine, quoting, and the recipe as text."""

import functools
import shlex
import textwrap
import zlib
from typing import TYPE_CHECKING

import msgspec

from probes.base.units import duration, gib, plural
from recipes.launch.recipe import Artifact, Prediction, Recipe, program_arguments
from recipes.launch.recipe_file import dump_recipe, require_valid
from recipes.launch.reference_files import CONFIG, PACKAGE, reference_files
from recipes.predict.breakdowns import memory_words

if TYPE_CHECKING:
    from jinja2 import Environment

COMMENT_WIDTH = 110
PORT_RANGE_START = 20000
PORT_RANGE_SIZE = 10000
"""Number of rendezvous ports, 20000 to 29999.

The range is below Linux' ephemeral ports (ip_local_port_range, 32768 and up), which any outgoing connection
may occupy, and below the NodePorts of Kubernetes (30000 to 32767).
"""


def render_script(template: str, recipe: Recipe, **values: object) -> str:
    """Return the text of `recipes/launch/templates/<template>` for a recipe.

    Raises UsageError for a recipe that contradicts itself.
    """
    require_valid(recipe)
    return (
        templates()
        .get_template(template)
        .render(
            recipe=for_launcher(recipe, template.partition(".")[0]),
            summary=summary(recipe),
            prediction=prediction(recipe.predicted),
            program=program_words(recipe),
            port_start=PORT_RANGE_START,
            port_count=PORT_RANGE_SIZE,
            port_base=zlib.crc32(recipe.name.encode()) % PORT_RANGE_SIZE,
            last_rank=recipe.parallelism.nodes - 1,
            **values,
        )
    )


def for_launcher(recipe: Recipe, launcher: str) -> Recipe:
    """Return the recipe with the variables that the scripts of this launcher export."""
    exported = tuple(
        variable
        for variable in recipe.environment
        if not variable.launchers or launcher in variable.launchers
    )
    return msgspec.structs.replace(recipe, environment=exported)


def companions(recipe: Recipe) -> tuple[Artifact, ...]:
    """Return the files beside every launch script.

    These are the recipe and, if the job runs it, the reference program.
    """
    files = reference_files(recipe) if recipe.command.kind == "reference" else ()
    return (Artifact(path="recipe.toml", text=dump_recipe(recipe)), *files)


def summary(recipe: Recipe) -> str:
    """Return the plan in one sentence."""
    parallelism, resources = recipe.parallelism, recipe.resources
    nodes, ranks = plural(parallelism.nodes, "node"), plural(parallelism.ranks_per_node, "rank")
    device = resources.device_name or resources.device
    steps = plural(parallelism.grad_accum, "accumulation step")
    return (
        f"{parallelism.strategy.upper()} on {nodes} x {ranks} ({device}, {resources.backend}), "
        f"{parallelism.precision}, activation checkpointing {parallelism.activation_checkpointing}. "
        f"Micro-batch {parallelism.micro_batch} x {steps} x {plural(parallelism.world_size, 'rank')} = "
        f"global batch {parallelism.global_batch}."
    )


def prediction(predicted: Prediction) -> str:
    """Return the figures that the plan expects, in one sentence."""
    parts = []
    if predicted.step_time_s is not None:
        span = ""
        if predicted.step_time_low_s is not None and predicted.step_time_high_s is not None:
            span = f" ({duration(predicted.step_time_low_s)} to {duration(predicted.step_time_high_s)})"
        parts.append(f"{duration(predicted.step_time_s)} per step{span}")
    memory = (predicted.peak_memory_bytes, predicted.reserved_memory_bytes, predicted.worst_memory_bytes)
    if None not in memory:
        parts.append(f"{memory_words(*memory)} per rank")  # type: ignore[arg-type]
    elif predicted.peak_memory_bytes is not None:
        parts.append(f"{gib(predicted.peak_memory_bytes)} allocated per rank")
    if not parts:
        return "Nothing could be predicted for this machine."
    return f"Predicted: {', '.join(parts)}; `rigtune verify recipe.toml` measures it."


def program_words(recipe: Recipe) -> tuple[str, ...]:
    """Return the words after the interpreter:

    `-m rigtune_worker.train --config workload.json` and similar.
    """
    command, arguments = recipe.command, program_arguments(recipe)
    if command.kind == "reference":
        return ("-m", f"{PACKAGE}.train", "--config", CONFIG, *arguments)
    if command.kind == "module":
        return ("-m", command.target, *arguments)
    # the interpreter would treat a path that starts with a dash as an option
    return (f"./{command.target}" if command.target.startswith("-") else command.target, *arguments)


def _assignable(value: str) -> str:
    """Return `value` quoted for the right side of an assignment.

    A leading `=` would look like a comparison.
    """
    return f"'{value}'" if shlex.quote(value) == value and value.startswith("=") else shlex.quote(value)


def _words(values: tuple[str, ...]) -> str:
    return " ".join(map(shlex.quote, values))


def _comment(text: str, indent: str = "") -> str:
    """Return `text` as lines of a comment.

    Line breaks become blanks, so that the text cannot leave the comment.
    """
    printable = "".join(character if character.isprintable() else " " for character in text)
    lines = textwrap.wrap(
        " ".join(printable.split()), COMMENT_WIDTH, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(f"# {indent if number else ''}{line}" for number, line in enumerate(lines)) or "#"


@functools.lru_cache(maxsize=1)
def templates() -> "Environment":
    """Return the template engine of `recipes/launch/templates`, for shell text and settings files."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - slow to load

    # the `sh` filter quotes shell text; HTML escapes would corrupt it
    environment = Environment(  # noqa: S701
        loader=PackageLoader("recipes.launch", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(sh=shlex.quote, assignable=_assignable, words=_words, comment=_comment)
    return environment
