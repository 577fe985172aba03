"""Test that axolotl's own schema accepts the exported file, keeps every key, and has every known name."""

from __future__ import annotations

import json

import msgspec
import pytest

from recipes.launch.known_names import known_names
from recipes.launch.recipe import CheckpointSettings, Command, Convergence, Job
from tests.support.hf_programs import program_python, run_script

pytestmark = pytest.mark.slow

VALIDATED = """
import json, sys, yaml
from axolotl.utils.config import validate_config
from axolotl.utils.dict import DictDefault
written = yaml.safe_load(open(sys.argv[1]))
checked = validate_config(
    DictDefault(json.loads(json.dumps(written))),
    capabilities={"bf16": True, "fp8": True, "n_gpu": 8, "n_node": 1, "compute_capability": "sm_90"},
    env_capabilities={"torch_version": "2.13.0"},
).to_dict()
print("CHECKED " + json.dumps({"written": written, "checked": checked}, default=str))
"""
NAMES = """
import json
from axolotl.utils.schemas.config import AxolotlInputConfig
from axolotl.utils.schemas.fsdp import FSDPConfig
names = [*AxolotlInputConfig.model_fields, *(f"fsdp_config.{name}" for name in FSDPConfig.model_fields)]
print("NAMES " + json.dumps(names))
"""
CASES = {
    "lora": {"job": Job(tuning="lora", adapter_rank=16)},
    "qlora": {
        "job": Job(tuning="qlora", adapter_rank=16),
        "parallelism": {"activation_checkpointing": "full"},
    },
    "fsdp": {"parallelism": {"strategy": "fsdp", "activation_checkpointing": "full"}},
    "hsdp": {"ranks_per_node": 8, "parallelism": {"strategy": "hsdp", "dp": 2, "fsdp": 4}},
    "zero2": {"parallelism": {"strategy": "zero2", "activation_checkpointing": "full"}},
}


@pytest.fixture
def python():
    return program_python("RIGTUNE_AXOLOTL_PYTHON", "axolotl")


@pytest.mark.parametrize("case", CASES)
def test_the_schema_keeps_every_setting(make_recipe, export, tmp_path, python, case):
    fields = dict(CASES[case])
    fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
    recipe = make_recipe(
        program="axolotl",
        command=Command(kind="program"),
        resources={"device": "cuda", "backend": "nccl"},
        slots={"model": "org/model", "data": "/data/chats.jsonl", "output": "/out"},
        checkpoints=CheckpointSettings(every_steps=7),
        convergence=Convergence(learning_rate=3e-5, warmup_steps=2, steps=20, gradient_clipping=0.5),
        **fields,
    )
    recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))
    export("torchrun", recipe, tmp_path)
    output = run_script(python, "-c", VALIDATED, tmp_path / "axolotl.yaml")
    answer = json.loads(output.partition("CHECKED ")[2].splitlines()[0])
    written, checked = answer["written"], answer["checked"]
    for block in (written, checked):
        block["datasets"] = [{name: row[name] for name in ("path", "type")} for row in block["datasets"]]
    for name, value in written.items():
        if isinstance(value, dict):
            assert {key: checked[name].get(key) for key in value} == value
        else:
            assert checked[name] == value, name


def test_the_installed_version_has_every_known_name(python):
    output = run_script(python, "-c", NAMES)
    installed = set(json.loads(output.partition("NAMES ")[2].splitlines()[0]))
    known = {name for name in known_names("axolotl").names if not name.startswith("lr_scheduler_kwargs.")}
    assert known - installed == set()
