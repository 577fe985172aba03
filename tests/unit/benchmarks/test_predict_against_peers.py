"""Test the arithmetic of the comparison with other predictors (peers), and how a peer is started."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from tests.benchmarks import predict_against_peers as peers
from tests.benchmarks.peer_comparison import compare, compared

MEASURED = {
    "a": {"peak_mem_gib": "10", "step_time_s": "2", "oom": "false"},
    "b": {"peak_mem_gib": "20", "tokens_per_s_per_gpu": "100", "oom": "false"},
    "c": {"peak_mem_gib": "80", "oom": "true"},
    "d": {"peak_mem_gib": "10", "oom": "false"},
}
OURS = {
    "a": {"peak_mem_gib": 11.0, "step_time_s": 1.0, "tokens_per_s_per_gpu": 5.0, "fits": True},
    "b": {"peak_mem_gib": 18.0, "step_time_s": 3.0, "tokens_per_s_per_gpu": 110.0, "fits": False},
    "c": {"peak_mem_gib": 90.0, "fits": False},
}
THEIRS = {
    "a": {"peak_mem_gib": 5.0, "step_time_s": 3.0, "fits": True},
    "b": {"peak_mem_gib": 20.0, "fits": True},
    "c": {"peak_mem_gib": 40.0, "fits": True},
    "d": {"peak_mem_gib": 10.0, "fits": True},
}


def test_only_cases_that_both_answer_are_compared() -> None:
    by_measure = {row.measure: row for row in compare(MEASURED, OURS, THEIRS)}
    assert {name: row.cases for name, row in by_measure.items()} == {
        "memory, median": 2,
        "memory, p90": 2,
        "speed, median": 1,
        "speed, p90": 1,
        "ran, said not to fit": 2,
        "out of memory, said to fit": 1,
    }
    memory = by_measure["memory, median"]
    assert (memory.ours, memory.theirs) == (pytest.approx(0.1), pytest.approx(0.25))
    assert memory.ratio == pytest.approx(2.5)
    assert not memory.behind


def test_a_measure_on_which_the_peer_is_ahead_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    by_measure = {row.measure: row for row in compare(MEASURED, OURS, THEIRS)}
    ran, oom = by_measure["ran, said not to fit"], by_measure["out of memory, said to fit"]
    assert (ran.ours, ran.theirs, ran.ratio, ran.behind) == (0.5, 0.0, 0.0, True)
    assert (oom.ours, oom.theirs, oom.ratio, oom.behind) == (0.0, 1.0, math.inf, False)
    peers.show("peer", [ran, oom])
    lines = capsys.readouterr().out.splitlines()
    assert ["ahead" in line for line in lines] == [True, False]


def test_the_percentile_is_the_scorers() -> None:
    pairs = [(index / 100, 0.5) for index in range(1, 12)]
    median, high = compared("memory", pairs)
    assert (median.ours, high.ours) == (pytest.approx(0.06), pytest.approx(0.10))


def test_a_peer_is_asked_in_its_own_interpreter(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text(
        f"""import sys
sys.path.insert(0, {str(peers.ADAPTERS)!r})
from lines import need, serve
print("noise at import")
def answer(question):
    print("noise")
    need(holds=question["tp"] == 1, otherwise="tensor parallelism")
    return {{"peak_mem_gib": 1 / question["size"]}}
serve(answer, "1.0")
"""
    )
    questions = [
        {"id": "a", "tp": 1, "size": 2},
        {"id": "b", "tp": 2, "size": 2},
        {"id": "c", "tp": 1, "size": 0},
    ]
    version, answers = peers.ask(sys.executable, str(adapter), questions, 60)
    assert version == "1.0"
    assert answers == {
        "a": {"peak_mem_gib": 0.5},
        "b": {"cannot": "tensor parallelism"},
        "c": {"cannot": "raises ZeroDivisionError"},
    }


@pytest.mark.parametrize(
    ("code", "reason"),
    [(f"raise SystemExit({peers.NOT_INSTALLED})", "not installed"), ("raise SystemExit(1)", "status 1")],
)
def test_a_peer_that_does_not_answer_is_named(tmp_path: Path, code: str, reason: str) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text(code)
    with pytest.raises(LookupError, match=reason):
        peers.ask(sys.executable, str(adapter), [{"id": "a"}], 60)
