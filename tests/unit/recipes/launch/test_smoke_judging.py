"""Test the judgement of a launch: each failure is found, and an assertion without a record is never PASS."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.judging.findings import Status
from probes.logs.readers.nccl_transport_lines import transport_names
from probes.workers.rigtune_worker.transport_log import transport_lines
from recipes.launch.verifying.smoke_judging import assertions, judge_smoke
from recipes.launch.verifying.smoke_report import read_smoke_report
from tests.support.clusters import h100_cluster

NONCE = 4711
P2P = "via P2P/CUMEM/read\nNVLS comm 0x7f headRank 0 nHeads 8"
IB = "[send] via NET/IB/3(5)/GDRDMA"
SOCKET = "[send] via NET/Socket/0"
SHM = "via SHM/direct/direct"


def records(nodes=2, ranks_per_node=2, log="", nonce=NONCE, **changes):
    """Return the records of a sound world."""
    world = nodes * ranks_per_node
    return [
        {
            "event": "rank",
            "rank": rank,
            "world_size": world,
            "local_rank": rank % ranks_per_node,
            "local_world_size": ranks_per_node,
            "host": f"node{rank // ranks_per_node}",
            "backend": "nccl",
            "device": "cuda:0",
            "device_id": f"GPU-{rank}",
            "rank_sum": world * (world + 1) / 2,
            "nonce_sum": nonce * world,
            "one_sum": world,
            "nccl_log": log,
            **changes,
        }
        for rank in range(world)
    ]


def report_of(*lines, done=True):
    end = [{"event": "done"}] if done else []
    return read_smoke_report(["\n".join(map(json.dumps, [*lines, *end])).encode()])


@pytest.fixture
def recipe(make_recipe):
    """Return a recipe for two nodes of two GPUs with NVLink and InfiniBand."""
    machine = msgspec.structs.replace(h100_cluster(2, 2), fabric="nvswitch", transport="infiniband")
    return make_recipe(nodes=2, resources={"device": "cuda", "backend": "nccl"}, machine=machine)


def judged(recipe, *lines, nonce=NONCE, ended=""):
    report = report_of(*lines)
    used = transport_names("\n".join(each.nccl_log for each in report.ranks))
    return {each.check_id: each for each in judge_smoke(recipe, report, nonce, used=used, ended=ended)}


def test_a_sound_launch_passes_every_assertion(recipe):
    findings = judged(recipe, *records(log=f"{P2P}\n{IB}"))
    assert len(findings) == len(assertions(recipe)) == 7
    assert {finding.status for finding in findings.values()} == {Status.PASS}


FAULTS = {
    "a smaller world": (records(nodes=1, log=P2P), "verify-world", "world size 2"),
    "one process": (records(1, 1, log=P2P) * 4, "verify-world", "4 worlds of one rank"),
    "a rank twice": (
        [*records()[:3], records()[2]],
        "verify-ranks",
        "missing 3; several processes with rank 2",
    ),
    "a missing rank": (records()[:3], "verify-ranks", "missing 3"),
    "more ranks than planned": (records(nodes=3), "verify-ranks", "unplanned 4-5"),
    "one GPU for two ranks": (records(device_id="GPU-0"), "verify-ranks", "node0: 2 ranks on one GPU"),
    "one host": (records(host="node0"), "verify-hosts", "ranks per host: node0 4"),
    "another backend": (
        records(backend="gloo", backend_reason="torch on node1 can use no GPU"),
        "verify-backend",
        "gloo; torch on node1 can use no GPU",
    ),
    "foreign ranks": (records(nonce_sum=NONCE * 3 + 99), "verify-all-reduce", "some with another number"),
    "a wrong sum": (records(rank_sum=9.0), "verify-all-reduce", "rank 0: 9, world size 4"),
    "sockets between nodes": (records(log=f"{P2P}\n{SOCKET}"), "verify-transport-between", "NET/Socket"),
    "shared memory in a node": (records(log=f"{SHM}\n{IB}"), "verify-transport-within", "SHM/direct"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_a_finding_with_a_remedy(recipe, name):
    lines, check_id, observed = FAULTS[name]
    finding = judged(recipe, *lines)[check_id]
    assert finding.status is Status.FAIL
    assert observed in finding.observed
    assert finding.expected
    assert finding.remedy.text


def test_the_remedy_against_unplanned_ranks_does_not_name_missing_ranks(recipe):
    finding = judged(recipe, *records(nodes=3))["verify-ranks"]
    assert "missing" not in finding.remedy.text
    assert "change its size" in finding.remedy.text


def test_the_remedy_against_foreign_ranks_is_another_port(recipe):
    finding = judged(recipe, *records(nonce_sum=7.0))["verify-all-reduce"]
    assert "ranks of another run" in finding.summary
    assert "MASTER_PORT" in finding.remedy.text


@pytest.mark.parametrize(
    ("kind", "check_id", "words"),
    [
        ("missing_ranks", "verify-ranks", "missing: 2-3"),
        ("foreign_world", "verify-all-reduce", "it failed"),
        ("rank_twice", "verify-ranks", "it failed"),
        ("port_in_use", "verify-world", "it failed"),
        ("hang", "verify-all-reduce", "it failed"),
        ("a new kind", "verify-world", "it failed"),
    ],
)
def test_a_failed_rank_refutes_one_assertion_and_leaves_the_others_unknown(recipe, kind, check_id, words):
    failure = {
        "event": "failed",
        "kind": kind,
        "message": "it failed",
        "rank": 1,
        "host": "node0",
        "joined": [0],
    }
    findings = judged(
        recipe, {**failure, "master": "10.0.0.1:29500"}, ended="the launch ended with exit code 1"
    )
    assert findings[check_id].status is Status.FAIL
    assert words in findings[check_id].summary
    others = [finding for name, finding in findings.items() if name != check_id]
    assert len(others) == 6
    assert {finding.status for finding in others} == {Status.UNKNOWN}
    assert all("exit code 1" in finding.observed for finding in others)


def test_a_launch_without_a_report_fails(recipe):
    finding = judged(recipe, ended="")["verify-world"]
    assert (finding.status, finding.summary) == (Status.FAIL, "no rank reported")


@pytest.mark.parametrize(
    ("machine", "log", "check_id", "status"),
    [
        (None, f"{P2P}\n{IB}", "verify-transport-between", Status.UNKNOWN),
        (None, f"{P2P}\n{IB}", "verify-transport-within", Status.UNKNOWN),
        ({"transport": "infiniband", "fabric": "nvlink"}, "", "verify-transport-between", Status.UNKNOWN),
        ({"transport": "infiniband", "fabric": "nvlink"}, "", "verify-transport-within", Status.UNKNOWN),
        (
            {"transport": "ethernet", "fabric": "pcie"},
            f"{SHM}\n{SOCKET}",
            "verify-transport-between",
            Status.PASS,
        ),
        (
            {"transport": "ethernet", "fabric": "pcie"},
            f"{SHM}\n{SOCKET}",
            "verify-transport-within",
            Status.PASS,
        ),
        (
            {"transport": "efa", "fabric": "nvlink"},
            "via NET/Libfabric/0/GDRDMA",
            "verify-transport-between",
            Status.PASS,
        ),
    ],
)
def test_a_transport_is_judged_by_the_network_of_the_plan(recipe, machine, log, check_id, status):
    cluster = None if machine is None else msgspec.structs.replace(recipe.machine, **machine)
    changed = msgspec.structs.replace(recipe, machine=cluster)
    assert judged(changed, *records(log=log))[check_id].status is status


@pytest.mark.parametrize(
    ("log", "summary"), [(IB, "faster than the planned TCP"), (SOCKET, "ethernet: NET/")]
)
def test_a_plan_for_ethernet_is_met_by_sockets_and_exceeded_by_rdma(recipe, log, summary):
    cluster = msgspec.structs.replace(recipe.machine, transport="ethernet")
    changed = msgspec.structs.replace(recipe, machine=cluster)
    assert judged(changed, *records(log=log))["verify-transport-between"].summary.startswith(summary)


@pytest.mark.parametrize(
    ("nodes", "per_node", "transports"),
    [
        (2, 1, {"verify-transport-between"}),
        (1, 2, {"verify-transport-within"}),
        (2, 2, {"verify-transport-between", "verify-transport-within"}),
        (1, 1, set()),
    ],
)
@pytest.mark.parametrize("is_reported", [True, False])
def test_only_transports_that_the_layout_has_are_judged(
    make_recipe, nodes, per_node, transports, is_reported
):
    recipe = make_recipe(
        nodes=nodes,
        ranks_per_node=per_node,
        resources={"device": "cuda", "backend": "nccl"},
        machine=h100_cluster(nodes, per_node),
    )
    findings = judged(recipe, *(records(nodes, per_node, log=f"{P2P}\n{IB}") if is_reported else ()))
    assert {name for name in findings if "transport" in name} == transports
    assert sum("transport" in sentence for sentence in assertions(recipe)) == len(transports)


NCCL_LOGS = {
    "a plan for InfiniBand that runs over TCP": (
        "n1:7:9 [0] NCCL INFO NET/IB : No device found.\n"
        "n1:7:9 [0] NCCL INFO Using network Socket\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n",
        {"verify-transport-between": Status.FAIL, "verify-transport-within": Status.PASS},
    ),
    "NVLink that is switched off": (
        "n1:7:9 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\n"
        "n1:7:9 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
        "n1:7:9 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0(1)/GDRDMA\n",
        {"verify-transport-between": Status.PASS, "verify-transport-within": Status.FAIL},
    ),
}


@pytest.mark.parametrize("name", NCCL_LOGS)
def test_a_wrong_transport_is_found_from_the_log_of_nccl(recipe, tmp_path, name):
    log, wanted = NCCL_LOGS[name]
    (tmp_path / "nccl.n1.7").write_text(log)
    logged = transport_lines(str(tmp_path / "nccl.%h.%p"), 7)
    findings = judged(recipe, *records(log=logged))
    assert {check_id: findings[check_id].status for check_id in wanted} == wanted


def test_gloo_has_no_finding_about_transports(make_recipe):
    plain = make_recipe(ranks_per_node=2)
    findings = judged(plain, *records(1, 2, backend="gloo", device_id=""))
    assert [*findings] == [
        "verify-world",
        "verify-ranks",
        "verify-hosts",
        "verify-backend",
        "verify-all-reduce",
    ]


def test_transports_are_those_of_all_ranks():
    assert transport_names(f"{P2P}\n{IB}\n{P2P}") == ("NET/IB/GDRDMA", "NVLS", "P2P/CUMEM")
    assert transport_names(f"{SHM}\n{SOCKET}\nvia nothing\n") == ("NET/Socket", "SHM/direct")


def test_the_wrong_line_of_a_truncated_report_is_quoted():
    text = "\n".join(map(json.dumps, records()))
    report = read_smoke_report([text[:-20].encode()])
    assert len(report.ranks) == 3
    assert "line 4" in report.problems[0]


def test_a_report_that_cannot_be_read_is_named_in_the_finding(recipe):
    report = read_smoke_report([], ["cannot read smoke.jsonl: permission denied"])
    finding = {each.check_id: each for each in judge_smoke(recipe, report, NONCE, ended="")}["verify-world"]
    assert finding.observed == "cannot read smoke.jsonl: permission denied"


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(0, 600))
def test_a_hostile_report_never_raises(parts, cut):
    sound = "\n".join(map(json.dumps, records())).encode()
    report = read_smoke_report([*parts, sound[:cut], b'{"event": "rank", "rank": 1e999}', b"[" * 5000])
    assert len(report.problems) <= 3
    assert all(0 <= each.rank < 4 for each in report.ranks)
