"""Test that DeepSpeed trains with the exported files, and accepts the configurations of 3 to 512 ranks."""

from __future__ import annotations

import json

import pytest

from recipes.launch.known_names import known_names
from recipes.launch.recipe import Command
from tests.support.hf_programs import SCRIPTS, hf_python, reports, run_script

pytestmark = pytest.mark.slow

STAGES = {"ddp": 0, "zero1": 1, "zero2": 2, "fsdp": 3}
CHECK = """
import json, sys
import deepspeed.runtime.config as config
text, world = open(sys.argv[1]).read(), int(sys.argv[2])
config.dist.get_world_size = lambda *_: world
config.dist.get_rank = lambda *_: 0
made = config.DeepSpeedConfig(json.loads(text))
print("BATCH", int(made.train_batch_size), made.zero_optimization_stage)
"""
NAMES = """
import inspect, json, torch
import deepspeed.runtime.config as config
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero import offload_config as offload

names = set()
class Recorded(dict):
    def __init__(self, content, above=""):
        super().__init__(content)
        self.above = above
    def get(self, name, default=None):
        names.add(self.above + name)
        return super().get(name, default)
    def __contains__(self, name):
        names.add(self.above + name)
        return super().__contains__(name)
    def __getitem__(self, name):
        names.add(self.above + name)
        return super().__getitem__(name)

blocks = {"data_types": {}, "optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR"}}
top = {name: Recorded(block, name + ".") for name, block in blocks.items()}
config.copy.deepcopy = lambda value: value
config.dist.get_world_size = lambda *_: 1
config.dist.get_rank = lambda *_: 0
config.DeepSpeedConfig(Recorded({"train_micro_batch_size_per_gpu": 1, **top}))
for block, kind in (
    ("zero_optimization", DeepSpeedZeroConfig), ("bf16", DeepSpeedBF16Config), ("fp16", DeepSpeedFP16Config),
    ("zero_optimization.offload_param", offload.DeepSpeedZeroOffloadParamConfig),
    ("zero_optimization.offload_optimizer", offload.DeepSpeedZeroOffloadOptimizerConfig),
):
    for name, field in kind.model_fields.items():
        names |= {f"{block}.{name}", f"{block}.{field.alias or name}"}
for kind in (lr_schedules.WarmupLR, lr_schedules.WarmupDecayLR, lr_schedules.WarmupCosineLR):
    names |= {f"scheduler.params.{name}" for name in inspect.signature(kind).parameters}
for kind in (torch.optim.AdamW, torch.optim.SGD):
    names |= {f"optimizer.params.{name}" for name in inspect.signature(kind).parameters}
names |= {"optimizer.params.torch_adam", "optimizer.params.adam_w_mode"}
print(json.dumps(sorted(names)))
"""


@pytest.mark.parametrize("strategy", STAGES)
def test_two_ranks_train_with_the_stage_and_the_batch_of_the_plan(make_recipe, export, tmp_path, strategy):
    recipe = make_recipe(
        program="deepspeed",
        command=Command(
            kind="script", target=str(SCRIPTS / "deepspeed_train.py"), arguments=("--steps", "{steps}")
        ),
        resources={"python": hf_python()},
        parallelism={"strategy": strategy, "precision": "bf16"},
    )
    ranks = reports(run_script(export("torchrun", recipe, tmp_path)))
    assert [rank["world"] for rank in ranks] == [2, 2]
    for rank in ranks:
        assert rank["stage"] == STAGES[strategy]
        assert (rank["micro_batch"], rank["grad_accum"], rank["batch"]) == (2, 2, 8)
        assert (rank["optimizer"], rank["scheduler"]) == ("AdamW", "WarmupCosineLR")
        summed = "float32" if strategy != "ddp" else "bfloat16"
        assert rank["dtype"] == f"(torch.bfloat16, torch.{summed})"
        # the last rate is a tenth of the peak 3e-3, as the plan states
        assert rank["rates"] == pytest.approx(3e-4, rel=0.05)
        assert rank["losses"][-1] < rank["losses"][0] - 0.5


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
def test_deepspeed_accepts_the_batch_for_each_number_of_ranks(make_recipe, export, tmp_path, precision):
    python = hf_python()
    for strategy, world in (("zero1", 4), ("zero2", 64), ("fsdp", 512), ("ddp", 3)):
        recipe = make_recipe(
            program="deepspeed",
            nodes=world // 4 or 1,
            ranks_per_node=world if world < 4 else 4,
            command=Command(kind="script", target="train.py"),
            parallelism={"strategy": strategy, "precision": precision},
        )
        folder = tmp_path / f"{world}"
        export("torchrun", recipe, folder)
        output = run_script(python, "-c", CHECK, folder / "ds_config.json", world, DS_ACCELERATOR="cpu")
        assert f"BATCH {recipe.parallelism.global_batch} {STAGES[strategy]}" in output


def test_half_of_the_ranks_count_when_two_share_a_sequence(make_recipe, export, tmp_path):
    recipe = make_recipe(
        program="deepspeed",
        ranks_per_node=8,
        command=Command(kind="script", target="train.py"),
        parallelism={"strategy": "zero2", "dp": 4, "fsdp": 1, "cp": 2, "global_batch": 16},
    )
    export("torchrun", recipe, tmp_path)
    output = run_script(hf_python(), "-c", CHECK, tmp_path / "ds_config.json", 8, DS_ACCELERATOR="cpu")
    assert "BATCH 16 2" in output


def test_the_installed_version_reads_every_known_name():
    output = run_script(hf_python(), "-c", NAMES, DS_ACCELERATOR="cpu")
    installed = next(json.loads(line) for line in output.splitlines() if line.startswith('["'))
    assert known_names("deepspeed").names - set(installed) == set()
