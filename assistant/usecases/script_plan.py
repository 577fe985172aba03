"""Compare an existing launch with the best plan of the same job."""

from collections.abc import Generator
from pathlib import Path

import msgspec

from assistant.usecases.adopt import import_read, launch_files_at
from assistant.usecases.events import Event, StageStarted, stage
from assistant.usecases.plan import PlanRequest, cluster_of, plan_of
from probes.base.errors import UsageError
from probes.base.units import plural
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.job.workload import Workload
from recipes.launch.edited import text_workload_of
from recipes.launch.imports.better_plan import ScriptPlan, script_plan
from recipes.launch.recipe import Recipe
from recipes.planning.program_jobs import program_job, with_all_logits
from recipes.planning.programs import program_named
from recipes.predict.job_prediction import memory_for, predicted_for
from recipes.predict.stacks import load_stacks

_UNIMPORTANT = {"steps": "1000", "learning_rate": "1e-4"}
"""Settings that a prediction does not depend on, for files that do not state them."""


_PLAN_OPTIONS = {"model": "MODEL", "grad_accum": "--global-batch SEQUENCES"}
"""Options of `rigtune plan` that differ from those of `rigtune import`, by setting."""


class ScriptQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A launch and the machine on which it is planned again."""

    paths: tuple[Path, ...]
    given: dict[str, str]
    """Settings that the files do not state, by name."""
    request: PlanRequest
    """Request of the machine; the files determine the job."""


@stage("plan")
def plan_from_script(
    question: ScriptQuestion, facts: MachineFacts, measurements: tuple[Measurement, ...]
) -> Generator[Event, None, ScriptPlan]:
    """Predict the launch, plan its job freely, and compare; the last event's result is a `ScriptPlan`.

    Raises the errors of `launch_files_at`, `import_read` and `plan_of`, and UsageError if the files do not
    state all that a prediction needs, or need GPUs that the machine lacks.
    """
    yield StageStarted(stage="plan", title=f"Planning the job of {question.paths[0]} again")
    files = launch_files_at(question.paths)
    imported = import_read(files, question.given)
    absent = {each.setting for each in imported.missing}
    filled = {name: value for name, value in _UNIMPORTANT.items() if name in absent}
    if filled:
        imported = import_read(files, {**question.given, **filled})
    recipe = imported.recipe
    if recipe is None:
        names = ", ".join(each.setting for each in imported.missing)
        options = " ".join(_PLAN_OPTIONS.get(each.setting, each.option) for each in imported.missing)
        raise UsageError(
            f"the files do not state all that a prediction needs: {names} missing",
            f"give {options}: with --from-script, these options describe what the files do not state",
        )
    program = imported.program
    request = _request(recipe, question.request, program)
    cluster = cluster_of(facts, measurements, request)
    if recipe.resources.device == "cuda" and cluster.device == "cpu":
        counted = plural(recipe.parallelism.ranks_per_node, "GPU")
        raise UsageError(
            f"the script asks for {counted} per node, and this machine has none",
            "add --gpu NAME or --machine NAME",
        )
    best = plan_of(facts, measurements, request)
    workload = text_workload_of(recipe)
    if isinstance(best.workload, Workload):  # with the plan's assumptions about the job
        workload = msgspec.structs.replace(best.workload, global_batch=recipe.parallelism.global_batch)
    stack = load_stacks()[program_named(program).stack_for(workload.tuning)]
    job = program_job(with_all_logits(workload, stack), recipe.parallelism.candidate, cluster, stack)
    predicted = predicted_for(job, memory_for(job))
    return script_plan(imported, recipe, files, predicted, best)


def _request(recipe: Recipe, request: PlanRequest, program: str) -> PlanRequest:
    """Return the request of the same job on the same nodes, without the launch's layout."""
    layout, job = recipe.parallelism, recipe.job
    pins = msgspec.structs.replace(request.pins, ranks_per_node=layout.ranks_per_node)
    return msgspec.structs.replace(
        request,
        model=request.model or recipe.model_id,
        nodes=layout.nodes,
        gpus=request.gpus or (layout.ranks_per_node if request.gpu is not None else None),
        global_batch=layout.global_batch,
        sequence_length=recipe.text_model.sequence_length,
        precision=layout.precision,
        tuning=job.tuning,
        lora_rank=job.adapter_rank if job.tuning != "full" else None,
        optimizer=job.optimizer,
        fine_tuning=job.fine_tuning or None,
        steps=recipe.convergence.steps,
        program=program,
        keeps_program=True,
        pins=pins,
    )
