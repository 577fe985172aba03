"""A torchtitan job: llama3 8B in fp8.

torchtitan has no options for the number format: they belong to a config function. The launch
script starts this file with `--module torchtitan_job --config job`.
"""

from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.config import CompileConfig
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_8b
from torchtitan.train import main


def job():
    config = llama3_8b()
    # uncompiled layers would lose the time that the number format saves
    config.compile = CompileConfig(enable=True, components=["model", "loss"])
    config.model_spec = model_registry(
        "8B",
        converters=[
            Float8LinearConverter.Config(filter_fqns=["lm_head", "router.gate"], model_compile_enabled=True),
        ],
    )
    config.loss.loss_fn.global_vocab_size = decoder_vocab_size(config.model_spec)
    config.hf_assets_path = "./assets/hf/Llama-3.1-8B"
    return config


if __name__ == "__main__":
    main()
