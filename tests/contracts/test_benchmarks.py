"""A benchmark is two files and two rows: the registry and the worker's own table must agree."""

from __future__ import annotations

import ast
from pathlib import Path

import probes
from probes.registry import BENCHMARKS

WORKER = Path(probes.__file__ or "").parent / "workers" / "rigtune_worker"


def test_the_worker_has_a_row_for_every_benchmark() -> None:
    tree = ast.parse((WORKER / "__main__.py").read_text())
    tables = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["BENCHES"]
    ]
    assert isinstance(tables[0], ast.Dict)
    assert [ast.literal_eval(key) for key in tables[0].keys if key is not None] == [row.id for row in BENCHMARKS]
