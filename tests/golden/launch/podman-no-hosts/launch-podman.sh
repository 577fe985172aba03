#!/usr/bin/env bash
# Llama 3 8B on 4 x 8 NVIDIA H100
#
# FSDP on 4 nodes x 8 ranks (NVIDIA H100, nccl), bf16, activation checkpointing full. Micro-batch 2 x 2
# accumulation steps x 32 ranks = global batch 128.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# Start on every node: MASTER_ADDR=ADDRESS ./launch-podman.sh NODE_RANK [-- PROGRAM ARGUMENTS]
# ADDRESS is the address at which every node reaches the first node.
# NODE_RANK is 0 on the first node and 3 on the last.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
# Edit recipe.toml and export again, or change this file as you like.

# If started as `sh SCRIPT`, continue in bash.
if [ -z "${BASH_VERSION-}" ]; then exec bash "$0" "$@"; fi
set -euo pipefail

folder=$(dirname -- "$(readlink -f -- "$0")")

# The rank of this node
usage() {
  echo "launch-podman.sh: $1" >&2
  echo "usage: launch-podman.sh NODE_RANK [-- PROGRAM ARGUMENTS], with NODE_RANK from 0 to 3" >&2
  exit 2
}

node_rank=${NODE_RANK:-}
if [[ $# -gt 0 && $1 != -- ]]; then
  node_rank=$1
  shift
fi
if [[ $# -gt 0 && $1 != -- ]]; then usage "unexpected argument $1"; fi
[[ $node_rank =~ ^[0-9]{1,6}$ ]] || usage "NODE_RANK '$node_rank' is not a number"
node_rank=$((10#$node_rank))
[[ $node_rank -le 3 ]] || usage "NODE_RANK $node_rank is larger than 3"
master=${MASTER_ADDR:-}
[[ -n $master ]] || usage "MASTER_ADDR is not set; export the address of the first node, the same on all nodes"
# The job's name chooses the port, below the ephemeral ports; MASTER_PORT overrides it.
port=${MASTER_PORT:-29704}

# Arguments after `--` go to the program.
if [[ ${1-} == -- ]]; then shift; fi

# The folder that the program runs in has the same path in the container.
work='/home/someone/my project'
case $folder$work in
  *[,\"]*)
    echo "launch-podman.sh: podman cannot mount a folder with a comma or a quote in its path: $folder, $work" >&2
    exit 2
    ;;
esac

options=(--rm --init --stop-timeout=300)
# GPUs by the container device interface: `nvidia-ctk cdi generate` describes them once per host.
options+=(--device=nvidia.com/gpu=all)
# Shared memory for NCCL and data loaders; locked memory and stack as NCCL's guide recommends.
options+=(--shm-size=16g --ulimit=memlock=-1 --ulimit=stack=67108864)
# Your own user and groups, any number of threads, and folders of the host without new labels of SELinux.
options+=(--userns=keep-id --group-add=keep-groups --pids-limit=-1 --security-opt=label=disable)
# The ranks of other nodes connect to ports that are chosen at run time.
options+=(--network=host)
# RDMA devices, which need locked memory
options+=(--device=/dev/infiniband --cap-add=IPC_LOCK)
if [[ -e /dev/gdrdrv ]]; then options+=(--device=/dev/gdrdrv); fi
# NCCL's settings and topology of this host
for file in /etc/nccl.conf /var/run/nvidia-topologyd /opt/microsoft; do
  if [[ -e $file ]]; then options+=(--mount="type=bind,source=$file,target=$file,readonly"); fi
done
options+=(--mount="type=bind,source=$folder,target=/rigtune,readonly")
options+=(--mount="type=bind,source=$work,target=$work" --workdir="$work")

# Environment of the container. The plan was made with these values.
# Two of the ports belong to storage
options+=(--env='NCCL_IB_HCA==mlx5_0,mlx5_3')
# A value that a shell would read
# shellcheck disable=SC2016  # literal text
options+=(--env='HYDRA_FULL_ERROR=$HOME it'"'"'s')
# The plan as JSON, for the program
options+=(--env='RIGTUNE_RECIPE=/rigtune/plan.json')
# Log lines appear at once
options+=(--env='PYTHONUNBUFFERED=1')
# Seconds that torchrun leaves its ranks after SIGTERM; its default is 30
options+=(--env='TORCH_ELASTIC_SHUTDOWN_TIMEOUT=290')
# A user that the image does not know has no home
options+=(--env='HOME=/tmp')
options+=(--env='USER=rigtune')
# Tokens are taken from the environment of the calling shell and written to no file.
for word in HF_TOKEN WANDB_API_KEY; do
  if [[ -n ${!word:-} ]]; then options+=(--env="$word"); fi
done

# shellcheck disable=SC2016  # literal text
exec podman run "${options[@]}" registry.example.org/team/train:1.2 python3 \
  -m torch.distributed.run \
  --node-rank "$node_rank" --master-addr "$master" --master-port "$port" \
  --rdzv-id mini \
  --nnodes 4 --nproc-per-node 8 \
  'train it.py' --batch=2 --lr 0.003 'it'"'"'s $HOME' '{"a": 1}' "$@"
