"""Test Megatron-LM's arguments for a recipe, and what it refuses."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.known_names import known_names
from recipes.launch.launch_files import launch_files
from recipes.launch.program_limits import require_runnable
from recipes.launch.programs.megatron_lm import pipeline_layout, write
from recipes.launch.recipe import Command, Environment, Job
from recipes.planning.programs import program_named
from tests.support.program_recipes import options_in, program_recipe

SLOTS = {"data": "/d/corpus", "tokenizer": "/t", "checkpoints": "/c", "workdir": "/src/Megatron-LM"}
DP8 = {"strategy": "zero1", "dp": 8}
THREE_KINDS = {"strategy": "zero1", "dp": 4, "tp": 4, "pp": 4, "grad_accum": 32}


def _options(layout=None, **fields):
    return options_in(write(program_recipe("megatron", layout=layout or DP8, **fields)))


@pytest.mark.parametrize(
    ("layout", "expected", "absent"),
    [
        pytest.param(
            {**THREE_KINDS, "vp": 2, "pipeline_schedule": "interleaved"},
            {
                "--tensor-model-parallel-size": ("4",),
                "--sequence-parallel": (),
                "--pipeline-model-parallel-size": ("4",),
                "--num-layers-per-virtual-pipeline-stage": ("4",),
                "--use-distributed-optimizer": (),
                "--overlap-param-gather": (),
                "--micro-batch-size": ("1",),
                "--global-batch-size": ("128",),
                "--seq-length": ("8192",),
                "--train-iters": ("2000",),
            },
            ("--context-parallel-size", "--recompute-granularity"),
            id="three kinds",
        ),
        pytest.param(
            {"strategy": "ddp", "dp": 4, "cp": 2, "micro_batch": 2},
            {"--context-parallel-size": ("2",), "--micro-batch-size": ("2",), "--global-batch-size": ("8",)},
            ("--use-distributed-optimizer", "--overlap-param-gather", "--sequence-parallel"),
            id="context",
        ),
        pytest.param(
            {**DP8, "activation_checkpointing": "full"},
            {
                "--recompute-granularity": ("full",),
                "--recompute-method": ("uniform",),
                "--recompute-num-layers": ("1",),
            },
            (),
            id="full",
        ),
        pytest.param(
            {**DP8, "activation_checkpointing": "full", "recomputed_share": 0.25},
            {"--recompute-method": ("block",), "--recompute-num-layers": ("8",)},
            (),
            id="part",
        ),
        pytest.param(
            {**DP8, "activation_checkpointing": "selective"},
            {"--recompute-granularity": ("selective",)},
            ("--recompute-method", "--recompute-num-layers"),
            id="selective",
        ),
        pytest.param(
            {**DP8, "precision": "fp8"},
            {"--bf16": (), "--fp8-format": ("hybrid",)},
            ("--fp8-recipe",),
            id="fp8",
        ),
        pytest.param(
            {**DP8, "precision": "mxfp8"},
            {"--fp8-format": ("e4m3",), "--fp8-recipe": ("mxfp8",)},
            ("--fp16",),
            id="mxfp8",
        ),
        pytest.param({**DP8, "precision": "fp32"}, {}, ("--bf16", "--fp16"), id="fp32"),
    ],
)
def test_arguments_state_the_layout(layout, expected, absent):
    options = _options(layout)
    assert expected.items() <= options.items()
    assert not options.keys() & set(absent)


@pytest.mark.parametrize(
    ("model", "expected", "absent"),
    [
        (
            "llama-3-8b",
            {
                "--num-layers": ("32",),
                "--hidden-size": ("4096",),
                "--ffn-hidden-size": ("14336",),
                "--num-attention-heads": ("32",),
                "--kv-channels": ("128",),
                "--group-query-attention": (),
                "--num-query-groups": ("8",),
                "--normalization": ("RMSNorm",),
                "--position-embedding-type": ("rope",),
                "--max-position-embeddings": ("8192",),
                "--swiglu": (),
                "--disable-bias-linear": (),
                "--untie-embeddings-and-output-weights": (),
                "--vocab-size": ("128256",),
            },
            ("--num-experts", "--add-qkv-bias", "--qk-layernorm"),
        ),
        (
            "gpt2",
            {"--normalization": ("LayerNorm",), "--position-embedding-type": ("learned_absolute",)},
            (
                "--swiglu",
                "--disable-bias-linear",
                "--untie-embeddings-and-output-weights",
                "--num-query-groups",
            ),
        ),
        (
            "qwen3-30b-a3b",
            {
                "--num-experts": ("128",),
                "--moe-router-topk": ("8",),
                "--moe-ffn-hidden-size": ("768",),
                "--moe-grouped-gemm": (),
                "--qk-layernorm": (),
            },
            ("--moe-layer-freq", "--moe-shared-expert-intermediate-size"),
        ),
        (
            "deepseek-v3",
            {
                "--multi-latent-attention": (),
                "--q-lora-rank": ("1536",),
                "--kv-lora-rank": ("512",),
                "--qk-head-dim": ("128",),
                "--qk-pos-emb-head-dim": ("64",),
                "--v-head-dim": ("128",),
                "--moe-layer-freq": ("([0]*3+[1]*58)",),
                "--moe-shared-expert-intermediate-size": ("2048",),
                "--moe-router-enable-expert-bias": (),
                "--moe-router-score-function": ("sigmoid",),
                "--mtp-num-layers": ("1",),
            },
            ("--group-query-attention", "--num-query-groups", "--kv-channels"),
        ),
    ],
)
def test_arguments_state_the_sizes_of_the_model(model, expected, absent):
    options = _options(model=model)
    assert expected.items() <= options.items()
    assert not options.keys() & set(absent)


def test_the_optimizer_and_its_rate():
    options = _options(rates={"beta2": 0.99, "weight_decay": 0.05, "gradient_clipping": 0.5})
    expected = {
        "--lr": ("0.0003",),
        "--min-lr": ("3e-05",),
        "--lr-decay-style": ("cosine",),
        "--lr-warmup-iters": ("100",),
        "--adam-beta1": ("0.9",),
        "--adam-beta2": ("0.99",),
        "--weight-decay": ("0.05",),
        "--clip-grad": ("0.5",),
    }
    assert expected.items() <= options.items()
    stable = _options(rates={"schedule": "wsd", "decay_share": 0.2})
    assert (stable["--lr-decay-style"], stable["--lr-wsd-decay-iters"]) == (("WSD",), ("400",))
    growing = _options({**DP8, "grad_accum": 8}, rates={"ramp_from": 16, "ramp_samples": 4096})
    assert growing["--rampup-batch-size"] == ("16", "16", "4096")


def test_slots_become_paths_and_a_run_loads_where_it_saves():
    filled = write(program_recipe("megatron", layout=DP8, slots={**SLOTS, "model": "/m"}))
    expected = {
        "--data-path": ("/d/corpus",),
        "--tokenizer-type": ("HuggingFaceTokenizer",),
        "--tokenizer-model": ("/t",),
        "--save": ("/c",),
        "--load": ("/c",),
        "--save-interval": ("250",),
        "--pretrained-checkpoint": ("/m",),
        "--log-interval": ("1",),
        "--exit-signal-handler": (),
    }
    options = options_in(filled)
    assert expected.items() <= options.items()
    assert not options.keys() & {"--mock-data", "--vocab-size"}
    assert filled.notes == ()


def test_mock_data_is_announced():
    empty = write(program_recipe("megatron", layout=DP8))
    options = options_in(empty)
    assert options["--mock-data"] == ()
    assert options["--tokenizer-type"] == ("NullTokenizer",)
    assert options["--save"] == options["--load"] == ("./checkpoints/llama-3-8b",)
    assert [note for note in empty.notes if note.startswith("Warning") and "mock data" in note]
    assert [note for note in empty.notes if "Megatron-LM" in note and "`workdir`" in note]


@pytest.mark.parametrize(
    ("layout", "is_needed"),
    [(DP8, False), ({**DP8, "dp": 4, "tp": 2}, True), ({**DP8, "dp": 4, "cp": 2}, True)],
)
def test_one_queue_is_exported_where_layers_are_divided(layout, is_needed):
    recipe = program_recipe("megatron", layout=layout)
    variables = {each.name: each.value for each in write(recipe).environment}
    assert variables == ({"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if is_needed else {})
    (script,) = (each.text for each in launch_files(recipe, "torchrun") if each.path == "launch.sh")
    assert ("export CUDA_DEVICE_MAX_CONNECTIONS=1" in script) == is_needed


def test_another_number_of_queues_is_warned_about():
    queues = Environment(name="CUDA_DEVICE_MAX_CONNECTIONS", value="32", why="mine", source="user")
    recipe = program_recipe("megatron", layout={**DP8, "dp": 4, "tp": 2}, environment=(queues,))
    assert [note for note in write(recipe).notes if "CUDA_DEVICE_MAX_CONNECTIONS = 32" in note]


def test_the_users_script_keeps_what_the_plan_does_not_decide():
    arguments = ("--data-path", "/x", "/y", "--lr", "1", "--fp16", "--train-samples=9", "--log-interval", "5",
                 "--rotary-base", "500000")  # fmt: skip
    command = Command(kind="script", target="pretrain_gpt.py", arguments=arguments)
    files = write(program_recipe("megatron", layout=DP8, command=command, slots={"tokenizer": "/t"}))
    options = options_in(files)
    assert files.words[0] == "pretrain_gpt.py"
    assert options["--data-path"] == ("/x", "/y")
    assert options["--lr"] == ("0.0003",)
    assert options["--log-interval"] == ("5",)
    assert options["--rotary-base"] == ("500000",)
    assert not options.keys() & {"--fp16", "--train-samples", "--mock-data"}
    notes = [note for note in files.notes if note.startswith("Your")]
    assert notes[0] == "Your `--lr 1` is replaced by the plan's `--lr 0.0003`"
    assert [note.partition("`")[2].partition("`")[0] for note in notes] == [
        "--lr 1",
        "--fp16",
        "--train-samples 9",
    ]


@pytest.mark.parametrize(
    ("layers", "parts", "layout"),
    [
        (61, 16, "Et*3|" + "|".join(["t*3"] + ["t*4"] * 13) + "|t*3L"),
        (6, 4, "Et|t*2|t*2|tL"),
        (30, 8, "Et*3|t*4|t*4|t*4|t*4|t*4|t*4|t*3L"),
    ],
)
def test_uneven_parts_of_a_pipeline(layers, parts, layout):
    assert pipeline_layout(layers, parts) == layout
    assert pipeline_layout(layers, parts, prediction_layers=2) == layout.replace("L", "mmL")


@given(layers=st.integers(2, 200), parts=st.integers(2, 64))
def test_a_pipeline_layout_has_every_layer_once_in_parts_that_differ_by_one_layer_at_most(layers, parts):
    texts = pipeline_layout(layers, parts).strip("EL").split("|")
    counts = [int(text.partition("*")[2] or len(text)) for text in texts]
    assert (len(counts), sum(counts)) == (parts, layers)
    assert max(counts) - min(counts) <= 1
    assert max(counts) == -(-layers // parts)


@pytest.mark.parametrize(
    ("model", "layout", "expected", "absent"),
    [
        # 126 layers, embedding and head fill 32 parts of 4; 61 layers are 3 fewer than 16 parts of 4.
        (
            "llama-3.1-405b",
            {"pp": 8, "vp": 4, "pipeline_schedule": "interleaved"},
            {
                "--num-layers-per-virtual-pipeline-stage": ("4",),
                "--account-for-embedding-in-pipeline-split": (),
                "--account-for-loss-in-pipeline-split": (),
            },
            "--pipeline-model-parallel-layout",
        ),
        (
            "deepseek-v3",
            {"pp": 16},
            {"--pipeline-model-parallel-layout": (pipeline_layout(61, 16, prediction_layers=1),)},
            "--num-layers-per-virtual-pipeline-stage",
        ),
    ],
)
def test_layers_that_do_not_divide(model, layout, expected, absent):
    options = _options({"strategy": "ddp", "dp": 1, "grad_accum": 32, **layout}, model=model)
    assert expected.items() <= options.items()
    assert absent not in options


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "gpt-oss-20b"}, "cannot state .*attention sinks"),
        ({"job": Job(tuning="lora")}, "no lora training"),
        ({"rates": {"schedule": "step"}}, "no learning-rate schedule step"),
        ({"job": Job(optimizer="adafactor")}, "not adafactor"),
    ],
)
def test_a_recipe_that_pretraining_cannot_run(fields, words):
    with pytest.raises(UsageError, match=words):
        write(program_recipe("megatron", layout=DP8, **fields))


def test_a_script_of_the_user_may_build_what_arguments_cannot_state():
    command = Command(kind="script", target="pretrain_gpt.py", arguments=("--spec", "mine"))
    assert _options(model="gpt-oss-20b", command=command)["--spec"] == ("mine",)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"fsdp": 8}, "no strategy fsdp"),
        ({"strategy": "zero1", "dp": 2, "pp": 4, "pipeline_schedule": "zero-bubble"}, "no pipeline schedule"),
        ({"strategy": "zero1", "dp": 2, "pp": 4, "pipeline_schedule": "interleaved"}, "with vp 1"),
    ],
)
def test_a_recipe_beyond_megatron(layout, words):
    with pytest.raises(UsageError, match=words):
        require_runnable(program_recipe("megatron", layout=layout))


def test_half_of_the_layers_may_be_recomputed():
    layout = {**DP8, "activation_checkpointing": "full", "recomputed_share": 0.5}
    require_runnable(program_recipe("megatron", layout=layout))


def test_every_option_of_the_table_is_known():
    row = program_named("megatron")
    words = (word for table in row.values.values() for text in table.values() for word in text.split())
    names = {word for word in (*row.settings.values(), *row.sizes.values(), *words) if word.startswith("--")}
    assert names <= known_names("megatron").names
    with pytest.raises(LookupError, match="no setting '--tensor-model-paralel-size'"):
        _misspelled()


def _misspelled():
    recipe = program_recipe("megatron", layout={**DP8, "dp": 4, "tp": 2})
    row = program_named("megatron")
    settings = {**row.settings, "tp": "--tensor-model-paralel-size"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "recipes.launch.program_limits.program_named",
            lambda _: msgspec.structs.replace(row, settings=settings),
        )
        write(recipe)
