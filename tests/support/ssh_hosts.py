"""Hosts in network namespaces, each with its own address, name and sshd, and a head node that reaches them. Needs root."""

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

HEAD = "rigtune-head"


class Lab(NamedTuple):
    """Where commands run as if on the head node."""

    folder: Path

    def start(self, *command: object, cwd: Path) -> subprocess.Popen[str]:
        """Start a command on the head node, with this lab's ssh first on the PATH."""
        path = f"{self.folder}:{os.environ['PATH']}"
        return subprocess.Popen(
            ("ip", "netns", "exec", HEAD, *map(str, command)),
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


def add_namespace(name: str, address: str, hosts: str) -> None:
    """A namespace on the bridge of the head node; `ip netns exec` shows it the files of /etc/netns."""
    folder = Path("/etc/netns") / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts").write_text(hosts)
    (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    run("ip", "netns", "add", name)
    run("ip", "-n", name, "link", "set", "lo", "up")
    if name == HEAD:
        run("ip", "-n", HEAD, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", HEAD, "link", "set", "bridge", "up")
        run("ip", "-n", HEAD, "address", "add", f"{address}/24", "dev", "bridge")
        return
    run("ip", "-n", HEAD, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "-n", HEAD, "link", "set", name, "master", "bridge", "up")
    run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
    run("ip", "-n", name, "link", "set", "eth0", "up")


def write_ssh_files(folder: Path) -> None:
    for key in ("hostkey", "key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    keys = f"HostKey {folder}/hostkey\nAuthorizedKeysFile {folder}/key.pub\n"
    (folder / "sshd_config").write_text(keys + "PermitRootLogin yes\nStrictModes no\nUsePAM no\nUseDNS no\n")
    client = folder / "ssh"
    options = f"-F none -i '{folder}/key' -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {options} "$@"\n')
    client.chmod(0o755)


@contextlib.contextmanager
def ssh_lab(folder: Path, names: tuple[str, ...]) -> Iterator[Lab]:
    """The hosts `names` on a bridge of the head node; `folder` gets the keys. Their addresses are 10.79.0.2 and up."""
    programs = ("ip", "ssh", "sshd", "ssh-keygen", "unshare")
    missing = [name for name in programs if not shutil.which(name, path="/usr/sbin:/usr/bin:/bin")]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, iproute2 and openssh-server; missing here: {', '.join(missing) or 'root'}")
    addresses = {HEAD: "10.79.0.1", **{name: f"10.79.0.{number}" for number, name in enumerate(names, 2)}}
    hosts = "".join(f"{address} {name}\n" for name, address in (("localhost", "127.0.0.1"), *addresses.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    servers = []
    try:
        write_ssh_files(folder)
        for name, address in addresses.items():
            add_namespace(name, address, hosts)
        for name in names:
            server = f"hostname {name} && exec /usr/sbin/sshd -D -f '{folder}/sshd_config'"
            servers.append(subprocess.Popen(("ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", server)))
        for name in names:
            until_up = f"for i in $(seq 200); do '{folder}/ssh' {name} true && exit 0; done; exit 1"
            run("ip", "netns", "exec", HEAD, "sh", "-c", until_up)
        yield Lab(folder)
    finally:
        for server in servers:
            for process in (*psutil.Process(server.pid).children(recursive=True), server):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            server.wait(30)
        for name in addresses:
            subprocess.run(("ip", "netns", "delete", name), capture_output=True, check=False)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
