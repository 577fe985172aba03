"""The records of a plan: the choices, their reasons, the alternatives and the rejected candidates.

Field names are the JSON contract of `rigtune plan --format json`.
"""

from typing import Literal

from probes.base.record import EvidenceRef, Record, Unknown
from recipes.environment.environment_plan import EnvironmentPlan, EnvVar
from recipes.job.candidate import ActivationCheckpointing, Candidate, Degrees, Schedule, Sharding
from recipes.job.workload import AnyWorkload
from recipes.machine.cluster_records import Basis, Cluster
from recipes.predict.breakdowns import Predicted
from recipes.settings.checkpointing import Checkpoints
from recipes.settings.setting import Optimization

SCHEMA_VERSION = 1
OWN_PROGRAM = "own"
"""Id of the user's own torch program."""


class Choice(Record, kw_only=True):
    """A candidate that fits, with its convergence settings and prediction."""

    strategy: str
    """Name of the data-parallel strategy: `ddp`, `zero1`, `zero2`, `fsdp` or `hsdp`."""
    program: str = OWN_PROGRAM
    """Training software that the plan is for: a row of `recipes/data/programs.toml`."""
    degrees: Degrees
    sharding: Sharding = "none"
    schedule: Schedule = "1f1b"
    """Order of work in the pipeline, if there is one."""
    micro_batch: int
    grad_accum: int
    global_batch: int
    activation_checkpointing: ActivationCheckpointing
    recomputed_share: float = 1.0
    """Part of the layers that full checkpointing recomputes."""
    offload: bool = False
    """True if optimizer states are in the host's memory."""
    offload_weights: bool = False
    """True if sharded weights are in the host's memory too."""
    host_bytes_per_node: float = 0.0
    """Memory of each node's host that holds offloaded states."""
    precision: str
    learning_rate: float
    warmup_steps: int
    predicted: Predicted
    lost_because: str = ""
    """Reason why an alternative lost, such as `6 % slower: bubble 120 ms longer`; blank for the choice."""
    is_tie: bool = False
    """True if an alternative is predicted to be as fast as the chosen candidate."""


class Rejected(Record, kw_only=True):
    """A candidate that was dropped, with the reason."""

    candidate: Candidate
    reason: str
    """Reason, for example `needs 91.2 GiB of 79.1 GiB: activations 48.0 GiB, logits 9.1 GiB`."""


class Decision(Record, kw_only=True):
    """One choice of the plan, with its basis."""

    name: str
    """Name of a setting, such as `strategy`, `tp`, `micro_batch`, `memory_margin` or `learning_rate`, or of
    an environment variable.
    """
    value: str
    basis: Basis
    because: str
    alternatives: tuple[str, ...] = ()
    evidence: tuple[EvidenceRef, ...] = ()


class RunCost(Record, kw_only=True):
    """A run from its first to its last step, on all ranks of a plan."""

    length_from: Literal["tokens", "samples", "steps", "assumed"]
    """Setting that determines the number of steps; `assumed` if the user gave none of them."""
    steps: int
    samples: int
    tokens: int
    """Tokens of the run; 0 for images."""
    hours: float | Unknown
    """Hours of training, without failures."""
    gpu_hours: float | Unknown
    """Hours of all GPUs, without failures."""
    interruptions: float | Unknown
    """Expected number of unexpected interruptions."""
    lost_hours: float | Unknown
    """Expected hours that interruptions lose: half a checkpoint interval and a restart for each,
    and the time to write checkpoints if it is known.
    """
    lost_share: float | Unknown
    """Part of the whole time that interruptions lose."""
    price_per_gpu_hour: float | None = None
    """Price that the user gave; None if the user gave none."""
    cost: float | Unknown | None = None
    """Price of all GPU hours, those that interruptions lose included; None without a price."""


class FastestProgram(Record, kw_only=True):
    """The program with the shortest predicted step for a job on a machine."""

    program: str
    """Row of `recipes/data/programs.toml`; the plan's own program if no other is clearly faster."""
    title: str
    layout: str = ""
    """Layout of that program, in words; empty for the plan's own program."""
    step_time_s: float
    speed_up: float
    """Speed relative to the plan, less 1: 0.25 means a quarter more tokens per second."""
    compared: tuple[str, ...] = ()
    """Programs that were compared, without the plan's own; of programs with equal abilities, only one."""


class Experiment(Record, kw_only=True):
    """A strategy that may make the job faster, but that a plan never chooses by itself."""

    strategy: str
    """Row of `recipes/data/strategies.toml`."""
    title: str
    step_time_s: float
    """Predicted time of a step with the strategy, on all ranks of the machine."""
    saved_share: float
    """Part of the plan's step time that the strategy saves."""
    ranks: int
    """Number of ranks with the strategy; more than the plan uses if the plan leaves ranks idle."""
    because: str
    unproven: str
    """Effects that no model contains, such as the effect on the loss."""


class Plan(Record, kw_only=True):
    """The answer to "how should this workload run on this machine"."""

    schema_version: int = SCHEMA_VERSION
    workload: AnyWorkload
    cluster: Cluster
    chosen: Choice
    decisions: tuple[Decision, ...]
    env: tuple[EnvVar, ...] = ()
    optimization: Optimization = Optimization()
    """Course of the learning rate, and the optimizer's settings."""
    checkpoints: Checkpoints | None = None
    """Checkpoints of the run; None in plans of older versions."""
    environment: EnvironmentPlan = EnvironmentPlan()
    """Platform, experiments, the merged view of all variables, and the binding of ranks."""
    alternatives: tuple[Choice, ...] = ()
    """Alternatives, best first, without the chosen candidate."""
    rejected: tuple[Rejected, ...] = ()
    warnings: tuple[str, ...] = ()
    objective: str = "throughput"
    """Goal of the plan: `throughput`, `time`, `cost` or `fewest-gpus`."""
    run: RunCost | None = None
    """Hours, GPU hours, cost and expected loss of the whole run; None if they were not computed."""
    fastest_program: FastestProgram | None = None
    """Program that would train this job fastest here; None if the user named the program."""
    experiments: tuple[Experiment, ...] = ()
    """Strategies that are worth an experiment, the best first (`rigtune list strategies`)."""
    examined: int = 0
    """Number of predictions that the search made."""
    not_searched: tuple[str, ...] = ()
    """Settings that the search did not vary, such as `fp8` or `offload`."""
