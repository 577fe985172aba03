"""Compare all facts of recorded and pasted machines. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew.

Other tests of the collectors compare single facts; here no other fact may change unnoticed, such as one that
must stay unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import tests
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.sources.base import Source
from probes.sources.choose import open_source
from probes.sources.loose import open_loose
from tests.unit.probes.parsers.test_parsed_texts import all_texts, plain

FOLDER = Path(tests.__path__[0])
TEXTS = dict(all_texts())


def recorded(name: str) -> Source:
    return open_source((FOLDER / "machines" / name / "recording.json",))


def pasted(*names: str) -> Source:
    return open_loose([(f"{name}.txt", TEXTS[name].encode()) for name in names])


SOURCES: dict[str, Callable[[], Source]] = {
    "cpu-vm": lambda: recorded("cpu-vm"),
    "h100-dead-link": lambda: recorded("h100-dead-link"),
    "pasted-gpus": lambda: pasted(
        "nvsmi_texts-report", "topo_matrix-full", "link_texts-manager", "lspci-verbose"
    ),
    "pasted-table": lambda: pasted("nvsmi_texts-table", "nvsmi_texts-list", "nvsmi_texts-csv", "kernel-log"),
    "pasted-ports": lambda: pasted(
        "rdma_tools-ibstat", "rdma_tools-devinfo", "rdma_tools-gids", "mlxlink-infiniband", "rdma_tools-rdma"
    ),
    "pasted-fabric": lambda: pasted("fabric_texts-linkinfo", "fabric_texts-switch", "port-info"),
    "pasted-host": lambda: pasted("lscpu-text", "numactl-text", "dmidecode-text", "ipmi-elist", "pci-values"),
    "pasted-topology": lambda: pasted("hwloc_xml-node", "nccl_topology-dump", "nccl_topology-graph"),
    "pasted-tools": lambda: pasted(
        "tool_texts-nvbandwidth", "tool_texts-nccl", "tool_texts-perftest", "tool_texts-dcgm"
    ),
}


def test_facts_do_not_depend_on_the_order_in_which_collectors_end() -> None:
    source = SOURCES["pasted-topology"]()
    results = list(gather(source, CollectOptions()))
    facts = assemble(source.title, results)
    assert len(facts.contradictions) > 1
    assert assemble(source.title, results[::-1]) == facts


@pytest.mark.parametrize(
    ("name", "tier"),
    [*((name, "deep") for name in SOURCES), ("cpu-vm", "quick"), ("h100-dead-link", "quick")],
)
def test_no_fact_changes_unnoticed(name: str, tier: str) -> None:
    source = SOURCES[name]()
    facts = assemble(source.title, gather(source, CollectOptions(deep=tier == "deep")))
    values = plain(facts)
    assert isinstance(values, dict)
    lines = []
    for field, value in values.items():
        rows = value if isinstance(value, list) else [value]
        lines += [f"{field}: {json.dumps(msgspec.to_builtins(row), ensure_ascii=False)}\n" for row in rows]
    file = FOLDER / "golden" / "facts" / f"{name}-{tier}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text("".join(lines), "utf-8")
    assert file.read_text("utf-8") == "".join(lines)
