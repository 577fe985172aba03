"""A real Slurm cluster of two virtual nodes with eight simulated GPUs each, on this machine.

Needs root and Slurm.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

NODES = 2
GPUS = 8


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def slurm_conf(folder: Path, settings: str) -> str:
    host = socket.gethostname()
    controller, *ports = free_ports(1 + NODES)
    nodes = "\n".join(
        f"NodeName=n{index} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=4000 "
        f"Gres=gpu:{GPUS}"
        for index, port in enumerate(ports, 1)
    )
    return f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
{settings}
GresTypes=gpu
KillWait=5
MinJobAge=600
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
{nodes}
PartitionName=main Nodes=n[1-{NODES}] Default=YES MaxTime=01:00:00 State=UP
"""


@contextlib.contextmanager
def slurm_cluster(
    settings: str = "", prepare: Callable[[Path], None] = lambda conf: None
) -> Iterator[dict[str, str]]:
    """Run a cluster and yield the environment in which its commands work.

    `settings` are more lines of slurm.conf; `prepare` gets the path of that file before anything starts.
    """
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Slurm; missing here: {', '.join(missing) or 'root'}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: it holds a socket
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    for gpu in range(GPUS):
        os.mknod(folder / f"gpu{gpu}", 0o20666, os.makedev(1, 3))
    (folder / "slurm.conf").write_text(slurm_conf(folder, settings))
    prepare(folder / "slurm.conf")
    (folder / "gres.conf").write_text(f"NodeName=n[1-{NODES}] Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    munged = (
        *("munged", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"),
        *(
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed",
        ),
    )
    daemons = [munged, ("slurmctld", "-c"), *(("slurmd", "-N", f"n{index}") for index in range(1, NODES + 1))]
    try:
        for daemon in daemons:
            subprocess.run(daemon, env=environment, check=True, timeout=60)
        # A job that uses every node waits until all have registered.
        ready = ("srun", f"--nodes={NODES}", "--exclusive", "true")
        subprocess.run(ready, env=environment, check=True, timeout=60)
        yield environment
    finally:
        subprocess.run(("scancel", "--quiet", "--user=root"), env=environment, check=False, timeout=60)
        started = []
        for pid_file in sorted(folder.glob("*.pid"), reverse=True):
            with contextlib.suppress(psutil.NoSuchProcess, ValueError):
                started.append(psutil.Process(int(pid_file.read_text())))
                started[-1].terminate()
        for daemon in psutil.wait_procs(started, timeout=30)[1]:
            daemon.kill()
        shutil.rmtree(folder, ignore_errors=True)
