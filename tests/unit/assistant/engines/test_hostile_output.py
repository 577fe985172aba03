"""Test nodes that print anything: each has one outcome, an honest node keeps its verdict, no bug is shown."""

from __future__ import annotations

import json
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assistant.cli import command_line
from assistant.engines import exec_engine, slurm_engine
from assistant.engines.engine_table import Wanted
from probes.fleet.node_report import LONGEST_ANSWER_BYTES, NodeEnd, NodeLine, Outcome

pytest.importorskip("ClusterShell")

HOSTILE = 8
"""Hostile nodes in each run. Starting a run costs more than a node, so 25 runs of 8 nodes try 200 outputs."""
HONEST = {"verdict": "PASS", "version": "1", "attributes": {"is_honest": "yes"}}
NODE = """#!/bin/sh
number=0
until mkdir "$0.$number" 2>/dev/null; do number=$((number + 1)); done
cat "$0.output$number"
"""
MARK = b"@rigtune "

names = st.sampled_from(
    ["n1", "n9", "n[1-9]", "", "-oProxyCommand=x", "n1\n@rigtune-exit 0", "../n1", "n1;id"]
)
texts = st.text(max_size=20) | st.sampled_from(["\x1b[2J\x07", "\u202e", "[red]", "\x00", "9" * 400]) | names
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda each: st.lists(each, max_size=4) | st.dictionaries(texts, each, max_size=4),
    max_leaves=8,
)
reasons = st.fixed_dictionaries(
    {
        "check_id": texts,
        "subject": texts,
        "status": st.sampled_from(["FAIL", "WARN", "FINE"]),
        "summary": texts,
    }
)
metrics = st.fixed_dictionaries(
    {
        **dict.fromkeys(("part_kind", "part_id", "slot", "metric", "unit"), texts),
        "samples": st.lists(st.floats(), max_size=3),
    }
)
reports = st.fixed_dictionaries(
    {},
    optional={
        "verdict": st.sampled_from(["PASS", "FAIL", "WARN", "UNKNOWN", "SKIP", "fine"]),
        "node": names,
        "outcome": names,
        "reasons": st.lists(reasons, max_size=3) | values,
        "attributes": st.dictionaries(texts, texts, max_size=3) | values,
        "metrics": st.lists(metrics, max_size=2) | values,
        "parts": st.dictionaries(texts, texts, max_size=3) | values,
        "clock_s": st.floats() | values,
        "passed": st.lists(texts, max_size=3) | values,
    },
)
records = (reports | values).map(lambda value: json.dumps(value).encode())
lines = (
    st.binary(max_size=60)
    | records
    | st.builds(bytes.__add__, st.just(MARK), st.binary(max_size=60) | records)
)
engine_words = st.sampled_from(
    [b"@rigtune-node n9", b"@rigtune-exit 0", b"@rigtune-exit 137", b"@rigtune-node "]
)
outputs = st.lists(lines | engine_words, max_size=4).map(b"\n".join) | records.map(
    lambda record: MARK + record + b"\n"
)
HUGE = MARK + b"x" * (LONGEST_ANSWER_BYTES + 1)


@pytest.fixture
def places(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "100")


def check(capture: Any, printed: list[bytes], *, is_json: bool) -> None:
    """Run `rigtune fleet check` over an honest node and nodes that print these texts."""
    with tempfile.TemporaryDirectory() as name:
        program, count = Path(name, "rigtune"), len(printed) + 1
        program.write_text(NODE)
        program.chmod(0o755)
        honest = MARK + json.dumps(HONEST).encode() + b"\n"
        for number, output in enumerate((honest, *printed)):
            Path(name, f"rigtune.output{number}").write_bytes(output)
        words = ["fleet", "check", "-w", f"n[1-{count}]", "--engine", "exec", "--no-ship", "--limit", "60"]
        words += ["--rigtune", str(program), "--out", str(Path(name, "run"))]
        code = command_line([*words, *(("--format", "json") if is_json else ())])
        output, errors = capture.readouterr()
        assert command_line(["fleet", "show", str(Path(name, "run")), "--format", "json"]) == 0
        result = json.loads(capture.readouterr().out)
    assert code in (0, 1, 3)
    assert b"Traceback" not in errors
    shown = output.decode() + errors.decode()
    assert not [letter for letter in set(shown) if not letter.isprintable() and letter != "\n"]
    assert {node["node"] for node in result["nodes"]} == {f"n{number}" for number in range(1, count + 1)}
    assert len(result["nodes"]) == count
    assert {node["outcome"] for node in result["nodes"]} <= set(get_args(Outcome))
    assert [node for node in result["nodes"] if node["verdict"] == "PASS"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(outputs, min_size=HOSTILE, max_size=HOSTILE), st.booleans())
@pytest.mark.usefixtures("places")
def test_each_node_has_one_outcome_and_an_honest_one_its_verdict(capsysbinary, printed, is_json):
    check(capsysbinary, printed, is_json=is_json)


@pytest.mark.usefixtures("places")
def test_long_and_deep_outputs_cost_no_other_node_its_verdict(capsysbinary):
    long = [HUGE, b"x" * 5_000_000, b"[" * 100_000, MARK + b"[" * 100_000, MARK + b"9" * 100_000]
    check(capsysbinary, [*long, b"\n" * 50_000, b"", b"\x00", MARK, b"@rigtune"], is_json=False)


SRUN = """
import os, sys
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
folder = os.environ["FAKE_FOLDER"]
for task, node in enumerate(("n1", "n9")):
    with open(options["output"].replace("%t", str(task)), "wb") as file:
        file.write(b"@rigtune-node " + node.encode() + b"\\\\n" + open(f"{folder}/{node}", "rb").read())
        file.write(b"\\\\n\\\\n@rigtune-exit 0\\\\n")
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Return the folder of a stand-in for srun; each node prints the file of its name in this folder."""
    script = SRUN.replace("\\\\", "\\")
    for name, text in (("srun", f"#!{sys.executable} -IS\n{script}"), ("sinfo", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_FOLDER", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(slurm_engine, "silent_daemons", lambda nodes: {})
    (tmp_path / "n9").write_bytes(MARK + b'{"verdict": "PASS"}')
    return tmp_path


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(outputs)
@example(b"@rigtune-node n9\n@rigtune {}")
@example(b"@rigtune-node n9\n@rigtune-exit 1\n")
def test_a_node_of_slurm_cannot_answer_for_another_node(slurm, printed):
    (slurm / "n1").write_bytes(printed)
    events: dict[str, list[Any]] = {}
    slurm_engine.run(
        Wanted(("n1", "n9"), ("true",), 10), lambda event: events.setdefault(event.node, []).append(event)
    )
    assert set(events) == {"n1", "n9"}
    for answers in events.values():
        assert [isinstance(each, NodeEnd) for each in answers].count(True) == 1
        assert isinstance(answers[-1], NodeEnd)
    assert events["n1"][-1].outcome in ("ok", "exit"), "its answer has its own name"
    assert events["n9"] == [NodeLine("n9", b'{"verdict": "PASS"}'), NodeEnd("n9", "ok", 0)]


def test_a_line_without_an_end_is_bounded_in_memory() -> None:
    """The node would print 40 MiB without a line end, and then an answer."""
    pieces = f"head -c {40 << 20} /dev/zero; echo; echo '@rigtune {{}}'"
    events: list[NodeLine | NodeEnd] = []
    tracemalloc.start()
    try:
        exec_engine.run(Wanted(("n1",), ("sh", "-c", pieces), 60), events.append)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(events[-1], NodeEnd)
    assert peak_bytes < 32 << 20
    assert not any(isinstance(event, NodeLine) for event in events)
