"""Checks whether a program can run a recipe, and the recipe's settings in the program's own names."""

from collections.abc import Iterable

from probes.base.errors import UsageError
from recipes.launch.program_table import WRITTEN
from recipes.launch.recipe import Command, Recipe
from recipes.planning.program_settings import Layout, program_settings, setting_options
from recipes.planning.programs import OWN, REFERENCE_PROGRAM, Program, load_programs, program_named
from recipes.planning.space import SHARDING_OF


def command_without_script(program_id: str) -> Command:
    """Return the command of a plan without a user's script: the reference workload's, or the program's."""
    return Command(kind="reference" if program_id in (OWN, REFERENCE_PROGRAM) else "program")


def require_script(program_id: str, command: Command) -> None:
    """Raise UsageError if the program needs a script of the user's and the command has none."""
    program, option = program_named(program_id), f"--program {program_id}"
    if program.needs_script and command.kind not in ("script", "module"):
        raise UsageError(
            f"{program.title} starts your training script, and there is none",
            f"give the script after `--`: rigtune plan MODEL {option} -o recipe.toml -- train.py",
        )


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

    For a program without launch files, the message states the settings as that program writes them.
    """
    if recipe.program not in WRITTEN:
        program = program_named(recipe.program)
        words = " ".join(" ".join(filter(None, row)) for row in recipe_settings(recipe))
        raise UsageError(
            f"launch files for {program.title} are not written yet; its settings for this recipe: {words}",
            f"start {program.title} yourself with these settings, or plan for a torch program of your own "
            f"with --program {OWN}",
        )
    if recipe.command.kind == "nccl-tests":
        return
    program = load_programs()[REFERENCE_PROGRAM if recipe.command.kind == "reference" else recipe.program]
    refuse(program.title, _limits(recipe, program.id))


def refuse(title: str, faults: Iterable[tuple[object, str, str]]) -> None:
    """Raise UsageError for the first fault that applies; a fault is a condition, a problem and a remedy."""
    for applies, problem, remedy in faults:
        if applies:
            raise UsageError(f"{title} cannot run this recipe: {problem}", remedy)


def _limits(recipe: Recipe, program_id: str) -> tuple[tuple[object, str, str], ...]:
    """Return faults as conditions, problems and remedies: what a recipe may need and the program may lack."""
    program, parallelism = load_programs()[program_id], recipe.parallelism
    degrees = parallelism.degrees
    divides = recipe.job.tuning in program.divides
    abilities = {
        "tp": program.tensor and divides,
        "pp": bool(program.schedules) and divides,
        "cp": bool(program.context),
        "ep": program.experts,
    }
    divided = [name for name, is_able in abilities.items() if getattr(degrees, name) > 1 and not is_able]
    has_pipeline = degrees.pp > 1 and abilities["pp"]
    shardings = program.pipeline_shardings if has_pipeline else program.shardings
    counts_layers = bool({"recomputed_layers", "recomputed_share"} & program.settings.keys())
    strategies = [
        name
        for name, sharding in SHARDING_OF.items()
        if sharding in shardings and (name != "hsdp" or program.hybrid)
    ]
    return (
        (
            divided,
            f"it has {', '.join(f'{name} {getattr(degrees, name)}' for name in divided)}",
            "set these degrees to 1 and raise dp or fsdp, or plan again with --program for software that "
            "divides layers",
        ),
        (
            parallelism.strategy not in strategies,
            f"it has no strategy {parallelism.strategy}{' with a pipeline' if has_pipeline else ''}",
            f"strategies: {', '.join(strategies)}",
        ),
        (
            has_pipeline and parallelism.pipeline_schedule not in program.schedules,
            f"it has no pipeline schedule {parallelism.pipeline_schedule}",
            f"schedules: {', '.join(program.schedules)}",
        ),
        (
            has_pipeline and (degrees.vp > 1) != (parallelism.pipeline_schedule == "interleaved"),
            f"{parallelism.pipeline_schedule} is not a schedule with vp {degrees.vp}",
            "set pipeline_schedule = 'interleaved' with vp of at least 2, or vp = 1 with another schedule",
        ),
        (
            parallelism.activation_checkpointing not in program.checkpointing,
            f"it has no {parallelism.activation_checkpointing} checkpointing",
            f"activation_checkpointing: {', '.join(program.checkpointing)}",
        ),
        (
            parallelism.recomputed_share < 1
            and parallelism.activation_checkpointing == "full"
            and not counts_layers,
            f"it recomputes every layer or none, not {parallelism.recomputed_share:g} of them",
            "set recomputed_share = 1.0",
        ),
        (
            parallelism.offload not in ("none", *program.offloads),
            f"it keeps no {parallelism.offload} in the host's memory",
            "set offload = 'none' on GPUs with more memory, or plan with --program own or deepspeed",
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


def program_row(recipe: Recipe) -> Program:
    """Return the row of the recipe's program."""
    return program_named(recipe.program)


def recipe_settings(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the recipe's settings with the names and values of its program."""
    return program_settings(program_named(recipe.program), _layout(recipe))


def recipe_options(recipe: Recipe) -> tuple[tuple[str, ...], ...]:
    """Return the settings that are options of the program's command line, each as its name and values."""
    return setting_options(program_named(recipe.program), _layout(recipe))


def _layout(recipe: Recipe) -> Layout:
    parallelism, convergence = recipe.parallelism, recipe.convergence
    return Layout(
        degrees=parallelism.degrees,
        sharding=SHARDING_OF[parallelism.strategy],
        schedule=parallelism.pipeline_schedule,
        micro_batch=parallelism.micro_batch,
        grad_accum=parallelism.grad_accum,
        global_batch=parallelism.global_batch,
        sequence_length=recipe.model.sequence_length if recipe.model is not None else None,
        activation_checkpointing=parallelism.activation_checkpointing,
        recomputed_share=parallelism.recomputed_share,
        precision=parallelism.precision,
        learning_rate=convergence.learning_rate,
        warmup_steps=convergence.warmup_steps,
        steps=convergence.steps,
        optimization=convergence,
        tuning=recipe.job.tuning,
        adapter_rank=recipe.job.adapter_rank,
        layers=_layers(recipe),
        ranks_per_node=parallelism.ranks_per_node,
    )


def _layers(recipe: Recipe) -> int:
    """Return the number of all layers, also of an encoder; 1 for an image model, which no program divides."""
    encoder = int(recipe.model_details.get("encoder_layers", 0))
    return recipe.model.layers + encoder if recipe.model is not None else 1
