#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# DDP on 4 nodes x 8 ranks (NVIDIA H100, nccl), bf16, activation checkpointing none. Micro-batch 2 x 2
# accumulation steps x 32 ranks = global batch 128.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# Start on every node: ./launch.sh NODE_RANK [ATTEMPT] [-- PROGRAM ARGUMENTS]
# NODE_RANK is 0 on the first node and 3 on the last. ATTEMPT is any number, the same on all nodes; give a new one
# to each start, so that a process left from the previous start cannot join.
# ./launch-all.sh does that over ssh.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - Your program must create tf.distribute.ParameterServerStrategy before it builds the model
# - Your program runs on the first node, as the chief; the chief and 2 parameter servers use no GPU. The plan's
#   time and memory are those of synchronous training
# - Warning: no argument of your script has {global_batch}: it must use 128 itself (Dataset.batch, over all
#   replicas)
# - Warning: your program must call mixed_precision.set_global_policy('mixed_bfloat16')
# - Warning: tf.distribute does not accumulate gradients; your loop must sum 2 micro-batches

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

# The rank of this node
usage() {
  echo "launch.sh: $1" >&2
  echo "usage: launch.sh NODE_RANK [ATTEMPT] [-- PROGRAM ARGUMENTS], with NODE_RANK from 0 to 3" >&2
  exit 2
}

node_rank=${NODE_RANK:-}
attempt=${ATTEMPT:-0}
if [[ $# -gt 0 && $1 != -- ]]; then
  node_rank=$1
  shift
fi
if [[ $# -gt 0 && $1 != -- ]]; then
  attempt=$1
  shift
fi
if [[ $# -gt 0 && $1 != -- ]]; then usage "unexpected argument $1"; fi
[[ -n $node_rank ]] || usage "NODE_RANK is missing"
[[ $node_rank =~ ^[0-9]{1,6}$ ]] || usage "NODE_RANK $node_rank is not a number"
[[ $attempt =~ ^[0-9]{1,9}$ ]] || usage "ATTEMPT $attempt is not a number"
node_rank=$((10#$node_rank))
attempt=$((10#$attempt))
[[ $node_rank -le 3 ]] || usage "NODE_RANK $node_rank is larger than 3"

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

# The interpreter that has tensorflow; RIGTUNE_PYTHON overrides the one of the recipe.
python='/opt/my venv/bin/python'
python=${RIGTUNE_PYTHON:-$python}
case $python in
  /*) ;;
  */*) python=$PWD/$python ;; # the folder changes below
esac
if ! type -P -- "$python" >/dev/null; then
  echo "launch.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has tensorflow" >&2
  exit 127
fi

# The folder that the program runs in
cd -- '/home/someone/my project'

# Logs of this run, below the working folder; RIGTUNE_LOGS overrides the folder.
logs=logs/mini-"$attempt"
logs=${RIGTUNE_LOGS:-$logs}
case $logs in
  /*) ;;
  *) logs=$PWD/$logs ;;
esac
export RIGTUNE_LOGS=$logs
# NCCL states its transports and its errors, in one file per process
export NCCL_DEBUG=${NCCL_DEBUG:-INFO}
export NCCL_DEBUG_FILE=${NCCL_DEBUG_FILE:-$logs/nccl.%h.%p.log}
# After a timeout torch's flight recorder writes the last collectives of every rank
export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
export TORCH_FR_BUFFER_SIZE=${TORCH_FR_BUFFER_SIZE:-2000}
export TORCH_NCCL_TRACE_BUFFER_SIZE=${TORCH_NCCL_TRACE_BUFFER_SIZE:-2000}
export TORCH_FR_DUMP_TEMP_FILE=${TORCH_FR_DUMP_TEMP_FILE:-$logs/flight-recorder.rank}
export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=${TORCH_NCCL_DEBUG_INFO_TEMP_FILE:-$logs/flight-recorder.rank}

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

# Tests on this node, which RIGTUNE_PREFLIGHT=0 skips
mkdir -p -- "$logs"
"$folder/preflight.sh" "$python"

# The address at which every node reaches the first node
master=${MASTER_ADDR:-gpu1}
# Job name and attempt choose the port, from 20000 to 29999, below the ephemeral ports; MASTER_PORT overrides it.
port=${MASTER_PORT:-$((20000 + (9704 + attempt) % 10000))}

# The program starts its ranks itself; these variables describe the job.
export NODE_RANK="$node_rank" NODE_COUNT=4
export MASTER_ADDR="$master" MASTER_PORT="$port"
export NODE_HOSTS=gpu1,gpu2,gpu3,gpu4

# shellcheck disable=SC2016  # literal text
exec "$python" -u "$folder"/tensorflow_node.py --parameter-servers 2 'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@" \
  > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/node$NODE_RANK.log") 2>&1
