"""Hosts in network namespaces, and a head node that reaches them.

Each host has its own address, name and sshd. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

HEAD = "head"


class Lab(NamedTuple):
    """The head node, and the hosts that its commands reach."""

    folder: Path
    head: str
    """Network namespace of the head node."""
    namespaces: dict[str, str]
    """Network namespace by host."""

    def start(self, *command: object, cwd: Path, on: str = "") -> subprocess.Popen[str]:
        """Start a command on the head node or on a host, with this lab's ssh first on the PATH."""
        path = f"{self.folder}:{os.environ['PATH']}"
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', on) if on else ()
        return subprocess.Popen(
            ("ip", "netns", "exec", self.namespaces.get(on, self.head), *named, *map(str, command)),
            cwd=cwd,
            env={**os.environ, "PATH": path},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


def add_namespace(namespace: str, hosts: str) -> None:
    """Create a namespace; `ip netns exec` shows it the files of /etc/netns."""
    folder = Path("/etc/netns") / namespace
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts").write_text(hosts)
    (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    run("ip", "netns", "add", namespace)
    run("ip", "-n", namespace, "link", "set", "lo", "up")


def add_bridge(head: str, address: str) -> None:
    run("ip", "-n", head, "link", "add", "bridge", "type", "bridge")
    run("ip", "-n", head, "link", "set", "bridge", "up")
    run("ip", "-n", head, "address", "add", f"{address}/24", "dev", "bridge")


def connect(namespace: str, host: str, address: str, head: str) -> None:
    """Connect `eth0` of the host to the bridge."""
    run("ip", "-n", head, "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    run("ip", "-n", head, "link", "set", host, "master", "bridge", "up")
    run("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
    run("ip", "-n", namespace, "link", "set", "eth0", "up")


def route_through(head: str, via: str, namespace: str) -> None:
    """Let a host reach all others through the head at the address `via`, which forwards their packets.

    All namespaces share one table of neighbours, which 64 hosts that know each other would overflow.
    """
    settings = "/proc/sys/net/ipv4"
    for where, name in ((head, "send_redirects"), (namespace, "accept_redirects")):
        no_redirects = (
            f"for f in {settings}/conf/*/{name}; do echo 0 >$f; done; echo 1 >{settings}/ip_forward"
        )
        run("ip", "netns", "exec", where, "sh", "-c", no_redirects)
    words = ("10.79.0.0/24", "via", via, "dev", "eth0", "onlink")
    run("ip", "-n", namespace, "route", "replace", *words)


def write_ssh_files(folder: Path) -> None:
    for key in ("hostkey", "key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    keys = f"HostKey {folder}/hostkey\nAuthorizedKeysFile {folder}/key.pub\n"
    # A gateway is a host whose own ssh reaches the others. No start-up file of this machine's user is read.
    home = folder / "home"
    home.mkdir()
    path = f"{folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    settings = f"SetEnv PATH={path} HOME={home}\n"
    (folder / "sshd_config").write_text(
        f"{keys}{settings}PermitRootLogin yes\nStrictModes no\nUsePAM no\nUseDNS no\n"
    )
    client = folder / "ssh"
    options = (
        f"-F none -i '{folder}/key' -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o "
        "LogLevel=ERROR"
    )
    client.write_text(f'#!/bin/sh\necho >>"{folder}/logins"\nexec {shutil.which("ssh")} {options} "$@"\n')
    client.chmod(0o755)


@contextlib.contextmanager
def ssh_lab(folder: Path, names: tuple[str, ...]) -> Iterator[Lab]:
    """Run the hosts `names` on a bridge of the head node.

    `folder` gets the keys. The addresses are 10.79.0.2 and up.
    """
    programs = ("ip", "ssh", "sshd", "ssh-keygen", "unshare")
    missing = [name for name in programs if not shutil.which(name, path="/usr/sbin:/usr/bin:/bin")]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, iproute2 and openssh-server; missing here: {', '.join(missing) or 'root'}")
    addresses = {HEAD: "10.79.0.1", **{name: f"10.79.0.{number}" for number, name in enumerate(names, 2)}}
    hosts = "".join(
        f"{address} {name}\n" for name, address in (("localhost", "127.0.0.1"), *addresses.items())
    )
    # All processes of the machine share the names, and another run of the tests may have namespaces, too.
    namespaces = {name: f"rigtune-{os.getpid()}-{name}" for name in addresses}
    head = namespaces[HEAD]
    Path("/run/sshd").mkdir(exist_ok=True)
    servers = []
    try:
        write_ssh_files(folder)
        for name, address in addresses.items():
            add_namespace(namespaces[name], hosts)
            if name == HEAD:
                add_bridge(head, address)
            else:
                connect(namespaces[name], name, address, head)
                route_through(head, addresses[HEAD], namespaces[name])
        for name in names:
            server = f"hostname {name} && exec /usr/sbin/sshd -D -f '{folder}/sshd_config'"
            servers.append(
                subprocess.Popen(
                    ("ip", "netns", "exec", namespaces[name], "unshare", "--uts", "sh", "-c", server)
                )
            )
        for name in names:
            until_up = f"for i in $(seq 200); do '{folder}/ssh' {name} true && exit 0; done; exit 1"
            run("ip", "netns", "exec", head, "sh", "-c", until_up)
        yield Lab(folder, head, namespaces)
    finally:
        for server in servers:
            for process in (*psutil.Process(server.pid).children(recursive=True), server):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            server.wait(30)
        for namespace in namespaces.values():
            subprocess.run(("ip", "netns", "delete", namespace), capture_output=True, check=False)
            shutil.rmtree(f"/etc/netns/{namespace}", ignore_errors=True)
