"""Rules judge what a command gets, and change nothing but the mistake."""

from __future__ import annotations

import pytest

from probes.facts import Gpu, MachineFacts
from probes.facts.gpu_facts import NvLink
from recipes.lint.context import Context
from recipes.lint.editing import edited
from recipes.lint.finding import LintFinding
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint


def _found(text: str, context: Context | None = None, name: str = "a.sh") -> tuple[LintFinding, ...]:
    document = read_document(name, text)
    assert document is not None
    return lint((document,), context or Context())


def _rules(text: str, context: Context | None = None) -> list[str]:
    return [finding.rule_id for finding in _found(text, context)]


_RUN = "torchrun --standalone --nproc-per-node 8 train.py\n"
_TWO = "torchrun --nnodes 2 --node-rank $1 --nproc-per-node 8 --master-addr 10.0.0.1 train.py\n"
_JOB = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8 --exclusive\n"
_STEP = "srun -c 8 torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $h:1 t.py\n"
_SOUND = {
    "GPUs of another command": "CUDA_VISIBLE_DEVICES=0 python prep.py\n" + _RUN,
    "GPUs of a later command": _RUN + "CUDA_VISIBLE_DEVICES=0 python eval.py\n",
    "GPUs of what follows": _RUN + "export CUDA_VISIBLE_DEVICES=0\npython eval.py\n",
    "GPUs of a subshell": "(export CUDA_VISIBLE_DEVICES=0; python prep.py)\n" + _RUN,
    "GPUs of a function": "f() { export CUDA_VISIBLE_DEVICES=0; python eval.py; }\n" + _RUN,
    "GPUs outside of a container": "export CUDA_VISIBLE_DEVICES=0\npython p.py\ndocker run --gpus all --ipc=host i "
    + _RUN,
    "master of a test": "MASTER_ADDR=localhost MASTER_PORT=29501 python test.py\n" + _TWO,
    "loopback of a test": "NCCL_SOCKET_IFNAME=lo python test.py\n" + _TWO,
    "blocking launches of a test": "CUDA_LAUNCH_BLOCKING=1 python smoke.py && " + _RUN,
    "measurement without peers": "NCCL_P2P_DISABLE=1 all_reduce_perf -g 8\nall_reduce_perf -g 8\n",
    "trial without peers": "NCCL_P2P_DISABLE=1 torchrun --nproc-per-node 8 small.py\n" + _RUN,
    "peers turned off after all ranks": _RUN + "export NCCL_P2P_DISABLE=1\n",
    "a pair that no command gets": "NCCL_IB_DISABLE=1 torchrun a.py\nNCCL_IB_HCA==mlx5_0 torchrun b.py\n",
    "a proxy of the installer": "https_proxy=http://p:1 pip install x\n" + _RUN,
    "GPUs that are not bound": "#!/bin/bash\n#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-task=1 --gpu-bind=none\n"
    "srun -c 8 python train.py\n",
    "GPUs that the step does not bind": "#!/bin/bash\n#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-task=1\n"
    "srun -c 8 --gpu-bind=none python train.py\n",
}


@pytest.mark.parametrize("text", _SOUND.values(), ids=_SOUND)
def test_what_does_not_reach_a_command_is_no_mistake_of_it(text: str):
    assert _rules(text) == []


_MISTAKES = {
    "GPUs of the launcher": ("visible-devices-fewer", "CUDA_VISIBLE_DEVICES=0 " + _RUN),
    "GPUs by the function around it": (
        "visible-devices-fewer",
        f"f() {{\n  {_RUN}}}\nexport CUDA_VISIBLE_DEVICES=0\nf\n",
    ),
    "GPUs given to the container": (
        "visible-devices-fewer",
        f"docker run --gpus all --ipc=host -e CUDA_VISIBLE_DEVICES=0 i {_RUN}",
    ),
    "master of the job": ("master-loopback", "export MASTER_ADDR=localhost\n" + _TWO),
    "blocking launches of the job": ("cuda-debugging-left", "python prep.py\nCUDA_LAUNCH_BLOCKING=1 " + _RUN),
    "no peers in any job": (
        "p2p-disabled",
        f"NCCL_P2P_DISABLE=1 torchrun a.py\nenv NCCL_P2P_DISABLE=1 {_RUN}",
    ),
    "no peers beside a helper": ("p2p-disabled", 'run() { "$@"; }\nNCCL_P2P_DISABLE=1 ' + _RUN),
    "no peers in the job": ("p2p-disabled", "NCCL_P2P_DISABLE=1 " + _RUN),
    "a pair before one command": ("variable-conflict", "NCCL_NET=Socket NCCL_IB_HCA==mlx5_0 " + _RUN),
    "cores that come too late": (
        "slurm-cpus-not-passed",
        _JOB.replace("exclusive", "cpus-per-task=8")
        + _STEP.replace("-c 8 ", "")
        + "export SRUN_CPUS_PER_TASK=8\n",
    ),
}


@pytest.mark.parametrize(("rule", "text"), _MISTAKES.values(), ids=_MISTAKES)
def test_what_reaches_a_command_is_judged_with_it(rule: str, text: str):
    assert rule in _rules(text)


def _gpus(name: str, *, links: bool) -> Context:
    ports = (NvLink(index=0, active=True),) if links else ()
    return Context(
        machine=MachineFacts(gpus=tuple(Gpu(index=index, name=name, nvlinks=ports) for index in range(2)))
    )


_OFF = "export NCCL_P2P_DISABLE=1\n" + _RUN


@pytest.mark.parametrize(
    ("text", "context", "severity"),
    [
        (_OFF, Context(), "warning"),
        ("# NCCL\n" + _OFF, Context(), "warning"),
        ("# turn peers off if they do not work\n" + _OFF, Context(), "warning"),
        ('[ -z "$P2P" ] && ' + _OFF, Context(), "note"),
        ("# no P2P on this board\nexport NCCL_DEBUG=WARN\n" + _OFF, Context(), "note"),
        ("# no InfiniBand here\nexport NCCL_DEBUG=WARN\n" + _OFF, Context(), "warning"),
        ("# hangs on this board with the IOMMU on\n" + _OFF, Context(), "note"),
        (_OFF.replace("\n", "  # no P2P in these VMs\n", 1), Context(), "note"),
        (_OFF, _gpus("NVIDIA L40S", links=False), "note"),
        (_OFF, _gpus("NVIDIA H100 80GB HBM3", links=True), "warning"),
        (_OFF, _gpus("NVIDIA GeForce RTX 4090", links=False), None),
    ],
)
def test_peers_that_are_turned_off_weigh_as_what_is_known_of_the_reason(
    text: str, context: Context, severity: str | None
):
    told = [finding for finding in _found(text, context) if finding.rule_id == "p2p-disabled"]
    assert [finding.severity for finding in told] == ([severity] if severity else [])
    assert not any(finding.edits for finding in told)


def test_nvlink_is_said_to_lie_idle_only_where_there_may_be_one():
    assert "NVLink" not in _found(_OFF, _gpus("NVIDIA L40S", links=False))[0].message


def _fixed(text: str, name: str = "a.sh") -> str:
    document = read_document(name, text)
    assert document is not None
    return edited(document, lint((document,), Context(torch_version="2.8.0")))


def test_new_name_is_written_wherever_the_old_one_stood():
    text = 'set -u\n# NCCL_DEBG of old\nexport NCCL_DEBG=WARN\necho "${NCCL_DEBG}"\nmpirun -np 8 -x NCCL_DEBG -x PATH t.py\n'
    fixed = _fixed(text)
    assert fixed == text.replace("NCCL_DEBG", "NCCL_DEBUG").replace("# NCCL_DEBUG of", "# NCCL_DEBG of")


def test_name_that_is_taken_is_not_written_twice():
    text = 'export NCCL_DEBG=WARN\necho "$NCCL_DEBUG"\n' + _RUN
    assert _fixed(text) == text


def test_line_is_kept_while_others_ask_for_its_variable():
    line = "export CUDA_LAUNCH_BLOCKING=1\n"
    assert _fixed(line + _RUN) == _RUN
    for text in (
        f'{line}echo "$CUDA_LAUNCH_BLOCKING"\n{_RUN}',
        f"{line}mpirun -np 8 -x CUDA_LAUNCH_BLOCKING -x PATH t.py\n",
    ):
        assert _fixed(text) == text


@pytest.mark.parametrize(
    "line", ["NCCL_P2P_DISABLE=1", "NCCL_IB_DISABLE=1", "NCCL_ALGO=Ring", "NCCL_NET_GDR_LEVEL=LOC"]
)
def test_what_may_hide_a_fault_is_not_taken_out(line: str):
    text = f"export {line}\n{_TWO}"
    assert _found(text)
    assert _fixed(text) == text


@pytest.mark.parametrize(
    ("value", "fixed"),
    [
        ("mlx5_1,mlx5_2", "=mlx5_1,mlx5_2"),
        ("mlx5_1,mlx5_bond", "mlx5_1,mlx5_bond"),
        ("mlx5_1,rocep", "mlx5_1,rocep"),
    ],
)
def test_names_are_made_exact_where_all_are_whole(value: str, fixed: str):
    assert _fixed(f"export NCCL_IB_HCA={value}\n{_TWO}") == f"export NCCL_IB_HCA={fixed}\n{_TWO}"
