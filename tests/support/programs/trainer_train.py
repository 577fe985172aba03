"""A user's script with Hugging Face's Trainer and a tiny Llama; every rank prints what the Trainer uses."""

import json
import sys

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper
from torch.distributed.tensor import DTensor
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

if any("ds_config" in word for word in sys.argv):
    # on a CPU, DeepSpeed reads its configuration before the Trainer starts the process group
    import deepspeed

    deepspeed.init_distributed("gloo")
parser = HfArgumentParser(TrainingArguments)
if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
    (arguments,) = parser.parse_json_file(sys.argv[1])
else:
    (arguments,) = parser.parse_args_into_dataclasses()
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
)
tokens = torch.arange(64 * 16).reshape(64, 16) % 128
data = [{"input_ids": row, "labels": row} for row in tokens]
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
trained = trainer.model_wrapped
layer = next(parameter for name, parameter in trained.named_parameters() if "q_proj" in name)
engine = trainer.deepspeed
logs = [entry for entry in trainer.state.log_history if "loss" in entry]
report = {
    "rank": arguments.process_index,
    "world": arguments.world_size,
    "wrapper": type(trained).__name__,
    "placements": str(layer.placements) if isinstance(layer, DTensor) else "",
    "recomputed": sum(isinstance(module, CheckpointWrapper) for module in trained.modules()),
    "stage": engine.zero_optimization_stage() if engine else None,
    "ds_batch": engine.train_batch_size() if engine else None,
    "steps": trainer.state.global_step,
    "batch": trainer.state.train_batch_size,
    "grad_accum": arguments.gradient_accumulation_steps,
    "optimizer": type(getattr(trainer.optimizer, "optimizer", trainer.optimizer)).__name__,
    "arguments": {
        name: getattr(arguments, name)
        for name in ("learning_rate", "warmup_steps", "adam_beta2", "weight_decay", "max_grad_norm", "bf16")
    },
    "last_rate": logs[-1]["learning_rate"],
    "losses": [entry["loss"] for entry in logs],
}
sys.stdout.write(f"REPORT {json.dumps(report)}\n")
