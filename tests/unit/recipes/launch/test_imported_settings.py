"""Test that options of launchers and programs become settings, also if some are missing or contradictory."""

from __future__ import annotations

import pytest

from probes.base.errors import InputError
from tests.support.imported_launch import TORCHRUN, imported, stated

_REPLICA = """\
    {kind}:
      replicas: {count}
      template:
        spec:
          containers:
          - name: pytorch
            image: train:1
            command: [torchrun, train.py, --lr, '1e-4']
            env:
            - {{name: NCCL_DEBUG, value: WARN}}
"""
JOB = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: llama}\nspec:\n  nprocPerNode: '8'\n"
    "  pytorchReplicaSpecs:\n"
    + _REPLICA.format(kind="Master", count=1)
    + _REPLICA.format(kind="Worker", count=3)
)

LAUNCHES: dict[str, tuple[list[tuple[str, str]], dict[str, str]]] = {
    "torchrun": ([("a.sh", TORCHRUN + "t.py")], {"nodes": "2", "ranks_per_node": "8"}),
    "torchrun with equals signs": (
        [("a.sh", "torchrun --nnodes=2 --nproc_per_node=8 t.py")],
        {"nodes": "2", "ranks_per_node": "8"},
    ),
    "module": (
        [("a.sh", "python -m torch.distributed.run --nproc-per-node 4 -m pkg.t")],
        {"ranks_per_node": "4"},
    ),
    "variables": (
        [("a.sh", 'N=4\nGPUS=8\nL="torchrun --nnodes $N --nproc_per_node $GPUS"\n$L t.py')],
        {"nodes": "4", "ranks_per_node": "8"},
    ),
    "values of Slurm": (
        [
            (
                "a.sbatch",
                "#!/bin/bash\n#SBATCH -N 3 --gpus-per-node=a100:4 -t 2:00:00 -p big -A lab\n"
                "srun torchrun --nnodes $SLURM_NNODES --nproc-per-node $SLURM_GPUS_ON_NODE t.py",
            )
        ],
        {"nodes": "3", "ranks_per_node": "4", "time_limit": "2:00:00", "partition": "big", "account": "lab"},
    ),
    "a product": (
        [
            (
                "a.sbatch",
                "#!/bin/bash\n#SBATCH --nodes=2\nG=8\n"
                "srun accelerate launch --num_machines $SLURM_NNODES --num_processes $((SLURM_NNODES * G)) t",
            )
        ],
        {"nodes": "2", "world_size": "16"},
    ),
    "accelerate": (
        [
            (
                "a.yaml",
                "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nmixed_precision: bf16\n"
                "fsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n"
                "  fsdp_activation_checkpointing: true\n",
            )
        ],
        {
            "nodes": "2",
            "world_size": "16",
            "precision": "bf16",
            "sharding": "zero2",
            "activation_checkpointing": "full",
        },
    ),
    "zero stage of accelerate": (
        [
            (
                "a.yaml",
                "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 1\n  gradient_clipping: 1.0\n",
            )
        ],
        {"sharding": "zero1", "gradient_clipping": "1.0"},
    ),
    "deepspeed": (
        [
            (
                "ds_config.json",
                '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,\n'
                '"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "fp16": {"enabled": false},\n'
                '"optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.05}}}',
            )
        ],
        {
            "micro_batch": "4",
            "grad_accum": "2",
            "sharding": "zero2",
            "precision": "bf16",
            "optimizer": "adamw",
            "learning_rate": "0.0003",
            "weight_decay": "0.05",
        },
    ),
    "deepspeed starter": (
        [("a.sh", "deepspeed --num_nodes 2 --num_gpus 4 t.py")],
        {"nodes": "2", "ranks_per_node": "4"},
    ),
    "mpirun": (
        [("a.sh", "mpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG=INFO --mca btl tcp,self python t.py")],
        {"world_size": "16", "hosts": "a:8,b:8"},
    ),
    "megatron": (
        [
            (
                "a.sh",
                TORCHRUN + "pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 "
                "--num-layers-per-virtual-pipeline-stage 4 --micro-batch-size 1 --global-batch-size 128 "
                "--seq-length 4096 --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
                "--num-attention-heads 32 --num-query-groups 8 --bf16 --use-distributed-optimizer "
                "--tokenizer-model meta-llama/Meta-Llama-3-8B "
                "--recompute-granularity full --lr 3e-4 --train-iters 10 --clip-grad 1.0",
            )
        ],
        {
            "tp": "4",
            "pp": "2",
            "layers_per_part": "4",
            "micro_batch": "1",
            "global_batch": "128",
            "sequence_length": "4096",
            "precision": "bf16",
            "sharding": "zero1",
            "activation_checkpointing": "full",
            "learning_rate": "3e-4",
            "steps": "10",
            "gradient_clipping": "1.0",
        },
    ),
    "torchtitan file": (
        [
            (
                "t.toml",
                '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n'
                "steps = 100\n[optimizer]\nlr = 3e-4\n[parallelism]\ndata_parallel_shard_degree = -1\n"
                'tensor_parallel_degree = 2\n[activation_checkpoint]\nmode = "selective"\n',
            )
        ],
        {
            "local_batch": "2",
            "sequence_length": "8192",
            "steps": "100",
            "tp": "2",
            "activation_checkpointing": "selective",
            "learning_rate": "0.0003",
        },
    ),
    "LLaMA-Factory": (
        [
            (
                "sft.yaml",
                "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\nfinetuning_type: lora\n"
                "lora_rank: 8\ncutoff_len: 2048\nper_device_train_batch_size: 1\n"
                "gradient_accumulation_steps: 8\nlr_scheduler_type: linear\nwarmup_ratio: 0.1\nbf16: true\n",
            )
        ],
        {
            "tuning": "lora",
            "adapter_rank": "8",
            "sequence_length": "2048",
            "micro_batch": "1",
            "grad_accum": "8",
            "lr_schedule": "linear",
            "warmup_share": "0.1",
            "precision": "bf16",
            "fine_tuning": "true",
        },
    ),
    "axolotl": (
        [
            (
                "a.yml",
                "base_model: meta-llama/Meta-Llama-3-8B\nadapter: qlora\nload_in_4bit: true\n"
                "sequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"
                "gradient_checkpointing: true\nbf16: auto\n",
            )
        ],
        {
            "tuning": "qlora",
            "sequence_length": "4096",
            "micro_batch": "2",
            "grad_accum": "4",
            "activation_checkpointing": "full",
        },
    ),
    "PyTorchJob": (
        [("job.yaml", JOB)],
        {"masters": "1", "workers": "3", "ranks_per_node": "8", "learning_rate": "1e-4", "name": "llama"},
    ),
    "hostfile": ([("hostfile", "a slots=4\nb slots=4\n")], {"hosts": "a,b", "ranks_per_node": "4"}),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_settings_are_read_in_the_words_of_each_launcher_and_program(name):
    files, expected = LAUNCHES[name]
    answer = imported(*files)
    assert stated(answer) | expected == stated(answer)
    for each in answer.settings:
        assert each.file == files[0][0]
        line = files[0][1].split("\n")[each.line - 1]
        assert each.value.lower() in line.lower() or each.place is not None


def test_missing_settings_are_named_with_the_option_that_gives_them():
    answer = imported(("a.sh", "torchrun --nproc-per-node 8 train.py"))
    assert answer.recipe is None
    assert {each.setting: each.option.split()[0] for each in answer.missing} == {
        "model": "--model",
        "sequence_length": "--sequence-length",
        "strategy": "--strategy",
        "micro_batch": "--micro-batch",
        "grad_accum": "--grad-accum",
        "steps": "--steps",
        "learning_rate": "--learning-rate",
    }
    full = imported(
        ("a.sh", "torchrun --nproc-per-node 8 train.py"), model="llama-3-8b", sequence_length=2048,
        sharding="hybrid", micro_batch=1, grad_accum=2, steps=10, learning_rate=0.001,
    )  # fmt: skip
    assert full.recipe is not None
    assert full.recipe.parallelism.global_batch == 16


@pytest.mark.parametrize("ranks", [1, 2])
def test_one_rank_needs_no_strategy(ranks):
    answer = imported(("a.sh", f"torchrun --nnodes 1 --nproc-per-node {ranks} t.py"))
    assert ("strategy" in {each.setting for each in answer.missing}) is (ranks > 1)


CONTRADICTIONS = {
    "nodes": (
        [("a.sbatch", "#SBATCH --nodes=4\nsrun torchrun --nnodes 2 --nproc-per-node 8 t.py")],
        ("a.sbatch:1", "a.sbatch:2"),
    ),
    "micro_batch": (
        [
            ("a.sh", "deepspeed t.py --per_device_train_batch_size 2"),
            ("ds_config.json", '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}'),
        ],
        ("a.sh:1", "ds_config.json:1"),
    ),
    "the ranks": (
        [("a.sbatch", "#SBATCH --nodes=4 --ntasks=8 --ntasks-per-node=4\nsrun python t.py")],
        ("tasks 8", "nodes 4"),
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_files_that_contradict_each_other_are_an_error_with_both_places(name):
    files, places = CONTRADICTIONS[name]
    with pytest.raises(InputError, match=name) as error:
        imported(*files)
    assert all(place in str(error.value) for place in places)
    assert error.value.hint


def test_megatron_sizes_and_torchtitan_flavors_name_a_model():
    for name in ("megatron", "torchtitan file"):
        answer = imported(*LAUNCHES[name][0])
        assert "model" not in {each.setting for each in answer.missing}


def test_megatron_sizes_of_no_known_model_name_none():
    text = LAUNCHES["megatron"][0][0][1].replace("--hidden-size 4096", "--hidden-size 4160")
    assert "model" in {each.setting for each in imported(("a.sh", text)).missing}


@pytest.mark.parametrize(
    ("more", "model"),
    [("", None), ("--vocab-size 128256", "llama-3-8b"), ("--vocab-size 92544", "internlm2-7b")],
)
def test_sizes_of_several_models_name_a_model_only_with_its_vocabulary(more, model):
    text = LAUNCHES["megatron"][0][0][1].replace("--tokenizer-model meta-llama/Meta-Llama-3-8B", more)
    answer = imported(("a.sh", text))
    if model is None:
        why = next(each.why for each in answer.missing if each.setting == "model")
        assert "several models have the sizes in the files: " in why
        assert "internlm2-7b" in why
    else:
        assert answer.recipe is not None
        assert answer.recipe.model.id == model


def test_degrees_parts_and_batch_of_megatron():
    recipe = imported(*LAUNCHES["megatron"][0]).recipe
    assert recipe is not None
    layout = recipe.parallelism
    assert (layout.strategy, layout.dp, layout.tp, layout.pp, layout.vp) == ("zero1", 2, 4, 2, 4)
    assert (layout.micro_batch, layout.grad_accum, layout.global_batch) == (1, 64, 128)
    assert recipe.program == "megatron"
