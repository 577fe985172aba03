"""Test that predictions for a measured machine use its own figures instead of the catalogue's."""

from __future__ import annotations

import msgspec
import pytest

from probes.bench.resnet import RESNET_50, SMALL
from probes.catalogue.hardware import Catalogue, load_catalogue
from probes.facts.measurements import Measurement
from recipes.job.candidate import Candidate, Degrees
from recipes.job.models.image_models import find_vision_model
from recipes.job.models.names import find_model
from recipes.job.workload import VisionWorkload
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_facts import cluster_from_facts
from recipes.predict.candidate_prediction import predict
from recipes.predict.image_prediction import predict_images, reference_vision_model
from recipes.predict.job_prediction import time_for
from recipes.predict.stacks import REFERENCE, load_stacks
from recipes.predict.training_job import image_job, job_of
from tests.support.clusters import case, predicted_time
from tests.support.machines import cpu_box, h100_node
from tests.support.measured import measured

RANKS = 8


def seconds(cluster: Cluster, model_id: str = "llama-3-8b", **choices) -> float:
    choices = {"strategy": "fsdp", "micro_batch": 2, "ranks": cluster.world_size, **choices}
    return predicted_time(*case(find_model(model_id), **choices), cluster).total


def h100(*measurements: Measurement) -> Cluster:
    return cluster_from_facts(h100_node(), measurements, load_catalogue())


def gemms(rate: float) -> list[Measurement]:
    sizes = (2048, 8192)
    return [
        measured("gemm", "gemm_flops_per_s", f"GPU{gpu}", rate, dtype="bf16", m=m, n=m, k=m)
        for gpu in range(RANKS)
        for m in sizes
    ]


def attentions(forward: float, backward: float, lengths=(2048, 8192)) -> list[Measurement]:
    rates = {"forward": forward, "backward": backward}
    return [
        measured(
            "attention", "attention_flops_per_s", f"GPU{gpu}", rate, dtype="bf16", sequence_length=length,
            head_dim=64, heads=32, batch=2, kernel="flash", **{"pass": phase},
        )
        for gpu in range(RANKS)
        for length in lengths
        for phase, rate in rates.items()
    ]  # fmt: skip


def copies(rate: float) -> list[Measurement]:
    return [
        measured(
            "memory-copy",
            "memory_bandwidth_bytes_per_s",
            f"GPU{gpu}",
            rate,
            operation="copy",
            direction="device_to_device",
        )
        for gpu in range(RANKS)
    ]


def collectives(bandwidth: float) -> list[Measurement]:
    return [
        measured(
            "collectives", "collective_time_s", "8 ranks", 30e-6 + size / bandwidth, collective=name,
            bytes=size, world_size=RANKS, backend="nccl",
        )
        for name in ("all_gather", "reduce_scatter", "all_reduce")
        for size in (4**power * 1024 for power in range(10))
    ]  # fmt: skip


def overlap(fraction: float) -> Measurement:
    return measured(
        "overlap",
        "overlap_fraction",
        "8 ranks",
        fraction,
        world_size=RANKS,
        micro_batch=1,
        model="tinyllama-1.1b",
    )


@pytest.mark.parametrize(
    ("slower", "faster"),
    [
        (gemms(400e12), gemms(700e12)),
        (attentions(200e12, 150e12), attentions(500e12, 400e12)),
        (copies(1.5e12), copies(2.8e12)),
        (collectives(20e9), collectives(300e9)),
        ([overlap(0.2)], [overlap(0.9)]),
    ],
    ids=["products", "attention", "memory", "collectives", "overlap"],
)
def test_a_measured_rate_of_a_node_of_h100s_moves_the_step(slower, faster):
    slow, fast = seconds(h100(*slower)), seconds(h100(*faster))
    assert slow > fast > 0
    assert len({slow, fast, seconds(h100())}) == 3


def test_attention_takes_the_measured_length_nearest_to_its_own():
    short, long = attentions(200e12, 150e12, (2048,)), attentions(500e12, 400e12, (8192,))
    both = h100(*short, *long)
    for length, alone in ((1024, short), (2048, short), (8192, long), (32768, long)):
        assert seconds(both, sequence_length=length) == seconds(h100(*alone), sequence_length=length)


def test_rates_of_the_plain_attention_kernel_do_not_change_those_of_the_fused_one():
    plain = [
        msgspec.structs.replace(attention, parameters={**attention.parameters, "kernel": "math"})
        for attention in attentions(1e12, 1e12)
    ]
    assert seconds(h100(*plain)) == seconds(h100())


def step(value: float, **changes) -> Measurement:
    parameters = {
        "model": "llama-3-8b", "strategy": "fsdp", "micro_batch": 2, "sequence_length": 8192,
        "precision": "bf16", "world_size": RANKS, "activation_checkpointing": "none",
    }  # fmt: skip
    return measured("train-step", "step_time_s", "8 ranks", value, **{**parameters, **changes})


def test_a_measured_step_is_predicted_as_it_was_and_its_neighbours_in_proportion():
    plain, anchored = h100(*gemms(650e12)), h100(*gemms(650e12), step(3.0))
    assert seconds(anchored) == pytest.approx(3.0)
    factor = 3.0 / seconds(plain)
    for choices in (
        {"micro_batch": 4},
        {"checkpointing": "full"},
        {"sequence_length": 4096},
        {"model_id": "llama-3.2-1b"},
    ):
        assert seconds(anchored, **choices) == pytest.approx(factor * seconds(plain, **choices))


def test_cases_of_other_software_are_corrected_by_the_same_step():
    plain, anchored = h100(*gemms(650e12)), h100(*gemms(650e12), step(3.0))
    workload, candidate = case(find_model("llama-3-8b"), strategy="fsdp", ranks=RANKS, micro_batch=4)
    for stack in (load_stacks()[REFERENCE], load_stacks()["megatron-core"]):
        times = [time_for(job_of(workload, candidate, cluster, stack)).total for cluster in (plain, anchored)]
        assert times[1] / times[0] == pytest.approx(3.0 / seconds(plain))


def test_an_unknown_gpu_is_predicted_once_it_is_measured():
    gpus = tuple(
        msgspec.structs.replace(gpu, name="NVIDIA Future 9000", compute_capability="13.0")
        for gpu in h100_node().gpus
    )
    node = h100_node(gpus=gpus)
    everything = (*gemms(2e15), *copies(6e12), *collectives(700e9))
    workload, candidate = case(find_model("llama-3-8b"), strategy="fsdp", ranks=RANKS)
    before = predict(workload, candidate, cluster_from_facts(node, (), load_catalogue()))
    after = predict(workload, candidate, cluster_from_facts(node, everything, load_catalogue()))
    assert not isinstance(before.step_time_s.total, float)
    assert 0 < after.step_time_s.total < seconds(h100(), micro_batch=1)
    assert before.memory_bytes_per_gpu == after.memory_bytes_per_gpu


# ---- CPUs: a rank has the threads that its share of the cores gives it


def cpu_measurements(threads: int = 1) -> tuple[Measurement, ...]:
    """Return the measurements of two ranks that measured at once."""
    conditions = {"threads": threads}
    collected = [
        *(
            measured(
                "gemm", "gemm_flops_per_s", f"CPU rank {n}", 1e11, conditions=conditions, dtype="fp32", m=1024
            )
            for n in (0, 1)
        ),
        *(
            measured(
                "memory-copy",
                "memory_bandwidth_bytes_per_s",
                f"CPU rank {n}",
                2e10,
                conditions=conditions,
                operation="copy",
            )
            for n in (0, 1)
        ),
    ]
    return tuple(collected)


def cpu(ranks: int, *more: Measurement) -> Cluster:
    return cluster_from_facts(cpu_box(), (*cpu_measurements(), *more), Catalogue(), ranks_per_node=ranks)


def test_a_rank_with_all_cores_has_the_rates_of_all_ranks():
    one, two = cpu(1), cpu(2)
    assert (one.physical_cores_per_rank, two.physical_cores_per_rank) == (2, 1)
    assert (
        one.flops_per_s["fp32"].value
        == pytest.approx(2 * two.flops_per_s["fp32"].value)
        == pytest.approx(2e11)
    )
    assert one.memory_bandwidth_bytes_per_s.value == pytest.approx(4e10)


def test_a_step_that_was_measured_with_other_threads_still_corrects_the_model():
    anchor = step(
        1.0,
        model="rigtune-mini",
        strategy="ddp",
        micro_batch=8,
        sequence_length=256,
        precision="fp32",
        world_size=1,
    )
    anchor = msgspec.structs.replace(anchor, conditions={"threads": 1})
    run = {"strategy": "ddp", "model_id": "rigtune-mini", "micro_batch": 8, "precision": "fp32"}
    # Twice the threads: between half of the time, and all of it.
    assert 0.5 <= seconds(cpu(1, anchor), **run) < 1.0
    same = msgspec.structs.replace(anchor, conditions={"threads": 2})
    assert seconds(cpu(1, same), **run) == pytest.approx(1.0)


GLOO = [
    measured(
        "collectives", "collective_time_s", "2 ranks", 1e-3 + size / 1e9, collective=name, bytes=size,
        world_size=2,
    )
    for name in ("all_reduce", "all_gather", "reduce_scatter")
    for size in (4**power * 1024 for power in range(8))
]  # fmt: skip


def small_step(value: float, threads: int = 1, **changes) -> Measurement:
    """Return the measurement of a step with the settings of `PLANNED`, apart from the changes."""
    parameters = {"model": "rigtune-mini", "strategy": "ddp", "micro_batch": 8, "sequence_length": 256}
    parameters |= {"precision": "fp32", "world_size": 2, "grad_accum": 4}
    measurement = step(value, **{**parameters, **changes})
    return msgspec.structs.replace(measurement, conditions={"threads": threads})


PLANNED = {
    "strategy": "ddp",
    "model_id": "rigtune-mini",
    "micro_batch": 8,
    "sequence_length": 256,
    "precision": "fp32",
    "grad_accum": 4,
}


@pytest.mark.parametrize(
    ("ranks", "nearer", "farther"),
    [
        (2, {"world_size": 1, "threads": 2, "model": "gpt2"}, {"threads": 2}),
        (1, {"world_size": 1, "threads": 2, "model": "gpt2"}, {"world_size": 1, "threads": 1}),
        (2, {"threads": 0}, {"threads": 2}),
        (1, {"threads": 0, "world_size": 1}, {"threads": 1, "world_size": 1}),
        (2, {"model": "gpt2"}, {"world_size": 1, "threads": 2}),
        (2, {"strategy": "fsdp"}, {"model": "gpt2"}),
        (2, {"micro_batch": 64}, {"activation_checkpointing": "full"}),
        (2, {"micro_batch": 16, "sequence_length": 128, "grad_accum": 8}, {"sequence_length": 512}),
        (2, {"micro_batch": 12}, {"micro_batch": 4}),
        (2, {"grad_accum": 5}, {"grad_accum": 1}),
    ],
)
def test_the_most_similar_measured_step_corrects_the_model(ranks, nearer, farther):
    """Each part of the similarity counts more than all later parts: busy threads, ranks, model, strategy,
    tokens, accumulation. An unknown number of threads counts as the planned number.
    """
    near, far = small_step(1.0, **nearer), small_step(7.0, **farther)
    expected, other = (seconds(cpu(ranks, *GLOO, anchor), **PLANNED) for anchor in (near, far))
    assert expected != pytest.approx(other)
    for anchors in ((near, far), (far, near)):
        assert seconds(cpu(ranks, *GLOO, *anchors), **PLANNED) == expected


def test_ranks_on_a_cpu_wait_for_their_communication_unless_it_was_measured_to_hide():
    hidden = measured("overlap", "overlap_fraction", "2 ranks", 0.8, world_size=2)
    run = {"strategy": "ddp", "model_id": "rigtune-mini", "micro_batch": 8, "precision": "fp32"}
    assert seconds(cpu(2, *GLOO), **run) > seconds(cpu(2, *GLOO, hidden), **run)


# ---- images


def images(
    cluster: Cluster, micro_batch: int = 16, image_size: int = 64, network=SMALL, precision: str = "fp32"
) -> float:
    batch = micro_batch * cluster.world_size
    model = reference_vision_model(network, image_size)
    work = VisionWorkload(model=model, image_size=image_size, global_batch=batch, precision=precision)
    candidate = Candidate(
        strategy="ddp",
        degrees=Degrees(dp=cluster.world_size),
        micro_batch=micro_batch,
        grad_accum=1,
        global_batch=batch,
        activation_checkpointing="none",
        precision=precision,
    )
    return predict_images(image_job(work, candidate, cluster, load_stacks()[REFERENCE])).total


def test_a_measured_step_on_images_corrects_the_model():
    parameters = {
        "model": "resnet-14",
        "micro_batch": 16,
        "image_size": 64,
        "precision": "fp32",
        "world_size": 1,
    }
    anchor = measured("train-cnn", "step_time_s", "1 rank", 0.05, conditions={"threads": 2}, **parameters)
    plain, anchored = cpu(1), cpu(1, anchor)
    assert images(anchored) == pytest.approx(0.05)
    assert images(anchored, image_size=128) == pytest.approx(
        images(plain, image_size=128) * 0.05 / images(plain)
    )
    broken = msgspec.structs.replace(anchor, parameters={**parameters, "model": "of another version"})
    assert images(cpu(1, broken)) == images(plain)


def test_the_reference_network_is_counted_as_the_published_one():
    counted, published = reference_vision_model(RESNET_50, 224), find_vision_model("resnet50", 224)
    assert counted.parameters == published.parameters
    for name in ("forward_flops", "dense_flops", "convolution_elements"):
        assert getattr(counted, name) == pytest.approx(getattr(published, name), rel=1e-3)
    for name in ("pointwise_elements", "saved_elements", "operators"):
        assert getattr(counted, name) == pytest.approx(getattr(published, name), rel=0.05)
