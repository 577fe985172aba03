"""Test the commands with which engines start nodes, as `--dry-run` prints them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from assistant.cli import command_line
from assistant.engines import clustershell_runs, slurm_engine, ssh_engine
from assistant.engines.engine_table import Wanted
from assistant.engines.shipping import Archive, Shipment
from probes.base.errors import UsageError

pytest.importorskip("ClusterShell")


def test_the_command_of_ssh_is_one_that_runs():
    wanted = Wanted(("g1", "g2"), ("/opt/rig tune", "fleet"), 60, {"ssh_config": "/my files/config"})
    words = shlex.split(ssh_engine.plan(wanted))
    assert words[:5] == ["clush", "-f", "64", "-w", "g[1-2]"]
    assert shlex.split(words[words.index("-o") + 1])[-2:] == ["-F", "/my files/config"]
    assert shlex.split(words[-1])[-2:] == ["/opt/rig tune", "fleet"]


def test_slurm_uses_only_idle_nodes_that_respond(tmp_path, monkeypatch):
    program = tmp_path / "sinfo"
    program.write_text("#!/bin/sh\nprintf 'g1 idle\\ng2 idle*\\ng3 idle~\\ng4 mixed\\ng5 drained\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    lines = slurm_engine.plan(Wanted(("g1", "g2", "g3", "g4", "g5", "g6"), ("true",), 60)).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["salloc", "srun", "scancel"]
    assert all("--nodelist=g1" in shlex.split(line) for line in lines[:2])
    assert lines[3:] == [
        "# g2: Slurm says idle*",
        "# g3: Slurm says idle~",
        "# g4: a job uses the node (mixed)",
        "# g5: Slurm says drained",
        "# g6: Slurm does not know the node",
    ]


def test_without_clustershell_nodes_are_listed(monkeypatch):
    def missing():
        raise UsageError("the module is missing")

    monkeypatch.setattr(clustershell_runs, "_nodeset", missing)
    assert clustershell_runs.folded(("g1", "g2")) == "g1,g2"


@pytest.mark.parametrize("engine", ["mpi", "kubernetes"])
def test_an_engine_that_sends_no_archive_does_not_promise_to(engine, tmp_path, capsys):
    words = ["fleet", "check", "--engine", engine, "-w", "g1", "--rigtune", "rigtune", "--dry-run"]
    assert command_line([*words, "--ship", str(tmp_path / "a.pyz")]) == 2
    assert f"the engine {engine} sends no archive" in capsys.readouterr().err


def test_slurm_copies_an_archive_to_a_name_that_is_then_removed(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "g[1-3]")
    archive = Archive(Path("/my files/a.pyz"), "3.11", "0" * 64, 9, "x86_64")
    ship = Shipment((archive,), "rigtune 1", ("/local disk", "/tmp"))  # noqa: S108
    copy, step, removal = slurm_engine.plan(Wanted(("g1", "g2"), ("rigtune",), 60, {}, ship)).splitlines()
    target = "/local disk/rigtune-TOKEN-0.pyz"
    assert shlex.split(copy) == ["sbcast", "--jobid=7", "--force", "/my files/a.pyz", target]
    words = shlex.split(shlex.split(step)[-1])
    script = next(word for word in words if word.startswith("umask 077"))
    assert f"cat -- '{target}'" in script
    assert f"rm -f -- '{target}'" in script
    assert shlex.split(removal)[-4:] == ["rm", "-f", "--", target]
    assert "--nodelist=g[1-3]" in shlex.split(removal), "sbcast copies also to nodes that run nothing"


@pytest.mark.parametrize(("archives", "minutes"), [(0, 8), (1, 15)])
def test_an_allocation_lasts_as_long_as_all_that_may_run_in_it(archives, minutes, tmp_path, monkeypatch):
    """Each of three passes has 120 s, 120 s for an archive, and 40 s around both; the removal has 60 s."""
    program = tmp_path / "sinfo"
    program.write_text("#!/bin/sh\necho g1 idle\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    ship = Shipment((Archive(Path("a.pyz"), "3.11", "0" * 64, 9, "x86_64"),) * archives, "rigtune 1")
    wanted = Wanted(("g1",), ("true",), 120, ship=ship if archives else None)
    assert f"--time={minutes}" in slurm_engine.plan(wanted).splitlines()[0].split()
