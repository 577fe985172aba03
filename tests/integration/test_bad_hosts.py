"""Measure across three hosts in network namespaces, one of which is slowed down. Needs root."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.ssh_hosts import Lab, run, ssh_lab

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.long]

LIMIT_S = 400
HOSTS = ("rigtune-a", "rigtune-b", "rigtune-c")
SLOW = HOSTS[2]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ssh_lab(tmp_path_factory.mktemp("ssh"), HOSTS) as hosts:
        throttle = ("tbf", "rate", "200mbit", "burst", "64kb", "latency", "50ms")
        run(
            "ip",
            "netns",
            "exec",
            hosts.namespaces[SLOW],
            "tc",
            "qdisc",
            "add",
            "dev",
            "eth0",
            "root",
            *throttle,
        )
        yield hosts


@pytest.fixture
def bench(lab: Lab, torch_python: str, tmp_path: Path):
    """Return an object whose `run("--only", "network")` runs `rigtune bench --hosts ...` on the head node.

    Its `report` is the file of the report.
    """

    class Bench:
        report = tmp_path / "report.json"

        def start(
            self, *options: str, hosts: tuple[str, ...] = HOSTS, work: Path = tmp_path / "it's a $folder"
        ) -> subprocess.Popen[str]:
            command = (sys.executable, "-m", "assistant", "bench", "--python", torch_python, "--force")
            across = ("--hosts", ",".join(hosts), "--work-directory", str(work), "-o", str(self.report))
            variables = (f"PYTHONPATH={ROOT}", f"XDG_STATE_HOME={tmp_path}", "RIGTUNE_POLICY=")
            return lab.start("env", *variables, *command, *across, *options, cwd=tmp_path)

        def run(self, *options: str, **places: object) -> tuple[dict, str]:
            job = self.start(*options, **places)
            words, _ = job.communicate(timeout=LIMIT_S)
            assert self.report.exists(), words
            return json.loads(self.report.read_text()), words

    return Bench()


def ranks_of(folder: Path) -> list[int]:
    """Return the ids of processes on all hosts, except pytest, whose command line names the work folder."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in process.cmdline()) and "pytest" not in " ".join(
                process.cmdline()
            ):
                processes.append(process.pid)
    return processes


def until(condition) -> None:
    """Wait until the condition holds; the test fails if it does not hold within `LIMIT_S`."""
    ends = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.1)


def test_the_throttled_host_and_its_links_are_named(bench):
    hosts_found, words = bench.run("--find-bad-hosts")
    assert [(fault["host"], fault["kind"]) for fault in hosts_found["bad_hosts"]] == [(SLOW, "slow")], words
    slowest = hosts_found["bad_hosts"][0]["links"][0]
    assert slowest["sender"] == SLOW
    assert slowest["bytes_per_s"] < 30e6  # 200 Mb/s are 25 MB/s
    assert not hosts_found["bad_links"]
    assert f"{SLOW}: is slow when it sends" in words
    assert not ranks_of(bench.report.parent / "it's a $folder")


def test_links_are_measured_by_their_direction(bench):
    report, words = bench.run("--only", "network", "--only", "across-nodes")
    assert not report["failures"], words
    of = {}
    for one in report["measurements"]:
        of.setdefault(one["metric"], {}).setdefault(one["subject"], []).append(
            sorted(one["samples"])[len(one["samples"]) // 2]
        )
    links = {f"{first}->{second}" for first in HOSTS for second in HOSTS if first != second}
    for metric in ("tcp_bandwidth_bytes_per_s", "pair_bandwidth_bytes_per_s"):
        assert set(of[metric]) == links
        sent = [rates for subject, rates in of[metric].items() if subject.startswith(SLOW)]
        assert all(10e6 < rate < 30e6 for rates in sent for rate in rates), of[metric]  # 200 Mb/s are 25 MB/s
    assert set(of["host_bandwidth_bytes_per_s"]) == set(HOSTS)
    assert min(of["host_bandwidth_bytes_per_s"], key=of["host_bandwidth_bytes_per_s"].__getitem__) == SLOW
    slow = [
        finding
        for finding in report["findings"]
        if finding["check_id"] == "measured-network" and finding["status"] in ("WARN", "FAIL")
    ]
    assert any(SLOW in finding["subject"] and f"{SLOW}->" in finding["observed"] for finding in slow), slow
    assert set(of["bus_bandwidth_bytes_per_s"]) == {f"{len(HOSTS) * 2} ranks"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_host_keeps_a_rank_when_rigtune_is_ended(bench, tmp_path, number):
    work = tmp_path / "work"
    job = bench.start("--only", "across-nodes", work=work)
    until(lambda: len(list(work.glob("*/answers/rank*.jsonl"))) == 2 * len(HOSTS))
    assert "assistant" in psutil.Process(job.pid).cmdline()
    job.send_signal(number)
    job.communicate(timeout=LIMIT_S)
    until(lambda: not ranks_of(work))


def test_a_rank_whose_launcher_is_lost_ends_by_itself(lab, torch_python, tmp_path):
    """Imitate a host that has lost its network, so that no message reaches it any more."""
    request = tmp_path / "request.json"
    request.write_text(
        json.dumps({"needs_torch": False, "settings": {"token": "x", "seconds": 1}, "cases": []})
    )
    program = ("-m", "rigtune_worker.multi_host", "--limit-s", "1", "--hosts", "a,b", "--", "network")
    variables = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.79.0.1", "MASTER_PORT": "20000"}
    path = str(ROOT / "probes" / "workers")
    words = [f"{name}={value}" for name, value in {**variables, "PYTHONPATH": path}.items()]
    argv = ("env", *words, torch_python, *program, "--request", request, "--out", tmp_path)
    job = lab.start(*argv, cwd=tmp_path)
    job.communicate(timeout=LIMIT_S)
    assert job.returncode == -signal.SIGALRM
