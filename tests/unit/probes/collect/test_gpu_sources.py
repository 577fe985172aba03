"""Test which sources of GPUs are asked on which machine, and what the collector reports besides the GPUs."""

from __future__ import annotations

import pytest

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.collect import gpu as collector
from probes.collect.collecting import CollectOptions
from probes.facts import Gpu
from probes.sources.base import NvmlValue
from tests.support.fake_source import Answer, FakeSource

ADDRESS = "0000:1b:00.0"
DEVICE = f"/sys/bus/pci/devices/{ADDRESS}"
ON_BUS = {
    "/proc/bus/pci/devices": "1b00\t10de2330\t10\n",
    f"{DEVICE}/vendor": "0x10de\n",
    f"{DEVICE}/class": "0x030200\n",
}
XML = """<nvidia_smi_log><driver_version>535.1</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:1B:00.0"><product_name>NVIDIA A100</product_name><vbios_version>96.00</vbios_version>
</gpu></nvidia_smi_log>"""
LSPCI = "1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"
QUERY = "nvidia-smi -q -x"
NVLINK = "nvidia-smi nvlink -s"
MATRIX = "nvidia-smi topo -m"
NVML: dict[str, NvmlValue | Unknown] = {
    "nvmlDeviceGetCount": 1,
    "nvmlSystemGetDriverVersion": "535.1",
    "nvmlDeviceGetName(0,)": "NVIDIA A100",
    "nvmlDeviceGetPciInfo(0,)": {"busId": "00000000:1B:00.0"},
}
GONE = Unknown(Reason.TOOL_MISSING, "no library")
LATE = Unknown(Reason.TIMEOUT, "took longer than 30 s")
FAULTY = Unknown(Reason.ERROR, "version mismatch")


def source_of(
    count: NvmlValue | Unknown = GONE,
    *,
    live: bool = False,
    commands: dict[str, Answer] | None = None,
    files: dict[str, str] | None = None,
) -> FakeSource:
    nvml = NVML if count == 1 else {"nvmlDeviceGetCount": count}
    source = FakeSource(files=ON_BUS if files is None else files, nvml=nvml, commands=commands)
    source.is_live = live
    return source


def facts_of(source: FakeSource) -> dict[str, object]:
    return collector.collect(source, CollectOptions())


@pytest.mark.parametrize(
    ("count", "commands", "asked"),
    [
        (1, {QUERY: XML}, []),
        # The first command that fails is the last, because the others ask the same driver.
        (GONE, {}, [QUERY]),
        (FAULTY, {}, [QUERY]),
        (LATE, {QUERY: XML}, []),
        (GONE, {QUERY: XML}, [QUERY, NVLINK]),
    ],
)
def test_commands_that_a_live_machine_is_asked(
    count: int | Unknown, commands: dict[str, Answer], asked: list[str]
) -> None:
    source = source_of(count, live=True, commands=commands)
    facts_of(source)
    assert source.asked == asked


def test_nvidia_smi_of_a_live_machine_without_the_library() -> None:
    facts = facts_of(source_of(live=True, commands={QUERY: XML}))
    assert isinstance(facts["gpus"], tuple)
    assert [gpu.name for gpu in facts["gpus"]] == ["NVIDIA A100"]
    assert (facts["attached_gpus"], facts["driver_answer_s"]) == (1, NOT_RECORDED)


def test_a_recording_adds_the_texts_to_the_answers_of_the_library() -> None:
    facts = facts_of(source_of(1, commands={QUERY: XML.replace("A100", "A30")}))
    (gpu,) = facts["gpus"]  # type: ignore[misc]
    assert (gpu.name, gpu.vbios_version) == ("NVIDIA A100", "96.00")
    (contradiction,) = facts["contradictions"]  # type: ignore[misc]
    assert contradiction.field == "name"


@pytest.mark.parametrize(
    ("bus", "texts", "expected"),
    [
        (Reason.NOT_RECORDED, {"lspci": LSPCI}, (ADDRESS,)),
        (Reason.PERMISSION, {"lspci": LSPCI}, Reason.PERMISSION),
        (Reason.NOT_RECORDED, {"nvidia-smi-xml": XML}, Reason.NOT_RECORDED),
    ],
)
def test_only_a_listing_of_the_bus_replaces_a_bus_that_was_not_recorded(
    bus: Reason, texts: dict[str, str], expected: tuple[str, ...] | Reason
) -> None:
    source = FakeSource(files={f"{DEVICE}/vendor": Unknown(bus)}, given=texts, missing=Reason.NOT_RECORDED)
    on_bus = facts_of(source)["pci_gpus"]
    assert (on_bus.reason if isinstance(on_bus, Unknown) else on_bus) == expected


@pytest.mark.parametrize(
    ("count", "commands", "expected"),
    [(0, {}, 0), (0, {QUERY: XML}, 1), (1, {}, 1), (GONE, {QUERY: XML}, 1), (GONE, {}, NOT_RECORDED)],
)
def test_the_number_of_gpus_that_the_driver_counts(
    count: int | Unknown, commands: dict[str, Answer], expected: int | Unknown
) -> None:
    assert facts_of(source_of(count, commands=commands))["attached_gpus"] == expected


@pytest.mark.parametrize(
    ("by_nvml", "by_smi", "expected"),
    [
        (NOT_RECORDED, LATE, LATE),
        (GONE, LATE, LATE),
        (GONE, Unknown(Reason.TOOL_MISSING, "nvidia-smi"), GONE),
        (GONE, NOT_RECORDED, GONE),
        (FAULTY, LATE, FAULTY),
        (0, LATE, LATE),
    ],
)
def test_the_reason_for_a_silent_driver(by_nvml: int | Unknown, by_smi: Unknown, expected: Unknown) -> None:
    reason = facts_of(source_of(by_nvml, commands={QUERY: by_smi}))["gpus"]
    assert isinstance(reason, Unknown)
    assert reason.reason is expected.reason
    assert f"({expected.detail})" in reason.detail


def test_the_seconds_until_the_library_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 101.23456))
    monkeypatch.setattr("probes.collect.gpu.time.monotonic", lambda: next(clock))
    assert facts_of(source_of(1, live=True))["driver_answer_s"] == 1.23


def test_later_gpus_are_announced_to_get_the_questions_of_the_first() -> None:
    announced = []

    class Announced(FakeSource):
        def expect(self, device: int, like: int) -> None:
            announced.append((device, like))

    facts_of(Announced(nvml={**NVML, "nvmlDeviceGetCount": 3}))
    assert announced == [(1, 0), (2, 0)]


def test_a_library_that_fails_for_every_gpu_has_the_reason_of_the_first() -> None:
    def nvml(call: str, *args: int) -> NvmlValue | Unknown:
        return 2 if call == "nvmlDeviceGetCount" else Unknown(Reason.ERROR, f"GPU {args} is lost")

    reason = facts_of(FakeSource(files=ON_BUS, nvml=nvml))["gpus"]
    assert isinstance(reason, Unknown)
    assert (reason.reason, "GPU (0,) is lost" in reason.detail) == (Reason.ERROR, True)


TOPOLOGY = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\tX\t{cpus}\t{node}\n"


@pytest.mark.parametrize(
    ("stated", "in_sysfs", "expected"),
    [
        ("0-7", "8-15\n", "0-7"),
        ("0-7", None, "0-7"),
        ("N/A", "8-15\n", "8-15"),
        (None, "8-15\n", "8-15"),
        (None, None, Reason.TOOL_MISSING),
    ],
)
def test_the_cpus_near_a_gpu_come_from_a_text_before_sysfs(
    stated: str | None, in_sysfs: str | None, expected: object
) -> None:
    files = ON_BUS | ({f"{DEVICE}/local_cpulist": in_sysfs} if in_sysfs else {})
    commands: dict[str, Answer] = {QUERY: XML}
    if stated:
        commands[MATRIX] = TOPOLOGY.format(cpus=stated, node=0)
    (gpu,) = facts_of(source_of(commands=commands, files=files))["gpus"]  # type: ignore[misc]
    assert isinstance(gpu, Gpu)
    near = gpu.cpu_affinity
    assert (near.reason if isinstance(near, Unknown) else near) == expected
