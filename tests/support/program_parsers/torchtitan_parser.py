"""Run torchtitan's own parser in an interpreter that has torchtitan.

Standard input is a JSON list of cases with `arguments`, `world_size` and `folder` (of a config module). The
last line of the output is JSON: the version, the names of all options, and the effect of each case:
degrees after `ParallelDims`, batch sizes, recomputation, layers of each part of the pipeline, optimizer,
model and more.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module, metadata

import torchtitan.tools.utils as titan_utils
import tyro
from torchtitan.config.manager import ConfigManager, custom_registry
from torchtitan.distributed.parallel_dims import ParallelDims
from torchtitan.distributed.pipeline_parallel import (
    _generate_llm_fqn_per_model_part,
    _get_pipeline_metadata,
)

PRESETS = (("llama3", "llama3_8b"), ("qwen3", "qwen3_30b_a3b"), ("deepseek_v3", "deepseek_v3_16b"))


def pretend_to_have_a_gpu() -> None:
    """Let the converters of number formats pass, which ask for the GPU when the config is read."""
    for name in ("float8", "mx", "nvfp4"):
        module = import_module(f"torchtitan.components.quantization.{name}")
        module.has_cuda_capability = lambda *_: True
    titan_utils.has_cuda_capability = lambda *_: True


def names() -> dict[str, object]:
    known = {"--module", "--config"}
    for module, config in PRESETS:
        loaded, _ = ConfigManager()._load_config(["--module", module, "--config", config])
        parser = tyro.extras.get_parser(type(loaded), default=loaded, registry=custom_registry)
        pending = [parser]
        while pending:
            for action in pending.pop()._actions:
                known |= set(action.option_strings) - {"-h", "--help"}
                if isinstance(action.choices, dict):
                    known |= set(action.choices)
                    pending += action.choices.values()
    return {"version": metadata.version("torchtitan"), "names": sorted(known)}


def effect(world_size: int, arguments: list[str]) -> dict[str, object]:
    config = ConfigManager().parse_args(arguments)
    dims = ParallelDims.from_config(config.parallelism, world_size)
    stages = []
    if dims.pp > 1:
        total, layers, first, last = _get_pipeline_metadata(dims, config.parallelism, config.model_spec.model)
        parts = _generate_llm_fqn_per_model_part(total, layers, first, last)
        stages = [sum(name.startswith("layers.") for name in part) for part in parts]
    training, group = config.training, config.optimizer.param_groups[0]
    replicas = dims.dp_replicate * dims.dp_shard
    assert training.global_batch_size % (training.local_batch_size * replicas) == 0
    recomputation = type(config.activation_checkpoint)
    model = config.model_spec.model
    return {
        "degrees": {
            name: getattr(dims, name) for name in ("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep")
        },
        "local_batch": training.local_batch_size,
        "global_batch": training.global_batch_size,
        "micro_batch": config.parallelism.pipeline_parallel_microbatch_size,
        "accumulation": training.global_batch_size // (training.local_batch_size * replicas),
        "length": training.seq_len,
        "steps": training.steps,
        "clipping": repr(training.max_norm),
        "format": training.mixed_precision_param,
        "schedule": config.parallelism.pipeline_parallel_schedule,
        "balancer": config.parallelism.context_parallel_load_balancer,
        "layers_of_parts": stages,
        "recomputation": recomputation.__qualname__,
        "optimizer": {**group.optimizer_kwargs, "name": group.optimizer_name},
        "groups": len(config.optimizer.param_groups),
        "rate": {
            name: getattr(config.lr_scheduler, name)
            for name in ("warmup_steps", "decay_ratio", "decay_type", "min_lr_factor")
        },
        "checkpoint": {
            name: getattr(config.checkpoint, name)
            for name in ("enable", "interval", "folder", "last_save_model_only", "initial_load_path")
        },
        "paths": [config.hf_assets_path, config.dump_folder, config.dataloader.dataset_path],
        "log": [config.metrics.log_freq, config.profiler.enable_profiling],
        "model": [len(model.layers), model.dim, model.vocab_size, config.loss.loss_fn.global_vocab_size],
        "linear": type(model.layers[-1].attention.wo).__qualname__,
        "head": type(model.lm_head).__qualname__,
        "compiles": config.compile.enable,
    }


def main() -> None:
    pretend_to_have_a_gpu()
    effects = []
    for case in json.load(sys.stdin):
        sys.path.insert(0, case["folder"])
        sys.modules.pop("torchtitan_job", None)
        effects.append(effect(case["world_size"], case["arguments"]))
        sys.path.pop(0)
    sys.stdout.write(json.dumps({**names(), "effects": effects}, default=repr) + "\n")


if __name__ == "__main__":
    main()
