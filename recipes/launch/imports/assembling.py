"""Assembly of a recipe from the settings that the files of a launch state."""

import re
from collections.abc import Collection, Sequence
from typing import get_args

import msgspec

from probes.base.errors import InputError
from probes.base.units import plural
from recipes.job.candidate import Schedule
from recipes.job.training_recipes import RateSchedule
from recipes.job.workload import Optimizer, Precision, TransformerModel, Tuning
from recipes.launch.imports.adopted import IMPORT_OPTIONS, Imported, Missing, Statement
from recipes.launch.imports.chains import program_in
from recipes.launch.imports.collected import AGREES, NOT_UNDERSTOOD, REPLACED, Collected, warnings_of
from recipes.launch.imports.layout_of_launch import (
    Batch,
    Distribution,
    Size,
    Start,
    batch_of,
    checkpointing_of,
    distribution_of,
    hosts_of,
    size_of,
)
from recipes.launch.imports.model_of_launch import FindModel, model_in, models_of_sizes
from recipes.launch.imports.program_arguments import batch_options, filled, overruled, with_placeholders
from recipes.launch.imports.resolving import Settings, Settled
from recipes.launch.imports.site_commands import slots_in
from recipes.launch.imports.spelled_settings import defaults_of, load_spellings
from recipes.launch.recipe import (
    CheckpointSettings,
    Chosen,
    Command,
    Convergence,
    Job,
    Kept,
    ModelShape,
    Parallelism,
    Recipe,
    Resources,
)
from recipes.launch.recipe_file import faults
from recipes.launch.reference_files import model_details, not_in_reference
from recipes.launch.resolve import SHAPE
from recipes.planning.plan import OWN_PROGRAM
from recipes.settings.setting import Optimization

_WHY = {
    "model": "no file names a known model: the recipe needs its sizes",
    "sequence_length": "no file states the tokens of a sequence",
    "nodes": "no file states how many nodes run the job",
    "ranks_per_node": "no file states how many ranks run on a node",
    "strategy": "no file states how the training state is shared",
    "micro_batch": "no file states the micro-batch (sequences per rank and forward pass)",
    "grad_accum": "no file states the accumulation steps or the global batch",
    "learning_rate": "no file states the learning rate",
    "steps": "no file states the optimizer steps",
}
_SIZES = ("nodes", "ranks_per_node", "world_size")
_PLAIN = ("framework", "none")
"""Setting of accelerate's configuration for plain data parallelism, which does not need accelerate."""
_NAMED_BEFORE = re.compile(r"[^A-Za-z0-9._-]+")
_PRECISIONS = get_args(Precision)
_ACCUMULATION = get_args(Optimization.__annotations__["accumulation_dtype"])
_OFFLOADS = (("offload_weights", ("true",)), ("offload", ("states",)))
UNCARRIED = frozenset(
    {
        *("balanced_context", "batch_per_rank", "batch_ramp", "decaying_part", "global_batch_tokens"),
        *("launched_singly", "micro_batch_tokens", "missing_first", "missing_last"),
        *("recompute_method", "recomputed_layers", "sequence_parallel"),
        *(f"{place}_{degree}" for place in ("node", "cross") for degree in ("dp", "fsdp", "tp", "cp", "ep")),
    }
)
"""Settings of programs that no field of a recipe carries.

An option of the program stays among its arguments; a value in a file is kept as not understood.
"""


def imported_from(
    collected: Collected, settled: Settled, files: tuple[str, ...], find_model: FindModel
) -> Imported:
    """Return the launch as settings, kept parts and, if nothing is missing, a recipe.

    Raises InputError if the files describe no possible run.
    """
    settings = Settings(settled)
    absent = collected.absent(files)
    undecided = collected.undecided({each.setting for each in settled.statements})
    if not absent:
        _use_defaults(settings, collected.program, undecided)
    model = model_in(settings, find_model)
    is_kubernetes = any(each.owner == "kubernetes" for each in settled.statements)
    size = size_of(settings, Start(collected.launchers, collected.chain is not None, is_kubernetes))
    # A file that was not given, or DeepSpeed's own configuration, may override the program's defaults.
    is_whole = not absent and "deepspeed" not in collected.launchers
    layers = None if model is None else model.layers
    distribution = distribution_of(settings, size, collected.program if is_whole else "", layers)
    batch = batch_of(settings, distribution.degrees, collected.program)
    options = batch_options(collected.unnamed, batch)
    for statement in options.identified:
        settings.add(statement)
    settings.unread += [
        each for each in settled.statements if each.setting in UNCARRIED and not each.written.startswith("-")
    ]
    command = None if collected.chain is None else program_in(collected.chain)
    values = {
        "model": model,
        "sequence_length": settings.whole("sequence_length"),
        **size._asdict(),
        "strategy": distribution.strategy,
        "micro_batch": batch.micro_batch,
        "grad_accum": batch.grad_accum,
        "steps": _steps(settings, batch),
        "learning_rate": settings.decimal("learning_rate"),
    }
    lacking = {
        name: Missing(setting=name, option=IMPORT_OPTIONS[name], why=_why(name, settings))
        for name, value in values.items()
        if value is None
    }
    missing = tuple((lacking | undecided).values())
    if command is None:
        missing = (
            Missing(setting="command", option="FILE", why="no file starts a training program"),
            *missing,
        )
    draft = _Draft(collected, settings, size, distribution, batch)
    recipe = None
    if command is not None:
        recipe = None if missing or model is None else draft.recipe(command, model)
        command = filled(command if recipe is None else recipe.command, collected.filled)
        recipe = None if recipe is None else msgspec.structs.replace(recipe, command=command)
    kept = (*collected.kept, *draft.leftovers())
    unchanged = (*options.notes, *(() if recipe is None else overruled(recipe.command, settings)))
    unread = {each.setting for each in settings.unread}
    return Imported(
        files=files,
        program=collected.program,
        command=command,
        settings=tuple(each for each in settings.statements if each.setting not in unread),
        environment=tuple(collected.environment),
        assumed=tuple(each for each in settings.assumed if each.setting not in undecided),
        missing=missing,
        kept=kept,
        notes=(*_notes(absent), *unchanged),
        recipe=None
        if recipe is None
        else msgspec.structs.replace(recipe, kept=kept, notes=warnings_of(kept, unchanged)),
    )


_OTHER_NAMES = {
    "warmup_steps": ("warmup_share", "warmup_samples"),
    "final_share": ("final_rate",),
    **dict.fromkeys(("beta1", "beta2"), ("betas",)),
}
"""Settings of programs from which the value of a recipe's field can be computed, by the field."""


def _use_defaults(settings: Settings, program_id: str, undecided: Collection[str]) -> None:
    """Use the defaults of the program for settings that no file states: rigtune's own defaults would be
    wrong.
    """
    for name, value in defaults_of(program_id).items():
        if name not in undecided and not any(map(settings.statement, (name, *_OTHER_NAMES.get(name, ())))):
            because = f"the default of the program ({load_spellings()[program_id].source})"
            settings.use_default(name, value, program_id, because)


def _why(name: str, settings: Settings) -> str:
    """Return why a setting is missing; several models may have the sizes that the files state."""
    fitting = models_of_sizes(settings) if name == "model" else ()
    names = ", ".join(model.id for model in fitting[:_MOST_NAMED])
    return f"several models have the sizes in the files: {names}" if fitting else _WHY[name]


_MOST_NAMED = 4


def _steps(settings: Settings, batch: Batch) -> int | None:
    samples = settings.whole("samples")
    if samples is not None and batch.global_batch and settings.statement("steps") is None:
        return -(-samples // batch.global_batch)
    return settings.whole("steps")


def _notes(absent: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return a note for each file that the launch names and that was not given; an option without a value
    names no file.
    """
    return tuple(
        dict.fromkeys(
            f"{name} is named in {place} and was not given: its settings are unknown"
            for name, place in absent
            if name not in ("true", "")
        )
    )


class _Draft:
    """The parts from which the recipe of an imported launch is built."""

    def __init__(
        self, collected: Collected, settings: Settings, size: Size, distribution: Distribution, batch: Batch
    ) -> None:
        self.collected, self.settings = collected, settings
        self.size, self.distribution, self.batch = size, distribution, batch
        self.job = self._job()
        self.precision = self._precision()
        self.checkpointing = checkpointing_of(settings)
        weights, states = (settings.word(*each) for each in _OFFLOADS)
        self.offload = "weights" if weights else states or "none"
        self.schedule = settings.word("schedule", get_args(Schedule))
        self.convergence = self._convergence()
        self.resources = self._resources()
        every = settings.whole("checkpoint_steps")
        self.checkpoints = None if every is None else CheckpointSettings(every_steps=every)

    def leftovers(self) -> tuple[Kept, ...]:
        """Return the statements that no field of the recipe carries."""
        unread = [
            Kept(file=each.file, line=each.line, text=each.written, why=NOT_UNDERSTOOD)
            for each in self.settings.unread
        ]
        replaced = [
            Kept(
                file=old.file,
                line=old.line,
                text=old.written,
                why=f"{AGREES if old.value == new.value else REPLACED} {new.where}",
            )
            for old, new in self.settings.replaced
        ]
        return (*unread, *replaced)

    def _job(self) -> Job:
        settings, usual = self.settings, Job()
        tuning = settings.word("tuning", get_args(Tuning)) or usual.tuning
        optimizer = settings.word("optimizer", get_args(Optimizer)) or usual.optimizer
        if settings.text("quantised") == "qlora" and tuning != "full":
            tuning = "qlora"
        fine = settings.text("fine_tuning")
        return Job(
            tuning=tuning,  # type: ignore[arg-type]
            fine_tuning=tuning != "full" or fine == "true",
            adapter_rank=settings.whole("adapter_rank") or usual.adapter_rank,
            optimizer=optimizer,  # type: ignore[arg-type]
        )

    def _precision(self) -> str:
        stated = self.settings.word("narrow", _PRECISIONS) or self.settings.word("precision", _PRECISIONS)
        if stated is None:
            self.settings.assume("precision", "bf16", "no file states the number format")
        return stated or "bf16"

    def _convergence(self) -> dict[str, object]:
        """Return the fields of `Convergence` that the files state, and no warm-up if they state none.

        The defaults that apply to other fields are noted as assumptions.
        """
        settings = self.settings
        rate, steps = settings.decimal("learning_rate"), _steps(settings, self.batch)
        warmup, share = settings.count("warmup_steps"), settings.decimal("warmup_share")
        samples, batch = settings.count("warmup_samples"), self.batch.global_batch
        if warmup is None and samples is not None and batch:
            warmup = -(-samples // batch)
        if warmup is None and share is not None and steps is not None:
            warmup = round(share * steps)
        if warmup is None and share is None and samples is None:
            warmup = 0
            settings.assume("warmup_steps", 0, "no file states a warm-up")
        final_rate, decay_steps = settings.decimal("final_rate"), settings.whole("decay_steps")
        decay_share = settings.decimal("decay_share")
        if decay_steps is not None and steps:
            decay_share = min(1.0, decay_steps / steps)
        schedule = settings.word("lr_schedule", get_args(RateSchedule))
        betas = re.findall(r"[\d.]+", settings.text("betas") or "")
        fields: dict[str, object | None] = {
            "learning_rate": rate,
            "steps": steps,
            "warmup_steps": warmup,
            "schedule": "wsd" if schedule == "cosine" and decay_share else schedule,
            "final_share": settings.decimal("final_share")
            if final_rate is None or not rate
            else min(1.0, final_rate / rate),
            "decay_share": decay_share,
            "beta1": settings.decimal("beta1") if len(betas) != 2 else float(betas[0]),
            "beta2": settings.decimal("beta2") if len(betas) != 2 else float(betas[1]),
            "weight_decay": settings.decimal("weight_decay"),
            "gradient_clipping": settings.decimal("gradient_clipping"),
            "accumulation_dtype": settings.word("accumulation_dtype", _ACCUMULATION),
        }
        stated = {name: value for name, value in fields.items() if value is not None}
        for name in ("schedule", "weight_decay", "beta1", "beta2"):
            if name not in stated:
                usual = getattr(Optimization(), name)
                settings.assume(name, usual, "no file states it; the program's own default may differ")
        return stated

    def _resources(self) -> Resources:
        settings = self.settings
        hosts = hosts_of(settings).names
        cores, tasks = settings.whole("cpus_per_task"), settings.whole("tasks_per_node")
        if tasks is None:  # Slurm starts a task per node unless the job asks for more
            tasks = max(1, (settings.whole("tasks") or 1) // (self.size.nodes or 1))
        return Resources(
            device="cuda",
            backend="nccl",
            python=settings.text("python") or "",
            cpus_per_node=cores * tasks if cores is not None else None,
            time_limit=settings.text("time_limit") or "",
            partition=settings.text("partition") or "",
            account=settings.text("account") or "",
            hosts=hosts if len(hosts) == self.size.nodes else (),
        )

    def _program(self) -> str:
        """Return the program whose files an export writes.

        The user's own command with its own arguments is enough, unless accelerate's configuration states more
        than sizes and plain data parallelism, tp, pp, cp or ep is above 1, the strategy is ZeRO-1 or ZeRO-2,
        or torchtune starts its own recipes.
        """
        degrees = self.distribution.degrees
        of_accelerate = [
            each.setting
            for each in self.settings.statements
            if each.owner == "accelerate"
            and each.setting not in _SIZES
            and (each.setting, each.value) != _PLAIN
        ]
        if of_accelerate:
            return "accelerate"
        divides = degrees.tp * degrees.pp * degrees.cp * degrees.ep > 1
        is_plain = not divides and self.distribution.strategy not in ("zero1", "zero2")
        # torchtune's own launcher starts the ranks, so only the files of torchtune can start its recipes
        starts_itself = self.collected.program == "torchtune"
        return OWN_PROGRAM if is_plain and not starts_itself else self.collected.program

    def recipe(self, command: Command, model: TransformerModel) -> Recipe:
        """Return the recipe. Raises InputError if its settings describe no possible run."""
        settings, size, degrees = self.settings, self.size, self.distribution.degrees
        length = settings.whole("sequence_length")
        chain = self.collected.chain
        given = settings.text("name") or (chain.leaf.program if chain is not None else model.id)
        name = _NAMED_BEFORE.sub("-", given.removesuffix(".py")).strip("-._")[:100] or "imported"
        folder = settings.text("working_directory") or ""
        recipe = Recipe(
            name=name,
            title=f"{model.title} on {size.nodes} x {plural(size.ranks_per_node or 0, 'rank')}, imported",
            program=self._program(),
            job=self.job,
            model=ModelShape(
                sequence_length=length or model.sequence_length,
                **{field: getattr(model, field) for field in SHAPE},
            ),
            parallelism=Parallelism(
                strategy=self.distribution.strategy or "ddp",
                nodes=size.nodes or 1,
                ranks_per_node=size.ranks_per_node or 1,
                **msgspec.structs.asdict(degrees),
                pipeline_schedule=self.schedule or "1f1b",  # type: ignore[arg-type]
                micro_batch=self.batch.micro_batch or 1,
                grad_accum=self.batch.grad_accum or 1,
                global_batch=self.batch.global_batch or 1,
                activation_checkpointing=self.checkpointing or "none",  # type: ignore[arg-type]
                precision=self.precision,  # type: ignore[arg-type]
                offload=self.offload,  # type: ignore[arg-type]
            ),
            convergence=Convergence(**self.convergence),  # type: ignore[arg-type]
            checkpoints=self.checkpoints,
            resources=self.resources,
            command=msgspec.structs.replace(command, working_directory=folder),
            slots=slots_in((each.setting, each.value) for each in settings.statements),
            environment=tuple(self.collected.environment),
            not_in_reference=not_in_reference(model) or None,
            decisions=tuple(
                dict.fromkeys(
                    _chosen(each, self.distribution.strategy or "ddp")
                    for each in settings.statements
                    if each not in settings.unread
                )
            ),
            model_details=model_details(model),
        )
        command = with_placeholders(recipe, settings)
        recipe = msgspec.structs.replace(recipe, command=command)
        for fault in faults(recipe):
            raise InputError(
                f"the files describe no possible run: {fault.place} {fault.problem}", fault.remedy
            )
        return recipe


def _chosen(statement: Statement, strategy: str) -> Chosen:
    """Return a statement as a decision of the user, with the name and the value that a plan would give it."""
    is_strategy = statement.setting in ("sharding", "framework")
    try:
        value = f"{float(statement.value):g}" if "e" in statement.value.lower() else statement.value
    except ValueError:
        value = statement.value
    return Chosen(
        name="strategy" if is_strategy else statement.setting,
        value=strategy if is_strategy else value,
        basis="user",
        because=f"{statement.written} in {statement.where}",
    )
