#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# FSDP on 1 node x 8 ranks (NVIDIA H100, nccl), bf16, activation checkpointing full. Micro-batch 2 x 2
# accumulation steps x 8 ranks = global batch 32.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# Start: ./launch-lxd.sh [-- PROGRAM ARGUMENTS]
# Needs: LXD 6.2 or newer, with the profile `default` for the root disk and the network.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - NCCL_IB_HCA==mlx5_0,mlx5_3 is left out: the container has no RDMA device (in Kubernetes: slot
#   network_resource)

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

work='/home/someone/my project'

# The container ends with this script.
lxc profile show mini >/dev/null 2>&1 || lxc profile create mini
lxc profile edit mini <"$folder"/lxd-profile.yaml
lxc launch --ephemeral --profile default --profile mini -- registry.example.org/team/train:1.2 mini
trap 'lxc stop --force mini' EXIT
lxc config device add mini rigtune disk source="$folder" path=/rigtune readonly=true
# The program's folder has the same path in the container; shift maps your files to its root.
lxc config device add mini work disk source="$work" path="$work" shift=true

# Environment. The plan was made with these values.
options=()
# A value that a shell would read
# shellcheck disable=SC2016  # literal text
options+=(--env='HYDRA_FULL_ERROR=$HOME it'"'"'s')
# The plan as JSON, for the program
options+=(--env='RIGTUNE_RECIPE=/rigtune/plan.json')
# Log lines appear at once
options+=(--env='PYTHONUNBUFFERED=1')
# Seconds that torchrun leaves its ranks after SIGTERM; its default is 30
options+=(--env='TORCH_ELASTIC_SHUTDOWN_TIMEOUT=290')

# shellcheck disable=SC2016  # literal text
lxc exec mini --cwd="$work" "${options[@]}" -- \
  python3 -m torch.distributed.run --standalone --local-addr 127.0.0.1 --nnodes 1 --nproc-per-node 8 'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@"
