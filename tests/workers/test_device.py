"""Run the device benchmarks on a CPU with tiny sizes; `test_device_gpu.py` tests what differs on a GPU."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recipes.launch.agent import agent_argv
from tests.workers.conftest import DEADLINE_S

SETUP = """
import contextlib, importlib, os, tempfile, time, torch
from rigtune_worker import timing
from rigtune_worker.parallel import process_group
from rigtune_worker.protocol import Answer, CaseError
cpu = torch.device("cpu")
timing.Budget.next_case = lambda budget: 0.2  # a busy host must not use up the time of later cases
def told(action):
    folder = tempfile.mkdtemp(dir=".")
    action(Answer(folder, 0))
    with open(folder + "/rank0.jsonl") as file:
        return [json.loads(line) for line in file]
def run(bench, cases, **more):
    request = {"budget_s": 1.0, "cases": cases, "subjects": {}, "settings": {}, "numa_cpus": {}, **more}
    module = importlib.import_module("rigtune_worker.bench." + bench)
    return told(lambda answer: module.run(request, answer, cpu))
def refusal(action):
    try:
        action()
    except CaseError as error:
        return [error.kind, str(error)]
"""
InTorch = Callable[[str], Any]


def in_group(body: str) -> str:
    """Return the program with `body` as the only rank of a group."""
    return (
        SETUP
        + 'with process_group("gloo", cpu):\n'
        + "\n".join("    " + line for line in body.strip().splitlines())
    )


def test_every_case_of_every_device_benchmark_is_answered(in_torch: InTorch) -> None:
    answers = in_torch(
        in_group("""
square = {"m": 64, "n": 64, "k": 64}
heads = {"batch": 1, "heads": 2, "sequence_length": 64, "head_dim": 16}
copy = {"direction": "both", "pinned": False, "concurrent": True, "bytes": 65536}
asked = {
    "gemm": [
        *({"dtype": dtype, **square} for dtype in ("fp32", "tf32", "bf16")),
        {"dtype": "fp32", "m": 48, "n": 80, "k": 33},
    ],
    "attention": [
        {"pass": name, "dtype": dtype, **heads}
        for name in ("forward", "backward") for dtype in ("fp32", "bf16")
    ],
    "memory_copy": [
        {"operation": name, "direction": "device_to_device", "bytes": 65536} for name in ("copy", "triad")
    ],
    "launch_latency": [{"kind": "asynchronous"}, {"kind": "synchronous"}],
    "host_device": [copy, {**copy, "direction": "host_to_device", "concurrent": False},
                    {**copy, "direction": "device_to_host", "near": True}, {**copy, "numa_node": 0}],
    "sustained": [{"dtype": "fp32", **square, "seconds": 0}],
    "memory_test": [{"pattern": name} for name in
                    ("walking_ones", "walking_zeros", "address", "random_and_inverse", "moving_inversions")],
}
more = {
    "host_device": {"settings": {"near GPU0": 0}, "numa_cpus": {"0": sorted(os.sched_getaffinity(0))}},
    "memory_test": {"settings": {"most_bytes": 262144}},
}
before = os.sched_getaffinity(0)
answer = {bench: [cases, run(bench, cases, **more.get(bench, {}))] for bench, cases in asked.items()}
assert os.sched_getaffinity(0) == before
""")
    )
    for bench, (cases, lines) in answers.items():
        assert [line["event"] for line in lines] == ["sample"] * len(cases), (bench, lines)
        assert [line["case"] for line in lines] == cases
        assert all(
            math.isfinite(duration_s) and duration_s > 0
            for line in lines
            for duration_s in line["durations_s"]
        )
    assert {line["figures"]["kernel"] for line in answers["attention"][1]} <= {-1, 0, 1, 2, 3, 4}
    assert [line["figures"].get("numa_node") for line in answers["host_device"][1]] == [None, None, 0, 0]
    assert all(line["figures"]["memory_errors"] == 0 for line in answers["memory_test"][1])
    assert all(line["figures"]["tested_bytes"] == 262144 for line in answers["memory_test"][1])


def test_a_shape_that_was_asked_for_fails_rather_than_disappears(in_torch: InTorch) -> None:
    """A requested shape may be too slow, or too large: the product of the largest shape is never computed."""
    lines = in_torch(
        in_group("""
square, column = {"m": 64, "n": 64, "k": 64}, {"m": 64, "n": 64, "k": 2**20}
outer = {"m": 2**19, "n": 2**19, "k": 1}
cases = [{"dtype": dtype, **case} for dtype, case in
         (("bf16", outer), ("fp32", square), ("fp32", column), ("fp32", {**column, "k": 2**20 + 1}))]
answer = run("gemm", cases, settings={"asked": "524288x524288x1 64x64x1048576"})
""")
    )
    assert [(line["event"], line.get("kind")) for line in lines] == [
        ("failure", "out_of_memory"),
        ("sample", None),
        ("failure", "timeout"),
        ("skipped", None),
    ]


def test_peers_are_copied_to_one_way_and_both_ways(in_torch: InTorch) -> None:
    lines = in_torch(
        in_group("""
from rigtune_worker.bench.peer_copy import measure_matrix
case = {"from": "GPU0", "to": "GPU1", "direction": "one_way", "bytes": 65536}
request = {"budget_s": 5.0, "cases": [case, {**case, "direction": "both"}, {**case, "to": "GPU7"}]}
answer = told(lambda answer: measure_matrix(request, answer, {"GPU0": cpu, "GPU1": cpu}))
""")
    )
    assert sorted((line["event"], line["case"]["to"], line["case"]["direction"]) for line in lines) == [
        ("sample", "GPU1", "both"),
        ("sample", "GPU1", "one_way"),
        ("skipped", "GPU7", "one_way"),
    ]
    assert "GPU7 cannot be seen" in next(line["message"] for line in lines if line["event"] == "skipped")


def test_the_first_copy_between_two_gpus_is_not_timed(in_torch: InTorch) -> None:
    """Check that the first copy, with which torch enables peer access, is not timed."""
    result = in_torch(
        in_group("""
from rigtune_worker.bench import peer_copy
seen = []
def time_calls(copies, device, **more):
    seen.append([bool((target == source).all()) for source, target in copies.pairs])
    return [1.0]
peer_copy.time_calls = time_calls
case = {"from": "GPU0", "to": "GPU1", "direction": "both", "bytes": 65536}
devices = {"GPU0": cpu, "GPU1": cpu}
told(lambda answer: peer_copy.measure_matrix({"budget_s": 1, "cases": [case]}, answer, devices))
answer = seen
""")
    )
    assert result == [[True, True]]


def test_a_gpu_has_its_uuid_from_every_torch(in_torch: InTorch) -> None:
    """Before version 2.5, torch has no UUID among the properties and asks NVML with NVML's GPU numbers."""
    result = in_torch(
        SETUP
        + """
from types import SimpleNamespace
from rigtune_worker.rank_conditions import device_uuid
torch.cuda._raw_device_uuid_nvml = lambda: ["GPU-aaaa", "GPU-bbbb", "GPU-cccc"]
os.environ["CUDA_VISIBLE_DEVICES"] = "2,1"
answer = []
for told in ({"uuid": "dddd"}, {}):
    torch.cuda.get_device_properties = lambda device, told=told: SimpleNamespace(**told)
    answer.append(device_uuid(torch.device("cuda", 0)))
os.environ["CUDA_VISIBLE_DEVICES"] = "GPU-bb"
answer.append(device_uuid(torch.device("cuda", 0)))
torch.cuda._raw_device_uuid_nvml = lambda: None
answer.append(device_uuid(torch.device("cuda", 0)))
"""
    )
    assert result == ["GPU-dddd", "GPU-cccc", "GPU-bbbb", ""]


def test_wrong_results_are_reported_as_such(in_torch: InTorch) -> None:
    """Check for example a product with a tile of zeros, attention off by a fifth, a wrong word in a copy."""
    result = in_torch(
        SETUP
        + """
from rigtune_worker.product import Product
from rigtune_worker.bench import attention, memory_copy
from rigtune_worker.copies import check_pattern, pattern
answer = {}
for dtype in ("fp32", "bf16", "fp16", "fp8"):
    product = Product({"dtype": dtype, "m": 256, "n": 256, "k": 256}, cpu)
    product.check()
    right = product.multiply
    def corrupted():
        result = right().clone()
        result[64:80, 64:80] = 0
        return result
    product.multiply = corrupted
    answer[dtype] = refusal(product.check)
    product.multiply = lambda: right() * float("nan")
    answer[dtype + " nan"] = refusal(product.check)
q, k, v = (torch.randn(1, 2, 64, 16) for _ in range(3))
out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
attention.check(q, k, v, out)
answer["attention"] = refusal(lambda: attention.check(q, k, v, out * 1.2))
answer["mask"] = refusal(
    lambda: attention.check(q, k, v, torch.nn.functional.scaled_dot_product_attention(q, k, v)))
arrived = pattern(4096, 3, cpu)
check_pattern(arrived, 3, "copy")
answer["seed"] = refusal(lambda: check_pattern(arrived, 4, "copy"))
arrived[17] ^= 1 << 62
answer["word"] = refusal(lambda: check_pattern(arrived, 3, "copy"))
call, check, _ = memory_copy.triad(4096, cpu)
answer["triad"] = refusal(check)
call()
check()
"""
    )
    assert {kind for kind, _ in result.values()} == {"wrong_result"}
    assert result["word"][1] == "copy: 1 of 512 64-bit words arrived wrong"
    assert "1024 of 1024 values" in result["triad"][1]


def test_one_flipped_bit_is_found_by_every_pattern(in_torch: InTorch) -> None:
    result = in_torch(
        SETUP
        + """
from rigtune_worker.bench.memory_test import PATTERNS, allocate, run_passes
answer = {}
for name, make in PATTERNS.items():
    chunks = allocate(64 * 4096, cpu)
    def passes():
        for number, expected in enumerate(make(chunks[0].numel(), cpu)):
            yield expected
            if number == 0:
                chunks[5][7] ^= 1 << 63
    errors, done = run_passes(chunks, passes(), time.monotonic() + 60)
    untouched, _ = run_passes(chunks, make(chunks[0].numel(), cpu), 0.0)
    answer[name] = [errors.count, errors.first, done, untouched.count, chunks[0].numel()]
same = allocate(64 * 4096, cpu)
same[9] = same[4]
answer["alias"] = run_passes(same, PATTERNS["address"](same[0].numel(), cpu), time.monotonic() + 60)[0].count
ones = [expected(0).clone() for expected in PATTERNS["walking_ones"](128, cpu)]
zeros = [expected(0).clone() for expected in PATTERNS["walking_zeros"](128, cpu)]
tried = torch.zeros(128, dtype=torch.int64)
for values in ones:
    tried |= values
answer["every bit"] = bool((tried == -1).all()) and all(bool((a == ~b).all()) for a, b in zip(ones, zeros))
answer["one at a time"] = all(bin(int(value) % 2**64).count("1") == 1 for values in ones for value in values)
"""
    )
    assert (result.pop("every bit"), result.pop("one at a time")) == (True, True)
    alias = result.pop("alias")
    cells = result["address"][4]
    assert alias > 0
    assert {name: (row[0], row[2], row[3]) for name, row in result.items()} == {
        "walking_ones": (1, 64, 0),
        "walking_zeros": (1, 64, 0),
        "address": (1, 2, 0),
        "random_and_inverse": (1, 16, 0),
        "moving_inversions": (1, 6, 0),
    }
    assert all(f"byte {(5 * cells + 7) * 8} of the test" in row[1] for row in result.values())
    assert "0x8000000000000000 instead of 0x0000000000000000" in result["moving_inversions"][1]


def test_a_case_that_cannot_be_leaves_the_others(in_torch: InTorch) -> None:
    answers, lost = in_torch(
        in_group("""
from rigtune_worker.cases import SkipCaseError, each_case, refuse_overrun
def prepare(case, budget_s):
    if case["x"] == "slow":
        refuse_overrun(1e6, budget_s)
    if case["x"] == "absent":
        raise SkipCaseError("this GPU has none")
    if case["x"] in errors:
        raise errors[case["x"]]
    return lambda: answer.sample(case, [1.0])
errors = {
    "full": RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
    "host full": MemoryError(),
    "odd": RuntimeError("no kernel for this\\nand a long trace"),
    "blas": RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`"),
    "wrong": CaseError("wrong_result", "corrupted"),
}
names = ["fine", "slow", "absent", *errors, "also fine"]
request = {"budget_s": 60, "cases": [{"x": name} for name in names]}
def ask(told):
    global answer
    answer = told
    each_case(request, told, cpu, prepare)
first = told(ask)
ended = []
fatal = (
    "CUDA error: uncorrectable ECC error encountered",
    "gloo: Connection closed by peer [127.0.0.1]:4711",
)
for words in fatal:
    errors["fine"] = RuntimeError(words)
    try:
        told(ask)
    except RuntimeError as error:
        ended.append(str(error))
answer = [first, ended]
""")
    )
    events = {line["case"]["x"]: (line["event"], line.get("kind")) for line in answers}
    assert events == {
        "fine": ("sample", None),
        "slow": ("skipped", None),
        "absent": ("skipped", None),
        "full": ("failure", "out_of_memory"),
        "host full": ("failure", "out_of_memory"),
        "odd": ("failure", "unsupported"),
        "blas": ("failure", "unsupported"),
        "wrong": ("failure", "wrong_result"),
        "also fine": ("sample", None),
    }
    assert next(line["message"] for line in answers if line["case"]["x"] == "odd") == "no kernel for this"
    assert ["uncorrectable ECC" in lost[0], "closed by peer" in lost[1]] == [True, True]


def test_host_memory_comes_from_the_cpus_of_the_wanted_node(in_torch: InTorch) -> None:
    result = in_torch(
        in_group("""
from rigtune_worker.copies import bound_to
allowed = sorted(os.sched_getaffinity(0))
with bound_to(allowed[-1:]):
    inside = sorted(os.sched_getaffinity(0)), torch.get_num_threads()
def nowhere():
    with bound_to([4095]):
        pass
copy = {"direction": "host_to_device", "pinned": False, "concurrent": True, "bytes": 4096}
answer = {
    "inside": inside, "last": allowed[-1],
    "after": sorted(os.sched_getaffinity(0)) == allowed, "nowhere": refusal(nowhere),
    "lines": run("host_device", [{**copy, "near": False}, {**copy, "numa_node": 3}, copy]),
}
""")
    )
    assert result["inside"] == [[result["last"]], 1]
    assert result["after"] is True
    assert result["nowhere"] == ["unsupported", "this process may use none of the CPUs 4095 to 4095"]
    assert [(line["event"], line.get("message")) for line in result["lines"]] == [
        ("failure", "the NUMA node of this GPU is not known"),
        ("failure", "NUMA node 3 has no CPU to write its memory from"),
        ("sample", None),
    ]


def test_a_product_is_held_for_as_long_as_asked(in_torch: InTorch) -> None:
    durations_s, series, sensors = in_torch(
        SETUP
        + """
from rigtune_worker.bench.sustained import hold, read_sensors
from rigtune_worker.product import Product
product = Product({"dtype": "fp32", "m": 32, "n": 32, "k": 32}, cpu)
durations_s, series = hold(product, cpu, 0.3, slice_s=0.02)
answer = [durations_s, series, read_sensors(cpu)]
"""
    )
    assert len(durations_s) >= 2
    assert min(durations_s) > 0
    assert series == {} == sensors


def test_ranks_copy_in_turn_and_at_once(
    torch_python: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """Check that both ranks skip a case that only one cannot prepare; the other would wait forever."""
    copy = {"direction": "host_to_device", "pinned": False, "bytes": 65536}
    cases = [
        {**copy, "concurrent": False},
        {**copy, "concurrent": True},
        {**copy, "concurrent": True, "near": True},
    ]
    cpus = sorted(os.sched_getaffinity(0))
    request = {"device": "cpu", "backend": "gloo", "budget_s": 3.0, "cases": cases, "subjects": {}}
    (tmp_path / "request.json").write_text(
        json.dumps({**request, "settings": {"near GPU1": 0}, "numa_cpus": {"0": cpus}})
    )
    program = (
        "-m",
        "rigtune_worker",
        "host-device",
        "--request",
        str(tmp_path / "request.json"),
        "--out",
        str(tmp_path),
    )
    argv = agent_argv(torch_python, 2, program)
    subprocess.run(argv, env=environment, cwd=tmp_path, timeout=DEADLINE_S, check=True, capture_output=True)
    ends = []
    for rank in range(2):
        start, *answers, done = map(json.loads, (tmp_path / f"rank{rank}.jsonl").read_text().splitlines())
        assert (start["event"], done["event"]) == ("start", "done")
        assert [line["event"] for line in answers[:2]] == ["sample", "sample"]
        ends.append((answers[2]["event"], answers[2]["message"]))
    assert ends == [
        ("failure", "the NUMA node of this GPU is not known"),
        ("skipped", "another rank could not prepare it"),
    ]
