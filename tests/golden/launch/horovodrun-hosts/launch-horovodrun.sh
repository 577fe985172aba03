#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# DDP on 4 nodes x 8 ranks (NVIDIA H100, nccl), fp16, activation checkpointing none. Micro-batch 2 x 2
# accumulation steps x 32 ranks = global batch 128.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# Start on one of the hosts: ./launch-horovodrun.sh [-- PROGRAM ARGUMENTS]
# Needs: ssh from here to every host without a password, and this folder and the interpreter under the same path there.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - Warning: no argument of your script has {grad_accum}: it must use 2 itself (backward_passes_per_step of
#   DistributedOptimizer)
# - Warning: no argument of your script has {precision}: it must use fp16 itself (number format of matrix
#   products)

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# Site: modules, a conda environment, a file to source, a container (`rigtune export --slot NAME=VALUE` fills these lines).
# module load cuda/12.8 gcc/13
# eval "$(conda shell.bash hook)" && conda activate train
# source /shared/env.sh

# Environment. The plan was made with these values; they override those of the calling shell.
# Two interfaces lead to the other hosts
export NCCL_SOCKET_IFNAME='=eth0,eth1'
# Horovod's own setting of Open MPI
export OMPI_MCA_pml=ob1
# Horovod's own setting of Open MPI
export OMPI_MCA_btl='^openib'
# The plan as JSON, for the program
export RIGTUNE_RECIPE=$folder/plan.json

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

# The interpreter that has horovod; RIGTUNE_PYTHON overrides the one of the recipe.
python='/opt/my venv/bin/python'
python=${RIGTUNE_PYTHON:-$python}
case $python in
  /*) ;;
  */*) python=$PWD/$python ;; # the folder changes below
esac
if ! type -P -- "$python" >/dev/null; then
  echo "launch-horovodrun.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has horovod" >&2
  exit 127
fi

# The folder that the program runs in
cd -- '/home/someone/my project'

# Logs of this run in one file per rank, below the working folder; RIGTUNE_LOGS overrides the folder.
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
# After a timeout torch's flight recorder writes the last collectives of every rank
export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
export TORCH_FR_BUFFER_SIZE=${TORCH_FR_BUFFER_SIZE:-2000}
export TORCH_NCCL_TRACE_BUFFER_SIZE=${TORCH_NCCL_TRACE_BUFFER_SIZE:-2000}
export TORCH_FR_DUMP_TEMP_FILE=${TORCH_FR_DUMP_TEMP_FILE:-$logs/flight-recorder.rank}
export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=${TORCH_NCCL_DEBUG_INFO_TEMP_FILE:-$logs/flight-recorder.rank}

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

# horovodrun gives the names of folder and interpreter to a shell of the other hosts as they are.
case $PWD$python in
  *[!A-Za-z0-9_./+,@%=-]*)
    echo "launch-horovodrun.sh: horovodrun reaches other hosts only from paths without blanks and special characters: $PWD, $python" >&2
    exit 2
    ;;
esac

export RIGTUNE_PREFLIGHT=${RIGTUNE_PREFLIGHT:-1}

# The command of each rank
# shellcheck disable=SC2016  # expanded by the inner bash
rank='
  python=$0
  if ! type -P -- "$python" >/dev/null; then
    echo "launch-horovodrun.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has horovod" >&2
    exit 127
  fi
  mkdir -p -- "$RIGTUNE_LOGS"
  # Gloo and Open MPI name the rank differently.
  rank=${HOROVOD_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}}
  local_rank=${HOROVOD_LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-}}}
  if [[ ${local_rank:-0} -eq 0 ]]; then "${RIGTUNE_RECIPE%/*}/preflight.sh" "$python" || exit; fi
  exec "$python" -u "$@" > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/rank$rank.log") 2>&1
'
# horovodrun would replace this variable by its own choice of interfaces.
# shellcheck disable=SC2016  # literal text
exec "$python" -m horovod.runner.launch \
  -np 32 -H gpu1:8,gpu2:8,gpu3:8,gpu4:8 --start-timeout 600 --network-interfaces eth0,eth1 \
  env NCCL_SOCKET_IFNAME="$NCCL_SOCKET_IFNAME" bash -c "$rank" "$python" 'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@"
