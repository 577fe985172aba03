"""Properties of any model, layout, machine and stack, whatever the fitted figures are."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.record import Unknown
from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import TransformerModel, Workload
from recipes.machine.cluster_records import Cluster
from recipes.predict.breakdowns import TIME_TERMS, MemoryBreakdown
from recipes.predict.memory.peak import figure_bytes, memory_of
from recipes.predict.speed.step import step_time
from recipes.predict.stacks import Stack, load_stacks
from recipes.predict.training_job import transformer_job
from tests.support.clusters import cpu_cluster, figure, h100_cluster, measured

MEMORY_TERMS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers", "overhead")
MEMORY_FIGURES = ("total", "allocated", "reserved", "upper", "needed")
ROUNDING = 1 + 1e-9
"""Sums of the same terms in another order differ by at most this factor."""
LENGTHS = (128, 512, 1000, 4096, 32768)
KINDS = ("dense", "moe", "mla", "encoder", "encoder-decoder", "hybrid")


@st.composite
def models(draw: st.DrawFn) -> TransformerModel:
    """Return a model of usual size, of one of `KINDS`."""
    kind = draw(st.sampled_from(KINDS))
    heads = draw(st.sampled_from((8, 16, 32, 64)))
    head_dim = draw(st.sampled_from((64, 128)))
    layers = draw(st.sampled_from((8, 16, 32, 64)))
    fields: dict[str, object] = {
        "layers": layers,
        "hidden": heads * head_dim,
        "heads": heads,
        "kv_heads": draw(st.sampled_from((1, 8, heads))),
        "head_dim": head_dim,
        "ffn_hidden": heads * head_dim * draw(st.sampled_from((2, 3, 4))),
        "vocab": draw(st.sampled_from((4096, 50257, 151_936))),
        "gated_mlp": draw(st.booleans()),
        "tied_embeddings": draw(st.booleans()),
        "norm": draw(st.sampled_from(("rmsnorm", "layernorm"))),
        "bias": draw(st.booleans()),
    }
    if kind in ("moe", "mla"):
        fields |= {
            "experts": draw(st.sampled_from((8, 64))),
            "experts_per_token": draw(st.sampled_from((1, 2, 8))),
        }
        fields |= {
            "expert_ffn_hidden": draw(st.sampled_from((768, 2048))),
            "shared_ffn_hidden": draw(st.sampled_from((0, 2048))),
        }
        fields |= {"dense_layers": draw(st.sampled_from((0, 1, 3)))}
    if kind == "mla":
        fields |= {"query_latent": draw(st.sampled_from((0, 1536))), "key_value_latent": 512}
        fields |= {"rotary_head_dim": 64, "value_head_dim": 128, "kv_heads": heads}
    if kind == "encoder":
        fields |= {"kind": "encoder", "token_types": 2, "learned_positions": 512, "gated_mlp": False}
    if kind == "encoder-decoder":
        fields |= {"kind": "encoder-decoder", "encoder_layers": layers}
    if kind == "hybrid":
        fields |= {
            "attention_layers": layers // 8,
            "feed_forward_layers": layers // 2,
            "state_space_layers": layers // 2 - layers // 8,
        }
        fields |= {
            "state_space_inner": 2 * heads * head_dim,
            "state_space_heads": heads,
            "state_space_groups": 8,
            "state_space_states": 128,
        }
    if kind == "dense" and draw(st.booleans()):
        fields |= {"sliding_window": 1024, "local_layers": layers // 2}
    fields |= {"id": kind, "title": kind, "sequence_length": 2048, "source": "test", "date": ""}
    return TransformerModel(**fields)  # type: ignore[arg-type]


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Workload, Candidate, Cluster, Stack]:
    """Return a model with a layout that its sizes allow, on H100s or on a CPU."""
    model = draw(models())
    tensor, stages, context = (
        draw(st.sampled_from((1, 2, 8))),
        draw(st.sampled_from((1, 2, 4))),
        draw(st.sampled_from((1, 2))),
    )
    data = draw(st.sampled_from((1, 2, 8, 32)))
    sharding = draw(st.sampled_from(("none", "zero1", "zero2", "zero3")))
    experts = draw(st.sampled_from((1, 2, 8))) if model.is_moe else 1
    fully = sharding == "zero3"
    degrees = Degrees(
        dp=1 if fully else data,
        fsdp=data if fully else 1,
        tp=tensor,
        pp=stages,
        cp=context,
        ep=experts if experts <= data else 1,
        vp=draw(st.sampled_from((1, 2))) if stages > 1 else 1,
    )
    micro_batch, accumulation = draw(st.sampled_from((1, 2, 3, 16))), draw(st.sampled_from((1, 4)))
    batch = micro_batch * accumulation * data
    precision = draw(st.sampled_from(("bf16", "bf16", "fp32", "fp8")))
    tuning = draw(st.sampled_from(("full", "full", "lora", "qlora")))
    workload = Workload(
        model=model,
        sequence_length=draw(st.sampled_from(LENGTHS)),
        global_batch=batch,
        precision=precision,
        optimizer=draw(st.sampled_from(("adamw", "adamw-8bit", "sgd", "adafactor", "lion", "lamb", "muon"))),
        pure_weights=draw(st.booleans()) and precision == "bf16",
        tuning=tuning,
        base_bits=4 if tuning == "qlora" else 16,
    )
    candidate = Candidate(
        strategy="fsdp" if fully else "ddp",
        degrees=degrees,
        micro_batch=micro_batch,
        grad_accum=accumulation,
        global_batch=batch,
        activation_checkpointing=draw(st.sampled_from(("none", "selective", "full"))),
        recomputed_share=draw(st.sampled_from((1.0, 1.0, 0.25))),
        precision=precision,
        sharding=sharding,
        compiled=draw(st.sampled_from((None, True))),
        flash_attention=draw(st.sampled_from((None, None, False))),
        sequence_parallel=draw(st.sampled_from((None, False))),
    )
    stack = load_stacks()[draw(st.sampled_from(sorted(load_stacks())))]
    return workload, candidate, draw(clusters(world_size=tensor * stages * context * data)), stack


@st.composite
def clusters(draw: st.DrawFn, world_size: int) -> Cluster:
    """Return H100s with catalogue rates, H100s with measured rates, or a CPU if one machine has all ranks."""
    ranks = min(8, world_size)
    kind = draw(st.sampled_from(("catalogue", "catalogue", "measured", "cpu")))
    if kind == "cpu" and world_size <= 8:
        return cpu_cluster(
            ranks=world_size, flops_per_s={name: measured(50e9) for name in ("fp32", "bf16", "fp8")}
        )
    known = {"gpu": "h100-sxm-80gb", "architecture": "hopper", "fabric": "nvswitch"}
    peaks = {"bf16": figure(989e12), "fp32": figure(67e12), "fp8": figure(1979e12)}
    cluster = h100_cluster(nodes=world_size // ranks, ranks=ranks, peak_flops_per_s=peaks, **known)
    if kind == "measured":
        rates = {"bf16": measured(700e12), "fp32": measured(45e12), "fp8": measured(1200e12)}
        cluster = msgspec.structs.replace(
            cluster, gpu="", flops_per_s=rates, memory_bandwidth_bytes_per_s=measured(2.5e12)
        )
    return cluster


def memory_with(workload: Workload, candidate: Candidate, cluster: Cluster, stack: Stack) -> MemoryBreakdown:
    return memory_of(transformer_job(workload, candidate, cluster, stack))


def total_s(workload: Workload, candidate: Candidate, cluster: Cluster, stack: Stack) -> float:
    time = step_time(transformer_job(workload, candidate, cluster, stack))
    assert not isinstance(time, Unknown), time
    assert not isinstance(time.total, Unknown)
    return time.total


@settings(max_examples=200, deadline=None)
@given(jobs())
def test_the_terms_of_memory_sum_to_the_total_and_none_is_negative(job):
    memory = memory_with(*job)
    assert memory.total == pytest.approx(sum(getattr(memory, term) for term in MEMORY_TERMS))
    assert all(math.isfinite(getattr(memory, term)) and getattr(memory, term) >= 0 for term in MEMORY_TERMS)
    assert 0 < memory.allocated <= memory.reserved * ROUNDING <= memory.total * ROUNDING**2
    assert memory.total <= memory.upper * ROUNDING
    assert memory.needed <= memory.upper * ROUNDING
    assert 0 < figure_bytes(memory, "allocated") <= figure_bytes(memory, "device") * ROUNDING


@settings(max_examples=200, deadline=None)
@given(jobs())
def test_the_terms_of_time_sum_to_the_total_and_none_is_negative(job):
    time = step_time(transformer_job(*job))
    assert not isinstance(time, Unknown)
    terms = [getattr(time, term) for term in TIME_TERMS if term != "data"]
    assert isinstance(time.data, Unknown)
    assert time.total == pytest.approx(sum(terms))
    assert all(math.isfinite(term) and term >= 0 for term in terms)
    assert time.compute > 0
    assert time.low <= time.total <= time.high


@settings(max_examples=150, deadline=None)
@given(jobs(), st.integers(1, 4))
def test_a_larger_micro_batch_never_needs_less_memory(job, more):
    workload, candidate, cluster, stack = job
    larger = msgspec.structs.replace(candidate, micro_batch=candidate.micro_batch + more)
    assert_never_less(
        memory_with(workload, candidate, cluster, stack), memory_with(workload, larger, cluster, stack)
    )


@settings(max_examples=150, deadline=None)
@given(jobs(), st.integers(1, 5000))
def test_a_longer_sequence_never_needs_less_memory(job, more):
    workload, candidate, cluster, stack = job
    longer = msgspec.structs.replace(workload, sequence_length=workload.sequence_length + more)
    assert_never_less(
        memory_with(workload, candidate, cluster, stack), memory_with(longer, candidate, cluster, stack)
    )


@settings(max_examples=200, deadline=None)
@given(jobs(), st.sampled_from((2, 3, 8)))
def test_more_ranks_in_a_shard_group_never_raise_a_ranks_memory(job, factor):
    workload, candidate, cluster, stack = job
    degrees = candidate.degrees
    if degrees.dp * degrees.fsdp == 1:  # one data-parallel rank exchanges nothing
        shared = {"fsdp": 2} if candidate.sharding_stage == "zero3" else {"dp": 2}
        degrees = msgspec.structs.replace(degrees, **shared)
        candidate = msgspec.structs.replace(candidate, degrees=degrees)
        cluster = msgspec.structs.replace(cluster, nodes=2 * cluster.nodes)
    axis = "fsdp" if candidate.sharding_stage == "zero3" else "dp"
    wider = msgspec.structs.replace(degrees, **{axis: factor * getattr(degrees, axis)})
    wide = msgspec.structs.replace(candidate, degrees=wider, global_batch=factor * candidate.global_batch)
    more = msgspec.structs.replace(workload, global_batch=factor * workload.global_batch)
    many = msgspec.structs.replace(cluster, nodes=factor * cluster.nodes)
    assert_never_less(memory_with(more, wide, many, stack), memory_with(workload, candidate, cluster, stack))


def assert_never_less(less, more):
    for name in MEMORY_FIGURES:
        assert getattr(less, name) <= getattr(more, name) * ROUNDING, name


@settings(max_examples=150, deadline=None)
@given(jobs(), st.floats(1.0, 20.0), st.floats(1.0, 20.0))
def test_faster_links_never_slow_a_step(job, inside, between):
    workload, candidate, cluster, stack = job
    rates = {"intra_bus_bandwidth_bytes_per_s": inside, "inter_bus_bandwidth_bytes_per_s": between}
    delays = {"intra_latency_s": 1 / inside, "inter_latency_s": 1 / between}
    faster = msgspec.structs.replace(cluster, **scaled(cluster, rates | delays))
    assert (
        total_s(workload, candidate, faster, stack) <= total_s(workload, candidate, cluster, stack) * ROUNDING
    )


@settings(max_examples=150, deadline=None)
@given(jobs(), st.floats(1.0, 8.0), st.floats(1.0, 8.0))
def test_a_faster_gpu_never_slows_a_step(job, products, memory):
    workload, candidate, cluster, stack = job
    faster = msgspec.structs.replace(
        cluster,
        flops_per_s=times(cluster.flops_per_s, products),
        peak_flops_per_s=times(cluster.peak_flops_per_s, products),
        **scaled(cluster, {"memory_bandwidth_bytes_per_s": memory}),
    )
    assert (
        total_s(workload, candidate, faster, stack) <= total_s(workload, candidate, cluster, stack) * ROUNDING
    )


@settings(max_examples=150, deadline=None)
@given(jobs(), st.integers(1, 4))
def test_more_work_never_takes_less_time(job, more):
    workload, candidate, cluster, stack = job
    larger = msgspec.structs.replace(candidate, micro_batch=candidate.micro_batch + more)
    assert total_s(workload, larger, cluster, stack) * ROUNDING >= total_s(
        workload, candidate, cluster, stack
    )


@settings(max_examples=200, deadline=None)
@given(jobs(), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_the_more_layers_are_recomputed_the_less_memory_and_the_more_time(job, one, other):
    workload, candidate, cluster, stack = job
    less, more = (
        msgspec.structs.replace(candidate, activation_checkpointing="full", recomputed_share=share)
        for share in sorted((one, other))
    )
    assert_never_less(
        memory_with(workload, more, cluster, stack), memory_with(workload, less, cluster, stack)
    )
    assert total_s(workload, less, cluster, stack) <= total_s(workload, more, cluster, stack) * ROUNDING


@settings(max_examples=100, deadline=None)
@given(jobs())
def test_without_full_checkpointing_the_recomputed_share_has_no_effect(job):
    workload, candidate, cluster, stack = job
    for mode in ("none", "selective"):
        ones = [
            msgspec.structs.replace(candidate, activation_checkpointing=mode, recomputed_share=share)
            for share in (0.25, 1.0)
        ]
        assert memory_with(workload, ones[0], cluster, stack) == memory_with(
            workload, ones[1], cluster, stack
        )
        assert total_s(workload, ones[0], cluster, stack) == total_s(workload, ones[1], cluster, stack)


def scaled(cluster: Cluster, factors: dict[str, float]) -> dict[str, object]:
    """Return figures of the cluster by name, each times its factor; None where the cluster has no figure."""
    by_name = {name: (getattr(cluster, name), factor) for name, factor in factors.items()}
    return {
        name: times({"": one}, factor)[""] if one is not None else None
        for name, (one, factor) in by_name.items()
    }


def times(figures, factor):
    return {
        name: msgspec.structs.replace(figure, value=figure.value * factor) for name, figure in figures.items()
    }
