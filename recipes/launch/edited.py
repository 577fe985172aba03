"""A recipe that a person has edited: its prediction is made again, and changed decisions are marked."""

import math
from collections.abc import Iterator

import msgspec

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.job.workload import AnyWorkload, VisionWorkload, Workload, stored_bits
from recipes.launch.recipe import Chosen, Environment, Prediction, Recipe
from recipes.launch.reference_files import model_of
from recipes.launch.resolve import prediction_of
from recipes.machine.cluster_records import Cluster
from recipes.planning.program_jobs import program_job, with_all_logits
from recipes.planning.programs import program_named
from recipes.planning.reasons import MEMORY_WARNING, margin_decision, memory_warning
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.job_prediction import memory_for, predicted_for
from recipes.predict.stacks import load_stacks
from recipes.settings.convergence import value_texts

_BEFORE = (
    "Decisions that are not marked as yours have the reasons of the first plan; the prediction is that of "
    "the present settings."
)
_SIZES = ("nodes", "ranks_per_node")
_UNCHECKED = "Warning: the recipe describes no machine, so its prediction could not be made again."


def refreshed(recipe: Recipe) -> Recipe:
    """Return the recipe with the prediction of its present settings; an unchanged recipe is returned as it
    is.

    The basis of a decision that a person changed becomes `user`. A recipe without a machine cannot be
    predicted again; if it has a prediction, it gets a note that says so. Raises UsageError for a recipe whose
    parts contradict each other.
    """
    if recipe.machine is None:
        is_stated = recipe.predicted != Prediction() and _UNCHECKED not in recipe.notes
        return msgspec.structs.replace(recipe, notes=(*recipe.notes, _UNCHECKED)) if is_stated else recipe
    try:
        predicted, memory = _predicted_again(recipe, recipe.machine)
    except (ArithmeticError, ValueError, LookupError) as error:
        raise UsageError(
            f"recipe {quoted(recipe.name)} cannot be predicted: its model, machine and settings disagree",
            "correct what you edited, or plan again with `rigtune plan`",
        ) from error
    changes = {each.name: each for each in _changes(recipe, recipe.machine)}
    if not changes and predicted == recipe.predicted:
        return recipe
    return msgspec.structs.replace(
        recipe,
        predicted=predicted,
        decisions=_decisions(recipe, changes, memory),
        environment=tuple(_variable(variable, changes) for variable in recipe.environment),
        notes=_notes(recipe, recipe.machine, memory),
    )


def _predicted_again(recipe: Recipe, machine: Cluster) -> tuple[Prediction, MemoryBreakdown]:
    """Return the predicted figures for the recipe's settings, and the memory by term.

    The machine's rates are valid only for its number of nodes and ranks, so no time is predicted for other
    numbers.
    """
    parallelism, workload = recipe.parallelism, workload_of(recipe)
    cluster = msgspec.structs.replace(
        machine, nodes=parallelism.nodes, ranks_per_node=parallelism.ranks_per_node
    )
    stack = load_stacks()[program_named(recipe.program).stack_for(recipe.job.tuning)]
    job = program_job(with_all_logits(workload, stack), parallelism.candidate, cluster, stack)
    predicted = predicted_for(job, memory_for(job))
    figures = prediction_of(predicted, makes_data=recipe.command.kind == "reference")
    known = [figure for figure in msgspec.structs.astuple(figures) if figure is not None]
    if not all(map(math.isfinite, known)):
        raise ArithmeticError
    if (machine.nodes, machine.ranks_per_node) != (parallelism.nodes, parallelism.ranks_per_node):
        figures = Prediction(
            peak_memory_bytes=figures.peak_memory_bytes,
            reserved_memory_bytes=figures.reserved_memory_bytes,
            worst_memory_bytes=figures.worst_memory_bytes,
        )
    return figures, predicted.memory_bytes_per_gpu


def workload_of(recipe: Recipe) -> AnyWorkload:
    """Return the job that the recipe describes. Raises UsageError if no model can have the details that the
    recipe states.
    """
    parallelism = recipe.parallelism
    if recipe.images is not None:
        return VisionWorkload(
            model=recipe.images.model,
            image_size=recipe.images.image_size,
            global_batch=parallelism.global_batch,
            precision=parallelism.precision,
            optimizer=recipe.job.optimizer,
            steps=recipe.convergence.steps,
        )
    return text_workload_of(recipe)


def text_workload_of(recipe: Recipe) -> Workload:
    """Return the job of a transformer that the recipe describes. Raises UsageError for an image model."""
    parallelism, tuning = recipe.parallelism, recipe.job.tuning
    return Workload(
        model=model_of(recipe),
        sequence_length=recipe.text_model.sequence_length,
        global_batch=parallelism.global_batch,
        precision=parallelism.precision,
        steps=recipe.convergence.steps,
        tuning=tuning,
        base_bits=stored_bits(tuning),
        fine_tuning=recipe.job.continues,
        adapter_rank=recipe.job.adapter_rank,
        optimizer=recipe.job.optimizer,
    )


def _settings(recipe: Recipe) -> dict[str, str]:
    """Return the present value of every decision for which a recipe has a field, spelled as in a plan."""
    parallelism, convergence = recipe.parallelism, recipe.convergence
    return {
        **{name: str(size) for name, size in msgspec.structs.asdict(parallelism.degrees).items()},
        "strategy": parallelism.strategy,
        "schedule": parallelism.pipeline_schedule,
        "recomputed_share": f"{parallelism.recomputed_share:g}",
        "activation_checkpointing": parallelism.activation_checkpointing,
        "micro_batch": str(parallelism.micro_batch),
        "global_batch": str(parallelism.global_batch),
        "precision": parallelism.precision,
        "learning_rate": f"{convergence.learning_rate:g}",
        "warmup_steps": str(convergence.warmup_steps),
        **value_texts(convergence),
        "bucket_mb": str(parallelism.bucket_mb),
        "prefetch": str(parallelism.prefetch),
        **{variable.name: variable.value for variable in recipe.environment},
    }


def _changes(recipe: Recipe, machine: Cluster) -> Iterator[Chosen]:
    """Yield the decisions that a person changed, with their present value."""
    present = _settings(recipe)
    for chosen in recipe.decisions:
        value = present.get(chosen.name)
        if value is None or value == chosen.value:
            continue
        before = f"rigtune had chosen {chosen.value} ({chosen.basis})"
        because = chosen.because if chosen.basis == "user" else f"{before}: {chosen.because}".rstrip(": ")
        yield Chosen(name=chosen.name, value=value, basis="user", because=because)
    for name in _SIZES:
        value, planned = getattr(recipe.parallelism, name), getattr(machine, name)
        if value != planned:
            because = f"the plan had {planned}; links and rates may differ, so plan again for a step time"
            yield Chosen(name=name, value=str(value), basis="user", because=because)


def _decisions(recipe: Recipe, changes: dict[str, Chosen], memory: MemoryBreakdown) -> tuple[Chosen, ...]:
    """Return the decisions, those of a person first, with the memory margin of the new prediction."""
    machine = recipe.machine
    margins = () if machine is None else margin_decision(memory, machine)
    margin = {
        each.name: Chosen(name=each.name, value=each.value, basis=each.basis, because=each.because)
        for each in margins
    }
    kept = [margin.get(each.name, each) for each in recipe.decisions if each.name not in (*changes, *_SIZES)]
    theirs = [*changes.values(), *(each for each in kept if each.basis == "user")]
    return (*sorted(theirs, key=lambda each: each.name), *(each for each in kept if each.basis != "user"))


def _variable(variable: Environment, changes: dict[str, Chosen]) -> Environment:
    changed = changes.get(variable.name)
    if changed is None or variable.why.startswith("Yours"):
        return variable
    return msgspec.structs.replace(variable, why=f"Yours; {changed.because}. Its reason was: {variable.why}")


def _notes(recipe: Recipe, machine: Cluster, memory: MemoryBreakdown) -> tuple[str, ...]:
    """Return the notes, with the memory warning for the present settings and a remark about the reasons."""
    kept = [note for note in recipe.notes if note != _BEFORE and MEMORY_WARNING not in note]
    warning = memory_warning(memory, machine)
    return (_BEFORE, *kept, *([f"Warning: {warning}"] if warning else []))
