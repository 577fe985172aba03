#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# nccl-tests on 1 node x 8 ranks (NVIDIA H100), with the environment of this job.
# `rigtune explain FOLDER_OF_THE_LOGS` compares the bus bandwidth with what such GPUs reach.
#
# Start: ./launch-docker.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - Your -t 2 is left out: the launcher decides the GPUs of a process
# - One process has all GPUs; with one process per GPU (launcher mpi), P2P differs

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
options+=(--gpus=all)
# Shared memory for NCCL and data loaders; locked memory and stack as NCCL's guide recommends.
options+=(--shm-size=16g --ulimit=memlock=-1 --ulimit=stack=67108864)
options+=(--user="$(id -u):$(id -g)")
# NCCL's settings and topology of this host
for file in /etc/nccl.conf /var/run/nvidia-topologyd /opt/microsoft; do
  if [[ -e $file ]]; then options+=(--mount="type=bind,source=$file,target=$file,readonly"); fi
done
options+=(--mount="type=bind,source=$folder,target=/rigtune,readonly")
options+=(--mount="type=bind,source=$work,target=$work" --workdir="$work")

# Environment of the container. The plan was made with these values.
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

options+=(--env=NODE_RANK=0 --env=NODE_COUNT=1 --env=MASTER_ADDR=127.0.0.1 --env=MASTER_PORT=29704)
exec docker run "${options[@]}" registry.example.org/team/train:1.2 all_reduce_perf \
  -b 1M -e 8G -f 2 -n 20 -w 5 -c 1 -o all -g 8 "$@"
