"""Containers of docker, podman and compose: memory, devices, network, and GPUs compared with ranks."""

import functools
import itertools
import re
from collections.abc import Iterator

from probes.base.record import Record
from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Entry, Place
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    code_lines,
    commands,
    nodes_of,
    number,
    option,
    ranks_here,
    resolved,
    starts,
    total,
    words,
)


class Container(Record, kw_only=True):
    """The options of one container and the commands that it starts."""

    document: Document
    place: Place
    line: str
    """All options, joined into one line: the words of a command, or `key=value` for each key of a service."""
    inner: tuple[Command, ...]
    """Commands that run in the container."""
    command: Command | None = None
    """The `docker run` command; None for a service."""
    entries: tuple[Entry, ...] = ()
    """Entries of the service with their full paths."""

    def has(self, expression: str) -> bool:
        return re.search(expression, self.line) is not None

    @property
    def uses_gpus(self) -> bool:
        """Return whether the container requests NVIDIA's GPUs."""
        return self.has(
            r"--gpus\b|--runtime[= ]nvidia|--device[= ]nvidia\.com|devices\[\d+\]\.(?:capabilities|driver)|"
            r"runtime=nvidia|\bgpus="
        )

    @property
    def trains(self) -> bool:
        return any(starts(command) in (*TRAINERS, "mpirun", "horovodrun") for command in self.inner)

    @property
    def is_distributed(self) -> bool:
        """Return whether ranks of the container communicate with ranks of other machines."""
        return self.nodes > 1

    @property
    def nodes(self) -> int:
        counts = [
            number(resolved(self.document, option(command, "nnodes", "num-machines")))
            for command in self.inner
        ]
        return max([count for count in counts if count is not None] or [nodes_of(self.document) or 1])

    @property
    def ranks(self) -> int | None:
        counts = [
            number(resolved(self.document, option(command, "nproc-per-node", "num-processes", "num-gpus")))
            for command in self.inner
        ]
        return next((count for count in counts if count is not None), None)


def _is_inside(outer: tuple[str, ...], command: Command) -> bool:
    return command.inside[: len(outer)] == outer


def containers_of(document: Document) -> Iterator[Container]:
    """Yield the containers that a file starts."""
    for command in commands(document, "docker", "podman", "nerdctl"):
        line = words(command)
        if re.match(r"(?:container )?(?:run|create)\b", line):
            # the commands after `docker run` that the container runs
            below = (*command.inside, command.program)
            after = document.commands[document.commands.index(command) + 1 :]
            inner = tuple(itertools.takewhile(functools.partial(_is_inside, below), after))
            yield Container(document=document, place=command.place, line=line, inner=inner, command=command)
    if document.kind == "compose":
        names = dict.fromkeys(
            match[1] for item in document.entries if (match := re.match(r"services\.([^.\[]+)", item.path))
        )
        for name in names:
            own_entries = [item for item in document.entries if item.path.startswith(f"services.{name}.")]
            if not own_entries:  # the service is not a mapping
                continue
            first, final = (
                own_entries[0].place.line,
                max(item.place.end_line or item.place.line for item in own_entries),
            )
            inner = tuple(command for command in document.commands if first <= command.place.line <= final)
            line = " ".join(
                f"{item.path.removeprefix(f'services.{name}.')}={item.value}" for item in own_entries
            )
            yield Container(
                document=document,
                place=own_entries[0].place,
                line=line,
                inner=inner,
                entries=tuple(own_entries),
            )


_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SMALLEST_SHM = 2**30
"""Bytes of shared memory that the troubleshooting chapter of NCCL's guide recommends."""


def _size(text: str) -> int | None:
    match = re.fullmatch(r"[\"']?(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?[\"']?", text.strip().lower())
    return None if match is None else int(float(match[1]) * _UNITS[match[2]])


@per_document()
def memory(document: Document, context: Context) -> Findings:
    """Check shared memory, locked memory and the limit of open files."""
    for box in containers_of(document):
        if not box.uses_gpus:
            continue
        size = re.search(r"--shm-size[= ](\S+)|(?:^| )shm_size=(\S+)", box.line)
        own = box.has(
            r"--ipc[= ](?:host|shareable|container)|(?:^| )ipc=|/dev/shm|--privileged.*--ipc|"
            r"--shm-size[= ]\$"
        )
        has_several_ranks = box.trains and box.ranks != 1
        if size is not None and not own:
            wanted = _size(size[1] or size[2])
            if wanted is not None and wanted < _SMALLEST_SHM:
                yield make_finding(
                    "container-shm",
                    document,
                    box.place,
                    f"shared memory of {size[1] or size[2]} is too little for NCCL and data loaders",
                    fix="Give --shm-size=16g, or --ipc=host.",
                )
        elif size is None and not own and has_several_ranks:
            yield make_finding(
                "container-shm",
                document,
                box.place,
                "the container gets 64 MiB of /dev/shm, for NCCL and data loaders of several ranks",
                fix="Give --shm-size=16g or --ipc=host (compose: shm_size, ipc).",
            )
        yield from _locked(box)
        yield from _ulimits(box)


def _locked(box: Container) -> Findings:
    rdma = box.has(r"/dev/infiniband")
    free = box.has(
        r"memlock[=:. ]+(?:-1|unlimited)|memlock\.soft=-1|memlock=-1|IPC_LOCK|--privileged|privileged=True"
    )
    if rdma and not free:
        yield make_finding(
            "container-memlock",
            box.document,
            box.place,
            "the container has RDMA devices and can lock only 64 KiB to 8 MiB of memory, so that "
            "registering buffers fails",
            fix="Give --ulimit memlock=-1 --cap-add=IPC_LOCK.",
        )


def _ulimits(box: Container) -> Findings:
    files = re.search(r"nofile[=:]+(\d+)", box.line)
    if files is not None and int(files[1]) < 65535:
        yield make_finding(
            "limit-files",
            box.document,
            box.place,
            f"nofile={files[1]}: large jobs open more files and sockets",
            fix="Give --ulimit nofile=1048576.",
        )


@per_document()
def rdma(document: Document, context: Context) -> Findings:
    """Check for RDMA or multi-node NVLink without devices, and for several nodes behind bridges."""
    for box in containers_of(document):
        devices = box.has(
            r"/dev/infiniband|--privileged|privileged=True|--device[= ]/dev:|rdma|/dev/uverbs|"
            r"-v /dev:/dev|--device \S*\$"
        )
        if box.has(r"NCCL_IB_(?:HCA|GID_INDEX|TC|SL)|NCCL_NET[= ]IB\b|FI_PROVIDER[= ]efa") and not devices:
            yield make_finding(
                "container-no-rdma",
                document,
                box.place,
                "InfiniBand is configured, but the container has no /dev/infiniband: NCCL uses TCP "
                "without an error",
                fix="Give --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1; with "
                "NCCL_NET=IB a missing device is an error.",
            )
        host = box.has(r"--net(?:work)?[= ](?:host|container:|\S*\$)|network_mode=host|networks")
        if box.is_distributed and box.trains and not host:
            yield make_finding(
                "container-bridge-network",
                document,
                box.place,
                ("one port is published, and " if box.has(r"(?:-p|--publish)[= ]?\d+|ports\[\d+\]=") else "")
                + "ranks of other nodes cannot reach the random ports of NCCL and Gloo behind the bridge",
                fix="Give --network=host.",
            )
        if box.has(r"NCCL_MNNVL_ENABLE[= ]1\b") and not box.has(
            r"nvidia-caps-imex-channels|--privileged|privileged=True|imex"
        ):
            yield make_finding(
                "imex-channel-missing",
                document,
                box.place,
                "multi-node NVLink is requested, but the container has no IMEX channel",
                fix="Give --device=/dev/nvidia-caps-imex-channels/channel0.",
            )


@per_document("dockerfile")
def dockerfiles(document: Document, context: Context) -> Findings:
    """Check for variables that exist only during the RUN that sets them, and for mistakes in ENV."""
    for index, line in code_lines(document):
        match = re.match(r"\s*RUN\s+export\s+((?:NCCL|TORCH|GLOO|CUDA_DEVICE|FI|UCX)_\w+)=\S+\s*$", line)
        if match is not None:
            yield make_finding(
                "dockerfile-run-export",
                document,
                Place(line=index),
                f"RUN export {match[1]} applies only to this RUN: no container gets the variable",
                fix=f"Write ENV {match[1]}=...",
            )
    for item in document.settings:
        if item.is_exported and item.written.startswith("= "):
            yield make_finding(
                "dockerfile-assignment-blank",
                document,
                item.place,
                f"with blanks around =, the = is part of the value: {item.name} is '{item.written}'",
                fix=f"Write ENV {item.name}={item.written.removeprefix('=').strip()}.",
            )
        if item.is_exported and re.search(rf"\\\$\{{?{re.escape(item.name)}\b", item.written):
            yield make_finding(
                "dockerfile-escaped-variable",
                document,
                item.place,
                f"the backslash keeps the literal text ${item.name}: the value of the base image is lost",
                fix=f"Write ${item.name} without the backslash.",
            )


_STACK_NAMES = re.compile(r"(?:NCCL|NVIDIA|CUDA|TORCH|GLOO|FI|UCX|OMP|MASTER|PYTORCH)_\w+|RANK|WORLD_SIZE")


@per_document()
def variables(document: Document, context: Context) -> Findings:
    """Check for values that have another meaning in a container."""
    for item in document.settings:
        text = item.value or ""
        if (
            document.kind == "compose"
            and re.fullmatch(r"([\"']).*\1", text)
            and _STACK_NAMES.fullmatch(item.name)
        ):
            yield make_finding(
                "compose-quotes",
                document,
                item.place,
                f"the quotes are part of the value: {item.name} is {text}",
                fix=f"Write {item.name}={text[1:-1]}, or put the quotes around the whole assignment.",
            )
        hides = item.name == "NVIDIA_VISIBLE_DEVICES" and text in ("void", "none")
        if hides and document.kind == "dockerfile" and next(commands(document, *TRAINERS), None) is not None:
            yield make_finding(
                "container-devices-void",
                document,
                item.place,
                f"NVIDIA_VISIBLE_DEVICES={text}: the container sees no GPU unless it starts with --gpus",
                fix="Write NVIDIA_VISIBLE_DEVICES=all.",
            )


@per_document()
def images(document: Document, context: Context) -> Findings:
    """Check that all nodes run the same image."""
    for command in document.commands:
        image = command.options.get("container-image", "")
        if (
            command.program == "srun"
            and re.search(r":latest$", image)
            and (nodes_of(document) or 2) > 1
            and not image.endswith((".sqsh", ".sif"))
        ):
            yield make_finding(
                "image-latest",
                document,
                command.place,
                f"{image} may be a different image on nodes that pull it later",
                fix="State a version or a digest.",
            )


_VISIBLE = re.compile(r"\bNVIDIA_VISIBLE_DEVICES=[\"']?(\d+(?:,\d+)*)[\"']?(?:\s|$)")
_GETS_DEVICES = re.compile(
    r"--gpus|--runtime|--device|--privileged|NVIDIA_VISIBLE_DEVICES|--volumes-from|\$|"
    r"(?i:rocm|hpu|gaudi|cpu|tpu|xla|neuron|ascend|npu)"
)
"""Options and names that may give a container GPUs or other accelerators."""


@per_document()
def gpus(document: Document, context: Context) -> Findings:
    """Compare the ranks of a container with its GPUs."""
    for box in containers_of(document):
        yield from _gpu_list(box)
        yield from _gpu_count(box)


def _gpu_list(box: Container) -> Findings:
    wanted = (
        option(box.command, "gpus") if box.command is not None and box.command.program == "docker" else None
    )
    if wanted is not None and re.fullmatch(r"device=[^\"'$]+,[^=]+", wanted):
        yield make_finding(
            "container-gpus-list",
            box.document,
            box.place,
            f"docker splits --gpus {wanted} at the comma, and refuses the second part as a count",
            fix=f"Write --gpus '\"{wanted}\"': docker needs double quotes inside the shell's quotes.",
        )


def _gpu_count(box: Container) -> Findings:
    have = _visible_gpus(box)
    for command in box.inner:
        wanted = ranks_here(box.document, command)
        if wanted is None or command.is_conditional:
            continue
        if have is not None and wanted > have:
            yield make_finding(
                "container-gpus-fewer",
                box.document,
                command.place,
                f"{plural(wanted, 'rank')}, but the container gets {plural(have, 'GPU')}",
                fix=f"Start {plural(have, 'rank')}, or give the container {plural(wanted, 'GPU')}.",
            )
        elif (
            box.command is not None
            and box.command.program == "docker"
            and wanted > 1
            and _has_plain_start(box, command)
        ):
            yield make_finding(
                "container-no-gpu",
                box.document,
                box.place,
                f"{wanted} ranks in a container without a GPU",
                fix="Give --gpus all, unless nvidia is the default runtime of every machine that runs this.",
            )


def _has_plain_start(box: Container, command: Command) -> bool:
    """Return whether neither the options nor the name of the image mention devices."""
    return _GETS_DEVICES.search(" ".join(box.document.lines[box.place.line - 1 : command.place.line])) is None


def _visible_gpus(box: Container) -> int | None:
    """Return the number of GPUs that the container sees; None if the file does not state the number."""
    requested = (option(box.command, "gpus") or "") if box.command is not None else ""
    devices = re.fullmatch(r"\"?(?:device=)?([\w:.,-]+)\"?", requested)
    if requested:
        return (
            number(requested) if "device=" not in requested or devices is None else len(devices[1].split(","))
        )
    # without --gpus, the runtime reads NVIDIA_VISIBLE_DEVICES; compose counts or lists devices
    visible = _VISIBLE.search(box.line)
    if visible is not None:
        return len(set(visible[1].split(",")))
    counts = [
        item for item in box.entries if re.search(r"\.(?:devices|gpus)\[\d+\]\.count$|\.gpus$", item.path)
    ]
    named = [
        item for item in box.entries if re.search(r"\.(?:devices|gpus)\[\d+\]\.device_ids\[\d+\]$", item.path)
    ]
    if counts and not named:
        return total([number(str(item.value)) for item in counts])
    is_known = (
        named and not counts and not any("$" in str(item.value) or item.value == "all" for item in named)
    )
    return len(named) if is_known else None
