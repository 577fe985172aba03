"""Nodes, ranks, degrees and batch that follow from the settings of an imported launch."""

from __future__ import annotations

import pytest

from probes.base.errors import InputError
from recipes.job.candidate import Degrees
from recipes.launch.imports.adopted import OPTIONS, Statement
from recipes.launch.imports.layout_of_launch import (
    Hosts,
    Size,
    Start,
    batch_of,
    checkpointing_of,
    distribution_of,
    hosts_of,
    size_of,
)
from recipes.launch.imports.resolving import Settings, settle


def settings_of(words: str, options: str = "") -> Settings:
    """Return settings from words such as `nodes=2 ranks_per_node=8`."""

    def statements(text: str, file: str) -> list[Statement]:
        return [
            Statement(
                setting=name,
                value=value,
                file=file,
                line=number,
                written=f"{name}={value}",
                owner="deepspeed",
            )
            for number, word in enumerate(text.split(), 1)
            for name, value in [word.split("=")]
        ]

    return Settings(settle(statements(words, "a.sh"), statements(options, OPTIONS)))


TORCHRUN = Start(("torchrun",), has_program=True, is_kubernetes=False)
SRUN = Start(("srun",), has_program=True, is_kubernetes=False)
MPIRUN = Start(("mpirun",), has_program=True, is_kubernetes=False)
HOROVODRUN = Start(("horovodrun",), has_program=True, is_kubernetes=False)
ACCELERATE = Start(("srun", "accelerate"), has_program=True, is_kubernetes=False)
POD = Start(("torchrun",), has_program=True, is_kubernetes=True)
PLAIN = Start((), has_program=True, is_kubernetes=False)
NO_PROGRAM = Start(("torchrun",), has_program=False, is_kubernetes=False)


@pytest.mark.parametrize(
    ("words", "start", "size"),
    [
        ("nodes=2 ranks_per_node=8", TORCHRUN, (2, 8)),
        ("nodes=2 ranks_per_node=8 world_size=16", TORCHRUN, (2, 8)),
        ("nodes=2 world_size=16", ACCELERATE, (2, 8)),
        ("ranks_per_node=8 world_size=16", ACCELERATE, (2, 8)),
        ("world_size=16", ACCELERATE, (1, 16)),
        ("nodes=2", TORCHRUN, (2, 1)),
        ("nodes=2", ACCELERATE, (2, None)),
        ("ranks_per_node=8", TORCHRUN, (1, 8)),
        ("", TORCHRUN, (1, 1)),
        ("", PLAIN, (1, 1)),
        ("", NO_PROGRAM, (None, None)),
        ("tp=2", TORCHRUN, (1, None)),
        ("pp=2", PLAIN, (1, None)),
        ("cp=1", PLAIN, (1, 1)),
        # a task of the scheduler is a rank, unless a launcher starts several in the task
        ("nodes=2 tasks_per_node=8", SRUN, (2, 8)),
        ("nodes=2 tasks_per_node=1 ranks_per_node=8", TORCHRUN, (2, 8)),
        ("nodes=2 tasks=16", SRUN, (2, 8)),
        ("tasks=16 tasks_per_node=8", SRUN, (2, 8)),
        ("nodes=2 tasks=2 ranks_per_node=8", TORCHRUN, (2, 8)),
        ("nodes=2", SRUN, (2, None)),
        # GPUs that the files request
        ("nodes=2 gpus_per_node=8", TORCHRUN, (2, 8)),
        ("nodes=2 gpus_per_node=gpu:a100:4", TORCHRUN, (2, 4)),
        ("nodes=2 gpus_per_node=gpu:4(S:0-1)", TORCHRUN, (2, 4)),
        ("nodes=2 gpus=16", TORCHRUN, (2, 8)),
        ("nodes=2 gpus=15", TORCHRUN, (2, 1)),
        ("nodes=2 gpus_per_node=8", SRUN, (2, None)),
        ("workers=3 masters=1 gpus_per_node=8", POD, (4, 8)),
        ("workers=3 gpus_per_node=8", POD, (3, 8)),
        ("masters=1 gpus_per_node=8", POD, (1, 8)),
        ("nodes=2 workers=3 masters=1 ranks_per_node=8", POD, (2, 8)),
        ("workers=3 masters=1 ranks_per_node=8", TORCHRUN, (1, 8)),
        # hosts
        ("hosts=a:8,b:8", MPIRUN, (2, 8)),
        ("hosts=a:8,b:4", MPIRUN, (2, None)),
        ("hosts=a,b tasks=16", MPIRUN, (2, 8)),
        ("hosts=a:8,b:8 tasks=16", MPIRUN, (2, 8)),
        ("tasks=16", MPIRUN, (None, None)),
        ("tasks=16", HOROVODRUN, (None, None)),
    ],
)
def test_nodes_and_ranks_follow_from_what_is_stated(words: str, start: Start, size: tuple[int, int]):
    assert size_of(settings_of(words), start) == Size(*size)


def test_options_of_the_user_replace_the_world_size_of_the_files():
    settings = settings_of("world_size=64 tasks=64", "nodes=2 ranks_per_node=8")
    assert size_of(settings, SRUN) == Size(2, 8)
    with pytest.raises(InputError, match=r"world_size 64 \(a.sh:1\), nodes 2"):
        size_of(settings_of("world_size=64 ranks_per_node=8", "nodes=2"), TORCHRUN)


@pytest.mark.parametrize(
    ("words", "assumed"),
    [
        ("nodes=2 ranks_per_node=8", {}),
        ("", {"nodes": "1", "ranks_per_node": "1"}),
        ("nodes=2 gpus=16", {"ranks_per_node": "8"}),
    ],
)
def test_defaults_are_stated_as_assumptions(words: str, assumed: dict[str, str]):
    settings = settings_of(words)
    size_of(settings, TORCHRUN)
    assert {each.setting: each.value for each in settings.assumed} == assumed


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a:8,b:8", Hosts(("a", "b"), 8)),
        ("a:8,b:4", Hosts(("a", "b"), None)),
        ("a,b", Hosts(("a", "b"), None)),
        ("a:0", Hosts(("a",), None)),
        ("a:1,,a:1,", Hosts(("a",), 1)),
    ],
)
def test_hosts_have_slots_if_all_agree(text: str, hosts: Hosts):
    assert hosts_of(settings_of(f"hosts={text}")) == hosts


SIZE = Size(2, 8)


@pytest.mark.parametrize(
    ("words", "size", "program", "strategy", "degrees"),
    [
        ("", SIZE, "megatron", "ddp", {"dp": 16}),
        ("", SIZE, "deepspeed", None, {"dp": 16}),
        ("", Size(1, 1), "deepspeed", "ddp", {"dp": 1}),
        ("", Size(1, 8), "deepspeed", None, {"dp": 8}),
        ("sharding=a-new-kind", SIZE, "megatron", None, {"dp": 16}),
        ("sharding=zero1", SIZE, "megatron", "zero1", {"dp": 16}),
        ("sharding=zero3", SIZE, "deepspeed", "fsdp", {"fsdp": 16}),
        ("framework=zero3", SIZE, "deepspeed", "fsdp", {"fsdp": 16}),
        ("sharding=zero3 fsdp=8", SIZE, "deepspeed", "hsdp", {"dp": 2, "fsdp": 8}),
        ("sharding=zero3 dp=2", SIZE, "deepspeed", "hsdp", {"dp": 2, "fsdp": 8}),
        ("sharding=hybrid", SIZE, "deepspeed", "hsdp", {"dp": 2, "fsdp": 8}),
        ("sharding=hybrid fsdp=4", SIZE, "deepspeed", "hsdp", {"dp": 4, "fsdp": 4}),
        ("sharding=hybrid tp=8", Size(1, 8), "deepspeed", "fsdp", {"tp": 8, "fsdp": 1}),
        ("sharding=zero3 tp=4", SIZE, "deepspeed", "fsdp", {"tp": 4, "fsdp": 4}),
        ("fsdp=4", SIZE, "deepspeed", "hsdp", {"dp": 4, "fsdp": 4}),
        ("fsdp=1", SIZE, "megatron", "ddp", {"dp": 16}),
        ("", SIZE, "torchtitan", "fsdp", {"fsdp": 16}),
        ("dp=16", SIZE, "torchtitan", "ddp", {"dp": 16}),
        ("dp=2", SIZE, "torchtitan", "hsdp", {"dp": 2, "fsdp": 8}),
        ("dp=2 fsdp=-1", SIZE, "torchtitan", "hsdp", {"dp": 2, "fsdp": 8}),
        (
            "tp=2 pp=2 cp=2 ep=2 vp=3",
            SIZE,
            "megatron",
            "ddp",
            {"dp": 2, "tp": 2, "pp": 2, "cp": 2, "ep": 2, "vp": 3},
        ),
        ("pp=4 layers_per_part=2", SIZE, "megatron", "ddp", {"dp": 4, "pp": 4, "vp": 4}),
        ("pp=4 layers_per_part=3", SIZE, "megatron", "ddp", {"dp": 4, "pp": 4, "vp": 3}),
        ("pp=4 layers_per_part=32", SIZE, "megatron", "ddp", {"dp": 4, "pp": 4, "vp": 1}),
        ("layers_per_part=2", SIZE, "megatron", "ddp", {"dp": 16, "vp": 1}),
        ("tp=8", Size(None, 4), "megatron", "ddp", {"dp": 1, "tp": 8}),
    ],
)
def test_degrees_divide_the_ranks(
    words: str, size: Size, program: str, strategy: str | None, degrees: dict[str, int]
):
    distribution = distribution_of(settings_of(words), size, program, layers=32)
    assert distribution.strategy == strategy
    assert distribution.degrees == Degrees(**{"dp": 1, "fsdp": 1, **degrees})


def test_degrees_that_do_not_divide_the_ranks_are_refused():
    with pytest.raises(InputError, match="16 ranks cannot be divided by tp 3 x pp 1 x cp 1"):
        distribution_of(settings_of("tp=3"), SIZE, "megatron", layers=32)


@pytest.mark.parametrize(
    ("words", "degrees", "program", "batch"),
    [
        ("micro_batch=2 grad_accum=4", {"dp": 2, "fsdp": 4}, "own", (2, 4, 64)),
        ("micro_batch=2 global_batch=64", {"dp": 2, "fsdp": 4}, "own", (2, 4, 64)),
        ("grad_accum=4 global_batch=64", {"dp": 2, "fsdp": 4}, "own", (2, 4, 64)),
        ("micro_batch=2 grad_accum=4 global_batch=64", {"dp": 2, "fsdp": 4}, "own", (2, 4, 64)),
        ("micro_batch=2", {"dp": 2, "fsdp": 4}, "own", (2, None, None)),
        ("micro_batch=2", {"dp": 2, "fsdp": 4}, "deepspeed", (2, 1, 16)),
        ("grad_accum=4", {"dp": 8}, "own", (None, 4, None)),
        ("global_batch=64", {"dp": 8}, "deepspeed", (None, None, 64)),
        ("micro_batch=8 global_batch=4", {"dp": 1}, "own", (8, None, 4)),
        ("grad_accum=8 global_batch=4", {"dp": 1}, "own", (None, 8, 4)),
        # a local batch is the batch of one replica
        ("local_batch=6", {"dp": 4}, "own", (6, 1, 24)),
        ("local_batch=6 global_batch=48", {"dp": 4}, "own", (6, 2, 48)),
        ("local_batch=6 global_batch=-1", {"dp": 4}, "own", (6, None, None)),
        ("local_batch=6", {"dp": 4, "pp": 2}, "own", (1, 6, 24)),
        ("local_batch=6 pipeline_micro_batch=2", {"dp": 4, "pp": 2}, "own", (2, 3, 24)),
        ("local_batch=6 pipeline_micro_batch=2", {"dp": 4}, "own", (6, 1, 24)),
        ("local_batch=6 micro_batch=3", {"dp": 4}, "own", (3, None, None)),
    ],
)
def test_two_numbers_of_the_batch_give_the_third(
    words: str, degrees: dict[str, int], program: str, batch: tuple[int | None, ...]
):
    assert batch_of(settings_of(words), Degrees(**{"dp": 1, "fsdp": 1, **degrees}), program) == batch


def test_three_numbers_that_disagree_are_refused():
    with pytest.raises(InputError, match="micro-batch 2 x 4 accumulation steps x 8 replicas is not"):
        batch_of(settings_of("micro_batch=2 grad_accum=4 global_batch=32"), Degrees(dp=8, fsdp=1), "own")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("", None),
        ("activation_checkpointing=True", "full"),
        ("activation_checkpointing=false", "none"),
        ("activation_checkpointing=selective", "selective"),
        ("activation_checkpointing=a-new-kind", None),
    ],
)
def test_a_switch_is_all_or_no_checkpointing(words: str, kind: str | None):
    assert checkpointing_of(settings_of(words)) == kind
