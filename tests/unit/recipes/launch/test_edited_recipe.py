"""Test that a recipe which a person edited is predicted again, and that their decisions are marked."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
import tomli_w

from assistant.cli import command_line
from assistant.usecases.plan import PlanRequest, plan_workload
from assistant.usecases.probe import probe_machine
from probes.base.errors import InputError, NoFeasiblePlanError, UsageError
from probes.collect.collecting import CollectOptions
from probes.facts.measurements import Measurement
from probes.sources.choose import open_source
from recipes.job.pins import Pins
from recipes.launch.edited import refreshed
from recipes.launch.recipe import Command, Prediction
from recipes.launch.recipe_file import dump_recipe, faults, load_recipe
from recipes.launch.resolve import fingerprint_of, recipe_of
from recipes.planning.programs import load_programs

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

OWN = Command(kind="script", target="train.py")


def _recipe(model="llama-3-8b", machine="dgx-h100", measurements=(), command=OWN, **request):
    *_, probed = probe_machine(open_source((), machine), CollectOptions())
    *_, planned = plan_workload(probed.result, measurements, PlanRequest(model=model, **request))
    return recipe_of(planned.result, name="job", command=command, python="")


def _step(**parameters):
    values = {"model": "gpt2", "strategy": "ddp", "micro_batch": 16, "grad_accum": 1, "precision": "bf16"}
    return Measurement(
        bench_id="train-step",
        subject="8 ranks",
        metric="step_time_s",
        unit="s",
        samples=(0.1, 0.11, 0.12),
        parameters={**values, "sequence_length": 1024, "world_size": 8, **parameters},
    )


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("gpt2", {}),
        ("gpt2", {"measurements": (_step(), _step(micro_batch=64))}),
        ("gpt2", {"command": Command(kind="reference")}),
        ("llama-3-8b", {"nodes": 4}),
        ("llama-3-8b", {"pins": Pins(micro_batch=1, learning_rate=1.23456789e-4)}),
        ("mixtral-8x7b", {"nodes": 4}),
        ("gemma-2-9b", {"nodes": 2}),
        ("bert-large", {"machine": "dgx-a100"}),
        ("deepseek-v2-lite", {"nodes": 4}),
    ],
)
def test_a_recipe_that_nobody_edited_keeps_its_figures_and_reasons(model, more):
    recipe = _recipe(model, **more)
    assert recipe.predicted.peak_memory_bytes
    assert refreshed(recipe) == recipe
    assert refreshed(load_recipe(dump_recipe(recipe), "recipe.toml")) == recipe


@pytest.mark.parametrize("program", [name for name in load_programs() if name != "reference"])
def test_the_recipe_of_every_program_keeps_its_figures_and_its_layout(program):
    try:
        recipe = _recipe("llama-3.2-1b", nodes=2, program=program, command=Command(kind="program"))
    except NoFeasiblePlanError:
        pytest.skip(f"llama-3.2-1b does not fit with {program}")
    assert recipe.program == program
    assert refreshed(recipe) == recipe
    again = load_recipe(dump_recipe(recipe), "recipe.toml")
    assert again == recipe
    assert again.parallelism.candidate.degrees == recipe.parallelism.degrees


@pytest.mark.parametrize(
    "request_",
    [
        {"tuning": "lora", "lora_rank": 8},
        {"tuning": "qlora"},
        {"program": "torchtitan", "precision": "fp8"},
        {"program": "megatron", "nodes": 4, "pins": Pins(tp=4, pp=4, vp=2)},
        {"program": "deepspeed", "pins": Pins(strategy="zero2")},
        {"nodes": 4, "pins": Pins(strategy="hsdp")},
    ],
    ids=str,
)
def test_any_job_and_layout_survives_the_file(request_):
    recipe = _recipe("llama-3-8b", **request_)
    assert recipe.job.tuning == request_.get("tuning", "full")
    assert recipe.job.adapter_rank == request_.get("lora_rank", 16)
    assert recipe.parallelism.precision == request_.get("precision", "bf16")
    assert refreshed(load_recipe(dump_recipe(recipe), "recipe.toml")) == recipe
    assert all(len(chosen.alternatives) <= 5 for chosen in recipe.decisions)


NEW_IN_PARALLELISM = ("dp", "fsdp", "tp", "pp", "vp", "cp", "ep", "pipeline_schedule", "recomputed_share")


@pytest.mark.parametrize(("model", "nodes"), [("gpt2", 1), ("llama-3-8b", 4)])
def test_a_recipe_of_an_older_version_loads_with_the_same_figures(model, nodes):
    recipe = _recipe(model, nodes=nodes, pins=Pins(strategy="fsdp" if nodes > 1 else "ddp"))
    document = tomllib.loads(dump_recipe(recipe))
    for name in ("program", "job", "made_for"):
        document.pop(name, None)
    for name in NEW_IN_PARALLELISM:
        del document["parallelism"][name]
    for decision in document["decisions"]:
        decision.pop("alternatives")
    old = load_recipe(tomli_w.dumps(document), "old.toml")
    assert old.parallelism.degrees == recipe.parallelism.degrees
    again = refreshed(old)
    assert again == old
    assert again.predicted == recipe.predicted
    assert not list(faults(again))


def test_an_edited_degree_is_predicted_again_and_marked():
    recipe = _recipe("llama-3-8b", nodes=4, program="megatron", pins=Pins(tp=2, pp=2, vp=1, cp=1))
    edited = _edited(recipe, tp=4, dp=4, grad_accum=2 * recipe.parallelism.grad_accum)
    again = refreshed(edited)
    assert again.predicted.step_time_s != recipe.predicted.step_time_s
    assert any(reason.startswith("tp = 4 (yours)") for reason in again.reasons)


def test_the_fingerprint_follows_the_machine():
    *_, probed = probe_machine(open_source((), "dgx-h100"), CollectOptions())
    *_, planned = plan_workload(probed.result, (), PlanRequest(model="gpt2"))
    facts, cluster = probed.result, planned.result.cluster
    mine = fingerprint_of(facts, cluster)
    assert "8 x NVIDIA H100" in mine.machine
    assert mine == fingerprint_of(facts, cluster)
    fewer = msgspec.structs.replace(facts, gpus=facts.gpus[:7])
    slower = msgspec.structs.replace(cluster, memory_bandwidth_bytes_per_s=None)
    assert len({mine, fingerprint_of(fewer, cluster), fingerprint_of(facts, slower)}) == 3
    recipe = recipe_of(planned.result, name="job", command=OWN, python="", facts=facts)
    assert recipe.made_for == mine
    assert load_recipe(dump_recipe(recipe), "recipe.toml") == recipe


def _edited(recipe, **changes):
    parts = {
        part: {name: value for name, value in changes.items() if hasattr(getattr(recipe, part), name)}
        for part in ("parallelism", "convergence", "model")
    }
    replaced = {
        part: msgspec.structs.replace(getattr(recipe, part), **values) for part, values in parts.items()
    }
    return load_recipe(dump_recipe(msgspec.structs.replace(recipe, **replaced)), "recipe.toml")


def test_an_edited_recipe_has_the_prediction_of_the_plan_with_these_settings():
    planned = _recipe("gpt2")
    chosen = planned.parallelism
    micro_batch = chosen.micro_batch // 2
    other = _recipe("gpt2", pins=Pins(micro_batch=micro_batch, learning_rate=2e-4))
    edited = _edited(
        planned,
        micro_batch=micro_batch,
        grad_accum=other.parallelism.grad_accum,
        strategy=other.parallelism.strategy,
        dp=other.parallelism.dp,
        fsdp=other.parallelism.fsdp,
        activation_checkpointing=other.parallelism.activation_checkpointing,
        learning_rate=2e-4,
    )
    again = refreshed(edited)
    assert again.predicted == other.predicted != planned.predicted
    reasons = "\n".join(again.reasons)
    was = f"rigtune had chosen {chosen.micro_batch} (modelled)"
    assert f"micro_batch = {micro_batch} (yours): {was}" in reasons
    assert "learning_rate = 0.0002 (yours): rigtune had chosen" in reasons
    assert f"micro_batch = {chosen.micro_batch} (" not in reasons
    assert refreshed(again) == again
    assert refreshed(load_recipe(dump_recipe(again), "recipe.toml")) == again


def test_a_micro_batch_that_may_not_fit_is_warned_of():
    planned = _recipe()
    again = refreshed(_edited(planned, micro_batch=8, grad_accum=8, global_batch=512))
    assert any("may run out of memory: " in note for note in again.notes)
    back = refreshed(_edited(again, micro_batch=1, grad_accum=64))
    assert not any("may run out of memory" in note for note in back.notes)


def test_other_numbers_of_nodes_have_no_step_time_but_memory():
    planned = _recipe("gpt2")
    twice = {"nodes": 2, "dp": 16, "global_batch": 2 * planned.parallelism.global_batch}
    again = refreshed(_edited(planned, **twice))
    assert again.predicted.step_time_s is None
    assert again.predicted.peak_memory_bytes
    assert any(reason.startswith("nodes = 2 (yours): the plan had 1") for reason in again.reasons)
    assert refreshed(again) == again
    back = refreshed(_edited(again, nodes=1, dp=8, global_batch=planned.parallelism.global_batch))
    assert back.predicted == planned.predicted
    assert not any(reason.startswith("nodes = ") for reason in back.reasons)


def test_a_model_that_was_edited_is_not_the_one_that_was_measured():
    planned = _recipe("gpt2", measurements=(_step(), _step(micro_batch=64)))
    share = planned.parallelism.micro_batch
    anchored = _recipe("gpt2", measurements=(_step(micro_batch=share),))
    again = refreshed(_edited(anchored, layers=24))
    assert again.predicted.peak_memory_bytes > anchored.predicted.peak_memory_bytes
    spread = again.predicted.step_time_high_s / again.predicted.step_time_s
    assert spread > 1.15


def test_a_recipe_without_a_machine_does_not_pretend():
    planned = msgspec.structs.replace(_recipe("gpt2"), machine=None)
    again = refreshed(planned)
    assert any("could not be made again" in note for note in again.notes)
    assert refreshed(again) == again
    nothing = msgspec.structs.replace(planned, predicted=Prediction())
    assert refreshed(nothing) == nothing


def test_an_environment_variable_that_was_changed_is_theirs():
    planned = _recipe("gpt2")
    text = dump_recipe(planned).replace(
        'name = "OMP_NUM_THREADS"\nvalue = "', 'name = "OMP_NUM_THREADS"\nvalue = "9', 1
    )
    again = refreshed(load_recipe(text, "recipe.toml"))
    variable = next(each for each in again.environment if each.name == "OMP_NUM_THREADS")
    assert variable.why.startswith("Yours; rigtune had chosen")
    assert refreshed(again) == again


def test_the_script_of_an_edited_recipe_states_the_new_figures(tmp_path, capsys):
    file = tmp_path / "recipe.toml"
    plan = ["plan", "llama-3-8b", "--machine", "dgx-h100", "-q", "-o", str(file)]
    assert command_line(plan) == 0
    assert command_line(["export", str(file), "--out", str(tmp_path / "a"), "-q"]) == 0
    text = file.read_text()
    file.write_text(text.replace("micro_batch = 2\ngrad_accum = 32", "micro_batch = 4\ngrad_accum = 16"))
    capsys.readouterr()
    assert command_line(["export", str(file), "--out", str(tmp_path / "b")]) == 0
    assert "micro_batch = 4 (yours)" in capsys.readouterr().err
    before, after = ((tmp_path / folder / "launch.sh").read_text() for folder in "ab")
    figures = [
        next(line for line in script.splitlines() if "Predicted:" in line) for script in (before, after)
    ]
    assert figures[0] != figures[1]
    exported = load_recipe((tmp_path / "b" / "recipe.toml").read_text(), "recipe.toml")
    (micro_batch,) = (each for each in exported.decisions if each.name == "micro_batch")
    assert (micro_batch.value, micro_batch.basis) == ("4", "user")
    # An edited recipe in the folder of its scripts stays as its owner wrote it.
    own = tmp_path / "b" / "recipe.toml"
    own.write_text(own.read_text().replace("warmup_steps = 100", "warmup_steps = 50") + "# mine\n")
    kept = own.read_bytes()
    assert command_line(["export", str(own), "--out", str(tmp_path / "b"), "-q"]) == 0
    assert own.read_bytes() == kept


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("layers = 12", "layers = 100000000000"),
        ("heads = 12", "heads = 7"),
        ("[model_details]", "[model_details]\nexperts = 8"),
        ("[model_details]", "[model_details]\ncolour = 8"),
        ("[model_details]", "[model_details]\nhead_fraction = 0"),
        ('device = "cuda"\ndevice_name', 'device = "tpu"\ndevice_name'),
        ("value = 794500000000000.0", "value = 0.0"),
        ("value = 794500000000000.0", "value = nan"),
        ("value = 794500000000000.0", "value = -1"),
        ("value = 794500000000000.0", "value = 1e-320"),
        ("value = 794500000000000.0", f"value = {10**400}"),
        ("value = 3350000000000.0", "value = 1e-320"),
        ("vocab = 50257", "vocab = 999999999"),
        ("micro_batch = ", "micro_batch = 9"),
    ],
)
def test_a_contradictory_recipe_is_refused_or_has_sound_figures(was, becomes):
    text = dump_recipe(_recipe("gpt2"))
    assert was in text
    again = None
    with contextlib.suppress(InputError, UsageError):
        again = refreshed(load_recipe(text.replace(was, becomes), "recipe.toml"))
    assert again is None or load_recipe(dump_recipe(again), "again.toml") == again
