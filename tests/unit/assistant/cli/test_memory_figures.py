"""Test that plan, prediction and script name the same figures of memory, and mean the same by "fits"."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest

from assistant.cli import command_line
from recipes.launch.recipe_file import load_recipe
from recipes.predict.breakdowns import memory_words

MACHINES = ("dgx-h100", "dgx-a100")


def _said(capsys, *words):
    assert command_line([*words, "-q"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("model", ["gpt2", "llama-3-8b"])
def test_plan_recipe_and_script_have_the_same_figures(capsys, tmp_path, machine, model):
    plan = ["plan", model, "--machine", machine]
    memory = json.loads(_said(capsys, *plan, "--format", "json"))["chosen"]["predicted"][
        "memory_bytes_per_gpu"
    ]
    figures = memory_words(memory["allocated"], memory["reserved"], memory["upper"])
    file = tmp_path / "recipe.toml"
    assert figures in _said(capsys, *plan, "-o", str(file))
    predicted = load_recipe(file.read_text(), "recipe.toml").predicted
    assert predicted.peak_memory_bytes == memory["allocated"]
    assert predicted.reserved_memory_bytes == memory["reserved"]
    assert predicted.worst_memory_bytes == memory["upper"]
    _said(capsys, "export", str(file), "--out", str(tmp_path))
    script = (tmp_path / "launch.sh").read_text().replace("\n# ", " ")
    assert figures in script


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "llama-3-8b", "--machine", "dgx-h100"),
        ("plan", "gpt2", "--machine", "dgx-h100"),
        ("plan", "resnet50", "--machine", "dgx-a100"),
        ("predict", "--set", "model=llama-3-8b", "--set", "gpu=H100-SXM-80GB", "--set", "n_gpus=8"),
    ],
    ids=" ".join,
)
def test_the_terms_of_memory_add_up_to_their_total_and_the_worst_case_to_its_parts(
    capsys, monkeypatch, words
):
    monkeypatch.setenv("COLUMNS", "140")
    assert command_line([*words, "-q"]) == 0
    text = capsys.readouterr().out
    names = "parameters|gradients|optimizer|activations|logits|buffers|overhead"
    terms = re.findall(rf"^ +(?:{names}) +([0-9.]+) GiB  [0-9]", text, re.MULTILINE)
    (total,) = re.findall(r"^ +total +([0-9.]+) GiB$", text, re.MULTILINE)
    assert len(terms) > 4
    assert sum(map(Decimal, terms)) == Decimal(total)
    (parts,) = re.findall(
        r"^ +worst case: ([0-9.]+) GiB \(([0-9.]+) GiB needed when memory is short \+ ([0-9.]+) GiB for",
        text,
        re.M,
    )
    upper, needed, error = map(Decimal, parts)
    assert upper == needed + error
    if words[0] == "plan":
        assert f"memory margin {error} GiB" in text


def test_the_machine_is_named_once(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    assert command_line(["plan", "gpt2", "--machine", "dgx-h100", "--nodes", "2", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == "on 2 nodes × 8 ranks of NVIDIA H100 80GB HBM3  catalogue machine dgx-h100"
    assert command_line(["plan", "gpt2", "--gpu", "H100", "--gpus", "4", "-q"]) == 0
    assert capsys.readouterr().out.splitlines()[3] == "on 4 ranks of H100 SXM 80 GB"


def _predicted(capsys, micro_batch):
    sizes = {"model": "llama-3-8b", "gpu": "H100-SXM-80GB", "n_gpus": 8, "sharding": "fsdp", "seq_len": 8192}
    case = {**sizes, "micro_batch": micro_batch, "activation_checkpointing": "full"}
    settings = [word for name, value in case.items() for word in ("--set", f"{name}={value}")]
    text = _said(capsys, "predict", *settings)
    (row,) = json.loads(_said(capsys, "predict", *settings, "--format", "json"))["cases"]
    return text, row


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 4, 5, 8])
def test_a_prediction_has_the_three_figures_and_says_whether_it_fits_in_the_worst_case(capsys, micro_batch):
    text, row = _predicted(capsys, micro_batch)
    memory, limit = row["memory"], row["memory_limit_gib"] * 2**30
    assert memory_words(memory["allocated"], memory["reserved"], memory["upper"]) in text
    assert row["fits"] == (memory["needed"] <= limit)
    assert ("does not fit in" in text) == (not row["fits"])
    assert ("but not in the worst case" in text) == (row["fits"] and memory["upper"] > limit)


def test_a_plan_calls_fitting_what_a_prediction_calls_fitting(capsys):
    plan = ["plan", "llama-3-8b", "--machine", "dgx-h100", "--program", "own", "--format", "json"]
    answer = json.loads(_said(capsys, *plan))
    limit = answer["cluster"]["memory_bytes_per_rank"]["value"]
    for choice in (answer["chosen"], *answer["alternatives"]):
        assert choice["predicted"]["memory_bytes_per_gpu"]["needed"] <= 0.95 * limit
    assert answer["rejected"]
    for row in answer["rejected"]:
        needed = float(re.match(r"needs ([0-9.]+) GiB of ", row["reason"])[1]) * 2**30
        assert needed >= 0.95 * limit - 2**27
        assert ("stay free" in row["reason"]) == (needed <= limit)
        pinned = [*plan, "--strategy", row["candidate"]["strategy"], "--headroom", "0"]
        code = command_line([*pinned, "--micro-batch", str(row["candidate"]["micro_batch"]), "-q"])
        chosen = json.loads(capsys.readouterr().out)["chosen"] if code == 0 else None
        fits = chosen is not None and chosen["predicted"]["memory_bytes_per_gpu"]["needed"] <= limit
        assert fits == (needed <= limit)
