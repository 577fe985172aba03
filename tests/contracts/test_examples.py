"""Test that the commands of the README and the documentation run, and that the shown output is real.

Commands that measure, start a training or need other programs and hosts are left out.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "assistant/docs").glob("*.md")))
COMMAND = re.compile(r"^    (?:\$ )?(rigtune (?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
NOT_HERE = (
    "auto",
    "bench",
    "run",
    "verify",
    "tune",
    "tui",
    "advise install",
    "explain logs/all_reduce_perf-*",
    "export recipe.toml --to horovodrun",
    *(f"fleet {name}" for name in ("check", "pack", "show", "history", "find-bad", "bench", "report")),
    *(f"fleet {name}" for name in ("accept", "compare", "export", "capture", "repaired")),
)
"""Beginnings of commands that take minutes, or need torch, a GPU, a terminal, hosts, a log or a cluster."""
NEEDS_TORCH = "net.py:"
SCRIPT = (
    "#!/bin/bash\n#SBATCH --gpus-per-node=8\n#SBATCH --time=01:00:00\n"
    "export NCCL_SOKET_IFNAME=eth0\nsrun python t.py\n"
)
KERNEL = "[1.0] Linux version 6.1.0\n"


def commands() -> list[str]:
    """Return all commands of the pages that can run here, without comments and pipes to other programs."""
    written = (match[1] for page in PAGES for match in COMMAND.finditer(page.read_text("utf-8")))
    whole = (re.sub(r"\\\n\s*", "", text) for text in written)
    lines = dict.fromkeys(re.split(r"\s+(?:#|\|)\s", line)[0].strip() for line in whole)
    return [line for line in lines if not line.removeprefix("rigtune ").startswith(NOT_HERE)]


def rigtune(line: str, folder: Path, **limits: int) -> subprocess.CompletedProcess[str]:
    """Run a line of a page in the folder; `limits` are resource limits, such as `nofile`."""

    def limit() -> None:
        for name, value in limits.items():
            kind = getattr(resource, f"RLIMIT_{name.upper()}")
            resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))

    return subprocess.run(
        [sys.executable, "-m", "assistant", *shlex.split(line)[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=limit,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    log = "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.1.0.1<4000> with status=12 opcode=0\n"
    topology = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-55\t0\nGPU1\tNV18\t X \t0-55\t0\n"
    )
    texts = {
        "train.sbatch": SCRIPT,
        "ds_config.json": '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}',
        "llama.sbatch": shown("assistant/docs/import.md", "#!/bin/bash") + "\n",
        "job.log": log, "dmesg.txt": KERNEL, "dmesg-node7.txt": KERNEL, "topo.txt": topology,
        "dmesg.log": f"{KERNEL}[2.0] NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.\n",
        "ibstat.txt": "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
        "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n",
        "lspci-vvv.txt": "05:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
        "\tLnkSta:\tSpeed 32GT/s, Width x16\n",
        "cases.csv": "case_id,model,gpu,n_gpus,sharding,micro_batch\n"
        "run-17,llama-3-8b,H100-SXM-80GB,8,fsdp,1\n",
        "collectives.csv": "case_id,gpu,n_gpus,n_nodes,collective,bytes\n"
        "a,H100-SXM-80GB,8,1,all_reduce,1048576\n",
        "downloads/my-model/config.json": '{"architectures": ["LlamaForCausalLM"], "hidden_size": 2048, '
        '"intermediate_size": 8192, "num_attention_heads": 32, "num_hidden_layers": 16, '
        '"vocab_size": 128256, "num_key_value_heads": 8, "max_position_embeddings": 8192}',
        "jobs/train.sh": SCRIPT,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for line in (
        "rigtune probe --machine dgx-h100 --record node17.json",
        "rigtune probe --machine dgx-h100 --record node18.json",
        "rigtune probe --machine dgx-h100 --record node19.json",
        "rigtune probe --machine dgx-h100 --record node7.json",
        "rigtune check --machine dgx-h100 --learn site.toml",
        "rigtune plan llama-3-8b --machine dgx-h100 -o recipe.toml",
        "rigtune export --provision slurm-prolog --expect-gpus 8 --out etc/slurm",
        "rigtune export --provision systemd --expect-gpus 8 --out etc/systemd/system",
    ):
        done = rigtune(line, folder)
        assert done.returncode in (0, 1, 3), done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("line", commands())
def test_example_runs(line: str, folder: Path) -> None:
    if NEEDS_TORCH in line or "run1/measurements.json" in line:
        pytest.skip("needs torch, or measurements of this machine")
    line = line.replace(" /etc/", " etc/")  # the fixture's hooks, not those of the machine that runs the test
    done = rigtune(f"{line} --overwrite" if line.endswith("-o recipe.toml") else line, folder)
    if "exists" in done.stderr and "--force" in done.stderr:
        done = rigtune(f"{line} --force", folder)
    assert done.returncode in (0, 1, 3), done.stderr
    assert "Traceback" not in done.stderr


def shown(page: str, first: str) -> str:
    """Return the indented block of a page that begins with this line."""
    text = (ROOT / page).read_text("utf-8")
    block = re.search(rf"^    {re.escape(first)}\n(?:    [^\n]*\n)*", text, re.MULTILINE)
    assert block is not None, f"{page} shows no {first}"
    return "\n".join(line[4:] for line in block[0].splitlines())


def test_finding_in_the_readme_is_the_real_one(tmp_path: Path) -> None:
    written = shown("README.md", "! WARN    nofile  host")
    real = rigtune("rigtune check --only nofile", tmp_path, nofile=20000).stdout
    assert without_owner(written) in without_owner(real)


def without_owner(text: str) -> str:
    """Return a finding without its line `found`, which names the owner of the limit (service or caller)."""
    return re.sub(r"^( *found +)\S+.*$", r"\1", text, flags=re.MULTILINE)


def test_finding_of_lint_is_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "train.sbatch").write_text(SCRIPT)
    first = next(
        line[4:]
        for line in (ROOT / "assistant/docs/lint.md").read_text("utf-8").splitlines()
        if line.startswith("    train.sbatch:4:8:")
    )
    assert shown("assistant/docs/lint.md", first) in rigtune("rigtune lint train.sbatch", tmp_path).stdout


@pytest.mark.parametrize(
    ("line", "first"),
    [
        (
            "rigtune import llama.sbatch",
            "Megatron-LM, Megatron-Bridge, NeMo: llama-3-8b on 2 x 8 ranks, ddp,",
        ),
        ("rigtune plan --from-script llama.sbatch --gpu H100", "A better plan would be"),
    ],
)
def test_output_of_import_and_of_its_better_plan_in_the_documentation_is_real(
    tmp_path: Path, line: str, first: str
) -> None:
    (tmp_path / "llama.sbatch").write_text(shown("assistant/docs/import.md", "#!/bin/bash") + "\n")
    text = (ROOT / "assistant/docs/import.md").read_text("utf-8")
    written = re.search(rf"^    {re.escape(first)}[^\n]*\n(?:(?:    [^\n]*)?\n)*", text, re.MULTILINE)
    assert written is not None
    real = [part.rstrip() for part in rigtune(line, tmp_path).stdout.splitlines()]
    assert [part[4:].rstrip() for part in written[0].rstrip().splitlines()] == real[
        : written[0].rstrip().count("\n") + 1
    ]
