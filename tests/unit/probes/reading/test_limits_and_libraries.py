"""Test the limits of control groups, the files of NCCL that the loader uses, and answers of NVML."""

from __future__ import annotations

from typing import Any

import pytest

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.software import collect as collect_software
from probes.reading.cgroup import cpu_quota, memory_limit
from probes.reading.nvml.device import Device
from probes.sources.base import CommandResult
from tests.support.fake_source import FakeSource

MOUNT = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
GROUP = {"/proc/self/cgroup": "0::/job/task\n", "/proc/self/mountinfo": MOUNT}
TASK, JOB = "/sys/fs/cgroup/job/task", "/sys/fs/cgroup/job"
V1 = {
    "/proc/self/cgroup": "1:cpu:/\n4:memory:/\n",
    "/proc/self/mountinfo": "31 30 0:27 / /cg/cpu ro - cgroup cgroup rw,cpu\n"
    "32 30 0:28 / /cg/memory ro - cgroup cgroup rw,memory\n",
}


def reason_or_value(value: Any) -> Any:
    return value.reason if isinstance(value, Unknown) else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250000 100000", 2.5),
        ("1 100000", 0.00001),
        ("max 100000", None),
        ("250000 0", Reason.UNPARSABLE),
        ("250000", Reason.UNPARSABLE),
        ("x 100000", Reason.UNPARSABLE),
        ("-1 100000", Reason.UNPARSABLE),
    ],
)
def test_the_quota_of_version_2_in_cpus(text: str, expected: object) -> None:
    limit = cpu_quota(FakeSource(files=GROUP | {f"{TASK}/cpu.max": text}))
    assert reason_or_value(limit.value) == expected


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [
        ("400000", "100000", 4.0),
        ("1", "1", 1.0),
        ("-1", "100000", None),
        ("0", "100000", None),
        ("400000", "0", None),
        ("400000", "x", Reason.UNPARSABLE),
    ],
)
def test_the_quota_of_version_1_in_cpus(quota: str, period: str, expected: object) -> None:
    files = V1 | {"/cg/cpu/cpu.cfs_quota_us": quota, "/cg/cpu/cpu.cfs_period_us": period}
    assert reason_or_value(cpu_quota(FakeSource(files=files)).value) == expected


@pytest.mark.parametrize(
    ("limits", "value", "file"),
    [
        ({TASK: "100", JOB: "50"}, 50, f"{JOB}/memory.max"),
        ({TASK: "50", JOB: "100"}, 50, f"{TASK}/memory.max"),
        # Of equal limits, the one of the inner group is cited.
        ({TASK: "50", JOB: "50"}, 50, f"{TASK}/memory.max"),
        ({TASK: "max", JOB: "50"}, 50, f"{JOB}/memory.max"),
        ({TASK: "max", JOB: "max"}, None, ""),
        ({TASK: str(2**59)}, 2**59, f"{TASK}/memory.max"),
        ({TASK: str(2**60)}, None, ""),
        ({TASK: "x", JOB: "50"}, Reason.UNPARSABLE, f"{TASK}/memory.max"),
    ],
)
def test_the_tightest_limit_of_memory_counts(limits: dict[str, str], value: object, file: str) -> None:
    files = {f"{folder}/memory.max": text for folder, text in limits.items()}
    limit = memory_limit(FakeSource(files=GROUP | files))
    assert (reason_or_value(limit.value), limit.file) == (value, file)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"/proc/self/cgroup": Unknown(Reason.PERMISSION, "no")}, Reason.PERMISSION),
        ({"/proc/self/cgroup": "0::/job/task\n"}, Reason.TOOL_MISSING),
        # A group with listed controllers limits only these.
        (V1 | {"/cg/cpu/memory.limit_in_bytes": "50", "/cg/memory/memory.limit_in_bytes": "70"}, 70),
    ],
)
def test_the_hierarchy_with_the_controller_is_read(files: dict[str, Any], expected: object) -> None:
    assert reason_or_value(memory_limit(FakeSource(files=files)).value) == expected


def software(source: FakeSource, *, deep: bool = True) -> Any:
    return collect_software(source, CollectOptions(deep=deep))["software"]


def test_the_files_of_nccl_in_the_order_of_the_loader() -> None:
    cache = b"\0libnccl.so.2\0/usr/lib/libnccl.so.2\0libnccl-net.so\0/opt/ofi/libnccl-net.so\0"
    cache += b"libnccl_helper.so\0/usr/lib/libnccl_helper.so\0"
    links = {
        "/pre/libnccl.so.2.19": "/pre/libnccl.so.2.19.3",
        "/usr/lib/libnccl.so.2": "/usr/lib/libnccl.so.2.26.2",
        "/opt/nccl/libnccl.so.2": "/usr/lib/libnccl.so.2.26.2",
    }
    files = {
        "/etc/ld.so.cache": cache,
        "/opt/nccl/libnccl-net-x.so.0": "",
        "/opt/nccl/libnccl-notes.txt": "",
        "/opt/nccl/libnccl.so": "",
    }
    env = {
        "LD_PRELOAD": "/pre/libnccl.so.2.19:/pre/libnccl-net.so libnccl.so",
        "LD_LIBRARY_PATH": "relative:/opt/nccl/",
    }
    facts = software(FakeSource(files=files, links=links, env=env))
    assert [(library.path, library.found_by) for library in facts.nccl_libraries] == [
        ("/pre/libnccl.so.2.19", "LD_PRELOAD"),
        ("/opt/nccl/libnccl.so.2", "LD_LIBRARY_PATH"),
    ]
    # A preloaded plugin is not what NCCL searches for.
    assert facts.nccl_plugins == ("/opt/nccl/libnccl-net-x.so.0", "/opt/ofi/libnccl-net.so")


FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"


@pytest.mark.parametrize(
    ("installed", "deep", "answer", "expected"),
    [
        (False, True, "", None),
        (True, False, "", Reason.NOT_RECORDED),
        (True, True, "Fabric Manager version is : 570.86.15\n", "570.86.15"),
        (True, True, "nothing\n", Reason.UNPARSABLE),
        (True, True, Unknown(Reason.TIMEOUT, "late"), Reason.TIMEOUT),
    ],
)
def test_the_version_of_fabric_manager(
    installed: bool, deep: bool, answer: str | Unknown, expected: object
) -> None:
    waits = {}

    class Timed(FakeSource):
        def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
            waits[argv[0]] = timeout_s
            return super().run(argv, timeout_s=timeout_s)

    source = Timed(
        links={FABRIC_MANAGER: FABRIC_MANAGER} if installed else {},
        commands={"nv-fabricmanager --version": answer, "nv-fabricmanager -v": answer},
    )
    assert reason_or_value(software(source, deep=deep).fabric_manager_version) == expected
    assert waits.get("nv-fabricmanager") == (5 if installed and deep else None)


def device(call: str, answer: Any) -> Device:
    return Device(FakeSource(nvml=lambda asked, *_: answer if asked == call else NOT_RECORDED), 0)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("x", "x"),
        ("", Reason.UNPARSABLE),
        (7, Reason.UNPARSABLE),
        (Unknown(Reason.ERROR, "lost"), Reason.ERROR),
        # A driver older than the call is no missing library.
        (Unknown(Reason.TOOL_MISSING, "Function Not Found"), Reason.NOT_SUPPORTED),
        (Unknown(Reason.TOOL_MISSING, "no library"), Reason.TOOL_MISSING),
        (Unknown(Reason.ERROR, "Function Not Found"), Reason.ERROR),
    ],
)
def test_texts_of_nvml(answer: Any, expected: object) -> None:
    assert reason_or_value(device("nvmlDeviceGetVbiosVersion", answer).text("nvmlDeviceGetVbiosVersion")) == (
        expected
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (68920, 68.92),
        (0, 0.0),
        (True, Reason.UNPARSABLE),
        (None, Reason.NOT_SUPPORTED),
        ("68920", Reason.UNPARSABLE),
    ],
)
def test_watts_of_nvml_are_thousandths(answer: Any, expected: object) -> None:
    assert reason_or_value(device("nvmlDeviceGetPowerUsage", answer).watts("nvmlDeviceGetPowerUsage")) == (
        expected
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [([9, 0], "9.0"), ([9], Reason.UNPARSABLE), ([8, 6, 1], "8.6"), (9, Reason.UNPARSABLE)],
)
def test_the_compute_capability_is_a_pair(answer: Any, expected: object) -> None:
    pair = device("nvmlDeviceGetCudaComputeCapability", answer).compute_capability()
    assert reason_or_value(pair) == expected


def test_values_of_fields_by_their_ids() -> None:
    answer = [
        {"nvmlReturn": 0, "valueType": 1, "value": {"uiVal": 5, "ullVal": 6}},
        {"nvmlReturn": 3, "valueType": 1, "value": {"uiVal": 5}},
        {"nvmlReturn": 15, "valueType": 1, "value": {"uiVal": 5}},
        {"nvmlReturn": 0, "value": {"uiVal": 5}},
    ]
    values = device("nvmlDeviceGetFieldValues", answer).fields(11, 12, 13, 14, 15)
    assert {number: reason_or_value(value) for number, value in values.items()} == {
        11: 5,
        12: Reason.NOT_SUPPORTED,
        13: Reason.ERROR,
        14: Reason.ERROR,
        15: Reason.UNPARSABLE,
    }


def test_only_processes_with_a_number_are_listed() -> None:
    entries = [{"pid": 7, "usedGpuMemory": 1024}, {"pid": "x"}, {"usedGpuMemory": 1}]
    (process,) = device("nvmlDeviceGetComputeRunningProcesses", entries).processes()  # type: ignore[misc]
    assert (process.pid, process.memory_bytes) == (7, 1024)
    odd = device("nvmlDeviceGetComputeRunningProcesses", 7).processes()
    assert reason_or_value(odd) is Reason.UNPARSABLE
