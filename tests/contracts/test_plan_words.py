"""Ask `rigtune plan` realistic questions, and check that its sentences agree with its figures."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assistant.cli import rigtune


@pytest.fixture(autouse=True)
def _wide_page_and_own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "400")


def _invoked(question: str) -> Result:
    return CliRunner().invoke(rigtune, ["plan", *shlex.split(question)])


def _text(question: str) -> str:
    return " ".join(_invoked(question).stdout.split())


def _answer(question: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_text(f"{question} --format json"))
    return answer


def test_reason_of_an_image_model_names_the_computation() -> None:
    text = _text("resnet50 --gpu V100 --gpus 8 --nodes 4 --program horovod")
    assert re.search(r"micro-batch 16 is .* slower: compute .* ms longer", text)


def test_reason_names_what_shrinks_if_the_step_grows_by_much_less() -> None:
    text = _text("phi-3.5-moe --gpu A100 --gpus 8 --program hf-trainer --tuning lora")
    assert re.search(r"micro-batch 16 is .* recomputation .* longer, exposed communication .* shorter", text)


def test_warning_and_margin_state_the_same_memory() -> None:
    text = _text("llama-3-70b --gpu H100 --gpus 8 --nodes 4 --program megatron")
    (warned,) = re.findall(r"may run out of memory: (\S+ GiB) are needed", text)
    assert f"({warned} needed when memory is short" in text


@pytest.mark.parametrize(
    ("gpu", "read", "unread"),
    [
        ("Gaudi3", "", "NCCL_DEBUG PYTORCH_CUDA_ALLOC_CONF CUDA_DEVICE_MAX_CONNECTIONS"),
        ("MI300X", "NCCL_DEBUG", "CUDA_DEVICE_MAX_CONNECTIONS"),
        ("H100", "NCCL_DEBUG CUDA_DEVICE_MAX_CONNECTIONS", ""),
    ],
)
def test_variables_are_those_that_the_gpu_s_software_reads(gpu: str, read: str, unread: str) -> None:
    text = _text(f"llama-3-8b --gpu {gpu} --gpus 8")
    assert all(name in text for name in read.split())
    assert not any(name in text for name in unread.split())


def test_network_without_rdma_gets_no_setting_of_roce() -> None:
    question = (
        "llama-3-70b --gpu H100 --gpus 8 --nodes 4 --program megatron --network '8x400G Ethernet, no RDMA'"
    )
    assert "NCCL_IB" not in _text(question)


def test_sensitivity_of_a_job_that_does_not_fit() -> None:
    text = _text("llama-3-8b --machine rtx4090-2 --sensitivity")
    assert text.startswith("No single change of the hardware makes the job fit")
    assert "no plan" in text
    assert "the same" not in text


def test_note_on_batches_that_grow_and_shrink_with_the_nodes() -> None:
    assert "the global batch is between 504 and 520" in _text("gpt2 --machine dgx-h100 --nodes 1,2,3,5")


@pytest.mark.parametrize(
    "question",
    [
        "deepseek-v3 --gpu H800 --nodes 256 --precision fp8 --global-batch 16384",
        "llama-3-70b --gpu H100 --gpus 8 --nodes 4 --pin pp=16 --pin vp=5 --pin cp=2",
    ],
)
def test_recomputed_share_is_a_number_of_whole_layers(question: str) -> None:
    text, answer = (ask(f"{question} --program megatron") for ask in (_text, _answer))
    degrees, layers = answer["chosen"]["degrees"], answer["workload"]["model"]["layers"]
    per_part = -(-layers // (degrees["pp"] * degrees["vp"]))
    assert answer["chosen"]["activation_checkpointing"] == "full"
    options = re.search(r"--recompute-method (\w+) --recompute-num-layers (\d+)", text)
    assert options is not None
    recomputed = per_part if options[1] == "uniform" else int(options[2])
    assert answer["chosen"]["recomputed_share"] == pytest.approx(recomputed / per_part)


@pytest.mark.parametrize(
    "question",
    [
        "llama-3-70b --machine dgx-h200 --nodes 4 --program lightning",
        "llama-3-8b --gpu A100 --gpus 8 --program accelerate --sequence-length 131072 --task fine-tuning",
    ],
)
def test_suggestions_for_a_job_that_does_not_fit_work_literally(question: str) -> None:
    refused = _invoked(question).exception
    changes = re.findall(r"\((--[^)]+)\)", getattr(refused, "hint", ""))
    assert changes
    for change in changes:
        option = change.split()[0]
        kept = re.sub(rf"{option} \S+", "", question)
        assert _invoked(f"{kept} {change}").exit_code == 0, change


@pytest.mark.parametrize(
    ("pins", "hint"),
    [
        ("--pin tp=3", "tp can be 1, 2, 4, 8 here"),
        ("--pin tp=8 --pin pp=4", "tp 8 x pp 4 needs a multiple of 32 ranks, and there are 8"),
        ("--pin vp=2 --pin pp=1", "pp 1 is none"),
        ("--pin vp=7 --pin pp=4", "vp can be 1, 2, 4, 8 with pp 4"),
        ("--pin schedule=zero-bubble", "schedules of Megatron-LM"),
        ("--pin sharding=zero3", "shardings of Megatron-LM"),
        ("--strategy zero1 --pin fsdp=2", "pin strategy fsdp or hsdp"),
        (
            "--global-batch 512 --micro-batch 16 --pin grad_accum=3",
            "micro-batch 16 x grad-accum 3 does not divide",
        ),
        (
            "--global-batch 512 --micro-batch 32 --pin grad_accum=1",
            "needs 16 data-parallel ranks, and 8 ranks cannot",
        ),
    ],
)
def test_refused_pins_name_the_problem(pins: str, hint: str) -> None:
    refused = _invoked(f"llama-3-8b --machine dgx-h100 --program megatron {pins}")
    assert hint in getattr(refused.exception, "hint", "")


def test_batch_of_the_recipe_is_kept_if_the_layout_can_share_it() -> None:
    answer = _answer("deepseek-v3 --gpu H800 --nodes 256 --program megatron --precision fp8")
    assert answer["chosen"]["global_batch"] == 15360
    assert not any("critical batch" in words for words in answer["warnings"])


def test_rounded_batch_has_a_reason_and_no_warning() -> None:
    text = _text("llama-3-8b --gpu H100 --gpus 3")
    assert "global batch 513" in text
    assert "the nearest batch that all ranks can share" in text
    assert "critical batch" not in text


def test_recipe_of_resnet50_is_not_borrowed() -> None:
    text = _text("resnet50 --gpu A100 --gpus 8")
    assert "borrowed" not in text
    assert "usual are 1024 images" in text


@pytest.mark.parametrize(
    ("question", "nodes"),
    [
        ("llama-3-70b --machine dgx-h100 --nodes 8 --pin tp=4", 8),
        ("chinchilla-70b --machine dgx-a100 --nodes 64", 64),
        ("mixtral-8x7b --machine dgx-h100 --nodes 2 --pin ep=2", 2),
    ],
)
def test_axes_of_maxtext_fill_the_nodes(question: str, nodes: int) -> None:
    text = _text(f"{question} --program maxtext")
    sizes = {kind: map(int, re.findall(rf"{kind}_\w+_parallelism (\d+)", text)) for kind in ("ici", "dcn")}
    assert {kind: math.prod(values) for kind, values in sizes.items()} == {"ici": 8, "dcn": nodes}


def test_faster_layout_with_more_micro_batches_has_a_reason() -> None:
    text = _text("llama-3-8b --gpu H100 --gpus 8 --nodes 2 --global-batch 128 --program megatron")
    assert "1.5 % faster, within the tie, but has more micro-batches" in text


def test_length_with_a_unit_is_refused_with_an_example() -> None:
    refused = CliRunner().invoke(
        rigtune, ["plan", "llama-3-8b", "--gpu", "H100", "--sequence-length", "128k"], standalone_mode=False
    )
    assert "give all digits: 131072" in str(refused.exception)
