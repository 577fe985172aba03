"""The parts of every launch script: the template engine, quoting, and sentences about the plan."""

import functools
import shlex
import textwrap
import zlib
from typing import TYPE_CHECKING

import msgspec

from probes.base.units import duration, gib, plural
from probes.catalogue.thresholds import load_thresholds
from recipes.launch.program_files import FolderFile, ProgramFiles, Word
from recipes.launch.rank_logs import log_variables
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.references import shell_quoted
from recipes.launch.slots import load_slots, slot_value
from recipes.predict.breakdowns import memory_words

if TYPE_CHECKING:
    from jinja2 import Environment

PREFLIGHT = "preflight.sh"
COMMENT_WIDTH = 110
RESTARTS = 20
"""Limit of restarts after a signal or the loss of a node; a job that makes no progress must end."""
PORT_RANGE_START = 20000
PORT_RANGE_SIZE = 10000
"""Number of rendezvous ports, 20000 to 29999.

The range is below Linux' ephemeral ports (ip_local_port_range, 32768 and up), which any outgoing connection
may occupy, and below the NodePorts of Kubernetes (30000 to 32767).
"""


def render_script(template: str, recipe: Recipe, files: ProgramFiles, **values: object) -> str:
    """Return the text of `recipes/launch/templates/<template>` for a recipe and its program's files."""
    return (
        templates()
        .get_template(template)
        .render(
            recipe=recipe,
            files=files,
            agent=files.agent,
            summary=summary(recipe),
            prediction=prediction(recipe),
            runner="program" if files.executable else "python",
            run='"$program"' if files.executable else '"$python" -u',
            remarks=remarks(recipe, files),
            slot=functools.partial(slot_value, recipe),
            slots=load_slots(),
            port_start=PORT_RANGE_START,
            port_count=PORT_RANGE_SIZE,
            port_base=job_port(recipe) - PORT_RANGE_START,
            last_rank=recipe.parallelism.nodes - 1,
            log_variables=log_variables(recipe),
            exported_names=exported_names(recipe),
            **values,
        )
    )


def job_port(recipe: Recipe) -> int:
    """Return a port for the rendezvous on the network of a host; it follows from the job's name."""
    return PORT_RANGE_START + zlib.crc32(recipe.name.encode()) % PORT_RANGE_SIZE


def exported_names(recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the variables that a script exports for the program."""
    names = [variable.name for variable in recipe.environment]
    names += [variable.name for variable in log_variables(recipe)]
    return tuple(dict.fromkeys(names))


def with_rank_environment(recipe: Recipe, files: ProgramFiles) -> Recipe:
    """Return the recipe with the variables that an agent would set for each rank."""
    names = {variable.name for variable in recipe.environment}
    added = [variable for variable in files.rank_environment if variable.name not in names]
    return msgspec.structs.replace(recipe, environment=(*recipe.environment, *added))


def preflight(recipe: Recipe, files: ProgramFiles) -> Artifact:
    """Return the script that tests one node before its ranks start; it is the same for every launcher."""
    own = (recipe.command.target,) if recipe.command.kind == "module" else ()
    modules = dict.fromkeys(name.partition(".")[0] for name in (*files.modules, *own))
    target = recipe.command.target
    # Programs such as LLaMA-Factory start their module instead of the user's `llamafactory-cli`.
    is_started = any(word in (target, f"./{target}") for word in files.words if isinstance(word, str))
    text = render_script(
        "preflight.sh.j2",
        recipe,
        files,
        modules=tuple(modules),
        script=target if recipe.command.kind == "script" and is_started else "",
        shm_kib=int(load_thresholds().shm_minimum_bytes.value) // 1024,
    )
    return Artifact(path=PREFLIGHT, text=text, mode=EXECUTABLE)


def remarks(recipe: Recipe, files: ProgramFiles) -> tuple[str, ...]:
    """Return the recipe's warnings and the program's notes, for the first lines of a script."""
    is_training = recipe.command.kind != "nccl-tests"
    return (*(note for note in recipe.notes if is_training and note.startswith("Warning:")), *files.notes)


def summary(recipe: Recipe) -> str:
    """Return the plan in one or two sentences."""
    parallelism, resources = recipe.parallelism, recipe.resources
    nodes, ranks = plural(parallelism.nodes, "node"), plural(parallelism.ranks_per_node, "rank")
    device = resources.device_name or resources.device
    if recipe.command.kind == "nccl-tests":
        return f"nccl-tests on {nodes} x {ranks} ({device}), with the environment of this job."
    steps = plural(parallelism.grad_accum, "accumulation step")
    # Ranks of tensor, pipeline and context parallelism work on the same sequences.
    is_divided = parallelism.replicas != parallelism.world_size
    shares = plural(parallelism.replicas, "data-parallel rank" if is_divided else "rank")
    return (
        f"{parallelism.strategy.upper()} on {nodes} x {ranks} ({device}, {resources.backend}), "
        f"{parallelism.precision}, activation checkpointing {parallelism.activation_checkpointing}. "
        f"Micro-batch {parallelism.micro_batch} x {steps} x {shares} = "
        f"global batch {parallelism.global_batch}."
    )


def prediction(recipe: Recipe) -> str:
    """Return the figures that the plan expects, in one sentence."""
    predicted, parts = recipe.predicted, []
    if recipe.command.kind == "nccl-tests":
        return "`rigtune explain FOLDER_OF_THE_LOGS` compares the bus bandwidth with what such GPUs reach."
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
        return "The recipe predicts neither step time nor memory."
    return f"Predicted: {', '.join(parts)}; `rigtune verify recipe.toml` measures it."


def _assignable(value: str) -> str:
    """Return `value` quoted for the right side of an assignment.

    A leading `=` would look like a comparison.
    """
    return f"'{value}'" if shlex.quote(value) == value and value.startswith("=") else shlex.quote(value)


def shell_words(values: tuple[Word, ...]) -> str:
    """Return words for a POSIX shell; a file of the export folder begins with the variable `folder`."""
    return " ".join(
        f'"$folder"/{shlex.quote(word.name)}' if isinstance(word, FolderFile) else shell_quoted(word)
        for word in values
    )


def inner_words(values: tuple[Word, ...]) -> str:
    """Return plain words for a script in single quotes, which runs on each node.

    A file of the export folder is found through RIGTUNE_RECIPE. Raises ValueError for a word with a quote.
    """
    texts = [
        f"${{RIGTUNE_RECIPE%/*}}/{word.name}" if isinstance(word, FolderFile) else word for word in values
    ]
    if any("'" in text or '"' in text for text in texts):
        raise ValueError(f"{texts} cannot stand in single quotes")
    return " ".join(f'"{text}"' if shlex.quote(text) != text else text for text in texts)


def first_sentence(text: str) -> str:
    """Return the first sentence, without its full stop."""
    return " ".join(text.split()).partition(". ")[0].removesuffix(".")


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
    environment.filters.update(sh=shlex.quote, assignable=_assignable, words=shell_words, comment=_comment)
    environment.filters.update(inner_words=inner_words)
    environment.filters.update(sentence=first_sentence)
    return environment
