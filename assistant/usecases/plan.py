"""Plan how to train a model on this machine."""

import math
from collections.abc import Generator
from functools import partial
from typing import NamedTuple

import msgspec

from assistant.usecases.events import Event, StageStarted, stage
from assistant.usecases.image_options import require_image_settings
from assistant.usecases.model_file import assumed_of, model_named
from probes.base.errors import UsageError
from probes.base.record import Record
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.job.pins import Pins
from recipes.job.workload import (
    AnyWorkload,
    Optimizer,
    Precision,
    TransformerModel,
    Tuning,
    VisionModel,
    Workload,
)
from recipes.machine.cluster import build_cluster
from recipes.machine.cluster_records import Cluster
from recipes.machine.completed import completed_facts, describe_completed
from recipes.machine.from_facts import cluster_from_facts
from recipes.planning.default_model import first_plan, for_default_model, headroom_for_default_model
from recipes.planning.image_jobs import image_workload
from recipes.planning.objectives import Objective, Size, best_size
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan, native_precision, shared_batch, with_reasons
from recipes.planning.program_comparison import with_fastest_program
from recipes.planning.programs import OWN, Program, program_named
from recipes.planning.resorts import best_plan
from recipes.planning.run_cost import RunLength, run_cost
from recipes.planning.usual_batch import draft_with_usual_batch
from recipes.planning.verified_step import with_measured_steps
from recipes.planning.what_if import Variation
from recipes.settings.recipe_choice import optimizer_of
from recipes.settings.setting import NOTHING_STATED, Stated
from recipes.strategies.verdicts import Situation, on_all_ranks
from recipes.strategies.why_not import experiments


class PlanRequest(Record, kw_only=True):
    """The settings that the user chose; rigtune chooses the settings that are None."""

    model: str = ""
    """Preset id or path of a model file; empty for a default that suits the machine."""
    own_model: VisionModel | None = None
    """Model counted from the user's own module, with the name in `model`; None for all other models."""
    nodes: int = 1
    global_batch: int | None = None
    sequence_length: int | None = None
    precision: Precision | None = None
    steps: int | None = None
    tokens: int | None = None
    """Tokens of the whole run; None if the length is given in steps or samples, or not at all."""
    samples: int | None = None
    """Sequences or images of the whole run."""
    image_size: int | None = None
    """Side of the images in pixels, for image models; None for the model's usual size."""
    price: float | None = None
    """Price of a GPU hour, in any currency."""
    objective: Objective = "throughput"
    tuning: Tuning = "full"
    lora_rank: int | None = None
    program: str = ""
    """Training software: a row of `programs.toml`; empty for the user's own torch program."""
    optimizer: Optimizer | None = None
    """None for that of the stated training recipe, or else AdamW or the usual optimizer of an image model."""
    fine_tuning: bool | None = None
    """True if a trained model is trained further; None for True if adapters are trained, and else False."""
    stated: Stated = NOTHING_STATED
    """Knowledge of the user about rates, batches, failures and storage."""
    keeps_program: bool = False
    """True if a recipe of the user's own program is made, so that no other program can replace it."""
    headroom: float | None = None
    """Share of each GPU's memory that stays free; None for the default."""
    gpu: str | None = None
    """Name of the GPU, for nodes that options describe; None for the machine in the facts."""
    gpus: int | None = None
    """GPUs per node, for `gpu`; None for the number that the facts show, or the usual number."""
    network: str | None = None
    """Network of a node in words, for `gpu`; None for the network of the facts, or the usual network."""
    pins: Pins = Pins()
    chosen_only: bool = False
    """True if only the chosen layout matters, with its predictions; see `make_plan`."""


@stage("plan")
def plan_workload(
    facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
) -> Generator[Event, None, Plan]:
    """Make a plan; the last event's result is a `Plan`.

    Raises UsageError, InputError or NoFeasiblePlanError.
    """
    yield StageStarted(stage="plan", title=f"Planning {request.model or 'the default workload'}")
    plan = plan_of(facts, measurements, request)
    if request.objective not in ("throughput", "time"):
        return plan
    here = situation_of(plan, facts, measurements, request)
    return msgspec.structs.replace(plan, experiments=experiments(here, plan))


def situation_of(
    plan: Plan, facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
) -> Situation:
    """Return the situation in which strategies are judged: the plan on all ranks of the requested machine."""
    here = Situation(plan, facts, request.pins, request.headroom)
    return on_all_ranks(here, cluster_of(facts, measurements, request))


def plan_of(
    facts: MachineFacts,
    measurements: tuple[Measurement, ...],
    request: PlanRequest,
    change: Variation | None = None,
) -> Plan:
    """Return the plan of a request; equal input gives an equal plan.

    `change` alters the machine before planning; None plans for the machine as it is.

    Raises UsageError, InputError or NoFeasiblePlanError.
    """
    require_positive(
        nodes=request.nodes,
        global_batch=request.global_batch,
        sequence_length=request.sequence_length,
        steps=request.steps,
        micro_batch=request.pins.micro_batch,
        ranks_per_node=request.pins.ranks_per_node,
        gpus=request.gpus,
        lora_rank=request.lora_rank,
        image_size=request.image_size,
    )
    _require_price(request)
    asked = request.own_model or (model_named(request.model) if request.model else None)
    unchanged = cluster_of(facts, measurements, request, None)
    planner = _Planner(
        facts=facts,
        measurements=measurements,
        request=request,
        change=change,
        program=program_named(request.program or OWN),
        asked=asked,
        whole=Size(unchanged.nodes, unchanged.ranks_per_node),
    )
    plan = _with_assumptions(best_size(planner.plan_at, planner.whole, request.objective), request)
    if request.program or change is not None:
        return plan
    is_smaller = request.objective in ("cost", "fewest-gpus")
    cluster = plan.cluster if is_smaller else planner.cluster_at(None)
    return with_fastest_program(plan, cluster, request.pins, request.headroom)


class _Planner(NamedTuple):
    """Plans of one request on parts of its machine."""

    facts: MachineFacts
    measurements: tuple[Measurement, ...]
    request: PlanRequest
    change: Variation | None
    program: Program
    asked: TransformerModel | VisionModel | None
    """Model of the request; None for the default model."""
    whole: Size

    def cluster_at(self, size: Size | None) -> Cluster:
        """Return a part of the machine, None for the whole, with the change."""
        cluster = cluster_of(self.facts, self.measurements, self.request, size)
        return cluster if self.change is None else self.change(cluster)

    def plan_at(self, size: Size) -> Plan:
        """Return the plan on a part of the machine."""
        request = self.request
        if self.asked is not None:
            return self._planned(size, self.asked, request.sequence_length, request.headroom)
        cluster = self.cluster_at(size)
        room = headroom_for_default_model(cluster) if request.headroom is None else request.headroom
        return first_plan(
            cluster, request.sequence_length, lambda model, length: self._planned(size, model, length, room)
        )

    def _planned(
        self, size: Size, model: TransformerModel | VisionModel, length: int | None, headroom: float | None
    ) -> Plan:
        cluster, request, program = self.cluster_at(size), self.request, self.program
        workload = _workload_of(
            model, cluster, request, program, length, rounds_batch=self.change is not None
        )
        pins = request.pins
        if self.change is not None:  # a change may take a GPU from each node
            pins = msgspec.structs.replace(pins, ranks_per_node=None)
        # Last resorts (another program, fewer GPUs, offloading) are tried only for the whole machine. Goals
        # that may leave GPUs idle compare plans of several sizes anyway.
        is_whole = size == self.whole and self.change is None and request.objective in ("throughput", "time")
        may_resort = is_whole and model is self.asked and isinstance(workload, Workload)
        named = program if request.program or request.keeps_program or not may_resort else None

        def plan_of_job(job: AnyWorkload, *, chosen_only: bool) -> Plan:
            timed = cluster
            if request.model:
                timed = with_measured_steps(cluster, job, self.measurements, program.id)
            planning = partial(make_plan, job)
            if may_resort and isinstance(job, Workload):
                planning = partial(best_plan, job)
            return planning(
                timed,
                self.facts,
                pins,
                program=named,
                headroom=headroom,
                stated=_stated(request, job),
                chosen_only=chosen_only,
            )

        def with_batch(batch: int) -> AnyWorkload:
            given = msgspec.structs.replace(request, global_batch=batch)
            return _workload_of(model, cluster, given, program, length)

        draft = None
        if not request.global_batch:
            draft = draft_with_usual_batch(workload, program, request.stated, with_batch, plan_of_job)
        if draft is None:
            plan = plan_of_job(workload, chosen_only=request.chosen_only)
        elif request.chosen_only:
            plan = draft
        else:
            plan = with_reasons(
                draft, self.facts, pins, headroom=headroom, stated=_stated(request, draft.workload)
            )
        cost = run_cost(
            plan.workload,
            cluster,
            plan.chosen.predicted.step_time_s.total,
            price=request.price,
            checkpoints=plan.checkpoints,
            length_from=_length_from(request),
        )
        decisions = plan.decisions
        if self.asked is None:
            decisions = for_default_model(decisions, request.headroom)
        return msgspec.structs.replace(plan, run=cost, objective=request.objective, decisions=decisions)


def _with_assumptions(plan: Plan, request: PlanRequest) -> Plan:
    """Return the plan with a warning about what the model's name leaves open."""
    if request.own_model is not None or not request.model:
        return plan
    notes = assumed_of(request.model, plan.workload.model)
    return msgspec.structs.replace(plan, warnings=(*notes, *plan.warnings)) if notes else plan


def _require_price(request: PlanRequest) -> None:
    """Raise UsageError for an impossible price, or if the goal needs a price and none is given."""
    if request.price is not None and not 0 < request.price < math.inf:
        raise UsageError(f"--price is {request.price}", "give the price of a GPU hour, above 0")
    if request.objective == "cost" and request.price is None:
        raise UsageError("--objective cost needs a price", "give the price of a GPU hour with --price")


def _length_from(request: PlanRequest) -> RunLength:
    """Return the setting that determines the number of steps."""
    if request.tokens is not None:
        return "tokens"
    if request.samples is not None:
        return "samples"
    return "assumed" if request.steps is None else "steps"


def _workload_of(
    model: TransformerModel | VisionModel,
    cluster: Cluster,
    request: PlanRequest,
    program: Program,
    length: int | None,
    *,
    rounds_batch: bool = False,
) -> AnyWorkload:
    """Return the job of the request; `rounds_batch` adapts its global batch to the number of ranks.

    Raises UsageError for settings that the model does not have.
    """
    _require_one_length(request)
    batch = request.global_batch
    if rounds_batch and batch is not None:
        batch = shared_batch(batch, cluster.world_size)
    if isinstance(model, TransformerModel):
        if request.image_size is not None:
            raise UsageError(
                f"--image-size is given, but {model.id} is not an image model", "give --sequence-length"
            )
        return default_workload(
            model,
            cluster,
            global_batch=batch,
            sequence_length=length,
            precision=request.precision,
            steps=request.steps,
            tokens=request.tokens,
            samples=request.samples,
            tuning=request.tuning,
            adapter_rank=request.lora_rank,
            program=program,
            optimizer=request.optimizer or optimizer_of(request.stated) or "adamw",
            fine_tuning=request.fine_tuning,
            stated=request.stated,
            pins=request.pins,
        )
    require_image_settings(model, request)
    return image_workload(
        model,
        cluster,
        image_size=request.image_size,
        global_batch=batch,
        precision=request.precision or native_precision(cluster, program),
        steps=request.steps,
        samples=request.samples,
        optimizer=request.optimizer or optimizer_of(request.stated),
        stated=request.stated,
        pins=request.pins,
    )


def _stated(request: PlanRequest, workload: AnyWorkload) -> Stated:
    """Return the user's knowledge, with the length of the run if the user gave one."""
    tokens = None
    if _length_from(request) != "assumed" and isinstance(workload, Workload):
        tokens = float(workload.steps * workload.tokens_per_step)
    return msgspec.structs.replace(
        request.stated, tokens=tokens, batch_is_given=request.global_batch is not None
    )


def _require_one_length(request: PlanRequest) -> None:
    """Raise UsageError if the length of the run is given in several ways."""
    given = [f"--{name}" for name in ("steps", "tokens", "samples") if getattr(request, name) is not None]
    if len(given) > 1:
        each = "both" if len(given) == 2 else "all"
        raise UsageError(f"{' and '.join(given)} {each} state the length of the run", "give one of them")


def machine_of(facts: MachineFacts, request: PlanRequest) -> MachineFacts:
    """Return the facts of the machine that is planned for, with the GPUs that the request names.

    Raises UsageError for an unknown GPU, and if the request contradicts the facts.
    """
    if request.gpu is None:
        return facts
    return completed_facts(facts, request.gpu, request.gpus, load_catalogue())


def cluster_of(
    facts: MachineFacts,
    measurements: tuple[Measurement, ...],
    request: PlanRequest,
    size: Size | None = None,
) -> Cluster:
    """Return the machine that the request describes by its parts, or the machine of the facts.

    `size` is a part of that machine; None means the whole machine. Raises UsageError if the request names
    GPUs per node or a network without a GPU, or contradicts the facts.
    """
    catalogue = load_catalogue()
    nodes = request.nodes if size is None else size.nodes
    ranks = request.pins.ranks_per_node if size is None else size.ranks_per_node
    if request.gpu is None:
        if request.gpus is not None or request.network is not None:
            name = "--gpus" if request.gpus is not None else "--network"
            raise UsageError(f"{name} describes nodes of a GPU that is not named", "give --gpu NAME too")
        return cluster_from_facts(facts, measurements, catalogue, nodes=nodes, ranks_per_node=ranks)
    described = describe_completed(
        facts,
        request.gpu,
        catalogue,
        nodes=nodes,
        gpus_per_node=request.gpus,
        ranks_per_node=ranks,
        network=request.network or "",
    )
    return build_cluster(described, measurements)


_MOST = {"nodes": 10**5, "lora_rank": 10**5, "image_size": 10**5}
_MOST_OF_OTHERS = 10**9
"""Bounds several times as large as any published job or cluster; a larger number is a typing error."""


def require_positive(**values: int | None) -> None:
    """Raise UsageError for an option that is not positive, or larger than any job or cluster needs."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} is {value}, but must be 1 or more",
                "give a positive whole number",
            )
        most = _MOST.get(name, _MOST_OF_OTHERS)
        if value is not None and value > most:
            raise UsageError(
                f"--{name.replace('_', '-')} is {str(value)[:30]}, but may be at most {most}",
                "give a smaller number",
            )
