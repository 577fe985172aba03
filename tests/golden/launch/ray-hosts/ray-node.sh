#!/usr/bin/env bash
# One node of the job: Ray's processes and, on the first node, the program. launch-ray.sh starts this script on every node.
#
# Usage: ray-node.sh NODE_RANK TOKEN_FILE [-- PROGRAM ARGUMENTS], with the token's path below the home folder
# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

node_rank=$1 token=$HOME/$2
shift 2
trap 'rm -f -- "$token"' EXIT # no failure below leaves the token behind

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

# The interpreter that has torch; RIGTUNE_PYTHON overrides the one of the recipe.
python='/opt/my venv/bin/python'
python=${RIGTUNE_PYTHON:-$python}
case $python in
  /*) ;;
  */*) python=$PWD/$python ;; # the folder changes below
esac
if ! type -P -- "$python" >/dev/null; then
  echo "ray-node.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has torch" >&2
  exit 127
fi

# The folder that the program runs in
cd -- '/home/someone/my project'

attempt=${ATTEMPT:-0}
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

# Ray's processes accept only those that have the token.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$token
# After the program nothing is left to drain.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

# The first node has the head of the cluster; Ray needs its address, not its name.
master=${MASTER_ADDR:-gpu1}
address=$(getent ahostsv4 "$master" | awk 'NR == 1 { print $1 }') || true
master=${address:-$master}
if [[ $node_rank -eq 0 && $master == 127.* ]]; then
  echo "ray-node.sh: on $(uname -n) the name of this node means the loopback; export MASTER_ADDR with the address that other nodes use" >&2
  exit 2
fi
# Job name and attempt choose the port, from 20000 to 29999, below the ephemeral ports; MASTER_PORT overrides it.
port=${MASTER_PORT:-$((20000 + (9704 + attempt) % 10000))}
export RAY_ADDRESS=$master:$port

start=("$python" -m ray.scripts.scripts start --block --disable-usage-stats
  --num-cpus=96 --num-gpus=8)
ray='' program=''
finish() {
  rm -f -- "$token"
  for process in $program $ray; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

reachable() { (exec 3<>"/dev/tcp/$master/$port") 2>/dev/null; }

# Wait until the head answers, at most ten minutes.
await_head() {
  local second
  for ((second = 0; second < 600; second++)); do
    if reachable; then return; fi
    if [[ -n $ray ]] && ! kill -0 "$ray" 2>/dev/null; then break; fi
    sleep 1
  done
  echo "ray-node.sh: no answer from the head of the Ray cluster, $RAY_ADDRESS" >&2
  exit 1
}

if [[ $node_rank -ne 0 ]]; then
  await_head
  "${start[@]}" --address="$RAY_ADDRESS" >>"$logs/ray-node$node_rank.log" 2>&1 &
  ray=$!
  # This node ends when the head does.
  failures=0
  while [[ $failures -lt 3 ]]; do
    if ! kill -0 "$ray" 2>/dev/null; then
      code=0
      wait "$ray" || code=$?
      if ! reachable; then exit 0; fi
      echo "ray-node.sh: Ray ended on $(uname -n) with exit code $code; see $logs/ray-node$node_rank.log" >&2
      exit 1
    fi
    if reachable; then failures=0; else failures=$((failures + 1)); fi
    sleep 2
  done
  exit 0
fi

"${start[@]}" --head --node-ip-address="$master" --port="$port" >>"$logs/ray-node0.log" 2>&1 &
ray=$!
await_head
# shellcheck disable=SC2016  # literal text
"$python" -u "$folder"/ray_job.py --name=mini --nodes=4 --ranks-per-node=8 --cores=12 --backend=nccl --placement=PACK --max-failures=3 --storage=/shared/runs --variables=NCCL_IB_HCA,HYDRA_FULL_ERROR -- 'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@" \
  > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/ray.log") 2>&1 &
program=$!
wait "$program"
