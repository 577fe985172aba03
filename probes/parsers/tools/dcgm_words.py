"""Names of the tests of DCGM's diagnostic, and the words for their results.

Source: NVIDIA/DCGM, dcgmi/Diag.cpp and nvvs (read 2026-11).
"""

import re
from typing import Literal

from probes.base.record import items_of
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
"""Names of tests in lower case, from the tables and plugins of all versions."""

SETTING_TESTS = frozenset({"persistence mode", "environment variables", "graphics processes"})
"""Tests of settings. A failure of such a test does not mean that hardware is damaged."""
SETTING_ERRORS = frozenset({25, 28, 29})
"""Errors that do not mean that hardware is damaged: graphics processes, a CUDA variable, and persistence mode
(dcgm_errors.h).
"""

Result = Literal["PASS", "WARN", "FAIL", "SKIP", "UNKNOWN"]

_RESULTS: dict[str, Result] = {
    **dict.fromkeys(("pass", "passed"), "PASS"),
    **dict.fromkeys(("fail", "failed", "error"), "FAIL"),
    **dict.fromkeys(("warn", "warning"), "WARN"),
    **dict.fromkeys(("skip", "skipped", "not run", "notrun", "not_run"), "SKIP"),
}
_GPUS = re.compile(r"(?:GPUs?|CPUs?)?:?\s*([\d, -]+)")
_MOST_GPUS = 256


def result_of(word: str) -> Result:
    """Return the result for `Pass`, `PASSED`, `Fail`, `Warn`, `Skip` or `Not Run`, otherwise UNKNOWN."""
    return _RESULTS.get(word.strip().lower(), "UNKNOWN")


def subjects_of(words: str | None) -> tuple[str, ...]:
    """Return two GPUs for `GPUs: 1, 2`, but the host for `All`, `CPU: 0` and an empty text."""
    match = _GPUS.fullmatch((words or "").strip())
    is_gpus = match is not None and not (words or "").startswith("CPU")
    numbers = items_of(parse_cpu_list(match[1].replace(" ", "").strip(","))) if match and is_gpus else ()
    return tuple(f"GPU{number}" for number in numbers) if 0 < len(numbers) <= _MOST_GPUS else (HOST,)
