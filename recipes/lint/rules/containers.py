"""Shared memory, locked memory, RDMA and network that docker, podman and compose give to a container."""

from __future__ import annotations

import re

from recipes.lint.container import Container, containers_of
from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import TRAINERS, code_lines, commands, nodes_of

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SMALLEST_SHM = 2**30
"""Bytes of shared memory that the troubleshooting chapter of NCCL's guide recommends."""


def _size(text: str) -> int | None:
    match = re.fullmatch(r"[\"']?(\d+(?:\.\d+)?)\s*([bkmgt]?)i?b?[\"']?", text.strip().lower())
    return None if match is None else int(float(match[1]) * _UNITS[match[2]])


@per_document()
def memory(document: Document, context: Context) -> Findings:
    """Check shared and locked memory."""
    for box in containers_of(document):
        if not box.uses_gpus:
            continue
        size = re.search(r"--shm-size[= ](\S+)|(?:^| )shm_size=(\S+)", box.line)
        own = box.has(
            r"--ipc[= ](?:host|shareable|container)|(?:^| )ipc=|/dev/shm|--privileged.*--ipc|"
            r"--shm-size[= ]\$"
        )
        several = box.trains and box.ranks != 1
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
        elif size is None and not own and several:
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
    """Check RDMA variables without RDMA devices, and several nodes behind bridges."""
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
                "InfiniBand is configured, and the container has no /dev/infiniband: NCCL uses TCP "
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
                "multi-node NVLink is requested, and the container has no IMEX channel",
                fix="Give --device=/dev/nvidia-caps-imex-channels/channel0.",
            )


@per_document("dockerfile")
def dockerfiles(document: Document, context: Context) -> Findings:
    """Check variables that end with the layer that sets them."""
    for index, line in code_lines(document):
        match = re.match(r"\s*RUN\s+export\s+((?:NCCL|TORCH|GLOO|CUDA_DEVICE|FI|UCX)_\w+)=\S+\s*$", line)
        if match is not None:
            yield make_finding(
                "dockerfile-run-export",
                document,
                Place(line=index),
                f"RUN export {match[1]} ends with its layer: no container gets it",
                fix=f"Write ENV {match[1]}=...",
            )
    for item in document.settings:
        if item.is_exported and item.written.startswith("= "):
            yield make_finding(
                "dockerfile-assignment-blank",
                document,
                item.place,
                f"with blanks around =, the sign is part of the value: {item.name} is '{item.written}'",
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
    """Check values that mean something else in a container."""
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
                fix=f"Write {item.name}={text[1:-1]}, or put the quotes around the whole.",
            )
        hides = item.name == "NVIDIA_VISIBLE_DEVICES" and text in ("void", "none")
        if hides and document.kind == "dockerfile" and next(commands(document, *TRAINERS), None) is not None:
            yield make_finding(
                "container-devices-void",
                document,
                item.place,
                f"NVIDIA_VISIBLE_DEVICES={text}: the container sees no GPU unless it starts with --gpus",
                fix="Write all.",
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
                f"{image} may be another image on every node that pulls it later",
                fix="Name a version or a digest.",
            )
