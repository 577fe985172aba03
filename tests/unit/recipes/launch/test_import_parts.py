"""Parts of an import: the program, arithmetic of the shell, site commands, secrets and unread numbers."""

from __future__ import annotations

import pytest

from recipes.launch.imports.adopted import Statement
from recipes.launch.imports.hidden_secrets import is_secret, referring
from recipes.launch.imports.resolving import Settings, settle
from recipes.launch.imports.unwrapping import unwrap
from tests.support.imported_launch import imported, stated

_DEEPSPEED = ("ds.json", '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}')


@pytest.mark.parametrize(
    ("files", "program"),
    [
        ([("a.sh", "torchrun --nproc-per-node 8 t.py\n")], "own"),
        ([("a.sh", "accelerate launch --num_processes 8 t.py\n")], "accelerate"),
        ([("a.sh", "deepspeed --num_gpus 8 t.py\n")], "deepspeed"),
        ([("a.sh", "torchrun --nproc-per-node 8 t.py --deepspeed ds.json\n"), _DEEPSPEED], "deepspeed"),
        ([("a.sh", "torchrun --nproc-per-node 8 t.py --tensor-model-parallel-size 2\n")], "megatron"),
        ([("a.sh", "torchrun --nproc-per-node 8 t.py --per_device_train_batch_size 2\n")], "hf-trainer"),
        ([("a.sh", "torchrun --nproc-per-node 8 t.py --training.seq_len 2048\n")], "torchtitan"),
    ],
)
def test_the_program_is_that_of_the_command_or_the_files(files: list[tuple[str, str]], program: str):
    assert imported(*files).program == program


@pytest.mark.parametrize(
    ("script", "nodes"),
    [
        ("N=4\ntorchrun --nnodes $N t.py", "4"),
        ("N=4\ntorchrun --nnodes ${N} t.py", "4"),
        ("torchrun --nnodes ${N:-3} t.py", "3"),
        ("N=4\ntorchrun --nnodes $((N * 2 + 1)) t.py", "9"),
        ("N=4\ntorchrun --nnodes $((1 + N * 2)) t.py", "9"),
        ("N=4\ntorchrun --nnodes $((N - 1)) t.py", "3"),
        ("N=9\ntorchrun --nnodes $((N / 2 - 1)) t.py", "3"),
        ("N=4\ntorchrun --nnodes $((N / 0)) t.py", None),
        ("torchrun --nnodes $((N + 1)) t.py", None),
        ("torchrun --nnodes `wc -l < hosts` t.py", None),
        ("torchrun --nnodes $(wc -l < hosts) t.py", None),
        ("#SBATCH --nodes=4-8\ntorchrun --nnodes $SLURM_NNODES t.py", "4"),
    ],
)
def test_variables_and_arithmetic_give_numbers(script: str, nodes: str | None):
    assert stated(imported(("a.sh", f"#!/bin/bash\n{script}\n"))).get("nodes") == nodes


@pytest.mark.parametrize(
    ("script", "slots"),
    [
        ("module load cuda/12 gcc\nml load nccl\n", {"slot.modules": "cuda/12 gcc nccl"}),
        ("spack load cuda\n", {}),
        ("conda activate a\nconda activate b\n", {"slot.conda": "b"}),
        ("conda activate\n", {}),
        ("source /opt/venv/bin/activate\n", {"slot.setup": "/opt/venv/bin/activate"}),
        ("source setup.sh\n", {}),
        ("cd /work\n", {"working_directory": "/work"}),
        ("cd work\n", {}),
        ("cd $HOME\n", {}),
        ("cd ~/work\n", {}),
        ("if a; then\n  cd /work\nfi\n", {}),
        ("ssh host cd /work\n", {}),
    ],
)
def test_commands_that_always_run_become_settings_of_the_site(script: str, slots: dict[str, str]):
    answer = stated(imported(("a.sh", f"#!/bin/bash\n{script}torchrun --nproc-per-node 8 t.py\n")))
    names = ("slot.modules", "slot.conda", "slot.setup", "working_directory")
    assert {name: answer[name] for name in names if name in answer} == slots


@pytest.mark.parametrize(
    ("name", "value", "is_hidden"),
    [
        ("HF_TOKEN", "hf_abcdefghij", True),
        ("HF_TOKEN", "$OTHER", False),
        ("HF_TOKEN", "<token>", False),
        ("HF_TOKEN", "1234567890", False),
        ("OUTPUT", "hf-abcdefghij", False),
    ],
)
def test_tokens_are_secrets_unless_they_name_another_place(name: str, value: str, is_hidden: bool):
    assert is_secret(name, value) is is_hidden


@pytest.mark.parametrize(
    ("arguments", "references"),
    [
        (("--hub-token", "hf_abcdefghij"), {"hf_abcdefghij": "{$HUB_TOKEN}"}),
        (("--hub-token=hf_abcdefghij",), {"--hub-token=hf_abcdefghij": "--hub-token={$HUB_TOKEN}"}),
        (("hf_abcdefghij", "--lr", "1"), {}),
        (("--lr", "1", "hf_abcdefghij"), {}),
        (("--hub-token", "--lr"), {}),
    ],
)
def test_a_typed_secret_becomes_a_reference(arguments: tuple[str, ...], references: dict[str, str]):
    assert referring(arguments) == references


@pytest.mark.parametrize(
    ("value", "whole", "count", "decimal"),
    [
        ("8", 8, 8, 8.0),
        ("1_000", 1000, 1000, 1000.0),
        ("2e3", 2000, 2000, 2000.0),
        ("0", None, 0, 0.0),
        ("-1", None, None, None),
        ("2.5", None, None, 2.5),
        ("many", None, None, None),
        ("inf", None, None, None),
        ("1e12", 10**12, 10**12, None),
    ],
)
def test_numbers_are_read_or_named_as_unread(
    value: str, whole: int | None, count: int | None, decimal: float | None
):
    statement = Statement(setting="x", value=value, file="a", line=1, written="x", owner="own")
    for method, expected in (("whole", whole), ("count", count), ("decimal", decimal)):
        settings = Settings(settle([statement], []))
        assert getattr(settings, method)("x") == expected
        assert settings.unread == ([statement] if expected is None else [])
        assert getattr(settings, method)("y") is None


@pytest.mark.parametrize(
    ("words", "plain", "dropped"),
    [
        ("train.py --lr 1", "train.py --lr 1", 0),
        ("python train.py", "train.py", 0),
        ("torchrun --nproc-per-node 8 train.py --lr 1", "train.py --lr 1", 1),
        ("A=1 python train.py", "train.py", 1),
        ("nohup torchrun train.py", "train.py", 1),
        ("time python train.py", "train.py", 0),
        ("python -m pkg.train --lr 1", "-m pkg.train --lr 1", 0),
    ],
)
def test_a_command_is_unwrapped_from_its_launchers(words: str, plain: str, dropped: int):
    answer = unwrap(words.split())
    assert (" ".join(answer.words), len(answer.dropped)) == (plain, dropped)
