"""Cases of the checks of the driver's software and of GPU health: healthy machines with one difference."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.base.record import Reason, Unknown
from probes.base.units import GIB
from probes.facts import Gpu, GpuLimits, GpuMemoryHealth, GpuProcess, MachineFacts, counts
from tests.support.check_case import ALL, BOX, NODE, NOT_RECORDED, NOT_SUPPORTED, ONE, TIMEOUT, Case, running
from tests.support.machines import h100, h100_node, with_gpus, with_part

LOST = Unknown(Reason.ERROR, "GPU is lost")
BROKEN = Unknown(Reason.ERROR, "ERR!")
OTHERS = "PASS GPU0-2, GPU4-7"


def with_health(facts: MachineFacts, *indexes: int, **changes: object) -> MachineFacts:
    """Return `facts` with `changes` in the memory health of the GPUs at `indexes`, or of all GPUs."""
    return _with_part(facts, indexes, "memory_health", changes)


def with_limits(facts: MachineFacts, *indexes: int, **changes: object) -> MachineFacts:
    return _with_part(facts, indexes, "limits", changes)


def _with_part(
    facts: MachineFacts, indexes: tuple[int, ...], part: str, changes: dict[str, Any]
) -> MachineFacts:
    assert isinstance(facts.gpus, tuple)

    def changed(gpu: Gpu) -> Gpu:
        if indexes and gpu.index not in indexes:
            return gpu
        record: GpuMemoryHealth | GpuLimits = getattr(gpu, part)
        return msgspec.structs.replace(gpu, **{part: msgspec.structs.replace(record, **changes)})

    return msgspec.structs.replace(facts, gpus=tuple(changed(gpu) for gpu in facts.gpus))


def software(facts: MachineFacts = NODE, **changes: object) -> MachineFacts:
    return with_part(facts, "software", **changes)


def nodes(*names: str) -> MachineFacts:
    return with_part(ONE, "container", nvidia_devices=names)


def spread(hot: int, **changes: object) -> MachineFacts:
    """Return GPUs that are all under load, one of them with this temperature."""
    return with_gpus(
        with_gpus(NODE, utilization_percent=99, power_w=690.0, temperature_c=60),
        3,
        temperature_c=hot,
        **changes,
    )


MISMATCH = Unknown(Reason.ERROR, "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch")
BLACKWELL_CLOSED = software(with_gpus(ONE, name="NVIDIA B200"), driver_open_module=False)
SPINNER = GpuProcess(pid=7, name="python", sm_percent=99, memory_percent=0)

DRIVER_CASES = (
    Case("driver-library", "one version", NODE, (f"PASS {ALL}",)),
    Case("driver-library", "another library", software(driver_library_version="550.90.07"), ("FAIL host",)),
    Case("driver-library", "NVML says so", h100_node(gpus=MISMATCH), ("FAIL host",)),
    Case(
        "driver-library", "one GPU's", with_gpus(NODE, 3, driver_version="550.90.07"), ("FAIL GPU3", OTHERS)
    ),
    Case("driver-library", "module unread", software(driver_version=TIMEOUT), (f"UNKNOWN {ALL}",)),
    Case("device-nodes", "all there", NODE, ("PASS host",)),
    Case("device-nodes", "no memory node", nodes("nvidiactl", "nvidia0"), ("WARN host",)),
    Case("device-nodes", "no GPU node", nodes("nvidiactl", "nvidia-uvm"), ("WARN host",)),
    Case("device-nodes", "unread", with_part(NODE, "container", nvidia_devices=TIMEOUT), ("UNKNOWN host",)),
    Case("driver-flavour", "open", NODE, (f"PASS {ALL}",)),
    Case("driver-flavour", "closed on Hopper", software(ONE, driver_open_module=False), ("WARN GPU0",)),
    Case("driver-flavour", "unread", software(ONE, driver_open_module=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("driver-flavour", "not in the catalogue", BLACKWELL_CLOSED, ("UNKNOWN GPU0",)),
    Case("driver-cuda", "new enough", NODE, (f"PASS {ALL}",)),
    Case("driver-cuda", "too old", software(ONE, cuda_driver_version="11.4"), ("WARN GPU0",)),
    Case("driver-cuda", "unread", software(ONE, cuda_driver_version=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-recovery-action", "none", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-recovery-action", "reset", with_gpus(NODE, 3, recovery_action="gpu reset"), ("FAIL GPU3", OTHERS)
    ),
    Case("gpu-recovery-action", "restart", with_gpus(ONE, recovery_action="node reboot"), ("FAIL GPU0",)),
    Case(
        "gpu-recovery-action", "IMEX", with_gpus(ONE, recovery_action="recover imex domain"), ("FAIL GPU0",)
    ),
    Case(
        "gpu-recovery-action", "older driver", with_gpus(ONE, recovery_action=NOT_SUPPORTED), ("SKIP GPU0",)
    ),
    Case("gpu-recovery-action", "unread", with_gpus(ONE, recovery_action=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-lost", "all answer", NODE, (f"PASS {ALL}",)),
    Case("gpu-lost", "it hangs", with_gpus(NODE, 3, hung_call="x", name=TIMEOUT), ("FAIL GPU3", OTHERS)),
    Case("gpu-lost", "hangs alone", with_gpus(ONE, hung_call="x", name=TIMEOUT), ("FAIL GPU0",)),
    Case("gpu-lost", "lost", with_gpus(NODE, 3, name=LOST), ("FAIL GPU3", OTHERS)),
    Case(
        "gpu-lost", "lost, its name still known", with_gpus(NODE, 3, memory_bytes=LOST), ("FAIL GPU3", OTHERS)
    ),
    Case(
        "gpu-lost",
        "several errors",
        with_gpus(NODE, 3, power_w=BROKEN, temperature_c=BROKEN),
        ("FAIL GPU3", OTHERS),
    ),
    Case(
        "gpu-lost",
        "one query fails",
        with_gpus(NODE, 3, failed_queries=("addressing_mode",)),
        ("WARN GPU3", OTHERS),
    ),
    Case("gpu-lost", "a fan is another check's", with_gpus(ONE, failed_queries=("fan",)), ("PASS GPU0",)),
    Case(
        "gpu-lost",
        "nothing asked",
        with_gpus(
            ONE,
            name=TIMEOUT,
            memory_bytes=TIMEOUT,
            memory_used_bytes=TIMEOUT,
            temperature_c=TIMEOUT,
            power_w=TIMEOUT,
            utilization_percent=TIMEOUT,
            sm_clock_mhz=TIMEOUT,
        ),
        ("UNKNOWN GPU0",),
    ),
)

IDENTITY_CASES = (
    Case("gpu-memory-size", "full", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-memory-size",
        "less than the others",
        with_gpus(NODE, 3, memory_bytes=64 * GIB),
        ("FAIL GPU3", OTHERS),
    ),
    Case("gpu-memory-size", "less than the model", with_gpus(ONE, memory_bytes=40 * GIB), ("WARN GPU0",)),
    Case(
        "gpu-memory-size",
        "a shared GPU",
        with_gpus(ONE, memory_bytes=40 * GIB, virtualization="vgpu"),
        ("PASS GPU0",),
    ),
    Case("gpu-memory-size", "unread", with_gpus(ONE, memory_bytes=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("vbios", "one", NODE, (f"PASS {ALL}",)),
    Case("vbios", "another", with_gpus(NODE, 3, vbios_version="96.00.74.00.01"), ("WARN GPU3", OTHERS)),
    Case("vbios", "unread", with_gpus(ONE, vbios_version=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-firmware", "one", NODE, (f"PASS {ALL}",)),
    Case("gpu-firmware", "another", with_gpus(NODE, 3, gsp_firmware_version="535.1"), ("WARN GPU3", OTHERS)),
    Case("gpu-firmware", "unread", with_gpus(ONE, gsp_firmware_version=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("inforom", "valid", NODE, (f"PASS {ALL}",)),
    Case("inforom", "damaged", with_gpus(NODE, 3, inforom_valid=False), ("FAIL GPU3", OTHERS)),
    Case("inforom", "unread", with_gpus(ONE, inforom_valid=NOT_RECORDED), ("UNKNOWN GPU0",)),
    Case("confidential-compute", "off", NODE, (f"PASS {ALL}",)),
    Case("confidential-compute", "on", with_gpus(NODE, confidential_compute=True), ("WARN host",)),
    Case(
        "confidential-compute",
        "on for one",
        with_gpus(NODE, 3, confidential_compute=True),
        ("WARN GPU3", OTHERS),
    ),
    Case("confidential-compute", "unread", with_gpus(ONE, confidential_compute=TIMEOUT), ("UNKNOWN GPU0",)),
)

MEMORY_CASES = (
    Case("ecc-mode", "on", NODE, (f"PASS {ALL}",)),
    Case(
        "ecc-mode",
        "off",
        with_health(with_gpus(NODE, 3, ecc_enabled=False), 3, ecc_pending=False),
        ("WARN GPU3", OTHERS),
    ),
    Case("ecc-mode", "off after a reset", with_health(ONE, ecc_pending=False), ("WARN GPU0",)),
    Case(
        "ecc-mode",
        "off on a GeForce",
        with_health(with_gpus(ONE, name="NVIDIA GeForce RTX 4090", ecc_enabled=False), ecc_pending=False),
        ("SKIP GPU0",),
    ),
    Case("ecc-mode", "unread", with_gpus(ONE, ecc_enabled=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("ecc-corrected", "none", NODE, (f"PASS {ALL}",)),
    Case("ecc-corrected", "some", with_gpus(ONE, ecc_corrected_volatile=177), ("PASS GPU0",)),
    Case("ecc-corrected", "many", with_gpus(ONE, ecc_corrected_volatile=30_000_000), ("WARN GPU0",)),
    Case("ecc-corrected", "unread", with_gpus(ONE, ecc_corrected_volatile=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("ecc-sram", "none", NODE, (f"PASS {ALL}",)),
    Case("ecc-sram", "one", with_health(NODE, 3, sram_uncorrected_aggregate=1), ("WARN GPU3", OTHERS)),
    Case("ecc-sram", "worn out", with_health(ONE, sram_uncorrected_aggregate=5), ("FAIL GPU0",)),
    Case(
        "ecc-sram",
        "by the driver's threshold",
        with_health(ONE, sram_threshold_exceeded=True),
        ("FAIL GPU0",),
    ),
    Case("ecc-sram", "beyond repair", with_health(ONE, unrepairable=True), ("FAIL GPU0",)),
    Case("ecc-sram", "unread", with_health(ONE, sram_uncorrected_aggregate=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("row-remap-reserve", "full", NODE, (f"PASS {ALL}",)),
    Case(
        "row-remap-reserve",
        "a bank used up",
        with_health(ONE, remap_banks=counts({"max": 9, "none": 1})),
        ("WARN GPU0",),
    ),
    Case(
        "row-remap-reserve",
        "a bank nearly",
        with_health(ONE, remap_banks=counts({"max": 9, "low": 1})),
        ("WARN GPU0",),
    ),
    Case(
        "row-remap-reserve",
        "as many as allowed",
        with_health(ONE, remapped_rows_uncorrected=512),
        ("FAIL GPU0",),
    ),
    Case("row-remap-reserve", "a repair waits", with_health(ONE, repair_pending=True), ("WARN GPU0",)),
    Case("row-remap-reserve", "unread", with_health(ONE, remap_banks=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("retired-pages", "rows instead", NODE, (f"SKIP {ALL}",)),
    Case(
        "retired-pages",
        "none",
        with_health(ONE, retired_pages_single_bit=0, retired_pages_double_bit=0, retired_pages_pending=False),
        ("PASS GPU0",),
    ),
    Case(
        "retired-pages",
        "pending",
        with_health(ONE, retired_pages_single_bit=2, retired_pages_pending=True),
        ("WARN GPU0",),
    ),
    Case("retired-pages", "some", with_health(ONE, retired_pages_single_bit=11), ("WARN GPU0",)),
    Case("retired-pages", "a double bit error", with_health(ONE, retired_pages_double_bit=1), ("WARN GPU0",)),
    Case(
        "retired-pages",
        "too many",
        with_health(ONE, retired_pages_single_bit=40, retired_pages_double_bit=20),
        ("FAIL GPU0",),
    ),
    Case("retired-pages", "unread", with_health(ONE, retired_pages_double_bit=TIMEOUT), ("UNKNOWN GPU0",)),
)

THERMAL_CASES = (
    Case("gpu-violations", "none", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-violations",
        "heat",
        with_limits(NODE, 3, violations_us=counts({"hw_thermal_slowdown": 5_000_000})),
        ("WARN GPU3", OTHERS),
    ),
    Case(
        "gpu-violations",
        "a moment of heat",
        with_limits(ONE, violations_us=counts({"sw_thermal_slowdown": 7_000_000})),
        ("PASS GPU0",),
    ),
    Case(
        "gpu-violations",
        "one GPU alone is capped",
        with_limits(
            with_limits(NODE, violations_us=counts({"sw_power_cap": 0})),
            3,
            violations_us=counts({"sw_power_cap": 40_000}),
        ),
        ("WARN GPU3", OTHERS),
    ),
    Case("gpu-violations", "unread", with_limits(ONE, violations_us=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("application-clocks", "default", NODE, (f"PASS {ALL}",)),
    Case(
        "application-clocks",
        "lowered",
        with_limits(NODE, 3, application_sm_clock_mhz=1200),
        ("WARN GPU3", OTHERS),
    ),
    Case(
        "application-clocks",
        "deprecated",
        with_limits(ONE, application_sm_clock_mhz=NOT_SUPPORTED),
        ("SKIP GPU0",),
    ),
    Case(
        "application-clocks", "unread", with_limits(ONE, application_sm_clock_mhz=TIMEOUT), ("UNKNOWN GPU0",)
    ),
    Case("gpu-temperature", "cool", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-temperature",
        "no margin",
        with_limits(with_gpus(ONE, temperature_c=87), temperature_margin_c=0),
        ("WARN GPU0",),
    ),
    Case(
        "gpu-temperature",
        "clocks fall",
        with_limits(with_gpus(ONE, temperature_c=89), temperature_margin_c=-3),
        ("FAIL GPU0",),
    ),
    Case(
        "gpu-temperature",
        "a margin that is no reading",
        with_limits(ONE, temperature_margin_c=0),
        ("SKIP GPU0",),
    ),
    Case(
        "gpu-temperature",
        "older GPU, hot",
        with_limits(
            with_gpus(ONE, temperature_c=91), temperature_margin_c=NOT_SUPPORTED, temperature_slowdown_c=89
        ),
        ("FAIL GPU0",),
    ),
    Case(
        "gpu-temperature",
        "older GPU, warm",
        with_limits(
            with_gpus(ONE, temperature_c=86),
            temperature_margin_c=NOT_SUPPORTED,
            temperature_slowdown_c=89,
            temperature_max_operating_c=85,
        ),
        ("WARN GPU0",),
    ),
    Case("gpu-temperature", "unread", with_gpus(ONE, temperature_c=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-memory-temperature", "cool", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-memory-temperature", "hot", with_limits(NODE, 3, memory_temperature_c=96), ("FAIL GPU3", OTHERS)
    ),
    Case(
        "gpu-memory-temperature", "unread", with_limits(ONE, memory_temperature_c=TIMEOUT), ("UNKNOWN GPU0",)
    ),
    Case("gpu-temperature-spread", "even", NODE, ("PASS host",)),
    Case("gpu-temperature-spread", "one is hotter", spread(75), ("WARN GPU3",)),
    Case("gpu-temperature-spread", "one works harder", spread(75, power_w=200.0), ("SKIP host",)),
    Case("gpu-temperature-spread", "one GPU", ONE, ("SKIP host",)),
    Case("gpu-temperature-spread", "unread", with_gpus(NODE, temperature_c=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "gpu-temperature-spread", "one unread", with_gpus(NODE, 3, temperature_c=TIMEOUT), ("UNKNOWN host",)
    ),
    Case("gpu-fan", "the server cools", NODE, (f"SKIP {ALL}",)),
    Case("gpu-fan", "turns", with_limits(ONE, fan_percent=40), ("PASS GPU0",)),
    Case("gpu-fan", "does not turn and may", with_limits(ONE, fan_percent=0), ("PASS GPU0",)),
    Case(
        "gpu-fan",
        "does not turn in the heat",
        with_limits(with_gpus(ONE, temperature_c=80), fan_percent=0),
        ("FAIL GPU0",),
    ),
    Case(
        "gpu-fan",
        "does not turn, temperature unread",
        with_limits(with_gpus(ONE, temperature_c=TIMEOUT), fan_percent=0),
        ("UNKNOWN GPU0",),
    ),
    Case("gpu-fan", "no sensor", with_limits(ONE, fan_percent=BROKEN), ("WARN GPU0",)),
    Case("gpu-fan", "unread", with_limits(ONE, fan_percent=TIMEOUT), ("UNKNOWN GPU0",)),
)

USE_CASES = (
    Case("gpu-memory-leftover", "free", NODE, (f"PASS {ALL}",)),
    Case("gpu-memory-leftover", "left behind", running(used=30 * GIB), ("WARN GPU5", "PASS GPU0-4, GPU6-7")),
    Case("gpu-memory-leftover", "owned", running(SPINNER, used=30 * GIB), (f"PASS {ALL}",)),
    Case("gpu-memory-leftover", "unread", with_gpus(ONE, memory_used_bytes=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-idle", "idle", NODE, (f"PASS {ALL}",)),
    Case(
        "gpu-idle",
        "busy for half of the time",
        with_gpus(NODE, 3, utilization_percent=50),
        ("WARN GPU3", OTHERS),
    ),
    Case("gpu-idle", "busy for less", with_gpus(NODE, utilization_percent=49), (f"PASS {ALL}",)),
    Case("gpu-idle", "load without work", with_gpus(NODE, 3, utilization_percent=100), ("WARN GPU3", OTHERS)),
    Case(
        "gpu-idle",
        "load that takes power",
        with_gpus(ONE, utilization_percent=100, power_w=650.0),
        ("PASS GPU0",),
    ),
    Case("gpu-idle", "unread", with_gpus(ONE, utilization_percent=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-spinning", "no process", NODE, (f"PASS {ALL}",)),
    Case("gpu-spinning", "spinning", running(SPINNER), ("WARN GPU5", "PASS GPU0-4, GPU6-7")),
    Case(
        "gpu-spinning",
        "one rate unread",
        running(
            msgspec.structs.replace(SPINNER, memory_percent=TIMEOUT),
            msgspec.structs.replace(SPINNER, sm_percent=TIMEOUT),
        ),
        ("UNKNOWN GPU5", "PASS GPU0-4, GPU6-7"),
    ),
    Case(
        "gpu-spinning",
        "one process idle",
        running(
            GpuProcess(pid=7, name="python", sm_percent=99, memory_percent=40),
            GpuProcess(pid=8, name="Xorg", sm_percent=NOT_SUPPORTED, memory_percent=NOT_SUPPORTED),
        ),
        (f"PASS {ALL}",),
    ),
    Case(
        "gpu-spinning",
        "working",
        running(GpuProcess(pid=7, name="python", sm_percent=99, memory_percent=40)),
        (f"PASS {ALL}",),
    ),
    Case("gpu-spinning", "unread", with_gpus(ONE, processes=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("gpu-lost", "no GPU", BOX, ("SKIP host",)),
    Case("driver-cuda", "one GPU", h100_node(gpus=(h100(0),)), ("PASS GPU0",)),
)

GPU_HEALTH_CASES = (*DRIVER_CASES, *IDENTITY_CASES, *MEMORY_CASES, *THERMAL_CASES, *USE_CASES)
