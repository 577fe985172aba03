"""Ask `rigtune predict` for the layout that `rigtune plan` chose: both give the same figures."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assistant.cli import rigtune
from recipes.planning.programs import OWN, load_programs

JOBS = {
    "fsdp without a program": "llama-3-8b --gpu A100 --gpus 8",
    "encoder without a program": "bert-large --gpu V100 --gpus 8 --nodes 2",
    "images without a program": "resnet50 --gpu A100 --gpus 8",
    "zero2 of Hugging Face": "gpt2-xl --gpu V100 --gpus 8 --program accelerate --strategy zero2",
    "logits of an encoder": "bert-base --gpu T4 --gpus 4 --program hf-trainer",
    "fsdp of Hugging Face": "llama-3-8b --gpu H100 --gpus 8 --program hf-trainer",
    "pipeline": "llama-3-8b --gpu H20 --gpus 8 --program megatron",
    "experts": "mixtral-8x7b --gpu H100 --gpus 8 --nodes 2 --program deepspeed",
    "images": "resnet50 --gpu V100 --gpus 8 --nodes 4 --program horovod",
}


def _answer(arguments: list[str]) -> dict[str, Any]:
    invoked = CliRunner().invoke(rigtune, [*arguments, "--format", "json"])
    assert invoked.exit_code == 0, invoked.output
    answer: dict[str, Any] = json.loads(invoked.stdout)
    return answer


def _case(plan: dict[str, Any]) -> dict[str, object]:
    """Return the columns of `predict` for the plan's layout."""
    chosen, job, machine = plan["chosen"], plan["workload"], plan["cluster"]
    share, mode = chosen["recomputed_share"], chosen["activation_checkpointing"]
    is_text = job["task"] == "tokens"
    return {
        "model": job["model"] if isinstance(job["model"], str) else job["model"]["id"],
        "gpu": machine["gpu"],
        "n_gpus": machine["nodes"] * machine["ranks_per_node"],
        "gpus_per_node": machine["ranks_per_node"],
        **({} if chosen["program"] == OWN else {"stack": load_programs()[chosen["program"]].stack}),
        "precision": f"{job['precision']}-mixed",
        "optimizer": job["optimizer"],
        "sharding": chosen["strategy"],
        "micro_batch": chosen["micro_batch"],
        "global_batch": chosen["global_batch"],
        **({"task": "pretrain", "seq_len": job["sequence_length"]} if is_text else {}),
        **({"activation_checkpointing": mode} if is_text and share == 1 else {}),
        **({"activation_checkpointing": f"{mode} {100 * share:g} %"} if share < 1 else {}),
        **{name: size for name, size in chosen["degrees"].items() if size > 1},
    }


@pytest.mark.parametrize("job", JOBS)
def test_same_figures(job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = _answer(["plan", *shlex.split(JOBS[job])])
    columns = [word for name, value in _case(plan).items() for word in ("--set", f"{name}={value}")]
    (row,) = _answer(["predict", *columns])["cases"]
    planned = plan["chosen"]["predicted"]
    assert row["step_time_s"] == pytest.approx(planned["step_time_s"]["total"], rel=1e-6)
    assert row["memory"]["needed"] == pytest.approx(planned["memory_bytes_per_gpu"]["needed"], rel=1e-6)
