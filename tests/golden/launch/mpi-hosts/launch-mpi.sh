#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# FSDP on 4 nodes x 8 ranks (NVIDIA H100, nccl), bf16, activation checkpointing full. Micro-batch 2 x 2
# accumulation steps x 32 ranks = global batch 128.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# Start: ./launch-mpi.sh [-- PROGRAM ARGUMENTS]
# Needs: mpirun of Open MPI, MPICH or Intel MPI on every host, and this folder under the same path there.
# mpirun only starts the ranks: they communicate by NCCL or gloo, never by MPI.
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

# Rank 0 runs on the first host; this is the address at which every host reaches it
MASTER_ADDR=${MASTER_ADDR:-gpu1}
# The id of this process chooses the port, from 20000 to 29999, below the ephemeral ports; MASTER_PORT overrides it.
MASTER_PORT=${MASTER_PORT:-$((20000 + (9704 + $$) % 10000))}
export MASTER_ADDR MASTER_PORT
export RIGTUNE_PREFLIGHT=${RIGTUNE_PREFLIGHT:-1}

hosts=(gpu1 gpu2 gpu3 gpu4)
# The command of each rank: it sets the variables of its rank as torch expects them.
# setpriv: the kernel kills a rank when its parent process on the host dies, even by kill -9.
# shellcheck disable=SC2016  # expanded by the inner bash
rank='
  # MPICH and Intel MPI end the other ranks only when one dies by a signal.
  if [[ -z ${OMPI_COMM_WORLD_RANK:-} ]]; then trap "[[ \$? -eq 0 ]] || kill -KILL \$\$" EXIT; fi
  python=$0
  if ! type -P -- "$python" >/dev/null; then
    echo "launch-mpi.sh: no Python interpreter $python on $(uname -n); set RIGTUNE_PYTHON to one that has torch" >&2
    exit 127
  fi
  export RANK=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}} WORLD_SIZE=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-}}
  export LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-}}
  export LOCAL_WORLD_SIZE=${OMPI_COMM_WORLD_LOCAL_SIZE:-${MPI_LOCALNRANKS:-}}
  if [[ -z $RANK || -z $WORLD_SIZE || -z $LOCAL_RANK || -z $LOCAL_WORLD_SIZE ]]; then
    echo "launch-mpi.sh: mpirun set no rank on $(uname -n)" >&2
    exit 2
  fi
  mkdir -p -- "$RIGTUNE_LOGS"
  if [[ $LOCAL_RANK -eq 0 ]]; then "${RIGTUNE_RECIPE%/*}/preflight.sh" "$python" || exit; fi
  guard=(env)
  if setpriv --pdeathsig KILL true 2>/dev/null; then guard=(setpriv --pdeathsig KILL); fi
  exec > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/rank$RANK.log") 2>&1
  if [[ -n ${OMPI_COMM_WORLD_RANK:-} ]]; then exec "${guard[@]}" "$python" -u "$@"; fi
  "${guard[@]}" "$python" -u "$@"
'
# shellcheck disable=SC2016  # literal text
command=(bash -c "$rank" "$python" 'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@")
for word in "${command[@]}"; do
  if [[ $word == : ]]; then
    echo "launch-mpi.sh: mpirun would end the command at an argument that is a lone colon; leave it out" >&2
    exit 2
  fi
done

# Options differ between the families of mpirun. Ranks are not bound to cores: by default Open MPI would put all threads of a
# rank, those of NCCL and of the data loaders too, on one core or NUMA node, which torchrun does not do.
if ! type -P mpirun >/dev/null; then
  echo "launch-mpi.sh: there is no mpirun on the PATH of $(uname -n); load the module of your MPI" >&2
  exit 127
fi
family=$(mpirun --version 2>&1 || true)
case $family in
  *"Open MPI"* | *OpenRTE* | *PRRTE*)
    # Open MPI passes on only the variables that are named.
    options=(--bind-to none --map-by :OVERSUBSCRIBE -x MASTER_ADDR -x MASTER_PORT -x RIGTUNE_LOGS -x RIGTUNE_RECIPE -x RIGTUNE_PREFLIGHT -x NCCL_IB_HCA -x HYDRA_FULL_ERROR -x NCCL_DEBUG -x NCCL_DEBUG_FILE -x TORCH_NCCL_DUMP_ON_TIMEOUT -x TORCH_FR_BUFFER_SIZE -x TORCH_NCCL_TRACE_BUFFER_SIZE -x TORCH_FR_DUMP_TEMP_FILE -x TORCH_NCCL_DEBUG_INFO_TEMP_FILE)
    # A group for each host: otherwise Open MPI would begin with the host that it runs on, whatever its position in the list.
    start=(mpirun)
    for host in "${hosts[@]}"; do
      start+=(-np 8 --host "$host:8" "${options[@]}" "${command[@]}" :)
    done
    unset 'start[-1]'
    if [[ $EUID -eq 0 && ${OMPI_ALLOW_RUN_AS_ROOT:-} != 1 ]]; then
      echo "launch-mpi.sh: Open MPI refuses to run as root; if you intend it, as in a container:" \
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" >&2
      exit 2
    fi
    ;;
  *HYDRA* | *"Intel(R) MPI"*)
    # These pass on the whole environment, and bind nothing by default (Intel: with I_MPI_PIN=0).
    export I_MPI_PIN=0
    options=(-n 32 -ppn 8)
    options+=(-hosts "gpu1,gpu2,gpu3,gpu4")
    start=(mpirun "${options[@]}" "${command[@]}")
    ;;
  *)
    echo "launch-mpi.sh: this mpirun is not from Open MPI, MPICH or Intel: ${family%%$'\n'*}" >&2
    exit 2
    ;;
esac

exec "${start[@]}"
