"""Test that the output names a slow rack by the number in the site's table."""

from __future__ import annotations

import json
import stat

import pytest

from assistant.cli import command_line
from assistant.engines import kubernetes_engine, slurm_engine
from assistant.engines.engine_table import ENGINES
from tests.support.simulated_fleet import Fleet, write_run

pytest.importorskip("ClusterShell")
NODES, RACK = 128, 8


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a run in which the nodes of rack 7 are 6 % slow; no node knows its rack."""
    fleet = Fleet(
        NODES,
        5,
        factor=lambda node, gpu: 0.94 if node // RACK == 7 else 1.0,
        attributes=lambda node: {"rack": ""},
    )
    return write_run(tmp_path / "run", fleet.run())


def check(folder, tmp_path, *options):
    words = ["fleet", "check", "--engine", "exec", "-w", f"n[0-{NODES - 1}]", "--rigtune", "no-such-program"]
    return command_line([
        *words, "--out", str(folder), "--store", str(tmp_path / "store.sqlite"), "-q", *options
    ])  # fmt: skip


def test_rack_seven_is_named_from_the_sites_table(folder, tmp_path, capsys):
    racks = tmp_path / "racks.csv"
    rows = [
        f"n[{first}-{first + RACK - 1}],{first // RACK},pdu{first // 64}" for first in range(0, NODES, RACK)
    ]
    racks.write_text("\n".join(["node,rack,pdu", *rows]))
    check(folder, tmp_path, "--topology-from", str(racks), "--format", "json")
    result = json.loads(capsys.readouterr().out)
    assert [cause["subject"] for cause in result["common_causes"]] == ["rack = 7"]
    check(folder, tmp_path, "--topology-from", str(racks))
    text = capsys.readouterr().out
    assert "the 8 nodes with rack 7 are 5.92 % slower than the others" in text
    assert "n59  slow" in text
    assert command_line(["fleet", "show", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["common_causes"] == result["common_causes"]
    assert (folder / "meta.json").stat().st_mode & 0o777 == 0o600


def test_a_switch_of_topology_conf_is_named(folder, tmp_path, capsys):
    topology = tmp_path / "topology.conf"
    topology.write_text(
        "\n".join(f"SwitchName=leaf{rack} Nodes=n[{rack * RACK}-{rack * RACK + 7}]" for rack in range(16))
    )
    check(folder, tmp_path, "--topology-from", str(topology), "--format", "json")
    causes = json.loads(capsys.readouterr().out)["common_causes"]
    assert [cause["subject"] for cause in causes] == ["switch = leaf7"]


def test_a_wrong_table_ends_before_a_node_is_asked(tmp_path, capsys):
    racks = tmp_path / "racks.csv"
    racks.write_text("node,rack\nn[1-,7\n")
    assert check(tmp_path / "new", tmp_path, "--topology-from", str(racks)) == 2
    assert not (tmp_path / "new").exists()


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """Return a function that puts a program with a fixed answer on the PATH."""

    def install(name: str, text: str) -> None:
        (tmp_path / "answer").write_text(text)
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\ncat "{tmp_path}/answer"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_slurm_and_kubernetes_are_asked_for_places(answer):
    assert [row.id for row in ENGINES if row.knows_places] == ["slurm", "kubernetes"]
    answer("scontrol", "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n")
    assert slurm_engine.places() == {"n1": {"switch": "s1"}, "n2": {"switch": "s1"}}
    items = [{"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/rack": "7"}}}]
    answer("kubectl", json.dumps({"items": [*items, {"metadata": {"name": "n2"}}]}))
    assert kubernetes_engine.places() == {"n1": {"rack": "7"}}


def test_a_site_without_scontrol_has_no_places(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert slurm_engine.places() == {}
