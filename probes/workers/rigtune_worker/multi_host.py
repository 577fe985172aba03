"""Run one benchmark on a rank of several hosts.

    python -m rigtune_worker.multi_host --limit-s S --hosts A,B -- BENCH --request ...

In addition to `rigtune_worker`, it binds the connections of NCCL and gloo to the interface that leads to the
other hosts, reports its host by the name that the user gave, and ends after `--limit-s` seconds in any case:
if the connection to a host is lost, the launcher cannot end its ranks.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from .__main__ import main
from .route import interface_to
from .worker_process import run_and_leave

HOST = "RIGTUNE_HOST"


def name_of_host(hosts: list[str], rank: int, world_size: int) -> str:
    """Return the host of a rank.

    Slurm orders nodes itself and sets their names; other launchers assign ranks in the order of the hosts.
    """
    return os.environ.get("SLURMD_NODENAME") or hosts[rank * len(hosts) // world_size]


def prepare(limit_s: int, hosts: list[str]) -> None:
    signal.alarm(limit_s)  # nothing handles it: the kernel ends the process
    own = name_of_host(hosts, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    os.environ[HOST] = own
    interface = interface_to([os.environ.get("MASTER_ADDR", ""), *(host for host in hosts if host != own)])
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "=" + interface)


def run() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rigtune_worker.multi_host", description="Run one benchmark on several hosts."
    )
    parser.add_argument("--limit-s", type=int, required=True, help="end after so many seconds")
    parser.add_argument("--hosts", required=True, help="the hosts in order, separated by commas")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="what rigtune_worker takes")
    options = parser.parse_args()
    prepare(options.limit_s, options.hosts.split(","))
    sys.argv[1:] = [word for word in options.rest if word != "--"]
    return main()


if __name__ == "__main__":
    run_and_leave(run)
