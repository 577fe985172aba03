"""A user's DeepSpeed script with a tiny Llama; every rank prints the settings that DeepSpeed uses."""

import argparse
import json
import sys

import deepspeed
import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
deepspeed.add_config_arguments(parser)
arguments = parser.parse_args()

deepspeed.init_distributed("gloo")
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
)
engine, optimizer, _, scheduler = deepspeed.initialize(
    args=arguments, model=model, model_parameters=model.parameters()
)
tokens = torch.arange(2 * 16).reshape(2, 16) % 128
losses = []
for _ in range(arguments.steps):
    for _ in range(engine.gradient_accumulation_steps()):
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
    losses.append(loss.item())
report = {
    "rank": dist.get_rank(),
    "world": dist.get_world_size(),
    "stage": engine.zero_optimization_stage(),
    "micro_batch": engine.train_micro_batch_size_per_gpu(),
    "grad_accum": engine.gradient_accumulation_steps(),
    "batch": engine.train_batch_size(),
    "clipping": engine.gradient_clipping(),
    "optimizer": type(engine.basic_optimizer).__name__,
    "scheduler": type(scheduler).__name__,
    "rates": scheduler.get_last_lr()[0],
    "dtype": str(engine.get_data_types()),
    "losses": losses,
}
sys.stdout.write(f"REPORT {json.dumps(report)}\n")
dist.destroy_process_group()
