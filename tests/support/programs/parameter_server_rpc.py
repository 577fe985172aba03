"""A torch parameter server over RPC: rank 0 holds the weight, the other ranks send gradients to it."""

import os

import torch
from torch.distributed import rpc

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WEIGHT = torch.zeros(1)


def add_gradient(gradient):
    WEIGHT.sub_(0.5 * gradient)
    return WEIGHT.clone()


name = "server" if RANK == 0 else f"trainer{RANK}"
rpc.init_rpc(name, rank=RANK, world_size=WORLD)
if RANK > 0:
    for _ in range(3):
        rpc.rpc_sync("server", add_gradient, args=(torch.ones(1),))
rpc.shutdown()
if RANK == 0:
    os.write(1, f"server has {WEIGHT.item()} of {WORLD - 1} trainers\n".encode())
