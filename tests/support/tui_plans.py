"""Plans and recipes as records, for pages that show them."""

from __future__ import annotations

from assistant.pages.training.recipe_page import LauncherFiles, Prepared
from probes.base.record import Reason, Unknown
from probes.base.units import GIB
from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import TransformerModel, Workload
from recipes.launch.recipe import Artifact, Command, Convergence, ModelShape, Parallelism, Recipe, Resources
from recipes.machine.cluster_records import Cluster, Figure
from recipes.planning.plan import Choice, Decision, Plan, Rejected
from recipes.predict.breakdowns import MemoryBreakdown, Predicted, TimeBreakdown

MODEL = TransformerModel(
    id="llama-3-8b",
    title="Llama 3 8B",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn_hidden=14336,
    vocab=128256,
    sequence_length=8192,
    learning_rate=3e-4,
    learning_rate_batch_tokens=4 * 1024**2,
    source="arXiv 2407.21783",
    date="2024-07-31",
)


def memory(total_gib: float) -> MemoryBreakdown:
    total = total_gib * GIB
    return MemoryBreakdown(
        total=total,
        parameters=total * 0.06,
        gradients=total * 0.05,
        optimizer=total * 0.12,
        activations=total * 0.55,
        logits=total * 0.12,
        buffers=total * 0.06,
        overhead=total * 0.04,
        allocated=total * 0.96,
        reserved=total * 0.98,
        needed=total,
        upper=total * 1.1,
        margin=total * 0.1,
    )


def gpu_plan(
    *, device_name: str = "NVIDIA H100 80GB HBM3", speed_known: bool = True, rejected: int = 14
) -> Plan:
    """Return the plan of Llama 3 8B on one node of 8 x H100."""
    unknown = Unknown(Reason.NOT_RECORDED, "no GEMM rate is known for this GPU")
    parts = {"products": 3.3, "attention": 0.7, "elementwise": 0.35, "launches": 0.05, "head": 0.2}
    step = TimeBreakdown(
        total=5.21, compute=4.6, exposed_communication=0.4, optimizer=0.21, low=4.7, high=5.9, **parts
    )
    if not speed_known:
        step = TimeBreakdown(
            total=unknown,
            compute=unknown,
            exposed_communication=unknown,
            optimizer=unknown,
            low=unknown,
            high=unknown,
        )
    predicted = Predicted(
        memory_bytes_per_gpu=memory(62.3),
        step_time_s=step,
        tokens_per_s_per_gpu=12580.0 if speed_known else unknown,
        mfu=0.47 if speed_known else unknown,
    )
    choice = Choice(
        strategy="fsdp",
        degrees=Degrees(fsdp=8),
        micro_batch=1,
        grad_accum=8,
        global_batch=64,
        activation_checkpointing="none",
        precision="bf16",
        learning_rate=1.06e-4,
        warmup_steps=100,
        predicted=predicted,
    )
    other = Candidate(
        strategy="ddp",
        degrees=Degrees(dp=8),
        micro_batch=1,
        grad_accum=8,
        global_batch=64,
        activation_checkpointing="full",
        precision="bf16",
    )
    return Plan(
        workload=Workload(model=MODEL, sequence_length=8192, global_batch=64),
        cluster=Cluster(
            title="node-17",
            device="cuda",
            device_name=device_name,
            nodes=1,
            ranks_per_node=8,
            memory_bytes_per_rank=Figure(value=79.1 * GIB, basis="measured", source="nvml"),
        ),
        chosen=choice,
        decisions=(
            Decision(
                name="strategy",
                value="FSDP over 8 ranks",
                basis="modelled",
                because="DDP needs 141 GiB of 79.1 GiB; sharding over 8 ranks leaves room for activations",
                alternatives=("FSDP with full recompute",),
            ),
            Decision(
                name="micro_batch",
                value="1",
                basis="measured",
                because="2 sequences need 91.2 GiB",
                alternatives=("2 x",),
            ),
            Decision(
                name="grad_accum",
                value="8",
                basis="rule",
                because="global batch 64 over 8 ranks of 1 sequence",
            ),
            Decision(
                name="learning_rate",
                value="1.06e-4",
                basis="rule",
                because="square-root scaling from 3e-4 at 4 M tokens per step",
                alternatives=("3.75e-5 linear",),
            ),
            Decision(
                name="NCCL_IB_HCA",
                value="=mlx5_0,mlx5_1,mlx5_2,mlx5_4",
                basis="rule",
                because="port mlx5_3 is down",
            ),
        ),
        rejected=tuple(
            Rejected(candidate=other, reason=f"needs {141 + index} GiB of 79.1 GiB")
            for index in range(rejected)
        ),
        warnings=("GPU5 copies at half speed (pcie-link)",),
    )


def recipe() -> Recipe:
    return Recipe(
        name="llama-3-8b",
        title="Llama 3 8B on node-17",
        model=ModelShape(
            id="llama-3-8b",
            layers=32,
            hidden=4096,
            heads=32,
            kv_heads=8,
            head_dim=128,
            ffn_hidden=14336,
            vocab=128256,
            gated_mlp=True,
            tied_embeddings=False,
            learned_positions=0,
            norm="rmsnorm",
            bias=False,
            qkv_bias=False,
            sequence_length=8192,
        ),
        parallelism=Parallelism(
            strategy="fsdp", nodes=1, ranks_per_node=8, micro_batch=1, grad_accum=8, global_batch=64
        ),
        convergence=Convergence(learning_rate=1.06e-4, warmup_steps=100, steps=1000),
        resources=Resources(device="cuda", backend="nccl"),
        command=Command(kind="reference"),
    )


SCRIPT = """#!/usr/bin/env bash
# llama-3-8b on node-17: FSDP over 8 ranks
set -euo pipefail

# port mlx5_3 is down (finding nic-state)
export NCCL_IB_HCA='=mlx5_0,mlx5_1,mlx5_2,mlx5_4'

exec /opt/venv/bin/python -m torch.distributed.run \\
  --standalone --nproc-per-node 8 \\
  train.py --micro-batch 1 --grad-accum 8 --sequence-length 8192 --learning-rate 1.06e-4 --warmup-steps 100
"""


def prepared() -> Prepared:
    """Return the files of two launchers; the first has a file beside its script."""
    return Prepared(
        recipe=recipe(),
        launchers=(
            LauncherFiles(
                launcher="torchrun",
                title="torchrun on one or several nodes",
                artifacts=(
                    Artifact(path="launch.sh", text=SCRIPT, mode=0o755),
                    Artifact(path="recipe.toml", text='name = "llama-3-8b"\n'),
                ),
            ),
            LauncherFiles(
                launcher="slurm",
                title="Slurm, one torchrun per node",
                artifacts=(
                    Artifact(
                        path="launch.sbatch",
                        text=SCRIPT.replace("bash\n", "bash\n#SBATCH --nodes=1\n", 1),
                        mode=0o755,
                    ),
                ),
            ),
        ),
    )
