"""Conversion of a plan into a recipe: a choice becomes a setting, a reason a decision, a warning a note."""

import hashlib
from pathlib import PurePosixPath

import msgspec

from probes.base.errors import UsageError
from probes.base.record import Unknown, known, value_or
from probes.facts import MachineFacts
from recipes.job.workload import AnyWorkload, TransformerModel, VisionModel, VisionWorkload, Workload
from recipes.launch.recipe import (
    CheckpointSettings,
    Chosen,
    Command,
    Convergence,
    Environment,
    Fingerprint,
    ImageShape,
    Job,
    ModelShape,
    Parallelism,
    Prediction,
    Recipe,
    Resources,
)
from recipes.launch.reference_files import model_details, not_in_reference
from recipes.machine.cluster_records import Cluster
from recipes.machine.measured_on import machine_words, measured_machine
from recipes.planning.plan import Plan
from recipes.predict.breakdowns import Predicted
from recipes.predict.candidate_prediction import without_loading

_ALTERNATIVES = 5
"""Alternatives of a decision that a recipe keeps."""
SHAPE = tuple(name for name in ModelShape.__struct_fields__ if name != "sequence_length")


def require_program(model: TransformerModel | VisionModel, command: Command) -> None:
    """Raise UsageError if the command is the reference workload and cannot build the model."""
    if command.kind != "reference":
        return
    if isinstance(model, VisionModel) or not_in_reference(model):
        raise UsageError(
            f"the reference workload cannot train {model.id}: it builds only dense decoders",
            "give your own training program after `--`, or plan without a recipe",
        )


def machine_in_words(facts: MachineFacts) -> str:
    """Return the machine's description, which is also the key of its verified steps; empty if unknown."""
    machine = measured_machine(facts)
    return machine_words(machine, facts.source) if machine.gpus or machine.cpu else ""


def fingerprint_of(facts: MachineFacts, cluster: Cluster) -> Fingerprint:
    """Return the description of the machine, and a digest of all facts on which a plan depends."""
    machine, training = measured_machine(facts), facts.training
    drivers = {gpu.driver_version for gpu in value_or(facts.gpus, ()) if known(gpu.driver_version)}
    driver = value_or(facts.software.driver_version, None) or ", ".join(sorted(drivers))
    torch = value_or(training.torch_version, None) or ""
    ports = [(nic.name, nic.state, nic.rate_gbps) for nic in value_or(facts.nics, ())]
    parts = (machine, driver, torch, ports, cluster)
    return Fingerprint(
        machine=machine_in_words(facts) or cluster.title,
        driver=driver,
        torch=torch,
        facts_sha256=hashlib.sha256(msgspec.json.encode(parts)).hexdigest(),
    )


def recipe_of(
    plan: Plan,
    *,
    name: str,
    command: Command,
    python: str,
    facts: MachineFacts | None = None,
) -> Recipe:
    """Return the recipe of the plan's choice.

    `name` is the job's name, but a job that runs a test of nccl-tests is named after the test.
    `command` is the program of every rank, `python` the path of the training interpreter on the nodes (empty
    for `python3`), `facts` the facts of the machine that was planned for. The recipe names no hosts and no
    settings of a site. Raises UsageError if the command is the reference workload and cannot build the model.
    """
    workload = plan.workload
    text = workload if isinstance(workload, Workload) else None
    require_program(workload.model, command)
    beyond = not_in_reference(text.model) if text is not None else ()
    chosen, cluster = plan.chosen, plan.cluster
    test = PurePosixPath(command.target).name if command.kind == "nccl-tests" else ""
    cores = cluster.physical_cores_per_rank
    return Recipe(
        name=test or name,
        title=f"{test or workload.model.title} on {cluster.title}",
        program=chosen.program,
        job=_job(workload),
        model=None if text is None else _shape(text),
        images=_images(workload) if isinstance(workload, VisionWorkload) else None,
        parallelism=Parallelism(
            strategy=chosen.strategy,
            nodes=cluster.nodes,
            ranks_per_node=cluster.ranks_per_node,
            **msgspec.structs.asdict(chosen.degrees),
            pipeline_schedule=chosen.schedule,
            micro_batch=chosen.micro_batch,
            grad_accum=chosen.grad_accum,
            global_batch=chosen.global_batch,
            activation_checkpointing=chosen.activation_checkpointing,
            recomputed_share=chosen.recomputed_share,
            precision=workload.precision,
            offload="weights" if chosen.offload_weights else "states" if chosen.offload else "none",
        ),
        convergence=Convergence(
            learning_rate=chosen.learning_rate,
            warmup_steps=chosen.warmup_steps,
            steps=workload.steps,
            **msgspec.structs.asdict(plan.optimization),
        ),
        checkpoints=_checkpoints(plan),
        resources=Resources(
            device=cluster.device,
            backend="nccl" if cluster.device == "cuda" else "gloo",
            device_name=cluster.device_name,
            python=python,
            cpus_per_node=cores * cluster.ranks_per_node if cores is not None else None,
        ),
        command=command,
        environment=tuple(
            Environment(
                name=variable.name,
                value=variable.value,
                why=variable.why,
                source=f"{variable.source}, read {variable.date}" if variable.date else variable.source,
                launchers=variable.launchers,
            )
            for variable in plan.env
        ),
        predicted=prediction_of(chosen.predicted, makes_data=command.kind == "reference"),
        not_in_reference=beyond or None,
        notes=tuple(f"Warning: {warning}" for warning in plan.warnings),
        decisions=_decisions(plan),
        made_for=None if facts is None else fingerprint_of(facts, cluster),
        model_details={} if text is None else model_details(text.model),
        machine=cluster,
    )


def prediction_of(predicted: Predicted, *, makes_data: bool) -> Prediction:
    """Return the figures that `rigtune verify` can measure.

    With `makes_data`, the program generates its data, as the reference workload does, so the step time
    contains no loading of data.
    """
    memory, time = predicted.memory_bytes_per_gpu, predicted.step_time_s
    if makes_data:
        time = without_loading(time)
    return Prediction(
        step_time_s=_number(time.total),
        step_time_low_s=_number(time.low),
        step_time_high_s=_number(time.high),
        peak_memory_bytes=memory.allocated,
        reserved_memory_bytes=memory.reserved,
        worst_memory_bytes=memory.upper,
        tokens_per_s_per_rank=_number(predicted.tokens_per_s_per_gpu),
        mfu=_number(predicted.mfu),
    )


def _job(workload: AnyWorkload) -> Job:
    if isinstance(workload, VisionWorkload):
        return Job(optimizer=workload.optimizer)
    return Job(
        tuning=workload.tuning,
        fine_tuning=workload.fine_tuning,
        adapter_rank=workload.adapter_rank,
        optimizer=workload.optimizer,
    )


def _shape(workload: Workload) -> ModelShape:
    sizes = {name: getattr(workload.model, name) for name in SHAPE}
    return ModelShape(sequence_length=workload.sequence_length, **sizes)


def _images(workload: VisionWorkload) -> ImageShape:
    return ImageShape(model=workload.model, image_size=workload.image_size)


def _checkpoints(plan: Plan) -> CheckpointSettings | None:
    checkpoints = plan.checkpoints
    if checkpoints is None:
        return None
    every = checkpoints.every_steps
    return CheckpointSettings(
        every_steps=None if isinstance(every, Unknown) else every,
        interval_s=_number(checkpoints.interval_s),
        bytes=checkpoints.bytes,
        write_s=_number(checkpoints.write_s),
    )


def _number(value: object) -> float | None:
    """Return the value; None if the model could not predict it."""
    return float(value) if isinstance(value, (int, float)) else None


def _decisions(plan: Plan) -> tuple[Chosen, ...]:
    """Return the decisions without the accumulation steps, which follow from the other decisions."""
    variables = {variable.name for variable in plan.env}
    return tuple(
        Chosen(
            name=decision.name,
            value=decision.value,
            basis=decision.basis,
            because="" if decision.name in variables else decision.because,
            alternatives=decision.alternatives[:_ALTERNATIVES],
        )
        for decision in plan.decisions
        if decision.name != "grad_accum"
    )
