"""The Ray engine, driven through a stand-in for Ray that runs its tasks here."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tracemalloc

import pytest

from assistant.engines import ray_engine, ray_tasks
from assistant.engines.engine_table import Wanted, choose_engine
from assistant.engines.shipping import Archive, Shipment
from probes.base.errors import UsageError, WorkerError
from probes.fleet.node_report import NodeEnd, NodeLine

pytest.importorskip("ClusterShell")

RAY = """
import os, sys, types
class RayError(Exception): pass
class TaskUnschedulableError(RayError): pass
exceptions = types.SimpleNamespace(RayError=RayError, TaskUnschedulableError=TaskUnschedulableError)
def init(address, **options):
    print("noise of Ray")
    if address == "nowhere":
        raise ConnectionError("no cluster at nowhere")
def nodes():
    hosts = [("g1", "11111111aa", True), ("g1", "22222222bb", True), ("g2", "3", True), ("g3", "4", True)]
    hosts += [("g4", "5", True), ("g5", "6", False)]
    return [{"NodeManagerHostname": name, "NodeID": id, "Alive": is_alive} for name, id, is_alive in hosts]
def put(data): return data
class remote:
    def __init__(self, work): self.work = work
    def options(self, num_cpus, max_retries, scheduling_strategy):
        assert (num_cpus, max_retries, scheduling_strategy.soft) == (0, 0, False)
        self.node = scheduling_strategy.node_id
        return self
    def remote(self, *arguments): return (self.work, self.node, arguments)
def wait(pending, num_returns, timeout):
    with open(os.path.join(os.path.dirname(__file__), "waits"), "a") as file:
        file.write(f"{timeout}\\n")
    ready = [each for each in pending if each[1] != "4"]
    return ready[:1], []
def get(reference):
    work, node, arguments = reference
    if node == "3": raise RayError("node died\\nmore")
    if node == "5": raise TaskUnschedulableError()
    os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", NODE=node)
    return work(*arguments)
def cancel(reference, force): pass
def shutdown(): pass
"""
STRATEGY = """
class NodeAffinitySchedulingStrategy:
    def __init__(self, node_id, soft): self.node_id, self.soft = node_id, soft
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path, monkeypatch):
    (tmp_path / "ray" / "util").mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").write_text(RAY)
    (tmp_path / "ray" / "util" / "__init__.py").write_text("")
    (tmp_path / "ray" / "util" / "scheduling_strategies.py").write_text(STRATEGY)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("RIGTUNE_RAY_PYTHON", str(python))
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")


def test_each_node_runs_one_task_and_has_one_outcome(tmp_path):
    names = ray_engine.nodes("")
    assert names == ("g1-11111111", "g1-22222222", "g2", "g3", "g4")
    script = "import json, os, sys; print('noise'); print('@rigtune', json.dumps(dict(os.environ))); "
    script += "sys.stderr.write('last words'); sys.exit(int(os.environ['NODE'].startswith('2')))"
    events: list[NodeLine | NodeEnd] = []
    command = (sys.executable, "-c", script)
    ray_engine.run(Wanted((*names, "g5"), command, 0.1), events.append)
    ends = {event.node: event for event in events if isinstance(event, NodeEnd)}
    lines = {event.node: json.loads(event.text) for event in events if isinstance(event, NodeLine)}
    assert {node: end.outcome for node, end in ends.items()} == {
        "g1-11111111": "ok",
        "g1-22222222": "exit",
        "g2": "no-answer",
        "g3": "no-answer",
        "g4": "not-started",
        "g5": "not-started",
    }
    assert "RayError: node died" in ends["g2"].detail
    assert ends["g1-22222222"].detail == "last words"
    assert "no alive node" in ends["g5"].detail
    assert set(lines) == {"g1-11111111", "g1-22222222"}
    assert not {"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"} & lines["g1-11111111"].keys()
    # Ray needs time to start its workers, beside the time limit of the command.
    assert float((tmp_path / "ray" / "waits").read_text().split()[0]) > ray_tasks.STARTS_WITHIN_S / 2


def test_an_archive_travels_with_the_task(tmp_path, monkeypatch):
    content = b"print('@rigtune', '{}')"
    (tmp_path / "a.pyz").write_bytes(content)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / f"python{version}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    archive = Archive(
        tmp_path / "a.pyz", version, hashlib.sha256(content).hexdigest(), len(content), platform.machine()
    )
    ship = Shipment((archive,), "rigtune 9", (str(tmp_path),))
    events: list[NodeLine | NodeEnd] = []
    ray_engine.run(Wanted(("g1-11111111",), ("/nowhere/rigtune",), 30, {}, ship), events.append)
    assert events == [NodeLine("g1-11111111", b"{}"), NodeEnd("g1-11111111", "ok", 0)]


@pytest.mark.parametrize(("address", "words"), [("nowhere", "no cluster at nowhere"), ("local", "new Ray")])
def test_a_cluster_that_is_not_up_is_never_started(monkeypatch, address, words):
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(WorkerError, match=words):
        ray_engine.nodes("")


def test_the_interpreter_of_ray_is_the_one_beside_its_program(tmp_path, monkeypatch):
    monkeypatch.delenv("RIGTUNE_RAY_PYTHON")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="no Python interpreter with Ray"):
        ray_engine.plan(Wanted(("g1",), ("true",), 1))
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ray", "python3"):
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert ray_engine.plan(Wanted(("g1",), ("true",), 1)).startswith(f"{folder}/python3 ")


def test_ray_is_chosen_where_a_cluster_answers(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    assert choose_engine(None, has_pattern=True, environment={"RAY_ADDRESS": "auto"})[0].id == "ray"
    for code, engine in ((0, "ray"), (1, "ssh")):
        (folder / "ray").write_text(f"#!/bin/sh\nexit {code}\n")
        (folder / "ray").chmod(0o755)
        row, reason = choose_engine(None, has_pattern=True, environment={})
        assert row.id == engine
        assert ("`ray status` answers" in reason) is (engine == "ray")


def test_garbage_of_a_program_does_not_fill_the_memory_of_its_task():
    line = "head -c 64000000 /dev/zero; echo; echo '@rigtune {}'; echo no driver >&2; printf '@rigtune half'"
    tracemalloc.start()
    answer = ray_tasks.work(f"{line}; exit 3", None, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer == (["{}"], len("@rigtune {}"), 3, "no driver")
    assert peak < 8 << 20
    cut = ray_tasks.work("printf '@rigtune '; head -c 2000000 /dev/zero; echo", None, 1 << 20)
    assert cut[0] == []
    assert cut[1] > 1 << 20, "the caller reports a record that was cut off"
    *_, last_line = ray_tasks.work("head -c 9000 /dev/zero | tr '\\0' x >&2", None, 1 << 20)
    assert last_line == "x" * 2000
