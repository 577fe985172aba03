"""Test that `plan` and `predict` give one answer for the same job, program and layout."""

from __future__ import annotations

import pytest

from probes.base.errors import NoFeasiblePlanError
from probes.base.units import GIB
from probes.catalogue.hardware import load_catalogue
from recipes.cases.prediction import CasePrediction, predict_row
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.job.workload import Tuning
from recipes.machine.from_words import MachineWords, cluster_from_words
from recipes.planning.plan import Choice
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.programs import load_programs, program_named
from tests.support.plans import FACTS

CLUSTER = cluster_from_words(MachineWords(gpu="A100-SXM-80GB", gpus=8), load_catalogue())
STACKS = {"own": "", "reference": "rigtune-worker", "ray-train": "rigtune-worker"}
STACKS |= {"horovod": "torch"}
"""Stack of each program whose id is not also the name of its stack; blank for a loop of the user's own."""
SHARDINGS = {"none": "ddp", "zero3": "fsdp"}


def predicted(choice: Choice, program: str, tuning: Tuning, model: str) -> CasePrediction:
    """Return what `predict` answers about the layout that a plan has chosen."""
    degrees = choice.degrees
    words = choice.activation_checkpointing
    if choice.recomputed_share < 1:
        words += f" {choice.recomputed_share:.0%}"
    row = {
        "case_id": "one",
        "model": model,
        "gpu": "A100-SXM-80GB",
        "n_gpus": "8",
        "task": "pretrain" if tuning == "full" else tuning,
        "stack": STACKS.get(program, program) if tuning == "full" or program not in STACKS else "",
        # A blank cell is the default of the framework, which is fp32 for some.
        "precision": f"{choice.precision}-mixed" if tuning == "full" else "",
        "sharding": SHARDINGS.get(choice.sharding, choice.sharding),
        "seq_len": "2048",
        "activation_checkpointing": words,
        "micro_batch": str(choice.micro_batch),
        "global_batch": str(choice.global_batch),
        **{name: str(getattr(degrees, name)) for name in ("tp", "pp", "cp")},
    }
    if choice.sharding == "zero3":
        row["fsdp"] = str(degrees.fsdp)
    if degrees.pp > 1:
        row |= {"pp_schedule": choice.schedule, "vp": str(degrees.vp)}
    answer = predict_row(row)
    assert answer.status == "predicted", answer.reason
    return answer


@pytest.mark.parametrize("model", ["llama-3.2-1b", "llama-3-8b"])
@pytest.mark.parametrize(
    ("program", "tuning"), [(row.id, tuning) for row in load_programs().values() for tuning in row.tunings]
)
def test_plan_and_predict_give_one_answer(program: str, tuning: Tuning, model: str) -> None:
    row = program_named(program)
    workload = default_workload(
        find_model(model),
        CLUSTER,
        program=row,
        tuning=tuning,
        sequence_length=2048,
        global_batch=64,
    )
    try:
        chosen = make_plan(workload, CLUSTER, FACTS, Pins(micro_batch=1), program=row).chosen
    except NoFeasiblePlanError:
        return
    answer = predicted(chosen, program, tuning, model)
    assert answer.memory is not None
    memory, time = chosen.predicted.memory_bytes_per_gpu, chosen.predicted.step_time_s.total
    assert answer.memory.total / GIB == pytest.approx(memory.total / GIB, rel=0.01)
    assert answer.step_time_s == pytest.approx(time, rel=0.01)


@pytest.mark.parametrize(
    ("stack", "bytes_per_weight"),
    [("torchtune", 4), ("litgpt", 4), ("trl", 8), ("unsloth", 8), ("hf-trainer", 8), ("megatron", 12)],
)
def test_adapters_have_the_type_that_the_software_gives_them(stack: str, bytes_per_weight: int) -> None:
    """The word `bf16` states the type of the frozen weights; peft raises adapters to fp32."""
    row = {"case_id": "one", "model": "llama-3-8b", "gpu": "H100-SXM-80GB", "n_gpus": "1", "task": "lora"}
    row |= {"lora_rank": "256", "lora_targets": "attention", "micro_batch": "1", "seq_len": "1024"}
    usual, stated, plain = (
        predict_row({**row, **more}).memory
        for more in ({"stack": stack}, {"stack": stack, "precision": "bf16"}, {})
    )
    assert usual is not None
    assert stated is not None
    assert plain is not None
    assert stated.optimizer == pytest.approx(usual.optimizer, rel=1e-6)
    assert stated.parameters == pytest.approx(usual.parameters, rel=1e-6)
    assert stated.optimizer / plain.optimizer == pytest.approx(bytes_per_weight / 8, rel=0.01)


@pytest.mark.parametrize("words", ["ddp", "", "no_shard"])
@pytest.mark.parametrize("stage", ["", "0", "1"])
def test_shared_optimizer_states_of_megatron_are_named(words: str, stage: str) -> None:
    """Tables of Megatron's runs write ddp for runs with its distributed optimizer."""
    row = {"case_id": "one", "model": "llama-3-8b", "gpu": "H100-SXM-80GB", "n_gpus": "8", "tp": "2"}
    row |= {"stack": "megatron", "micro_batch": "1", "sharding": words, "zero_stage": stage}
    answer = predict_row(row)
    is_assumed = stage == "" and words != "no_shard"
    assert ("zero1" in answer.layout) is (is_assumed or stage == "1")
    assert any("zero1, the default of megatron-core" in note for note in answer.assumed) is is_assumed
