"""GPUs that docker, podman and compose give to a container, compared with its ranks."""

from __future__ import annotations

import re

from probes.base.units import plural
from recipes.lint.container import Container, containers_of
from recipes.lint.context import Context
from recipes.lint.document import Command, Document
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import number, option, ranks_here

_VISIBLE = re.compile(r"\bNVIDIA_VISIBLE_DEVICES=[\"']?(\d+(?:,\d+)*)[\"']?(?:\s|$)")
_GETS_DEVICES = re.compile(
    r"--gpus|--runtime|--device|--privileged|NVIDIA_VISIBLE_DEVICES|--volumes-from|\$|"
    r"(?i:rocm|hpu|gaudi|cpu|tpu|xla|neuron|ascend|npu)"
)
"""Words that give a container GPUs or other accelerators, or that only the run knows."""


@per_document()
def gpus(document: Document, context: Context) -> Findings:
    """Compare the ranks of a container with its GPUs."""
    for box in containers_of(document):
        yield from _list(box)
        yield from _counted(box)


def _list(box: Container) -> Findings:
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


def _counted(box: Container) -> Findings:
    have = _shown(box)
    for command in box.inner:
        wanted = ranks_here(box.document, command)
        if wanted is None or command.is_conditional:
            continue
        if have is not None and wanted > have:
            yield make_finding(
                "container-gpus-fewer",
                box.document,
                command.place,
                f"{plural(wanted, 'rank')}, and the container gets {plural(have, 'GPU')}",
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


def _shown(box: Container) -> int | None:
    """Return the number of GPUs that the container sees; None if the file does not state it."""
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
        numbers = [number(str(item.value)) for item in counts]
        return None if None in numbers else sum(count for count in numbers if count is not None)
    is_known = (
        named and not counts and not any("$" in str(item.value) or item.value == "all" for item in named)
    )
    return len(named) if is_known else None
