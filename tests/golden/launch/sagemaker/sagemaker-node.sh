#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# FSDP on 4 nodes x 8 ranks (NVIDIA H100, nccl), bf16, activation checkpointing full. Micro-batch 2 x 2
# accumulation steps x 32 ranks = global batch 128.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# sagemaker_job.py runs this script on every node.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# Environment. The plan was made with these values.
# Two of the ports belong to storage
export NCCL_IB_HCA='=mlx5_0,mlx5_3'
# A value that a shell would read
# shellcheck disable=SC2016  # literal text
export HYDRA_FULL_ERROR='$HOME it'"'"'s'
# The plan as JSON, for the program
export RIGTUNE_RECIPE=$folder/plan.json

# The interpreter of the image; RIGTUNE_PYTHON overrides it.
python=python3
python=${RIGTUNE_PYTHON:-$python}
if ! type -P -- "$python" >/dev/null; then
  echo "sagemaker-node.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has torch" >&2
  exit 127
fi
cd -- '/home/someone/my project'

# The place of this node, as SageMaker states it
master=algo-1
node_rank=${SM_CURRENT_HOST_RANK:-$((${SM_CURRENT_HOST#algo-} - 1))}
port=29500
# shellcheck disable=SC2016  # literal text
exec "$python" -m torch.distributed.run \
  --node-rank "$node_rank" --master-addr "$master" --master-port "$port" \
  --rdzv-id mini \
  --nnodes 4 --nproc-per-node 8 \
  'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@"
