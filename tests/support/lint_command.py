"""Run `rigtune lint` on files of a folder."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
export NCCL_SOKET_IFNAME=eth0
srun torchrun --nnodes=2 --nproc-per-node=8 --standalone train.py
"""
CLEAN = "#!/bin/bash\nexport NCCL_DEBUG=WARN\n"


def lint(
    *arguments: str | Path, cwd: Path, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "assistant", "lint", *(str(argument) for argument in arguments)]
    variables = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(cwd), **environment}
    return subprocess.run(
        argv, cwd=cwd, env=variables, input=stdin, capture_output=True, text=True, check=False, timeout=120
    )


def write_examples(folder: Path) -> None:
    """Write a script with mistakes and a script without."""
    (folder / "train.sbatch").write_text(SCRIPT)
    (folder / "clean.sh").write_text(CLEAN)
