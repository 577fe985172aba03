"""Settings that slow a job down or stop it: connections, allocator, threads, timeouts, EFA."""

import re

from probes.base.record import known
from probes.base.units import plural
from probes.base.versions import at_least
from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.rule_table import Documents, Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    commands,
    directive,
    is_set,
    last,
    mentions,
    number,
    option,
    option_number,
    tasks_per_node,
    value,
)

_FSDP = (
    r"(?i)--(?:use[-_])?(?:torch[-_])?fsdp2?\b|--use-megatron-fsdp|torchtitan|distributed_type:\s*FSDP|"
    r"fsdp_config|strategy[= ]fsdp|\bverl\."
)
_MEGATRON = r"--(?:tensor-model-parallel-size|sequence-parallel|context-parallel-size)\b"
_ALLOCATOR = frozenset({
    "max_split_size_mb", "roundup_power2_divisions", "garbage_collection_threshold", "expandable_segments",
    "backend", "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register", "pinned_num_register_threads", "pinned_use_background_threads",
    "max_non_split_rounding_mb", "per_process_memory_fraction", "graph_capture_record_stream_reuse",
    "pinned_reserve_segment_size_mb", "throw_on_cudamalloc_oom", "pinned_max_register_threads",
    "use_cuda_host_register", "pinned_max_round_threshold_mb", "pinned_max_power2_size_mb",
    "pinned_max_cached_size_mb",
})  # fmt: skip


def connections(documents: Documents, context: Context) -> Findings:
    """Check that CUDA_DEVICE_MAX_CONNECTIONS suits the kind of sharding."""
    blackwell = _is_blackwell(context)
    fsdp = any(re.search(_FSDP, document.text) for document in documents)
    for document in documents:
        item, text = (
            last(document, "CUDA_DEVICE_MAX_CONNECTIONS"),
            value(document, "CUDA_DEVICE_MAX_CONNECTIONS"),
        )
        megatron = mentions(document, _MEGATRON)
        sharded = fsdp and not re.search(r"(?i)megatron|--tp[= ][\"']?(?:[2-9]|\d\d)", document.text)
        if item is not None and text == "1" and (sharded or blackwell):
            yield make_finding(
                "connections-one",
                document,
                item.place,
                "CUDA_DEVICE_MAX_CONNECTIONS=1 serializes communication and computation, "
                + ("so FSDP cannot overlap them" if sharded else "which Blackwell does not need"),
                fix="Remove the line, or write 32; 1 is for Megatron's tensor parallelism before Blackwell.",
            )
        elif item is None and megatron and not blackwell and not fsdp:
            yield from _wants_one(document)


def _wants_one(document: Document) -> Findings:
    match = re.search(
        r"--(?:tensor-model-parallel-size|context-parallel-size)[= ]+[\"']?(\d+)", document.text
    )
    starts = next(commands(document, "torchrun"), None)
    if (
        match is not None
        and int(match[1]) > 1
        and starts is not None
        and mentions(document, r"--sequence-parallel")
    ):
        yield make_finding(
            "connections-missing",
            document,
            starts.place,
            "Megatron's sequence parallelism before Blackwell needs CUDA_DEVICE_MAX_CONNECTIONS=1, which is "
            "not set here",
            fix="export CUDA_DEVICE_MAX_CONNECTIONS=1.",
        )


def _is_blackwell(context: Context) -> bool:
    return bool(context.gpus) and all(
        known(gpu.compute_capability) and at_least(gpu.compute_capability, "10.0") is True
        for gpu in context.gpus
    )


@per_document()
def allocator(document: Document, context: Context) -> Findings:
    """Check the settings of PyTorch's allocator, and conflicts with expandable segments."""
    both = [last(document, name) for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")]
    old, new = both
    if old is not None and new is not None and old.value != new.value:
        yield make_finding(
            "allocator-two-names",
            document,
            new.place,
            "PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF differ, and PyTorch ignores one of them",
            fix="Keep only one: PYTORCH_ALLOC_CONF if torch is 2.9 or newer.",
        )
    if (
        new is not None
        and old is None
        and context.torch is not None
        and at_least(context.torch, "2.9") is False
    ):
        yield make_finding(
            "allocator-name-too-new",
            document,
            new.place,
            f"torch {context.torch} does not read PYTORCH_ALLOC_CONF",
            fix="Write PYTORCH_CUDA_ALLOC_CONF.",
        )
    for item in both:
        if item is None or not item.is_literal or not item.value:
            continue
        # lists in brackets contain commas too: roundup_power2_divisions:[256:1,512:2]
        parts = [part.strip() for part in re.sub(r"\[[^\]]*\]", "[]", item.value).split(",") if part.strip()]
        wrong = [part for part in parts if part.partition(":")[0] not in _ALLOCATOR or ":" not in part]
        if wrong:
            yield make_finding(
                "allocator-syntax",
                document,
                item.place,
                f"{item.name}: PyTorch ends with an error at {wrong[0]!r}",
                fix="Write key:value pairs with commas between them, such as expandable_segments:True.",
            )
        elif re.search(r"expandable_segments:\s*[Tt]rue", item.value):
            yield from _expandable(document, item.place)


def _expandable(document: Document, place: Place) -> Findings:
    registers = value(document, "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK") in ("1", "true") or mentions(
        document, r"--use-nccl-ub|nccl_ub"
    )
    graphs = mentions(
        document,
        r"--(?:enable[-_])?cuda[-_]graph(?:s|-impl)?\b|--external-cuda-graph|cuda_graphs?[=: ]+[Tt]rue",
    )
    why = ""
    if registers:
        why = "registration of NCCL's user buffers"
    elif value(document, "NCCL_NVLS_ENABLE") == "1":
        why = "NVLS, which is requested"
    elif graphs and value(document, "NCCL_GRAPH_REGISTER") != "0":
        why = "CUDA graphs, whose buffers NCCL registers"
    if why:
        yield make_finding(
            "expandable-segments",
            document,
            place,
            f"expandable_segments:True is incompatible with {why}",
            fix="Remove one of the two; with CUDA graphs, NCCL_GRAPH_REGISTER=0 is enough.",
        )


def _cpus(document: Document) -> int | None:
    """Return the CPUs of a Slurm task; outside of a step, the CPUs of all tasks of the node.

    None if the requests of the job do not determine the number.
    """
    asked = number(directive(document, "cpus-per-task"))
    if any(option(step, "cpus-per-task") is not None for step in commands(document, "srun")):
        return None  # the request of the step applies
    launchers = list(commands(document, *TRAINERS))
    # a launcher outside of a step has the CPUs of all tasks of the node
    outside = launchers and not any("srun" in launcher.inside for launcher in launchers)
    return asked * (tasks_per_node(document) or 1) if asked is not None and outside else asked


def _ranks_of_task(document: Document) -> int | None:
    """Return the number of ranks that share the CPUs of a Slurm task: 1 without a launcher; None if not
    stated.
    """
    launchers = list(commands(document, *TRAINERS))
    if not launchers:
        return 1
    counts = {option_number(document, launcher, "nproc-per-node") for launcher in launchers}
    return counts.pop() if len(counts) == 1 else None


@per_document()
def threads(document: Document, context: Context) -> Findings:
    """Check for more threads than CPUs."""
    cpus = context.machine.cpu.allowed_cpus if context.machine is not None else None
    item, count = last(document, "OMP_NUM_THREADS"), number(value(document, "OMP_NUM_THREADS"))
    ranks = next(
        (option_number(document, command, "nproc-per-node") for command in commands(document, "torchrun")),
        None,
    )
    asked = _cpus(document)
    each = _ranks_of_task(document)
    if (
        item is not None
        and count is not None
        and asked is not None
        and each is not None
        and count * each > asked
    ):
        yield make_finding(
            "threads-too-many",
            document,
            item.place,
            f"{each} ranks of {plural(count, 'thread')} on {plural(asked, 'CPU')}"
            if each > 1
            else f"{plural(count, 'thread')} on {plural(asked, 'CPU')}",
            fix=f"Write at most {max(1, asked // each)}.",
        )
    elif (
        item is not None
        and count is not None
        and ranks is not None
        and known(cpus)
        and cpus is not None
        and count * ranks > cpus
    ):
        yield make_finding(
            "threads-too-many",
            document,
            item.place,
            f"{plural(ranks, 'rank')} of {plural(count, 'thread')} on {plural(cpus, 'CPU')}",
            fix=f"Write at most {max(1, cpus // ranks)}.",
        )


_DAY_MINUTES = 24 * 60


@per_document()
def timeouts(document: Document, context: Context) -> Findings:
    """Check for timeouts that hide a hang for hours."""
    longest = {
        "distributed-timeout-minutes": 1440,
        "ddp-timeout": 86400,
        "ddp-timeout-seconds": 86400,
        "dist-timeout": 86400,
    }
    for command in document.commands:
        for name, most in longest.items():
            duration = number(option(command, name, name.replace("-", "_")))
            if duration is not None and duration >= most:
                yield make_finding(
                    "timeout-of-hours",
                    document,
                    command.place,
                    f"--{name} {duration}: after a hang, the job keeps its nodes for that long",
                    fix="Prepare data before training, and raise the timeout for that phase alone.",
                )
    for item in document.given:
        seconds = number(item.value) if item.is_literal else None
        if item.name == "DEEPSPEED_TIMEOUT" and seconds is not None and seconds >= _DAY_MINUTES:
            yield make_finding(
                "timeout-of-hours",
                document,
                item.place,
                f"DEEPSPEED_TIMEOUT={seconds} is in minutes: after a hang, the job keeps its nodes for "
                f"{plural(round(seconds / 60), 'hour')}",
                fix="Write the number of minutes; 30 is the default.",
            )
        if item.name == "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC" and seconds is not None and seconds > 7200:
            yield make_finding(
                "timeout-of-hours",
                document,
                item.place,
                f"{item.name}={seconds}: after a hang, the job keeps its nodes for "
                f"{plural(round(seconds / 3600), 'hour')}",
                fix="900 to 1800 is enough for long compiles and checkpoints.",
            )


@per_document()
def cloud(document: Document, context: Context) -> Findings:
    """Check the plugin for EFA on AWS, and settings that EFA ignores."""
    efa = value(document, "FI_PROVIDER") == "efa" or mentions(
        document, r"vpc\.amazonaws\.com/efa|aws-ofi-nccl|/opt/amazon/(?:efa|ofi-nccl)"
    )
    if not efa:
        return
    plugin = last(document, "NCCL_NET_PLUGIN")
    if plugin is not None and plugin.value == "none":
        yield make_finding(
            "efa-without-plugin",
            document,
            plugin.place,
            "NCCL_NET_PLUGIN=none: NCCL needs a plugin for EFA; without a plugin NCCL silently uses TCP",
            fix="Remove the setting, or name /opt/amazon/ofi-nccl/lib/libnccl-net.so.",
        )
    if is_set(document, "NCCL_IB_HCA", "NCCL_IB_GID_INDEX") and last(document, "NCCL_IB_DISABLE") is None:
        item = last(document, "NCCL_IB_HCA") or last(document, "NCCL_IB_GID_INDEX")
        if item is not None:
            yield make_finding(
                "efa-infiniband-settings",
                document,
                item.place,
                f"{item.name} is for InfiniBand and RoCE; EFA does not read it",
                fix="Remove it.",
            )


@per_document()
def tcp_providers(document: Document, context: Context) -> Findings:
    """Check for libfabric over TCP."""
    item = last(document, "FI_PROVIDER")
    if item is not None and item.value in ("tcp", "sockets", "tcp;ofi_rxm", "udp"):
        yield make_finding(
            "fi-provider-tcp",
            document,
            item.place,
            f"FI_PROVIDER={item.value} sends over TCP, even on machines with EFA",
            fix="Remove the line; the plugin then chooses the provider.",
        )
