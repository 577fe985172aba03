"""Test the conversion of a plan into a recipe."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.record import NOT_RECORDED
from recipes.job.candidate import Degrees
from recipes.job.workload import TransformerModel, Workload
from recipes.launch.recipe import Command
from recipes.launch.recipe_file import dump_recipe, load_recipe
from recipes.launch.resolve import recipe_of
from recipes.machine.cluster_records import Cluster
from recipes.planning.plan import Choice, Decision, EnvVar, Plan
from recipes.predict.breakdowns import MemoryBreakdown, Predicted, TimeBreakdown

REFERENCE = Command(kind="reference")


@pytest.fixture
def plan() -> Plan:
    model = TransformerModel(
        id="llama",
        title="Llama",
        layers=32,
        hidden=4096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        ffn_hidden=14336,
        vocab=128256,
        sequence_length=8192,
        learning_rate=3e-4,
        learning_rate_batch_tokens=4_000_000,
        source="paper",
        date="2024",
    )
    memory = dict.fromkeys(MemoryBreakdown.__struct_fields__, 1.0)
    return Plan(
        workload=Workload(model=model, sequence_length=4096, global_batch=128, steps=500),
        cluster=Cluster(
            title="4 x 8 H100",
            device="cuda",
            device_name="NVIDIA H100",
            nodes=4,
            ranks_per_node=8,
            memory_bytes_per_rank=None,
            physical_cores_per_rank=6,
        ),
        chosen=Choice(
            strategy="fsdp",
            degrees=Degrees(fsdp=32),
            micro_batch=2,
            grad_accum=2,
            global_batch=128,
            activation_checkpointing="full",
            precision="bf16",
            learning_rate=3e-4,
            warmup_steps=50,
            predicted=Predicted(
                memory_bytes_per_gpu=MemoryBreakdown(**{**memory, "total": 70e9, "allocated": 60e9}),
                step_time_s=TimeBreakdown(
                    total=1.5, compute=1.0, exposed_communication=0.4, optimizer=0.1, low=1.2, high=1.9
                ),
                tokens_per_s_per_gpu=10922.0,
                mfu=NOT_RECORDED,
            ),
        ),
        decisions=(
            Decision(
                name="strategy",
                value="fsdp",
                basis="modelled",
                because="ddp needs 120 GiB.",
                alternatives=("ddp",),
            ),
            Decision(
                name="grad_accum",
                value="2",
                basis="rule",
                because="global batch 128 = micro-batch 2 x 2 x 32 ranks",
            ),
            Decision(name="NCCL_IB_HCA", value="=mlx5_0", basis="rule", because="one port is down"),
        ),
        env=(EnvVar(name="NCCL_IB_HCA", value="=mlx5_0", why="one port is down", source="nccl.toml"),),
        warnings=("no bandwidth was measured",),
    )


def test_settings_come_from_the_choice_and_the_machine(plan):
    recipe = recipe_of(plan, name="job", command=REFERENCE, python="/venv/bin/python")
    assert recipe.title == "Llama on 4 x 8 H100"
    assert recipe.model.sequence_length == 4096
    assert recipe.model.vocab == 128256
    assert (recipe.parallelism.strategy, recipe.parallelism.world_size, recipe.parallelism.global_batch) == (
        "fsdp",
        32,
        128,
    )
    assert recipe.parallelism.activation_checkpointing == "full"
    assert (recipe.convergence.learning_rate, recipe.convergence.warmup_steps, recipe.convergence.steps) == (
        3e-4,
        50,
        500,
    )
    assert (recipe.resources.backend, recipe.resources.cpus_per_node) == ("nccl", 48)
    assert recipe.resources.python == "/venv/bin/python"


def test_the_reference_workload_refuses_a_model_that_it_cannot_build(plan):
    sparse = msgspec.structs.replace(plan.workload.model, experts=8, experts_per_token=2)
    sparse_plan = msgspec.structs.replace(plan, workload=msgspec.structs.replace(plan.workload, model=sparse))
    with pytest.raises(UsageError, match="cannot train"):
        recipe_of(sparse_plan, name="job", command=REFERENCE, python="")
    own = Command(kind="script", target="train.py")
    assert recipe_of(sparse_plan, name="job", command=own, python="").command == own


def test_the_recipe_of_another_program_lists_features_beyond_the_reference_workload(plan):
    script = Command(kind="script", target="train.py")
    assert recipe_of(plan, name="llama", command=script, python="").not_in_reference is None
    experts = msgspec.structs.replace(plan.workload.model, experts=8, experts_per_token=2)
    mixture = msgspec.structs.replace(plan, workload=msgspec.structs.replace(plan.workload, model=experts))
    recipe = recipe_of(mixture, name="llama", command=script, python="")
    assert recipe.not_in_reference == ("experts 8", "experts per token 2")
    assert load_recipe(dump_recipe(recipe), "recipe.toml") == recipe


def test_a_recipe_has_the_predictions_that_verify_can_measure_and_none_for_unknown_ones(plan):
    predicted = recipe_of(plan, name="job", command=REFERENCE, python="").predicted
    assert (predicted.step_time_s, predicted.step_time_low_s, predicted.step_time_high_s) == (1.5, 1.2, 1.9)
    assert predicted.peak_memory_bytes == 60e9
    assert predicted.mfu is None


def test_decisions_become_notes_and_variables_keep_their_own_reason(plan):
    recipe = recipe_of(plan, name="job", command=REFERENCE, python="")
    assert recipe.reasons == (
        "strategy = fsdp (modelled): ddp needs 120 GiB.",
        "Warning: no bandwidth was measured",
    )
    assert [(entry.name, entry.why, entry.source) for entry in recipe.environment] == [
        ("NCCL_IB_HCA", "one port is down", "nccl.toml")
    ]


def test_a_cpu_plan_communicates_with_gloo(plan):
    cluster = msgspec.structs.replace(plan.cluster, device="cpu", physical_cores_per_rank=None)
    recipe = recipe_of(
        msgspec.structs.replace(plan, cluster=cluster), name="job", command=REFERENCE, python=""
    )
    assert (recipe.resources.device, recipe.resources.backend, recipe.resources.cpus_per_node) == (
        "cpu",
        "gloo",
        None,
    )


def test_the_recipe_of_a_plan_is_valid_and_round_trips(plan):
    recipe = recipe_of(plan, name="job", command=REFERENCE, python="")
    resources = msgspec.structs.replace(recipe.resources, hosts=("a", "b", "c", "d"))
    recipe = msgspec.structs.replace(recipe, resources=resources)
    assert load_recipe(dump_recipe(recipe), "recipe.toml") == recipe
