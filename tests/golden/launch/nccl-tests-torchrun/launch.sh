#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# nccl-tests on 1 node x 8 ranks (NVIDIA H100), with the environment of this job.
# `rigtune explain FOLDER_OF_THE_LOGS` compares the bus bandwidth with what such GPUs reach.
#
# Start: ./launch.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - Your -t 2 is left out: the launcher decides the GPUs of a process
# - One process has all GPUs; with one process per GPU (launcher mpi), P2P differs

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# Site: modules, a conda environment, a file to source, a container (`rigtune export --slot NAME=VALUE` fills these lines).
# module load cuda/12.8 gcc/13
# eval "$(conda shell.bash hook)" && conda activate train
# source /shared/env.sh

# Environment. The plan was made with these values; they override those of the calling shell.
# Two of the ports belong to storage
export NCCL_IB_HCA='=mlx5_0,mlx5_3'
# A value that a shell would read
# shellcheck disable=SC2016  # literal text
export HYDRA_FULL_ERROR='$HOME it'"'"'s'
# The plan as JSON, for the program
export RIGTUNE_RECIPE=$folder/plan.json

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

program='/opt/nccl tests/build/all_reduce_perf'
if ! type -P -- "$program" >/dev/null; then
  echo "launch.sh: there is no program $program on $(uname -n)" >&2
  exit 127
fi

# The program runs in the folder in which the job is started.
# cd -- /shared/me/project

# Logs of this run, below the working folder; RIGTUNE_LOGS overrides the folder.
logs=logs/mini-"$(date +%Y%m%d-%H%M%S)-$$"
logs=${RIGTUNE_LOGS:-$logs}
case $logs in
  /*) ;;
  *) logs=$PWD/$logs ;;
esac
export RIGTUNE_LOGS=$logs
# NCCL states its transports and its errors, in one file per process
export NCCL_DEBUG=${NCCL_DEBUG:-INFO}
export NCCL_DEBUG_FILE=${NCCL_DEBUG_FILE:-$logs/nccl.%h.%p.log}

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

# Tests on this node, which RIGTUNE_PREFLIGHT=0 skips
mkdir -p -- "$logs"
"$folder/preflight.sh" "$program"

# The program starts its ranks itself; these variables describe the job.
export NODE_RANK=0 NODE_COUNT=1
export MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
export MASTER_PORT=${MASTER_PORT:-$((20000 + (9704 + $$) % 10000))}
export NODE_HOSTS=127.0.0.1

exec "$program" -b 1M -e 8G -f 2 -n 20 -w 5 -c 1 -o all -g 8 "$@" \
  > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/node$NODE_RANK.log") 2>&1
