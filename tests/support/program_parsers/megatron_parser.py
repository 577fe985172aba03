"""Run Megatron-LM's own parser and checks from a source folder, without GPU and Transformer Engine.

The folder is the first argument. Standard input is a JSON list of cases with `arguments`, `world_size` and
`environment`. The last line of the output is JSON: the version, the names of all options, and the effect of
each case after `validate_args` and `core_transformer_config_from_args`, or the error of a refused case.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import types
import typing
from unittest import mock

import torch
import typing_extensions

FOLDER = sys.argv[1]
LOCAL = ("--transformer-impl", "local", "--no-rope-fusion")
"""Options that replace Transformer Engine, which needs a GPU."""
READ = """
data_parallel_size tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size
expert_model_parallel_size virtual_pipeline_model_parallel_size sequence_parallel use_distributed_optimizer
micro_batch_size global_batch_size seq_length train_iters lr min_lr lr_decay_style lr_warmup_iters
lr_wsd_decay_iters adam_beta1 adam_beta2 weight_decay clip_grad save load save_interval log_interval bf16 fp16
mock_data data_path tokenizer_type tokenizer_model num_query_groups kv_channels swiglu normalization
add_bias_linear add_qkv_bias untie_embeddings_and_output_weights rampup_batch_size overlap_param_gather
exit_signal_handler fp8 fp8_recipe eval_iters vocab_size
"""
CONFIG = """
num_layers hidden_size ffn_hidden_size num_attention_heads recompute_granularity recompute_method
recompute_num_layers recompute_modules num_moe_experts moe_router_topk moe_ffn_hidden_size
moe_shared_expert_intermediate_size moe_layer_freq multi_latent_attention q_lora_rank kv_lora_rank qk_head_dim
qk_pos_emb_head_dim v_head_dim mtp_num_layers qk_layernorm moe_router_enable_expert_bias params_dtype
"""


def stub() -> None:
    """Let the modules be imported and the checks of a Hopper GPU pass."""
    typing.override = getattr(typing, "override", typing_extensions.override)
    properties = types.SimpleNamespace(major=9, minor=0, total_memory=80 * 2**30)
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: properties
    torch.cuda.device_count = lambda: 8
    sys.path.insert(0, FOLDER)
    for name in ("RANK", "LOCAL_RANK"):
        os.environ[name] = "0"


def layers_of_parts(args: argparse.Namespace, config: object) -> list[int]:
    """Return the layers of each part of the pipeline, in the order of the model."""
    layout = getattr(config, "pipeline_model_parallel_layout", None)
    if layout is None:
        return []
    parts = args.virtual_pipeline_model_parallel_size or 1
    return [
        sum(str(layer).endswith("decoder") for layer in layout.layout[rank][part])
        for part in range(parts)
        for rank in range(args.pipeline_model_parallel_size)
    ]


def effect(arguments, case: dict[str, object]) -> dict[str, object]:
    variables = {"WORLD_SIZE": str(case["world_size"]), **case["environment"]}
    argv = ["pretrain_gpt.py", *case["arguments"], *LOCAL]
    with mock.patch.dict(os.environ, variables), mock.patch.object(sys, "argv", argv):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                args = arguments.parse_args()
                arguments.validate_args(args, {})
                config = arguments.core_transformer_config_from_args(args)
        except (AssertionError, ValueError, SystemExit, RuntimeError) as error:
            return {"error": f"{type(error).__name__}: {error}"[:2000]}
    return {
        **{name: getattr(args, name, None) for name in READ.split()},
        **{name: getattr(config, name, None) for name in CONFIG.split()},
        "layers_of_parts": layers_of_parts(args, config),
    }


def main() -> None:
    stub()
    from megatron.core import package_info  # noqa: PLC0415 - after the stubs
    from megatron.training import arguments  # noqa: PLC0415

    parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    names = sorted({name for action in parser._actions for name in action.option_strings} - {"-h", "--help"})
    effects = [effect(arguments, case) for case in json.load(sys.stdin)]
    answer = {"version": package_info.__version__, "names": names, "effects": effects}
    sys.stdout.write("\n" + json.dumps(answer, default=str) + "\n")


if __name__ == "__main__":
    main()
