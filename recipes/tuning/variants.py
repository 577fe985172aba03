"""The candidates that are worth a trial. Each is a complete recipe: the given one with other settings.

Only settings that do not change the trained model vary: the layout with the same global batch, the settings
of `recipes/data/tuning.toml`, and environment variables.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from probes.base.errors import UsageError
from probes.base.record import Record, StrictRecord, quoted
from probes.base.rows import load_rows
from recipes.job.candidate import Candidate, Degrees
from recipes.job.pins import Pins
from recipes.launch.edited import workload_of
from recipes.launch.recipe import Environment, Parallelism, Recipe
from recipes.launch.resolve import prediction_of
from recipes.machine.cluster_records import Cluster
from recipes.planning.examined import Examined
from recipes.planning.planner import request_of
from recipes.planning.program_jobs import program_job
from recipes.planning.programs import OWN, REFERENCE_PROGRAM, program_named
from recipes.planning.search import neighbours, refusing, search
from recipes.planning.space import Request, strategy_of
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.job_prediction import needed_for, predicted_for, time_for

BASELINE = "the recipe"
"""Name of the candidate that is the recipe itself."""


class Setting(Record, kw_only=True):
    """A setting of a candidate that differs from the recipe."""

    name: str
    value: str
    before: str = ""
    """Value of the recipe; blank if the recipe does not set it."""
    why: str = ""
    """Reason to try the value; blank for a layout."""
    source: str = ""


class Variant(Record, kw_only=True):
    """A candidate: the recipe with other settings."""

    name: str
    """The settings that differ, such as `micro_batch 4, grad_accum 2`."""
    settings: tuple[Setting, ...]
    recipe: Recipe
    predicted_s: float | None = None
    """Predicted seconds of a step; None if unknown."""


class SettingRow(StrictRecord, kw_only=True):
    """A setting that is measured although no model predicts its effect."""

    setting: str
    """Field of `Parallelism`."""
    strategies: tuple[str, ...]
    values: tuple[int, ...]
    why: str
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_settings() -> tuple[SettingRow, ...]:
    """Return the rows of `recipes/data/tuning.toml`."""
    return load_rows("recipes", "settings", SettingRow, file="tuning")


def variants(recipe: Recipe, most: int) -> tuple[Variant, ...]:
    """Return the recipe and at most `most` other candidates, the fastest prediction first.

    A setting without a prediction has the rank of the recipe. Settings that the recipe's program does not
    take do not vary.
    """
    first = Variant(name=BASELINE, settings=(), recipe=recipe, predicted_s=recipe.predicted.step_time_s)
    others = {each.name: each for each in (*_layouts(recipe), *_settings(recipe)) if each.settings}
    ranked = sorted(others.values(), key=_predicted)
    return (first, *ranked[:most])


def variable_variants(recipe: Recipe, variables: Iterable[Environment]) -> tuple[Variant, ...]:
    """Return the recipe, and one candidate for each variable and value that the recipe does not have."""
    present = {variable.name: variable.value for variable in recipe.environment}
    predicted_s = recipe.predicted.step_time_s
    result = {BASELINE: Variant(name=BASELINE, settings=(), recipe=recipe, predicted_s=predicted_s)}
    for variable in variables:
        if present.get(variable.name) == variable.value:
            continue
        kept = tuple(other for other in recipe.environment if other.name != variable.name)
        name = f"{variable.name}={variable.value}"
        result.setdefault(
            name,
            Variant(
                name=name,
                settings=(
                    Setting(
                        name=variable.name,
                        value=variable.value,
                        before=present.get(variable.name, ""),
                        why=variable.why,
                        source=variable.source,
                    ),
                ),
                recipe=msgspec.structs.replace(recipe, environment=(*kept, variable)),
                predicted_s=predicted_s,
            ),
        )
    return tuple(result.values())


def _predicted(variant: Variant) -> float:
    return math.inf if variant.predicted_s is None else variant.predicted_s


def _layouts(recipe: Recipe) -> Iterator[Variant]:
    """Yield the layouts that are predicted to fit: the search's best, then close neighbours of the recipe."""
    machine = recipe.machine
    sizes = recipe.parallelism
    if machine is None or (machine.nodes, machine.ranks_per_node) != (sizes.nodes, sizes.ranks_per_node):
        return
    pins = _pins(recipe)
    if pins is None:
        return
    is_reference = recipe.command.kind == "reference"
    program = program_named(REFERENCE_PROGRAM if is_reference else recipe.program)
    request = request_of(workload_of(recipe), machine, program, pins)
    limit = machine.memory_bytes_per_rank
    # A plan leaves memory free in case the memory model is wrong. Here, layouts close to the limit are tried,
    # because running out of memory is only the result of a trial.
    refuses = refusing(math.inf if limit is None else limit.value)
    searched = search(request, refuses)
    own = _examined(request, recipe.parallelism.candidate)
    for member in (*searched.ranked, *neighbours(request, own, refuses)):
        if member.time is not None:
            yield _layout(recipe, member)


def _pins(recipe: Recipe) -> Pins | None:
    """Return the settings that other layouts must keep; None if the program takes no setting of the layout.

    The reference workload takes all settings. The user's own program takes those that its arguments name.
    """
    if recipe.command.kind == "reference":
        return Pins()
    arguments = " ".join(recipe.command.arguments)
    if recipe.program != OWN or "{micro_batch}" not in arguments:
        return None
    own, degrees = recipe.parallelism, recipe.parallelism.degrees
    has_accumulation = "{grad_accum}" in arguments or "{global_batch}" in arguments
    return Pins(
        strategy=own.strategy,
        grad_accum=None if has_accumulation else own.grad_accum,
        activation_checkpointing=own.activation_checkpointing,
        recomputed_share=own.recomputed_share if own.activation_checkpointing == "full" else None,
        schedule=own.pipeline_schedule,
        **{name: getattr(degrees, name) for name in ("tp", "pp", "cp", "ep", "vp", "fsdp")},
    )


def _examined(request: Request, candidate: Candidate) -> Examined:
    job = program_job(request.workload, candidate, request.cluster, request.stack)
    return Examined(candidate, job, needed_for(job), time_for(job))


_FIELDS = (
    *("strategy", "dp", "fsdp", "tp", "pp", "vp", "cp", "ep", "pipeline_schedule", "micro_batch"),
    *("grad_accum", "activation_checkpointing", "recomputed_share"),
)
"""Fields of `Parallelism` that a layout sets."""


def _layout(recipe: Recipe, member: Examined) -> Variant:
    """Return the recipe with another layout; a variant without settings if the layout is the recipe's."""
    candidate = member.candidate
    layout = msgspec.structs.replace(
        recipe.parallelism,
        strategy=strategy_of(candidate),
        **msgspec.structs.asdict(candidate.degrees),
        pipeline_schedule=candidate.schedule,
        micro_batch=candidate.micro_batch,
        grad_accum=candidate.grad_accum,
        activation_checkpointing=candidate.activation_checkpointing,
        recomputed_share=candidate.recomputed_share,
    )
    layout = _without_settings_of_others(layout)
    figures = prediction_of(
        predicted_for(member.job, member.memory), makes_data=recipe.command.kind == "reference"
    )
    settings = _changed(recipe.parallelism, layout, _FIELDS)
    return Variant(
        name=_name(settings),
        settings=settings,
        recipe=msgspec.structs.replace(recipe, parallelism=layout, predicted=figures),
        predicted_s=figures.step_time_s,
    )


def _without_settings_of_others(layout: Parallelism) -> Parallelism:
    """Return the layout without settings that apply only to other strategies."""
    foreign = {row.setting: None for row in load_settings() if layout.strategy not in row.strategies}
    return msgspec.structs.replace(layout, **foreign)


def _settings(recipe: Recipe) -> Iterator[Variant]:
    """Yield the recipe with each value of the settings that have no prediction."""
    own = recipe.parallelism
    if recipe.command.kind != "reference" or own.replicas == 1:
        return
    for row in load_settings():
        for value in row.values if own.strategy in row.strategies else ():
            layout = msgspec.structs.replace(own, **{row.setting: value})
            changed = _changed(own, layout, (row.setting,))
            settings = tuple(
                msgspec.structs.replace(each, why=row.why, source=row.source) for each in changed
            )
            yield Variant(
                name=_name(settings),
                settings=settings,
                recipe=msgspec.structs.replace(recipe, parallelism=layout),
                predicted_s=recipe.predicted.step_time_s,
            )


def _changed(before: Parallelism, after: Parallelism, names: Sequence[str]) -> tuple[Setting, ...]:
    """Return the settings of `names` that differ; unstated degrees follow from the strategy."""

    def value(layout: Parallelism, name: str) -> str:
        holder = layout.degrees if name in Degrees.__struct_fields__ else layout
        own = getattr(holder, name)
        return "" if own is None else f"{own:g}" if isinstance(own, float) else str(own)

    return tuple(
        Setting(name=name, value=value(after, name), before=value(before, name))
        for name in names
        if value(before, name) != value(after, name)
    )


def _name(settings: Iterable[Setting]) -> str:
    return ", ".join(f"{setting.name} {setting.value}" for setting in settings)


def memory_of_recipe(recipe: Recipe, machine: Cluster) -> MemoryBreakdown:
    """Return the predicted memory of the recipe on a machine."""
    request = request_of(workload_of(recipe), machine, program_named(recipe.program), Pins())
    return _examined(request, recipe.parallelism.candidate).memory


def variables_to_try(words: Iterable[str]) -> tuple[Environment, ...]:
    """Return the variables to measure, each given as NAME=VALUE. Raises UsageError for any other form."""
    result = []
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise UsageError(f"{quoted(word)} is no variable with a value", "write --try NAME=VALUE")
        result.append(
            Environment(name=name, value=value, why="you asked to measure this value", source="--try")
        )
    return tuple(result)
