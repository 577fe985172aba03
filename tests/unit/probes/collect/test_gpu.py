"""Test GPUs from NVML, nvidia-smi, the PCI bus, and loose outputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from probes.base.record import Reason, Unknown
from probes.collect import gpu as collector
from probes.collect.collecting import CollectOptions
from probes.facts import Gpu
from probes.sources.base import Given, NvmlValue
from tests.support.fake_source import FakeSource

XML = """<nvidia_smi_log><driver_version>535.1</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:1B:00.0"><product_name>NVIDIA A100</product_name></gpu></nvidia_smi_log>"""
SYSFS = {
    "/proc/bus/pci/devices": "00d8\t10de2330\t10\t\tnvidia\n1b00\t10de2330\t10\n0000\t80861234\t0\n",
    "/sys/bus/pci/devices/0000:1b:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:1b:00.0/class": "0x030200\n",
    "/sys/bus/pci/devices/0000:1b:00.0/numa_node": "1\n",
    "/sys/bus/pci/devices/0000:1b:00.0/local_cpulist": "52-103\n",
    "/sys/bus/pci/devices/0000:05:00.0/vendor": "0x10de\n",
    "/sys/bus/pci/devices/0000:05:00.0/class": "0x068000\n",
    "/sys/bus/pci/devices/0000:00:00.0/vendor": "0x8086\n",
    "/sys/bus/pci/devices/0000:00:00.0/class": "0x030000\n",
}
NVML: dict[str, NvmlValue | Unknown] = {
    "nvmlDeviceGetCount": 1,
    "nvmlSystemGetDriverVersion": "570.86.15",
    "nvmlDeviceGetName(0,)": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetUUID(0,)": "GPU-1",
    "nvmlDeviceGetPciInfo(0,)": {"busId": "00000000:1B:00.0"},
    "nvmlDeviceGetMemoryInfo(0,)": {"total": 85520809984, "free": 85520809000, "used": 984},
    "nvmlDeviceGetCudaComputeCapability(0,)": [9, 0],
    "nvmlDeviceGetEccMode(0,)": [1, 1],
    "nvmlDeviceGetMigMode(0,)": [0, 0],
    "nvmlDeviceGetRemappedRows(0,)": [0, 1, 0, 1],
    "nvmlDeviceGetPowerUsage(0,)": 68920,
    "nvmlDeviceGetCurrPcieLinkWidth(0,)": 16,
    "nvmlDeviceGetComputeMode(0,)": 3,
    "nvmlDeviceGetCurrentClocksEventReasons(0,)": Unknown(Reason.TOOL_MISSING, "Function Not Found"),
    "nvmlDeviceGetCurrentClocksThrottleReasons(0,)": 0x44,
    "nvmlDeviceGetGpuFabricInfo(0,)": {"state": 3, "status": 0},
    "nvmlDeviceGetComputeRunningProcesses(0,)": [{"pid": 42, "usedGpuMemory": None}],
    "nvmlDeviceGetTotalEccErrors(0, 1, 0)": Unknown(Reason.NOT_SUPPORTED, "Not Supported"),
}


def gpus(source: FakeSource) -> tuple[Gpu, ...] | Unknown:
    all_gpus = collector.collect(source, CollectOptions())["gpus"]
    assert isinstance(all_gpus, tuple | Unknown)
    return all_gpus


def test_fields_of_a_gpu_come_from_nvml_and_sysfs() -> None:
    all_gpus = gpus(FakeSource(files={**SYSFS, "/proc/42/comm": "python\n"}, nvml=NVML))
    assert isinstance(all_gpus, tuple)
    (gpu,) = all_gpus
    assert (gpu.name, gpu.driver_version, gpu.memory_bytes) == (
        "NVIDIA H100 80GB HBM3",
        "570.86.15",
        85520809984,
    )
    assert (gpu.pci_bus_id, gpu.numa_node, gpu.cpu_affinity) == ("0000:1b:00.0", 1, "52-103")
    assert (gpu.compute_capability, gpu.compute_mode, gpu.fabric_state) == (
        "9.0",
        "exclusive process",
        "completed",
    )
    assert (gpu.ecc_enabled, gpu.mig_enabled, gpu.row_remap_pending, gpu.row_remap_failed) == (
        True,
        False,
        False,
        True,
    )
    assert (gpu.power_w, gpu.pcie.width) == (68.92, 16)
    assert gpu.throttle_reasons == ("sw_power_cap", "hw_thermal_slowdown")
    assert isinstance(gpu.processes, tuple)
    assert gpu.processes[0].name == "python"
    assert isinstance(gpu.processes[0].memory_bytes, Unknown)
    assert [ref.source for ref in gpu.evidence] == ["nvml", "file"]


def test_a_field_that_nvml_does_not_know_stays_unknown_for_its_reason() -> None:
    source = FakeSource(files=SYSFS, nvml=NVML, commands={"nvidia-smi -q -x": XML})
    source.is_live = True
    all_gpus = gpus(source)
    assert isinstance(all_gpus, tuple)
    errors = all_gpus[0].ecc_uncorrected_volatile
    assert isinstance(errors, Unknown)
    assert errors.reason is Reason.NOT_SUPPORTED
    assert source.asked == []


@pytest.mark.parametrize(
    "nvml",
    [
        {"nvmlDeviceGetCount": Unknown(Reason.ERROR, "Driver/library version mismatch")},
        {"nvmlDeviceGetCount": 1, "nvmlDeviceGetName(0,)": Unknown(Reason.ERROR, "GPU is lost")},
        {},
    ],
    ids=["mismatch", "every device fails", "no library"],
)
def test_nvidia_smi_is_asked_where_nvml_fails(nvml: dict[str, NvmlValue | Unknown]) -> None:
    commands = {
        "nvidia-smi -q -x": XML,
        "nvidia-smi nvlink -s": "GPU 0: NVIDIA A100 (UUID: GPU-1)\n\t Link 0: 25 GB/s\n",
    }
    all_gpus = gpus(FakeSource(files=SYSFS, nvml=nvml, commands=commands))
    assert isinstance(all_gpus, tuple)
    (gpu,) = all_gpus
    assert (gpu.name, gpu.driver_version, gpu.numa_node) == ("NVIDIA A100", "535.1", 1)
    assert isinstance(gpu.nvlinks, tuple)
    assert gpu.nvlinks[0].active is True
    assert gpu.evidence[0].key == "nvidia-smi -q -x"


def test_gpus_on_the_bus_that_no_driver_answers_for_are_unknown() -> None:
    source = FakeSource(files=SYSFS)
    answer = collector.collect(source, CollectOptions())
    assert answer["pci_gpus"] == ("0000:1b:00.0",)
    all_gpus = answer["gpus"]
    assert isinstance(all_gpus, Unknown)
    assert all_gpus.reason is Reason.TOOL_MISSING
    assert "1 NVIDIA GPU on the PCI bus, but no driver answers" in all_gpus.detail


def test_gpus_on_the_bus_of_which_the_driver_shows_none_are_unknown() -> None:
    all_gpus = gpus(FakeSource(files=SYSFS, nvml={"nvmlDeviceGetCount": 0}))
    assert isinstance(all_gpus, Unknown)
    assert "on the PCI bus" in all_gpus.detail


def test_the_first_text_that_states_the_number_of_gpus_decides() -> None:
    texts = [f"Driver Version : 550.1\nAttached GPUs : {count}\n" for count in (3, 2)]
    given = tuple(Given(name=f"{number}.txt", text=text) for number, text in enumerate(texts))
    answer = collector.collect(FakeSource(given={"nvidia-smi-text": given}), CollectOptions())
    assert answer["attached_gpus"] == 3


@pytest.mark.parametrize("files", [{}, {"/proc/bus/pci/devices": "0000\t80861234\t0\n"}])
def test_a_machine_without_gpus_has_empty_lists(files: dict[str, str]) -> None:
    answer = collector.collect(FakeSource(files=files), CollectOptions())
    assert (answer["gpus"], answer["pci_gpus"]) == ((), ())


def test_a_timeout_is_not_taken_for_absence() -> None:
    late = Unknown(Reason.TIMEOUT, "nvidia-smi took longer than 30 s")
    all_gpus = gpus(FakeSource(files=SYSFS, nvml=lambda *_: late, commands={"nvidia-smi -q -x": late}))
    assert isinstance(all_gpus, Unknown)
    assert all_gpus.reason is Reason.TIMEOUT


@pytest.mark.parametrize("files", [{}, SYSFS])
def test_a_timeout_of_nvidia_smi_is_reported_where_nvml_is_not_installed(files: dict[str, str]) -> None:
    late = Unknown(Reason.TIMEOUT, "nvidia-smi took longer than 30 s")
    all_gpus = gpus(FakeSource(files=files, commands={"nvidia-smi -q -x": late}))
    assert isinstance(all_gpus, Unknown)
    assert all_gpus.reason is Reason.TIMEOUT


def test_only_a_pasted_matrix() -> None:
    matrix = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNV4\t0-7\t0\nGPU1\tNV4\tX\t8-15\t1\n"
    all_gpus = gpus(FakeSource(commands={"nvidia-smi topo -m": matrix}, missing=Reason.NOT_RECORDED))
    assert isinstance(all_gpus, tuple)
    assert [(gpu.index, gpu.numa_node, gpu.cpu_affinity) for gpu in all_gpus] == [
        (0, 0, "0-7"),
        (1, 1, "8-15"),
    ]
    assert all(isinstance(gpu.name, Unknown) and gpu.name.reason is Reason.NOT_RECORDED for gpu in all_gpus)


def test_nothing_recorded() -> None:
    all_gpus = gpus(FakeSource(missing=Reason.NOT_RECORDED))
    assert isinstance(all_gpus, Unknown)
    assert all_gpus.reason is Reason.NOT_RECORDED


def links_of(
    state: Callable[[int], NvmlValue | Unknown], remote: NvmlValue, kind: int = 255
) -> NvmlValue | object:
    def nvml(call: str, *args: int) -> NvmlValue | Unknown:
        if call == "nvmlDeviceGetNvLinkState":
            return state(args[1])
        if call == "nvmlDeviceGetNvLinkRemotePciInfo":
            return {"busId": remote}
        if call == "nvmlDeviceGetNvLinkRemoteDeviceType":
            return kind
        if call == "nvmlDeviceGetFieldValues":
            return [{"fieldId": 90, "nvmlReturn": 0, "value": {"uiVal": 26562}}]
        return NVML.get(f"{call}{args}" if args else call, Unknown(Reason.NOT_SUPPORTED, "Not Supported"))

    all_gpus = gpus(FakeSource(files=SYSFS, nvml=nvml))
    assert isinstance(all_gpus, tuple)
    return all_gpus[0].nvlinks


def until(count: int, end: Unknown) -> Callable[[int], NvmlValue | Unknown]:
    return lambda port: end if port >= count else 1


INVALID = Unknown(Reason.ERROR, "nvmlDeviceGetNvLinkState: Invalid Argument")
UNSUPPORTED = Unknown(Reason.NOT_SUPPORTED, "Not Supported")


def test_links_to_a_switch_are_named_so() -> None:
    links = links_of(until(18, INVALID), "00000000:05:00.0")
    assert isinstance(links, tuple)
    assert len(links) == 18
    assert {link.remote for link in links} == {"switch"}
    assert links[0].bandwidth_bytes_per_s == 26.562e9


def test_links_to_an_invisible_switch_are_named_so() -> None:
    links = links_of(until(1, INVALID), "FFFFFFFF:FF:FF.0", kind=2)
    assert isinstance(links, tuple)
    assert links[0].remote == "switch"


def test_links_to_something_that_cannot_be_named_are_unknown() -> None:
    links = links_of(until(1, INVALID), "00000000:77:00.0")
    assert isinstance(links, tuple)
    assert isinstance(links[0].remote, Unknown)


def test_a_gpu_without_nvlink_has_no_links() -> None:
    assert links_of(until(0, UNSUPPORTED), "") == ()


def test_nvlinks_of_a_lost_gpu_are_unknown() -> None:
    lost = Unknown(Reason.ERROR, "GPU is lost")
    assert links_of(lambda _: lost, "") == lost
    partly = links_of(lambda port: lost if port == 1 else INVALID if port == 2 else 1, "")
    assert isinstance(partly, tuple)
    assert [link.active for link in partly] == [True, lost]


LSPCI = "1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"


@pytest.mark.parametrize(
    ("driver", "listed"),
    [("Failed to initialize NVML: Driver/library version mismatch\n", False), (None, True)],
)
def test_a_listing_of_the_bus_shows_gpus_unless_the_driver_reports_an_error(
    driver: str | None, listed: bool
) -> None:
    given = {"lspci": LSPCI} | ({"nvidia-smi-error": driver} if driver else {})
    gpus = collector.collect(FakeSource(given=given, missing=Reason.NOT_RECORDED), CollectOptions())["gpus"]
    assert (isinstance(gpus, tuple) and len(gpus) == 1) is listed
