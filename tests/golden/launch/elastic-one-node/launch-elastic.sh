#!/usr/bin/env bash
# rigtune-mini on a CPU
#
# DDP on 1 node x 2 ranks (AMD EPYC, gloo), fp32, activation checkpointing none. Micro-batch 2 x 2 accumulation
# steps x 2 ranks = global batch 8.
# Predicted: 50 ms per step (40 ms to 60 ms), 381 MiB allocated per rank; `rigtune verify recipe.toml` measures
# it.
#
# Start: ./launch-elastic.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.

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
# The plan as JSON, for the program
export RIGTUNE_RECIPE=$folder/plan.json

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

# The interpreter that has torch; RIGTUNE_PYTHON overrides the one of the recipe.
python=/opt/venv/bin/python
python=${RIGTUNE_PYTHON:-$python}
case $python in
  /*) ;;
  */*) python=$PWD/$python ;; # the folder changes below
esac
if ! type -P -- "$python" >/dev/null; then
  echo "launch-elastic.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has torch" >&2
  exit 127
fi

# The program is beside this script and runs there.
cd -- "$folder"
# The program imports modules that are beside this script.
export PYTHONPATH="$folder${PYTHONPATH:+:$PYTHONPATH}"

# Logs of this run in one file per rank, below the working folder; RIGTUNE_LOGS overrides the folder.
logs=logs/mini-"$(date +%Y%m%d-%H%M%S)-$$"
logs=${RIGTUNE_LOGS:-$logs}
case $logs in
  /*) ;;
  *) logs=$PWD/$logs ;;
esac
export RIGTUNE_LOGS=$logs
# torchrun writes this before each line of a rank.
# shellcheck disable=SC2016  # torchrun fills it in
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[rank${rank}]: '

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

# Tests on this node, which RIGTUNE_PREFLIGHT=0 skips
mkdir -p -- "$logs"
"$folder/preflight.sh" "$python"

# A free port and a new id, so that jobs on one machine cannot meet. The ranks meet on the loopback: torchrun would use the
# host name, and hang if that does not resolve, as on many fresh machines.
exec "$python" -m torch.distributed.run \
  --standalone --local-addr 127.0.0.1 \
  --tee 3 --log-dir "$logs" \
  --max-restarts "${RIGTUNE_RESTARTS:-20}" \
  --nnodes 1 --nproc-per-node 2 \
  -m rigtune_worker.train --config workload.json "$@"
