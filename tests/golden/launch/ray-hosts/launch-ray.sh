#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# FSDP on 4 nodes x 8 ranks (NVIDIA H100, nccl), bf16, activation checkpointing full. Micro-batch 2 x 2
# accumulation steps x 32 ranks = global batch 128.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# Starts a Ray cluster on the nodes, runs the program on the first of them, and ends both.
#
# Start: ./launch-ray.sh [-- PROGRAM ARGUMENTS]
# In Slurm: sbatch --nodes=4 --ntasks-per-node=1 --exclusive --wrap=./launch-ray.sh, or inside salloc.
# Needs: ssh to every host without a password (outside of Slurm), and this folder under the same path on every node.
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
# A node removes its file when it ends; before the nodes start, this script does.
# shellcheck disable=SC2016  # expanded on the node
forget=(bash -c 'cd && rm -f -- "$0"' "$token")

if [[ -n ${SLURM_JOB_ID:-} ]]; then
  if [[ $SLURM_JOB_NUM_NODES -ne 4 ]]; then
    echo "launch-ray.sh: the recipe needs 4 nodes, not $SLURM_JOB_NUM_NODES: another number changes the global batch" >&2
    exit 2
  fi
  read -r first_node < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  MASTER_ADDR=$(scontrol show node "$first_node" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
  export MASTER_ADDR
  tasks=(--nodes=4 --ntasks=4 --ntasks-per-node=1 --kill-on-bad-exit=1 --export=ALL)
  trap 'srun "${tasks[@]}" "${forget[@]}" || true' EXIT
  srun "${tasks[@]}" bash -c "$keep" "$token" <<<"$secret"
  # shellcheck disable=SC2016  # expanded on the node
  exec srun "${tasks[@]}" bash -c 'exec "$0" "$SLURM_NODEID" "$@"' "$folder/ray-node.sh" "$token" -- "$@"
fi

hosts=(gpu1 gpu2 gpu3 gpu4)
# Quote words for the shell of the other host, whatever shell that is.
quoted() {
  local word escaped="'\\''"
  for word in "$@"; do printf "'%s' " "${word//\'/$escaped}"; done
}

# ssh ends with this script, even if the script is killed with -9.
guard=(env)
if setpriv --pdeathsig TERM true 2>/dev/null; then guard=(setpriv --pdeathsig TERM); fi

processes=() holders=()
trap 'kill "${processes[@]}" 2>/dev/null || true; wait
  for host in "${holders[@]}"; do
    ssh -o BatchMode=yes -o ConnectTimeout=10 -- "$host" "exec $(quoted "${forget[@]}")" </dev/null || true
  done' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for host in "${hosts[@]}"; do
  ssh -o BatchMode=yes -o ConnectTimeout=10 -- "$host" "exec bash -c $(quoted "$keep" "$token")" <<<"$secret"
  holders+=("$host")
done
for node_rank in "${!hosts[@]}"; do
  command=(env RIGTUNE_PYTHON="${RIGTUNE_PYTHON:-}" MASTER_ADDR="${MASTER_ADDR:-}" MASTER_PORT="${MASTER_PORT:-}"
    RIGTUNE_PREFLIGHT="${RIGTUNE_PREFLIGHT:-1}" RIGTUNE_LOGS="${RIGTUNE_LOGS:-}" ATTEMPT="$attempt"
    "$folder/ray-node.sh" "$node_rank" "$token" -- "$@")
  remote="stty -opost 2>/dev/null; exec $(quoted "${command[@]}")"
  # The terminal of -tt makes the remote side end when the connection does.
  "${guard[@]}" ssh -tt -o BatchMode=yes -o ConnectTimeout=10 -- "${hosts[node_rank]}" "$remote" </dev/null &
  processes+=("$!")
done
holders=()

# The other nodes end after the first one.
for _ in "${hosts[@]}"; do
  wait -n || {
    code=$?
    echo "launch-ray.sh: a host ended with exit code $code; the others are stopped" >&2
    exit "$code"
  }
done
