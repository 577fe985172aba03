"""GPUs that ranks see, and the GPU that each rank takes."""

from __future__ import annotations

import re

from probes.base.record import known
from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Setting
from recipes.lint.reach import setting_for, text_in
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    code_lines,
    commands,
    directive,
    mentions,
    nodes_of,
    ranks_here,
    settings_of,
)


@per_document()
def local_ranks(document: Document, context: Context) -> Findings:
    """Check that each rank takes its own GPU."""
    for item in settings_of(document):
        written = item.written.strip("\"'")
        world = re.search(r"\$\{?(?:SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMI_RANK|RANK)\b(?!.*%)", written)
        if (
            item.name in ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES")
            and world is not None
            and nodes_of(document) != 1
        ):
            yield make_finding(
                "local-rank-from-world",
                document,
                item.place,
                f"{item.name} is the rank in the whole job: from the second node on, no GPU has that number",
                fix="Use SLURM_LOCALID, or OMPI_COMM_WORLD_LOCAL_RANK.",
            )
    yield from _missing_local_rank(document)


def _missing_local_rank(document: Document) -> Findings:
    ranks = [item for item in settings_of(document) if item.name == "RANK"]
    by_task = [
        item for item in ranks if re.search(r"SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMI_RANK", item.written)
    ]
    if next(commands(document, *TRAINERS), None) is not None:
        return  # a launcher sets both for its ranks
    names = r"LOCAL_RANK|SLURM_LOCALID|LOCALRANK|local_rank|CUDA_VISIBLE_DEVICES"
    if (
        by_task
        and not any(re.search(names, other) for _, other in code_lines(document))
        and directive(document, "ntasks-per-node") != "1"
    ):
        yield make_finding(
            "local-rank-missing",
            document,
            by_task[0].place,
            "RANK is set for each task and LOCAL_RANK is not: every rank of a node takes GPU 0",
            fix="Set LOCAL_RANK=$SLURM_LOCALID too, and pass it to torch.cuda.set_device.",
        )


@per_document()
def visible(document: Document, context: Context) -> Findings:
    """Compare CUDA_VISIBLE_DEVICES with the ranks of the launchers."""
    for command in commands(document, "torchrun", "accelerate"):
        yield from _shown(document, command)
    for given in document.environments:
        item = given.get("CUDA_VISIBLE_DEVICES")
        if item is None or not item.is_literal or not item.value:
            continue
        devices = _devices(item)
        if sum(part.startswith("MIG-") for part in devices) > 1:
            yield make_finding(
                "mig-several",
                document,
                item.place,
                f"{len(devices)} MIG devices are named, and a process sees only the first",
                fix="Give each rank one MIG UUID, with NCCL 2.31 or newer; or use whole GPUs.",
            )
        if text_in(given, "CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            yield from _order(document, item, devices, context)


def _devices(item: Setting) -> list[str]:
    return [part.strip() for part in (item.value or "").split(",") if part.strip()]


def _shown(document: Document, command: Command) -> Findings:
    """Compare the ranks of a launcher with the GPUs that it sees."""
    item, wanted = setting_for(document, command, "CUDA_VISIBLE_DEVICES"), ranks_here(document, command)
    if wanted is None or item is None or not item.is_literal or item.is_conditional:
        return
    devices = _devices(item)
    if devices and devices != ["-1"] and wanted > len(devices):
        yield make_finding(
            "visible-devices-fewer",
            document,
            command.place,
            f"{plural(wanted, 'rank')}, and CUDA_VISIBLE_DEVICES={item.value} shows {len(devices)}",
            fix=f"Start {plural(len(devices), 'rank')}, or show {plural(wanted, 'GPU')}.",
        )


def _order(document: Document, item: Setting, devices: list[str], context: Context) -> Findings:
    gpus = context.machine.gpus if context.machine is not None else ()
    mixed = known(gpus) and len({str(gpu.name) for gpu in gpus}) > 1
    mapped = mentions(document, r"nvidia-smi\s.*(?:-i\b|--id[= ])|numactl\s|taskset\s")
    if all(part.isdecimal() for part in devices) and (mixed or mapped):
        yield make_finding(
            "device-order",
            document,
            item.place,
            "CUDA numbers the fastest GPU first; nvidia-smi and NUMA maps number GPUs by PCI bus",
            fix="Set CUDA_DEVICE_ORDER=PCI_BUS_ID too.",
        )
