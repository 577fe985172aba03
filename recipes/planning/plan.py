"""The records of a plan: the choices, their reasons, the alternatives and the rejected candidates.

Field names are the JSON contract of `rigtune plan --format json`.
"""

from probes.base.record import EvidenceRef, Record
from recipes.job.candidate import ActivationCheckpointing, Candidate, Degrees, Schedule, Sharding
from recipes.job.workload import Workload
from recipes.machine.cluster_records import Basis, Cluster
from recipes.predict.breakdowns import Predicted

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
    precision: str
    learning_rate: float
    warmup_steps: int
    predicted: Predicted
    lost_because: str = ""
    """Reason why an alternative lost, such as `6 % slower: bubble 120 ms longer`; blank for the choice."""
    is_tie: bool = False
    """Whether an alternative is predicted to be as fast as the chosen candidate."""


class Rejected(Record, kw_only=True):
    """A candidate that was dropped, with the reason."""

    candidate: Candidate
    reason: str
    """Reason, for example `needs 91.2 GiB of 79.1 GiB: activations 48.0 GiB`."""


class Decision(Record, kw_only=True):
    """One choice of the plan, with what it is based on."""

    name: str
    """Name of the setting: `strategy`, `tp`, `pp`, `cp`, `ep`, `schedule`, `micro_batch`, `memory_margin`,
    `grad_accum`, `learning_rate`, `warmup_steps`, or an environment variable.
    """
    value: str
    basis: Basis
    because: str
    alternatives: tuple[str, ...] = ()
    evidence: tuple[EvidenceRef, ...] = ()


class EnvVar(Record, kw_only=True):
    """An environment variable of the job, with its reason."""

    name: str
    value: str
    why: str
    source: str


class Plan(Record, kw_only=True):
    """The answer to "how should this workload run on this machine"."""

    schema_version: int = SCHEMA_VERSION
    workload: Workload
    cluster: Cluster
    chosen: Choice
    decisions: tuple[Decision, ...]
    env: tuple[EnvVar, ...] = ()
    alternatives: tuple[Choice, ...] = ()
    """Alternatives, best first, without the chosen candidate."""
    rejected: tuple[Rejected, ...] = ()
    warnings: tuple[str, ...] = ()
    examined: int = 0
    """Number of predictions that the search made."""
    not_searched: tuple[str, ...] = ()
    """Settings that the search did not vary, such as `fp8` or `offload`."""
