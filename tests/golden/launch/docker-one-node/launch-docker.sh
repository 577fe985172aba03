#!/usr/bin/env bash
# rigtune-mini on a CPU
#
# DDP on 1 node x 2 ranks (AMD EPYC, gloo), fp32, activation checkpointing none. Micro-batch 2 x 2 accumulation
# steps x 2 ranks = global batch 8.
# Predicted: 50 ms per step (40 ms to 60 ms), 381 MiB allocated per rank; `rigtune verify recipe.toml` measures
# it.
#
# Start: ./launch-docker.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

# The folder that the program runs in has the same path in the container.
work=$PWD
case $folder$work in
  *[,\"]*)
    echo "launch-docker.sh: docker cannot mount a folder with a comma or a quote in its path: $folder, $work" >&2
    exit 2
    ;;
esac

options=(--rm --init --stop-timeout=300)
# Shared memory for NCCL and data loaders; locked memory and stack as NCCL's guide recommends.
options+=(--shm-size=16g --ulimit=memlock=-1 --ulimit=stack=67108864)
options+=(--user="$(id -u):$(id -g)")
options+=(--mount="type=bind,source=$folder,target=/rigtune,readonly")
options+=(--mount="type=bind,source=$work,target=$work" --workdir="$work")

# Environment of the container. The plan was made with these values.
# One thread per physical core of the rank; more only take turns
options+=(--env='OMP_NUM_THREADS=1')
# The plan as JSON, for the program
options+=(--env='RIGTUNE_RECIPE=/rigtune/plan.json')
# Log lines appear at once
options+=(--env='PYTHONUNBUFFERED=1')
# Seconds that torchrun leaves its ranks after SIGTERM; its default is 30
options+=(--env='TORCH_ELASTIC_SHUTDOWN_TIMEOUT=290')
# A user that the image does not know has no home
options+=(--env='HOME=/tmp')
options+=(--env='USER=rigtune')
# Tokens are taken from the environment of the calling shell and written to no file.
for word in HF_TOKEN WANDB_API_KEY; do
  if [[ -n ${!word:-} ]]; then options+=(--env="$word"); fi
done

exec docker run "${options[@]}" registry.example.org/team/train:1.2 python3 \
  -m torch.distributed.run \
  --standalone --local-addr 127.0.0.1 \
  --nnodes 1 --nproc-per-node 2 \
  -m project.train "$@"
