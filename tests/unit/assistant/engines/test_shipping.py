"""Test the shell line that receives an archive on a node; the archives of this test are small programs."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from assistant.engines import exec_engine
from assistant.engines.engine_table import Wanted
from assistant.engines.shipping import Archive, Shipment
from assistant.usecases.fleet.archives import archives_of
from probes.fleet.node_report import NodeEnd, NodeLine

pytest.importorskip("ClusterShell")

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LABEL = "rigtune 7 (commit it's)"
SAYS = """
import json, os, sys
own = os.path.dirname(os.path.abspath(__file__))
print("@rigtune " + json.dumps({
    "text": %r, "folder": own, "mode": os.stat(own).st_mode & 0o777, "arguments": sys.argv[1:],
    "root": os.environ.get("SHIV_ROOT"), "input": sys.stdin.read(),
}), flush=True)
"""
HANGS = SAYS + "import time; time.sleep(600)\n"


class Answers(NamedTuple):
    """The records and the end of the only node."""

    records: list[dict[str, object]]
    end: NodeEnd


class Site:
    """A node whose programs and folders a test chooses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.local = folder / "node's disk"
        self.programs = folder / "bin"
        self.local.mkdir()
        self.programs.mkdir()
        (self.programs / f"python{PYTHON}").symlink_to(sys.executable)

    def archive(
        self, text: str, python: str = PYTHON, *, body: str = SAYS, machine: str = platform.machine()
    ) -> Archive:
        content = (body % text).encode()
        path = self.folder / f"{text}.pyz"
        path.write_bytes(content)
        return Archive(path, python, hashlib.sha256(content).hexdigest(), len(content), machine)

    def installed(self, label: str) -> str:
        """Return the path of an installed program that states this version."""
        program = self.programs / "own rigtune"
        program.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "{label}" && exit\necho "@rigtune {{}}"\n'
        )
        program.chmod(0o755)
        return str(program)

    def ask(
        self,
        *archives: Archive,
        program: str = "/nowhere/rigtune",
        arguments: tuple[str, ...] = (),
        folders: tuple[str, ...] = (),
        limit_s: float = 30,
    ) -> Answers:
        ship = Shipment(archives, LABEL, folders or (str(self.local),))
        lines: list[NodeLine | NodeEnd] = []
        exec_engine.run(Wanted(("n1",), (program, *arguments), limit_s, {}, ship), lines.append)
        *records, end = lines
        assert isinstance(end, NodeEnd)
        return Answers([json.loads(record.text) for record in records], end)

    def is_clean(self) -> bool:
        return not list(self.local.iterdir())


@pytest.fixture
def site(tmp_path, monkeypatch):
    here = Site(tmp_path)
    monkeypatch.setenv("PATH", f"{here.programs}:/usr/bin:/bin")
    return here


def test_an_archive_runs_in_a_private_folder_that_is_removed(site):
    arguments = ("fleet", "node", "--policy", "a b'c$(x)%h\"\\", "")
    answers = site.ask(site.archive("sent"), arguments=arguments)
    (record,) = answers.records
    assert answers.end.outcome == "ok"
    assert (record["text"], record["mode"]) == ("sent", 0o700)
    assert Path(str(record["folder"])).parent == site.local
    assert (record["root"], record["input"]) == (record["folder"], "")
    assert record["arguments"] == list(arguments)
    assert site.is_clean()


@pytest.mark.parametrize(("label", "is_used"), [(LABEL, True), ("rigtune 6 (commit it's)", False)])
def test_only_an_installed_program_of_the_same_version_is_used(site, label, is_used):
    answers = site.ask(site.archive("sent"), program=site.installed(label))
    assert answers.end.outcome == "ok"
    assert answers.records == ([{}] if is_used else [{**answers.records[0], "text": "sent"}])
    assert site.is_clean()


def test_a_node_takes_the_archive_of_its_own_python(site):
    archives = (site.archive("old", "3.1"), site.archive("own"), site.archive("also own"))
    answers = site.ask(*archives)
    assert [record["text"] for record in answers.records] == ["own"]


def test_a_node_takes_the_archive_of_its_own_cpu(site):
    answers = site.ask(site.archive("other", machine="sparc64"), site.archive("own"))
    assert [record["text"] for record in answers.records] == ["own"]
    refused = site.ask(site.archive("other", machine="sparc64"))
    assert (refused.records, refused.end.outcome) == ([], "exit")
    assert f"no Python {PYTHON} on sparc64" in refused.end.detail


def test_archives_for_two_cpus_are_kept_apart(tmp_path):
    digest = hashlib.sha256(b"").hexdigest()
    for machine in ("x86_64", "aarch64"):
        (tmp_path / f"rigtune-7-abc-py311-{machine}-{digest[:16]}.pyz").write_bytes(b"")
    archives = archives_of(tmp_path, {"version": "7", "commit": "abc"})
    assert sorted((each.python, each.machine) for each in archives) == [
        ("3.11", "aarch64"),
        ("3.11", "x86_64"),
    ]


def test_a_changed_archive_is_not_started_and_says_nothing_about_the_node(site):
    archive = site.archive("sent")
    archive.path.write_bytes(archive.path.read_bytes().replace(b"sent", b"evil"))
    answers = site.ask(archive)
    assert (answers.records, answers.end.outcome) == ([], "no-answer")
    assert "did not arrive whole" in answers.end.detail
    assert site.is_clean()


def test_a_node_without_a_suitable_python_or_folder_says_so(site):
    answers = site.ask(site.archive("old", "3.1"))
    assert (answers.end.outcome, answers.records) == ("exit", [])
    assert "no Python 3.1" in answers.end.detail
    answers = site.ask(site.archive("sent"), folders=("/proc", "/nowhere"))
    assert answers.end.outcome == "exit"
    reason = "no folder of this node has 64 MiB free and lets programs run (tried /proc /nowhere)"
    assert reason in answers.end.detail
    second = site.ask(site.archive("sent"), folders=("/nowhere", str(site.local)))
    assert second.end.outcome == "ok"


def test_the_name_of_a_folder_is_no_program_of_the_node(site, monkeypatch):
    """The message quotes the name of a folder that cannot be used; the shell must not execute the name."""
    monkeypatch.chdir(site.folder)
    folder = '/nowhere/$(touch started)"`touch started`'
    answers = site.ask(site.archive("sent"), folders=(folder,))
    assert folder in answers.end.detail
    assert not (site.folder / "started").exists()


def test_an_archive_that_hangs_ends_at_the_limit_and_leaves_no_folder(site):
    answers = site.ask(site.archive("sent", body=HANGS), limit_s=3)
    assert [record["text"] for record in answers.records] == ["sent"]
    assert answers.end.outcome == "timed-out"
    assert site.is_clean()


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize("option", ["noexec", "size=40m", "ro"])
def test_a_folder_that_cannot_take_the_program_is_passed_over(site, option):
    strict = site.folder / "strict"
    strict.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", option, "none", strict), check=True)
    try:
        (record,) = site.ask(site.archive("sent"), folders=(str(strict), str(site.local))).records
        assert not list(strict.iterdir())
    finally:
        subprocess.run(("umount", strict), check=True)
    assert Path(str(record["folder"])).parent == site.local
