"""Names under which people know software, and what each does by default."""

import re

import pytest

from recipes.cases.prediction import predict_row
from recipes.predict.stacks import load_stacks, stack_named

RUN = {
    "case_id": "1",
    "model": "llama-2-7b",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "8",
    "sharding": "fsdp",
    "micro_batch": "1",
    "grad_accum": "1",
}


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Megatron-DeepSpeed", "Megatron-DeepSpeed"),
        ("gpt-neox", "Megatron-DeepSpeed"),
        ("megatron-lm", "Megatron-LM core"),
        ("MaxText", "JAX"),
        ("paxml", "JAX"),
        ("nemo", "Megatron-LM core"),
        ("NeMo-Automodel", "NeMo Automodel"),
        ("llm-foundry", "MosaicML Composer"),
        ("prime-rl", "torchtitan"),
        ("nanoGPT", "nanoGPT"),
        ("ColossalAI Gemini", "Colossal-AI"),
        ("fairseq", "fairseq"),
        ("OLMo-core", "OLMo"),
        ("lit-gpt", "LitGPT"),
        ("lit-llama", "LitGPT"),
        ("Accelerate", "Hugging Face Trainer"),
        ("huggingface", "Hugging Face Trainer"),
        ("TRL 0.9 SFTTrainer", "TRL over Hugging Face Trainer"),
        ("LLaMA Factory v0.8.3", "LLaMA-Factory"),
        ("llama_recipes", "llama-recipes"),
        ("fsdp_qlora", "FSDP and QLoRA"),
        ("PyTorch Lightning", "plain torch"),
        ("DeepSpeed ZeRO-3", "DeepSpeed"),
        ("SWIFT 2.0", "ms-swift"),
    ],
)
def test_a_name_means_one_framework(name, title):
    prediction = predict_row(RUN | {"stack": name})
    assert title in prediction.title
    assert not any(words.startswith("stack") for words in prediction.assumed)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("HF Trainer + DeepSpeed", "Hugging Face Trainer"),
        ("deepspeed (transformers 4.38)", "Hugging Face Trainer"),
        ("our code with torchtune 0.3", "torchtune"),
        ("Megatron-LM on PyTorch", "Megatron-LM core"),
        ("InternLM2 with transformers", "Hugging Face Trainer"),
        ("axolotl (transformers 4.38)", "axolotl"),
        ("trl + accelerate", "TRL over Hugging Face Trainer"),
        ("Hugging Face nanotron", "nanotron"),
        ("Gemini on JAX", "JAX"),
        ("Swift for TensorFlow", "TensorFlow"),
        ("swift + deepspeed", "ms-swift"),
        ("transformers + flash-attention", "Hugging Face Trainer"),
        ("PyTorch with FlashAttention", "plain torch"),
        ("DeepSpeed, TF32", "DeepSpeed"),
        ("pytorch2.3", "plain torch"),
    ],
)
def test_of_two_names_the_software_that_defines_the_model_counts(name, title):
    assert title in predict_row(RUN | {"stack": name}).title


@pytest.mark.parametrize("name", ["custom swift code", "a gemini clone", "LLM compiler", "transformersome"])
def test_parts_of_words_and_everyday_words_name_no_framework(name):
    assert stack_named(name) is None


def test_names_in_the_table_are_words_and_no_patterns():
    rows = load_stacks().values()
    names = [name for row in rows for name in (row.id, *row.names, *row.common_names)]
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []
    assert {name: stack_named(f"{name} 2.0").id for row in rows for name in (row.id, *row.names)} == {
        name: row.id for row in rows for name in (row.id, *row.names)
    }


def test_jax_recomputes_all_layers_and_torch_none_by_default():
    recomputed = {
        name: predict_row(RUN | {"stack": name}).layout.split(", ")[-1] for name in ("maxtext", "torch")
    }
    assert recomputed["maxtext"] == "checkpointing full"
    assert "checkpointing" not in recomputed["torch"]


def test_megatron_deepspeed_does_not_divide_norms_and_writes_scores_by_default():
    layout = RUN | {"sharding": "zero1", "tp": "8", "seq_len": "2048"}
    old, new = (predict_row(layout | {"stack": name}) for name in ("megatron-deepspeed", "megatron-core"))
    assert old.memory.activations > 1.5 * new.memory.activations
    assert old.step_time_s > new.step_time_s


def test_llama_factory_and_axolotl_recompute_by_default_as_the_trainer_under_them_does_not():
    run = RUN | {"sharding": "", "n_gpus": "1", "task": "lora"}
    shown = {
        name: predict_row(run | {"stack": name}).layout for name in ("hf-trainer", "llama-factory", "axolotl")
    }
    assert [name for name, layout in shown.items() if "checkpointing full" in layout] == [
        "llama-factory",
        "axolotl",
    ]


@pytest.mark.parametrize("name", ["torchtune", "unsloth"])
def test_a_stated_length_is_filled_so_that_no_rate_is_beyond_the_peak(name):
    run = {
        "case_id": "1",
        "stack": name,
        "model": "llama-3.2-3b",
        "task": "sft",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "1",
    }
    prediction = predict_row(
        run | {"seq_len": "4096", "micro_batch": "2", "activation_checkpointing": "none"}
    )
    assert 6 * 3.2e9 * prediction.tokens_per_s_per_gpu < 312e12


@pytest.mark.parametrize(
    ("stack", "columns", "shared"),
    [
        ("torchtitan", {"tp": "2"}, True),
        ("torchtitan", {}, True),
        ("maxtext", {}, True),
        ("torchtitan", {"sharding": "ddp"}, False),
        ("torchtitan", {"zero_stage": "1"}, False),
        ("torchtitan", {"n_gpus": "1"}, False),
        ("megatron-core", {"tp": "2"}, False),
    ],
)
def test_software_that_shards_parameters_by_default_does_so_unless_a_case_denies_it(stack, columns, shared):
    row = RUN | {"sharding": "", "stack": stack, "model": "llama-3.2-1b"} | columns
    assert ("zero3" in predict_row(row).layout) == shared


@pytest.mark.parametrize(("stack", "usual"), [("megatron-deepspeed", "false"), ("megatron-core", "true")])
def test_sequence_parallelism_defaults_to_that_of_the_software(stack, usual):
    layout = RUN | {"sharding": "zero1", "tp": "8", "stack": stack, "activation_checkpointing": "none"}
    blank, true, false = (predict_row(layout | {"sequence_parallel": flag}) for flag in ("", "true", "false"))
    like = {"true": true, "false": false}[usual]
    assert (blank.step_time_s, blank.memory.activations) == (like.step_time_s, like.memory.activations)
    assert true.step_time_s < false.step_time_s


def test_a_loss_that_keeps_no_logits_needs_less_memory():
    run = RUN | {
        "task": "lora",
        "precision": "bf16",
        "n_gpus": "1",
        "sharding": "",
        "model": "llama-3-8b",
        "seq_len": "8192",
    }
    run |= {"activation_checkpointing": "full"}
    whole, chunked, liger = (
        predict_row(run | {"stack": name}).memory
        for name in ("trl", "trl with chunked cross-entropy", "TRL + Liger")
    )
    assert liger.allocated < chunked.allocated < whole.allocated
    assert chunked.logits < 0.5 * whole.logits


def test_a_model_whose_code_leaves_logits_in_16_bits_needs_less_for_its_loss():
    run = RUN | {
        "task": "lora",
        "precision": "bf16",
        "stack": "trl",
        "n_gpus": "1",
        "sharding": "",
        "seq_len": "8192",
    }
    run |= {"activation_checkpointing": "full"}
    left, raised = (predict_row(run | {"model": model}).memory.logits for model in ("qwen-7b", "qwen1.5-7b"))
    assert left == pytest.approx(0.8 * raised, rel=0.01)


def test_tokens_are_those_of_samples_where_these_are_shorter_than_a_stated_length():
    run = {
        "case_id": "1",
        "model": "llama-2-7b",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "1",
        "micro_batch": "1",
        "task": "lora",
    }
    filled, cut = (predict_row(run | {"seq_len": "4096", "stack": name}) for name in ("torchtune", "litgpt"))
    assert filled.tokens_per_s_per_gpu == pytest.approx(4096 * filled.samples_per_s)
    assert cut.tokens_per_s_per_gpu < 0.1 * 4096 * cut.samples_per_s
    assert any("of at most 4096" in words for words in cut.assumed)
    assert not any("of at most" in words for words in filled.assumed)


@pytest.mark.parametrize(("name", "varies"), [("axolotl", False), ("hf-trainer", True)])
def test_samples_of_unstated_length_are_short_unless_the_framework_packs_them(name, varies):
    run = {
        "case_id": "1",
        "model": "llama-2-7b",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "1",
        "task": "lora",
        "stack": name,
    }
    assert any("samples of" in words for words in predict_row(run).assumed) == varies


@pytest.mark.parametrize(
    ("columns", "layout"),
    [
        ({"fsdp": "8"}, "fsdp 64 ep 8"),
        ({"fsdp": "8", "ep": "8"}, "fsdp 64 ep 8"),
        ({"fsdp": "64"}, "fsdp 64"),
        ({"fsdp": "8", "sharding": "hsdp"}, "dp 8 fsdp 8"),
        ({"fsdp": "8", "model": "llama-2-7b"}, "dp 8 fsdp 8"),
        ({"fsdp": "8", "stack": "torchtitan"}, "dp 8 fsdp 8"),
    ],
)
def test_maxtext_has_experts_on_an_axis_of_their_own(columns, layout):
    row = RUN | {"stack": "maxtext", "model": "deepseek-v3", "gpu": "MI355X", "n_gpus": "64"} | columns
    prediction = predict_row(row)
    assert prediction.layout.startswith(f"{layout}, zero3")
    assert any(words.startswith("ep 8") for words in prediction.assumed) == (
        " ep 8" in layout and "ep" not in columns
    )


def test_ligers_kernels_keep_less_of_a_layer():
    run = RUN | {
        "task": "lora",
        "precision": "bf16",
        "n_gpus": "1",
        "sharding": "",
        "activation_checkpointing": "none",
    }
    plain, liger = (predict_row(run | {"stack": name}).memory.activations for name in ("trl", "TRL + Liger"))
    assert 0.6 * plain < liger < 0.95 * plain


@pytest.mark.parametrize(
    ("optimizer", "whole"), [("", False), ("PagedAdamW8bit", False), ("AdamW8bit", True), ("AdamW", True)]
)
def test_torchtunes_recipe_for_one_gpu_steps_within_the_backward_pass(optimizer, whole):
    run = {
        "case_id": "1",
        "stack": "torchtune",
        "model": "llama-2-7b",
        "task": "sft",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "1",
    }
    memory = predict_row(run | {"optimizer": optimizer, "precision": "bf16"}).memory
    assert (memory.gradients > 10 * 2**30) == whole


@pytest.mark.parametrize(
    "run", [{"model": "llama-3-8b", "gpu": "V100-SXM2-32GB"}, {"model": "bert-large", "gpu": "A100-SXM-80GB"}]
)
def test_liger_leaves_attention_as_it_was(run: dict[str, str]) -> None:
    shape = {
        "n_gpus": "8",
        "micro_batch": "4",
        "seq_len": "512",
        "sharding": "zero3",
        "activation_checkpointing": "none",
    }
    case = {**run, **shape, "precision": "fp16-mixed"}
    plain, liger = (predict_row({**case, "stack": name}).memory for name in ("trl", "TRL + Liger"))
    assert plain is not None
    assert liger is not None
    assert 0.5 * plain.activations < liger.activations <= plain.activations
