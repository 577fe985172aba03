"""Run `rigtune check` with the real pynvml and a simulated driver library: right verdicts, in time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recipes.launch.provision import ProvisionOptions, find_provision, render_provision

NvmlStandin = Callable[[str], dict[str, str]]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "native" / "nvml_standin.c"
LIMIT_S = 60
"""Seconds for a check: the quick tier limits itself to 8 s, or 35 s for a slow driver; load takes more."""
LOST = (
    "error = nvmlDeviceGetMemoryInfo 15 5\nerror = nvmlDeviceGetTemperature 15 5\nerror = "
    "nvmlDeviceGetName 15 5\n"
)
OLD_DRIVER = (
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetSramEccErrorStatus",
    "nvmlDeviceGetRowRemapperHistogram",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlSystemGetConfComputeState",
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetTemperatureV",
)


class Said(NamedTuple):
    exit_code: int
    findings: list[dict[str, Any]]

    def of(self, check_id: str) -> set[tuple[str, str]]:
        """Return status and subject of each finding of a check."""
        return {
            (finding["status"], finding["subject"])
            for finding in self.findings
            if finding["check_id"] == check_id
        }

    def failed(self) -> set[str]:
        return {finding["check_id"] for finding in self.findings if finding["status"] == "FAIL"}


def check(variables: dict[str, str], *options: str) -> Said:
    done = subprocess.run(
        (sys.executable, "-m", "assistant", "check", "--format", "json", *options),
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    verdict = json.loads(done.stdout)
    return Said(done.returncode, verdict["findings"])


def test_eight_healthy_gpus(nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin("gpu_count = 8\n"), "--skip", "torch-cuda")
    assert said.failed() == set()
    for check_id in (
        "gpu-driver",
        "gpu-lost",
        "gpu-recovery-action",
        "ecc-uncorrected",
        "row-remap",
        "nvlink-active",
    ):
        assert said.of(check_id) == {("PASS", "GPU0-7")}, check_id


def test_a_lost_gpu_fails_and_the_others_are_judged(nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin(f"gpu_count = 8\n{LOST}"))
    assert said.exit_code == 1
    assert ("FAIL", "GPU5") in said.of("gpu-lost")
    assert ("PASS", "GPU0-4, GPU6-7") in said.of("ecc-uncorrected") | said.of("nvlink-active")


def test_a_dead_nvlink_is_named(nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin("gpu_count = 8\ngpu2.nvlink7 = 0\n"))
    assert said.exit_code == 1
    assert ("FAIL", "GPU2") in said.of("nvlink-active")


@pytest.mark.parametrize(("count", "check_id"), [(0, "gpu-driver"), (3, "gpu-count"), (7, "gpu-count")])
def test_a_live_node_that_has_lost_gpus_fails(nvml_standin: NvmlStandin, count: int, check_id: str) -> None:
    said = check(nvml_standin(f"gpu_count = {count}\n"), "--only", "driver")
    assert (said.exit_code, said.failed()) == (1, {check_id})
    expecting = check(nvml_standin(f"gpu_count = {count}\n"), "--only", "policy", "--expect", "dgx-h100")
    assert ("FAIL", "host") in expecting.of("policy-gpus")


def test_monitoring_skips_states_and_keeps_counters(nvml_standin: NvmlStandin, tmp_path: Path) -> None:
    variables = nvml_standin("gpu_count = 8\ngpu4.mig_mode = 1\n") | {"XDG_STATE_HOME": str(tmp_path)}
    for _ in range(2):
        said = check(variables, "--mode", "monitor", "--expect-gpus", "8")
        assert said.of("mig-mode") == {("SKIP", "host")}
        assert said.of("policy-gpus") == {("PASS", "host")}
    (kept,) = tmp_path.rglob("counters.json")
    assert "link 0 replay_errors" in kept.read_text()


def test_a_partitioned_gpu_is_a_warning(nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin("gpu_count = 8\ngpu4.mig_mode = 1\n"))
    assert ("WARN", "GPU4") in said.of("mig-mode")
    assert "mig-mode" not in said.failed()


def test_a_library_without_newer_functions_is_read_as_far_as_it_goes(
    nvml_standin: NvmlStandin, tmp_path: Path
) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    script = tmp_path / "old.map"
    script.write_text("{ local: " + "; ".join(OLD_DRIVER) + "; };\n")
    library = tmp_path / "libnvidia-ml.so.1"
    flags = ("-shared", "-fPIC", "-O1", f"-Wl,--version-script={script}")
    subprocess.run((compiler, *flags, "-o", str(library), str(SOURCE)), check=True, capture_output=True)
    variables = nvml_standin("gpu_count = 8\ndriver_version = 470.256.02\n")
    variables["LD_LIBRARY_PATH"] = f"{tmp_path}:{variables['LD_LIBRARY_PATH']}"
    said = check(variables)
    assert "gpu-lost" not in said.failed()
    assert said.of("nvlink-active") == {("PASS", "GPU0-7")}
    assert all(status in ("SKIP", "UNKNOWN") for status, _ in said.of("ecc-sram"))


def test_without_permission_nothing_passes(nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin("gpu_count = 8\nerror = nvmlInit_v2 4\nerror = nvmlInitWithFlags 4\n"))
    assert said.exit_code in (1, 3)
    passed = {finding["check_id"] for finding in said.findings if finding["status"] == "PASS"}
    assert not passed & {"gpu-driver", "ecc-uncorrected", "nvlink-active", "gpu-lost"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    ["nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetTemperature", "nvmlDeviceGetNvLinkState"],
)
def test_a_call_that_never_returns_costs_seconds(function: str, nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin(f"gpu_count = 8\nhang = {function}\n"))
    assert said.exit_code in (1, 3)
    unread = [finding for finding in said.findings if "did not return" in finding["observed"]]
    assert unread
    assert all(finding["status"] in ("UNKNOWN", "FAIL") for finding in unread)


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetHandleByIndex_v2",
        pytest.param("nvmlDeviceGetComputeRunningProcesses_v3", marks=pytest.mark.slow),
    ],
)
def test_a_gpu_that_hangs_is_one_finding_and_the_others_are_judged(
    function: str, nvml_standin: NvmlStandin
) -> None:
    said = check(nvml_standin(f"gpu_count = 8\nhang = {function} 3\n"), "--budget", "5")
    assert said.exit_code == 1
    failed = [finding for finding in said.findings if finding["status"] == "FAIL"]
    assert [(finding["check_id"], finding["subject"]) for finding in failed] == [("gpu-lost", "GPU3")]
    assert failed[0]["summary"] == "the GPU does not answer"
    assert function.partition("_")[0].replace("HandleByIndex", "PciInfo") in failed[0]["observed"]
    assert not [finding for finding in said.findings if finding["unknown"] == "timeout"]
    for check_id in ("gpu-driver", "ecc-uncorrected", "row-remap", "nvlink-active", "gpu-throttle"):
        assert said.of(check_id) == {("PASS", "GPU0-2, GPU4-7")}, check_id


@pytest.mark.parametrize(
    "slow",
    [
        "nvmlDeviceGetHandleByIndex_v2 0.7",
        "nvmlInit_v2 6",
        pytest.param("nvmlDeviceGetHandleByIndex_v2 6 3", marks=pytest.mark.slow),
    ],
)
def test_a_slow_driver_is_a_warning_with_the_time(slow: str, nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin(f"gpu_count = 8\nslow = {slow}\n"), "--budget", "5", "--exit-profile", "slurm")
    assert said.failed() == set()
    assert said.exit_code == 0
    (warning,) = [
        finding
        for finding in said.findings
        if finding["check_id"] == "gpu-driver" and finding["status"] == "WARN"
    ]
    assert float(warning["observed"].partition(" ")[0]) > 5
    assert "nvidia-smi -pm 1" in warning["remedy"]["command"]
    assert said.of("nvlink-active") == {("PASS", "GPU0-7")}


@pytest.mark.parametrize(
    ("scenario", "code", "words"),
    [
        ("slow = nvmlDeviceGetHandleByIndex_v2 0.7", 0, ""),
        pytest.param("hang = nvmlDeviceGetTemperature 3", 1, "GPU3", marks=pytest.mark.slow),
    ],
)
def test_the_prolog_refuses_jobs_for_a_gpu_that_hangs_and_not_for_a_slow_driver(
    scenario: str, code: int, words: str, nvml_standin: NvmlStandin, tmp_path: Path
) -> None:
    variables = nvml_standin(f"gpu_count = 8\n{scenario}\n")
    program = tmp_path / "rigtune"
    program.write_text(f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m assistant "$@"\n')
    program.chmod(0o755)
    (prolog,) = render_provision(
        find_provision("slurm-prolog"), ProvisionOptions(rigtune=str(program), expect_gpus=8)
    )
    script, marker = tmp_path / "prolog", tmp_path / "run" / "prolog-failed"
    script.write_text(prolog.text.replace("/run/rigtune", str(marker.parent)))
    done = subprocess.run(
        ("bash", str(script)), env={**os.environ, **variables}, timeout=LIMIT_S, check=False
    )
    assert done.returncode == code
    assert words in (marker.read_text() if marker.exists() else "")


@pytest.mark.slow
def test_a_driver_that_needs_longer_than_rigtune_waits_refuses_no_job(nvml_standin: NvmlStandin) -> None:
    variables = nvml_standin("gpu_count = 16\nslow = nvmlDeviceGetHandleByIndex_v2 3\n")
    said = check(variables, "--budget", "5", "--exit-profile", "slurm")
    assert said.exit_code == 0
    assert said.failed() == set()
    assert {finding["unknown"] for finding in said.findings if finding["check_id"] == "ecc-uncorrected"} == {
        "timeout"
    }


def test_a_crashing_library_ends_nothing(nvml_standin: NvmlStandin) -> None:
    said = check(nvml_standin("gpu_count = 8\ncrash = nvmlDeviceGetTemperature\n"))
    assert said.exit_code in (0, 1, 3)
    assert said.findings
