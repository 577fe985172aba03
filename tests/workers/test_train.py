"""Test the reference training program: equal losses however ranks share the work, and clean ends."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from recipes.job.models.counts import load_models, parameter_count
from recipes.launch.recipe import ModelShape
from recipes.launch.reference_files import not_in_reference
from tests.workers.conftest import DEADLINE_S, TINY


def losses(finished) -> list[float]:
    assert finished.returncode == 0, finished.stderr
    return [line["loss"] for line in finished.report if line["event"] == "step"]


@pytest.fixture(scope="module")
def alone(train):
    return train(ranks=1, micro_batch=8)


@pytest.fixture(scope="module")
def ddp(train):
    return train(ranks=2)


def test_the_parameter_count_is_the_planners(in_torch):
    models = [model for model in load_models() if not not_in_reference(model)]
    shapes = [{name: getattr(model, name) for name in ModelShape.__struct_fields__} for model in models]
    code = (
        "import torch\nfrom rigtune_worker.model import ModelShape, Transformer\n"
        f"shapes = json.loads({json.dumps(shapes)!r})\n"
        "with torch.device('meta'):\n"
        "    answer = {s['id']: sum(p.numel() for p in Transformer(ModelShape.from_dict(s)).parameters()) "
        "for s in shapes}"
    )
    assert in_torch(code) == {model.id: parameter_count(model) for model in models}


def test_attention_is_causal_and_positions_matter(in_torch):
    """Changing a later token changes no earlier logits; swapping two earlier tokens changes the later
    ones.
    """
    code = f"""
import torch
from rigtune_worker.model import ModelShape, Transformer, initialise
answer = []
gpt2 = {{"learned_positions": 32, "norm": "layernorm", "bias": True}}
gpt2 |= {{"tied_embeddings": True, "gated_mlp": False}}
for changes in ({{}}, gpt2):
    shape = ModelShape.from_dict({{**{TINY!r}, **changes}})
    model = Transformer(shape)
    initialise(model, torch.Generator().manual_seed(0), shape.layers)
    tokens = torch.arange(16)[None] * 3
    later, swapped = tokens.clone(), tokens.clone()
    later[0, 10] = 200
    swapped[0, [2, 5]] = tokens[0, [5, 2]]
    first, second, third = (model(t)[0] for t in (tokens, later, swapped))
    answer.append([bool(torch.equal(first[:10], second[:10])), bool(torch.allclose(first[10:], second[10:])),
                   bool(torch.allclose(first[-1], third[-1], atol=1e-7, rtol=0))])
"""
    assert in_torch(code) == [[True, False, False], [True, False, False]]


def test_two_ranks_learn_what_one_learns_with_the_same_global_batch(alone, ddp):
    assert losses(ddp) == pytest.approx(losses(alone), rel=1e-4)


def test_accumulation_changes_nothing(train, alone):
    assert losses(train(ranks=1, micro_batch=2, grad_accum=4)) == pytest.approx(losses(alone), rel=1e-4)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"micro_batch": 2, "grad_accum": 2, "activation_checkpointing": "full"},
    ],
)
def test_sharding_checkpointing_and_accumulating_learn_the_same(train, ddp, more):
    assert losses(train(ranks=2, strategy="fsdp", **more)) == pytest.approx(losses(ddp), rel=1e-4)


def test_clipping_limits_sharded_gradients_by_the_norm_over_all_ranks(train, ddp):
    """With a decay of 0.5 for the second moment, limited norms of gradients change Adam's steps."""
    settings = {"gradient_clipping": 0.05, "beta2": 0.5, "schedule": "linear"}
    clipped = losses(train(ranks=2, **settings))
    assert losses(train(ranks=2, strategy="fsdp", **settings)) == pytest.approx(clipped, rel=1e-4)
    assert clipped != pytest.approx(losses(ddp), rel=1e-4)


@pytest.mark.parametrize("more", [{}, {"micro_batch": 1, "grad_accum": 2}])
def test_groups_that_share_parameters_learn_the_same(train, alone, more):
    finished = train(ranks=4, strategy="hsdp", fsdp=2, **{"micro_batch": 2, **more})
    assert losses(finished) == pytest.approx(losses(alone), rel=1e-4)
    assert finished.report[0]["world_size"] == 4
    assert finished.report[0]["strategy"] == "hsdp"


def test_each_group_of_ranks_has_one_copy_of_the_parameters(on_ranks):
    """Four ranks form two groups; each rank has the same half of the model as a rank of the other group."""
    code = f"""
import torch
from rigtune_worker.model import ModelShape
from rigtune_worker.parallel import build_model, process_group
from rigtune_worker.rigtune_helper import Plan
device = torch.device("cpu")
plan = Plan(strategy="hsdp", dp=2, fsdp=2, precision="fp32", activation_checkpointing="none", prefetch=0)
with process_group("gloo", device):
    model = build_model(ModelShape.from_dict({TINY!r}), plan, device)
    mesh = next(model.parameters()).device_mesh
    local = [parameter.to_local() for parameter in model.parameters()]
    answer = {{"names": mesh.mesh_dim_names, "shape": list(mesh.mesh.shape), "groups": mesh.mesh.tolist(),
               "elements": sum(part.numel() for part in local), "sum": float(sum(p.sum() for p in local)),
               "whole": sum(parameter.numel() for parameter in model.parameters())}}
"""
    ranks = on_ranks(4, code)
    assert {tuple(rank["names"]) for rank in ranks} == {("replicate", "shard")}
    assert {tuple(rank["shape"]) for rank in ranks} == {(2, 2)}
    assert ranks[0]["groups"] == [[0, 1], [2, 3]]
    assert all(2 * rank["elements"] == rank["whole"] for rank in ranks)
    sums = [rank["sum"] for rank in ranks]
    assert sums[:2] == sums[2:]
    assert sums[0] != sums[1]


@pytest.mark.parametrize(
    ("ranks", "changes"), [(4, {"fsdp": 3}), (4, {"fsdp": 4}), (4, {}), (1, {"fsdp": 2})]
)
def test_impossible_groups_are_refused(in_torch, ranks, changes):
    code = f"""
from rigtune_worker.trainer import TrainConfig
config = TrainConfig.from_dict({{"model": {TINY!r}, "parallelism": {{"strategy": "hsdp", **{changes!r}}}}})
try:
    config.check_world_size({ranks})
    answer = ""
except ValueError as error:
    answer = str(error)
"""
    assert "hsdp needs several groups of several ranks" in in_torch(code)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"bucket_mb": 1}, {"strategy": "fsdp", "prefetch": 2}])
def test_bucket_size_and_prefetch_learn_the_same(train, ddp, more):
    assert losses(train(ranks=2, **more)) == pytest.approx(losses(ddp), rel=1e-4)


@pytest.mark.slow
def test_mixed_precision_stays_near(train, ddp):
    assert losses(train(ranks=2, precision="bf16")) == pytest.approx(losses(ddp), rel=0.02)


def test_the_report_contains_the_world_size_the_steps_and_the_losses(ddp):
    start, *steps, done = ddp.report
    assert (start["event"], start["world_size"], start["backend"], start["strategy"]) == (
        "start",
        2,
        "gloo",
        "ddp",
    )
    assert start["tokens_per_step"] == 8 * 32
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5, 6]
    assert done["event"] == "done"
    assert (done["loss_first"], done["loss_last"]) == (steps[0]["loss"], steps[-1]["loss"])
    assert done["median_step_time_s"] in [step["duration_s"] for step in steps[3:]]
    assert done["peak_memory_bytes"] > start["parameters"] * 16
    assert "world size 2, backend gloo, strategy ddp" in ddp.stdout
    assert "step 6/6  loss " in ddp.stdout


def test_sharded_mixed_precision_keeps_the_positions(in_torch):
    """Rotary angles in bf16 would be off by many turns at the end of a sequence."""
    code = f"""
import torch
from rigtune_worker.model import ModelShape
from rigtune_worker.parallel import build_model, process_group
from rigtune_worker.rigtune_helper import Plan
length, device = 2048, torch.device("cpu")
shape = ModelShape.from_dict({{**{TINY!r}, "sequence_length": length}})
tokens = torch.randint(0, shape.vocab, (1, length), generator=torch.Generator().manual_seed(1))
logits = []
with process_group("gloo", device), torch.no_grad():
    for strategy, precision in (("ddp", "fp32"), ("fsdp", "bf16")):
        plan = Plan(strategy=strategy, dp=1, fsdp=1, precision=precision, activation_checkpointing="none",
                    prefetch=0)
        model = build_model(shape, plan, device)
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(10)  # so that attention prefers some positions
        logits.append(model(tokens).float())
answer = float((logits[1] - logits[0]).norm() / logits[0].norm())
"""
    assert in_torch(code) < 0.1


@pytest.mark.slow
def test_the_shipped_workload_learns_within_30_steps(train):
    mini = next(model for model in load_models() if model.id == "rigtune-mini")
    shape = {name: getattr(mini, name) for name in ModelShape.__struct_fields__}
    curve = losses(train(ranks=2, model=shape, steps=30, precision="bf16"))
    assert 8.0 < curve[0] < 8.7  # ln(4096) = 8.3
    assert curve[-1] < 6.0


def test_another_global_batch_than_asked_for_is_refused_in_one_line(train):
    finished = train(global_batch=64)
    assert finished.returncode == 1
    words = "global_batch is 64, but micro_batch 4 x grad_accum 1 x world size 1 = 4"
    assert words in finished.stderr.strip().splitlines()[-1]
    assert "Traceback" not in finished.stderr
    assert [line["event"] for line in finished.report] == ["failed"]


def test_impossible_settings_are_refused_with_their_name(in_torch):
    cases = [
        (
            {"model": TINY, "parallelism": {"strategy": "magic"}},
            "strategy must be ddp, fsdp or hsdp, not 'magic'",
        ),
        (
            {"model": TINY, "parallelism": {"micro_batch": 0}},
            "micro_batch must be a whole number of at least 1, not 0",
        ),
        (
            {"model": TINY, "parallelism": {"bucket_mb": 0}},
            "bucket_mb must be a whole number of at least 1, not 0",
        ),
        (
            {"model": TINY, "convergence": {"learning_rate": -1}},
            "learning_rate must be a positive number, not -1",
        ),
        ({"model": TINY, "convergence": {"beta2": 2}}, "beta2 must be a number from 0 to 1, not 2"),
        (
            {"model": TINY, "convergence": {"schedule": "step"}},
            "schedule must be constant, cosine, linear or wsd, not 'step'",
        ),
        ({"model": TINY, "resources": []}, "resources must be an object"),
        ({"model": {**TINY, "kv_heads": 3}}, "model: 4 heads cannot share 3 kv_heads evenly"),
        ({"model": {**TINY, "hidden": "wide"}}, "model: hidden must be a positive whole number, not 'wide'"),
        ({"model": {**TINY, "learned_positions": 8}}, "model: sequence_length 32 exceeds its 8 positions"),
        ({}, "model is missing"),
    ]
    code = (
        "from rigtune_worker.trainer import TrainConfig\nanswer = []\n"
        f"for case in json.loads({json.dumps([case for case, _ in cases])!r}):\n"
        "    try:\n        TrainConfig.from_dict(case)\n    except ValueError as error:\n        "
        "answer.append(str(error))"
    )
    assert in_torch(code) == [words for _, words in cases]


def test_the_learning_rate_follows_the_schedule_of_the_recipe(in_torch):
    """After a warm-up of 2 of 12 steps, all but `constant` fall to a tenth; `wsd` falls in the last half."""
    code = (
        "from rigtune_worker.rigtune_helper import learning_rate_factor\n"
        "from rigtune_worker.trainer import TrainConfig\nanswer = []\n"
        "for schedule in ('constant', 'linear', 'cosine', 'wsd'):\n"
        "    config = TrainConfig(model=None, schedule=schedule, warmup_steps=2, steps=12, decay_share=0.5)\n"
        "    answer.append([round(learning_rate_factor(step, config), 3) for step in (0, 1, 6, 7, 9, 12)])"
    )
    assert in_torch(code) == [
        [0.5, 1.0, 1.0, 1.0, 1.0, 1.0],
        [0.5, 1.0, 0.64, 0.55, 0.37, 0.1],
        [0.5, 1.0, 0.689, 0.55, 0.285, 0.1],
        [0.5, 1.0, 1.0, 0.85, 0.55, 0.1],
    ]


def test_running_out_of_memory_names_the_micro_batch(torch_python, environment, tmp_path):
    """Check memory shortage on a CPU by a limit on the address space, after torch was loaded."""
    config = {"model": {**TINY, "vocab": 50000}, "parallelism": {"micro_batch": 4096, "precision": "fp32"}}
    (tmp_path / "workload.json").write_text(json.dumps(config))
    program = (
        "import resource, sys, rigtune_worker.train as t;"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30));"
        "sys.exit(t.main(['--config', 'workload.json', '--report', 'report.jsonl']))"
    )
    finished = subprocess.run(
        (torch_python, "-c", program),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert finished.returncode == 1
    assert "out of memory with micro-batch 4096" in finished.stderr
    assert json.loads((tmp_path / "report.jsonl").read_text().splitlines()[-1])["kind"] == "out_of_memory"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_step_finish(torch_python, environment, tmp_path, number):
    config = {
        "model": TINY,
        "parallelism": {"micro_batch": 1},
        "convergence": {"learning_rate": 1e-3, "steps": 1000000},
    }
    (tmp_path / "workload.json").write_text(json.dumps(config))
    argv = (
        torch_python,
        "-m",
        "rigtune_worker.train",
        "--config",
        "workload.json",
        "--report",
        "report.jsonl",
    )
    with subprocess.Popen(argv, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while not running.stdout.readline().startswith("step 1/"):
            assert running.poll() is None
        running.send_signal(number)
        remaining, _ = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0
    assert "because of a signal" in remaining
    done = json.loads((tmp_path / "report.jsonl").read_text().splitlines()[-1])
    assert (done["event"], done["interrupted"]) == ("done", True)
