"""A user's accelerate script with a tiny Llama; every rank prints the settings that accelerate uses."""

import argparse
import json
import os
import sys

import torch
from accelerate import Accelerator
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper
from torch.distributed.tensor import DTensor
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--lr", type=float)
parser.add_argument("--steps", type=int)
arguments = parser.parse_args()

accelerator = Accelerator()
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
optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
tokens = torch.arange(64 * 16).reshape(64, 16) % 128
loader = torch.utils.data.DataLoader(tokens, batch_size=arguments.batch_size)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses, updates = [], 0
for _ in range(arguments.steps):
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(input_ids=batch, labels=batch).loss
            accelerator.backward(loss)
            updates += accelerator.sync_gradients
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
layer = next(parameter for name, parameter in model.named_parameters() if "q_proj" in name)
sharded = [isinstance(parameter, DTensor) for parameter in model.parameters()]
report = {
    "rank": accelerator.process_index,
    "world": accelerator.num_processes,
    "type": str(accelerator.distributed_type),
    "precision": accelerator.mixed_precision,
    "class": type(accelerator.unwrap_model(model)).__name__,
    "wrapper": type(model).__name__,
    "placements": str(layer.placements) if isinstance(layer, DTensor) else "",
    "mesh": str(layer.device_mesh.mesh_dim_names) if isinstance(layer, DTensor) else "",
    "sharded": all(sharded),
    "units": sum(type(module).__name__ == "FSDPLlamaDecoderLayer" for module in model.modules()),
    "recomputed": sum(isinstance(module, CheckpointWrapper) for module in model.modules()),
    "grad_accum": accelerator.gradient_accumulation_steps,
    "batches": len(losses),
    "updates": updates,
    "losses": losses,
    "variables": {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("ACCELERATE_", "FSDP_", "PARALLELISM_CONFIG_"))
    },
}
sys.stdout.write(f"REPORT {json.dumps(report)}\n")
accelerator.end_training()
