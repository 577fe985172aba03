#!/usr/bin/env bash
# rigtune-mini on a CPU
#
# DDP on 1 node x 2 ranks (AMD EPYC, gloo), fp32, activation checkpointing none. Micro-batch 2 x 2 accumulation
# steps x 2 ranks = global batch 8.
# Predicted: 50 ms per step (40 ms to 60 ms), 381 MiB allocated per rank; `rigtune verify recipe.toml` measures
# it.
#
# Start: ./launch-horovodrun.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - Warning: no argument of your script has {grad_accum}: it must use 2 itself (backward_passes_per_step of
#   DistributedOptimizer)

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# Site: modules, a conda environment, a file to source, a container (`rigtune export --slot NAME=VALUE` fills these lines).
# module load cuda/12.8 gcc/13
# eval "$(conda shell.bash hook)" && conda activate train
# source /shared/env.sh

# Environment. The plan was made with these values; they override those of the calling shell.
# One thread per physical core of the rank; more only take turns
export OMP_NUM_THREADS=1
# Horovod's own setting of Open MPI
export OMPI_MCA_pml=ob1
# Horovod's own setting of Open MPI
export OMPI_MCA_btl='^openib'
# The plan as JSON, for the program
export RIGTUNE_RECIPE=$folder/plan.json

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

# The interpreter that has horovod; RIGTUNE_PYTHON overrides the one of the recipe.
python=/opt/venv/bin/python
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

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

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
# shellcheck disable=SC2016  # literal text
exec "$python" -m horovod.runner.launch \
  -np 2 -H localhost:2 --start-timeout 600 \
  bash -c "$rank" "$python" 'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@"
