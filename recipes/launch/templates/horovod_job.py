"""Start every rank of a Horovod job: horovodrun on the hosts of the launch script.

Usage: horovod_job.py --nodes N --ranks-per-node M -- (-m MODULE | SCRIPT) [ARGUMENTS]

NODE_HOSTS has the names of the hosts, separated by commas; a single node needs none.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence

START_S = 600
"""Time in which all hosts must answer; horovodrun's own limit of 30 s is short for many nodes."""
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)


def hosts_of(text: str, nodes: int) -> list[str]:
    """Return the hosts of the job. Raises ValueError with a message for the user."""
    hosts = [host.strip() for host in text.split(",") if host.strip()]
    if nodes == 1:
        return ["localhost"]
    if not hosts:
        raise ValueError(
            "NODE_HOSTS is not set: horovodrun needs the name of every host. Set resources.hosts in "
            "recipe.toml and export again, or export NODE_HOSTS=HOST1,HOST2"
        )
    if len(hosts) != nodes:
        raise ValueError(f"the number of hosts in NODE_HOSTS is {len(hosts)}, but the plan has {nodes} nodes")
    for host in hosts:
        if not HOST.fullmatch(host):
            raise ValueError(f"NODE_HOSTS: horovodrun takes host names, not {host!r}")
    return hosts


def options_of(hosts: Sequence[str], ranks_per_node: int, interfaces: str) -> list[str]:
    """Return the options of horovodrun for these hosts and this value of NCCL_SOCKET_IFNAME.

    A single node uses the loopback, and horovodrun has no option that excludes interfaces (`^`).
    """
    names = interfaces.removeprefix("=")
    is_named = len(hosts) > 1 and names and names[0] != "^"
    return [
        *("-np", str(len(hosts) * ranks_per_node)),
        *("-H", ",".join(f"{host}:{ranks_per_node}" for host in hosts)),
        *("--start-timeout", str(START_S)),
        *(["--network-interfaces", names] if is_named else []),
    ]


def main(arguments: list[str]) -> int:
    """Become horovodrun; returns an exit code only for a wrong call."""
    parser = argparse.ArgumentParser(prog="horovod_job.py", description="Start a job by horovodrun.")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    program = arguments[end + 1 :]
    if not program:
        parser.error("the script is missing after --")
    try:
        hosts = hosts_of(os.environ.get("NODE_HOSTS", ""), options.nodes)
    except ValueError as problem:
        print(f"horovod_job.py: {problem}", file=sys.stderr)
        return 2
    interfaces = os.environ.get("NCCL_SOCKET_IFNAME", "")
    # horovodrun replaces the variable by its own choice of interfaces
    keeps = ["env", f"NCCL_SOCKET_IFNAME={interfaces}"] if interfaces else []
    command = [
        *(sys.executable, "-m", "horovod.runner.launch"),
        *options_of(hosts, options.ranks_per_node, interfaces),
        *keeps,
        *(sys.executable, "-u", *program),
    ]
    return os.execv(sys.executable, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
