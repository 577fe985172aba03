#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# Runs launch-deepspeed.sh on every host over ssh, the first host first. When one host fails, or this script is stopped, all end.
#
# Start: ./launch-all-deepspeed.sh [-- PROGRAM ARGUMENTS]
# Needs: ssh to every host without a password, and this folder under the same path there.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

hosts=(gpu1 gpu2 gpu3 gpu4)
folder=$(dirname -- "$(readlink -f -- "$0")")

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi
# All nodes must agree on the attempt; the id of this process is unique among those that run.
attempt=${ATTEMPT:-$$}

# Quote words for the shell of the other host, whatever shell that is.
quoted() {
  local word escaped="'\\''"
  for word in "$@"; do printf "'%s' " "${word//\'/$escaped}"; done
}

# ssh ends with this script, even if the script is killed with -9.
guard=(env)
if setpriv --pdeathsig TERM true 2>/dev/null; then guard=(setpriv --pdeathsig TERM); fi

processes=()
trap 'kill "${processes[@]}" 2>/dev/null || true; wait' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for node_rank in "${!hosts[@]}"; do
  command=(env RIGTUNE_PYTHON="${RIGTUNE_PYTHON:-}" MASTER_ADDR="${MASTER_ADDR:-}" MASTER_PORT="${MASTER_PORT:-}"
    RIGTUNE_PREFLIGHT="${RIGTUNE_PREFLIGHT:-1}" RIGTUNE_LOGS="${RIGTUNE_LOGS:-}"
    "$folder/launch-deepspeed.sh" "$node_rank" "$attempt" -- "$@")
  # The terminal of -tt makes the remote side end when the connection does; stty keeps its output free of carriage returns.
  remote="stty -opost 2>/dev/null; exec $(quoted "${command[@]}")"
  "${guard[@]}" ssh -tt -o BatchMode=yes -o ConnectTimeout=10 -- "${hosts[node_rank]}" "$remote" </dev/null &
  processes+=("$!")
done

for _ in "${hosts[@]}"; do
  wait -n || {
    code=$?
    echo "launch-all-deepspeed.sh: a host ended with exit code $code; the others are stopped" >&2
    exit "$code"
  }
done
