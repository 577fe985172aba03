#!/usr/bin/env bash
# rigtune-mini on a CPU
#
# DDP on 1 node x 2 ranks (AMD EPYC, gloo), fp32, activation checkpointing none. Micro-batch 2 x 2 accumulation
# steps x 2 ranks = global batch 8.
# Predicted: 50 ms per step (40 ms to 60 ms), 381 MiB allocated per rank; `rigtune verify recipe.toml` measures
# it.
#
# Start: ./launch.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file: edit that and export again, or change this file as you like.

# Why this plan
# - strategy = ddp (modelled): every rank holds the whole model.
# - micro_batch = 2 (user): pinned.

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

# Environment
# The plan was made with these values; they override those of the calling shell.

# One thread per physical core of the rank; more only take turns.
# Source: torch.distributed.run, which sets 1 where nothing is set
export OMP_NUM_THREADS=1

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
  echo "launch.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has torch" >&2
  exit 127
fi

# The reference program is beside this script and runs there.
cd -- "$(dirname -- "$(readlink -f -- "$0")")"
export PYTHONPATH=".${PYTHONPATH:+:$PYTHONPATH}"

# --standalone takes a free port and a new id, so jobs on one machine cannot meet. The ranks meet on the loopback: torchrun
# would use the host name, and hang if that does not resolve, as on many fresh machines.
exec "$python" -m torch.distributed.run \
  --standalone \
  --local-addr 127.0.0.1 \
  --nnodes 1 \
  --nproc-per-node 2 \
  -m rigtune_worker.train --config workload.json "$@"
