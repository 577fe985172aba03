"""A recipe (a fully resolved plan that is independent of the launcher), and placeholders in its arguments.

People read and edit a recipe as a TOML file.
"""

import re
from typing import Any, Literal

from probes.base.errors import UsageError
from probes.base.record import StrictRecord
from recipes.job.candidate import ActivationCheckpointing, Candidate, Degrees, Schedule
from recipes.job.workload import DEFAULT_ADAPTER_RANK, Optimizer, Precision, Tuning
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
    """Training state that data-parallel ranks share: `ddp`, `zero1`, `zero2`, `fsdp` or `hsdp`."""
    nodes: int
    ranks_per_node: int
    dp: int | None = None
    """Copies of the parameters; None in recipes of older versions, whose strategy determines the number."""
    fsdp: int | None = None
    """Ranks that share one copy of the parameters; None in recipes of older versions."""
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
    bucket_mb: int | None = None
    """MiB of gradients that the reference workload's DDP sends together; None for torch's default."""
    prefetch: int | None = None
    """Layers whose parameters the reference workload's FSDP gathers in advance; None for torch's default."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def degrees(self) -> Degrees:
        """All degrees; unstated ones follow from the strategy."""
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
        )


class Job(StrictRecord, kw_only=True):
    """Kind of training, in addition to the model, the batch and the convergence settings."""

    tuning: Tuning = "full"
    """Training of all weights, or of adapters over frozen ones."""
    fine_tuning: bool = False
    """Whether a trained model is trained further on instructions or questions; adapters always are."""
    adapter_rank: int = DEFAULT_ADAPTER_RANK
    optimizer: Optimizer = "adamw"


class Fingerprint(StrictRecord, kw_only=True):
    """The machine for which the recipe was made."""

    machine: str
    """Name and devices in words."""
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
    """Checkpoints of the run; None for what is unknown."""

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


class Command(StrictRecord, kw_only=True):
    """The program that every rank runs."""

    kind: Literal["reference", "script", "module", "program"]
    """rigtune's reference workload, a Python file, a Python module, or the software that `Recipe.program`
    names, which has a command of its own.
    """
    target: str = ""
    """Path of the script or dotted name of the module; empty for the reference workload."""
    arguments: tuple[str, ...] = ()
    """Arguments of the program.

    They may contain {micro_batch}, {grad_accum}, {global_batch}, {learning_rate}, {warmup_steps}, {steps},
    {sequence_length} and the other names of `PLACEHOLDERS`.
    """
    working_directory: str = ""
    """Folder in which the program runs; empty for the folder in which the job is started."""


class Resources(StrictRecord, kw_only=True):
    """Resources of each node."""

    device: Literal["cuda", "cpu"]
    backend: Literal["nccl", "gloo"]
    device_name: str = ""
    python: str = ""
    """Path of the training interpreter, the same on every node; empty for `python3` on the PATH."""
    cpus_per_node: int | None = None
    time_limit: str = ""
    """Time limit of the Slurm job, `HH:MM:SS`; empty for the partition's default."""
    partition: str = ""
    account: str = ""
    hosts: tuple[str, ...] = ()
    """Host names or addresses in order, the master first; empty if the scheduler chooses them."""


class Prediction(StrictRecord, kw_only=True):
    """Figures that the plan expects, for `rigtune verify`. None if they could not be predicted."""

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


class Recipe(StrictRecord, kw_only=True):
    """All information that a launcher needs."""

    schema_version: int = SCHEMA_VERSION
    name: str
    """Short id of the job: letters, digits, `.`, `_` and `-`."""
    title: str
    program: str = OWN_PROGRAM
    """Training software: a row of `rigtune list programs`."""
    job: Job = Job()
    model: ModelShape
    parallelism: Parallelism
    convergence: Convergence
    checkpoints: CheckpointSettings | None = None
    """None in recipes of older versions."""
    resources: Resources
    command: Command
    environment: tuple[Environment, ...] = ()
    predicted: Prediction = Prediction()
    not_in_reference: tuple[str, ...] | None = None
    """Features of the model that the reference workload does not build, such as `experts 8`.

    The command then runs another program. None if the reference workload builds the whole model.
    """
    notes: tuple[str, ...] = ()
    """Warnings and remarks; they become comments of the launch script, after the decisions."""
    decisions: tuple[Chosen, ...] = ()
    made_for: Fingerprint | None = None
    """None if the recipe was not planned, or was planned by an older version."""
    model_details: dict[str, Any] = {}
    """Further fields of the model that differ from a plain decoder; the prediction needs them."""
    machine: Cluster | None = None
    """The machine with the rates that the prediction is based on; None if the recipe was not planned."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The decisions as sentences, then the notes."""
        return (*(chosen.sentence for chosen in self.decisions if chosen.because), *self.notes)


class Artifact(StrictRecord, kw_only=True):
    """A file to write: `path` is relative to the export folder."""

    path: str
    text: str
    mode: int = 0o644


NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
VARIABLE_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


PLACEHOLDERS = (
    "micro_batch",
    "grad_accum",
    "global_batch",
    "learning_rate",
    "warmup_steps",
    "steps",
    "sequence_length",
    "schedule",
    "final_share",
    "beta1",
    "beta2",
    "weight_decay",
    "gradient_clipping",
    "checkpoint_steps",
)

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def settings(recipe: Recipe) -> dict[str, str]:
    """Return the value of every placeholder."""
    parallelism, convergence = recipe.parallelism, recipe.convergence
    values = (
        parallelism.micro_batch,
        parallelism.grad_accum,
        parallelism.global_batch,
        convergence.learning_rate,
        convergence.warmup_steps,
        convergence.steps,
        recipe.model.sequence_length,
        convergence.schedule,
        convergence.final_share,
        convergence.beta1,
        convergence.beta2,
        convergence.weight_decay,
        convergence.gradient_clipping,
        # A run whose checkpoints are unknown saves at its end.
        (recipe.checkpoints and recipe.checkpoints.every_steps) or convergence.steps,
    )
    texts = (value if isinstance(value, str) else repr(value) for value in values)
    return dict(zip(PLACEHOLDERS, texts, strict=True))


def expand(argument: str, values: dict[str, str]) -> str:
    """Return `argument` with its placeholders filled in; `{{` and `}}` become braces.

    Raises UsageError for any other brace.
    """

    def fill(match: re.Match[str]) -> str:
        token, name = match.group(0), match.group(1)
        if token in ("{{", "}}"):
            return token[0]
        if name in values:
            return values[name]
        what = f"no placeholder {token[:60]}" if name is not None else "no partner for a brace"
        raise UsageError(
            f"argument {argument[:120]!r}: there is {what}",
            f"placeholders: {', '.join('{' + known + '}' for known in values)}; "
            "write {{ and }} for plain braces",
        )

    return _TOKEN.sub(fill, argument)


def program_arguments(recipe: Recipe) -> tuple[str, ...]:
    """Return the arguments of the recipe's command, filled in. Raises UsageError."""
    values = settings(recipe)
    return tuple(expand(argument, values) for argument in recipe.command.arguments)
