#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# nccl-tests on 4 nodes x 8 ranks (NVIDIA H100), with the environment of this job.
# `rigtune explain FOLDER_OF_THE_LOGS` compares the bus bandwidth with what such GPUs reach.
#
# Start: ./launch-mpi.sh [-- PROGRAM ARGUMENTS]
# mpirun gets the hosts from the scheduler.
# Needs: mpirun of Open MPI, MPICH or Intel MPI on every host, and this folder under the same path there.
# The ranks meet by MPI: the program must be built with this MPI, or every rank would run alone.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.
# - Your -t 2 is left out: the launcher decides the GPUs of a process

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
# Open MPI only lets the ranks meet, and TCP suffices
export OMPI_MCA_pml=ob1
# Open MPI only lets the ranks meet, and TCP suffices
export OMPI_MCA_btl=tcp,self
# Open MPI only lets the ranks meet, and TCP suffices
export OMPI_MCA_coll_hcoll_enable=0
# The plan as JSON, for the program
export RIGTUNE_RECIPE=$folder/plan.json

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

program='/opt/nccl tests/build/all_reduce_perf'

# The program runs in the folder in which the job is started.
# cd -- /shared/me/project

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

# container=(apptainer exec --nv --bind "$PWD" /images/train.sif) # and "${container[@]}" before each command below

# Ranks on other hosts look for the libraries of the program in the same folders.
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
export RIGTUNE_PREFLIGHT=${RIGTUNE_PREFLIGHT:-1}

# The command of each rank: it sets the variables of its rank as torch expects them.
# setpriv: the kernel kills a rank when its parent process on the host dies, even by kill -9.
# shellcheck disable=SC2016  # expanded by the inner bash
rank='
  # MPICH and Intel MPI end the other ranks only when one dies by a signal.
  if [[ -z ${OMPI_COMM_WORLD_RANK:-} ]]; then trap "[[ \$? -eq 0 ]] || kill -KILL \$\$" EXIT; fi
  program=$0
  if ! type -P -- "$program" >/dev/null; then
    echo "launch-mpi.sh: there is no program $program on $(uname -n)" >&2
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
  if [[ $LOCAL_RANK -eq 0 ]]; then "${RIGTUNE_RECIPE%/*}/preflight.sh" "$program" || exit; fi
  guard=(env)
  if setpriv --pdeathsig KILL true 2>/dev/null; then guard=(setpriv --pdeathsig KILL); fi
  exec > >(trap "" INT TERM HUP USR1 && exec tee -a -- "$RIGTUNE_LOGS/rank$RANK.log") 2>&1
  if [[ -n ${OMPI_COMM_WORLD_RANK:-} ]]; then exec "${guard[@]}" "$program" "$@"; fi
  "${guard[@]}" "$program" "$@"
'
command=(bash -c "$rank" "$program" -b 1M -e 8G -f 2 -n 20 -w 5 -c 1 -o all -g 1 "$@")
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
    options=(--bind-to none --map-by ppr:8:node:OVERSUBSCRIBE -x RIGTUNE_LOGS -x RIGTUNE_RECIPE -x RIGTUNE_PREFLIGHT -x LD_LIBRARY_PATH -x NCCL_IB_HCA -x HYDRA_FULL_ERROR -x OMPI_MCA_pml -x OMPI_MCA_btl -x OMPI_MCA_coll_hcoll_enable -x NCCL_DEBUG -x NCCL_DEBUG_FILE)
    start=(mpirun -np 32 "${options[@]}" "${command[@]}")
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
    start=(mpirun "${options[@]}" "${command[@]}")
    ;;
  *)
    echo "launch-mpi.sh: this mpirun is not from Open MPI, MPICH or Intel: ${family%%$'\n'*}" >&2
    exit 2
    ;;
esac

exec "${start[@]}"
