"""Cases of the checks of GPUs: healthy machines with one difference."""

from __future__ import annotations

import msgspec

from probes.base.record import Reason, Unknown
from probes.base.units import GIB
from probes.facts import Accelerator, GpuProcess, PcieLink
from probes.judging.policies.policy import GpuExpectation, Policy
from tests.support.check_case import (
    ALL,
    BOX,
    IN_CONTAINER,
    NODE,
    NOT_RECORDED,
    NOT_SUPPORTED,
    ONE,
    TIMEOUT,
    UNREAD,
    Case,
    pcie,
    running,
)
from tests.support.machines import h100, h100_node, with_gpus, with_part

NO_TOOL = Unknown(Reason.TOOL_MISSING, "nvidia-smi is not installed")

GPU_CASES = (
    Case("gpu-driver", "answers", NODE, (f"PASS {ALL}",)),
    Case("gpu-driver", "no GPU", BOX, ("SKIP host",)),
    Case("gpu-driver", "nothing known", UNREAD, ("UNKNOWN host",)),
    Case(
        "gpu-driver",
        "GPUs on the bus, no driver",
        with_part(h100_node(gpus=()), "software", driver_version=None),
        ("FAIL host",),
    ),
    Case(
        "gpu-driver",
        "GPUs on the bus, no driver to ask",
        with_part(h100_node(gpus=Unknown(Reason.TOOL_MISSING)), "software", driver_version=None),
        ("FAIL host",),
    ),
    Case("gpu-driver", "loaded and silent", h100_node(gpus=TIMEOUT), ("FAIL host",)),
    Case("gpu-driver", "time ran out", h100_node(gpus=TIMEOUT, driver_answer_s=TIMEOUT), ("WARN host",)),
    Case("gpu-driver", "quick enough", h100_node(driver_answer_s=3.9), (f"PASS {ALL}",)),
    Case("gpu-driver", "slow", h100_node(driver_answer_s=5.6), ("WARN host", f"PASS {ALL}")),
    Case(
        "gpu-driver",
        "one hangs",
        with_gpus(h100_node(driver_answer_s=15.6), 3, hung_call="x"),
        ("PASS GPU0-2, GPU4-7",),
    ),
    Case(
        "gpu-driver", "loaded, tools missing", h100_node(gpus=Unknown(Reason.TOOL_MISSING)), ("UNKNOWN host",)
    ),
    Case("gpu-driver", "no tool, and none on the bus", h100_node(gpus=NO_TOOL, pci_gpus=()), ("SKIP host",)),
    Case("gpu-driver", "it hangs, and none on the bus", h100_node(gpus=TIMEOUT, pci_gpus=()), ("FAIL host",)),
    Case(
        "gpu-driver",
        "all GPUs lost",
        with_gpus(
            NODE, name=Unknown(Reason.ERROR, "GPU is lost"), memory_bytes=Unknown(Reason.ERROR, "GPU is lost")
        ),
        ("FAIL host",),
    ),
    Case(
        "gpu-driver",
        "one GPU lost",
        with_gpus(NODE, 2, name=Unknown(Reason.ERROR, "GPU is lost")),
        (f"PASS {ALL}",),
    ),
    Case(
        "gpu-driver",
        "nvidia-smi has no answer",
        with_part(
            h100_node(gpus=Unknown(Reason.ERROR, "nvidia-smi: No devices were found"), pci_gpus=NOT_RECORDED),
            "software",
            driver_version=NOT_RECORDED,
        ),
        ("FAIL host",),
    ),
    Case(
        "gpu-driver",
        "version unread",
        with_part(with_gpus(NODE, driver_version=NOT_RECORDED), "software", driver_version=NOT_RECORDED),
        ("UNKNOWN host",),
    ),
    Case(
        "gpu-driver",
        "loaded, and all GPUs have left the bus",
        with_part(h100_node(gpus=(), pci_gpus=(), attached_gpus=0), "software", driver_version="570.86.15"),
        ("FAIL host",),
    ),
    Case(
        "gpu-driver",
        "loaded, and a container without GPUs",
        with_part(
            h100_node(
                gpus=NOT_RECORDED, pci_gpus=NOT_RECORDED, attached_gpus=0, container=IN_CONTAINER.container
            ),
            "software",
            driver_version="570.86.15",
        ),
        ("WARN host",),
    ),
    Case("accelerators", "NVIDIA alone", NODE, ("PASS host",)),
    Case("accelerators", "none", BOX, ("SKIP host",)),
    Case("accelerators", "not listed", h100_node(accelerators=NOT_RECORDED), ("SKIP host",)),
    Case(
        "accelerators",
        "bus unread, and no GPU",
        msgspec.structs.replace(BOX, accelerators=TIMEOUT),
        ("UNKNOWN host",),
    ),
    Case(
        "accelerators",
        "of two makers, one without a driver",
        msgspec.structs.replace(
            BOX,
            accelerators=(
                Accelerator(name="AMD Instinct MI300X", bus_id="0000:0c:00.0", driver="amdgpu"),
                Accelerator(name="Intel Gaudi", bus_id="0000:21:00.0", driver=None),
            ),
        ),
        ("UNKNOWN host", "FAIL host"),
    ),
    Case("gpu-count", "all there", NODE, ("PASS host",)),
    Case("gpu-count", "one missing", h100_node(gpus=tuple(h100(n) for n in range(7))), ("FAIL host",)),
    Case(
        "gpu-count",
        "some given to the container",
        with_part(ONE, "container", runtime="docker"),
        ("PASS host",),
    ),
    Case(
        "gpu-count",
        "fewer in the container",
        h100_node(gpus=(h100(0),), container=IN_CONTAINER.container),
        ("WARN host",),
    ),
    Case("gpu-count", "bus unread", h100_node(pci_gpus=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "gpu-count",
        "fewer than the driver counts",
        h100_node(gpus=(h100(0),), attached_gpus=8),
        ("WARN host",),
    ),
    Case("gpu-count", "as many as it counts", h100_node(pci_gpus=TIMEOUT, attached_gpus=8), ("PASS host",)),
    *(
        Case(
            "gpu-count",
            f"{count} of an SXM board",
            h100_node(gpus=tuple(h100(n) for n in range(count)), pci_gpus=TIMEOUT, attached_gpus=count),
            (f"{word} host",),
        )
        for count, word in ((1, "PASS"), (3, "FAIL"), (4, "PASS"), (5, "FAIL"), (6, "FAIL"), (7, "FAIL"))
    ),
    Case(
        "gpu-count",
        "three of a board that the bus shows as a whole to the container",
        h100_node(
            gpus=tuple(h100(n) for n in range(3)),
            pci_gpus=tuple(str(h100(n).pci_bus_id) for n in range(3)),
            attached_gpus=3,
            container=IN_CONTAINER.container,
        ),
        ("FAIL host",),
    ),
    Case(
        "gpu-count",
        "three in a container that hides the bus",
        h100_node(
            gpus=tuple(h100(n) for n in range(3)),
            pci_gpus=TIMEOUT,
            attached_gpus=3,
            container=IN_CONTAINER.container,
        ),
        ("PASS host",),
    ),
    Case(
        "gpu-count",
        "three PCIe cards",
        with_gpus(
            h100_node(gpus=tuple(h100(n) for n in range(3)), pci_gpus=TIMEOUT, attached_gpus=3),
            name="NVIDIA L40S",
        ),
        ("PASS host",),
    ),
    Case(
        "gpu-count",
        "three that the policy expects",
        h100_node(gpus=tuple(h100(n) for n in range(3)), pci_gpus=TIMEOUT, attached_gpus=3),
        ("PASS host",),
        policy=Policy(gpu=GpuExpectation(count=3)),
    ),
    Case("gpu-count", "no GPU", BOX, ("SKIP host",)),
    Case("gpu-count", "GPUs unread", UNREAD, ("UNKNOWN host",)),
    Case("gpu-model", "alike", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-model",
        "another model",
        with_gpus(NODE, 6, name="NVIDIA A100-SXM4-80GB"),
        ("WARN GPU6", "PASS GPU0-5, GPU7"),
    ),
    Case("gpu-model", "one GPU", ONE, ("SKIP host",)),
    Case("gpu-model", "names unread", with_gpus(NODE, name=TIMEOUT), (f"UNKNOWN {ALL}",)),
    Case("ecc-uncorrected", "none", NODE, (f"PASS {ALL}",)),
    Case(
        "ecc-uncorrected",
        "three",
        with_gpus(NODE, 3, ecc_uncorrected_volatile=3),
        ("FAIL GPU3", "PASS GPU0-2, GPU4-7"),
    ),
    Case(
        "ecc-uncorrected", "no ECC", with_gpus(NODE, ecc_uncorrected_volatile=NOT_SUPPORTED), (f"SKIP {ALL}",)
    ),
    Case("ecc-uncorrected", "unread", with_gpus(NODE, ecc_uncorrected_volatile=TIMEOUT), (f"UNKNOWN {ALL}",)),
    Case(
        "ecc-uncorrected",
        "two reasons",
        with_gpus(
            with_gpus(NODE, ecc_uncorrected_volatile=TIMEOUT), 0, ecc_uncorrected_volatile=NOT_RECORDED
        ),
        ("UNKNOWN GPU0", "UNKNOWN GPU1-7"),
    ),
    Case("row-remap", "none", NODE, (f"PASS {ALL}",)),
    Case(
        "row-remap", "pending", with_gpus(NODE, 1, row_remap_pending=True), ("WARN GPU1", "PASS GPU0, GPU2-7")
    ),
    Case(
        "row-remap",
        "failed, rest unread",
        with_gpus(ONE, row_remap_failed=True, row_remap_pending=TIMEOUT),
        ("FAIL GPU0",),
    ),
    Case("row-remap", "half read", with_gpus(ONE, row_remap_failed=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("row-remap", "before Ampere", with_gpus(ONE, row_remap_failed=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case(
        "pcie-link",
        "full",
        NODE,
        (
            "PASS mlx5_0-8",
            f"PASS {ALL}",
        ),
    ),
    Case(
        "pcie-link",
        "idle, so slow",
        with_gpus(NODE, pcie=pcie(16, 1)),
        (
            "PASS mlx5_0-8",
            f"PASS {ALL}",
        ),
    ),
    Case(
        "pcie-link",
        "busy and slow",
        with_gpus(NODE, 4, pcie=pcie(16, 3), utilization_percent=97, throttle_reasons=()),
        ("PASS mlx5_0-8", "WARN GPU4", "PASS GPU0-3, GPU5-7"),
    ),
    Case(
        "pcie-link",
        "busy, reasons unread",
        with_gpus(ONE, pcie=pcie(16, 3), utilization_percent=97, throttle_reasons=TIMEOUT),
        (
            "PASS mlx5_0-8",
            "PASS GPU0",
        ),
    ),
    Case(
        "pcie-link",
        "half, others full",
        with_gpus(NODE, 2, pcie=pcie(8)),
        ("PASS mlx5_0-8", "FAIL GPU2", "PASS GPU0-1, GPU3-7"),
    ),
    Case(
        "pcie-link",
        "half, by the slot",
        with_gpus(ONE, pcie=pcie(8)),
        (
            "PASS mlx5_0-8",
            "WARN GPU0",
        ),
    ),
    Case(
        "pcie-link",
        "a quarter",
        with_gpus(ONE, pcie=pcie(4)),
        (
            "PASS mlx5_0-8",
            "FAIL GPU0",
        ),
    ),
    Case(
        "pcie-link",
        "unread",
        with_gpus(ONE, pcie=PcieLink(width=16)),
        (
            "PASS mlx5_0-8",
            "UNKNOWN GPU0",
        ),
    ),
    Case("pcie-link", "no GPU", BOX, ("SKIP host",)),
    Case("gpu-throttle", "idle", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-throttle",
        "at the power limit",
        with_gpus(NODE, throttle_reasons=("sw_power_cap",)),
        (f"PASS {ALL}",),
    ),
    Case(
        "gpu-throttle",
        "hot",
        with_gpus(ONE, throttle_reasons=("hw_slowdown", "hw_thermal_slowdown")),
        ("FAIL GPU0",),
    ),
    Case(
        "gpu-throttle",
        "power brake",
        with_gpus(ONE, throttle_reasons=("hw_power_brake_slowdown",)),
        ("FAIL GPU0",),
    ),
    Case(
        "gpu-throttle",
        "a cause alone, at the highest clock",
        with_gpus(ONE, throttle_reasons=("hw_power_brake_slowdown",), sm_clock_mhz=1980),
        ("WARN GPU0",),
    ),
    Case("gpu-throttle", "warm", with_gpus(ONE, throttle_reasons=("sw_thermal_slowdown",)), ("WARN GPU0",)),
    Case("gpu-throttle", "unread", with_gpus(ONE, throttle_reasons=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-throttle", "no such value", with_gpus(ONE, throttle_reasons=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("gpu-power-limit", "default", NODE, (f"PASS {ALL}",)),
    Case("gpu-power-limit", "rounded", with_gpus(ONE, power_limit_w=699.98), ("PASS GPU0",)),
    Case("gpu-power-limit", "raised", with_gpus(ONE, power_limit_w=750.0), ("PASS GPU0",)),
    Case("gpu-power-limit", "lowered", with_gpus(NODE, 7, power_limit_w=500.0), ("WARN GPU7", "PASS GPU0-6")),
    Case(
        "gpu-power-limit", "default unread", with_gpus(ONE, power_limit_default_w=TIMEOUT), ("UNKNOWN GPU0",)
    ),
    Case("gpu-power-limit", "none", with_gpus(ONE, power_limit_w=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("gpu-busy", "free", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-busy",
        "training",
        running(GpuProcess(pid=7, name="/usr/bin/python3", memory_bytes=60 * GIB)),
        ("WARN GPU5", "PASS GPU0-4, GPU6-7"),
    ),
    Case(
        "gpu-busy", "nameless", running(GpuProcess(pid=7, name=TIMEOUT)), ("WARN GPU5", "PASS GPU0-4, GPU6-7")
    ),
    Case("gpu-busy", "memory without a process is another check's", running(used=30 * GIB), (f"PASS {ALL}",)),
    Case("gpu-busy", "memory alone says little", with_gpus(ONE, processes=NOT_RECORDED), ("UNKNOWN GPU0",)),
    Case(
        "gpu-busy",
        "memory alone says much",
        with_gpus(ONE, processes=NOT_RECORDED, memory_used_bytes=9 * GIB),
        ("WARN GPU0",),
    ),
    Case("gpu-busy", "not supported", with_gpus(ONE, processes=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("mig-mode", "off", NODE, (f"PASS {ALL}",)),
    Case("mig-mode", "on", with_gpus(ONE, mig_enabled=True), ("WARN GPU0",)),
    Case("mig-mode", "on after a reset", with_gpus(ONE, mig_pending=True), ("WARN GPU0",)),
    Case("mig-mode", "no MIG", with_gpus(ONE, mig_enabled=NOT_SUPPORTED), ("SKIP GPU0",)),
    Case("mig-mode", "unread", with_gpus(ONE, mig_enabled=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("compute-mode", "default", NODE, (f"PASS {ALL}",)),
    Case("compute-mode", "exclusive", with_gpus(ONE, compute_mode="exclusive process"), ("WARN GPU0",)),
    Case("compute-mode", "prohibited", with_gpus(ONE, compute_mode="prohibited"), ("FAIL GPU0",)),
    Case("compute-mode", "unread", with_gpus(ONE, compute_mode=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("compute-mode", "no GPU", BOX, ("SKIP host",)),
    Case("persistence-mode", "on", NODE, (f"PASS {ALL}",)),
    Case("persistence-mode", "off", with_gpus(ONE, persistence_mode=False), ("WARN GPU0",)),
    Case("persistence-mode", "unread", with_gpus(ONE, persistence_mode=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("persistence-mode", "Windows", with_gpus(ONE, persistence_mode=NOT_SUPPORTED), ("SKIP GPU0",)),
)
