#!/usr/bin/env bash
# rigtune-mini on a CPU
#
# DDP on 2 nodes x 2 ranks (cpu, gloo), fp32, activation checkpointing none. Micro-batch 2 x 2 accumulation
# steps x 4 ranks = global batch 16.
# The recipe predicts neither step time nor memory.
#
# Start on every node: MASTER_ADDR=ADDRESS ./launch.sh NODE_RANK [ATTEMPT] [-- PROGRAM ARGUMENTS]
# ADDRESS is the address at which every node reaches the first node.
# NODE_RANK is 0 on the first node and 1 on the last. ATTEMPT is any number, the same on all nodes; give a new one
# to each start, so that a process left from the previous start cannot join.
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
# The plan as JSON, for the program
export RIGTUNE_RECIPE=$folder/plan.json

# The rank of this node
usage() {
  echo "launch.sh: $1" >&2
  echo "usage: launch.sh NODE_RANK [ATTEMPT] [-- PROGRAM ARGUMENTS], with NODE_RANK from 0 to 1" >&2
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
[[ $node_rank -le 1 ]] || usage "NODE_RANK $node_rank is larger than 1"

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

# The interpreter that has torch; RIGTUNE_PYTHON overrides the one of the recipe.
python=python3
python=${RIGTUNE_PYTHON:-$python}
case $python in
  /*) ;;
  */*) python=$PWD/$python ;; # the folder changes below
esac
if ! type -P -- "$python" >/dev/null; then
  echo "launch.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has torch" >&2
  exit 127
fi

# The program is beside this script and runs there.
cd -- "$folder"
# The program imports modules that are beside this script.
export PYTHONPATH="$folder${PYTHONPATH:+:$PYTHONPATH}"

# Logs of this run in one file per rank, below the working folder; RIGTUNE_LOGS overrides the folder.
logs=logs/mini-"$attempt"
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

# The address at which every node reaches the first node
master=${MASTER_ADDR:-}
[[ -n $master ]] || usage "MASTER_ADDR is not set; export the address of the first node, the same on all nodes"
# Job name and attempt choose the port, from 20000 to 29999, below the ephemeral ports; MASTER_PORT overrides it.
port=${MASTER_PORT:-$((20000 + (9704 + attempt) % 10000))}

# A static rendezvous: with c10d torchrun ignores --node-rank and assigns ranks in order of arrival.
exec "$python" -m torch.distributed.run \
  --node-rank "$node_rank" \
  --master-addr "$master" \
  --master-port "$port" \
  --rdzv-id mini-"$attempt" \
  --tee 3 --log-dir "$logs" \
  --nnodes 2 --nproc-per-node 2 \
  -m rigtune_worker.train --config workload.json "$@"
