"""DeepSpeed: its configuration, its command line, and the variables that its launcher passes on."""

import re

from probes.base.grouping import first_names
from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.reach import given_to, setting_for
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import (
    closest,
    commands,
    entry,
    entry_value,
    has_unknown_words,
    keys_below,
    nodes_of,
    number,
    of_kind,
    option,
    option_number,
    suggestion,
)

_KEYS = frozenset({
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "optimizer",
    "scheduler", "fp16", "bf16", "bfloat16", "amp", "gradient_clipping", "zero_optimization",
    "zero_allow_untested_optimizer", "steps_per_print", "wall_clock_breakdown", "dump_state",
    "flops_profiler", "activation_checkpointing", "sparse_attention", "data_efficiency", "data_types",
    "elasticity", "autotuning", "comms_logger", "tensorboard", "wandb", "csv_monitor", "comet", "checkpoint",
    "aio", "communication_data_type", "prescale_gradients", "gradient_predivide_factor", "sparse_gradients",
    "disable_allgather", "memory_breakdown", "curriculum_learning", "compression_training",
    "zero_force_ds_cpu_optimizer", "pipeline", "nebula", "seq_parallel_communication_data_type",
    "hybrid_engine", "progressive_layer_drop", "eigenvalue", "use_data_before_expert_parallelism",
    "graph_harvesting", "timers", "compile", "tensor_parallel", "torch_autocast", "weight_quantization",
    "load_universal_checkpoint", "dataloader_drop_last", "zero_quantized_weights", "checkpoint_engine",
    "domino", "compute_optimal", "torch_compile", "inference", "mics", "zenflow", "sequence_parallel_size",
    "round_robin_gradients", "data_parallel_size", "$schema", "train_iters", "vocabulary_size",
    "monitor_config", "quantize_training", "tensor_model_parallel_size", "superoffload",
})  # fmt: skip
_ZERO = frozenset({
    "stage", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size",
    "use_multi_rank_bucket_allreduce", "allgather_partitions", "allgather_bucket_size", "overlap_comm",
    "compute_grad_norm", "load_from_fp32_weights", "elastic_checkpoint", "offload_param",
    "offload_optimizer", "zenflow", "sub_group_size", "cpu_offload", "cpu_offload_param",
    "cpu_offload_params", "cpu_offload_use_pin_memory", "prefetch_bucket_size",
    "stage3_prefetch_bucket_size", "param_persistence_threshold", "stage3_param_persistence_threshold",
    "model_persistence_threshold", "stage3_model_persistence_threshold", "max_live_parameters",
    "stage3_max_live_parameters", "max_reuse_distance", "stage3_max_reuse_distance",
    "gather_16bit_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save", "module_granularity_threshold",
    "stage3_module_granularity_threshold", "use_all_reduce_for_fetch_params",
    "stage3_use_all_reduce_for_fetch_params", "allgather_sequential", "stage3_allgather_sequential",
    "ignore_unused_parameters", "legacy_stage1", "round_robin_gradients", "parameter_alignment",
    "zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_nontrainable_weights",
    "zero_quantized_gradients", "memory_efficient_linear", "pipeline_loading_checkpoint",
    "override_module_apply", "log_trace_cache_warnings", "enable_sanity_checks",
    "save_muon_momentum_buffer_in_memory", "leaf_module", "mics_shard_size",
    "mics_hierarchical_params_gather", "grad_partition_groups", "stage3_leaf_modules",
    "zeropp_loco_param", "partition_stream_chunk_size", "stage3_partition_stream_chunk_size",
})  # fmt: skip
"""Keys of the block zero_optimization, in all versions up to 0.19. DeepSpeed refuses other keys."""
_PRECISION = {
    "fp16": (
        "enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
        "consecutive_hysteresis", "min_loss_scale", "fp16_master_weights_and_grads",
    ),
    "bf16": (
        "enabled", "immediate_grad_update", "check_grad_overflow", "bf16_master_weights_and_grads",
        "bf16_optimizer_states",
    ),
}  # fmt: skip
"""Keys of the precision blocks, up to version 0.19.

New DeepSpeed refuses other keys in these blocks; older versions ignored them.
"""
_ACCELERATE_KEYS = frozenset({
    "zero_stage", "offload_optimizer_device", "offload_param_device", "zero3_init_flag",
    "zero3_save_16bit_model", "deepspeed_multinode_launcher",
})  # fmt: skip
_DEVICES = ("cpu", "nvme", "none")
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")
_BLOCK = "zero_optimization."
_FORWARDED = ("NCCL", "PYTHON", "MV2", "UCX", "MLFLOW")
"""Beginnings of the names of variables that DeepSpeed's runner passes to other machines."""
_NEEDED = re.compile(
    r"LD_LIBRARY_PATH|LD_PRELOAD|FI_\w+|HF_\w+|TORCH_\w+|CUDA_(?!VISIBLE_DEVICES|HOME)\w+|GLOO_\w+|"
    r"OMP_NUM_THREADS|WANDB_\w+|TRANSFORMERS_\w+"
)


def _integer(document: Document, path: str) -> int | None:
    value = entry_value(document, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def batches(documents: Documents, context: Context) -> Findings:
    """Check that the batch is the product of micro-batch, accumulation steps and ranks."""
    world = _world(documents)
    for document in of_kind(documents, "deepspeed"):
        total, micro, steps = (
            _integer(document, name)
            for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
        )
        item = entry(document, "train_batch_size")
        if total is None or item is None or micro is None:
            continue
        # DeepSpeed requires batch = micro-batch x accumulation steps x ranks
        part = micro * (steps or 1)
        stated = f"train_batch_size {total}, micro-batch {micro}" + (
            f", accumulation {steps}" if steps else ""
        )
        if part and total % part:
            yield make_finding(
                "deepspeed-batch",
                document,
                item.place,
                f"{stated}: no number of ranks gives this batch",
                fix="Remove train_batch_size, train_micro_batch_size_per_gpu or gradient_accumulation_steps; "
                "DeepSpeed computes the missing value.",
            )
        elif steps is not None and world is not None and total != part * world:
            yield make_finding(
                "deepspeed-batch",
                document,
                item.place,
                f"{stated} and {plural(world, 'rank')} give {part * world}",
                fix="Remove one of the three values; DeepSpeed then computes it.",
            )


def _world(documents: Documents) -> int | None:
    for document in documents:
        for command in commands(document, "deepspeed", "torchrun"):
            each = option_number(document, command, "num-gpus", "nproc-per-node")
            nodes = option_number(document, command, "num-nodes", "nnodes") or (
                1 if "hostfile" not in command.options else None
            )
            if each is not None and nodes is not None:
                return each * nodes
    return None


@per_document("deepspeed")
def contents(document: Document, context: Context) -> Findings:
    """Check the blocks, keys and values of a configuration."""
    half = entry(document, "fp16.enabled")
    if (
        half is not None
        and half.value is True
        and True in (entry_value(document, "bf16.enabled"), entry_value(document, "bfloat16.enabled"))
    ):
        yield make_finding(
            "deepspeed-two-precisions",
            document,
            half.place,
            "fp16 and bf16 are both enabled",
            fix="Enable only one of the two.",
        )
    yield from _zero(document)
    yield from _places(document)
    yield from _precision(document)
    yield from _values(document)
    yield from _slow(document)
    known = _KEYS | _ZERO | _ACCELERATE_KEYS
    for name, item in keys_below(document).items():
        near = "" if name in known else closest(name, _KEYS, 0.85)
        if near:
            yield make_finding(
                "deepspeed-unknown-key",
                document,
                item.place,
                f"DeepSpeed does not read {name}; did you mean {near}?",
                fix=f"Write {near}.",
            )


def _zero(document: Document) -> Findings:
    stage, item = _integer(document, "zero_optimization.stage"), entry(document, "zero_optimization.stage")
    if item is None or stage is None:
        return
    if not 0 <= stage <= 3:
        yield make_finding(
            "deepspeed-stage", document, item.place, f"there is no ZeRO stage {stage}", fix="Write 0 to 3."
        )
    for block, least in (("offload_param", 3), ("offload_optimizer", 1)):
        device = entry(document, f"zero_optimization.{block}.device")
        if device is not None and device.value in ("cpu", "nvme") and stage < least:
            yield make_finding(
                "deepspeed-stage",
                document,
                device.place,
                f"{block} needs ZeRO stage {least} or higher, but the stage is {stage}",
                fix=f"Use stage {least}, or remove {block}.",
            )


def _places(document: Document) -> Findings:
    """Check for keys in the wrong block."""
    first = keys_below(document)
    lost = [name for name in first if name not in _KEYS and (name in _ZERO or name in _ACCELERATE_KEYS)]
    if lost:
        keys = first_names(sorted(lost), 4)
        yield make_finding(
            "deepspeed-misplaced",
            document,
            first[sorted(lost)[0]].place,
            f"DeepSpeed does not read {keys} at the first level",
            fix="Move the setting into zero_optimization, where it may have another name.",
        )
    for name, item in keys_below(document, _BLOCK).items():
        if name in _ZERO or name.startswith(("_", "/", "#")) or "$" in name or "{" in name:
            continue
        near = closest(name, _ZERO, 0.8)
        yield make_finding(
            "deepspeed-zero-key",
            document,
            item.place,
            f"zero_optimization has no {name}, so DeepSpeed ends with an error" + suggestion(near),
            fix=f"Write {near}." if near else "Remove the key, or move it if it belongs to the first level.",
        )


def _precision(document: Document) -> Findings:
    for block, keys in _PRECISION.items():
        for item in document.entries:
            match = re.fullmatch(rf"{block}\.([A-Za-z]\w*)", item.path)
            if match is None or match[1] in keys:
                continue
            name = match[1]
            near = closest(name, keys, 0.8)
            yield make_finding(
                "deepspeed-precision-key",
                document,
                item.place,
                f"{block} has no {name}"
                + (f"; did you mean {near}?" if near else ": new DeepSpeed ends with an error"),
                fix=f"Write {near}." if near else "Remove it.",
            )


_BLOCKS = frozenset({
    *_PRECISION, "bfloat16", "zero_optimization", "zero_optimization.offload_param",
    "zero_optimization.offload_optimizer", "optimizer", "scheduler", "activation_checkpointing", "amp", "aio",
    "flops_profiler", "comms_logger", "tensorboard", "wandb", "csv_monitor", "comet", "torch_autocast",
    "progressive_layer_drop", "pipeline",
})  # fmt: skip
"""Keys whose value is a block, or null."""
_SWITCHED = frozenset({
    *_PRECISION, "bfloat16", "amp", "flops_profiler", "comms_logger", "tensorboard", "wandb", "csv_monitor",
    "comet", "torch_autocast", "progressive_layer_drop",
})  # fmt: skip
"""Blocks that the key `enabled` turns on."""


def _values(document: Document) -> Findings:
    """Check for values of a type that DeepSpeed or PyTorch refuses."""
    for item in document.entries:
        text = item.value if isinstance(item.value, str) else ""
        is_switch = isinstance(item.value, bool)
        # DeepSpeed still accepts the old form "zero_optimization": true
        is_old = is_switch and item.path == "zero_optimization"
        if item.path in _BLOCKS and isinstance(item.value, bool | str) and not is_old:
            written = str(item.value).lower() if is_switch else f'"{item.value}"'
            inside = f'"enabled": {written}' if is_switch and item.path in _SWITCHED else "..."
            if ".offload_" in item.path:
                inside = f'"device": "{text if text in _DEVICES else "cpu" if item.value else "none"}"'
            yield make_finding(
                "deepspeed-value",
                document,
                item.place,
                f"{item.path} must be a block, but it is {written}",
                fix=f'Write "{item.path.rpartition(".")[2]}": {{{inside}}}.',
            )
        elif re.fullmatch(
            r"zero_optimization\.offload_(?:param|optimizer)\.device", item.path
        ) and re.fullmatch(r"\w+", text):
            if text not in _DEVICES:
                yield make_finding(
                    "deepspeed-value",
                    document,
                    item.place,
                    f"DeepSpeed cannot offload to {text}, only to {', '.join(_DEVICES)}",
                    fix="Write cpu or nvme, or remove the block.",
                )
        elif re.fullmatch(r"optimizer\.params\.(?:lr|eps|weight_decay)", item.path) and _NUMBER.fullmatch(
            text
        ):
            yield make_finding(
                "deepspeed-value",
                document,
                item.place,
                f"{item.path} is a string, but the optimizer needs a number",
                fix=f"Write {text} without quotes.",
            )


def _slow(document: Document) -> Findings:
    for path, why in (
        ("wall_clock_breakdown", "DeepSpeed waits for the GPU after every part of a step"),
        ("flops_profiler.enabled", "DeepSpeed profiles during training"),
        ("comms_logger.enabled", "DeepSpeed waits for every collective to measure its time"),
    ):
        item = entry(document, path)
        if item is not None and item.value is True:
            yield make_finding(
                "deepspeed-debugging-left",
                document,
                item.place,
                f"{path} is on: {why}",
                fix="Turn it off in production runs.",
            )


def _is_remote(document: Document, command: Command) -> bool:
    if "no-ssh" in command.options:
        return False
    return (
        any(name in command.options for name in ("hostfile", "H"))
        or (number(option(command, "num-nodes")) or 1) > 1
    )


def forwarding(documents: Documents, context: Context) -> Findings:
    """Check for variables that do not reach the other machines."""
    has_file = any(document.name.rpartition("/")[2] == ".deepspeed_env" for document in documents)
    for document in documents:
        if has_file or re.search(r"\.deepspeed_env|DS_ENV_FILE", document.text):
            continue
        for command in commands(document, "deepspeed"):
            if not _is_remote(document, command) or option(command, "launcher") in (
                "slurm",
                "openmpi",
                "impi",
                "mpich",
            ):
                continue
            given = given_to(document, command)
            lost = [
                item
                for name, item in given.items()
                if _NEEDED.fullmatch(name) and not name.startswith(_FORWARDED)
            ]
            if lost:
                names = ", ".join(dict.fromkeys(item.name for item in lost))
                yield make_finding(
                    "deepspeed-not-forwarded",
                    document,
                    lost[0].place,
                    f"deepspeed does not pass {names} to the other machines, only names that begin with "
                    f"{', '.join(_FORWARDED)}",
                    fix="Write the variables in .deepspeed_env, one NAME=value per line.",
                )
            visible = given.get("CUDA_VISIBLE_DEVICES")
            if visible is not None:
                yield make_finding(
                    "deepspeed-visible-devices",
                    document,
                    visible.place,
                    "deepspeed ignores CUDA_VISIBLE_DEVICES if it has a hostfile",
                    fix="Choose GPUs with --include host:0,1.",
                )
            if "srun" in command.inside and (nodes_of(document) or 1) > 1:
                yield make_finding(
                    "launcher-in-launcher",
                    document,
                    command.place,
                    "srun starts deepspeed on every node, and each deepspeed starts all nodes over ssh",
                    fix="Start deepspeed once, or use --no_ssh with --node_rank.",
                )


_FILTERS = ("include", "exclude")
_COUNTS = ("num-nodes", "num-gpus")


@per_document()
def command_lines(document: Document, context: Context) -> Findings:
    """Check for options that exclude or need each other, and for choices of GPUs that have no effect."""
    for command in commands(document, "deepspeed"):
        yield from _visible(document, command)
        filters = [name for name in _FILTERS if name in command.options]
        counts = [name for name in _COUNTS if name in command.options]
        if filters and counts:
            yield make_finding(
                "deepspeed-options",
                document,
                command.place,
                f"--{filters[0]} and --{counts[0].replace('-', '_')} exclude each other, so DeepSpeed "
                "ends with an error",
                fix=f"Keep --{filters[0]}.",
            )
        alone = {"no-ssh"} <= set(command.options) and "node-rank" not in command.options
        if alone and not has_unknown_words(command):
            yield make_finding(
                "deepspeed-options",
                document,
                command.place,
                "--no_ssh needs --node_rank: without it DeepSpeed ends with an error",
                fix="Give --node_rank, with a different number on each node, and --master_addr.",
            )


def _visible(document: Document, command: Command) -> Findings:
    """Check CUDA_VISIBLE_DEVICES together with options that choose GPUs, on one machine."""
    item = setting_for(document, command, "CUDA_VISIBLE_DEVICES")
    if item is None or "hostfile" in command.options or item.is_conditional:
        return
    chooser = next((name for name in (*_FILTERS, "num-gpus") if name in command.options), None)
    devices = [part.strip() for part in (item.value or "").split(",") if part.strip()]
    if chooser is None or not devices or devices == [str(number) for number in range(len(devices))]:
        return  # these are the GPUs that DeepSpeed uses anyway
    option = chooser.replace("-", "_")
    yield make_finding(
        "deepspeed-visible-devices",
        document,
        item.place,
        f"deepspeed ignores CUDA_VISIBLE_DEVICES={item.value} because of --{option}, and counts GPUs from 0",
        fix=f"Write only --include localhost:{','.join(devices)}.",
    )
