"""Test that the counts of a user's module follow from its arithmetic, and that refusals state the reason."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from probes.base.errors import InputError
from recipes.job.models.counted import counted_model
from tests.workers.conftest import DEADLINE_S

MODULES = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(64, 192, bias=False), nn.Linear(64, 64, bias=False)

    def forward(self, x):
        q, k, v = self.into(x).view(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


def linear(device, micro_batch=4):
    return nn.Linear(32, 16, bias=False), torch.randn(micro_batch, 32)


def attention(device, micro_batch=2):
    return Attention(), torch.randn(micro_batch, 32, 64)


def convolution(device, micro_batch):
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)]
    net = nn.Sequential(*layers)
    return net, torch.randn(micro_batch, 3, 8, 8)


def mixed(device):
    return nn.Linear(4, 4, dtype=torch.bfloat16), (torch.randn(2, 4, dtype=torch.bfloat16),)


class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(3))

    def forward(self, x):
        x = self.table(x)
        for layer in self.layers:
            x = layer(x)
        return x


def layered(device, micro_batch=2):
    return Layered(), torch.zeros(micro_batch, 4, dtype=torch.long, device=device)


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return x if self.inner(x).sum() > 0 else self.inner(x)  # looks at a value


def looking(device):
    return Looks(), torch.randn(2, 4)


def nothing(device):
    return 3


def elsewhere(device):
    return nn.Linear(3, 3, device="cpu"), torch.randn(2, 3)


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4, bias=False)

    def forward(self, x):
        return {"loss": self.inner(x).sum(), "other": self.inner(x) @ torch.randn(4, 100)}


def losing(device, micro_batch=1):
    return Loss(), {"x": torch.randn(micro_batch, 4)}
"""


@pytest.fixture(scope="module")
def counted(
    torch_python: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Any]:
    folder: Path = tmp_path_factory.mktemp("own_modules")
    (folder / "modules.py").write_text(MODULES)

    def run(function: str) -> Any:
        target, out = f"modules.py:{function}", folder / f"{function}.json"
        subprocess.run(
            (torch_python, "-m", "rigtune_worker.count", target, "--folder", str(folder), "--out", str(out)),
            env=environment,
            cwd=folder,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return json.loads(out.read_text())

    return run


def test_a_linear_layer_is_three_products(counted):
    answer = counted("linear")
    each = answer["per_sample"]
    assert answer["parameters"] == {"float32": 512}
    assert each["forward_flops"] == 2 * 512
    assert each["dense_flops"] == 2 * 2 * 512  # the input needs no gradient
    assert each["saved_bytes"] == 4 * 32  # the input alone: weights are in memory anyway
    assert answer["step"]["saved_bytes"] == 4 * each["saved_bytes"]
    assert answer["operators"] >= 2


def test_repeated_layers_are_the_units_of_full_sharding(counted):
    answer = counted("layered")
    assert (answer["block_parameters"], answer["root_parameters"]) == (64, 80)
    alone = counted("linear")
    assert (alone["block_parameters"], alone["root_parameters"]) == (0, 512)


def test_attention_keeps_no_scores_and_counts_half_of_them_where_it_is_causal(counted):
    each = counted("attention")["per_sample"]
    products = 2 * 32 * (64 * 192 + 64 * 64)
    scores = 2 * 2 * 4 * 32 * 32 * 16 / 2
    assert each["forward_flops"] == products + scores
    # input, queries with keys and values, output and its flattened copy, one number per row
    assert each["saved_bytes"] == pytest.approx(4 * 32 * (64 + 192 + 64 + 4), rel=0.25)


def test_convolutions_and_products_are_counted_apart(counted):
    answer = counted("convolution")
    each = answer["per_sample"]
    assert sum(answer["parameters"].values()) == 3 * 8 * 9 + 8 + 16 + 5130
    assert each["forward_flops"] == 2 * 64 * 8 * 27 + 2 * 5120
    assert each["convolution_elements"] > 0 < each["matrix_elements"]
    assert each["spatial_flops"] + each["product_flops"] <= each["dense_flops"]


def test_a_module_with_a_loss_is_derived_from_it_alone(counted):
    answer = counted("losing")
    assert answer["per_sample"]["dense_flops"] - answer["per_sample"]["forward_flops"] == 2 * 16


def test_parameters_are_counted_by_data_type(counted):
    answer = counted("mixed")
    assert answer["parameters"] == {"bfloat16": 20}
    assert not answer["takes_micro_batch"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("looking", "meta tensors"),
        ("nothing", "returned int"),
        ("elsewhere", "built on cpu"),
        ("missing", "no function 'missing'"),
    ],
)
def test_a_model_that_cannot_be_counted_is_refused_with_the_reason(counted, function: str, words: str):
    answer = counted(function)
    assert answer["event"] == "failure"
    assert words in answer["message"]
    with pytest.raises(InputError, match=words):
        counted_model(json.dumps(answer), function)


def test_the_count_becomes_a_model_for_predictions(counted):
    model = counted_model(json.dumps(counted("convolution")), "modules.py:convolution")
    assert model.parameters == 5370
    assert model.forward_flops == 2 * 64 * 8 * 27 + 2 * 5120
    assert model.operators > 5
