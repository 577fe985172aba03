"""Remarks on decisions that programs cannot take from a file, and the refusal of a silent fallback to DDP."""

from collections.abc import Mapping

from probes.base.errors import UsageError
from probes.base.units import plural
from recipes.launch.placeholders import has_placeholder
from recipes.launch.recipe import Recipe, settings
from recipes.launch.slots import slot_value
from recipes.planning.programs import program_named

LEARNING_RATE = "peak of the learning rate"


def beyond_files(recipe: Recipe) -> tuple[str, ...]:
    """Return remarks on a growing batch and on further learning rates, which no file of a program states."""
    convergence, largest, remarks = recipe.convergence, recipe.parallelism.global_batch, []
    if convergence.ramp_from:
        remarks.append(
            f"Warning: the plan's batch grows from {convergence.ramp_from} to {largest} samples over "
            f"{convergence.ramp_samples} samples; here it is constant"
        )
    return (*remarks, *embedding_remarks(recipe))


def embedding_remarks(recipe: Recipe) -> tuple[str, ...]:
    """Return a remark if embeddings and norms need a learning rate of their own."""
    rate = recipe.convergence.embedding_learning_rate
    if not rate:
        return ()
    needed = f"Warning: embeddings and norms need a learning rate of {rate:g} (muP)"
    if program_named(recipe.program).needs_script:
        return (f"{needed}: make parameter groups in your script",)
    return (f"{needed}, which rigtune cannot state here; all weights get the same rate",)


def require_gpus_for_shards(recipe: Recipe) -> None:
    """Raise UsageError for sharded parameters on a CPU: accelerate would silently run plain DDP."""
    if recipe.resources.device == "cpu" and recipe.parallelism.candidate.sharding == "zero3":
        raise UsageError(
            f"{program_named(recipe.program).title} shards only on GPUs; on a CPU it silently runs DDP",
            'set parallelism.strategy = "ddp", or plan with --program deepspeed or own',
        )


def reduction_remarks(recipe: Recipe) -> tuple[str, ...]:
    """Return a remark if accelerate sums gradients in another format than the plan wants."""
    precision, wanted = recipe.parallelism.precision, recipe.convergence.accumulation_dtype
    sharding = recipe.parallelism.candidate.sharding
    summed = "bf16" if precision == "fp8" else precision
    if summed == wanted:
        return ()
    if sharding == "zero3":
        return (
            f"Warning: accelerate's FSDP2 sums gradients over the ranks in {summed}, not in {wanted}; a file "
            "cannot change that (MixedPrecisionPolicy(reduce_dtype=) in your script can)",
        )
    if sharding != "none" and recipe.program == "accelerate":
        return (
            f"Warning: DeepSpeed inside accelerate sums gradients in {summed}, not in {wanted}; plan with "
            "--program deepspeed for the plan's format",
        )
    return ()


def unstated(recipe: Recipe, decisions: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning for each decision that no argument of the user's script states.

    `decisions` are placeholders, each with the place of its value in such a script.
    """
    values = settings(recipe)
    return tuple(
        f"Warning: no argument of your script has {{{name}}}: it must use {values[name]} itself ({place})"
        for name, place in decisions.items()
        if not has_placeholder(recipe.command.arguments, name)
    )


def placeholder_remarks(recipe: Recipe) -> tuple[str, ...]:
    """Return a warning for each decision that no file states and that no argument of the script states."""
    places = {"micro_batch": "batch size of the DataLoader", "learning_rate": LEARNING_RATE}
    remarks = [*unstated(recipe, places)]
    if recipe.job.tuning != "full":
        remarks.append(f"Warning: your script must add the adapters of rank {recipe.job.adapter_rank}")
    return tuple(remarks)


def tokenizer_remarks(recipe: Recipe) -> tuple[str, ...]:
    """Return a remark for a program without a setting for the tokenizer if the recipe names one."""
    if not slot_value(recipe, "tokenizer"):
        return ()
    title = program_named(recipe.program).title
    return (f"Warning: {title} takes the tokenizer from the model, not from the slot tokenizer",)


def batch_words(recipe: Recipe) -> str:
    """Return words that state how the global batch follows from the other sizes."""
    parallelism = recipe.parallelism
    return (
        f"global batch {parallelism.global_batch} = micro-batch {parallelism.micro_batch} x "
        f"{plural(parallelism.grad_accum, 'accumulation step')} x "
        f"{plural(parallelism.replicas, 'data-parallel rank')}"
    )
