"""A recipe (a fully resolved plan that is independent of the launcher), and placeholders in its arguments.

People read and edit a recipe as a TOML file.
"""

import re
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec

from probes.base.errors import UsageError
from probes.base.record import StrictRecord, quoted
from probes.parsers.tools.nccl_tests import TEST as NCCL_TEST
from recipes.job.candidate import ActivationCheckpointing, Candidate, Degrees, Schedule
from recipes.job.workload import DEFAULT_ADAPTER_RANK, Optimizer, Precision, Tuning, VisionModel
from recipes.launch.placeholders import PLACEHOLDERS, PlanDegrees, ResolvedPlan, expand
from recipes.machine.cluster_records import Basis, Cluster
from recipes.planning.plan import OWN_PROGRAM
from recipes.planning.space import SHARDING_OF
from recipes.settings.setting import Optimization

SCHEMA_VERSION = 1


class Parallelism(StrictRecord, kw_only=True):
    """Distribution of the work over the ranks.

    The product of dp, fsdp, tp, pp and cp is the number of ranks.
    """

    strategy: str
    """Data-parallel strategy. `ddp`: every rank has the whole training state. `zero1`: optimizer states are
    sharded over the ranks. `zero2`: gradients too. `fsdp`: parameters too. `hsdp`: as `fsdp`, but within
    groups of ranks.
    """
    nodes: int
    ranks_per_node: int
    dp: int | None = None
    """Copies of the parameters; None if the number follows from the strategy, as in older recipes."""
    fsdp: int | None = None
    """Ranks that share one copy of the parameters; None if the number follows from the strategy."""
    tp: int = 1
    pp: int = 1
    vp: int = 1
    """Parts of the layers on each pipeline stage."""
    cp: int = 1
    ep: int = 1
    pipeline_schedule: Schedule = "1f1b"
    micro_batch: int
    grad_accum: int
    global_batch: int
    activation_checkpointing: ActivationCheckpointing = "none"
    recomputed_share: float = 1.0
    """Part of the layers that full checkpointing recomputes."""
    precision: Precision = "bf16"
    offload: Literal["none", "states", "weights"] = "none"
    """Training state in the host's memory: optimizer states, or optimizer states and weights."""
    bucket_mb: int | None = None
    """MiB of gradients that the reference workload's DDP sends together; None for torch's default."""
    prefetch: int | None = None
    """Layers whose parameters the reference workload's FSDP gathers in advance; None for torch's default."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def degrees(self) -> Degrees:
        """All degrees; `dp` and `fsdp` follow from the strategy if they are None."""
        replicas = max(1, self.world_size // max(1, self.tp * self.pp * self.cp))
        shards = self.fsdp or (replicas // (self.dp or 1) if self.strategy in ("fsdp", "hsdp") else 1)
        return Degrees(
            dp=self.dp or max(1, replicas // shards),
            fsdp=shards,
            tp=self.tp,
            pp=self.pp,
            cp=self.cp,
            ep=self.ep,
            vp=self.vp,
        )

    @property
    def replicas(self) -> int:
        """Number of groups of ranks that train different sequences."""
        return self.degrees.dp * self.degrees.fsdp

    @property
    def candidate(self) -> Candidate:
        """The layout as the models of memory and time need it."""
        sharding = SHARDING_OF[self.strategy]
        return Candidate(
            strategy="fsdp" if sharding == "zero3" else "ddp",
            degrees=self.degrees,
            sharding=sharding,
            schedule=self.pipeline_schedule,
            micro_batch=self.micro_batch,
            grad_accum=self.grad_accum,
            global_batch=self.global_batch,
            activation_checkpointing=self.activation_checkpointing,
            recomputed_share=self.recomputed_share,
            precision=self.precision,
            offload=self.offload != "none",
            offload_weights=self.offload == "weights",
        )


class Job(StrictRecord, kw_only=True):
    """Kind of training, in addition to the model, the batch and the convergence settings."""

    tuning: Tuning = "full"
    """Training of all weights, or of adapters over frozen ones."""
    fine_tuning: bool = False
    """True if a trained model is trained further on instructions or questions. Training of adapters always
    does this, whatever the value.
    """
    adapter_rank: int = DEFAULT_ADAPTER_RANK
    optimizer: Optimizer = "adamw"

    @property
    def continues(self) -> bool:
        """Return whether the training starts from a trained model, as adapters always do."""
        return self.fine_tuning or self.tuning != "full"


class Fingerprint(StrictRecord, kw_only=True):
    """The machine for which the recipe was made."""

    machine: str
    """Description of the machine: its name and devices."""
    driver: str = ""
    torch: str = ""
    facts_sha256: str
    """Digest of the GPUs, CPU, network ports and software of the machine, and of the rates used."""


class Convergence(Optimization, kw_only=True):
    """Settings that affect the trained model, not the speed."""

    learning_rate: float
    warmup_steps: int
    steps: int


class CheckpointSettings(StrictRecord, kw_only=True):
    """Checkpoints of the run; unknown figures are None."""

    every_steps: int | None = None
    """Steps between two checkpoints."""
    interval_s: float | None = None
    bytes: float | None = None
    """Size of a checkpoint with optimizer states."""
    write_s: float | None = None
    """Time for which training stops to write a checkpoint."""


class Environment(StrictRecord, kw_only=True, omit_defaults=True):
    """One environment variable and its reason."""

    name: str
    value: str
    why: str
    source: str
    launchers: tuple[str, ...] = ()
    """Launchers whose scripts export the variable; empty for all."""


CommandKind = Literal["reference", "script", "module", "program", "nccl-tests"]


class Command(StrictRecord, kw_only=True):
    """The program that every rank runs."""

    kind: CommandKind
    """`reference` is rigtune's reference workload, `script` a Python file, `module` a Python module,
    `program` the command that belongs to the software `Recipe.program`, `nccl-tests` a test of NVIDIA's
    nccl-tests.
    """
    target: str = ""
    """Path of the script, dotted name of the module, or name or path of the test, such as `all_reduce_perf`;
    empty for the other kinds.
    """
    arguments: tuple[str, ...] = ()
    """Arguments of the program.

    They may contain the placeholders of `rigtune list placeholders`, such as {micro_batch}.
    """
    working_directory: str = ""
    """Folder in which the program runs; empty for the folder in which the job is started."""


class Resources(StrictRecord, kw_only=True):
    """Resources of the job and of each of its nodes."""

    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    device_name: str = ""
    python: str = ""
    """Path of the training interpreter, the same on every node; empty for `python3` on the PATH."""
    cpus_per_node: int | None = None
    time_limit: str = ""
    """Time limit of the job in a form of `sbatch --time`, such as `24:00:00`; empty if none is stated."""
    partition: str = ""
    account: str = ""
    hosts: tuple[str, ...] = ()
    """Host names or addresses in order, the master first; empty if the scheduler chooses them."""


class Prediction(StrictRecord, kw_only=True):
    """Figures that the plan expects, for `rigtune verify`; a figure that could not be predicted is None."""

    step_time_s: float | None = None
    step_time_low_s: float | None = None
    step_time_high_s: float | None = None
    peak_memory_bytes: float | None = None
    """Allocated memory: the peak that the framework's allocator (or, on a CPU, the process) reports."""
    reserved_memory_bytes: float | None = None
    """Reserved memory: the memory that the allocator takes from the device, including cached free blocks."""
    worst_memory_bytes: float | None = None
    """Worst case: all memory that is used on the device, with a margin for the error of the memory model."""
    tokens_per_s_per_rank: float | None = None
    mfu: float | None = None


class ModelShape(StrictRecord, kw_only=True):
    """Sizes of the model, as the reference workload builds it."""

    id: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    vocab: int
    gated_mlp: bool
    tied_embeddings: bool
    learned_positions: int
    norm: Literal["rmsnorm", "layernorm"]
    bias: bool
    qkv_bias: bool
    sequence_length: int


class ImageShape(StrictRecord, kw_only=True):
    """An image model, by its counts, and the size of its images."""

    model: VisionModel
    image_size: int
    """Side of the images in pixels; 0 if the model's input is not an image."""


class Chosen(StrictRecord, kw_only=True):
    """One decision of the plan, from which a later export detects what a person has changed."""

    name: str
    """Name of the setting, or of the environment variable."""
    value: str
    basis: Basis
    because: str = ""
    """The reason; empty for an environment variable, whose reason is in `Environment.why`."""
    alternatives: tuple[str, ...] = ()
    """Other values that fit, with their time and memory, the best first."""

    @property
    def sentence(self) -> str:
        basis = "yours" if self.basis == "user" else self.basis
        return f"{self.name} = {self.value} ({basis}): {self.because.rstrip().removesuffix('.')}."


class Kept(StrictRecord, kw_only=True):
    """A part of an imported launch file that no field of the recipe states.

    Continued lines are joined, and runs of blanks become one blank.
    """

    file: str
    line: int
    text: str
    why: str
    """Reason why no field states it, such as `not understood` or `set by the launcher that rigtune
    writes`.
    """


class Recipe(StrictRecord, kw_only=True):
    """All information that a launcher needs."""

    schema_version: int = SCHEMA_VERSION
    name: str
    """Short id of the job: letters, digits, `.`, `_` and `-`."""
    title: str
    program: str = OWN_PROGRAM
    """Training software: an id of `rigtune list programs`."""
    job: Job = Job()
    model: ModelShape | None = None
    """The transformer; None in recipes of image models."""
    images: ImageShape | None = None
    """The image model; None in recipes of transformers."""
    parallelism: Parallelism
    convergence: Convergence
    checkpoints: CheckpointSettings | None = None
    """None if no checkpoints were planned or imported, as in recipes of older versions."""
    resources: Resources
    command: Command
    environment: tuple[Environment, ...] = ()
    slots: dict[str, str] = {}
    """Values of the places in launch files that depend on the site, by slot (`rigtune list slots`)."""
    predicted: Prediction = Prediction()
    not_in_reference: tuple[str, ...] | None = None
    """Features of the model that the reference workload does not build, such as `experts 8`.

    The command then runs another program. None if the reference workload builds the whole model.
    """
    notes: tuple[str, ...] = ()
    """Warnings and remarks; they become comments of the launch script, after the decisions."""
    decisions: tuple[Chosen, ...] = ()
    kept: tuple[Kept, ...] = ()
    """Parts of imported files that no field states; empty for a recipe that was planned."""
    made_for: Fingerprint | None = None
    """None if the recipe was not planned, or was planned by an older version."""
    model_details: dict[str, Any] = {}
    """Further fields of the model that differ from a plain decoder; the prediction needs them."""
    machine: Cluster | None = None
    """The machine with the rates that the prediction is based on; None if the recipe was not planned."""

    @property
    def text_model(self) -> ModelShape:
        """Sizes of the transformer. Raises UsageError for an image model, which has no such sizes."""
        if self.model is None:
            raise UsageError(
                f"recipe {quoted(self.name)} trains the image model {self.model_id}, not a transformer",
                "export it for your own program, which you give after `--` of `rigtune plan`",
            )
        return self.model

    @property
    def model_id(self) -> str:
        return self.model.id if self.model is not None else self.images.model.id if self.images else ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The decisions as sentences, then the notes."""
        return (*(chosen.sentence for chosen in self.decisions if chosen.because), *self.notes)


EXECUTABLE = 0o755
"""Mode of a script."""


class Artifact(StrictRecord, kw_only=True):
    """A file to write: `path` is relative to the export folder."""

    path: str
    text: str
    mode: int = 0o644


def kind_of_file(path: str) -> CommandKind:
    """Return the kind of a command that starts this file: a test of nccl-tests, or a user's script."""
    return "nccl-tests" if NCCL_TEST.fullmatch(PurePosixPath(path).name) else "script"


NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def resolved_plan(recipe: Recipe) -> ResolvedPlan:
    """Return all decisions of the recipe, with default values for those that the recipe leaves open."""
    parallelism, convergence, resources = recipe.parallelism, recipe.convergence, recipe.resources
    checkpoints, slots = recipe.checkpoints, recipe.slots
    same = (
        *("strategy", "pipeline_schedule", "nodes", "ranks_per_node", "world_size", "micro_batch"),
        *("grad_accum", "global_batch", "activation_checkpointing", "recomputed_share", "precision"),
        "offload",
    )
    return ResolvedPlan(
        name=recipe.name,
        program=recipe.program,
        model=recipe.model_id,
        degrees=PlanDegrees(**msgspec.structs.asdict(parallelism.degrees)),
        **{name: getattr(parallelism, name) for name in same},
        **msgspec.structs.asdict(convergence),
        sequence_length=recipe.model.sequence_length if recipe.model is not None else 0,
        image_size=recipe.images.image_size if recipe.images is not None else 0,
        optimizer=recipe.job.optimizer,
        tuning=recipe.job.tuning,
        adapter_rank=0 if recipe.job.tuning == "full" else recipe.job.adapter_rank,
        # A run whose checkpoints are unknown saves at its end.
        checkpoint_steps=(checkpoints and checkpoints.every_steps) or convergence.steps,
        bucket_mb=parallelism.bucket_mb or 0,
        prefetch=parallelism.prefetch or 0,
        backend=resources.backend,
        device=resources.device,
        weights=slots.get("model", ""),
        data=slots.get("data", ""),
        tokenizer=slots.get("tokenizer", ""),
        output=slots.get("output", ""),
        checkpoints=slots.get("checkpoints", ""),
    )


def settings(recipe: Recipe) -> dict[str, str]:
    """Return the value of every placeholder."""
    plan: dict[str, Any] = msgspec.structs.asdict(resolved_plan(recipe))
    values = plan | msgspec.structs.asdict(plan["degrees"])
    texts = {name: values[name] for name in PLACEHOLDERS}
    return {name: value if isinstance(value, str) else repr(value) for name, value in texts.items()}


def program_arguments(recipe: Recipe) -> tuple[str, ...]:
    """Return the arguments of the recipe's command, filled in. Raises UsageError for unknown placeholders."""
    values = settings(recipe)
    return tuple(expand(argument, values) for argument in recipe.command.arguments)
