"""A stand-in for the interpreter of a machine with eight H100 SXM, which measures nothing.

Tests give it to `rigtune bench --python`. It plays torch's agent with all ranks of a start in one process.
RIGTUNE_SICK_PART names the fault of the machine. The values that NVML shows under load are written into the
scenario of the NVML stand-in. Healthy rates are published (sources: `probes/data/bench_references.toml`).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GPUS = 8
SICK_PART = os.environ.get("RIGTUNE_SICK_PART", "")
SLOW_PAIR = {2, 6}
JITTER = (1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 0.998, 1.003)
START_S = 0.3
"""Seconds that ranks work for a single request; the watch reads the GPUs twice a second."""

_GEMM = {"fp32": 50e12, "tf32": 400e12, "bf16": 750e12, "fp16": 760e12, "fp8": 1250e12}
_BUS = {
    "all_reduce": 480e9,
    "all_gather": 361e9,
    "reduce_scatter": 363e9,
    "all_to_all": 340e9,
    "broadcast": 350e9,
}
_RING = 367e9
_LINK = 378e9
_HOST_COPY = {"host_to_device": 55.3e9, "device_to_host": 54.8e9, "both": 95e9}
_LATENCY_S = 20e-6

UNDER_LOAD = (
    "sm_clock_mhz = 1755\npower_mw = 688000\ntemperature_c = 62\n"
    "utilization_percent = 100\nclock_event_reasons = 4\n"
)
"""Readings under load: a healthy H100 at full load is at its power limit (NVML reports sw_power_cap)."""
SICK_UNDER_LOAD = {
    "power cap": "gpu3.sm_clock_mhz = 1215\ngpu3.power_mw = 399000\ngpu3.temperature_c = 48\n",
    "stranger": f"gpu2.process_id = {os.environ.get('RIGTUNE_STRANGER', '')}\n",
}


def main(arguments: list[str]) -> int:
    if arguments[-1] == "rigtune_worker.vet":
        sys.stdout.write(json.dumps(described()) + "\n")
        return 0
    ranks = int(arguments[arguments.index("--nproc-per-node") + 1]) if "--nproc-per-node" in arguments else 1
    worker = arguments[arguments.index("rigtune_worker") + 1 :]
    with nvml_under_load():
        if worker[0] == "--orders":
            return orders(Path(worker[1]), ranks)
        time.sleep(START_S)
        return order(
            worker[0], worker[worker.index("--request") + 1], Path(worker[worker.index("--out") + 1]), ranks
        )


def described() -> dict[str, Any]:
    description = {
        "executable": sys.executable,
        "python": "3.12.3",
        "torch": "2.8.0+cu128",
        "cuda": "12.8",
        "nccl_version": "2.27.3",
    }
    devices = ["NVIDIA H100 80GB HBM3"] * GPUS
    description |= {"gloo": True, "nccl": True, "devices": devices}  # type: ignore[dict-item]
    if SICK_PART == "torch":
        words = "Error 802: system not yet initialized"
        return {
            **description,
            "devices": [],
            "cuda_error": f"Unexpected error from cudaGetDeviceCount(). {words}",
        }
    return description


@contextlib.contextmanager
def nvml_under_load() -> Iterator[None]:
    scenario = Path(os.environ["RIGTUNE_NVML_SCENARIO"])
    idle = scenario.read_text()
    write(scenario, SICK_UNDER_LOAD.get(SICK_PART, "") + UNDER_LOAD + idle)
    try:
        yield
    finally:
        write(scenario, idle)


def write(path: Path, text: str) -> None:
    """Write a file atomically: a concurrent reader sees the old file or the new one."""
    partial = path.with_suffix(".new")
    partial.write_text(text)
    partial.rename(path)


def orders(folder: Path, ranks: int) -> int:
    for number in itertools.count(1):
        path = folder / f"{number}.json"
        while not path.exists():
            time.sleep(0.02)
        wanted = json.loads(path.read_text())
        if not wanted:
            break
        out = Path(wanted["out"])
        code = order(wanted["bench"], wanted["request"], out, ranks)
        if code:
            return code
        for rank in range(ranks):
            (out / f"ended{rank}").touch()
    return 0


def order(bench: str, request_path: str, out: Path, ranks: int) -> int:
    """Write the answer files of all ranks and return the exit code of torch's agent."""
    request = json.loads(Path(request_path).read_text())
    is_killed = SICK_PART == "killed rank" and bench == "collectives"
    for rank in range(ranks):
        lines = [
            {
                "event": "start",
                "rank": rank,
                "world_size": ranks,
                "uuid": uuid(rank),
                "conditions": conditions(),
            }
        ]
        cases = request["cases"]
        for case in cases[: len(cases) // 2] if is_killed else cases:
            lines += [{"case": case, **line} for line in answered(bench, request, case, rank)]
        done = {"nccl_log": "GPU0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"}
        lines += (
            []
            if is_killed
            else [{"event": "done", "conditions": {**conditions(), **(done if bench == "isolation" else {})}}]
        )
        (out / f"rank{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if is_killed:
        sys.stderr.write(AGENT_REPORT + "\n")
    return int(is_killed)


AGENT_REPORT = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
rigtune_worker FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_21:14:03
  host      : localhost
  rank      : 4 (local_rank: 4)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4711
============================================================"""
"""Report of torch's agent, as torch 2.8 prints it."""


def uuid(rank: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{rank:012d}"


def conditions() -> dict[str, Any]:
    return {
        "hostname": "node17",
        "device_name": "NVIDIA H100 80GB HBM3",
        "torch_version": "2.8.0+cu128",
        "cuda_version": "12.8",
        "nccl_version": "2.27.3",
    }


def answered(bench: str, request: dict[str, Any], case: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    """Return the lines of a rank for a case; none if it has no part in the case."""
    if bench == "pairs" and rank not in (case["first"], case["second"]):
        return []
    if (
        SICK_PART == "wrong values"
        and bench == "gemm"
        and rank == 6
        and case["dtype"] == "bf16"
        and case["m"] == 8192 == case["k"]
    ):
        words = "a bf16 product is off by 3.1 standard deviations of its elements, but rounding explains 0.05"
        return [{"event": "failure", "kind": "wrong_result", "message": f"{words}: silent data corruption"}]
    duration_s, figures = DURATIONS[bench](case, rank, request)
    many = (
        JITTER
        if bench != "sustained"
        else [JITTER[second % len(JITTER)] for second in range(case["seconds"])]
    )
    # Each rank has noise of its own, because the clocks of GPUs differ.
    durations_s = [
        duration_s * factor * (1 + 0.0005 * ((rank * 7 + place) % 5)) for place, factor in enumerate(many)
    ]
    line = {
        "event": "sample",
        "case": case,
        "durations_s": durations_s,
        "figures": {"warmup_calls": 3, **figures},
        "series": {},
    }
    if bench == "sustained":
        clock_mhz, power_w = (1215, 399) if SICK_PART == "power cap" and rank == 3 else (1755, 688)
        values = {"sm_clock_hz": clock_mhz * 1e6, "power_w": float(power_w), "temperature_c": 62.0}
        line["series"] = {name: [value] * len(many) for name, value in values.items()}
    if figures.get("memory_errors"):
        words = "3 words of 70000000000 bytes read back wrong; the first at 0x1f00, bits 0x4"
        return [line, {"event": "failure", "kind": "wrong_result", "message": words}]
    return [line]


Timed = tuple[float, dict[str, float]]


def speed(rank: int) -> float:
    """Return the relative arithmetic speed of a GPU; 1 is healthy."""
    return 0.62 if SICK_PART == "power cap" and rank == 3 else 1.0


def gemm(case: dict[str, Any], rank: int, _: object) -> Timed:
    size = min(case[name] for name in "mnk")
    reached = min(1.0, 0.86 + 0.14 * size / 8192)
    return 2.0 * case["m"] * case["n"] * case["k"] / (_GEMM[case["dtype"]] * reached * speed(rank)), {}


def attention(case: dict[str, Any], rank: int, _: object) -> Timed:
    flops = 2.0 * case["batch"] * case["heads"] * case["sequence_length"] ** 2 * case["head_dim"]
    backward = case["pass"] == "backward"  # noqa: S105 - a pass over the layers
    return flops * (2.5 if backward else 1) / ((300e12 if backward else 350e12) * speed(rank)), {"kernel": 1}


def memory_copy(case: dict[str, Any], rank: int, _: object) -> Timed:
    return case["bytes"] * (3 if case["operation"] == "triad" else 2) / 2570e9, {}


def launch(case: dict[str, Any], rank: int, _: object) -> Timed:
    return 3e-6 if case["kind"] == "asynchronous" else 12e-6, {}


def host_device(case: dict[str, Any], rank: int, _: object) -> Timed:
    lanes = 0.5 if SICK_PART == "lanes" and rank == 5 else 1.0
    moved = case["bytes"] * (2 if case["direction"] == "both" else 1)
    return moved / (_HOST_COPY[case["direction"]] * lanes), {"numa_node": rank * 2 // GPUS}


def peer_copy(case: dict[str, Any], rank: int, _: object) -> Timed:
    ends = {int(case["from"].removeprefix("GPU")), int(case["to"].removeprefix("GPU"))}
    # A link carries data in both directions at the same time.
    return case["bytes"] / link_rate(ends), {"peer_access": 1}


def pairs(case: dict[str, Any], rank: int, _: object) -> Timed:
    return case["bytes"] / (0.9 * link_rate({case["first"], case["second"]})), {}


def link_rate(ends: set[int]) -> float:
    return _LINK * (0.3 if SICK_PART == "pair" and ends == SLOW_PAIR else 1.0)


def collectives(case: dict[str, Any], rank: int, request: dict[str, Any]) -> Timed:
    if "work" in case:
        return 60e-6 / speed(rank), {}
    name, ranks = case["collective"], request["ranks"]
    rate = _BUS.get(name, _BUS["broadcast"])
    if name == "all_reduce" and SICK_PART == "NVLS":
        rate = _RING
    if SICK_PART == "pair" and name != "all_reduce":
        rate *= 0.6
    factor = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "send_recv": 1.0}.get(
        name, (ranks - 1) / ranks
    )
    return _LATENCY_S + case["bytes"] * factor / rate, {}


def host_memory(case: dict[str, Any], rank: int, _: object) -> Timed:
    size = 512 * 2**20
    return (3 if case["operation"] == "triad" else 2) * size / 200e9, {"array_bytes": size, "threads": 2}


def storage(case: dict[str, Any], rank: int, _: object) -> Timed:
    block = case.get("block_bytes", 2**17)
    return block / 6e9, {"bytes_per_call": block, "direct": 1}


def train_step(case: dict[str, Any], rank: int, request: dict[str, Any]) -> Timed:
    flops = request["flops_per_token"] * case["micro_batch"] * case["sequence_length"]
    together = 1.0 if request["ranks"] == 1 else 0.94
    memory = 16e9 + case["micro_batch"] * 4e9
    return flops / (390e12 * together * speed(rank)), {
        "peak_memory_bytes": memory,
        "peak_reserved_bytes": memory * 1.1,
    }


def memory_test(case: dict[str, Any], rank: int, _: object) -> Timed:
    errors = 3 if SICK_PART == "wrong values" and rank == 6 else 0
    return 4.0, {"memory_errors": errors, "tested_bytes": 70e9, "passes": 2}


DURATIONS = {
    "gemm": gemm,
    "attention": attention,
    "memory-copy": memory_copy,
    "launch-latency": launch,
    "host-device": host_device,
    "peer-copy": peer_copy,
    "sustained": gemm,
    "memory-test": memory_test,
    "collectives": collectives,
    "isolation": collectives,
    "pairs": pairs,
    "host-memory": host_memory,
    "storage": storage,
    "train-step": train_step,
}
"""Function of each benchmark that returns the seconds of one call of a case on a rank, and its figures."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
