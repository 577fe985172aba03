"""Start a TensorFlow program on one node: set TF_CONFIG from the variables of the launch script.

Usage: tensorflow_node.py [--parameter-servers N] (-m MODULE | SCRIPT) [ARGUMENTS]

NODE_RANK, NODE_COUNT, NODE_HOSTS (names or addresses, separated by commas) and MASTER_PORT describe the job.
On a single node, the program runs without TF_CONFIG, for MirroredStrategy. On several nodes, the program runs
once per node with all GPUs of the node, for MultiWorkerMirroredStrategy.

With --parameter-servers N the program runs only on the first node, as the chief of ParameterServerStrategy.
Every node has one worker with all its GPUs, and the first N nodes have a parameter server without GPUs: both
are TensorFlow's standard servers, which end with the chief.
"""

import contextlib
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from types import FrameType

CONNECT_S = 600
SERVER = """
import tensorflow as tf
task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
server = tf.distribute.Server(
    task.cluster_spec(), job_name=task.task_type, task_index=task.task_id, protocol="grpc"
)
server.join()
"""
HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
Cluster = dict[str, list[str]]


class JobError(Exception):
    """An error that the user can fix."""


class Job:
    """The nodes of the job, and the rank of this node."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.count = _number(variables, "NODE_COUNT", 1, 1_000_000)
        self.rank = _number(variables, "NODE_RANK", 0, self.count - 1)
        self.hosts = [host.strip() for host in variables.get("NODE_HOSTS", "").split(",") if host.strip()]
        if not self.hosts and self.count == 1:
            self.hosts = ["127.0.0.1"]
        if not self.hosts:
            raise JobError(
                "NODE_HOSTS is not set: TensorFlow needs the address of every node. Set resources.hosts in "
                "recipe.toml and export again, or export NODE_HOSTS=HOST1,HOST2 in the order of the ranks"
            )
        if len(self.hosts) != self.count:
            raise JobError(
                f"the number of hosts in NODE_HOSTS is {len(self.hosts)}, but NODE_COUNT is {self.count}"
            )
        for host in self.hosts:
            if not _is_host(host):
                raise JobError(f"NODE_HOSTS: {host!r} is neither a host name nor an address")
        self.port = _number(variables, "MASTER_PORT", 1, 65535 - 2 * self.count - 2)


def _is_host(text: str) -> bool:
    """Return whether the text is a host name, an IPv4 address or an IPv6 address."""
    if HOST_NAME.fullmatch(text):
        return True
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _number(variables: Mapping[str, str], name: str, lowest: int, highest: int) -> int:
    """Return the value of a variable. Raises JobError if it is missing or outside the limits."""
    text = variables.get(name, "")
    if not text:
        raise JobError(f"{name} is not set; start the job with the script of rigtune export beside this file")
    if not re.fullmatch("[0-9]{1,9}", text, re.ASCII) or not lowest <= int(text) <= highest:
        raise JobError(f"{name} is {text!r}, not a number from {lowest} to {highest}")
    return int(text)


def cluster_of(job: Job, parameter_servers: int) -> tuple[Cluster, tuple[str, int]]:
    """Return the addresses of all tasks by role, and the address at which the first node reports its end.

    Ports count from MASTER_PORT on each host, so that two tasks of one host never have the same port.
    """
    tasks = [("worker", host) for host in job.hosts]
    if parameter_servers:
        servers = [("ps", host) for host in job.hosts[:parameter_servers]]
        tasks = [("chief", job.hosts[0]), *tasks, *servers]
    next_port = dict.fromkeys(job.hosts, job.port)
    cluster: Cluster = {}
    for role, host in tasks:
        name = f"[{host}]" if ":" in host else host
        cluster.setdefault(role, []).append(f"{name}:{next_port[host]}")
        next_port[host] += 1
    return cluster, (job.hosts[0], next_port[job.hosts[0]])


def with_task(variables: Mapping[str, str], job: Job, cluster: Cluster, role: str) -> dict[str, str]:
    """Return the environment of one task; only workers get the GPUs.

    `no_grpc_proxy` has all hosts, because gRPC would otherwise send their connections to a proxy.
    """
    index = 0 if role == "chief" else job.rank
    config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
    direct = variables.get("no_grpc_proxy") or variables.get("no_proxy") or ""
    environment = {
        **variables,
        "TF_CONFIG": config,
        "no_grpc_proxy": ",".join(dict.fromkeys([*filter(None, [direct]), *job.hosts])),
    }
    return environment if role == "worker" else {**environment, "CUDA_VISIBLE_DEVICES": "-1"}


def run_with_servers(job: Job, parameter_servers: int, program: list[str]) -> int:
    """Run this node's tasks of ParameterServerStrategy until the chief ends; returns its exit code."""
    cluster, end_address = cluster_of(job, parameter_servers)
    server = [sys.executable, "-u", "-c", SERVER]
    commands = {"worker": server}
    if job.rank < parameter_servers:
        commands["ps"] = server
    if job.rank == 0:
        commands["chief"] = program
    waiting: list[socket.socket] = []
    if job.rank == 0 and job.count > 1:
        family = socket.AF_INET6 if ":" in job.hosts[0] else socket.AF_INET
        listener = socket.create_server(("", end_address[1]), family=family, backlog=job.count)
        threading.Thread(target=_collect, args=(listener, waiting), daemon=True).start()
    tasks = {
        role: subprocess.Popen(command, env=with_task(os.environ, job, cluster, role))
        for role, command in commands.items()
    }
    try:
        code = tasks["chief"].wait() if job.rank == 0 else _code_of_chief(end_address, tasks)
    finally:
        for task in tasks.values():
            task.kill()
    code = 128 - code if code < 0 else code
    for connection in waiting:
        with contextlib.suppress(OSError):
            connection.sendall(bytes([code]))
    return code


def _collect(listener: socket.socket, waiting: list[socket.socket]) -> None:
    """Accept and keep the connections of the other nodes, which wait for the end of the chief."""
    while True:
        waiting.append(listener.accept()[0])


def _code_of_chief(address: tuple[str, int], tasks: dict[str, "subprocess.Popen[bytes]"]) -> int:
    """Wait for the exit code of the chief; end with 1 if the first node or a server of this node fails."""
    first_node = None
    give_up = time.monotonic() + CONNECT_S
    while not any(task.poll() is not None for task in tasks.values()):
        try:
            if first_node is None:
                first_node = socket.create_connection(address, timeout=5)
                first_node.settimeout(1)
            message = first_node.recv(1)
        except TimeoutError:
            continue
        except OSError:
            if time.monotonic() > give_up or first_node is not None:
                message = b""
            else:
                time.sleep(1)
                continue
        if not message:
            print(f"tensorflow_node.py: no connection to the first node, {address[0]}", file=sys.stderr)
        return message[0] if message else 1
    print("tensorflow_node.py: a TensorFlow server of this node ended", file=sys.stderr)
    return 1


def _stop(number: int, frame: "FrameType | None") -> None:
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> int:
    """Run the program on this node; returns its exit code."""
    parameter_servers = 0
    if arguments[:1] == ["--parameter-servers"] and arguments[1:2]:
        parameter_servers, arguments = int(arguments[1]), arguments[2:]
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        job = Job(os.environ)
    except JobError as problem:
        print(f"tensorflow_node.py: {problem}", file=sys.stderr)
        return 2
    program = [sys.executable, "-u", *arguments]
    if parameter_servers:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _stop)
        return run_with_servers(job, parameter_servers, program)
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    if job.count > 1:
        environment = with_task(environment, job, cluster_of(job, 0)[0], "worker")
    return os.execve(sys.executable, program, environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
