#!/bin/bash
exec torchrun --nnodes "$SLURM_NNODES" --node-rank "$SLURM_NODEID" --nproc-per-node 8 \
  --master-addr "$MASTER_ADDR" --master-port 29500 train.py
