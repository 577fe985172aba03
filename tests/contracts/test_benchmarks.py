"""Test that every benchmark has a worker module, and that rigtune's and the worker's tables agree."""

from __future__ import annotations

import ast
from pathlib import Path

import probes
from probes.bench.benchmark_table import BENCHMARKS

WORKER = Path(probes.__file__ or "").parent / "workers" / "rigtune_worker"


def test_the_worker_has_a_row_for_every_benchmark() -> None:
    tree = ast.parse((WORKER / "__main__.py").read_text())
    tables = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["BENCHES"]
    ]
    assert tables == [tuple(row.id for row in BENCHMARKS)]


def test_every_benchmark_has_its_worker_module() -> None:
    there = {path.stem for path in (WORKER / "bench").glob("*.py")} - {"__init__"}
    assert there >= {row.id.replace("-", "_") for row in BENCHMARKS}
