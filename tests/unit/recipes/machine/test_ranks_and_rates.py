"""Ranks and cores of a machine, scaled rates, and measured rates that ranks share."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from probes.base.record import NOT_RECORDED
from probes.catalogue.hardware import load_catalogue
from probes.facts import Cpu, Gpu, MachineFacts, NumaNode
from probes.facts.measurements import Measurement, Parameter
from recipes.machine.measured_rates import measured_attention, measured_loading
from recipes.machine.mig_profiles import divisions, memory_of, mig_model
from recipes.machine.ranks import cores_per_rank, default_ranks, training_gpus
from recipes.machine.scaled_rates import with_figures, with_node_links
from tests.support.clusters import h100_cluster


@pytest.mark.parametrize(
    ("cpu", "ranks", "cores"),
    [
        (Cpu(logical_cpus=128, physical_cores=64), 8, 8),
        (Cpu(logical_cpus=128, physical_cores=64, allowed_cpus=32), 8, 2),
        (Cpu(logical_cpus=128, physical_cores=64, allowed_cpus=256), 8, 8),
        (Cpu(logical_cpus=128, physical_cores=64, allowed_cpus=1), 8, 1),
        (Cpu(logical_cpus=128), 8, 16),
        (Cpu(physical_cores=64), 8, 8),
        (Cpu(physical_cores=64, allowed_cpus=2), 8, 8),
        (Cpu(logical_cpus=1, physical_cores=1), 1, 1),
        (Cpu(logical_cpus=8, physical_cores=4), 0, 4),
        (Cpu(), 2, 1),
    ],
)
def test_ranks_share_the_cores_that_the_process_may_use(cpu: Cpu, ranks: int, cores: int):
    assert cores_per_rank(MachineFacts(cpu=cpu), ranks) == cores


@pytest.mark.parametrize(
    ("numa_nodes", "cpu", "ranks"),
    [
        (1, Cpu(logical_cpus=8), 2),
        (2, Cpu(logical_cpus=8), 2),
        (3, Cpu(logical_cpus=8), 3),
        (4, Cpu(logical_cpus=8, allowed_cpus=3), 3),
        (1, Cpu(logical_cpus=1), 1),
        (1, Cpu(allowed_cpus=0), 1),
        (None, Cpu(logical_cpus=8), 2),
        (None, Cpu(), 2),
    ],
)
def test_a_machine_without_gpus_has_a_rank_per_numa_node(numa_nodes: int | None, cpu: Cpu, ranks: int):
    nodes = NOT_RECORDED if numa_nodes is None else tuple(NumaNode(index=n) for n in range(numa_nodes))
    assert default_ranks(MachineFacts(gpus=(), numa_nodes=nodes, cpu=cpu)) == ranks


def test_gpus_that_are_divided_train_nothing():
    gpus = (Gpu(index=0, mig_enabled=True), Gpu(index=1, mig_enabled=False), Gpu(index=2))
    facts = MachineFacts(gpus=gpus, numa_nodes=tuple(NumaNode(index=n) for n in range(8)))
    assert [gpu.index for gpu in training_gpus(facts)] == [1, 2]
    assert default_ranks(facts) == 2


def test_scaled_figures_are_multiplied_and_unknown_ones_stay_unknown():
    cluster = h100_cluster(nodes=1)
    names = ("memory_bandwidth_bytes_per_s", "inter_bus_bandwidth_bytes_per_s")
    faster = with_figures(cluster, 3.0, *names)
    assert faster.memory_bandwidth_bytes_per_s.value == 3 * cluster.memory_bandwidth_bytes_per_s.value
    without = with_figures(replace(cluster, **{names[1]: None}), 3.0, *names)
    assert without.inter_bus_bandwidth_bytes_per_s is None
    links = with_node_links(cluster, 2.0)
    assert links.intra_bus_bandwidth_bytes_per_s.value == 2 * cluster.intra_bus_bandwidth_bytes_per_s.value
    assert links.memory_bandwidth_bytes_per_s == cluster.memory_bandwidth_bytes_per_s


def _measured(metric: str, value: float, subject: str, **parameters: Parameter) -> Measurement:
    return Measurement(
        bench_id="b", subject=subject, metric=metric, unit="", samples=(value,), parameters=parameters
    )


def test_attention_has_a_rate_for_each_pass_and_the_slowest_gpu_counts():
    case = {"dtype": "bf16", "sequence_length": 2048, "head_dim": 128, "kernel": "flash"}
    rates = measured_attention(
        (
            _measured("attention_flops_per_s", 5e14, "GPU0", **case, **{"pass": "forward"}),
            _measured("attention_flops_per_s", 4e14, "GPU1", **case, **{"pass": "forward"}),
            _measured("attention_flops_per_s", 3e14, "GPU0", **case, **{"pass": "backward"}),
            _measured("attention_flops_per_s", 1e14, "GPU0", **{**case, "kernel": "math"}),
            _measured("attention_flops_per_s", 2e14, "GPU0", **{**case, "sequence_length": 0}),
            _measured("attention_flops_per_s", 0.0, "GPU0", **{**case, "head_dim": 64}),
            _measured("attention_flops_per_s", 1e12, "GPU0", **{**case, "sequence_length": 1, "head_dim": 1}),
        )
    )
    assert [(rate.backward, rate.sequence_length, rate.flops_per_s) for rate in rates] == [
        (False, 1, 1e12),
        (False, 2048, 4e14),
        (True, 2048, 3e14),
    ]


def test_samples_per_second_are_batches_of_the_best_number_of_workers():
    runs = tuple(
        _measured("batch_rate_per_s", rate, "2 ranks", batch_size=32, num_workers=workers, world_size=2)
        for workers, rate in ((0, 90.0), (2, 10.0), (8, 25.0))
    )
    assert measured_loading(runs, 2).value == 25.0 * 32
    assert measured_loading(runs[:1], 2) is None


def test_instances_of_a_divided_gpu_have_eighths_of_its_memory():
    h100, a30 = (load_catalogue().gpu(name) for name in ("NVIDIA H100 80GB HBM3", "NVIDIA A30"))
    model = mig_model(h100)
    # Seven small instances with one eighth, four or three with two, and two with four eighths
    assert divisions(model) == ((7, 1, 1), (4, 1, 2), (3, 2, 2), (2, 3, 4))
    assert divisions(mig_model(a30)) == ((4, 1, 2), (2, 2, 4))
    whole = model.profiles[-1]
    assert memory_of(whole, model, h100).size_bytes == h100.memory_bytes
    reported = replace(model.profiles[0], memory_mib=100)
    assert memory_of(reported, model, h100).size_bytes == 100 * 2**20


@pytest.mark.parametrize(("name", "size"), [("1g.10gb", 9.5e9), ("1g.10gb+me", 9.5e9), ("1g", 0.0)])
def test_an_instance_without_a_report_has_a_part_of_the_size_in_its_name(name: str, size: float):
    row = load_catalogue().gpu("NVIDIA H100 80GB HBM3")
    model = mig_model(row)
    unreported = replace(model.profiles[0], name=name, memory_mib=None)
    assert memory_of(unreported, model, row).size_bytes == pytest.approx(size)
