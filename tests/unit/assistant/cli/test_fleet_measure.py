"""Test that `rigtune fleet bench` and `fleet find-bad` pass their options to the measurements."""

from __future__ import annotations

import pytest

from assistant.cli import command_line
from assistant.cli.fleet_measure import _racks
from assistant.engines.engine_table import find_engine
from assistant.usecases.bench.find_bad_nodes import HostFault, HostSearch
from assistant.usecases.events import StageFinished
from probes.base.errors import UsageError
from probes.facts.measurements import MeasurementSet


@pytest.mark.parametrize(("bad", "code"), [((), 0), ((HostFault(host="n2", kind="slow"),), 1)])
def test_find_bad_searches_the_nodes_of_the_pattern(monkeypatch, capsys, bad, code):
    asked = {}

    def search(facts, options, stop, **more):
        asked.update(more, hosts=options.hosts, spread_by=options.spread_by, force=options.force)
        yield StageFinished(stage="hosts", result=HostSearch(hosts=options.hosts, runs=1, bad_hosts=bad))

    monkeypatch.setattr("assistant.cli.find_hosts.find_bad_hosts", search)
    words = ["fleet", "find-bad", "-w", "n[1-3]", "--engine", "exec", "--rack", "r1=n[1-2]", "--force"]
    assert command_line(words) == code
    assert asked == {
        "hosts": ("n1", "n2", "n3"),
        "spread_by": "exec",
        "force": True,
        "racks": {"n1": "r1", "n2": "r1"},
        "slow_below": 0.75,
    }
    assert ("n2: is slow" in capsys.readouterr().out) == bool(bad)


@pytest.mark.parametrize(
    ("engine", "starts"),
    [
        ("exec", ("timeout -k 5 60 sh -c", "timeout -k 5 253 env NODE_COUNT=")),
        ("ssh", ("clush -f 64 -w 'n[1-200]'", "ssh -oBatchMode=yes")),
        ("mpi", ("mpirun -n 1 -host n1 sh -c 'timeout -k 5 60", "mpirun -n 1 -host n1 sh -c 'timeout -k 5 ")),
    ],
)
def test_a_dry_run_prints_every_command_and_asks_no_node(monkeypatch, capsys, engine, starts):
    def refuse(*_: object) -> None:
        raise AssertionError("a node is asked")

    monkeypatch.setattr(f"assistant.engines.{engine}_engine.run", refuse)
    monkeypatch.setattr("assistant.engines.clustershell_runs._task", refuse)
    words = ["fleet", "find-bad", "-w", "n[1-200]", "--engine", engine, "--dry-run", "--rack", "r=n[1-70]"]
    assert command_line([*words, "--work-directory", "/shared/work"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[1] == "# 200 nodes: n[1-200]"
    assert "11 groups of 13 and 70 nodes at the same time" in text, "one rack, and the others in parts"
    assert "at most 264 runs; each pair alone would take 19900." in text
    assert "/shared/work/seen-by-all-hosts" in text
    assert "/shared/work/group1/launch/launch.sh" in text
    for start in starts:
        assert [line for line in lines if line.startswith(start)], start


def test_a_dry_run_of_benchmarks_names_each_start(monkeypatch, capsys):
    monkeypatch.setattr("assistant.engines.clustershell_runs._task", None)  # asking a node would raise
    words = ["fleet", "bench", "-w", "n[1-3]", "--engine", "ssh", "--dry-run", "--work-directory", "/shared"]
    assert command_line([*words, "--only", "storage", "--only", "network", "--only", "across-nodes"]) == 0
    text = capsys.readouterr().out
    assert "# 3 nodes: n[1-3]" in text
    assert "/shared/seen-by-all-hosts" in text
    starts = [line for line in text.splitlines() if line.startswith("ssh ")]
    assert ["/shared/1-network/launch/launch.sh" in starts[0], len(starts)] == [True, 2]
    assert "NODE_COUNT=3" in starts[1]
    assert "/shared/2-across-nodes/launch/launch.sh" in starts[1]
    assert "# storage starts nothing on the nodes" in text


def test_a_dry_run_of_an_unknown_benchmark_is_refused(capsys):
    words = ["fleet", "bench", "-w", "n[1-3]", "--engine", "ssh", "--dry-run", "--only", "netwrk"]
    assert command_line(words) == 2
    assert "there is no benchmark 'netwrk'" in capsys.readouterr().err


def test_a_dry_run_of_one_node_is_refused(capsys):
    assert command_line(["fleet", "find-bad", "-w", "n1", "--engine", "exec", "--dry-run"]) == 2
    assert "fewer than two hosts" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "capture", "bench", "find-bad"])
def test_a_dry_run_is_text_and_never_passes_for_json(capsys, command):
    path = ["--rigtune", "/bin/true"] if command in ("check", "capture") else []
    words = ["fleet", command, "-w", "n[1-3]", "--engine", "exec", "--dry-run", "--format", "json"]
    assert command_line([*words, *path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--dry-run prints text only" in err


def test_a_file_that_cannot_be_written_does_not_cost_the_result(monkeypatch, capsys, tmp_path):
    """The folder of the file vanishes during the search."""
    output = tmp_path / "folder" / "hosts.json"
    output.parent.mkdir()

    def search(facts, options, stop, **more):
        output.parent.rmdir()
        output.parent.write_text("a file")
        bad = (HostFault(host="n2", kind="slow"),)
        yield StageFinished(stage="hosts", result=HostSearch(hosts=options.hosts, runs=1, bad_hosts=bad))

    monkeypatch.setattr("assistant.cli.find_hosts.find_bad_hosts", search)
    words = ["fleet", "find-bad", "-w", "n[1-3]", "--engine", "exec", "-q", "-o", str(output)]
    assert command_line(words) not in (0, 1)
    assert "n2: is slow" in capsys.readouterr().out


def test_bench_measures_over_the_nodes_of_the_pattern(monkeypatch, tmp_path):
    asked = {}

    def measure(facts, options, stop):
        asked.update(hosts=options.hosts, spread_by=options.spread_by, only=options.only, suite=options.suite)
        yield StageFinished(stage="measure", result=MeasurementSet())

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("assistant.cli.bench_command.measure_machine", measure)
    assert command_line(["fleet", "bench", "-w", "n[1-2]", "--engine", "exec", "-q"]) == 0
    assert asked == {
        "hosts": ("n1", "n2"),
        "spread_by": "exec",
        "only": ("network", "across-nodes"),
        "suite": "quick",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "kubernetes", "-w", "a,b"), "a folder that all nodes share"),
        (("--engine", "exec", "-w", "a,b", "--rack", "r7"), "is not NAME=NODES"),
        (("--engine", "telnet", "-w", "a,b"), "there is no engine"),
    ],
)
def test_wrong_arguments_are_refused(capsys, words, message):
    assert command_line(["fleet", "find-bad", *words]) == 2
    assert message in capsys.readouterr().err


TOPOLOGY = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n3
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=leaf[1-2]
"""


def test_switches_of_slurm_are_racks_unless_racks_are_named(monkeypatch, tmp_path):
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{TOPOLOGY}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    slurm, ssh = find_engine("slurm"), find_engine("ssh")
    assert _racks((), slurm) == {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2"}
    assert _racks((), ssh) == {}
    assert _racks(("r=n1",), slurm) == {"n1": "r"}
    program.write_text("#!/bin/sh\necho 'slurm_load_topo error' >&2; exit 1\n")
    assert _racks((), slurm) == {}
    with pytest.raises(UsageError, match="is not a set of nodes"):
        _racks(("r=n[1",), slurm)
