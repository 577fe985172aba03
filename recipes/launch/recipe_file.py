"""The recipe as a TOML file that people read, edit and keep under version control; checks of its fields."""

import hashlib
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import tomli_w

from probes.base.errors import InputError, UsageError
from probes.base.record import is_invisible, quoted
from probes.base.units import plural
from probes.judging.policies.strict_toml import read_strict
from recipes.launch.placeholders import PLACEHOLDERS, expand
from recipes.launch.recipe import (
    NAME_PATTERN,
    SCHEMA_VERSION,
    VARIABLE_PATTERN,
    Command,
    Convergence,
    Recipe,
    settings,
)
from recipes.launch.reserved_variables import SCRIPT_VARIABLES, SET_BY_LAUNCHER, SHELL_OWN
from recipes.launch.slots import require_slot
from recipes.planning.programs import load_programs
from recipes.planning.space import STRATEGIES


class Fault(NamedTuple):
    """One mistake: the field's path, the problem and the remedy."""

    place: str
    problem: str
    remedy: str


_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]*")
_SITE_NAME = re.compile(r"([A-Za-z0-9_][\w.,:@+-]*)?", re.ASCII)
"""Partitions and accounts; `#SBATCH` lines contain these names without quotes."""
_TIME_LIMIT = re.compile(r"((\d+-)?\d+(:\d+){0,2})?", re.ASCII)
"""The forms of `sbatch --time`: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS."""

_COMMENTS = {"title", "notes", "why", "source", "device_name"}
"""Fields that only people read. In scripts, their line breaks are replaced by blanks."""
_MAY_BE_ZERO = {
    *("warmup_steps", "learned_positions", "threads", "latency_s", "seconds_per_byte", "low_bytes"),
    *("residual", "points"),
    *("final_share", "decay_share", "beta1", "beta2", "weight_decay", "gradient_clipping"),
    *("embedding_learning_rate", "ramp_from", "ramp_samples"),
}
_ZERO_SECTIONS = ("predicted.", "model_details.", "images.")
"""Sections in which any number may be 0."""
_ANY_NUMBER = ("machine.hidden_communication.", "machine.intra_latency_s.", "machine.inter_latency_s.")
"""Figures of a machine that may be 0 or negative.

For example, hidden communication is negative if communication and computation slow each other down.
"""

_LONGEST_VARIABLE_BYTES = 128 * 1024
"""Most bytes of a variable, with its name, that Linux can pass to a program (MAX_ARG_STRLEN, execve(2))."""


def require_valid(recipe: Recipe) -> None:
    """Raise UsageError for the first fault."""
    for fault in faults(recipe):
        raise UsageError(f"recipe {quoted(recipe.name)}, {fault.place}: {fault.problem}", fault.remedy)


def require_command(command: Command) -> None:
    """Raise UsageError for the first fault of a command, before a plan exists that fills its arguments."""
    text_faults = _text_faults(msgspec.to_builtins(command), "command")
    for fault in (*text_faults, *_command_faults(command, dict.fromkeys(PLACEHOLDERS, "1"))):
        raise UsageError(f"your program, {fault.place}: {fault.problem}", fault.remedy)


def _fault_if(is_wrong: object, place: str, problem: str, remedy: str) -> tuple[Fault, ...]:
    return (Fault(place, problem, remedy),) if is_wrong else ()


def faults(recipe: Recipe) -> Iterator[Fault]:
    """Yield the mistakes of a recipe, first those in texts and numbers."""
    yield from _text_faults(msgspec.to_builtins(recipe), "")
    yield from _number_faults(msgspec.to_builtins(recipe), "")
    yield from _fault_if(
        not NAME_PATTERN.fullmatch(recipe.name) or len(recipe.name) > 100,
        "name",
        f"{quoted(recipe.name)} is not a job name",
        "begin with a letter or digit, and use at most 100 letters, digits, '.', '_' and '-'",
    )
    yield from _fault_if(
        recipe.program not in load_programs(),
        "program",
        f"there is no program {quoted(recipe.program)}",
        f"programs: {', '.join(load_programs())}",
    )
    yield from _parallelism_faults(recipe)
    yield from _model_faults(recipe)
    yield from _convergence_faults(recipe.convergence)
    yield from _resource_faults(recipe)
    yield from _command_faults(recipe.command, settings(recipe))
    yield from _environment_faults(recipe)
    for name, value in recipe.slots.items():
        try:
            require_slot(name, value, "the recipe")
        except UsageError as error:
            yield Fault(f"slots.{name[:60]}", error.message, error.hint)


def _text_faults(value: Any, place: str, field: str = "") -> Iterator[Fault]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _text_faults(part, f"{place}.{name}".lstrip("."), name)
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _text_faults(part, f"{place}[{index}]", field)
    elif isinstance(value, str):
        allowed = "\t\n\r" if field in _COMMENTS else "\t"
        if any(character not in allowed and not _storable(character) for character in value):
            hint = "keep it on one line, and remove invisible characters and marks of text direction"
            yield Fault(place, "contains a line break or control character", hint)
        elif any("\ud800" <= character <= "\udfff" for character in value):
            yield Fault(place, "is not valid UTF-8", "use names that are valid UTF-8")


def _storable(character: str) -> bool:
    return not is_invisible(character) and character not in "\t\n\r\u2028\u2029"


_SMALLEST, _LARGEST = 1e-30, 1e30
"""Bounds of numbers other than 0; beyond them, products of figures could leave the range of a float."""


def _number_faults(value: Any, place: str, field: str = "") -> Iterator[Fault]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _number_faults(part, f"{place}.{name}".lstrip("."), name)
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from _number_faults(part, f"{place}[{index}]", field)
    elif place.startswith(_ANY_NUMBER):
        yield from _fault_if(
            isinstance(value, float) and not abs(value) <= _LARGEST,
            place,
            f"is {value}",
            f"give a finite number of at most {_LARGEST:g}",
        )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        may_be_zero = field in _MAY_BE_ZERO or place.startswith(_ZERO_SECTIONS)
        if not math.isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
            yield Fault(
                place, f"is {value}", f"give a finite number, {'0 or more' if may_be_zero else 'more than 0'}"
            )
        elif value and not _SMALLEST <= value <= _LARGEST:
            yield Fault(place, f"is {value}", f"give a number from {_SMALLEST:g} to {_LARGEST:g}")


def _convergence_faults(convergence: Convergence) -> Iterator[Fault]:
    """Yield the mistakes in decays and shares, which are between 0 and 1."""
    for name in ("beta1", "beta2", "final_share", "decay_share"):
        value, is_decay = getattr(convergence, name), name.startswith("beta")
        yield from _fault_if(
            value >= 1 if is_decay else value > 1,
            f"convergence.{name}",
            f"is {value}",
            f"give a number {'below 1' if is_decay else 'of at most 1'}",
        )


def _parallelism_faults(recipe: Recipe) -> Iterator[Fault]:
    parallelism = recipe.parallelism
    if parallelism.strategy not in STRATEGIES:
        problem = f"{quoted(parallelism.strategy)} does not exist"
        yield Fault("parallelism.strategy", problem, f"strategies: {', '.join(STRATEGIES)}")
        return
    degrees, ranks = parallelism.degrees, parallelism.world_size
    sizes = (degrees.dp, degrees.fsdp, degrees.tp, degrees.pp, degrees.cp)
    yield from _fault_if(
        math.prod(sizes) != ranks,
        "parallelism.dp",
        f"dp {degrees.dp} x fsdp {degrees.fsdp} x tp {degrees.tp} x pp {degrees.pp} x cp {degrees.cp} = "
        f"{math.prod(sizes)}, but nodes {parallelism.nodes} x ranks_per_node {parallelism.ranks_per_node} = "
        f"{ranks}",
        "change dp or fsdp so that the product is the number of ranks",
    )
    product = parallelism.micro_batch * parallelism.grad_accum * parallelism.replicas
    yield from _fault_if(
        product != parallelism.global_batch,
        "parallelism.global_batch",
        f"is {parallelism.global_batch}, but micro_batch {parallelism.micro_batch} x grad_accum "
        f"{parallelism.grad_accum} x dp {degrees.dp} x fsdp {degrees.fsdp} = {product}",
        "the global batch affects the trained model: keep it, and change micro_batch or grad_accum so that "
        "the product is equal to it",
    )
    is_sharded = parallelism.strategy in ("fsdp", "hsdp")
    yield from _fault_if(
        degrees.fsdp > 1 and not is_sharded,
        "parallelism.fsdp",
        f"is {degrees.fsdp}, but {parallelism.strategy} does not share parameters",
        f"set dp = {degrees.dp * degrees.fsdp} and fsdp = 1, or strategy = 'fsdp'",
    )
    yield from _fault_if(
        parallelism.strategy == "fsdp" and degrees.dp > 1,
        "parallelism.dp",
        f"is {degrees.dp}, but fsdp has one copy of the parameters",
        f"set dp = 1 and fsdp = {degrees.dp * degrees.fsdp}, or strategy = 'hsdp'",
    )
    yield from _fault_if(
        parallelism.strategy == "hsdp" and 1 in (degrees.dp, degrees.fsdp * degrees.cp),
        "parallelism.fsdp",
        f"is {degrees.fsdp} with dp {degrees.dp}, but hsdp has several groups of several ranks",
        "give dp and fsdp of at least 2, or strategy = 'fsdp'",
    )
    yield from _fault_if(
        degrees.vp > 1 and degrees.pp == 1,
        "parallelism.vp",
        f"is {degrees.vp} without a pipeline",
        "set vp = 1, or give pp",
    )
    yield from _fault_if(
        parallelism.recomputed_share > 1,
        "parallelism.recomputed_share",
        f"is {parallelism.recomputed_share}",
        "give a part of the layers: above 0 and at most 1",
    )


def _model_faults(recipe: Recipe) -> Iterator[Fault]:
    model = recipe.model
    if model is None or recipe.images is not None:
        yield from _fault_if(
            (model is None) == (recipe.images is None),
            "model",
            "and images are both given" if model is not None else "is missing, and there are no images",
            "give [model] for a transformer, or [images] for an image model",
        )
        yield from _fault_if(
            recipe.images is not None and recipe.command.kind == "reference",
            "command.kind",
            "is 'reference', but the reference workload trains no image model",
            "give your own training program: kind = 'script' and its target",
        )
        return
    yield from _fault_if(
        model.kv_heads > 0 and model.heads % model.kv_heads,
        "model.kv_heads",
        f"is {model.kv_heads}, which does not divide heads {model.heads}",
        "use a divisor",
    )
    yield from _fault_if(
        0 < model.learned_positions < model.sequence_length,
        "model.sequence_length",
        f"is {model.sequence_length}, but the model has learned_positions = {model.learned_positions}",
        "use at most as many tokens as the position table has rows",
    )


def _resource_faults(recipe: Recipe) -> Iterator[Fault]:
    resources = recipe.resources
    yield from _fault_if(
        resources.backend == "nccl" and resources.device == "cpu",
        "resources.backend",
        "is nccl, which needs device = 'cuda'",
        "use gloo on a CPU",
    )
    yield from _fault_if(
        resources.python.startswith("-"),
        "resources.python",
        f"{quoted(resources.python)} is not an interpreter",
        "give its path, or leave it empty",
    )
    for place, pattern in (("partition", _SITE_NAME), ("account", _SITE_NAME), ("time_limit", _TIME_LIMIT)):
        value = getattr(resources, place)
        if not pattern.fullmatch(value):
            example = "24:00:00" if place == "time_limit" else "gpu"
            yield Fault(
                f"resources.{place}",
                f"{quoted(value)} is not a {place.replace('_', ' ')}",
                f"write a value such as {example!r}",
            )
    for index, host in enumerate(resources.hosts):
        if not _HOST.fullmatch(host):
            yield Fault(
                f"resources.hosts[{index}]", f"{quoted(host)} is not a host", "give a host name or address"
            )
    yield from _fault_if(
        len(set(resources.hosts)) != len(resources.hosts),
        "resources.hosts",
        "names the same host twice",
        "each host is one node; for more ranks, raise ranks_per_node",
    )
    yield from _fault_if(
        resources.hosts and len(resources.hosts) != recipe.parallelism.nodes,
        "resources.hosts",
        f"has {plural(len(resources.hosts), 'host')}, but parallelism.nodes is {recipe.parallelism.nodes}",
        "name one host per node, or none",
    )


def _command_faults(command: Command, values: dict[str, str]) -> Iterator[Fault]:
    yield from _fault_if(
        command.kind in ("reference", "program") and command.target,
        "command.target",
        f"is given, but kind is '{command.kind}'",
        "set kind to 'script' or 'module', or remove target",
    )
    yield from _fault_if(
        command.kind in ("script", "nccl-tests") and not command.target,
        "command.target",
        "is missing",
        "give the path of the script" if command.kind == "script" else "give a test such as all_reduce_perf",
    )
    yield from _fault_if(
        command.kind == "module" and not _MODULE.fullmatch(command.target),
        "command.target",
        f"{quoted(command.target)} is not a module",
        "give its dotted name, like 'package.train'",
    )
    for index, argument in enumerate(command.arguments):
        try:
            expand(argument, values)
        except UsageError as error:
            yield Fault(f"command.arguments[{index}]", error.message, error.hint)


def _environment_faults(recipe: Recipe) -> Iterator[Fault]:
    names = set()
    for index, variable in enumerate(recipe.environment):
        place, name = f"environment[{index}].name", variable.name
        if not VARIABLE_PATTERN.fullmatch(name):
            yield Fault(
                place,
                f"{quoted(name)} is not a variable name",
                "use letters, digits and '_', and no digit first",
            )
        elif name in SET_BY_LAUNCHER:
            yield Fault(place, f"{name} is set by the launch script itself", "remove it")
        elif name in SHELL_OWN or name in SCRIPT_VARIABLES:
            yield Fault(place, f"{name} belongs to the launch script or its shell", "remove or rename it")
        elif name in names:
            yield Fault(place, f"{name} appears twice", "keep one")
        size = len(f"{name}={variable.value}".encode("utf-8", "surrogateescape")) + 1
        yield from _fault_if(
            size > _LONGEST_VARIABLE_BYTES,
            f"environment[{index}].value",
            f"has {size} bytes, but a program can get at most {_LONGEST_VARIABLE_BYTES}",
            "write the value to a file, and name the file",
        )
        names.add(name)


_HEADER = """\
# A training recipe of rigtune: how one job runs on one machine or cluster, and why.
# Edit it, then write the launch files again with `rigtune export`, or start it with `rigtune run`.
# The product of dp, fsdp, tp, pp and cp must be nodes times ranks_per_node; the product of micro_batch,
# grad_accum, dp and fsdp must stay global_batch.
"""


_DIGEST = re.compile(r"^# As rigtune wrote it: sha256 ([0-9a-f]{64})\n", re.MULTILINE)


def dump_recipe(recipe: Recipe) -> str:
    """Return the recipe as TOML, with fields in the order of the record and without fields that are None.

    A comment contains a digest of the other lines; `is_edited` uses it to detect changes by a person.
    """
    fields = _without_none(msgspec.to_builtins(recipe))
    if not recipe.kept:
        del fields["kept"]  # only imported recipes have kept parts of files
    text = f"{_HEADER}\n{tomli_w.dumps(fields)}"
    return text.replace(_HEADER, f"{_HEADER}# As rigtune wrote it: sha256 {_digest(text)}\n", 1)


def is_edited(text: str) -> bool:
    """Return True unless the digest in a recipe file shows that the file is as rigtune wrote it."""
    stated = _DIGEST.search(text)
    return stated is None or _digest(_DIGEST.sub("", text, count=1)) != stated[1]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _without_none(value: Any) -> Any:
    """Return the value without fields that are None, because TOML has no null."""
    if isinstance(value, dict):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(part) for part in value]
    return value


def load_recipe(text: str, name: str) -> Recipe:
    """Return the recipe in `text`; `name` is the file's name for messages.

    Raises InputError for a text that is not TOML, or that has a wrong field. The message names the field and
    the correction.
    """
    recipe = read_strict(
        text,
        name,
        Recipe,
        schema_version=SCHEMA_VERSION,
        missing="`rigtune plan -o recipe.toml` writes a whole recipe",
    )
    for fault in faults(recipe):
        raise InputError(f"{name}: {fault.place}: {fault.problem}", fault.remedy)
    return recipe
