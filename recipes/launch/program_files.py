"""Whether rigtune can write launch files for a recipe, and the recipe's settings for other programs."""

from probes.base.errors import UsageError
from recipes.launch.recipe import Command, Recipe
from recipes.planning.program_settings import Layout, program_settings
from recipes.planning.programs import OWN, REFERENCE_PROGRAM, load_programs, program_named
from recipes.planning.space import SHARDING_OF

WRITTEN = (OWN, REFERENCE_PROGRAM)
"""Programs for which rigtune writes launch files."""


def command_without_script(program_id: str) -> Command:
    """Return the command of a plan without a user's script: the reference workload, or the named program."""
    return Command(kind="reference" if program_id in WRITTEN else "program")


def require_files(program_id: str) -> None:
    """Raise UsageError if rigtune writes no launch files for this program."""
    if program_id not in WRITTEN:
        title = program_named(program_id).title
        raise UsageError(
            f"launch files for {title} are not written yet",
            f"`rigtune plan MODEL --program {program_id} -o recipe.toml` lists the settings; "
            f"--program {OWN} plans for a torch program that rigtune can start",
        )


def require_runnable(recipe: Recipe) -> None:
    """Raise UsageError if rigtune cannot write launch files for the recipe.

    For a program without launch files, the message states the settings in that program's own words.
    """
    if recipe.program not in WRITTEN:
        program = program_named(recipe.program)
        words = " ".join(" ".join(filter(None, row)) for row in recipe_settings(recipe))
        raise UsageError(
            f"launch files for {program.title} are not written yet; its settings for this recipe: {words}",
            f"start {program.title} yourself with these settings, or plan for a torch program of your own "
            f"with --program {OWN}",
        )
    program = load_programs()[REFERENCE_PROGRAM if recipe.command.kind == "reference" else OWN]
    for problem, hint in _beyond(recipe, program.id):
        raise UsageError(f"{program.title} cannot run this recipe: {problem}", hint)


def _beyond(recipe: Recipe, program_id: str) -> list[tuple[str, str]]:
    """Return what the recipe wants and the program cannot do, each with a remedy."""
    program, parallelism = load_programs()[program_id], recipe.parallelism
    degrees = parallelism.degrees
    divided = [name for name in ("tp", "pp", "cp", "ep") if getattr(degrees, name) > 1]
    strategies = [
        name
        for name, sharding in SHARDING_OF.items()
        if sharding in program.shardings and (name != "hsdp" or program.hybrid)
    ]
    faults = (
        (
            divided,
            f"it has {', '.join(f'{name} {getattr(degrees, name)}' for name in divided)}",
            "set these degrees to 1 and raise dp or fsdp, or plan again with --program for software that "
            "divides layers",
        ),
        (
            parallelism.strategy not in strategies,
            f"it has no strategy {parallelism.strategy}",
            f"strategies: {', '.join(strategies)}",
        ),
        (
            parallelism.activation_checkpointing not in program.checkpointing,
            f"it has no {parallelism.activation_checkpointing} checkpointing",
            f"activation_checkpointing: {', '.join(program.checkpointing)}",
        ),
        (
            parallelism.recomputed_share < 1 and parallelism.activation_checkpointing == "full",
            f"it recomputes every layer or none, not {parallelism.recomputed_share:g} of them",
            "set recomputed_share = 1.0",
        ),
        (
            parallelism.precision not in program.precisions,
            f"it does not train in {parallelism.precision}",
            f"precisions: {', '.join(program.precisions)}",
        ),
        (
            program_id == REFERENCE_PROGRAM and recipe.job.optimizer != "adamw",
            f"it has no optimizer {recipe.job.optimizer}",
            "give your own training program after `--` of `rigtune plan`",
        ),
        (
            recipe.job.tuning not in program.tunings,
            f"it has no {recipe.job.tuning} training",
            "give your own training program after `--` of `rigtune plan`",
        ),
    )
    return [(problem, hint) for is_beyond, problem, hint in faults if is_beyond]


def recipe_settings(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the recipe's settings in the words of its program."""
    parallelism, convergence = recipe.parallelism, recipe.convergence
    layout = Layout(
        degrees=parallelism.degrees,
        sharding=SHARDING_OF[parallelism.strategy],
        schedule=parallelism.pipeline_schedule,
        micro_batch=parallelism.micro_batch,
        grad_accum=parallelism.grad_accum,
        global_batch=parallelism.global_batch,
        sequence_length=recipe.model.sequence_length,
        activation_checkpointing=parallelism.activation_checkpointing,
        recomputed_share=parallelism.recomputed_share,
        precision=parallelism.precision,
        learning_rate=convergence.learning_rate,
        warmup_steps=convergence.warmup_steps,
        steps=convergence.steps,
        optimization=convergence,
        tuning=recipe.job.tuning,
        adapter_rank=recipe.job.adapter_rank,
        layers=recipe.model.layers + int(recipe.model_details.get("encoder_layers", 0)),
    )
    return program_settings(program_named(recipe.program), layout)
