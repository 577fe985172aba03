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

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

# Tests on this node, which RIGTUNE_PREFLIGHT=0 skips
mkdir -p -- "$logs"
"$folder/preflight.sh" "$python"

# Ray's processes accept only those that have the token.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$token
# After the program nothing is left to drain.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

master=127.0.0.1
# Job name and attempt choose the port, from 20000 to 29999, below the ephemeral ports; MASTER_PORT overrides it.
port=${MASTER_PORT:-$((20000 + (9704 + attempt) % 10000))}
export RAY_ADDRESS=$master:$port

start=("$python" -m ray.scripts.scripts start --block --disable-usage-stats
  --num-cpus=2 --num-gpus=0)
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
"$python" -u "$folder"/ray_job.py --name=mini --nodes=1 --ranks-per-node=2 --cores=1 --backend=gloo --placement=STRICT_PACK --max-failures=3 --variables=OMP_NUM_THREADS -- 'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@" \
  > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/ray.log") 2>&1 &
program=$!
wait "$program"
