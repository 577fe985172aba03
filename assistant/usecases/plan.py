"""Plan how to train a model on this machine."""

from collections.abc import Generator

from assistant.usecases.events import Event, StageStarted, stage
from assistant.usecases.model_file import read_model
from probes.base.errors import UsageError
from probes.base.record import Record
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.job.models.files import names_model_file
from recipes.job.models.names import find_model
from recipes.job.workload import Pins, Precision, TransformerModel
from recipes.machine.from_facts import cluster_from_facts
from recipes.planning.default_model import default_model_id
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan


class PlanRequest(Record, kw_only=True):
    """The settings that the user chose; rigtune chooses the settings that are None."""

    model: str = ""
    """Preset id or path of a model file; empty for a default that suits the machine."""
    nodes: int = 1
    global_batch: int | None = None
    sequence_length: int | None = None
    precision: Precision | None = None
    steps: int | None = None
    pins: Pins = Pins()


@stage("plan")
def plan_workload(
    facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
) -> Generator[Event, None, Plan]:
    """Make a plan; the last event's result is a `Plan`.

    Raises UsageError, InputError or NoFeasiblePlanError.
    """
    yield StageStarted(stage="plan", title=f"Planning {request.model or 'the default workload'}")
    _require_positive(
        nodes=request.nodes,
        global_batch=request.global_batch,
        sequence_length=request.sequence_length,
        steps=request.steps,
        micro_batch=request.pins.micro_batch,
        ranks_per_node=request.pins.ranks_per_node,
    )
    model = model_named(request.model or default_model_id(facts))
    cluster = cluster_from_facts(
        facts,
        measurements,
        load_catalogue(),
        nodes=request.nodes,
        ranks_per_node=request.pins.ranks_per_node,
    )
    workload = default_workload(
        model,
        cluster,
        global_batch=request.global_batch,
        sequence_length=request.sequence_length,
        precision=request.precision,
        steps=request.steps,
    )
    return make_plan(workload, cluster, facts, request.pins)


_MOST_NODES = 100_000
"""Several times the number of nodes of the largest published cluster; a larger number is a typing error."""


def model_named(name: str) -> TransformerModel:
    """Return a preset by its id, or the model in a file. Raises UsageError or InputError."""
    return read_model(name) if names_model_file(name) or "/" in name else find_model(name)


def _require_positive(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} is {value}, but must be 1 or more",
                "give a positive whole number",
            )
    if (nodes := values.get("nodes")) is not None and nodes > _MOST_NODES:
        raise UsageError(f"--nodes is {nodes}, but may be at most {_MOST_NODES}", "give fewer nodes")
