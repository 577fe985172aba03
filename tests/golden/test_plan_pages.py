"""Compare the answers of `rigtune plan` with their files. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from assistant.cli.plan_commands import plan_command

FOLDER = Path(__file__).parent / "plans"
QUESTIONS = {
    "8b-one-node": "llama-3-8b --machine dgx-h100",
    "70b-eight-nodes": "llama-3-70b --machine dgx-h100 --nodes 8 --tokens 300B --price 2.5",
    "70b-megatron-fp8": "llama-3-70b --machine p5 --nodes 16 --program megatron --precision fp8",
    "405b-1024-gpus": "llama-3.1-405b --gpu H100 --nodes 128 --program megatron --sequence-length 8192",
    "mixtral-a100": "mixtral-8x7b --machine dgx-a100 --nodes 4 --program megatron",
    "mixtral-torchtitan": "mixtral-8x7b --machine dgx-b200 --nodes 2 --program torchtitan",
    "qlora-two-4090": "llama-3-70b --machine rtx4090-2 --tuning qlora --lora-rank 32 --program hf-trainer",
    "lora-8-h100": "llama-3-70b --machine dgx-h100 --tuning lora --program torchtune",
    "lora-two-4090": "llama-3-8b --machine rtx4090-2 --tuning lora",
    "deepspeed-l40s": "llama-2-7b --machine l40s-pcie-8 --program deepspeed --task fine-tuning",
    "resnet50-p4d": "resnet50 --machine p4d --nodes 2 --samples 100M",
    "vit-a100": "vit_large_patch16_224 --machine dgx-a100 --global-batch 4096",
    "bert-v100": "bert-large --gpu V100 --nodes 2 --program accelerate",
    "fp16-t4": "gpt2 --gpu T4 --gpus 1",
    "slow-network": "llama-3-8b --gpu H100 --gpus 8 --nodes 4 --network '25 GbE'",
    "nvl72": "llama-3-70b --machine gb200-nvl72 --nodes 18",
    "fewest-gpus": "llama-3-8b --machine dgx-h200 --nodes 4 --objective fewest-gpus",
    "cheapest": "llama-3-8b --machine dgx-h100 --nodes 4 --objective cost --price 3 --tokens 20B",
    "shortest": "llama-3-70b --machine dgx-h100 --nodes 64 --objective time --tokens 1T --node-mtbf 5000",
    "pinned": "llama-3-8b --machine dgx-h100 --program torchtitan --pin tp=2 --learning-rate 1e-4",
    "pinned-pipeline": "llama-3-70b --machine dgx-h100 --nodes 4 --program megatron --pin pp=4 --pin vp=5",
    "recomputed": "llama-3-8b --machine dgx-a100 --pin activation_checkpointing=full --strategy fsdp",
    "small-headroom": "llama-3-8b --machine dgx-a100 --headroom 0.02 --optimizer adamw-8bit",
    "large-headroom": "llama-3-8b --machine dgx-a100 --headroom 0.4",
    "checkpoints": "llama-3-8b --gpu H100 --nodes 32 --write-bandwidth 20 --node-mtbf 2000 --steps 50000",
    "transferred-rate": "llama-3-8b --machine dgx-h100 --known-batch 256 --known-lr 3e-4 --known-width 1024",
    "noise-scale": "llama-3.2-1b --machine dgx-h100 --noise-scale 600",
    "does-not-fit": "llama-3-70b --machine rtx4090-2",
    "does-not-fit-long": "llama-3-8b --machine dgx-a100 --sequence-length 1000000",
    "bad-pin": "llama-3-8b --machine dgx-h100 --pin tp=3",
    "unknown-gpu": "llama-3-8b --gpu 'Foo 9000' --gpus 8",
    "own-choice": "--machine rtx4090-2",
    "scaling": "llama-3-8b --machine dgx-h100 --nodes 1,2,4,8,16,32,64",
    "sensitivity": "llama-3-70b --machine dgx-a100 --nodes 8 --sensitivity",
    "compared": "llama-3-8b --machine dgx-a100 --compare dgx-h100 --compare L40S --compare MI300X",
    "why-not": "llama-3-8b --gpu H100 --nodes 2 --why-not ddp --why-not powersgd --why-not diloco",
}
"""Arguments of `rigtune plan` by the name of the file that holds the answer."""


@pytest.mark.parametrize("name", QUESTIONS)
def test_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "110")
    invoked = CliRunner().invoke(plan_command, shlex.split(f"{QUESTIONS[name]} --verbose"))
    error = invoked.exception
    problem = f"{type(error).__name__}: {error}\n{getattr(error, 'hint', '')}\n" if error else ""
    text = f"$ rigtune plan {QUESTIONS[name]} --verbose\n{problem}{invoked.stdout}"
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text
