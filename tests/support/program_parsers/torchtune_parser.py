"""Validate torchtune's configurations in an interpreter that has torchtune.

Standard input is a JSON list of cases with `config` (text of a file). The last line of the output is JSON:
the version, the names that its distributed recipes read, and the effect of each case: the values, the layers
of the model on the meta device and the optimizer's groups.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib import metadata
from pathlib import Path

import torch
import torchtune
from omegaconf import OmegaConf
from torchtune import config as tune_config

COMPONENTS = {
    "tokenizer": ("torchtune.models.llama3.llama3_tokenizer",),
    "dataset": ("torchtune.datasets.alpaca_dataset", "torchtune.datasets.instruct_dataset"),
    "model": ("torchtune.models.llama3.llama3_8b", "torchtune.models.llama3.lora_llama3_8b"),
    "checkpointer": ("torchtune.training.FullModelHFCheckpointer",),
    "optimizer": ("torch.optim.AdamW",),
    "lr_scheduler": ("torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup",),
    "loss": ("torchtune.modules.loss.CEWithChunkedOutputLoss",),
    "metric_logger": ("torchtune.training.metric_logging.DiskLogger",),
    "tensor_parallel_plan": ("torchtune.models.llama3.base_llama_tp_plan",),
}
READ = re.compile(r"""cfg(?:\.get\(\s*["'](\w+)["']|\.(?!get\b)(\w+))""")


def component(path: str) -> object:
    return tune_config._utils._get_component_from_path(path)


def names() -> list[str]:
    """Return the keys that one of the two recipes reads, and the arguments of the components by section."""
    folder = Path(torchtune.__file__).parents[1] / "recipes"
    known = set()
    for name in ("full_finetune_distributed", "lora_finetune_distributed"):
        known |= {first or second for first, second in READ.findall((folder / f"{name}.py").read_text())}
    known -= COMPONENTS.keys()
    for section, paths in COMPONENTS.items():
        known.add(f"{section}._component_")
        for path in paths:
            known |= {f"{section}.{name}" for name in inspect.signature(component(path)).parameters}
    # load_dataset_kwargs of a dataset: arguments of Hugging Face's load_dataset
    return sorted({*known, "dataset.data_files"})


def effect(text: str) -> dict[str, object]:
    config = OmegaConf.create(text)
    tune_config.validate(config)
    with torch.device("meta"):
        model = tune_config.instantiate(config.model)
    optimizer = tune_config.instantiate(config.optimizer, list(model.parameters()))
    schedule = tune_config.instantiate(
        config.lr_scheduler, optimizer, num_training_steps=config.max_steps_per_epoch
    )
    (rate,) = {group["initial_lr"] for group in optimizer.param_groups}
    course = [schedule.lr_lambdas[0](step) for step in (0, 100, 1050, 2000)]
    ranks = {module.rank for module in model.modules() if type(module).__name__ == "LoRALinear"}
    return {
        "values": OmegaConf.to_container(config),
        "layers": len(model.layers),
        "rate": rate,
        "course": course,
        "ranks": sorted(ranks),
        "decays": optimizer.param_groups[0]["weight_decay"],
        "betas": optimizer.param_groups[0]["betas"],
    }


def main() -> None:
    effects = [effect(case["config"]) for case in json.load(sys.stdin)]
    answer = {
        "version": metadata.version("torchtune").partition("+")[0],
        "names": names(),
        "effects": effects,
    }
    sys.stdout.write(json.dumps(answer, default=str) + "\n")


if __name__ == "__main__":
    main()
