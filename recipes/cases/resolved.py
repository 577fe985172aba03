"""Resolve a case: fill in all values that its row does not state, so that the models can predict it."""

import copy
from collections.abc import Callable

import msgspec

from probes.base.record import quoted
from probes.catalogue.hardware import Catalogue, load_catalogue
from recipes.cases.case import Case, CaseError, cluster_of_case
from recipes.cases.case_layout import Layout, gpus_of, layout_of, recompute_words, with_expert_axis
from recipes.cases.choices import Choice, choices_of, is_open, micro_batches_of, with_choice
from recipes.cases.legality import require_divisible, require_whole, require_whole_parts, uneven_parts
from recipes.cases.model import OwnModels, model_of
from recipes.cases.notes import expert_notes, notes_of
from recipes.cases.resolved_case import ResolvedCase
from recipes.cases.software import precision_of, software_of, usual_length, usual_optimizer
from recipes.cases.table_words import (
    Numbers,
    names_pure,
    numbers_of,
    optimizer_of,
    sharing_of,
    step_of,
    task_of,
)
from recipes.constants import constant
from recipes.job.candidate import Candidate
from recipes.job.pins import Pins
from recipes.job.workload import (
    DEFAULT_ADAPTER_RANK,
    Optimizer,
    TransformerModel,
    Tuning,
    VisionModel,
    VisionWorkload,
    Workload,
    stored_bits,
)
from recipes.machine.cluster_records import Cluster
from recipes.planning.layout_words import short_words
from recipes.planning.program_jobs import program_job
from recipes.planning.programs import OWN, program_named, program_of_stack
from recipes.planning.search import search_with_headroom
from recipes.planning.space import Request
from recipes.predict.stacks import Stack, stack_named
from recipes.predict.training_job import ImageJob, Job, TransformerJob

Here = Callable[[int | None, int | None], Cluster]
"""Function that returns this machine with the case's number of GPUs and GPUs per node.

The function raises CaseError if this machine cannot have these numbers.
"""

HERE = frozenset({"", "here", "this", "this machine", "local", "localhost"})

_ENOUGH_IMAGES = 256
_WIDE = 4096
"""Hidden size at which the constant `saturation_tokens_cuda` was measured."""


def resolve(
    case: Case,
    catalogue: Catalogue | None = None,
    *,
    here: Here | None = None,
    own_models: OwnModels | None = None,
) -> ResolvedCase:
    """Return the case with its model, machine and layout.

    `here` returns this machine, for a case whose GPU is blank, is a word for this machine, or is the GPU of
    this machine. `own_models` are the user's own models by name. Raises CaseError if the case cannot be
    predicted.
    """
    stack, notes = software_of(case)
    known = model_of(case, own_models)
    assumed = [*notes, *known.assumed]
    cluster = here(case.n_gpus, case.gpus_per_node) if here is not None and case.gpu.lower() in HERE else None
    if here is None and case.gpu and case.gpu.lower() in HERE:
        raise CaseError(f"gpu is {case.gpu!r}, which means this machine: give --here, or the GPU's name")
    gpus = cluster.world_size if cluster is not None else gpus_of(case)
    if cluster is None:
        cluster = cluster_of_case(case, gpus, catalogue or load_catalogue())
        local = _same_gpu(cluster, case, gpus, here)
        if local is not None:
            cluster = local
            assumed.append(f"gpu {case.gpu[:40]} is the GPU of this machine, whose rates are used")
    if case.n_gpus is None:
        assumed.append(f"n_gpus is {gpus}")
    case, beside = with_expert_axis(case, stack, known.model, gpus)
    open_case = _OpenCase(case, stack, known.model, cluster=cluster, gpus=gpus, notes=[*assumed, *beside])
    usual = _most_usual(open_case)
    if open_case.may_be_pure and _filled(usual) > 1.0 and not usual.fits_recomputed:
        pure = _most_usual(open_case.taken_pure())
        return pure if _filled(pure) <= 1.0 or pure.fits_recomputed else usual
    return usual


def _most_usual(open_case: "_OpenCase") -> ResolvedCase:
    """Return the layout of the search, or else the first option that fits, or else the last option.

    People recompute because a run failed, not because a model of memory predicts a failure. Therefore an
    option without recomputation that needs only a little more memory than the GPU has is kept if an option
    with recomputation fits. Raises CaseError if every option contradicts the case.
    """
    if (searched := open_case.searched()) is not None:
        return searched
    options = open_case.options()
    laid_out: ResolvedCase | None = None
    near: ResolvedCase | None = None
    problem = CaseError("")
    for choice, micro_batch in options:
        try:
            laid_out = open_case.laid_out(choice, micro_batch)
        except CaseError as error:
            problem = error
            continue
        if len(options) == 1:
            return laid_out
        laid_out = msgspec.structs.replace(laid_out, memory=laid_out.memory_of_case())
        filled = _filled(laid_out)
        if choice.checkpointing is None and near is None and 1.0 < filled <= constant("recompute_margin"):
            near = laid_out
        if filled <= 1.0:
            if near is None or choice.checkpointing is None:
                return laid_out
            return msgspec.structs.replace(
                near, recomputed=laid_out.candidate, recomputed_memory=laid_out.memory
            )
    if laid_out is None:
        raise problem
    return laid_out


def _same_gpu(named: Cluster, case: Case, gpus: int, here: Here | None) -> Cluster | None:
    """Return this machine if it has the GPUs of the case; its measured rates then apply."""
    if here is None or not named.gpu:
        return None
    try:
        local = here(gpus, case.gpus_per_node)
    except CaseError:
        return None
    return local if local.gpu == named.gpu else None


def _filled(resolved: ResolvedCase) -> float:
    """Return the fraction of the GPU's memory that the run needs; 0 if the GPU's memory is unknown."""
    limit = resolved.cluster.memory_bytes_per_rank
    return 0.0 if limit is None else resolved.memory_of_case().needed / limit.value


class _OpenCase:
    """Parts of a case that are the same for all of its possible layouts."""

    def __init__(
        self,
        case: Case,
        stack: Stack,
        model: TransformerModel | VisionModel,
        *,
        cluster: Cluster,
        gpus: int,
        notes: list[str],
    ) -> None:
        self._case, self._stack, self._model, self._cluster, self._gpus = case, stack, model, cluster, gpus
        self._is_vision = isinstance(model, VisionModel)
        self._task = task_of(case.task)
        if not self._task.is_known:
            notes.append(f"task {quoted(case.task)} is read as training of all parameters")
        numbers = numbers_of(case.precision) if case.precision else Numbers(None, mixed=True, base_bits=16)
        self._precision, taken = precision_of(
            case, numbers, stack, cluster, self._task, is_vision=self._is_vision
        )
        notes += taken
        if isinstance(model, VisionModel) and model.image_size and self._precision not in ("fp32", "tf32"):
            notes.append(f"images are stored in memory {_LAYOUTS[stack.layout]}")
        self._numbers = numbers
        self._length = case.seq_len or (
            0 if isinstance(model, VisionModel) else usual_length(model, stack, self._task)
        )
        if self._length and (case.mean_seq_len or 0) > self._length:
            raise CaseError(
                f"mean_seq_len is {case.mean_seq_len:g}, but sequences have at most {self._length} tokens: "
                "give a mean of at most seq_len, or a longer seq_len"
            )
        if case.seq_len is None and self._length:
            notes.append(f"seq_len {self._length}")
        recipe = stack.single_gpu_optimizer if gpus == 1 and self._task.tuning == "full" else ""
        words = case.optimizer
        if not words or _is_recipes(words, recipe):
            words = recipe
        self._optimizer: Optimizer = optimizer_of(words) if words else usual_optimizer(model, self._task)
        self._step = step_of(words)
        if words != case.optimizer or not words:
            notes.append(f"optimizer {words or self._optimizer}")
        if case.sharding and not sharing_of(case.sharding).is_known:
            notes.append(
                f"sharding {quoted(case.sharding)} is unknown: the prediction treats it as not stated"
            )
        self._notes = (*notes, *notes_of(case, cluster, self._precision))

    def options(self) -> list[tuple[Choice, int]]:
        """Return the possible choices for the case, each with a micro-batch, the most usual choice first."""
        options = []
        model = self._model if isinstance(self._model, TransformerModel) else None
        for choice in choices_of(self._case, self._stack, self._gpus, model=model):
            case = with_choice(self._case, choice)
            sizes = (
                (case.micro_batch,)
                if case.micro_batch
                else micro_batches_of(case, self._stack, self._gpus, self._enough())
            )
            options += [(choice, size) for size in sizes]
        return options

    def _enough(self) -> int:
        """Return the number of sequences in a micro-batch above which matrix products do not become faster.

        Narrow models need more tokens. For image models the result is a number of images.
        """
        if isinstance(self._model, VisionModel):
            return _ENOUGH_IMAGES
        tokens = constant("saturation_tokens_cuda") * _WIDE / self._model.hidden
        return max(1, min(_ENOUGH_IMAGES, int(tokens / self._length)))

    @property
    def _is_pure(self) -> bool:
        """Return whether weights are kept in 16 bits only.

        For pre-training, the word `bf16` usually means mixed precision, with fp32 weights. The software
        decides on the type of adapters (`StackMemory.pure_adapters`).
        """
        if self._precision not in ("bf16", "fp16"):
            return False
        if not self._case.precision and self._task.tuning != "full":
            return self._stack.memory.pure_adapters
        if self._numbers.mixed:
            return False
        keeps_masters = self._stack.memory.mixed_states == "master" and self._task.tuning == "full"
        tuned = not self._task.from_scratch and not keeps_masters
        return tuned or names_pure(self._case.precision) or self._stack.memory.names_pure

    @property
    def may_be_pure(self) -> bool:
        """Return whether the case's word for its precision may also mean that no tensor is in fp32."""
        return (
            bool(self._case.precision)
            and self._precision in ("bf16", "fp16")
            and not self._numbers.mixed
            and not self._is_pure
            and not self._is_vision
            and self._stack.memory.mixed_states != "master"
        )

    def taken_pure(self) -> "_OpenCase":
        """Return the same job with weights and states in 16 bits."""
        other = copy.copy(self)
        other._case = msgspec.structs.replace(self._case, precision=f"pure {self._precision}")
        words = f"{self._case.precision[:20]} is read as pure 16 bits: fp32 weights would not fit"
        other._notes = (*self._notes, words)
        return other

    def searched(self) -> ResolvedCase | None:
        """Return the fastest layout that fits; if no layout fits, the smallest.

        Return None for one GPU, if the case states a layout, or if the program has no layout for the batch.
        """
        case = self._case
        if self._gpus == 1 or not is_open(case):
            return None
        base = self._layout(Choice(), case.micro_batch or 1).candidate
        per_gpu = (case.micro_batch or self._enough()) * (case.grad_accum or 1)
        base = msgspec.structs.replace(base, global_batch=case.global_batch or self._gpus * per_gpu)
        words = case.activation_checkpointing
        pins = Pins(
            micro_batch=case.micro_batch,
            grad_accum=None if case.global_batch is None else case.grad_accum,
            activation_checkpointing=base.activation_checkpointing if words else None,
            recomputed_share=base.recomputed_share if words else None,
            ep=case.ep,
        )
        program = program_of_stack(self._stack.id) if stack_named(case.stack) else program_named(OWN)
        request = Request(self._workload(base), self._cluster, self._stack, program, pins, base)
        result, _ = search_with_headroom(request)
        members = result.ranked or result.rejected
        if not members:
            return None
        words = short_words(members[0].candidate)
        layout = f"layout {words}: the best of {result.examined} that were tried"
        resolved = self._resolved(case, members[0].job, [*self._notes, layout])
        return msgspec.structs.replace(resolved, memory=members[0].memory)

    def laid_out(self, choice: Choice, micro_batch: int) -> ResolvedCase:
        """Return the case with one choice. Raises CaseError if the choice contradicts the case."""
        case, notes = with_choice(self._case, choice), list(self._notes)
        layout = self._layout(choice, micro_batch)
        candidate = layout.candidate
        if isinstance(self._model, TransformerModel):
            require_divisible(self._model, candidate)
            # Causal attention takes the same time on all context-parallel ranks if each rank has an early and
            # a late part of a sequence.
            cuts_twice = self._model.kind == "decoder" and self._stack.spare_ranks != "sequence"
            require_whole_parts(candidate, self._length, cuts_twice=cuts_twice)
            notes += uneven_parts(self._model, candidate)
        else:
            require_whole(self._model, candidate)
        if choice.words:
            notes.append(choice.words)
        job = program_job(self._workload(candidate), candidate, self._cluster, self._stack)
        return self._resolved(case, job, notes, layout.notes)

    def _resolved(
        self, case: Case, job: Job, notes: list[str], layout_notes: tuple[str, ...] = ()
    ) -> ResolvedCase:
        """Return the case with its job, and with notes on the batch and on what the job assumes."""
        candidate = job.candidate
        if case.micro_batch is None:
            notes.append(f"micro_batch {candidate.micro_batch}")
        if case.global_batch is None:
            times = (
                ", no accumulation" if candidate.grad_accum == 1 else f", grad_accum {candidate.grad_accum}"
            )
            notes.append(
                f"global_batch {candidate.global_batch}" + (times if case.grad_accum is None else "")
            )
        notes += (
            self._image_notes(case, job) if isinstance(job, ImageJob) else self._transformer_notes(case, job)
        )
        return ResolvedCase(
            case=self._case,
            job=job,
            gpus=self._gpus,
            batch_stated=any(
                size is not None for size in (case.global_batch, case.grad_accum, case.micro_batch)
            ),
            assumed=(*notes, *layout_notes),
        )

    def _transformer_notes(self, case: Case, job: TransformerJob) -> list[str]:
        """Return the assumptions about experts, recomputation, attention, adapters and lengths of samples."""
        workload, stack, notes = job.workload, self._stack, expert_notes(job)
        if not case.activation_checkpointing:
            notes.append(f"activation_checkpointing {recompute_words(job.candidate)}")
        if case.flash_attention is None and stack.writes_scores(workload.model):
            notes.append("flash_attention false")
        if job.trains_weights:
            notes += self._adapters_left_out()
        else:
            notes += [] if self._case.lora_rank else [f"lora_rank {job.adapter_rank}"]
            notes += [] if self._case.lora_targets else [f"lora_targets {job.adapted}"]
        if stack.samples_vary(workload):
            notes.append(
                f"samples of {job.sequence:.0f} tokens, padded to the longest of a micro-batch, "
                f"of at most {self._length}"
            )
        return notes

    def _image_notes(self, case: Case, job: ImageJob) -> list[str]:
        notes = []
        if job.candidate.activation_checkpointing != "none":
            stated = case.activation_checkpointing[:40]
            notes.append(f"activation_checkpointing {stated} is ignored: such models are not recomputed")
        if self._case.mean_seq_len is not None:
            notes.append("mean_seq_len is ignored: an image model has no sequences")
        return notes + self._adapters_left_out()

    def _adapters_left_out(self) -> list[str]:
        is_stated = self._case.lora_rank is not None or self._case.lora_targets
        return ["lora_rank and lora_targets are ignored: no adapters are trained"] if is_stated else []

    def _layout(self, choice: Choice, micro_batch: int) -> Layout:
        model = self._model
        return layout_of(
            with_choice(self._case, choice),
            self._stack,
            self._gpus,
            per_node=self._cluster.ranks_per_node,
            layers=model.layers + model.encoder_layers if isinstance(model, TransformerModel) else 1,
            precision=self._precision,
            micro_batch=micro_batch,
            choice=choice,
        )

    def _workload(self, candidate: Candidate) -> Workload | VisionWorkload:
        model = self._model
        if isinstance(model, VisionModel):
            return VisionWorkload(
                model=model,
                image_size=self._case.image_size or model.image_size,
                global_batch=candidate.global_batch,
                precision=self._precision,
                optimizer=self._optimizer,
            )
        task, bits = self._task, self._numbers.base_bits
        is_masked = model.kind == "encoder" and self._case.image_size is None and task.from_scratch
        if self._stack.predicts_all and is_masked:
            model = msgspec.structs.replace(model, head_fraction=1.0)
        tuning: Tuning = "qlora" if task.tuning == "lora" and bits < 16 else task.tuning
        return Workload(
            model=model,
            sequence_length=self._length,
            global_batch=candidate.global_batch,
            precision=self._precision,
            optimizer=self._optimizer,
            pure_weights=self._is_pure,
            tuning=tuning,
            base_bits=stored_bits(tuning, bits),
            optimizer_step=self._step.kind,
            pages_states=self._step.pages,
            fine_tuning=not task.from_scratch,
            mean_length=self._case.mean_seq_len,
            length_stated=self._case.seq_len is not None,
            adapter_rank=self._stack.memory.adapter_rank or DEFAULT_ADAPTER_RANK,
        )


def _is_recipes(optimizer: str, recipe: str) -> bool:
    """Return whether the framework's recipe uses the same optimizer; the recipe's step then applies."""
    return (
        bool(recipe)
        and optimizer_of(optimizer) == optimizer_of(recipe)
        and step_of(optimizer).pages == step_of(recipe).pages
    )


_LAYOUTS = {
    "first": "channels first",
    "last": "channels last",
    "either": "channels first or channels last, equally often",
}
