"""Sentences, times and ports in launch scripts, and the launchers that can start a recipe."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.units import GIB
from recipes.launch.launch_files import (
    able_launchers,
    asks_address,
    find_launcher,
    first_launcher,
    launch,
    launch_files,
)
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.plan_remarks import beyond_files, reduction_remarks, require_gpus_for_shards
from recipes.launch.recipe import CheckpointSettings, Command, Convergence, Environment, Prediction
from recipes.launch.script_parts import (
    PORT_RANGE_SIZE,
    PORT_RANGE_START,
    first_sentence,
    inner_words,
    job_port,
    prediction,
    shell_words,
    summary,
)
from recipes.launch.slurm_script import notice_s
from recipes.launch.torchrun_script import start_torchrun
from recipes.launch.untold import untold_warning
from tests.support.manifests import IMAGE

OWN = Command(kind="script", target="train.py")
GPU = {"device": "cuda", "backend": "nccl", "device_name": "NVIDIA H100"}


@pytest.mark.parametrize(
    ("write_s", "step_s", "limit", "seconds"),
    [
        (None, None, "", 300),
        (None, 5.0, "", 300),
        (100.0, 5.0, "", 300),
        (150.0, None, "", 300),
        (150.0, 0.5, "", 301),
        (200.0, 5.0, "", 405),
        (200.0, 5.0, "24:00:00", 405),
        (None, None, "60", 300),  # a tenth of an hour is 360 s
        (None, None, "40", 240),
        (None, None, "5", 30),
        (None, None, "2", 30),
    ],
)
def test_slurm_signals_in_time_for_a_checkpoint(make_recipe, write_s, step_s, limit, seconds):
    recipe = make_recipe(
        checkpoints=CheckpointSettings(every_steps=9, write_s=write_s),
        predicted=Prediction(step_time_s=step_s),
        slots={"time": limit} if limit else {},
    )
    assert notice_s(recipe) == seconds
    if write_s is None:
        assert notice_s(msgspec.structs.replace(recipe, checkpoints=None)) == seconds


@pytest.mark.parametrize(
    ("predicted", "words"),
    [
        (Prediction(), "The recipe predicts neither step time nor memory."),
        (Prediction(step_time_s=2.0), "Predicted: 2 s per step; "),
        (Prediction(step_time_s=2.0, step_time_low_s=1.5), "Predicted: 2 s per step; "),
        (
            Prediction(step_time_s=2.0, step_time_low_s=1.5, step_time_high_s=3.0),
            "Predicted: 2 s per step (1.5 s to 3 s); ",
        ),
        (Prediction(peak_memory_bytes=3 * GIB), "Predicted: 3.0 GiB allocated per rank; "),
        (
            Prediction(step_time_s=2.0, peak_memory_bytes=3 * GIB, reserved_memory_bytes=4 * GIB),
            "Predicted: 2 s per step, 3.0 GiB allocated per rank; ",
        ),
    ],
)
def test_scripts_state_what_is_predicted(make_recipe, predicted, words):
    assert prediction(make_recipe(predicted=predicted)).startswith(words)
    assert "bus bandwidth" in prediction(make_recipe(command=Command(kind="nccl-tests", target="x_perf")))


def test_scripts_state_the_layout_and_the_batch_of_the_plan(make_recipe):
    recipe = make_recipe(nodes=2, resources=GPU, parallelism={"grad_accum": 1, "global_batch": 8})
    assert summary(recipe) == (
        "DDP on 2 nodes x 2 ranks (NVIDIA H100, nccl), fp32, activation checkpointing none. "
        "Micro-batch 2 x 1 accumulation step x 4 ranks = global batch 8."
    )


def test_only_data_parallel_ranks_multiply_the_batch(make_recipe):
    parts = {"dp": 2, "tp": 2, "grad_accum": 1, "global_batch": 4}
    recipe = make_recipe(nodes=2, resources=GPU, parallelism=parts)
    assert "Micro-batch 2 x 1 accumulation step x 2 data-parallel ranks = global batch 4." in summary(recipe)


def test_the_port_follows_from_the_name_and_lies_in_its_range(make_recipe):
    ports = {job_port(make_recipe(name=f"job-{number}")) for number in range(40)}
    assert len(ports) > 30
    assert PORT_RANGE_START <= min(ports) < max(ports) < PORT_RANGE_START + PORT_RANGE_SIZE


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("One. Two.", "One"), ("One\n  line.", "One line"), ("v1.2 is new. Yes", "v1.2 is new"), ("", "")],
)
def test_the_first_sentence_has_no_full_stop(text: str, sentence: str):
    assert first_sentence(text) == sentence


def test_words_are_quoted_where_the_shell_needs_it():
    assert shell_words(("a", "b c", "it's")) == "a 'b c' 'it'\"'\"'s'"
    assert inner_words(("a", "b c")) == 'a "b c"'
    for word in ("it's", 'a"b'):
        with pytest.raises(ValueError, match="cannot stand in single quotes"):
            inner_words((word,))


@pytest.mark.parametrize(
    ("sharding", "precision", "program", "words"),
    [
        ("fsdp", "bf16", "accelerate", "FSDP2 sums gradients over the ranks in bf16, not in fp32"),
        ("fsdp", "fp8", "accelerate", "in bf16, not in fp32"),
        ("fsdp", "fp32", "accelerate", ""),
        ("zero1", "bf16", "accelerate", "DeepSpeed inside accelerate sums gradients in bf16, not in fp32"),
        ("zero1", "bf16", "hf-trainer", ""),
        ("ddp", "bf16", "accelerate", ""),
    ],
)
def test_sums_in_another_format_than_planned_are_a_remark(make_recipe, sharding, precision, program, words):
    degrees = {"fsdp": 2, "dp": 1} if sharding == "fsdp" else {}
    recipe = make_recipe(
        program=program, parallelism={"strategy": sharding, "precision": precision, **degrees}, resources=GPU
    )
    recipe = msgspec.structs.replace(
        recipe, convergence=msgspec.structs.replace(recipe.convergence, accumulation_dtype="fp32")
    )
    remarks = reduction_remarks(recipe)
    assert len(remarks) == bool(words)
    assert words in "".join(remarks)
    require_gpus_for_shards(recipe)


@pytest.mark.parametrize(("strategy", "is_refused"), [("fsdp", True), ("zero2", False), ("ddp", False)])
def test_shards_on_a_cpu_are_refused(make_recipe, strategy: str, is_refused: bool):
    recipe = make_recipe(
        program="accelerate", parallelism={"strategy": strategy, "fsdp": 2 if is_refused else 1}
    )
    if is_refused:
        with pytest.raises(UsageError, match="shards only on GPUs"):
            require_gpus_for_shards(recipe)
    else:
        require_gpus_for_shards(recipe)


def test_a_growing_batch_and_embeddings_of_their_own_are_remarks(make_recipe):
    plain = Convergence(learning_rate=3e-3, warmup_steps=2, steps=20)
    assert beyond_files(make_recipe(convergence=plain)) == ()
    changed = msgspec.structs.replace(plain, ramp_from=4, ramp_samples=100, embedding_learning_rate=0.01)
    ramp, rate = beyond_files(make_recipe(convergence=changed))
    assert "the plan's batch grows from 4 to 8 samples over 100 samples" in ramp
    assert "a learning rate of 0.01 (muP)" in rate


@pytest.mark.parametrize(
    ("nodes", "hosts", "command"),
    [
        (1, (), ("/f/one.sh", "--", "a")),
        (2, ("x", "y"), ("/f/all.sh", "--", "a")),
    ],
)
def test_torchrun_starts_one_node_or_all(make_recipe, nodes, hosts, command):
    recipe = make_recipe(nodes=nodes, resources={"hosts": hosts})
    assert start_torchrun(recipe, "/f", ("a",), "one.sh", "all.sh") == command


@pytest.mark.parametrize(
    ("value", "nodes"), [("", 4), ("1", 1), ("4", 4), ("0", None), ("5", None), ("-1", None), ("two", None)]
)
def test_an_elastic_job_needs_a_possible_number_of_nodes(make_recipe, value: str, nodes: int | None):
    recipe = make_recipe(nodes=4, slots={"min_nodes": value} if value else {}, command=OWN)
    if nodes is None:
        with pytest.raises(UsageError, match=r"min_nodes"):
            launch_files(recipe, "torchrun-elastic")
    else:
        words = "--nnodes 4 " if nodes == 4 else f"--nnodes {nodes}:4 "
        assert words in launch_files(recipe, "torchrun-elastic")[0].text


def test_an_unknown_launcher_is_refused_with_the_nearest_one():
    assert find_launcher("slurm").id == "slurm"
    with pytest.raises(UsageError, match="there is no launcher 'slurn'") as raised:
        find_launcher("slurn")
    assert "slurm" in raised.value.hint


@pytest.mark.parametrize(
    ("nodes", "hosts", "launcher", "asks"),
    [
        (1, (), "torchrun", False),
        (2, (), "torchrun", any(row.asks_address for row in LAUNCHERS if row.id == "torchrun")),
        (2, ("a", "b"), "torchrun", False),
        (2, (), "slurm", False),
    ],
)
def test_a_shell_states_the_address_if_no_host_is_named(make_recipe, nodes, hosts, launcher, asks):
    assert asks_address(make_recipe(nodes=nodes, resources={"hosts": hosts}, command=OWN), launcher) is asks


@pytest.mark.parametrize(
    ("nodes", "batch_system", "first"),
    [(1, "", "torchrun"), (1, "slurm", "slurm"), (2, "slurm", "slurm"), (1, "pbs", "torchrun")],
)
def test_the_first_launcher_is_that_of_the_batch_system(make_recipe, nodes, batch_system, first):
    recipe = make_recipe(nodes=nodes, command=OWN)
    assert first_launcher(recipe, batch_system) == first
    usual = {row.id for row in LAUNCHERS if row.is_usual}
    assert set(able_launchers(recipe)) <= usual


def test_a_launcher_for_one_node_refuses_two(make_recipe):
    recipe = make_recipe(nodes=2, slots={"container_image": IMAGE}, command=OWN)
    with pytest.raises(UsageError, match="the recipe has 2 nodes"):
        launch(recipe, "lxd")
    assert launch(make_recipe(command=OWN), "torchrun").remarks is not None


def test_variables_of_other_launchers_are_left_out(make_recipe):
    rows = (
        Environment(name="NCCL_DEBUG", value="A1", why="w", source="s", launchers=("slurm",)),
        Environment(name="NCCL_ALGO", value="A2", why="w", source="s"),
    )
    recipe = make_recipe(environment=rows, command=OWN)
    for launcher, values in (("slurm", ("A1", "A2")), ("torchrun", ("A2",))):
        text = launch_files(recipe, launcher)[0].text
        assert [value for value in ("A1", "A2") if value in text] == list(values)


VALUES = {
    "strategy": "fsdp",
    "precision": "bf16",
    "micro_batch": 2,
    "grad_accum": 1,
    "activation_checkpointing": "full",
    "learning_rate": 1e-4,
}


@pytest.mark.parametrize(
    ("arguments", "source", "words"),
    [
        ((), "", "micro-batch 2 x 1 accumulation step, "),
        (
            ("--lr", "{learning_rate}"),
            "loss.backward()",
            "strategy fsdp, precision bf16, activation checkpointing",
        ),
        (
            ("--lr", "{learning_rate}"),
            "loss.backward()  # bf16 FSDP",
            "activation checkpointing full: no argument",
        ),
        (("--lr", "{learning_rate}"), "loss.backward() bf16 FSDP checkpointing", ""),
        (("--lr", "{learning_rate}"), "print(1)", ""),
        (("--p", "{precision}", "{fsdp}"), "x.backward() checkpointing", ""),
    ],
)
def test_decisions_that_a_script_does_not_take_are_named(arguments, source: str, words: str):
    command = Command(kind="script", target="train.py", arguments=arguments)
    warning = untold_warning(command, "own", VALUES, source)
    assert (words in warning) if words else warning == ""
