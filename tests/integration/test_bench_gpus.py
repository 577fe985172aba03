"""Run `rigtune bench` on eight simulated H100, with stand-ins for NVML and for the training interpreter."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "support" / "gpu_python.py"
LIMIT_S = 60
QUICK = (
    "gemm",
    "attention",
    "memory-copy",
    "launch-latency",
    "host-device",
    "peer-copy",
    "collectives",
    "train-step",
)


class Said(NamedTuple):
    exit_code: int
    report: dict[str, Any]
    told: str

    def bad(self, status: str) -> list[tuple[str, str]]:
        """Return subject and check of the findings with this status.

        Findings about other users of the CPUs of the machine that runs this test are left out.
        """
        return [
            (one["subject"], one["check_id"])
            for one in self.report["findings"]
            if one["status"] == status
            and (one["subject"], one["check_id"]) != ("host", "measured-conditions")
        ]

    def finding(self, subject: str, check_id: str) -> dict[str, Any]:
        findings = self.report["findings"]
        return next(one for one in findings if (one["subject"], one["check_id"]) == (subject, check_id))

    @property
    def failures(self) -> list[dict[str, Any]]:
        failures: list[dict[str, Any]] = self.report["failures"]
        return failures


Bench = Callable[..., Said]


@pytest.fixture
def bench(nvml_standin: Callable[[str], dict[str, str]], tmp_path: Path) -> Bench:
    """Return a function that runs `rigtune bench` on GPUs with a fault, and asserts that no process is left.

    Example: `bench("power cap", "--only", "gemm", nvml="gpu3.power_limit_mw = 400000")`.
    """

    def run(sick_part: str = "", *options: str, nvml: str = "") -> Said:
        python = tmp_path / "python3"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{SCRIPT}" "$@"\n')
        python.chmod(0o755)
        variables = {
            **nvml_standin(f"gpu_count = 8\n{nvml}\n"),
            "RIGTUNE_SICK_PART": sick_part,
            "RIGTUNE_STRANGER": str(os.getpid()),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "TMPDIR": str(tmp_path),
        }
        done = subprocess.run(
            (
                sys.executable,
                "-m",
                "assistant",
                "bench",
                "--python",
                str(python),
                "--format",
                "json",
                *options,
            ),
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert not left_running(str(tmp_path))
        return Said(done.returncode, json.loads(done.stdout), done.stderr.decode())

    return run


def left_running(folder: str) -> list[str]:
    """Return processes whose command line contains the folder of this test."""
    lines = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if folder in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            lines.append(words)
    return lines


def test_eight_healthy_gpus_pass_and_reach_their_references(bench: Bench) -> None:
    said = bench("", "--only", ",".join(QUICK))
    assert (said.exit_code, said.bad("FAIL"), said.bad("WARN"), said.failures) == (0, [], [], [])
    passed = {check_id for _, check_id in said.bad("PASS")}
    assert passed >= {
        "measured-gemm", "measured-memory", "measured-host-device", "measured-peer-copy",
        "measured-collectives", "measured-train-step", "equal-devices", "equal-ranks", "measured-results",
    }  # fmt: skip


def test_half_the_lanes_are_named_as_the_cause_of_slow_host_copies(bench: Bench) -> None:
    said = bench("lanes", "--only", "gemm,host-device", nvml="gpu5.pcie_width = 8")
    assert said.exit_code == 1
    assert {subject for subject, _ in said.bad("FAIL") + said.bad("WARN")} == {"GPU5"}
    assert "8 of 16 lanes" in said.finding("GPU5", "equal-devices")["summary"]


def test_a_capped_gpu_is_named_with_its_limit(bench: Bench) -> None:
    said = bench(
        "power cap", "--suite", "full", "--only", "gemm,sustained", nvml="gpu3.power_limit_mw = 400000"
    )
    assert said.exit_code == 1
    assert said.bad("FAIL")[0] == ("GPU3", "measured-gemm")
    gemm_finding = said.finding("GPU3", "measured-gemm")
    assert "power limit is 400 W" in gemm_finding["summary"]
    assert "-pl 700" in gemm_finding["remedy"]["command"]


def test_a_power_cap_that_no_limit_shows_is_recognized_by_the_clock_and_its_reason(bench: Bench) -> None:
    said = bench("power cap", "--suite", "full", "--only", "gemm,sustained")
    assert {subject for subject, _ in said.bad("FAIL") + said.bad("WARN")} == {"GPU3"}
    summary = said.finding("GPU3", "measured-gemm")["summary"]
    assert all(words in summary for words in ("1215 MHz", "1755 MHz", "sw_power_cap"))


def test_one_slow_pair_is_named_and_explains_the_collectives(bench: Bench) -> None:
    said = bench("pair", "--suite", "full", "--only", "peer-copy,pairs,collectives")
    assert said.exit_code == 1
    assert {subject for subject, _ in said.bad("FAIL")} == {"GPU2-GPU6", "8 ranks"}
    assert "GPU2-GPU6" in said.finding("8 ranks", "measured-collectives")["summary"]
    assert ("GPU2-GPU6", "measured-pairs") in said.bad("FAIL")


def test_a_ring_where_the_switch_could_reduce_warns(bench: Bench) -> None:
    said = bench("NVLS", "--only", "collectives")
    assert (said.exit_code, said.bad("FAIL")) == (0, [])
    assert said.bad("WARN") == [("8 ranks", "measured-collectives")]


def test_a_gpu_that_computes_wrong_is_named(bench: Bench) -> None:
    said = bench("wrong values", "--only", "gemm,memory-copy")
    assert (said.exit_code, said.bad("FAIL")) == (1, [("GPU6", "measured-results")])
    assert {(one["subject"], one["kind"]) for one in said.failures} == {("GPU6", "wrong_result")}


def test_memory_that_keeps_wrong_values_is_named(bench: Bench) -> None:
    said = bench("wrong values", "--only", "memory-test")
    assert (said.exit_code, said.bad("FAIL")) == (1, [("GPU6", "measured-results")])


def test_another_process_on_a_gpu_is_reported_while_measuring_and_afterwards(bench: Bench) -> None:
    said = bench("stranger", "--only", "gemm,collectives")
    assert (said.exit_code, said.bad("FAIL"), said.bad("WARN")) == (0, [], [("GPU2", "measured-conditions")])
    assert str(os.getpid()) in said.finding("GPU2", "measured-conditions")["observed"]
    assert re.search(rf"GPU2 is also used by .*\b{os.getpid()}\b", said.told)


def test_busy_gpus_are_refused_and_measured_by_force(bench: Bench) -> None:
    in_use = f"gpu4.process_id = {os.getpid()}"
    said = bench("", "--only", "gemm", nvml=in_use)
    assert (said.exit_code, {one["kind"] for one in said.failures}) == (4, {"busy"})
    assert not said.report["measurements"]
    assert "GPU4" in said.failures[0]["message"]
    forced = bench("", "--only", "gemm", "--force", nvml=in_use)
    assert (forced.exit_code, forced.bad("WARN")) == (0, [("GPU4", "measured-conditions")])


def test_torch_that_cannot_use_the_gpus_is_one_cause_for_all(bench: Bench) -> None:
    said = bench("torch", "--only", ",".join((*QUICK, "host-memory")))
    assert said.exit_code == 4
    (message,) = {one["message"] for one in said.failures}
    assert "Error 802" in message
    assert {one["bench_id"] for one in said.report["measurements"]} == {"host-memory"}


def test_cases_before_a_killed_rank_are_kept_and_other_benchmarks_are_measured(bench: Bench) -> None:
    said = bench("killed rank", "--only", "gemm,collectives,host-device")
    assert (said.exit_code, said.bad("FAIL")) == (4, [])
    (failure,) = said.failures
    assert failure["bench_id"] == "collectives"
    assert "rank 4" in failure["message"]
    assert "SIGKILL" in failure["message"]
    measured = {one["bench_id"] for one in said.report["measurements"]}
    assert measured == {"gemm", "collectives", "host-device"}
