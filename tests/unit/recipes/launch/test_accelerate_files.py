"""Test the files for accelerate: the layout in YAML, the agent, and the variables of ranks without it."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from probes.base.errors import UsageError
from recipes.job.models.counts import load_models
from recipes.launch.known_names import require_known
from recipes.launch.launch_files import launch_files, program_files
from recipes.launch.layer_classes import layer_class, load_layer_classes
from recipes.launch.program_files import FolderFile
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import Command, Convergence, Job
from recipes.launch.settings_tree import dotted_names

SCRIPT = Command(
    kind="script", target="train.py", arguments=("--bs", "{micro_batch}", "--lr", "{learning_rate}")
)
GPU = {"device": "cuda", "backend": "nccl"}
FSDP = {
    "fsdp_version": 2,
    "fsdp_activation_checkpointing": False,
    "fsdp_reshard_after_forward": True,
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
    "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    "fsdp_cpu_ram_efficient_loading": True,
}
CLIPPED = Convergence(learning_rate=3e-3, warmup_steps=2, steps=20, gradient_clipping=0.5)


@pytest.fixture
def files_of(make_recipe):
    """Return a function that returns the files of an accelerate recipe and the parsed configuration."""

    def make(model="llama-3-8b", **fields):
        fields = {"program": "accelerate", "command": SCRIPT, "resources": GPU, **fields}
        recipe = make_recipe(**fields)
        recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id=model))
        require_runnable(recipe)
        files = program_files(recipe)
        return files, yaml.safe_load(files.files[0].text)

    return make


def values(variables):
    return {variable.name: variable.value for variable in variables}


def test_every_rank_has_a_log(make_recipe):
    recipe = make_recipe(program="accelerate", command=SCRIPT, resources=GPU, nodes=2)
    for launcher in ("torchrun", "slurm"):
        assert '--tee 3 --log_dir "$logs"' in launch_files(recipe, launcher)[0].text


def test_a_sharded_plan_is_complete(files_of):
    files, config = files_of(parallelism={"strategy": "fsdp", "precision": "bf16"})
    assert config == {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "fsdp_config": FSDP,
        "mixed_precision": "bf16",
        "same_network": True,
        "rdzv_backend": "static",
    }
    assert files.words == ("train.py", "--bs", "2", "--lr", "0.003")
    agent = files.agent
    assert agent.words == (
        *("-m", "accelerate.commands.launch", "--config_file"),
        FolderFile(name="accelerate.yaml"),
    )
    assert agent.sizes == ("--num_machines", "1", "--num_processes", "2")
    assert agent.one_node == ("--main_process_port", "0")
    assert (agent.node_rank, agent.master_address, agent.master_port) == (
        *("--machine_rank", "--main_process_ip", "--main_process_port"),
    )
    assert values(files.environment) == {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "2"}
    assert values(files.rank_environment) == {
        "ACCELERATE_USE_FSDP": "true",
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "FSDP_VERSION": "2",
        "FSDP_ACTIVATION_CHECKPOINTING": "false",
        "FSDP_RESHARD_AFTER_FORWARD": "true",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_TRANSFORMER_CLS_TO_WRAP": "LlamaDecoderLayer",
        "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    }
    head = files.files[0].text.splitlines()[:2]
    assert "accelerate 1.15.0" in head[0]
    assert "global batch 8 = micro-batch 2 x 2 accumulation steps x 2 data-parallel ranks" in head[1]


@pytest.mark.parametrize(
    ("changes", "expected", "variables"),
    [
        (
            {"parallelism": {"strategy": "ddp"}},
            {"distributed_type": "MULTI_GPU", "mixed_precision": "no"},
            {},
        ),
        (
            {"parallelism": {"strategy": "zero2"}, "convergence": CLIPPED},
            {
                "distributed_type": "DEEPSPEED",
                "deepspeed_config": {
                    "zero_stage": 2,
                    "gradient_accumulation_steps": 2,
                    "gradient_clipping": 0.5,
                    "deepspeed_multinode_launcher": "standard",
                },
            },
            {
                "ACCELERATE_USE_DEEPSPEED": "true",
                "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2",
                "ACCELERATE_GRADIENT_CLIPPING": "0.5",
            },
        ),
        (
            {"ranks_per_node": 8, "parallelism": {"strategy": "hsdp", "dp": 2, "fsdp": 4}},
            {
                "parallelism_config": {
                    "parallelism_config_dp_replicate_size": 2,
                    "parallelism_config_dp_shard_size": 4,
                },
                "fsdp_config": FSDP,
            },
            {
                "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
                "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "2",
                "PARALLELISM_CONFIG_DP_SHARD_SIZE": "4",
            },
        ),
        (
            {"parallelism": {"strategy": "fsdp", "activation_checkpointing": "full"}},
            {"fsdp_config": {**FSDP, "fsdp_activation_checkpointing": True}},
            {"FSDP_ACTIVATION_CHECKPOINTING": "true"},
        ),
        (
            {"parallelism": {"strategy": "fsdp", "precision": "fp8"}},
            {"mixed_precision": "fp8", "fp8_config": {"backend": "AO"}},
            {"ACCELERATE_MIXED_PRECISION": "fp8", "ACCELERATE_FP8_BACKEND": "AO"},
        ),
        (
            {"model": "qwen3-30b-a3b", "parallelism": {"strategy": "fsdp"}},
            {"fsdp_config": {**FSDP, "fsdp_transformer_layer_cls_to_wrap": "Qwen3MoeDecoderLayer"}},
            {"FSDP_TRANSFORMER_CLS_TO_WRAP": "Qwen3MoeDecoderLayer"},
        ),
    ],
)
def test_every_decision_reaches_the_file_and_the_variables(files_of, changes, expected, variables):
    files, config = files_of(**changes)
    assert {name: config[name] for name in expected} == expected
    assert variables.items() <= values(files.rank_environment).items()
    blocks = {"fsdp_config", "deepspeed_config", "parallelism_config", "fp8_config"}
    assert blocks & set(config) <= {*expected, "fsdp_config"}
    assert ("fsdp_config" in config) == (config["distributed_type"] == "FSDP")


def test_accumulation_and_sizes_follow_the_plan(files_of):
    files, _ = files_of(
        nodes=2, ranks_per_node=4, parallelism={"grad_accum": 3, "global_batch": 48, "strategy": "ddp"}
    )
    assert values(files.environment) == {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "3"}
    assert files.agent.sizes == ("--num_machines", "2", "--num_processes", "8")


def test_on_a_cpu_every_rank_is_started_by_torch(files_of):
    files, config = files_of(resources={"device": "cpu"})
    assert files.agent.words == ("-m", "torch.distributed.run")
    assert (config["distributed_type"], config["use_cpu"]) == ("MULTI_CPU", True)
    assert values(files.environment)["ACCELERATE_USE_CPU"] == "true"
    assert files.rank_environment == ()


def test_a_model_of_an_unknown_family_uses_its_own_list_of_layers(files_of):
    files, config = files_of(name="job-7", model="mini", parallelism={"strategy": "fsdp"})
    assert "fsdp_transformer_layer_cls_to_wrap" not in config["fsdp_config"]
    assert "does not know the layer class of mini" in " ".join(files.notes)


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"command": Command(kind="script", target="t.py")}, "has {micro_batch}: it must use 2 itself"),
        ({"command": Command(kind="script", target="t.py")}, "has {learning_rate}: it must use 0.003 itself"),
        ({"parallelism": {"activation_checkpointing": "full"}}, "gradient_checkpointing_enable()"),
        ({"job": Job(tuning="lora", adapter_rank=8)}, "adapters of rank 8"),
        ({"parallelism": {"strategy": "fsdp", "precision": "bf16"}}, "over the ranks in bf16, not in fp32"),
        ({"parallelism": {"strategy": "zero1", "precision": "bf16"}}, "sums gradients in bf16, not in fp32"),
        ({"parallelism": {"strategy": "fsdp", "precision": "fp8"}}, "over the ranks in bf16, not in fp32"),
    ],
)
def test_remarks_name_what_the_script_must_do_itself(files_of, changes, remark):
    files, _ = files_of(**changes)
    assert remark in " ".join(files.notes)
    assert remark not in " ".join(files_of()[0].notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": Command(kind="program")}, "starts your training script, and there is none"),
        ({"resources": {}, "parallelism": {"strategy": "fsdp"}}, "on a CPU it silently runs DDP"),
        ({"ranks_per_node": 4, "parallelism": {"dp": 2, "cp": 2, "global_batch": 8}}, "cp 2"),
    ],
)
def test_a_plan_that_accelerate_cannot_run_is_refused(files_of, changes, message):
    with pytest.raises(UsageError, match=message):
        files_of(**changes)


@pytest.mark.parametrize(
    "tree",
    [
        {"fsdp_config": {"fsdp_reshrd_after_forward": True}},
        {"parallelism_config": {"parallelism_config_dp_shard": 8}},
        {"mixed_precison": "bf16"},
    ],
)
def test_a_misspelt_name_is_an_error(tree):
    with pytest.raises(LookupError, match="has no setting"):
        require_known("accelerate", dotted_names(tree))


def test_layer_classes_belong_to_models_that_rigtune_knows():
    ids = [model.id for model in load_models()]
    for row in load_layer_classes():
        matching = [each for each in ids if each.startswith(row.model)]
        assert matching, row.model
        assert any(layer_class(each) == row.layer for each in matching), row.model
    assert layer_class("llama-3.1-70b") == "LlamaDecoderLayer"
    assert layer_class("llama-4-scout") == "Llama4TextDecoderLayer"
    assert layer_class("palm-8b") == ""
