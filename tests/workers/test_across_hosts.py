"""Test ranks that communicate as they do over several hosts, all on this machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading

import pytest

from probes.base.record import to_json
from probes.bench.across_nodes import pairs_request
from probes.bench.bench_requests import parse_worker_lines
from probes.workers.rigtune_worker import multi_host
from probes.workers.rigtune_worker.bench import network
from tests.support.bench_answers import BENCHES, bench_context, requests

LIMIT_S = 180
HOSTS = ("first", "second")


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def ranks(torch_python, environment, free_port, tmp_path):
    """Return a function that measures a request with one process per rank, as launchers start them."""

    def run(request):
        (tmp_path / "request.json").write_bytes(to_json(request))
        program = (
            "-m",
            "rigtune_worker.multi_host",
            "--limit-s",
            str(LIMIT_S),
            "--hosts",
            ",".join(request.hosts),
            "--",
        )
        bench = (request.bench_id, "--request", str(tmp_path / "request.json"), "--out", str(tmp_path))
        place = {
            "WORLD_SIZE": str(request.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port),
            "LOCAL_RANK": "0",
        }
        inherited = {name: value for name, value in environment.items() if not name.endswith("SOCKET_IFNAME")}
        processes = [
            subprocess.Popen((torch_python, *program, *bench), env={**inherited, **place, "RANK": str(rank)})
            for rank in range(request.ranks)
        ]
        try:
            codes = [process.wait(LIMIT_S) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        lines = {
            rank: parse_worker_lines((tmp_path / f"rank{rank}.jsonl").read_bytes())
            for rank in range(request.ranks)
        }
        assert codes == [0] * request.ranks, lines
        return BENCHES[request.bench_id].interpret(request, lines)

    return run


def test_tcp_between_two(ranks):
    (request,) = requests("network", hosts=HOSTS)
    measurements = ranks(request)
    subjects = {(m.subject, m.parameters["streams"]) for m in measurements}
    assert subjects == {(way, streams) for way in ("first->second", "second->first") for streams in (1, 8)}
    assert all(min(m.samples) > 1e6 for m in measurements)


def test_pairs_and_hosts(ranks):
    context = bench_context(ranks=1, hosts=HOSTS)
    measurements = ranks(pairs_request(context, HOSTS))
    assert {m.subject for m in measurements} == {"first->second", "second->first", "first", "second"}
    assert all(min(m.samples) > 1e6 for m in measurements)


def test_tcp_by_hand(torch_python, environment, free_port):
    program = (torch_python, "-m", "rigtune_worker.bench.network")
    with subprocess.Popen(
        (*program, "--serve", str(free_port)), env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        connect = (*program, "--connect", f"127.0.0.1:{free_port}", "--seconds", "1.5")
        while subprocess.run(
            connect, env=environment, timeout=LIMIT_S, capture_output=True, check=False
        ).returncode:
            assert server.poll() is None
        report = json.loads(server.communicate(timeout=LIMIT_S)[0])
    assert report["median_bytes_per_s"] > 1e6
    assert len(report["samples_bytes_per_s"]) >= 3


def test_a_rank_of_another_run_on_the_same_hosts_is_rejected(monkeypatch, free_port):
    mine, others = (requests("network", hosts=HOSTS, run_token=token)[0] for token in ("one", "two"))
    token, foreign = mine.settings["token"], others.settings["token"]
    for name, value in {"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}.items():
        monkeypatch.setenv(name, value)
    conductor = network.Conductor({"settings": mine.settings, "cases": []}, None, 2)
    gathering = threading.Thread(target=conductor.gather, daemon=True)
    gathering.start()
    monkeypatch.setattr(network, "MEETING_S", 0.5)
    with pytest.raises(network.CaseError, match="rank 1 could not reach rank 0"):
        network.meet(1, 5000, foreign)
    links = [network.meet(rank, 5000 + rank, token) for rank in (0, 1)]
    gathering.join(LIMIT_S)
    for open_one in (conductor.listener, *links, *conductor.links.values()):
        open_one.close()
    assert {rank: place[1] for rank, place in conductor.places.items()} == {0: 5000, 1: 5001}


def test_a_rank_that_nobody_meets_ends_by_itself(torch_python, environment, free_port, tmp_path):
    (request,) = requests("network", hosts=HOSTS)
    (tmp_path / "request.json").write_bytes(to_json(request))
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    program = ("-m", "rigtune_worker.multi_host", "--limit-s", "1", "--hosts", "first,second", "--")
    bench = ("network", "--request", str(tmp_path / "request.json"), "--out", str(tmp_path))
    done = subprocess.run(
        (torch_python, *program, *bench), env={**environment, **place}, timeout=LIMIT_S, check=False
    )
    assert done.returncode == -signal.SIGALRM


@pytest.fixture
def route(monkeypatch, tmp_path):
    (tmp_path / "route").write_text(ROUTES)
    monkeypatch.setattr(multi_host, "ROUTES", str(tmp_path / "route"))
    return multi_host


ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
ib0\t0000140A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
down0\t0001140A\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0
slow0\t0000140A\t00000000\t0001\t0\t0\t50\t0000FFFF\t0\t0\t0
"""


@pytest.mark.parametrize(
    ("hosts", "interface"),
    [
        (["10.20.1.5"], "ib0"),
        (["192.168.1.9"], "eth0"),
        (["8.8.8.8"], "eth0"),
        (["127.0.1.1", "10.20.1.5"], "ib0"),
        (["127.0.0.1"], "lo"),
        (["no-such-host.invalid"], ""),
        (["", "10.20.1.5"], "ib0"),
    ],
)
def test_the_interface_is_the_one_that_leads_to_the_others(route, hosts, interface):
    """The route with the longest prefix counts, then the one with the lowest metric, but none that is down.

    The name of this host often has an address of the loopback.
    """
    assert route.interface_to(hosts) == interface
