"""Test the search for slow hosts as users see it; simulated hosts take the place of started workers."""

from __future__ import annotations

import json

import jsonschema
import pytest

from assistant.formats.json_answer import json_answer
from assistant.formats.schemas import schema_for
from assistant.pages.measured.bench_page import hosts_page
from assistant.processes.interpreter import Interpreter
from assistant.text.plain_writer import text_of
from assistant.usecases.bench import find_bad_nodes
from assistant.usecases.bench.asked_hosts import HostAnswer
from assistant.usecases.bench.bench_gate import Gate, Hindrance
from assistant.usecases.bench.bench_run import RunEnded
from assistant.usecases.bench.find_bad_nodes import find_bad_hosts
from assistant.usecases.events import BenchFailed, StageFinished, StageStarted
from assistant.usecases.measure import MeasureOptions
from probes.base.errors import UsageError, WorkerError
from probes.facts.measurements import Measurement
from tests.support.machines import cpu_box

GOOD, SLOW = 10e9, 1e9
HOSTS = tuple(f"n{number}" for number in range(1, 10))


class Simulated:
    """The simulated hosts: which hosts and directions are slow, and which hosts end every run."""

    def __init__(self) -> None:
        self.slow_ways: set[tuple[str, str]] = set()
        self.slow_senders: set[str] = set()
        self.rates: dict[tuple[str, str], float] = {}
        self.broken: set[str] = set()
        self.answers: dict[str, HostAnswer] = {}
        self.gate = Gate(interpreter=Interpreter(path="/opt/python", python="3.11", torch="2.6"))

    def ask(self, hosts, *_):
        return {host: self.answers.get(host, HostAnswer("ok", sees_folder=True)) for host in hosts}

    def run_request(self, request, module, python, directory, *, stop, watch):
        if self.broken & set(request.hosts):
            yield RunEnded(measurements=(), failures=(request.failure("timeout", "did not start"),))
            return
        ways = [(first, second) for first in request.hosts for second in request.hosts if first != second]
        yield RunEnded(measurements=tuple(self.measured(*way) for way in ways), failures=())

    def measured(self, sender, receiver):
        is_slow = sender in self.slow_senders or (sender, receiver) in self.slow_ways
        rate = self.rates.get((sender, receiver), SLOW if is_slow else GOOD)
        return Measurement(
            bench_id="across-nodes",
            subject=f"{sender}->{receiver}",
            metric="pair_bandwidth_bytes_per_s",
            unit="byte/s",
            samples=(rate,),
        )


@pytest.fixture
def simulated(monkeypatch):
    made = Simulated()
    monkeypatch.setattr(find_bad_nodes, "run_request", made.run_request)
    monkeypatch.setattr(find_bad_nodes, "ask_hosts", made.ask)
    monkeypatch.setattr(find_bad_nodes, "gate_of", lambda *_: made.gate)
    return made


def search(tmp_path, hosts=HOSTS, *, force=False, **more):
    options = MeasureOptions(hosts=hosts, work_directory=str(tmp_path), ranks_per_node=1, force=force)
    events = list(find_bad_hosts(cpu_box(), options, **more))
    assert isinstance(events[0], StageStarted)
    assert isinstance(events[-1], StageFinished)
    jsonschema.validate(
        json.loads(json_answer(events[-1].result)), json.loads(schema_for("bench-find-bad-hosts"))
    )
    return events[-1].result, events


def test_healthy_hosts_are_alike(simulated, tmp_path):
    result, _ = search(tmp_path)
    assert (result.bad_hosts, result.bad_links, result.unresolved, result.complete) == ((), (), (), True)
    assert result.runs < result.all_pairs == 36
    assert "all 9 hosts and the links between them are equally fast" in text_of(hosts_page(result))


def test_a_host_that_sends_slowly_is_named_with_its_links(simulated, tmp_path):
    simulated.slow_senders = {"n5"}
    result, _ = search(tmp_path)
    (fault,) = result.bad_hosts
    assert (fault.host, fault.kind, fault.slow_direction) == ("n5", "slow", "sends")
    assert {rate.sender for rate in fault.links} == {"n5"}
    assert {rate.bytes_per_s for rate in fault.links} == {SLOW}
    text = text_of(hosts_page(result))
    assert "n5: is slow when it sends\n  n5 -> n" in text
    assert result.reference_bytes_per_s == GOOD


@pytest.mark.parametrize(
    ("sent", "received", "direction"),
    [
        (1e9, 10e9, "sends"),
        (10e9, 1e9, "receives"),
        (1e9, 1e9, "both"),
        (1e9, 2e9, "both"),
        (2e9, 1e9, "both"),
        (1e9, 2.1e9, "sends"),
        (2.1e9, 1e9, "receives"),
    ],
)
def test_a_direction_is_named_if_it_is_more_than_twice_as_slow(
    simulated, tmp_path, sent, received, direction
):
    others = [host for host in HOSTS if host != "n5"]
    simulated.rates = {
        **{("n5", host): sent for host in others},
        **{(host, "n5"): received for host in others},
    }
    (fault,) = search(tmp_path)[0].bad_hosts
    assert (fault.host, fault.slow_direction) == ("n5", direction)
    slow = {("n5", sent), ("", received)}
    assert {("n5" if rate.sender == "n5" else "", rate.bytes_per_s) for rate in fault.links} == {
        (end, rate) for end, rate in slow if rate < GOOD
    }
    assert [rate.bytes_per_s for rate in fault.links] == sorted(rate.bytes_per_s for rate in fault.links)


def test_progress_names_the_group_and_its_slowest_pair(simulated, tmp_path):
    simulated.slow_ways = {("n1", "n2")}
    messages = [event.message for event in search(tmp_path, hosts=HOSTS[:2])[1] if hasattr(event, "message")]
    assert messages[0] == "n1, n2: at least 1 GB/s (n1->n2)"
    simulated.slow_ways, simulated.broken = set(), {"n1", "n2", "n3", "n4", "n5"}
    messages = [event.message for event in search(tmp_path, hosts=HOSTS[:5])[1] if hasattr(event, "message")]
    assert messages[0] == "n1, n2, n3, n4, ...: no result"
    messages = [event.message for event in search(tmp_path, hosts=HOSTS[:4])[1] if hasattr(event, "message")]
    assert messages[0] == "n1, n2, n3, n4: no result"


def test_two_hosts_can_be_measured(simulated, tmp_path):
    result, events = search(tmp_path, hosts=HOSTS[:2])
    assert (result.runs, result.all_pairs, result.pairs_measured) == (1, 1, 1)
    assert 0 <= events[-1].duration_s < 600


def test_a_slow_link_accuses_neither_of_its_hosts(simulated, tmp_path):
    simulated.slow_ways = {("n2", "n8"), ("n8", "n2")}
    result, _ = search(tmp_path)
    assert result.bad_hosts == ()
    (link,) = result.bad_links
    assert {link.first, link.second} == {"n2", "n8"}
    assert {(rate.sender, rate.receiver) for rate in link.rates} == simulated.slow_ways
    assert "link between n2 and n8: slow" in text_of(hosts_page(result))


def test_hosts_that_do_not_answer_are_distinguished(simulated, tmp_path):
    simulated.answers = {"n3": HostAnswer("unreachable", "No route to host")}
    simulated.broken = {"n7"}
    result, events = search(tmp_path)
    assert {(fault.host, fault.kind) for fault in result.bad_hosts} == {
        ("n3", "unreachable"),
        ("n7", "no answer"),
    }
    assert any(isinstance(event, BenchFailed) and event.failure.kind == "timeout" for event in events)
    assert result.failures
    assert "n3: unreachable: No route to host" in text_of(hosts_page(result))


def test_with_no_host_answering_nobody_is_called_slow(simulated, tmp_path):
    simulated.broken = set(HOSTS[:4])
    result, _ = search(tmp_path, hosts=HOSTS[:4])
    assert (result.bad_hosts, result.unresolved, result.silent_groups) == ((), (), (HOSTS[:4],))
    text = text_of(hosts_page(result))
    assert "no answer: n1, n2, n3, n4: no run gave a result" in text
    assert "slow" not in text


def test_hosts_in_use_are_left_out(simulated, tmp_path):
    simulated.answers = {
        "n2": HostAnswer("not-started", "a job uses the node (mixed)"),
        "n5": HostAnswer("ok", sees_folder=True, gpu_programs=3),
    }
    result, _ = search(tmp_path)
    assert {each.host: each.reason for each in result.left_out} == {
        "n2": "a job uses the node (mixed)",
        "n5": "3 programs on its GPUs",
    }
    assert not {"n2", "n5"} & {host for pair in result.measurements for host in pair.subject.split("->")}
    text = text_of(hosts_page(result))
    assert "n2: left out: a job uses the node (mixed)" in text
    assert "all 7 hosts and the links between them are equally fast" in text
    forced, _ = search(tmp_path, force=True)
    assert [each.host for each in forced.left_out] == ["n2"]


def test_one_reachable_host_alone_cannot_be_measured(simulated, tmp_path):
    simulated.answers = {"n2": HostAnswer("unreachable", "No route to host")}
    result, _ = search(tmp_path, hosts=("n1", "n2"))
    assert [fault.host for fault in result.bad_hosts] == ["n2"]
    assert result.runs == 0


def test_a_search_that_was_stopped_is_reported(simulated, tmp_path):
    simulated.slow_senders = {"n5"}
    asked = iter([False] * 4)
    result, _ = search(tmp_path, stop=lambda: next(asked, True))
    assert not result.complete
    assert "the search was stopped" in text_of(hosts_page(result))


@pytest.mark.parametrize("hosts", [(), ("n1",), ("n1", "n1", "n2")])
def test_too_few_hosts_are_refused(simulated, tmp_path, hosts):
    with pytest.raises(UsageError, match=r"two hosts are named|of them are different"):
        search(tmp_path, hosts=hosts)


def test_without_torch_or_a_shared_folder_nothing_begins(simulated, tmp_path):
    simulated.answers = {"n4": HostAnswer("ok")}
    with pytest.raises(WorkerError, match="n4 does not see the folder") as caught:
        search(tmp_path)
    assert "--work-directory" in caught.value.hint
    simulated.gate = Gate(
        interpreter=None, hindrance=Hindrance(kind="no_interpreter", message="no torch here")
    )
    with pytest.raises(WorkerError, match="no torch here"):
        search(tmp_path)
