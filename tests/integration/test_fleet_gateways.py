"""Test a fleet of hosts in network namespaces behind two gateways of ClusterShell; some gateways are lost.

Needs root.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.ssh_hosts import HEAD, Lab, ssh_lab

pytestmark = [pytest.mark.root, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
GATEWAYS = ("gw1", "gw2")
LIMIT_S = 20
EACH_S = 4
"""Additional seconds for each leaf, because all leaves share the cores of this machine."""
ARCHIVE_BYTES = 6_000_000

NODE = """#!{python}
import json, os, pathlib, socket, sys, time
host, folder = socket.gethostname(), pathlib.Path({folder!r})
mark = folder / host
is_first = not mark.exists()
mark.touch()
while is_first and (folder / "wait").exists():
    time.sleep(0.1)
came_from = os.environ["SSH_CONNECTION"].split()[0]
report = {{"node": host, "verdict": "PASS", "attributes": {{"came_from": came_from}}, "clock_s": time.time()}}
print("@rigtune " + json.dumps(report), flush=True)
"""


ONE_LEVEL = ("head: gw[1-2]", "gw[1-2]: leaf[1-{}]")
TWO_LEVELS = ("head: gw1", "gw1: gw2", "gw2: leaf[1-{}]")


class Fleet:
    """Leaves behind two gateways, and the program that each leaf runs."""

    def __init__(self, lab: Lab, leaves: tuple[str, ...], folder: Path) -> None:
        self.lab, self.leaves, self.folder = lab, leaves, folder
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.program = folder / "node"
        self.program.write_text(NODE.format(python=sys.executable, folder=str(self.marks)))
        self.program.chmod(0o755)

    def topology(self, *routes: str) -> Path:
        path = self.folder / "topology.conf"
        path.write_text("\n".join(("[routes]", *routes)) + "\n")
        return path

    def start(self, *options: object) -> subprocess.Popen[str]:
        limit_s = LIMIT_S + EACH_S * len(self.leaves)
        pattern = f"leaf[1-{len(self.leaves)}]"
        words = ("fleet", "check", "--engine", "ssh", "-w", pattern, "--limit", limit_s)
        more = ("--rigtune", self.program, "--out", self.folder / "run", "--format", "json", "-q", *options)
        launcher = self.folder / "head.sh"
        launcher.write_text(
            f'cd "{self.folder}" && export CLUSTERSHELL_GW_PYTHON_EXECUTABLE={sys.executable} && '
            f'PYTHONPATH={ROOT} exec {sys.executable} -m assistant "$@" 2>err\n'
        )
        return self.lab.start("sh", launcher, *words, *more, cwd=self.folder, on=HEAD)

    def result(self, head: subprocess.Popen[str]) -> dict[str, Any]:
        output, _ = head.communicate(timeout=600)
        assert output, (self.folder / "err").read_text()
        answers: dict[str, Any] = json.loads(output)
        assert [node["node"] for node in answers["nodes"]] == list(self.leaves)
        return answers

    def origins(self) -> Counter[str]:
        """Return the number of leaves by the address of the host that asked them."""
        lines = (self.folder / "run" / "raw.jsonl").read_text().splitlines()
        texts = (json.loads(json.loads(line)["text"]) for line in lines)
        return Counter(text["attributes"]["came_from"] for text in texts)

    def processes_on(self, host: str) -> list[psutil.Process]:
        namespace = Path("/run/netns", self.lab.namespaces[host]).stat().st_ino
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if Path(f"/proc/{process.pid}/ns/net").stat().st_ino == namespace:
                    processes.append(process)
        return processes

    def left(self) -> list[psutil.Process]:
        words = str(self.program)
        return [each for each in psutil.process_iter(["cmdline"]) if words in (each.info["cmdline"] or [])]


def addresses(lab: Lab) -> dict[str, str]:
    """Return the address of each host."""
    lines = (Path("/etc/netns") / lab.head / "hosts").read_text().splitlines()
    return {name: address for address, name in map(str.split, lines)}


@pytest.fixture(scope="module", params=[6, pytest.param(60, marks=pytest.mark.long)])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    pytest.importorskip("ClusterShell")
    leaves = tuple(f"leaf{number}" for number in range(1, request.param + 1))
    with ssh_lab(tmp_path_factory.mktemp("ssh"), (*GATEWAYS, *leaves)) as hosts:
        yield hosts


@pytest.fixture
def fleet(lab, tmp_path):
    return Fleet(lab, tuple(name for name in lab.namespaces if name.startswith("leaf")), tmp_path)


def test_leaves_are_asked_directly_without_a_topology(fleet):
    answers = fleet.result(fleet.start())
    assert {node["outcome"] for node in answers["nodes"]} == {"ok"}
    assert fleet.origins() == {addresses(fleet.lab)[HEAD]: len(fleet.leaves)}


def test_leaves_are_asked_through_both_gateways(fleet):
    routes = fleet.topology("head: gw[1-2]", f"gw[1-2]: leaf[1-{len(fleet.leaves)}]")
    answers = fleet.result(fleet.start("--topology", routes))
    assert {node["outcome"] for node in answers["nodes"]} == {"ok"}
    known = addresses(fleet.lab)
    half = len(fleet.leaves) // 2
    assert fleet.origins() == {known["gw1"]: half, known["gw2"]: half}


def test_leaves_are_asked_through_a_gateway_behind_gateways(fleet):
    """The leaves that serve as gateways are asked too, each through itself."""
    count = len(fleet.leaves)
    routes = fleet.topology("head: gw[1-2]", "gw[1-2]: leaf[1-2]", f"leaf[1-2]: leaf[3-{count}]")
    answers = fleet.result(fleet.start("--topology", routes))
    assert {node["outcome"] for node in answers["nodes"]} == {"ok"}, answers["nodes"]
    known = addresses(fleet.lab)
    # A gateway that has an answer already takes the next leaf, so the halves may differ by a few.
    assert set(fleet.origins()) == {known["leaf1"], known["leaf2"]}
    assert fleet.origins().total() == count


@pytest.mark.parametrize("is_direct", [True, False])
def test_an_archive_reaches_every_leaf(fleet, is_direct):
    (fleet.folder / "local").mkdir()
    content = f"{NODE.format(python='', folder=str(fleet.marks))}# {'x' * ARCHIVE_BYTES}\n".encode()
    sha256 = hashlib.sha256(content).hexdigest()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    label = f"py{version.replace('.', '')}-{platform.machine()}"
    archive = fleet.folder / f"rigtune-1-abc-{label}-{sha256[:16]}.pyz"
    archive.write_bytes(content)
    python = fleet.lab.folder / f"python{version}"
    if not python.exists():
        python.symlink_to(sys.executable)
    routes = fleet.topology("head: gw[1-2]", f"gw[1-2]: leaf[1-{len(fleet.leaves)}]")
    options = ("--ship", archive, "--node-folder", fleet.folder / "local", "--rigtune", "/nowhere/rigtune")
    logins = fleet.lab.folder / "logins"
    before = logins.stat().st_size
    answers = fleet.result(fleet.start(*options, *(() if is_direct else ("--topology", routes))))
    assert {node["outcome"] for node in answers["nodes"]} == {"ok"}, answers["nodes"]
    assert len(fleet.origins()) == (1 if is_direct else 2)
    assert logins.stat().st_size - before == len(fleet.leaves) + (0 if is_direct else len(GATEWAYS))
    assert not list((fleet.folder / "local").iterdir())


def test_a_gateway_that_no_one_reaches_blames_nobody(fleet):
    half = len(fleet.leaves) // 2
    routes = fleet.topology(
        "head: gw1,nowhere", f"gw1: leaf[1-{half}]", f"nowhere: leaf[{half + 1}-{len(fleet.leaves)}]"
    )
    answers = fleet.result(fleet.start("--topology", routes))
    assert {node["outcome"] for node in answers["nodes"]} == {"ok"}, answers["nodes"]


@pytest.mark.parametrize(
    ("routes", "share"), [(ONE_LEVEL, 0.5), (TWO_LEVELS, 0.0)], ids=["one level", "two levels"]
)
def test_leaves_behind_a_gateway_that_dies_are_asked_once_more_directly(fleet, routes, share):
    """`share` is the part of the leaves that the other gateway reaches."""
    count = len(fleet.leaves)
    routes = fleet.topology(*(line.format(count) for line in routes))
    (fleet.marks / "wait").touch()
    head = fleet.start("--topology", routes)
    until_all_wait = (
        f"for i in $(seq 1200); do [ $(ls {fleet.marks} | wc -l) -gt {len(fleet.leaves)} ] && exit; "
        "sleep 0.1; done; exit 1"
    )
    subprocess.run(("sh", "-c", until_all_wait), check=True)
    (server,) = (
        each for each in fleet.processes_on("gw2") if each.name() == "sshd" and "-D" in each.cmdline()
    )
    for process in fleet.processes_on("gw2"):
        if process != server:  # the next test needs this sshd
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended with its parent
                process.kill()
    (fleet.marks / "wait").unlink()
    answers = fleet.result(head)
    assert {node["outcome"] for node in answers["nodes"]} == {"ok"}, answers["nodes"]
    known = addresses(fleet.lab)
    through = int(share * count)
    assert fleet.origins() == +Counter({known["gw1"]: through, known[HEAD]: count - through})
    assert not fleet.left()


def test_a_wrong_topology_is_named(fleet):
    head = fleet.start("--topology", fleet.topology("elsewhere: gw1", "gw1: leaf1"))
    assert head.communicate(timeout=100)[0] == ""
    assert head.returncode == 2
    assert "the topology of ClusterShell cannot be used" in (fleet.folder / "err").read_text()
