#!/usr/bin/env bash
# rigtune-mini on a CPU
#
# DDP on 2 nodes x 2 ranks (cpu, gloo), fp32, activation checkpointing none. Micro-batch 2 x 2 accumulation
# steps x 4 ranks = global batch 16.
# The recipe predicts neither step time nor memory.
#
# Start: MASTER_ADDR=ADDRESS ./launch-mpi.sh [-- PROGRAM ARGUMENTS]
# ADDRESS is the address at which every host reaches the first host. mpirun gets the hosts from the scheduler.
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

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

if [[ -z ${MASTER_ADDR:-} ]]; then
  echo "launch-mpi.sh: MASTER_ADDR is not set; export the address of the first host" >&2
  exit 2
fi
# The id of this process chooses the port, from 20000 to 29999, below the ephemeral ports; MASTER_PORT overrides it.
MASTER_PORT=${MASTER_PORT:-$((20000 + (9704 + $$) % 10000))}
export MASTER_ADDR MASTER_PORT
export RIGTUNE_PREFLIGHT=${RIGTUNE_PREFLIGHT:-1}

# The command of each rank: it sets the variables of its rank as torch expects them.
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
  exec > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/rank$RANK.log") 2>&1
  if [[ -n ${OMPI_COMM_WORLD_RANK:-} ]]; then exec "$python" "$@"; fi
  "$python" "$@"
'
command=(bash -c "$rank" "$python" -m rigtune_worker.train --config workload.json "$@")
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
    options=(--bind-to none --map-by ppr:2:node:OVERSUBSCRIBE -x MASTER_ADDR -x MASTER_PORT -x RIGTUNE_LOGS -x RIGTUNE_RECIPE -x RIGTUNE_PREFLIGHT -x PYTHONPATH)
    start=(mpirun -np 4 "${options[@]}" "${command[@]}")
    if [[ $EUID -eq 0 && ${OMPI_ALLOW_RUN_AS_ROOT:-} != 1 ]]; then
      echo "launch-mpi.sh: Open MPI refuses to run as root; if you intend it, as in a container:" \
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1" >&2
      exit 2
    fi
    ;;
  *HYDRA* | *"Intel(R) MPI"*)
    # These pass on the whole environment, and bind nothing by default (Intel: with I_MPI_PIN=0).
    export I_MPI_PIN=0
    options=(-n 4 -ppn 2)
    start=(mpirun "${options[@]}" "${command[@]}")
    ;;
  *)
    echo "launch-mpi.sh: this mpirun is not from Open MPI, MPICH or Intel: ${family%%$'\n'*}" >&2
    exit 2
    ;;
esac

exec "${start[@]}"
