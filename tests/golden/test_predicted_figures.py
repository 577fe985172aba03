"""Compare the figures of many predictions with their files. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew.

Each representative case is predicted as it stands and with a few of the changes below. A change of the model
of memory or speed thus shows which kinds of jobs it moves, and by how much.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from probes.base.units import GIB
from recipes.predict.stacks import load_stacks
from tests.quantities.changing import Case, load_cases

FOLDER = Path(__file__).parent / "figures"
NO_SIZES = dict.fromkeys(
    [
        "family",
        "params_b",
        "params_active_b",
        "n_layers",
        "hidden",
        "n_heads",
        "n_kv_heads",
        "ffn_hidden",
        "vocab",
        "n_experts",
        "moe_topk",
        "image_size",
    ],
    "",
)
"""The columns of a model's sizes, all unknown."""
SIXTEEN = {"n_gpus": "16", "sharding": "zero1", "global_batch": "64"} | dict.fromkeys(
    ("zero_stage", "dp", "fsdp", "grad_accum"), ""
)
"""A job of 16 GPUs with ZeRO-1."""
CHANGES: tuple[dict[str, str], ...] = (
    {"micro_batch": "2", "global_batch": ""},
    {"grad_accum": "4", "global_batch": ""},
    {"seq_len": "1000"},
    {"seq_len": "16384"},
    {"activation_checkpointing": "none"},
    {"activation_checkpointing": "selective"},
    {"activation_checkpointing": "full"},
    {"precision": "bf16-mixed"},
    {"precision": "bf16"},
    {"precision": "fp16-mixed"},
    {"precision": "fp32"},
    {"precision": "fp8"},
    {"optimizer": "sgd"},
    {"optimizer": "adamw-8bit"},
    {"optimizer": "adafactor"},
    {"sharding": "ddp", "zero_stage": "", "fsdp": "", "dp": ""},
    {"sharding": "zero1", "zero_stage": "", "fsdp": "", "dp": ""},
    {"sharding": "zero2", "zero_stage": "", "fsdp": "", "dp": ""},
    {"sharding": "fsdp", "zero_stage": "", "fsdp": "", "dp": ""},
    {"sharding": "hsdp", "zero_stage": "", "fsdp": "4", "dp": "", "n_gpus": "16"},
    {"sharding": "zero3 offload", "zero_stage": "", "fsdp": "", "dp": ""},
    {"tp": "2", **SIXTEEN},
    {"pp": "4", **SIXTEEN},
    {"pp": "2", "vp": "4", **SIXTEEN},
    {"cp": "2", **SIXTEEN},
    {"ep": "2", **SIXTEEN},
    {"compile": "true"},
    {"compile": "false"},
    {"flash_attention": "false"},
    {"task": "lora"},
    {"task": "qlora", "precision": ""},
    {"n_gpus": "1", "dp": "", "fsdp": "", "tp": "", "pp": "", "cp": "", "ep": "", "vp": ""},
    {"n_gpus": "64", "dp": "", "fsdp": "", "global_batch": "512", "grad_accum": ""},
    {"gpu": "V100-SXM2-32GB"},
    {"gpu": "A100-SXM-80GB"},
    {"gpu": "H100-SXM-80GB"},
    {"gpu": "B200"},
    {"gpu": "MI300X"},
    {"gpu": "RTX4090"},
    {"interconnect_intra": "PCIe"},
    {"interconnect_inter": "100 Gb/s Ethernet", "n_gpus": "32", "dp": "", "fsdp": "", "global_batch": ""},
    {"memory_figure": "allocated"},
    {"memory_figure": "device"},
    {"model": "llama-3-8b", **NO_SIZES},
    {"model": "mixtral-8x7b", **NO_SIZES},
    {"model": "gpt2-xl", **NO_SIZES},
    {"model": "bert-large", **NO_SIZES},
)
"""Cells of the table of runs that replace those of a case. A blank cell is unknown."""
STACK_JOBS = (
    {"model": "llama-3-8b", "gpu": "H100-SXM-80GB", "n_gpus": "16", "seq_len": "4096", "micro_batch": "1"},
    {"model": "mixtral-8x7b", "gpu": "H200", "n_gpus": "32", "seq_len": "4096", "micro_batch": "2"},
    {"model": "llama-3-8b", "gpu": "A100-SXM-80GB", "n_gpus": "2", "seq_len": "2048", "task": "lora"},
    {"model": "resnet50", "gpu": "V100-SXM2-16GB", "n_gpus": "8", "micro_batch": "64"},
)
"""Jobs that are predicted for each stack."""
CHANGES_OF_A_CASE = 6


def _rows(index: int, case: Case) -> Iterator[tuple[str, Case]]:
    yield "as it stands", case
    changes = () if case.door == "collective" else range(CHANGES_OF_A_CASE)
    for number in changes:
        change = CHANGES[(index * CHANGES_OF_A_CASE + number) % len(CHANGES)]
        words = ", ".join(f"{name} {cell or 'blank'}" for name, cell in change.items())
        yield words, case._replace(cells={**case.cells, **change})


def _figures(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; a name has a number if it belongs to one of several values."""
    match value:
        case dict():
            for part, inner in value.items():
                yield from _figures(inner, f"{name}.{part}" if name else str(part))
        case list() | tuple():
            for number, inner in enumerate(value, 1):
                yield from _figures(inner, f"{name} {number}")
        case float() if name.startswith("memory.") and name != "memory.logged":
            yield name, f"{value / GIB:.4g} GiB"
        case float():
            yield name, f"{value:.4g}"
        case None | "":
            return
        case _:
            yield name, str(value)


def text_of(rows: Iterable[tuple[str, Case]]) -> str:
    """Return all figures of the first case, and those of each further case that differ from them."""
    lines: list[str] = []
    first: dict[str, str] = {}
    for words, case in rows:
        figures = dict(_figures(msgspec.to_builtins(case.predict()), ""))
        differing = [f"{name} {value}" for name, value in figures.items() if first.get(name) != value]
        differing += [f"no {name}" for name in first if name not in figures]
        wrapped = textwrap.wrap("; ".join(differing), 108, initial_indent="  ", subsequent_indent="  ")
        lines += [f"{words}:", *wrapped]
        first = first or figures
    return "\n".join(lines) + "\n"


def require_equal(text: str, file: Path) -> None:
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text


@pytest.mark.parametrize(("index", "name"), list(enumerate(load_cases())))
def test_figures_of_a_case(index: int, name: str) -> None:
    require_equal(text_of(_rows(index, load_cases()[name])), FOLDER / f"{name}.txt")


@pytest.mark.parametrize("job", STACK_JOBS, ids=lambda job: f"{job['model']} on {job['gpu']}")
def test_figures_with_each_stack(job: dict[str, str]) -> None:
    rows = [(stack, Case(stack, "run", {"case_id": stack, "stack": stack, **job})) for stack in load_stacks()]
    require_equal(text_of(rows), FOLDER / f"stacks-{job['model']}-{job['gpu'].lower()}.txt")
