"""Configurations of Hugging Face Accelerate."""

import re
from collections.abc import Callable, Iterator

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Document, Place, lines_of
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import (
    closest,
    commands,
    enclosing,
    entry,
    entry_value,
    gpus_per_node,
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
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes",
    "machine_rank", "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend",
    "same_network", "main_training_function", "enable_cpu_affinity", "deepspeed_config", "fsdp_config",
    "parallelism_config", "megatron_lm_config", "ipex_config", "mpirun_config", "downcast_bf16",
    "fp8_config", "dynamo_config", "dynamo_backend", "tpu_name", "tpu_zone", "tpu_use_cluster",
    "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env", "use_xpu", "fp16", "tp_config",
})  # fmt: skip
"""Keys of a configuration for a user's own machines, in all versions from 0.11 to 1.15.

Any other key ends the launch with a ValueError.
"""
_SAGEMAKER = frozenset({
    "ec2_instance_type", "iam_role_name", "image_uri", "profile", "region", "py_version", "base_job_name",
    "pytorch_version", "transformers_version", "sagemaker_inputs_file", "sagemaker_metrics_file",
    "additional_args",
})  # fmt: skip
_TYPES = (
    "MULTI_GPU", "MULTI_CPU", "MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_HPU",
    "FSDP", "DEEPSPEED", "MEGATRON_LM", "NO", "XLA", "TPU", "TP", "MPS", "MULTI_NEURON",
)  # fmt: skip
_WORDS: tuple[tuple[str, Callable[[str], str], tuple[str, ...], str], ...] = (
    (
        "compute_environment",
        str,
        ("LOCAL_MACHINE", "AMAZON_SAGEMAKER"),
        "Write LOCAL_MACHINE, for one machine or many.",
    ),
    ("distributed_type", str.upper, _TYPES, "Write one of these words."),
    ("mixed_precision", str.lower, ("no", "fp16", "bf16", "fp8"), "Write one of these words."),
)
"""Keys that allow only some words: key, conversion before the comparison, allowed words, correction."""
_FILE_KEYS = frozenset({
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device",
    "offload_param_device", "offload_param_nvme_path", "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
})  # fmt: skip
"""Keys that belong in DeepSpeed's own file if `deepspeed_config_file` names such a file."""
_UNUSED_KEYS = frozenset({
    "train_batch_size", "train_micro_batch_size_per_gpu", "optimizer", "scheduler", "fp16", "bf16",
    "zero_optimization", "activation_checkpointing", "offload_optimizer", "offload_param", "stage", "aio",
    "zero_allow_untested_optimizer",
})  # fmt: skip
"""Keys of DeepSpeed's own file that Accelerate does not pass on."""
_FSDP = {
    "sharding_strategy": (
        "FULL_SHARD",
        "SHARD_GRAD_OP",
        "NO_SHARD",
        "HYBRID_SHARD",
        "HYBRID_SHARD_ZERO2",
        "_HYBRID_SHARD_ZERO2",
    ),
    "auto_wrap_policy": ("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"),
    "backward_prefetch": ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"),
    "state_dict_type": ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT"),
}
"""Values in fsdp_config, in upper or lower case; a number is accepted too."""


def _integer(document: Document, path: str) -> int | None:
    item = entry_value(document, path)
    if isinstance(item, str):
        return number(item)
    return item if isinstance(item, int) and not isinstance(item, bool) else None


def processes(documents: Documents, context: Context) -> Findings:
    """Check that the number of processes counts the whole job."""
    batch = next((gpus_per_node(document) for document in documents if document.kind == "sbatch"), None)
    each = len(context.gpus) or batch
    for document, place, total, machines, comment in _stated_counts(documents):
        if total is None or machines is None or machines < 2:
            continue
        # a comment may say whether the number counts one machine or all
        message = _per_machine(total, machines, each)
        is_each = (
            re.search(r"\b(?:per|each|every|a|one)[ -](?:machine|node|host|server)", comment) is not None
        )
        if is_each and not message:
            message = (
                f"num_processes is {total} for {machines} machines, but it must count the processes of all "
                "machines together"
            )
        elif re.search(r"\b(?:total|all|overall|world)\b", comment) and each is None and not total % machines:
            message = ""
        if message:
            yield make_finding(
                "accelerate-processes",
                document,
                place,
                message,
                fix="Write the number of machines times the number of GPUs of one machine.",
                severity=None if each or is_each or total % machines else "note",
            )


def _stated_counts(documents: Documents) -> Iterator[tuple[Document, Place, int | None, int | None, str]]:
    """Yield the place of each number of processes, this number, the number of machines, and the comment."""
    for document in of_kind(documents, "accelerate"):
        item = entry(document, "num_processes")
        if item is not None and not _is_overruled(documents, document):
            total, machines = _integer(document, "num_processes"), _integer(document, "num_machines")
            yield document, item.place, total, machines, _comment(document, item.place.line)
    for document in documents:
        for command in commands(document, "accelerate"):
            total, machines = (
                option_number(document, command, name) for name in ("num-processes", "num-machines")
            )
            yield document, command.place, total, machines, ""


def _is_overruled(documents: Documents, config: Document) -> bool:
    """Return whether a command line with this configuration states the number of processes."""
    own = config.name.rpartition("/")[2]
    return any(
        "num-processes" in command.options
        and (option(command, "config-file") or own).rpartition("/")[2] == own
        for document in documents
        for command in commands(document, "accelerate")
    )


def _comment(document: Document, line: int) -> str:
    """Return the comment at the end of a line and the comment on the line above."""
    lines = lines_of(document.text)
    here = lines[line - 1].partition("#")[2] if 0 < line <= len(lines) else ""
    above = lines[line - 2].strip() if line > 1 else ""
    return f"{here} {above if above.startswith('#') else ''}".lower()


def _per_machine(total: int, machines: int, each: int | None) -> str:
    """Return the mistake in a number of processes; empty if the number is right."""
    # 8 processes on several machines are probably the GPUs of one machine
    stated = f"num_processes is {total} for {machines} machines"
    if total % machines:
        return f"{stated}, not a multiple of their number; it counts the processes of all machines"
    if total != (each or 8):
        return ""
    if each is not None:
        stated = f"{stated} of {plural(each, 'GPU')}"
        return f"{stated}: it counts the processes of all machines, here {machines * each}"
    return f"{stated}; it counts the processes of all machines, and one machine usually has 8 GPUs"


def machines(documents: Documents, context: Context) -> Findings:
    """Check that each of several machines has its own rank and the address of the first machine."""
    starts = [(document, command) for document in documents for command in commands(document, "accelerate")]
    options = {name for _, command in starts for name in command.options}
    unknown = any(has_unknown_words(command) for _, command in starts)
    for document in of_kind(documents, "accelerate"):
        count = _integer(document, "num_machines")
        item = entry(document, "num_machines")
        if count is None or count < 2 or item is None or unknown:
            continue
        if (
            entry_value(document, "main_process_ip") in (None, "", "null")
            and "main-process-ip" not in options
        ):
            yield make_finding(
                "accelerate-no-master",
                document,
                item.place,
                f"{count} machines and no main_process_ip: each machine waits at its own address",
                fix="Set main_process_ip and main_process_port to the first machine, or give them on the "
                "command line.",
            )
    for document, command in starts:
        count = option_number(document, command, "num-machines") or nodes_of(document)
        configured = next(
            (_integer(config, "num_machines") for config in of_kind(documents, "accelerate")), None
        )
        has_several_machines = (count or 0) > 1 or (configured or 0) > 1
        in_step = enclosing(document, command, "srun", "mpirun", "pdsh", "clush") is not None
        rank = option(command, "machine-rank")
        if (
            has_several_machines
            and in_step
            and (rank is None or rank == "0")
            and not has_unknown_words(command)
            and "rdzv-backend" not in command.options
        ):
            yield make_finding(
                "accelerate-machine-rank",
                document,
                command.place,
                "every machine has the number 0"
                if rank == "0"
                else "no --machine-rank: every machine has the rank in the file, or 0",
                fix="Give --machine_rank $SLURM_NODEID in single quotes, so that each node has its own rank.",
            )


def _names(document: Document) -> Findings:
    """Check the keys of the first level."""
    first = keys_below(document)
    known = _KEYS | _SAGEMAKER
    unknown = [name for name in first if name not in known and name and "$" not in name and "{" not in name]
    if len(unknown) * 2 > len(first):
        return  # the file belongs to another program
    wanted = known if entry_value(document, "compute_environment") == "AMAZON_SAGEMAKER" else _KEYS
    for name in unknown:
        near = closest(name, wanted, 0.8)
        yield make_finding(
            "accelerate-unknown-key",
            document,
            first[name].place,
            f"Accelerate has no key {name}" + suggestion(near),
            fix=f"Write {near}." if near else "Remove the key, or move it to the block where it belongs.",
        )


@per_document("accelerate")
def deepspeed_blocks(document: Document, context: Context) -> Findings:
    """Check for keys that are in the wrong one of two files: DeepSpeed's own and Accelerate's."""
    block = [item for item in document.entries if item.path.startswith("deepspeed_config.")]
    names = {item.path.split(".")[1]: item for item in reversed(block)}
    if str(entry_value(document, "distributed_type")).upper() != "DEEPSPEED":
        return
    if "deepspeed_config_file" in names:
        twice = [name for name in names if name in _FILE_KEYS]
        precision = entry(document, "mixed_precision")
        item = names[twice[0]] if twice else precision
        if item is not None and item.value is not None:
            if precision is not None and precision.value is not None:
                twice.append("mixed_precision")
            duplicates = ", ".join(twice)
            yield make_finding(
                "accelerate-deepspeed-twice",
                document,
                item.place,
                f"{duplicates} beside deepspeed_config_file: Accelerate refuses keys that belong in "
                "that file",
                fix="Write these keys only in DeepSpeed's file.",
            )
    own = [name for name in names if name in _UNUSED_KEYS]
    if own:
        yield make_finding(
            "accelerate-deepspeed-own",
            document,
            names[own[0]].place,
            f"Accelerate ignores {', '.join(own)}: it does not pass this block to DeepSpeed",
            fix="Write these keys in a DeepSpeed file, and name the file in deepspeed_config_file.",
        )


@per_document("accelerate")
def fsdp(document: Document, context: Context) -> Findings:
    """Check the values in fsdp_config."""
    if str(entry_value(document, "distributed_type")).upper() != "FSDP":
        return
    is_second = str(entry_value(document, "fsdp_config.fsdp_version")) == "2"
    sync = entry(document, "fsdp_config.fsdp_sync_module_states")
    loads = entry_value(document, "fsdp_config.fsdp_cpu_ram_efficient_loading")
    if sync is not None and sync.value is False and loads is True:
        yield make_finding(
            "accelerate-fsdp-sync",
            document,
            sync.place,
            "fsdp_cpu_ram_efficient_loading loads the weights on one rank only, so it needs "
            "fsdp_sync_module_states",
            fix="Write fsdp_sync_module_states: true.",
        )
    for item in document.entries:
        name = item.path.removeprefix("fsdp_config.").removeprefix("fsdp_")
        words = _FSDP.get(name, ()) if item.path.startswith("fsdp_config.") else ()
        if name == "reshard_after_forward" and is_second:
            words = ("TRUE", "FALSE")
        if (
            not words
            or not isinstance(item.value, str)
            or item.value.isdecimal()
            or (name == "sharding_strategy" and is_second)
        ):
            continue
        if _is_wrong(item.value.upper(), words):
            near = closest(item.value.upper(), words, 0.6)
            yield make_finding(
                "accelerate-fsdp-word",
                document,
                item.place,
                f"fsdp_{name} is {item.value}, which is not one of {', '.join(words[:5])}",
                fix=f"Write {near if near else words[0]}.",
            )


def _is_wrong(word: str, words: tuple[str, ...]) -> bool:
    """Return whether a word is not one of `words`. A template is unknown, not wrong."""
    return word not in words and "$" not in word and "{" not in word


@per_document("accelerate")
def keys(document: Document, context: Context) -> Findings:
    """Check the keys and words of the configuration."""
    yield from _names(document)
    for path, convert, words, fix in _WORDS:
        item = entry(document, path)
        if item is not None and isinstance(item.value, str) and _is_wrong(convert(item.value), words):
            yield make_finding(
                "accelerate-type",
                document,
                item.place,
                f"{path} is {item.value}, which is not one of {', '.join(words[:9])}",
                fix=fix,
            )
    kind = entry(document, "distributed_type")
    for block, wanted in (
        ("fsdp_config", "FSDP"),
        ("deepspeed_config", "DEEPSPEED"),
        ("megatron_lm_config", "MEGATRON_LM"),
    ):
        inside = next((item for item in document.entries if item.path.startswith(f"{block}.")), None)
        distributed_type = str(kind.value).upper() if kind is not None else wanted
        if (
            inside is not None
            and distributed_type != wanted
            and not (block == "fsdp_config" and distributed_type in ("XLA", "TPU"))
        ):
            yield make_finding(
                "accelerate-block-unused",
                document,
                inside.place,
                f"{block} is read only if distributed_type is {wanted}, but it is {distributed_type}",
                fix=f"Write distributed_type: {wanted}, or remove the block.",
            )
