"""Test how ranks are started and how many threads each rank gets."""

from __future__ import annotations

import pytest

from probes.facts import Cpu, Gpu, MachineFacts, NumaNode
from recipes.launch.agent import agent_argv
from recipes.machine.ranks import cores_per_rank, default_ranks


def test_several_ranks_start_through_the_agent_on_the_loopback():
    argv = agent_argv("/env/bin/python", 4, ("-m", "rigtune_worker", "gemm"))
    assert argv[:3] == ("/env/bin/python", "-m", "torch.distributed.run")
    assert argv[argv.index("--nproc-per-node") + 1] == "4"
    assert argv[argv.index("--local-addr") + 1] == "127.0.0.1"
    assert argv[-3:] == ("-m", "rigtune_worker", "gemm")


def test_one_rank_needs_no_agent():
    assert agent_argv("python3", 1, ("train.py",)) == ("python3", "train.py")


@pytest.mark.parametrize(
    ("cores", "logical", "allowed", "ranks", "expected"),
    [(2, 2, 2, 2, 1), (104, 208, 208, 8, 13), (104, 208, 104, 8, 6), (4, 8, 1, 1, 1), (64, 128, 128, 2, 32)],
)
def test_threads_are_the_physical_cores_that_this_process_may_use_shared_among_ranks(
    cores, logical, allowed, ranks, expected
):
    cpu = Cpu(physical_cores=cores, logical_cpus=logical, allowed_cpus=allowed)
    assert cores_per_rank(MachineFacts(cpu=cpu), ranks) == expected


def test_an_unknown_cpu_gets_one_thread_per_rank():
    assert cores_per_rank(MachineFacts(), 4) == 1


@pytest.mark.parametrize(("numa_nodes", "allowed", "expected"), [(1, 2, 2), (1, 1, 1), (4, 64, 4), (8, 2, 2)])
def test_a_cpu_machine_rehearses_with_two_ranks_or_one_per_numa_node(numa_nodes, allowed, expected):
    nodes = tuple(NumaNode(index=index) for index in range(numa_nodes))
    facts = MachineFacts(gpus=(), numa_nodes=nodes, cpu=Cpu(allowed_cpus=allowed))
    assert default_ranks(facts) == expected


def test_every_gpu_gets_a_rank():
    assert default_ranks(MachineFacts(gpus=tuple(Gpu(index=index) for index in range(8)))) == 8
