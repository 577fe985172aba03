"""Test NVML with the real pynvml, the real child process and a library that misbehaves on request."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from probes.base.record import Reason, Unknown
from probes.sources.nvml import NvmlClient
from probes.sources.nvml_child import DEVICE_ARGUMENTS, FILLED_STRUCTURES, plain

HEALTHY = "gpu_count = 8\n"


@pytest.fixture
def client() -> Iterator[NvmlClient]:
    client = NvmlClient(timeout_s=1.0, start_timeout_s=20.0)
    yield client
    client.close()


def test_a_healthy_machine_answers_in_plain_values(nvml_standin, client):
    nvml_standin(HEALTHY + "gpu3.name = NVIDIA H200\ngpu2.process_id = 4711\n")
    assert client.call("nvmlDeviceGetCount") == 8
    assert client.call("nvmlSystemGetDriverVersion") == "570.133.20"
    assert client.call("nvmlSystemGetCudaDriverVersion") == 12080
    assert client.call("nvmlDeviceGetName", 0) == "NVIDIA H100 80GB HBM3"
    assert client.call("nvmlDeviceGetName", 3) == "NVIDIA H200"
    assert client.call("nvmlDeviceGetMemoryInfo", 0) == {"total": 85520809984, "free": 85520809984, "used": 0}
    assert client.call("nvmlDeviceGetCudaComputeCapability", 0) == [9, 0]
    pci = client.call("nvmlDeviceGetPciInfo", 1)
    assert isinstance(pci, dict)
    assert pci["busId"] == "00000000:2B:00.0"
    assert pci["pciDeviceId"] == 0x233010DE
    assert client.call("nvmlDeviceGetCpuAffinity", 7, 2) == [0xFF00000000000000, (1 << 48) - 1]
    assert client.call("nvmlDeviceGetComputeRunningProcesses", 0) == []
    (process,) = client.call("nvmlDeviceGetComputeRunningProcesses", 2)
    assert process["pid"] == 4711
    assert process["usedGpuMemory"] == 1 << 30


def test_two_device_arguments_are_both_indices(nvml_standin, client):
    nvml_standin(HEALTHY + "topology1-6 = 20\n")
    assert client.call("nvmlDeviceGetTopologyCommonAncestor", 6, 1) == 20
    assert client.call("nvmlDeviceGetTopologyCommonAncestor", 0, 7) == 50
    assert client.call("nvmlDeviceGetP2PStatus", 0, 1, 2) == 0


def test_structures_that_the_caller_must_bring_are_brought(nvml_standin, client):
    nvml_standin(HEALTHY + "gpu4.fabric_state = 2\n")
    for call in ("nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetGpuFabricInfoV"):
        assert client.call(call, 0)["state"] == 3
        answer = client.call(call, 4)
        assert answer["state"] == 2
        assert answer["clusterUuid"] == [0] * 16


def test_field_values_are_a_list_of_structures(nvml_standin, client):
    nvml_standin(HEALTHY + "field91 = 18\n")
    present, absent = client.call("nvmlDeviceGetFieldValues", 0, 91, 92)
    assert (present["nvmlReturn"], present["value"]["ullVal"]) == (0, 18)
    assert absent["nvmlReturn"] == 3


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, Reason.ERROR),
        (3, Reason.NOT_SUPPORTED),
        (4, Reason.PERMISSION),
        (9, Reason.TOOL_MISSING),
        (10, Reason.TIMEOUT),
        (12, Reason.TOOL_MISSING),
        (13, Reason.TOOL_MISSING),
        (15, Reason.ERROR),
        (18, Reason.ERROR),
        (999, Reason.ERROR),
    ],
)
def test_an_error_of_nvml_becomes_its_reason(nvml_standin, client, code, reason):
    nvml_standin(HEALTHY + f"error = nvmlDeviceGetTemperature {code} 5\n")
    answer = client.call("nvmlDeviceGetTemperature", 5, 0)
    assert isinstance(answer, Unknown)
    assert answer.reason is reason
    assert answer.detail.startswith("nvmlDeviceGetTemperature: ")
    assert client.call("nvmlDeviceGetTemperature", 4, 0) == 34


def test_a_gpu_that_fell_off_the_bus_leaves_the_others(nvml_standin, client):
    nvml_standin(HEALTHY + "error = nvmlDeviceGetHandleByIndex_v2 15 6\n")
    answer = client.call("nvmlDeviceGetName", 6)
    assert isinstance(answer, Unknown)
    assert "lost" in answer.detail
    assert client.call("nvmlDeviceGetName", 7) == "NVIDIA H100 80GB HBM3"


def test_a_device_that_hangs_twice_is_not_asked_again_and_the_others_are(nvml_standin, client):
    nvml_standin(HEALTHY + "hang = nvmlDeviceGetTemperature 3\n")
    assert client.call("nvmlDeviceGetTemperature", 2, 0) == 34
    child = client._child
    answer = client.call("nvmlDeviceGetTemperature", 3, 0)
    late = Unknown(
        Reason.TIMEOUT, "nvmlDeviceGetTemperature did not return within 2 s, even in a second attempt"
    )
    assert answer == late
    assert child is not None
    assert child.returncode is not None
    assert client.call("nvmlDeviceGetName", 3) == late
    assert client.call("nvmlDeviceGetP2PStatus", 2, 3, 0) == late
    assert client._child is None
    assert client.call("nvmlDeviceGetTemperature", 4, 0) == 34
    assert client.call("nvmlDeviceGetName", 0) == "NVIDIA H100 80GB HBM3"


def test_a_slow_device_gets_more_time_in_a_second_attempt(nvml_standin, client):
    nvml_standin(HEALTHY + "slow = nvmlDeviceGetHandleByIndex_v2 1.4 3\n")
    assert client.call("nvmlDeviceGetName", 3) == "NVIDIA H100 80GB HBM3"
    assert client.call("nvmlDeviceGetName", 4) == "NVIDIA H100 80GB HBM3"


def test_a_question_about_a_pair_blames_the_device_that_hangs(nvml_standin, client):
    nvml_standin(HEALTHY + "hang = nvmlDeviceGetHandleByIndex_v2 3\n")
    answer = client.call("nvmlDeviceGetTopologyCommonAncestor", 0, 3)
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.TIMEOUT
    assert client.call("nvmlDeviceGetTopologyCommonAncestor", 0, 4) == 50


def test_waiting_for_many_devices_has_an_end(nvml_standin, client):
    nvml_standin(HEALTHY + "hang = nvmlDeviceGetTemperature\n")
    client._left_s = 4.0
    reasons = [client.call("nvmlDeviceGetTemperature", index, 0).reason for index in range(8)]
    assert reasons == [Reason.TIMEOUT] * 1 + [Reason.NOT_RECORDED] * 7
    assert client.call("nvmlDeviceGetTemperature", 0, 0).reason is Reason.TIMEOUT


def test_a_driver_that_no_longer_starts_after_a_hang_blames_the_device(nvml_standin):
    variables = nvml_standin(HEALTHY + "hang = nvmlDeviceGetTemperature 3\n")
    client = NvmlClient(timeout_s=1.0, start_timeout_s=1.0)
    assert client.call("nvmlDeviceGetName", 3) == "NVIDIA H100 80GB HBM3"
    Path(variables["RIGTUNE_NVML_SCENARIO"]).write_text(
        HEALTHY + "hang = nvmlDeviceGetTemperature 3\nhang = nvmlDeviceGetCount_v2\n"
    )
    assert client.call("nvmlDeviceGetTemperature", 3, 0).reason is Reason.TIMEOUT
    assert client.call("nvmlDeviceGetName", 4) == Unknown(
        Reason.NOT_RECORDED, "not queried, because GPU3 did not answer in time"
    )
    client.close()


def test_a_driver_that_hangs_at_initialisation_is_a_timeout(nvml_standin):
    nvml_standin("hang = nvmlInit_v2\n")
    client = NvmlClient(start_timeout_s=0.5)
    answer = client.call("nvmlDeviceGetCount")
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.TIMEOUT


def test_a_crash_costs_that_call_and_no_other(nvml_standin, client):
    nvml_standin(HEALTHY + "crash = nvmlDeviceGetRemappedRows\n")
    assert client.call("nvmlDeviceGetCount") == 8
    answer = client.call("nvmlDeviceGetRemappedRows", 0)
    assert answer == Unknown(Reason.ERROR, "the NVML process died of signal 11 in nvmlDeviceGetRemappedRows")
    assert client._child is None
    assert client.call("nvmlDeviceGetRemappedRows", 1) == answer
    assert client._child is None
    assert client.call("nvmlDeviceGetCount") == 8


def test_a_child_killed_from_outside_is_an_error_not_an_exception(nvml_standin, client):
    nvml_standin(HEALTHY)
    assert client.call("nvmlDeviceGetCount") == 8
    client._child.kill()
    client._child.wait()
    answer = client.call("nvmlDeviceGetName", 0)
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.ERROR
    assert client.call("nvmlDeviceGetName", 0) == answer
    assert client.call("nvmlDeviceGetCount") == 8


def test_no_driver_is_a_missing_tool(nvml_standin, client, monkeypatch):
    nvml_standin(HEALTHY)
    monkeypatch.delenv("RIGTUNE_NVML_SCENARIO")
    answer = client.call("nvmlDeviceGetCount")
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.TOOL_MISSING
    assert "Driver" in answer.detail
    assert client.call("nvmlDeviceGetName", 0).reason is Reason.TOOL_MISSING


def test_a_library_of_another_version_than_the_driver(nvml_standin, client):
    nvml_standin(HEALTHY + "error = nvmlInit_v2 18\n")
    answer = client.call("nvmlDeviceGetCount")
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.ERROR
    assert "mismatch" in answer.detail


def test_without_the_library_no_process_starts(monkeypatch, tmp_path, client):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    monkeypatch.setattr("probes.sources.nvml._LIBRARY_FOLDERS", ())
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"" if path.name == "ld.so.cache" else real(path))
    answer = client.call("nvmlDeviceGetCount")
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.TOOL_MISSING
    assert "libnvidia-ml.so.1" in answer.detail


def test_a_file_that_is_no_library_is_a_missing_library(monkeypatch, tmp_path, client):
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    answer = client.call("nvmlDeviceGetCount")
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.TOOL_MISSING


def test_a_function_that_the_driver_or_pynvml_does_not_have(nvml_standin, client):
    nvml_standin(HEALTHY)
    for call in ("nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetSomethingOfTheFuture"):
        answer = client.call(call, 0)
        assert isinstance(answer, Unknown)
        assert answer.reason is Reason.TOOL_MISSING


def test_a_wrong_argument_is_an_error(nvml_standin, client):
    nvml_standin(HEALTHY)
    for arguments in ((), (0, 1, 2, 3), (64,), (-1,)):
        answer = client.call("nvmlDeviceGetName", *arguments)
        assert isinstance(answer, Unknown)
        assert answer.reason is Reason.ERROR


def test_plain_values_keep_nested_structures_unions_and_inherited_fields():
    class Value(ctypes.Union):
        _fields_ = [("number", ctypes.c_uint), ("bytes", ctypes.c_ubyte * 4)]

    class Base(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char * 8)]

    class Derived(Base):
        _fields_ = [("value", Value)]

    assert plain(Derived(b"caf\xe9", Value(258))) == {
        "name": "caf\ufffd",
        "value": {"number": 258, "bytes": [2, 1, 0, 0]},
    }
    assert plain((ctypes.c_ulonglong(2**64 - 1), None, True)) == [2**64 - 1, None, True]
    with pytest.raises(TypeError, match="handle"):
        plain(ctypes.pointer(Base()))


@pytest.mark.parametrize(
    "call",
    ["nvmlDeviceSetPowerManagementLimit", "nvmlInit", "nvmlDeviceGetName\n", "__import__", "nvmlUnitGet"],
)
def test_only_questions_are_asked(client, call):
    with pytest.raises(ValueError, match="read-only"):
        client.call(call, 0)


def test_threads_share_one_client(nvml_standin, client):
    nvml_standin(HEALTHY + "".join(f"gpu{i}.temperature_c = {30 + i}\n" for i in range(8)))
    temperatures: dict[int, list[object]] = {}

    def ask(index: int) -> None:
        temperatures[index] = [client.call("nvmlDeviceGetTemperature", index, 0) for _ in range(20)]

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert temperatures == {index: [30 + index] * 20 for index in range(8)}


def test_an_expected_device_answers_in_any_order_and_with_its_own_values(nvml_standin, client):
    nvml_standin(HEALTHY + "gpu1.name = NVIDIA H200\ngpu1.temperature_c = 51\n")
    client.expect(1, like=0)  # without a child process, nothing is asked
    assert client._child is None
    for call, *arguments in (
        ("nvmlDeviceGetName",),
        ("nvmlDeviceGetTemperature", 0),
        ("nvmlDeviceGetSerial",),
    ):
        client.call(call, 0, *arguments)
    client.expect(1, like=0)
    assert [call for call, _ in client._pending] == [
        "nvmlDeviceGetName",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetSerial",
    ]
    assert client.call("nvmlDeviceGetTemperature", 1, 0) == 51
    assert client.call("nvmlDeviceGetPowerUsage", 1) == client.call("nvmlDeviceGetPowerUsage", 0)
    assert client.call("nvmlDeviceGetName", 1) == "NVIDIA H200"
    assert client.call("nvmlDeviceGetTemperature", 1, 0) == 51


def test_answers_before_a_hang_count(nvml_standin, client):
    nvml_standin(HEALTHY + "hang = nvmlDeviceGetTemperature 1\n")
    for call, *arguments in (
        ("nvmlDeviceGetName",),
        ("nvmlDeviceGetTemperature", 0),
        ("nvmlDeviceGetSerial",),
    ):
        client.call(call, 0, *arguments)
    client.expect(1, like=0)
    assert client.call("nvmlDeviceGetName", 1) == "NVIDIA H100 80GB HBM3"
    answer = client.call("nvmlDeviceGetSerial", 1)
    assert answer == client.call("nvmlDeviceGetSerial", 0)
    answer = client.call("nvmlDeviceGetTemperature", 1, 0)
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.TIMEOUT
    assert client.call("nvmlDeviceGetSerial", 1) == answer


def test_a_crash_in_an_expected_call_costs_no_other(nvml_standin, client):
    nvml_standin(HEALTHY + "crash = nvmlDeviceGetRemappedRows 1\n")
    for call in ("nvmlDeviceGetName", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetSerial"):
        client.call(call, 0)
    client.expect(1, like=0)
    assert client.call("nvmlDeviceGetName", 1) == "NVIDIA H100 80GB HBM3"
    assert client.call("nvmlDeviceGetSerial", 1) == client.call("nvmlDeviceGetSerial", 0)
    answer = client.call("nvmlDeviceGetRemappedRows", 1)
    assert answer == Unknown(Reason.ERROR, "the NVML process died of signal 11 in nvmlDeviceGetRemappedRows")


def test_a_closed_client_answers_unknown(nvml_standin, client):
    nvml_standin(HEALTHY)
    assert client.call("nvmlDeviceGetCount") == 8
    client.close()
    assert isinstance(client.call("nvmlDeviceGetCount"), Unknown)


def test_the_child_leaves_when_its_parent_is_gone_even_in_a_call(nvml_standin):
    variables = nvml_standin("hang = nvmlDeviceGetCount_v2\n")
    program = Path(__file__).parents[4] / "probes" / "sources" / "nvml_child.py"
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), str(Path(pynvml.__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    assert child.stdin is not None
    child.stdin.write(b'{"call": "nvmlDeviceGetCount", "args": []}\n')
    child.stdin.close()
    assert child.wait(10) == 0


def test_the_tables_of_special_calls_name_functions_of_pynvml():
    for call in (*DEVICE_ARGUMENTS, *FILLED_STRUCTURES, *FILLED_STRUCTURES.values()):
        assert hasattr(pynvml, call)


def test_the_child_loads_no_process_machinery_until_somebody_looks_for_a_library():
    script = (
        "import sys; from probes.sources.nvml_child import defer_ctypes_util; defer_ctypes_util();"
        "import pynvml;"
        "assert not {'subprocess', 'tempfile', 'lzma'} & set(sys.modules);"
        "library = pynvml.find_library('c');"
        "import ctypes.util; assert library == ctypes.util.find_library('c');"
        "assert 'subprocess' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[4], check=True, timeout=60)
