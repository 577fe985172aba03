"""Resources that ranks need from a machine: GPUs, limits, services, and the kernel's command line."""

import re

from probes.base.units import plural
from recipes.lint.context import Context
from recipes.lint.document import Command, Document, Place, Setting
from recipes.lint.reach import setting_for, text_in
from recipes.lint.rule_table import Findings, make_finding, per_document
from recipes.lint.views import (
    TRAINERS,
    code_lines,
    commands,
    directive,
    directive_place,
    first_line,
    may_use_gpus,
    mentions,
    nodes_of,
    ranks_here,
)


@per_document("shell", "sbatch", "dockerfile", "kubernetes", "compose")
def shells(document: Document, context: Context) -> Findings:
    """Check ulimit in launch files."""
    fixed = context.nccl_is_at_least("2.28")
    for index, line in code_lines(document):
        match = re.search(r"\bulimit\s+(?:-[HS]\s+)?-([HSsnl]+)\s+(\S+)", line)
        if match is None:
            continue
        letter, amount, place = match[1].lstrip("HS"), match[2].strip("\"';"), Place(line=index)
        if letter == "s" and amount == "unlimited" and not fixed and may_use_gpus(document):
            yield make_finding(
                "limit-stack",
                document,
                place,
                "with an unlimited stack, NCCL before 2.28 gives its threads small stacks and crashes at "
                "its start",
                fix="Write ulimit -s 8192.",
                severity="warning" if fixed is False else None,
            )
        elif letter == "n" and amount.isdecimal() and int(amount) < 65535:
            yield make_finding(
                "limit-files",
                document,
                place,
                f"{amount} open files: large jobs open more files and sockets",
                fix="Write ulimit -n 1048576.",
            )
        elif letter == "l" and amount.isdecimal() and int(amount) < 2**20:
            yield make_finding(
                "limit-memlock",
                document,
                place,
                f"only {amount} KiB can be locked, so that registering memory for RDMA fails",
                fix="Write ulimit -l unlimited, and allow this value in limits.conf.",
            )


@per_document("shell", "sbatch")
def machine(document: Document, context: Context) -> Findings:
    """Check limits of this machine: locked memory for RDMA, and shared memory."""
    if context.machine is None or re.search(r"ulimit .*-l", document.text):
        return
    memlock, shm = context.machine.limits.memlock_for_training, context.machine.limits.shm_bytes
    starts = next(commands(document, "torchrun", "accelerate", "deepspeed", "mpirun", "srun"), None)
    if starts is None:
        return
    if context.training_ports and isinstance(memlock, int) and memlock < 2**30:
        yield make_finding(
            "machine-memlock",
            document,
            starts.place,
            f"this machine locks at most {memlock // 1024} KiB, so that registering memory for RDMA fails",
            fix="Set memlock to unlimited in limits.conf, and LimitMEMLOCK=infinity for the services of the "
            "scheduler.",
        )
    if isinstance(shm, int) and shm < 2**30:
        yield make_finding(
            "machine-shm",
            document,
            starts.place,
            f"shared memory of this machine is {shm // 2**20} MiB, too little for NCCL and data loaders",
            fix="Enlarge the shared memory: --shm-size, --ipc=host, or an emptyDir with medium: Memory.",
        )


@per_document()
def services(document: Document, context: Context) -> Findings:
    """Check for stopped services, versions of the fabric manager, and the IOMMU."""
    at = first_line(
        document,
        r"systemctl\s+(?:--now\s+)?(stop|disable|mask)\s+(?:--now\s+)?(nvidia-fabricmanager|nvidia-imex)",
    )
    if (
        at is not None
        and first_line(
            document, rf"systemctl\s+(?:--now\s+)?(?:start|restart|enable)\s+(?:--now\s+)?{at[1][2]}"
        )
        is None
    ):
        what = (
            "NVSwitch: CUDA does not start (802)"
            if "fabric" in at[1][2]
            else "multi-node NVLink: memory cannot be shared (800)"
        )
        yield make_finding(
            "service-stopped",
            document,
            at[0],
            f"without {at[1][2]} there is no {what}",
            fix=f"systemctl enable --now {at[1][2]}.",
        )
    yield from _branches(document)
    # the kernel's command line
    iommu = first_line(document, r"\b(?:intel|amd)_iommu=on\b")
    if iommu is not None and not re.search(r"iommu=(?:pt|off)|iommu\.passthrough=1", document.text):
        yield make_finding(
            "iommu-translates",
            document,
            iommu[0],
            "if the IOMMU translates addresses, traffic between GPUs and NICs goes through the root complex: "
            "it is slow, and data may be corrupted",
            fix="Add iommu=pt.",
        )


def _branches(document: Document) -> Findings:
    """Check that the fabric manager and the driver have the same version."""
    driver = re.search(
        r"(?:nvidia-driver|cuda-drivers|nvidia-headless|nvidia-utils)-(\d{3})\b", document.text
    )
    manager = first_line(document, r"(?:nvidia-fabricmanager|cuda-drivers-fabricmanager)-(\d{3})\b")
    if driver is not None and manager is not None and driver[1] != manager[1][1]:
        yield make_finding(
            "fabric-manager-version",
            document,
            manager[0],
            f"the fabric manager has version {manager[1][1]}, but the driver has version {driver[1]}",
            fix=f"Install nvidia-fabricmanager-{driver[1]} in exactly the version of the driver.",
        )


@per_document()
def slices(document: Document, context: Context) -> Findings:
    """Check for MIG slices that are requested like GPUs."""
    for item in document.directives:
        match = re.search(r"gpu:[\w.-]*?(\dg\.\d+gb)[\w.]*:(\d+)", item.value)
        ranks = list(commands(document, "torchrun", "accelerate", "deepspeed"))
        if (
            item.name == "gres"
            and match is not None
            and int(match[2]) > 1
            and any(
                setting_for(document, launcher, "NCCL_MULTI_RANK_GPU_ENABLE") is None for launcher in ranks
            )
        ):
            yield make_finding(
                "mig-slices",
                document,
                directive_place(document, "gres"),
                f"{match[2]} MIG slices {match[1]}: a process sees one, and NCCL before 2.31 takes them "
                "for duplicates",
                fix="Request whole GPUs, or start one process on one slice.",
            )
    at = first_line(document, r"--gpus[= ]\S*device=\d+:\d+,\d+:\d+")
    if at is not None:
        yield make_finding(
            "mig-slices",
            document,
            at[0],
            "several MIG slices are requested for one container of ranks",
            fix="Use whole GPUs.",
        )


@per_document()
def local_ranks(document: Document, context: Context) -> Findings:
    """Check that each rank takes its own GPU."""
    for item in document.given:
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
    ranks = [item for item in document.given if item.name == "RANK"]
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
            "RANK is set for each task, but LOCAL_RANK is not: every rank of a node uses GPU 0",
            fix="Set LOCAL_RANK=$SLURM_LOCALID too, and pass its value to torch.cuda.set_device.",
        )


@per_document()
def visible(document: Document, context: Context) -> Findings:
    """Compare CUDA_VISIBLE_DEVICES with the ranks of the launchers, and check the order of its GPUs."""
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
                f"{len(devices)} MIG devices are named, but a process sees only the first",
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
            f"{plural(wanted, 'rank')}, but CUDA_VISIBLE_DEVICES={item.value} "
            f"shows {plural(len(devices), 'GPU')}",
            fix=f"Start {plural(len(devices), 'rank')}, or show {plural(wanted, 'GPU')}.",
        )


def _order(document: Document, item: Setting, devices: list[str], context: Context) -> Findings:
    mixed = len({str(gpu.name) for gpu in context.gpus}) > 1
    mapped = mentions(document, r"nvidia-smi\s.*(?:-i\b|--id[= ])|numactl\s|taskset\s")
    if all(part.isdecimal() for part in devices) and (mixed or mapped):
        yield make_finding(
            "device-order",
            document,
            item.place,
            "CUDA numbers the fastest GPU first; nvidia-smi and NUMA maps number GPUs by PCI bus",
            fix="Set CUDA_DEVICE_ORDER=PCI_BUS_ID too.",
        )
