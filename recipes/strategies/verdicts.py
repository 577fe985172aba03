"""The job and the machine for which a strategy is judged, and the records of the answer."""

from typing import Literal, NamedTuple

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Reason, Record, Unknown, value_or
from probes.base.units import duration, percent
from probes.facts import MachineFacts
from recipes.constants import constant
from recipes.job.candidate import Candidate
from recipes.job.models.blocks import blocks_of
from recipes.job.pins import Pins
from recipes.machine.cluster_records import Cluster
from recipes.planning.plan import Choice, Plan
from recipes.planning.planner import make_plan, request_of
from recipes.planning.program_jobs import program_job
from recipes.planning.programs import Program, load_programs, program_named
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.job_prediction import memory_for, predicted_for
from recipes.predict.shares import held_by
from recipes.predict.training_job import ImageJob, Job
from recipes.strategies.strategy_table import Strategy

SCHEMA_VERSION = 1
Status = Literal["chosen", "recommended", "not-worth", "not-applicable", "unknown"]
"""`chosen`: the plan uses the strategy. `recommended`: worth an experiment. `not-worth`: possible, but wins
too little. `not-applicable`: this job or machine does not meet the strategy's condition. `unknown`: possible,
but no model predicts the gain.
"""


class Verdict(Record, kw_only=True):
    """The reason for or against a strategy, in numbers of this job and machine."""

    strategy: str
    title: str
    status: Status
    because: tuple[str, ...]
    """Reasons, the most important first."""
    gain: float | Unknown
    """Part of the step's time that the strategy saves; negative if the step takes longer."""
    step_time_s: float | Unknown
    """Predicted time of a step with the strategy."""
    unproven: str = ""
    """Effects that no model contains, such as the effect on the loss."""
    setting: str = ""
    """Setting that turns the strategy on in the plan's program; empty if the program has none."""
    how: str = ""
    chosen_when: str = ""
    not_when: str = ""
    source: str = ""


class StrategyAnswers(Record, kw_only=True):
    """The answer of `rigtune plan --why-not`."""

    schema_version: int = SCHEMA_VERSION
    layout: str
    """Layout on all GPUs of the machine with which the strategies are compared."""
    step_time_s: float | Unknown
    exposed_communication_s: float | Unknown
    verdicts: tuple[Verdict, ...]


class Situation(NamedTuple):
    """A plan on all ranks of a machine, and the inputs from which variants of it are predicted."""

    plan: Plan
    facts: MachineFacts
    pins: Pins = Pins()
    headroom: float | None = None

    @property
    def cluster(self) -> Cluster:
        return self.plan.cluster

    @property
    def program(self) -> Program:
        return program_named(self.plan.chosen.program)

    @property
    def time(self) -> TimeBreakdown:
        return self.plan.chosen.predicted.step_time_s

    @property
    def total_s(self) -> float | Unknown:
        """Seconds of a step."""
        return self.time.total

    @property
    def exposed_s(self) -> float:
        """Seconds of a step in which ranks only communicate; 0 if unknown."""
        return value_or(self.time.exposed_communication, 0.0)

    @property
    def job(self) -> Job:
        """The planned job, as the models predict it."""
        plan = self.plan
        request = request_of(plan.workload, plan.cluster, self.program, self.pins)
        candidate = candidate_of_choice(plan.chosen)
        return program_job(request.workload, candidate, plan.cluster, request.stack)

    @property
    def is_plain(self) -> bool:
        """Return whether every rank has the whole model, so that only gradients travel."""
        chosen = self.plan.chosen
        degrees = chosen.degrees
        return chosen.sharding == "none" and degrees.tp * degrees.pp * degrees.cp * degrees.ep == 1


def candidate_of_choice(choice: Choice) -> Candidate:
    """Return the candidate that a plan chose."""
    shared = set(Candidate.__struct_fields__) & set(Choice.__struct_fields__)
    values = {name: getattr(choice, name) for name in shared}
    return Candidate(**values | {"strategy": "fsdp" if choice.sharding == "zero3" else "ddp"})


def time_of(job: Job) -> TimeBreakdown:
    """Return the predicted time of a step, scaled by measured steps as in the plan."""
    return predicted_for(job, memory_for(job)).step_time_s


def trained_parameters(job: Job) -> float:
    """Return the number of parameters of one rank that are trained: all of them, or the adapters."""
    if isinstance(job, ImageJob):
        return float(job.model.parameters)
    held = held_by(job, blocks_of(job.workload.model))
    return (held.dense + held.expert) * held.trained_share


def copying_s(moved_bytes: float, cluster: Cluster) -> float:
    """Return the seconds for reading and writing these bytes in a rank's memory; 0 if the rate is unknown."""
    rate = cluster.memory_bandwidth_bytes_per_s
    return 0.0 if rate is None else moved_bytes / rate.value


def saving(strategy: Strategy, here: Situation, saved_s: float, *because: str) -> Verdict:
    """Return the verdict on a strategy that shortens the step of all ranks by `saved_s` seconds.

    A strategy for communication cannot win more than the time in which ranks only communicate.
    """
    total = here.total_s
    if isinstance(total, Unknown):
        return undecided(strategy, here, total)
    exposed = here.exposed_s
    gain = min(saved_s, exposed) / total
    bound = (
        f"exposed communication is {percent(exposed / total)} of the step ({duration(exposed)} of "
        f"{duration(total)}), so this can win at most {percent(exposed / total)}"
    )
    return judged(strategy, here, gain, total * (1 - gain), (*because, bound))


def on_all_ranks(here: Situation, whole: Cluster) -> Situation:
    """Return the situation with the plan on all ranks of the machine, where strategies are compared.

    A plan may leave ranks idle because links are slow; with slow links, strategies win most. If there is no
    plan for the whole machine, the situation keeps its own plan.
    """
    plan = here.plan
    if plan.cluster.world_size == whole.world_size:
        return here
    anchored = msgspec.structs.replace(
        whole, anchors=plan.cluster.anchors, image_anchors=plan.cluster.image_anchors
    )
    try:
        wide = make_plan(
            plan.workload, anchored, here.facts, here.pins, program=here.program, headroom=here.headroom
        )
    except (NoFeasiblePlanError, UsageError):
        return here
    return here._replace(plan=wide)


def judged(
    strategy: Strategy, here: Situation, gain: float, step_s: float, because: tuple[str, ...]
) -> Verdict:
    """Return the verdict `recommended` if the gain is worth an experiment, else `not-worth`."""
    status: Status = "recommended" if gain >= constant("strategy_worth") else "not-worth"
    return _verdict(strategy, here, status, because, (gain, step_s))


def chosen(strategy: Strategy, here: Situation, *because: str) -> Verdict:
    """Return the verdict on a strategy that the plan already uses."""
    return _verdict(strategy, here, "chosen", because, (0.0, here.total_s))


def inapplicable(strategy: Strategy, here: Situation, *because: str) -> Verdict:
    """Return the verdict on a strategy whose condition this job or machine does not meet."""
    none = Unknown(Reason.NOT_SUPPORTED, "the strategy is not applicable")
    return _verdict(strategy, here, "not-applicable", because, (none, none))


def undecided(strategy: Strategy, here: Situation, reason: str | Unknown) -> Verdict:
    """Return the verdict on a strategy whose gain no model predicts.

    If `reason` is Unknown, its detail explains why the step time is unknown.
    """
    because = f"the step time is unknown: {reason.detail}" if isinstance(reason, Unknown) else reason
    none = Unknown(Reason.NOT_RECORDED, "unproven: no model of rigtune predicts this gain")
    return _verdict(strategy, here, "unknown", (because,), (none, none))


def _verdict(
    strategy: Strategy,
    here: Situation,
    status: Status,
    because: tuple[str, ...],
    effect: tuple[float | Unknown, float | Unknown],
) -> Verdict:
    """Return the verdict; `effect` is the gain and the time of a step."""
    gain, step_s = effect
    return Verdict(
        strategy=strategy.id,
        title=strategy.title,
        status=status,
        because=because,
        gain=gain,
        step_time_s=step_s,
        unproven=strategy.unproven,
        setting=strategy.settings.get(here.program.id, ""),
        how=strategy.how,
        chosen_when=strategy.chosen_when,
        not_when=strategy.not_when,
        source=strategy.source,
    )


def missing_setting(strategy: Strategy, here: Situation) -> str:
    """Return why the plan's program cannot turn the strategy on; empty if the program can."""
    if here.program.id in strategy.settings:
        return ""
    others = [load_programs()[name].title for name in strategy.settings]
    return f"{here.program.title} has no setting for it; offered by {', '.join(others)}"
