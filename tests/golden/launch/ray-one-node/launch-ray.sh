#!/usr/bin/env bash
# rigtune-mini on a CPU
#
# DDP on 1 node x 2 ranks (AMD EPYC, gloo), fp32, activation checkpointing none. Micro-batch 2 x 2 accumulation
# steps x 2 ranks = global batch 8.
# Predicted: 50 ms per step (40 ms to 60 ms), 381 MiB allocated per rank; `rigtune verify recipe.toml` measures
# it.
#
# Starts Ray on this machine, runs the program on it, and ends both.
#
# Start: ./launch-ray.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi


# The number of the attempt chooses the port; the id of this process is unique among those that run.
attempt=${ATTEMPT:-$$}
export ATTEMPT=$attempt

# Ray's processes trust each other by this secret, which every node keeps in a file that only its owner reads.
secret=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
token=.ray/rigtune-mini-$attempt.token
# shellcheck disable=SC2016  # expanded on the node
keep='umask 077; cd && mkdir -p .ray && cat >"$0"'

bash -c "$keep" "$token" <<<"$secret"
exec "$folder/ray-node.sh" 0 "$token" -- "$@"
