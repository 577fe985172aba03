#!/usr/bin/env bash
# Llama 3 8B on 8 NVIDIA H100
#
# FSDP on 1 node x 8 ranks (NVIDIA H100, nccl), fp8, activation checkpointing none. Micro-batch 1 x 16
# accumulation steps x 8 ranks = global batch 128.
# The recipe predicts neither step time nor memory.
#
# Start: ./launch.sh [-- PROGRAM ARGUMENTS]
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - The slot `data` is empty: torchtitan reads the data of its preset, C4 from the Hugging Face hub
# - The slot `tokenizer` is empty: torchtitan reads ./assets/hf/Llama-3.1-8B in the working folder, which its
#   scripts/download_hf_assets.py --repo_id meta-llama/Llama-3.1-8B --assets tokenizer writes

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

# The program runs in the folder in which the job is started.
# cd -- /shared/me/project

# Logs of this run in one file per rank, below the working folder; RIGTUNE_LOGS overrides the folder.
logs=logs/llama-3-8b-"$(date +%Y%m%d-%H%M%S)-$$"
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
# torchrun writes this before each line of a rank.
# shellcheck disable=SC2016  # torchrun fills it in
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[rank${rank}]: '

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

# Tests on this node, which RIGTUNE_PREFLIGHT=0 skips
mkdir -p -- "$logs"
"$folder/preflight.sh" "$python"

# The kernel kills the ranks when their torchrun dies, even by kill -9; otherwise they would keep running and hold their memory.
# torchrun then calls the program `setpriv` in its messages.
guard=(env)
if setpriv --pdeathsig KILL true 2>/dev/null; then guard=(setpriv --pdeathsig KILL); fi

# A free port and a new id, so that jobs on one machine cannot meet. The ranks meet on the loopback: torchrun would use the
# host name, and hang if that does not resolve, as on many fresh machines.
# shellcheck disable=SC2016  # literal text
exec "$python" -m torch.distributed.run \
  --standalone --local-addr 127.0.0.1 \
  --tee 3 --log-dir "$logs" \
  --nnodes 1 --nproc-per-node 8 \
  --no-python "${guard[@]}" "$python" -u \
  "$folder"/torchtitan_job.py --module torchtitan_job --config job --checkpoint.enable --checkpoint.interval 250 --checkpoint.no-last-save-model-only --metrics.log-freq 1 --metrics.disable-color-printing --profiler.no-enable-profiling --parallelism.data-parallel-replicate-degree 1 --parallelism.data-parallel-shard-degree 8 --parallelism.tensor-parallel-degree 1 --parallelism.pipeline-parallel-degree 1 --parallelism.context-parallel-degree 1 --parallelism.expert-parallel-degree 1 --training.local-batch-size 1 --training.global-batch-size 128 --training.seq-len 8192 --training.steps 2000 --training.max-norm 1 --training.mixed-precision-param bfloat16 --optimizer.param-groups.0.optimizer-kwargs.lr 0.0003 --optimizer.param-groups.0.optimizer-kwargs.betas 0.9 0.95 --optimizer.param-groups.0.optimizer-kwargs.weight-decay 0.1 --lr-scheduler.warmup-steps 100 --lr-scheduler.decay-type cosine --lr-scheduler.min-lr-factor 0.1 --lr-scheduler.decay-ratio None activation-checkpoint:none "$@"
