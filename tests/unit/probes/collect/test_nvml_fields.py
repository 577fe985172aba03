"""Test which fact each answer of NVML becomes, with one row per answer."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from probes.base.record import Reason, Unknown
from probes.collect import gpu as collector
from probes.collect.collecting import CollectOptions
from probes.facts import Gpu, counts
from probes.sources.base import NvmlValue
from tests.support.fake_source import FakeSource

ABSENT = Unknown(Reason.NOT_SUPPORTED, "Not Supported")
BUS = {"busId": "00000000:1B:00.0", "pciDeviceId": 0x233010DE}
FIELDS = "nvmlDeviceGetFieldValues"
BANKS = {"max": 640, "high": 3, "partial": 2, "low": 1, "none": 4}


def gpu_of(answers: dict[str, Any]) -> Gpu:
    """Return the GPU of a driver with these answers; the key `field N` has the value of NVML field N."""

    def nvml(call: str, *args: int) -> NvmlValue | Unknown:
        if call == FIELDS:
            return [entry(answers.get(f"field {id_}")) for id_ in args[1:]]
        if call == "nvmlDeviceGetCount":
            return 1
        if call == "nvmlDeviceGetPciInfo":
            return BUS
        words = " ".join(map(str, (call, *args[1:])))
        return answers.get(words, answers.get(call, ABSENT)) if len(args) < 2 else answers.get(words, ABSENT)

    def entry(value: Any) -> NvmlValue:
        if isinstance(value, dict):
            return value
        if value is None:
            return {"nvmlReturn": 3, "valueType": 0, "value": {}}
        return {"nvmlReturn": 0, "valueType": 3, "value": {"ullVal": value}}

    answers = {"nvmlDeviceGetName": "NVIDIA H100 80GB HBM3", **answers}
    (gpu,) = collector.collect(FakeSource(nvml=nvml), CollectOptions())["gpus"]  # type: ignore[misc]
    assert isinstance(gpu, Gpu)
    return gpu


ROWS: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "pci_device_id", "10de:2330"),
    ({"nvmlDeviceGetMemoryInfo": {"total": 80, "free": 70, "used": 10}}, "memory_bytes", 80),
    ({"nvmlDeviceGetMemoryInfo": {"total": 80, "free": 70, "used": 10}}, "memory_used_bytes", 10),
    ({"nvmlDeviceGetCudaComputeCapability": [9, 1]}, "compute_capability", "9.1"),
    ({"nvmlDeviceGetInforomConfigurationChecksum": 7}, "inforom_valid", True),
    ({"nvmlDeviceGetInforomConfigurationChecksum": Unknown(Reason.ERROR, "Corrupted infoROM")},
     "inforom_valid", False),
    ({"nvmlDeviceGetCurrPcieLinkGeneration": 3}, "pcie.generation", 3),
    ({"nvmlDeviceGetMaxPcieLinkGeneration": 5}, "pcie.generation_max", 5),
    ({"nvmlDeviceGetCurrPcieLinkWidth": 8}, "pcie.width", 8),
    ({"nvmlDeviceGetMaxPcieLinkWidth": 16}, "pcie.width_max", 16),
    ({"field 94": 12}, "pcie_replays", 12),
    ({"field 94": 0}, "pcie_replays", 0),
    ({"nvmlDeviceGetGpuFabricInfoV": {"state": 2, "status": 0}}, "fabric_state", "in progress"),
    ({"nvmlDeviceGetGpuFabricInfo": {"state": 3, "status": 0}}, "fabric_state", "completed"),
    ({"nvmlDeviceGetGpuFabricInfoV": {"status": 0}}, "fabric.status", "success"),
    ({"nvmlDeviceGetGpuFabricInfoV": {"status": 999}}, "fabric.status", "error 999"),
    ({"nvmlDeviceGetGpuFabricInfoV": {"cliqueId": 7}}, "fabric.clique_id", 7),
    ({"nvmlDeviceGetGpuFabricInfoV": {"clusterUuid": [*range(15), 255]}}, "fabric.cluster_uuid",
     "00010203-0405-0607-0809-0a0b0c0d0eff"),
    ({"nvmlDeviceGetGpuFabricInfoV": {"clusterUuid": [256, -1, *[16] * 14]}}, "fabric.cluster_uuid",
     "00001010-1010-1010-1010-101010101010"),
    ({"field 230": 0}, "recovery_action", "none"),
    ({"field 230": 1}, "recovery_action", "gpu reset"),
    ({"field 230": 77}, "recovery_action", "action 77"),
    ({"field 226": 1, "field 227": 0}, "recovery_action", "gpu reset"),
    ({"field 226": 0, "field 227": 1}, "recovery_action", "drain and reset"),
    ({"field 226": 0, "field 227": 0}, "recovery_action", "none"),
    ({"field 226": 0}, "recovery_action", "none"),
    ({"nvmlDeviceGetPersistenceMode": 1}, "persistence_mode", True),
    ({"nvmlDeviceGetPersistenceMode": 0}, "persistence_mode", False),
    ({"nvmlDeviceGetComputeMode": 0}, "compute_mode", "default"),
    ({"nvmlDeviceGetComputeMode": 2}, "compute_mode", "prohibited"),
    ({"nvmlDeviceGetMigMode": [0, 1]}, "mig_enabled", False),
    ({"nvmlDeviceGetMigMode": [0, 1]}, "mig_pending", True),
    ({"nvmlDeviceGetMigMode": [0, 1]}, "mig_devices", ()),
    ({"nvmlDeviceGetEccMode": [1, 0]}, "ecc_enabled", True),
    ({"nvmlDeviceGetEccMode": [1, 0]}, "memory_health.ecc_pending", False),
    ({"nvmlDeviceGetTotalEccErrors 0 0": 3}, "ecc_corrected_volatile", 3),
    ({"nvmlDeviceGetTotalEccErrors 1 0": 4}, "ecc_uncorrected_volatile", 4),
    ({"field 5": 9}, "memory_health.corrected_aggregate", 9),
    ({"field 6": 8}, "memory_health.uncorrected_aggregate", 8),
    ({"nvmlDeviceGetRemappedRows": [2, 3, 1, 0]}, "memory_health.remapped_rows_corrected", 2),
    ({"nvmlDeviceGetRemappedRows": [2, 3, 1, 0]}, "memory_health.remapped_rows_uncorrected", 3),
    ({"nvmlDeviceGetRemappedRows": [2, 3, 1, 0]}, "row_remap_pending", True),
    ({"nvmlDeviceGetRemappedRows": [2, 3, 1, 0]}, "row_remap_failed", False),
    ({"nvmlDeviceGetRowRemapperHistogram": BANKS}, "memory_health.remap_banks", counts(BANKS)),
    ({"nvmlDeviceGetSramEccErrorStatus": {"volatileUncParity": 1, "volatileUncSecDed": 4}},
     "memory_health.sram_uncorrected_volatile", 5),
    ({"nvmlDeviceGetSramEccErrorStatus": {"aggregateUncParity": 2, "aggregateUncSecDed": 5}},
     "memory_health.sram_uncorrected_aggregate", 7),
    ({"nvmlDeviceGetMemoryErrorCounter 1 0 7": 6}, "memory_health.sram_uncorrected_volatile", 6),
    ({"nvmlDeviceGetMemoryErrorCounter 1 1 7": 7}, "memory_health.sram_uncorrected_aggregate", 7),
    ({"nvmlDeviceGetSramEccErrorStatus": {"bThresholdExceeded": 1}},
     "memory_health.sram_threshold_exceeded", True),
    ({"field 29": 1, "field 30": 2}, "memory_health.retired_pages_single_bit", 1),
    ({"field 29": 1, "field 30": 2}, "memory_health.retired_pages_double_bit", 2),
    ({"field 29": 1, "field 30": 2}, "memory_health.retired_pages", 3),
    ({"field 31": 1}, "memory_health.retired_pages_pending", True),
    ({"nvmlDeviceGetTemperature 0": 40}, "temperature_c", 40),
    ({"nvmlDeviceGetPowerUsage": 71_500}, "power_w", 71.5),
    ({"nvmlDeviceGetEnforcedPowerLimit": 600_000}, "power_limit_w", 600.0),
    ({"nvmlDeviceGetPowerManagementDefaultLimit": 700_000}, "power_limit_default_w", 700.0),
    ({"field 192": 650_000}, "limits.power_limit_requested_w", 650.0),
    ({"field 188": 750_000}, "limits.power_limit_max_w", 750.0),
    ({"nvmlDeviceGetClockInfo 1": 1755}, "sm_clock_mhz", 1755),
    ({"nvmlDeviceGetMaxClockInfo 1": 1980}, "sm_clock_max_mhz", 1980),
    ({"nvmlDeviceGetClockInfo 2": 2619}, "limits.memory_clock_mhz", 2619),
    ({"nvmlDeviceGetMaxClockInfo 2": 2620}, "limits.memory_clock_max_mhz", 2620),
    ({"nvmlDeviceGetApplicationsClock 0": 1700}, "limits.application_sm_clock_mhz", 1700),
    ({"nvmlDeviceGetDefaultApplicationsClock 0": 1710}, "limits.application_sm_clock_default_mhz", 1710),
    ({"nvmlDeviceGetPerformanceState": 2}, "limits.performance_state", "P2"),
    ({"nvmlDeviceGetFanSpeed": 55}, "limits.fan_percent", 55),
    ({"field 82": 61}, "limits.memory_temperature_c", 61),
    ({"field 74": 5_999, "field 270": 2_000}, "limits.violations_us",
     counts({"sw_power_cap": 5, "hw_thermal_slowdown": 2})),
    ({"nvmlDeviceGetUtilizationRates": {"gpu": 97, "memory": 40}}, "utilization_percent", 97),
    ({"field 94": {"nvmlReturn": 0, "valueType": 1, "value": {"uiVal": 33}}}, "pcie_replays", 33),
]  # fmt: skip

THRESHOLDS = {f"nvmlDeviceGetTemperatureThreshold {kind}": 90 + kind for kind in range(4)}
LIMITS = {"field 193": -5, "field 194": -2, "field 196": 0}
TEMPERATURES = ("slowdown_c", "shutdown_c", "max_operating_c")


@pytest.mark.parametrize(("answers", "path", "value"), ROWS)
def test_an_answer_becomes_a_fact(answers: dict[str, Any], path: str, value: Any) -> None:
    fact = operator.attrgetter(path)(gpu_of(answers))
    assert (fact, type(fact)) == (value, type(value))


@pytest.mark.parametrize(("answers", "path", "value"), [row for row in ROWS if row[0] and row[2] != ()])
def test_without_the_answer_the_fact_is_unknown(answers: dict[str, Any], path: str, value: Any) -> None:
    if path != "memory_health.retired_pages":
        assert isinstance(operator.attrgetter(path)(gpu_of({})), Unknown)


@pytest.mark.parametrize(
    ("answers", "expected", "memory"),
    [
        (THRESHOLDS, (91, 90, 93), 92),
        # Only a GPU that has a margin and its limits reports them in place of temperatures.
        ({**THRESHOLDS, **LIMITS, "nvmlDeviceGetMarginTemperature": 30}, (-2, -5, 0), None),
        ({**THRESHOLDS, "nvmlDeviceGetMarginTemperature": 30}, (91, 90, 93), 92),
        ({**THRESHOLDS, **LIMITS}, (91, 90, 93), 92),
    ],
    ids=["temperatures", "margin with limits", "margin alone", "limits alone"],
)
def test_temperatures_are_limits_only_with_a_margin(
    answers: dict[str, Any], expected: tuple[int, ...], memory: int | None
) -> None:
    limits = gpu_of(answers).limits
    assert tuple(getattr(limits, f"temperature_{name}") for name in TEMPERATURES) == expected
    hottest = limits.memory_temperature_max_c
    assert hottest == memory if memory is not None else isinstance(hottest, Unknown)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(2, Reason.NOT_SUPPORTED), (3, Reason.NOT_SUPPORTED), (13, Reason.NOT_SUPPORTED), (15, Reason.ERROR)],
)
def test_an_old_driver_does_not_support_a_field(code: int, reason: Reason) -> None:
    replays = gpu_of({"field 94": {"nvmlReturn": code, "valueType": 0, "value": {}}}).pcie_replays
    assert isinstance(replays, Unknown)
    assert replays.reason is reason


def test_link_errors_are_read_of_links_that_are_up() -> None:
    links = {f"nvmlDeviceGetNvLinkState {link}": int(link != 1) for link in range(3)}
    end = Unknown(Reason.ERROR, "nvmlDeviceGetNvLinkState: Invalid Argument")
    # The scope of a field is the number of the link, in the upper half of the field's id.
    errors = {f"field {id_ + (link << 16)}": id_ + link for id_ in (161, 162, 163) for link in range(3)}
    gpu = gpu_of({**links, "nvmlDeviceGetNvLinkState 3": end, **errors})
    assert isinstance(gpu.nvlinks, tuple)
    counted = [
        (link.active, link.replay_errors, link.recovery_errors, link.crc_errors) for link in gpu.nvlinks
    ]
    assert counted[::2] == [(True, 161, 162, 163), (True, 163, 164, 165)]
    assert counted[1][0] is False
    assert all(isinstance(errors, Unknown) for errors in counted[1][1:])
