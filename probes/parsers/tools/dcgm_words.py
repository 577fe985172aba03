"""Names and words of DCGM's diagnostic.

Source: NVIDIA/DCGM, dcgmi/Diag.cpp and nvvs (read 2026-11).
"""

from __future__ import annotations

import re
from typing import Literal

from probes.base.record import Unknown
from probes.parsers.host.cpulist import parse_cpu_list

TOOL = "dcgmi diag"
HOST = "host"

TESTS = frozenset(
    {
        "denylist",
        "blacklist",
        "nvml library",
        "cuda main library",
        "cuda toolkit libraries",
        "permissions and os blocks",
        "permissions and os-related blocks",
        "persistence mode",
        "environment variables",
        "page retirement/row remap",
        "page retirement",
        "sram threshold count",
        "graphics processes",
        "inforom",
        "fabric manager",
        "software",
        "pcie",
        "gpu memory",
        "memory",
        "diagnostic",
        "pulse test",
        "sm stress",
        "targeted stress",
        "targeted power",
        "memory bandwidth",
        "memtest",
        "context create",
        "nvbandwidth",
        "nccl tests",
        "nccl_tests",
        "eud test",
        "eud",
        "cpu eud",
        "cpu_eud",
        "memory_bandwidth",
        "targeted_stress",
        "targeted_power",
        "sm_stress",
        "pulse_test",
        "context_create",
        "gpu_memory",
    }
)
"""Names in lower case of all versions, as tables print them and as plugins are named."""

SETTING_TESTS = frozenset({"persistence mode", "environment variables", "graphics processes"})
"""Tests of settings, which report no damage."""
SETTING_ERRORS = frozenset({25, 28, 29})
"""Errors about settings and running programs, which report no damage (dcgm_errors.h).

They are graphics processes, a CUDA variable and persistence mode.
"""

Result = Literal["PASS", "WARN", "FAIL", "SKIP", "UNKNOWN"]

_GPUS = re.compile(r"(?:GPUs?|CPUs?)?:?\s*([\d, -]+)")
_MOST_GPUS = 256


def result_of(word: str) -> Result:
    """Return the result for `Pass`, `PASSED`, `Fail`, `Warn`, `Skip` or `Not Run`; UNKNOWN for all else."""
    match word.strip().lower():
        case "pass" | "passed":
            return "PASS"
        case "fail" | "failed" | "error":
            return "FAIL"
        case "warn" | "warning":
            return "WARN"
        case "skip" | "skipped" | "not run" | "notrun" | "not_run":
            return "SKIP"
        case _:
            return "UNKNOWN"


def subjects_of(words: str | None) -> tuple[str, ...]:
    """Return two GPUs for `GPUs: 1, 2`; the host for `All`, for `CPU: 0` and for nothing."""
    match = _GPUS.fullmatch((words or "").strip())
    if match is None or (words or "").startswith("CPU"):
        return (HOST,)
    numbers = parse_cpu_list(match[1].replace(" ", "").strip(","))
    if isinstance(numbers, Unknown) or not numbers or len(numbers) > _MOST_GPUS:
        return (HOST,)
    return tuple(f"GPU{number}" for number in numbers)
