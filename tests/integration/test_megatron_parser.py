"""Give exported arguments to Megatron-LM's own parser and checks, and assert their effect.

RIGTUNE_MEGATRON_FOLDER names a checkout of Megatron-LM, RIGTUNE_MEGATRON_PYTHON an interpreter with torch and
Megatron's requirements; without them, the tests are skipped. Transformer Engine needs a GPU, so its layers
are replaced by local ones.
"""

from __future__ import annotations

import pytest

from recipes.launch.known_names import known_names
from recipes.launch.programs.megatron_lm import write
from tests.support.program_answers import answer_of, required_variable
from tests.support.program_recipes import program_recipe

pytestmark = pytest.mark.slow

DP8 = {"strategy": "zero1", "dp": 8}
CASES = {
    "tp4 pp4 dp4": (
        {"layout": {"strategy": "zero1", "dp": 4, "tp": 4, "pp": 4, "grad_accum": 32}},
        {
            "data_parallel_size": 4,
            "tensor_model_parallel_size": 4,
            "pipeline_model_parallel_size": 4,
            "virtual_pipeline_model_parallel_size": None,
            "sequence_parallel": True,
            "use_distributed_optimizer": True,
            "overlap_param_gather": True,
            "micro_batch_size": 1,
            "global_batch_size": 128,
            "recompute_granularity": None,
        },
    ),
    "interleaved": (
        {
            "layout": {
                "strategy": "zero1",
                "dp": 2,
                "pp": 4,
                "vp": 2,
                "pipeline_schedule": "interleaved",
                "grad_accum": 8,
            }
        },
        {"virtual_pipeline_model_parallel_size": 2, "data_parallel_size": 2},
    ),
    "cp": (
        {"layout": {"strategy": "ddp", "dp": 4, "cp": 2, "micro_batch": 2}},
        {
            "context_parallel_size": 2,
            "data_parallel_size": 4,
            "use_distributed_optimizer": False,
            "sequence_parallel": False,
            "micro_batch_size": 2,
            "global_batch_size": 8,
        },
    ),
    "ep": (
        {"model": "qwen3-30b-a3b", "layout": {**DP8, "ep": 4}},
        {
            "expert_model_parallel_size": 4,
            "num_moe_experts": 128,
            "moe_router_topk": 8,
            "moe_ffn_hidden_size": 768,
            "qk_layernorm": True,
        },
    ),
    "latents": (
        {"model": "deepseek-v3", "layout": {**DP8, "pp": 16, "grad_accum": 32}},
        {
            "multi_latent_attention": True,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_head_dim": 128,
            "qk_pos_emb_head_dim": 64,
            "v_head_dim": 128,
            "mtp_num_layers": 1,
            "moe_layer_freq": [0] * 3 + [1] * 58,
            "layers_of_parts": [3, 3, *[4] * 13, 3],
        },
    ),
    "uneven": (
        {
            "model": "llama-3.1-405b",
            "layout": {
                "strategy": "ddp",
                "dp": 1,
                "pp": 8,
                "vp": 4,
                "pipeline_schedule": "interleaved",
                "grad_accum": 32,
            },
        },
        {"virtual_pipeline_model_parallel_size": 4, "num_layers": 126},
    ),
    "full": (
        {"layout": {**DP8, "activation_checkpointing": "full"}},
        {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
    ),
    "part": (
        {"layout": {**DP8, "activation_checkpointing": "full", "recomputed_share": 0.25}},
        {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": 8},
    ),
    "selective": (
        {"layout": {**DP8, "activation_checkpointing": "selective"}},
        {"recompute_granularity": "selective", "recompute_method": None},
    ),
    "fp16": ({"layout": {**DP8, "precision": "fp16"}}, {"fp16": True, "bf16": False}),
    "fp32": ({"layout": {**DP8, "precision": "fp32"}}, {"fp16": False, "bf16": False}),
    "fp8": (
        {"layout": {**DP8, "precision": "fp8"}},
        {"bf16": True, "fp8": "hybrid", "fp8_recipe": "delayed"},
    ),
    "sizes": (
        {"layout": DP8},
        {
            "num_layers": 32,
            "hidden_size": 4096,
            "ffn_hidden_size": 14336,
            "num_attention_heads": 32,
            "num_query_groups": 8,
            "kv_channels": 128,
            "swiglu": True,
            "normalization": "RMSNorm",
            "add_bias_linear": False,
            "untie_embeddings_and_output_weights": True,
            "vocab_size": 128256,
            "seq_length": 8192,
            "mock_data": True,
        },
    ),
    "gpt2": (
        {"model": "gpt2", "layout": DP8},
        {
            "normalization": "LayerNorm",
            "swiglu": False,
            "add_bias_linear": True,
            "untie_embeddings_and_output_weights": False,
        },
    ),
    "optimizer": (
        {"layout": DP8, "rates": {"beta2": 0.99, "weight_decay": 0.05, "gradient_clipping": 0.5}},
        {
            "lr": 3e-4,
            "min_lr": 3e-5,
            "lr_decay_style": "cosine",
            "lr_warmup_iters": 100,
            "train_iters": 2000,
            "adam_beta1": 0.9,
            "adam_beta2": 0.99,
            "weight_decay": 0.05,
            "clip_grad": 0.5,
        },
    ),
    "stable": (
        {"layout": DP8, "rates": {"schedule": "wsd", "decay_share": 0.2}},
        {"lr_decay_style": "WSD", "lr_wsd_decay_iters": 400},
    ),
    "places": (
        {"layout": DP8, "slots": {"data": "/d", "tokenizer": "/t", "checkpoints": "/c"}},
        {
            "data_path": ["/d"],
            "mock_data": False,
            "tokenizer_type": "HuggingFaceTokenizer",
            "tokenizer_model": "/t",
            "save": "/c",
            "load": "/c",
            "save_interval": 250,
            "log_interval": 1,
            "eval_iters": 0,
            "exit_signal_handler": True,
        },
    ),
}
LAST = {"without queues": CASES["tp4 pp4 dp4"][0]}
"""Cases that Megatron must refuse, because their environment is left out."""


@pytest.fixture(scope="module")
def megatron():
    """Return the answers of Megatron's checks by case; one process asks them all, as its import is slow."""
    python = required_variable("RIGTUNE_MEGATRON_PYTHON")
    folder = required_variable("RIGTUNE_MEGATRON_FOLDER")
    cases = []
    for name, fields in {**{name: case[0] for name, case in CASES.items()}, **LAST}.items():
        recipe = program_recipe("megatron", **fields)
        files = write(recipe)
        variables = {each.name: each.value for each in files.environment}
        cases.append(
            {
                "world_size": recipe.parallelism.world_size,
                "environment": {} if name in LAST else variables,
                "arguments": files.words[1:],
            }
        )
    answer = answer_of("megatron_parser.py", python, cases, folder)
    return {**answer, "effects": dict(zip((*CASES, *LAST), answer["effects"], strict=True))}


def test_megatron_still_has_the_recorded_names(megatron):
    assert known_names("megatron").names <= set(megatron["names"])


@pytest.mark.parametrize("case", CASES)
def test_megatron_understands_the_arguments(megatron, case):
    expected, effect = CASES[case][1], megatron["effects"][case]
    assert "error" not in effect, effect
    assert {name: effect[name] for name in expected} == expected


def test_megatron_refuses_divided_layers_without_the_exported_variable(megatron):
    assert "CUDA_DEVICE_MAX_CONNECTIONS" in megatron["effects"]["without queues"]["error"]
