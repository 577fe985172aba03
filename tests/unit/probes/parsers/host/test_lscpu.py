"""Outputs of lscpu as text and JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import NOT_RECORDED
from probes.parsers.host.lscpu import parse_cpu, parse_numa_nodes, recognise
from tests.support.damage import damaged

TEXT = """\
Architecture:             x86_64
  CPU op-mode(s):         32-bit, 64-bit
CPU(s):                   8
  On-line CPU(s) list:    0-5
Vendor ID:                GenuineIntel
  Model name:             Some CPU
    Thread(s) per core:   1
    Core(s) per socket:   3
    Socket(s):            2
    CPU max MHz:          3800.0000
    Flags:                fpu avx2 avx512f amx_bf16 sse
NUMA:
  NUMA node(s):           3
  NUMA node0 CPU(s):      0-2
  NUMA node8 CPU(s):      3-5
  NUMA node255 CPU(s):
"""
JSON = """{"lscpu": [{"field": "Architecture:", "data": "aarch64", "children": []},
 {"field": "CPU(s):", "data": "4", "children": [{"field": "On-line CPU(s) list:", "data": "0-3"}]},
 {"field": "NUMA:", "data": null, "children": [{"field": "NUMA node0 CPU(s):", "data": "0-3"}]}]}"""


def test_text() -> None:
    cpu = parse_cpu(TEXT)
    assert (cpu.model, cpu.sockets, cpu.physical_cores, cpu.logical_cpus, cpu.threads_per_core) == (
        "Some CPU",
        2,
        6,
        6,
        1,
    )
    assert (cpu.flags, cpu.max_mhz, cpu.virtualization_flag) == (
        ("avx2", "avx512f", "amx_bf16"),
        3800.0,
        NOT_RECORDED,
    )
    assert [(node.index, node.cpus) for node in parse_numa_nodes(TEXT)] == [(0, "0-2"), (8, "3-5"), (255, "")]


def test_json() -> None:
    assert recognise(JSON)
    assert (parse_cpu(JSON).architecture, parse_cpu(JSON).logical_cpus) == ("aarch64", 4)
    assert [(node.index, node.cpus) for node in parse_numa_nodes(JSON)] == [(0, "0-3")]


@pytest.mark.parametrize(
    ("text", "is_kind"), [(TEXT, True), ("", False), ("cpu: 3", False), ('{"a": 1}', False)]
)
def test_recognised(text: str, is_kind: bool) -> None:
    assert recognise(text) is is_kind


@given(st.one_of(st.text(max_size=200), damaged(TEXT), damaged(JSON)))
def test_damage_raises_nothing(text: str) -> None:
    recognise(text)
    parse_cpu(text)
    assert all(str(node.index) in text for node in parse_numa_nodes(text) if node.index)
