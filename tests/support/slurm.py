"""A real Slurm cluster of virtual nodes with eight simulated GPUs each, on this machine.

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

NODES = 3
GPUS = 8


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def slurm_conf(folder: Path, settings: str, size: int) -> str:
    host = socket.gethostname()
    ports = free_ports(size)
    nodes = "\n".join(
        f"NodeName=n{index} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=4000 "
        f"Gres=gpu:{GPUS}"
        for index, port in enumerate(ports, 1)
    )
    return _conf(
        folder, f"{settings}\nGresTypes=gpu\n{nodes}\nPartitionName=main Nodes=n[1-{size}] {_LIMITS}"
    )


_LIMITS = "Default=YES MaxTime=24:00:00 State=UP"


def _conf(folder: Path, nodes: str) -> str:
    """Return the settings of the daemons, with the lines of the nodes."""
    host, (controller,) = socket.gethostname(), free_ports(1)
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
KillWait=5
MinJobAge=600
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
{nodes}
"""


def _folder() -> Path:
    """Return a new folder with the files that every cluster needs; skip the test if Slurm cannot run."""
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and Slurm; missing here: {', '.join(missing) or 'root'}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: it holds a socket
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    return folder


def _munged(folder: Path) -> tuple[str, ...]:
    return (
        *("munged", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"),
        *(
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed",
        ),
    )


def _end(folder: Path) -> None:
    """End all daemons and remove the folder."""
    started = []
    for pid_file in sorted(folder.glob("*.pid"), reverse=True):
        with contextlib.suppress(psutil.NoSuchProcess, ValueError):
            started.append(psutil.Process(int(pid_file.read_text())))
            started[-1].terminate()
    for daemon in psutil.wait_procs(started, timeout=30)[1]:
        daemon.kill()
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def slurm_controller(nodes: int, gpus: int, cpus: int) -> Iterator[dict[str, str]]:
    """Run a controller of many nodes that do not run, and yield the environment of its commands.

    Nodes of the state CLOUD count as available although nothing runs there.
    """
    folder = _folder()
    lines = (
        "GresTypes=gpu\nSuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=600\n"
        f"NodeName=n[1-{nodes}] CPUs={cpus} RealMemory=4000 Gres=gpu:{gpus} State=CLOUD\n"
        f"PartitionName=main Nodes=n[1-{nodes}] {_LIMITS}"
    )
    (folder / "slurm.conf").write_text(_conf(folder, lines))
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    try:
        for daemon in (_munged(folder), ("slurmctld", "-c")):
            subprocess.run(daemon, env=environment, check=True, timeout=60)
        until_up = "for i in $(seq 200); do scontrol ping | grep -q UP && exit 0; done; exit 1"
        subprocess.run(("sh", "-c", until_up), env=environment, check=True, timeout=60)
        yield environment
    finally:
        _end(folder)


def _slurmd(folder: Path, node: str) -> tuple[str, ...]:
    """Return the command of a node's daemon, with a file system of its own at `folder/local`."""
    mount = f"mount -t tmpfs -o mode=1777 {node} {folder}/local && exec slurmd -N {node}"
    return ("unshare", "--mount", "sh", "-c", mount)


@contextlib.contextmanager
def slurm_cluster(
    settings: str = "", prepare: Callable[[Path], None] = lambda conf: None, size: int = NODES
) -> Iterator[dict[str, str]]:
    """Run a cluster and yield the environment in which its commands work.

    `settings` are more lines of slurm.conf; `prepare` gets the path of that file before anything starts;
    `size` is the number of nodes, `n1` and up.
    """
    folder = _folder()
    (folder / "local").mkdir()
    for gpu in range(GPUS):
        os.mknod(folder / f"gpu{gpu}", 0o20666, os.makedev(1, 3))
    (folder / "slurm.conf").write_text(slurm_conf(folder, settings, size))
    prepare(folder / "slurm.conf")
    (folder / "gres.conf").write_text(f"NodeName=n[1-{size}] Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    daemons = [
        _munged(folder),
        ("slurmctld", "-c"),
        *(_slurmd(folder, f"n{index}") for index in range(1, size + 1)),
    ]
    try:
        for daemon in daemons:
            subprocess.run(daemon, env=environment, check=True, timeout=60)
        # A job that uses every node waits until all have registered.
        ready = ("srun", f"--nodes={size}", "--exclusive", "true")
        subprocess.run(ready, env=environment, check=True, timeout=60)
        yield environment
    finally:
        subprocess.run(("scancel", "--quiet", "--user=root"), env=environment, check=False, timeout=60)
        _end(folder)
