"""launch-all.sh over real ssh: two hosts, each with its own address, name and sshd, in network namespaces. Needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from recipes.recipe import Command

pytestmark = [pytest.mark.root, pytest.mark.slow]

LIMIT_S = 240
HOSTS = ("rigtune-a", "rigtune-b")
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


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    programs = ("ip", "ssh", "sshd", "ssh-keygen", "unshare")
    missing = [name for name in programs if not shutil.which(name, path="/usr/sbin:/usr/bin:/bin")]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, iproute2 and openssh-server; missing here: {', '.join(missing) or 'root'}")
    folder = tmp_path_factory.mktemp("ssh")
    addresses = {HEAD: "10.79.0.1", **{name: f"10.79.0.{number}" for number, name in enumerate(HOSTS, 2)}}
    hosts = "".join(f"{address} {name}\n" for name, address in (("localhost", "127.0.0.1"), *addresses.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    servers = []
    try:
        write_ssh_files(folder)
        for name, address in addresses.items():
            add_namespace(name, address, hosts)
        for name in HOSTS:
            server = f"hostname {name} && exec /usr/sbin/sshd -D -f '{folder}/sshd_config'"
            servers.append(subprocess.Popen(("ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", server)))
        for name in HOSTS:
            run(
                "ip",
                "netns",
                "exec",
                HEAD,
                "sh",
                "-c",
                f"for i in $(seq 200); do '{folder}/ssh' {name} true && exit 0; done; exit 1",
            )
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


@pytest.fixture
def own_program(make_recipe, torch_python, tmp_path):
    """`own_program(text)`: a recipe for both hosts with one rank each that runs this program."""

    def make(text):
        program = tmp_path / "program.py"
        program.write_text(f"import os, signal, socket, sys\nrank = os.environ['RANK']\n{text}\n")
        command = Command(kind="script", target=str(program))
        return make_recipe(nodes=2, ranks_per_node=1, command=command, resources={"python": torch_python, "hosts": HOSTS})

    return make


SAY = "os.write(1, f'rank {rank} on {socket.gethostname()} {sys.argv[1:]}\\n'.encode())"


def test_two_hosts_train_together(lab, make_recipe, torch_python, export, tmp_path):
    recipe = make_recipe(nodes=2, ranks_per_node=1, resources={"python": torch_python, "hosts": HOSTS})
    folder = tmp_path / "it's a $folder"
    export("torchrun", recipe, folder)
    job = lab.start(folder / "launch-all.sh", "--", "--steps", 6, "--report", tmp_path / "report.jsonl", cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, output
    assert "world size 2, backend gloo" in output
    assert "\r" not in output
    assert (tmp_path / "report.jsonl").exists()


def test_the_first_host_has_rank_0_and_arguments_arrive_whole(lab, own_program, export, tmp_path):
    export("torchrun", own_program(SAY), tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", "--", "it's", "$HOME `id`", cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, output
    lines = {line for line in output.splitlines() if line.startswith("rank ")}
    assert lines == {f"rank {rank} on {host} {['it' + chr(39) + 's', '$HOME `id`']}" for rank, host in enumerate(HOSTS)}


def test_one_failing_host_ends_the_others(lab, own_program, export, tmp_path):
    program = f"if rank == '1': raise ValueError('bad shape')\n{SAY}\nsignal.pause()"
    export("torchrun", own_program(program), tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 1
    assert "ValueError: bad shape" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_host_keeps_a_rank_when_the_script_ends(lab, own_program, export, tmp_path, number):
    """Both ranks write to a pipe that only they hold open: its end is theirs."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    program = f"alive = os.open({str(fifo)!r}, os.O_WRONLY)\nos.write(alive, b'x')\nsignal.pause()"
    export("torchrun", own_program(program), tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", cwd=tmp_path)
    with fifo.open("rb", buffering=0) as alive:
        assert alive.read(1) == b"x"
        assert alive.read(1) == b"x"
        job.send_signal(number)
        assert alive.read(1) == b""
    job.communicate(timeout=LIMIT_S)
    assert job.returncode != 0


def test_a_host_that_does_not_answer_is_told(lab, make_recipe, torch_python, export, tmp_path):
    recipe = make_recipe(nodes=2, resources={"python": torch_python, "hosts": (HOSTS[0], "no-such-host")})
    export("torchrun", recipe, tmp_path / "launch")
    job = lab.start(tmp_path / "launch" / "launch-all.sh", cwd=tmp_path)
    output, _ = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 255
    assert "no-such-host" in output
