"""Megatron-LM: arguments of pretrain_gpt.py, with the sizes of the model."""

from collections.abc import Iterator

from recipes.launch.known_names import require_known
from recipes.launch.plan_remarks import embedding_remarks
from recipes.launch.program_files import ProgramFiles, own_words, torch_agent
from recipes.launch.program_limits import program_row, recipe_options, refuse
from recipes.launch.recipe import Environment, Recipe, program_arguments, settings
from recipes.launch.slots import slot_value
from recipes.launch.user_arguments import Option, merge, options_of

_ID = "megatron"
_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"
_SCHEDULES = ("cosine", "linear", "constant", "wsd")
_VALUES = {"query_key_norm": ("head",)}
"""Sizes that are words, and the words for which Megatron has an option; others are numbers or booleans."""
_ALSO = (
    *("--fp16", "--bf16", "--fp8-format", "--fp8-recipe", "--fp4-format", "--fp4-recipe"),
    *("--recompute-activations", "--recompute-num-layers", "--recompute-method"),
    *("--num-virtual-stages-per-pipeline-rank", "--pipeline-model-parallel-layout"),
    *("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"),
    *("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"),
    *("--use-megatron-fsdp", "--use-torch-fsdp2", "--data-parallel-sharding-strategy"),
    *("--train-samples", "--lr-warmup-samples", "--lr-warmup-fraction", "--optimizer"),
)
"""Options that state a decision of a plan, in addition to those of `programs.toml`."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return the arguments of pretrain_gpt.py, or of the user's own script with Megatron's arguments.

    Raises UsageError for adapters, for a model, a learning-rate schedule or an optimizer that the arguments
    cannot state, and for an unknown placeholder.
    """
    theirs = options_of(program_arguments(recipe))
    is_own = recipe.command.kind in ("script", "module")
    _require_possible(recipe, is_own=is_own)
    plan = (*_model(recipe), *_layout(recipe))
    defaults = (*_places(recipe, theirs), *_habits(recipe))
    require_known(_ID, [option[0] for option in (*plan, *defaults)])
    row = program_row(recipe)
    decided = {name for name in (*row.settings.values(), *row.sizes.values()) if name.startswith("--")}
    merged = merge(theirs, plan, defaults, decided={*decided, *_ALSO} - {row.sizes["dense_layers"]})
    return ProgramFiles(
        words=(*(own_words(recipe, ()) if is_own else ("pretrain_gpt.py",)), *merged.words),
        agent=torch_agent(recipe),
        environment=_environment(recipe),
        modules=("torch",),
        notes=(*merged.notes, *_notes(recipe, theirs, is_own=is_own), *embedding_remarks(recipe)),
    )


def _require_possible(recipe: Recipe, *, is_own: bool) -> None:
    """Raise UsageError for what pretrain_gpt.py cannot train."""
    details, schedule = recipe.model_details, recipe.convergence.schedule
    sizes = program_row(recipe).sizes
    foreign = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in details.items()
        if (name not in sizes or value not in _VALUES.get(name, (value,))) and name not in _UNBUILT
    ]
    unknown = (
        "give your own script with its arguments after `--` of `rigtune plan`, such as -- pretrain_gpt.py ..."
    )
    faults = (
        (
            foreign and not is_own,
            f"its arguments cannot state {', '.join(foreign)} of {recipe.text_model.id}",
            unknown,
        ),
        (
            recipe.job.tuning != "full",
            f"pretrain_gpt.py has no {recipe.job.tuning} training",
            "set job.tuning = 'full', or train adapters with Megatron-Bridge, or plan for another program",
        ),
        (
            schedule not in _SCHEDULES,
            f"it has no learning-rate schedule {schedule}",
            f"set convergence.schedule to one of {', '.join(_SCHEDULES)}",
        ),
        (
            recipe.job.optimizer != "adamw",
            f"rigtune writes its Adam, not {recipe.job.optimizer}",
            "set job.optimizer = 'adamw'",
        ),
    )
    refuse("Megatron-LM", faults)


_UNBUILT = frozenset({"dropout", "raises_logits", "norm_bias"})
"""Details of a published model that change neither the sizes nor the shape of its layers."""


def _model(recipe: Recipe) -> Iterator[Option]:
    """Yield the sizes of the model."""
    shape, details, sizes = recipe.text_model, recipe.model_details, program_row(recipe).sizes
    has_latents = "key_value_latent" in details
    for name, option in sizes.items():
        value = getattr(shape, name, None) or details.get(name)
        if name == "dense_layers":
            if value:
                yield (option, f"([0]*{value}+[1]*{shape.layers - value})")
        elif name == "head_dim" and has_latents:
            yield ("--qk-head-dim", str(value))
        elif name == "kv_heads" and (has_latents or value == shape.heads):
            continue
        elif name in _VALUES or value is True:
            if value:
                yield (option,)
        elif value:
            yield (option, str(value))
    positions = max(recipe.text_model.sequence_length, shape.learned_positions)
    yield ("--max-position-embeddings", str(positions))
    yield ("--position-embedding-type", "learned_absolute" if shape.learned_positions else "rope")
    yield ("--normalization", "RMSNorm" if shape.norm == "rmsnorm" else "LayerNorm")
    flags = {
        "--group-query-attention": shape.kv_heads < shape.heads and not has_latents,
        "--multi-latent-attention": has_latents,
        "--swiglu": shape.gated_mlp,
        "--disable-bias-linear": not shape.bias,
        "--add-qkv-bias": shape.qkv_bias and not shape.bias,
        "--untie-embeddings-and-output-weights": not shape.tied_embeddings,
    }
    yield from ((name,) for name, is_needed in flags.items() if is_needed)
    if details.get("router_correction"):
        yield ("--moe-router-score-function", "sigmoid")  # Megatron adds a correction only to this function


def _layout(recipe: Recipe) -> Iterator[Option]:
    """Yield the decisions of the plan, with an explicit layout of the pipeline if equal parts would lack more
    than two layers.
    """
    degrees = recipe.parallelism.degrees
    missing = -recipe.text_model.layers % (degrees.pp * degrees.vp)
    has_layout = degrees.pp > 1 and missing > len(_ENDS)
    for option in recipe_options(recipe):
        if not (has_layout and option[0] == "--num-layers-per-virtual-pipeline-stage"):
            yield option
    if has_layout:
        heads = int(recipe.model_details.get("prediction_layers", 0))
        layout = pipeline_layout(recipe.text_model.layers, degrees.pp * degrees.vp, prediction_layers=heads)
        yield ("--pipeline-model-parallel-layout", layout)


_ENDS = ("E", "L")
"""Letters of the embedding and of the loss in a pipeline's layout."""


def pipeline_layout(layers: int, parts: int, *, prediction_layers: int = 0) -> str:
    """Return Megatron's layout of a pipeline whose parts differ by at most one layer.

    The first and the last part have the embedding and the loss, so they are among the smaller parts. Layers
    that predict further tokens are in the part with the loss.
    """
    most, missing = -(-layers // parts), -layers % parts
    order = [0, parts - 1, *range(1, parts - 1)]
    smaller = set(order[:missing])
    counts = [most - (part in smaller) for part in range(parts)]
    texts = [f"t*{count}" if count > 1 else "t" * count for count in counts]
    return "|".join(
        [f"{_ENDS[0]}{texts[0]}", *texts[1:-1], f"{texts[-1]}{'m' * prediction_layers}{_ENDS[1]}"]
    )


def _places(recipe: Recipe, theirs: tuple[Option, ...]) -> Iterator[Option]:
    """Yield the options for checkpoints, data and tokenizer.

    A run loads the newest checkpoint of the folder to which it saves.
    """
    checkpoints = slot_value(recipe, "checkpoints") or _folder(recipe)
    yield ("--save", checkpoints)
    yield ("--load", checkpoints)
    if slot_value(recipe, "model"):
        yield ("--pretrained-checkpoint", slot_value(recipe, "model"))
    if slot_value(recipe, "data"):
        yield ("--data-path", slot_value(recipe, "data"))
    elif not _names_data(theirs):
        yield ("--mock-data",)
    if slot_value(recipe, "tokenizer"):
        yield ("--tokenizer-type", "HuggingFaceTokenizer")
        yield ("--tokenizer-model", slot_value(recipe, "tokenizer"))
    elif not _names_tokenizer(theirs):
        yield ("--tokenizer-type", "NullTokenizer")
        yield ("--vocab-size", str(recipe.text_model.vocab))


def _folder(recipe: Recipe) -> str:
    return f"{slot_value(recipe, 'output') or '.'}/checkpoints/{recipe.name}"


def _names_data(theirs: tuple[Option, ...]) -> bool:
    return any(option[0].endswith("data-path") or option[0] == "--data-args-path" for option in theirs)


def _names_tokenizer(theirs: tuple[Option, ...]) -> bool:
    return any(option[0].startswith("--tokenizer") or option[0] == "--vocab-file" for option in theirs)


def _habits(recipe: Recipe) -> Iterator[Option]:
    """Yield options for checkpoints, logs, overlapped communication and experts; the user's options replace
    them.

    SIGTERM, which a scheduler sends before it ends a job, causes a last checkpoint.
    """
    parallelism = recipe.parallelism
    yield ("--save-interval", settings(recipe)["checkpoint_steps"])
    yield ("--exit-signal-handler",)
    yield ("--log-interval", "1")
    yield ("--log-throughput",)
    yield ("--eval-iters", "0")
    if parallelism.strategy == "zero1":
        yield ("--overlap-grad-reduce",)
        yield ("--overlap-param-gather",)
    if parallelism.ep > 1:
        yield ("--moe-token-dispatcher-type", "alltoall")
    if "experts" in recipe.model_details:
        yield ("--moe-grouped-gemm",)


def _environment(recipe: Recipe) -> tuple[Environment, ...]:
    """Return the variable for one hardware queue, which tensor and context parallelism need before
    Blackwell.
    """
    parallelism = recipe.parallelism
    if parallelism.tp == parallelism.cp == 1:
        return ()
    return (
        Environment(
            name=_QUEUES,
            value="1",
            why="Megatron refuses tensor and context parallelism without this value on GPUs before Blackwell",
            source="NVIDIA/Megatron-LM d98e8a64 megatron/training/arguments.py, read 2026-11-23",
        ),
    )


def _notes(recipe: Recipe, theirs: tuple[Option, ...], *, is_own: bool) -> tuple[str, ...]:
    queues = [variable.value for variable in recipe.environment if variable.name == _QUEUES]
    is_divided = max(recipe.parallelism.tp, recipe.parallelism.cp) > 1
    given = {option[0] for option in theirs}
    notes = (
        (
            not is_own and not slot_value(recipe, "workdir"),
            "pretrain_gpt.py lies in a checkout of Megatron-LM: start the job there, or fill `workdir`",
        ),
        (
            not slot_value(recipe, "data") and not _names_data(theirs),
            "Warning: the slot `data` is empty, so training reads Megatron's mock data; fill it with the "
            "prefix of files that tools/preprocess_data.py wrote",
        ),
        (
            not slot_value(recipe, "tokenizer") and not _names_tokenizer(theirs),
            "The slot `tokenizer` is empty: NullTokenizer takes token numbers as they are in the data",
        ),
        (
            not slot_value(recipe, "checkpoints") and "--save" not in given,
            f"The slot `checkpoints` is empty: every node must reach the folder {_folder(recipe)}",
        ),
        (
            recipe.job.fine_tuning
            and not slot_value(recipe, "model")
            and given.isdisjoint(("--pretrained-checkpoint", "--load")),
            "Warning: the slot `model` is empty, so training starts from random weights",
        ),
        (
            is_divided and queues not in ([], ["1"]),
            f"Warning: before Blackwell Megatron refuses {_QUEUES} = {', '.join(queues)} with tensor or "
            "context parallelism; set it to 1",
        ),
        (
            recipe.parallelism.precision in ("fp8", "mxfp8", "nvfp4"),
            f"{recipe.parallelism.precision} needs Transformer Engine",
        ),
    )
    return tuple(text for is_needed, text in notes if is_needed)
