"""Run the workers of collectives, pairs and overlap with gloo on two and three ranks, also with faults."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assistant.processes.runner import busy_host
from recipes.launch.agent import agent_argv
from tests.workers.conftest import DEADLINE_S, TINY

Lines = list[list[dict[str, Any]]]
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
CALLS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "all_to_all": "all_to_all_single",
    "broadcast": "broadcast",
    "send_recv": "batch_isend_irecv",
}
"""Names of operations in torch.distributed."""
OWN_WORK = {"work": "gemm", "dtype": "fp32", "m": 256, "n": 256, "k": 256, "pinned": True}
RUN = """import os, sys, torch.distributed as dist
{before}
import rigtune_worker.__main__ as worker
from rigtune_worker import timing
timing.Budget.next_case = lambda budget: {share_s}
worker.run_and_leave(worker.main)
"""
"""Program of a rank. A busy host must not use up the time of later cases, so each has a share of its own."""


@pytest.fixture
def answers(torch_python: str, environment: dict[str, str], tmp_path: Path) -> Callable[..., Lines]:
    """Return a function that runs a benchmark's worker on gloo ranks and returns the lines of each rank.

    Each rank first runs the code `before`, and then measures each case for about `share_s` seconds.
    """

    def run(
        bench: str,
        ranks: int,
        cases: list[dict[str, Any]],
        *,
        before: str = "",
        share_s: float = 0.3,
        **more: Any,
    ) -> Lines:
        request = {"device": "cpu", "backend": "gloo", "budget_s": 100.0, "cases": cases, **more}
        (tmp_path / "request.json").write_text(json.dumps(request))
        (tmp_path / "program.py").write_text(RUN.format(before=before, share_s=share_s))
        program = ("program.py", bench, "--request", "request.json", "--out", ".")
        argv = agent_argv(torch_python, ranks, program)
        finished = subprocess.run(
            argv,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr[-2000:]
        texts = [(tmp_path / f"rank{rank}.jsonl").read_text().splitlines() for rank in range(ranks)]
        return [[json.loads(line) for line in lines] for lines in texts]

    return run


def of(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == event]


COUNT = f"""
calls = {{}}
def counted(name):
    call = getattr(dist, name)
    def wrapped(*args, **more):
        numel = args[0][0].tensor.numel() if isinstance(args[0], list) else args[0].numel()
        if numel > 2:  # what ranks tell each other is one number or two
            calls[name] = calls.get(name, 0) + 1
        return call(*args, **more)
    setattr(dist, name, wrapped)
for name in {tuple(CALLS.values())}:
    counted(name)
from rigtune_worker.protocol import Answer
done = Answer.done
Answer.done = lambda self, conditions: done(
    self, {{**conditions, **calls, "cpus": len(os.sched_getaffinity(0))}}
)
"""


def test_every_collective_is_verified_and_each_rank_makes_the_same_calls(answers):
    """Count torch's calls: the warm-up and timed calls that the answers state, and one more call per case."""
    cases = [{"collective": name, "bytes": size} for size in (1020, 24576) for name in COLLECTIVES]
    lines = answers("collectives", 3, [OWN_WORK, *cases], before=COUNT)
    for rank in lines:
        assert [line["case"] for line in of(rank, "sample")] == [OWN_WORK, *cases]
        assert not of(rank, "failure")
    ends = [of(rank, "done")[0]["conditions"] for rank in lines]
    assert {end["cpus"] for end in ends} == {
        len(os.sched_getaffinity(0))
    }  # a rank is pinned to a CPU only during its own work
    for name in COLLECTIVES:
        samples = [line for line in of(lines[0], "sample") if line["case"].get("collective") == name]
        figures = [line["figures"] for line in samples]
        timed = sum(len(line["durations_s"]) * line["figures"]["calls_per_sample"] for line in samples)
        assert {end[CALLS[name]] for end in ends} == {
            len(cases) // 6 + timed + sum(case["warmup_calls"] for case in figures)
        }


DAMAGE = """
real, lacks = dist.all_reduce, "ProcessGroupGloo does not support reduce_scatter_tensor"
def all_reduce(values, *args, **more):
    work = real(values, *args, **more)
    if os.environ["RANK"] == "1" and values.numel() == 1024:
        values[1000] += 1
    return work
def reduce_scatter_tensor(*args, **more):
    raise RuntimeError(lacks)
dist.all_reduce, dist.reduce_scatter_tensor = all_reduce, reduce_scatter_tensor
"""


def test_a_wrong_value_is_named_and_what_the_backend_or_the_memory_lacks_is_left_out(answers):
    small, damaged, large = ({"collective": "all_reduce", "bytes": size} for size in (1024, 4096, 16384))
    lacking, fine = (
        {"collective": "reduce_scatter", "bytes": 1024},
        {"collective": "broadcast", "bytes": 4096},
    )
    huge = {"collective": "all_to_all", "bytes": 2**50}
    lines = answers("collectives", 2, [small, lacking, damaged, fine, large, huge], before=DAMAGE)
    assert not of(lines[0], "failure")
    (failure,) = of(lines[1], "failure")
    assert (failure["kind"], failure["case"]) == ("wrong_result", damaged)
    assert failure["message"] == "all_reduce of 4096 bytes: rank 1 received wrong values (1 of 1024)"
    for rank in lines:
        assert [line["case"] for line in of(rank, "sample")] == [small, fine]
        skipped = {
            line["case"]["bytes"]: line["message"] for line in of(rank, "skipped") if line["case"] != damaged
        }
        assert "gloo" in skipped[1024]
        assert "wrong" in skipped[16384]
        assert "GiB on each rank" in skipped[2**50]


def test_pairs_are_measured_by_the_two_that_they_consist_of_and_data_is_checked(answers):
    pairs = [{"first": a, "second": b, "bytes": 65536, "pairs": "alone"} for a, b in ((0, 1), (0, 2), (1, 2))]
    damage = """
real = dist.batch_isend_irecv
def batch_isend_irecv(operations):
    if os.environ["RANK"] == "2" and operations[0].peer == 0:
        operations[0].tensor[5] = -7
    return real(operations)
dist.batch_isend_irecv = batch_isend_irecv
"""
    lines = answers("pairs", 3, pairs, before=damage)
    failures = [[(line["kind"], line["message"]) for line in of(rank, "failure")] for rank in lines]
    assert failures == [[("wrong_result", "rank 0 got 1 wrong values of 16384 from rank 2")], [], []]
    assert [of(rank, "skipped") for rank in lines] == [[], [], []]
    assert [[line["case"] for line in of(rank, "sample")] for rank in lines] == [
        pairs[:1],
        [pairs[0], pairs[2]],
        pairs[1:],
    ]


@pytest.mark.slow
def test_the_parts_of_a_pass_take_turns(answers):
    remaining = {"micro_batch": 2, "sequence_length": 32, "precision": "fp32"}
    cases = [{"part": part, **remaining} for part in ("computation", "communication", "both")]
    lines = answers("overlap", 2, cases, model=TINY)
    for rank in lines:
        samples = of(rank, "sample")
        assert [line["case"] for line in samples] == cases
        assert len({len(line["durations_s"]) for line in samples}) == 1


@contextlib.contextmanager
def busy(cpu: int) -> Iterator[None]:
    """Keep a CPU busy with two processes in two sessions, as the kernel may divide time by session."""
    code = f"import os; os.sched_setaffinity(0, {{{cpu}}}); print(flush=True)\nwhile True: pass"
    argv = (sys.executable, "-c", code)
    loops = [subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) for _ in range(2)]
    try:
        for loop in loops:
            assert loop.stdout is not None
            loop.stdout.readline()
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("behind", [0, 1])
def test_the_rank_on_a_busy_core_is_the_slow_one(answers, behind):
    """Two busy processes take two thirds of the rank's core, so its work takes about three times as long."""
    if others := busy_host():
        pytest.skip(f"{others}, so that no core is less busy than the other")
    cpus = sorted(os.sched_getaffinity(0))
    with busy(cpus[behind * (len(cpus) // 2)]):
        lines = answers("collectives", 2, [OWN_WORK], share_s=6.0)
    medians = [statistics.median(of(rank, "sample")[0]["durations_s"]) for rank in lines]
    assert medians[behind] > 1.3 * medians[1 - behind]
