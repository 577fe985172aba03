"""Test running collectors together: order, failures and deadlines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import DEEP_ONLY, Reason, Unknown
from probes.base.table_rows import ProbeRow
from probes.collect.collecting import JOINED, CollectOptions, assemble, gather
from probes.collect.collector_table import PROBES
from probes.facts import MachineFacts, Power
from probes.sources.asked_once import AskedOnce
from probes.sources.base import Source
from tests.support.fake_source import FakeSource

AddCollector = Callable[..., ProbeRow]


@pytest.fixture
def add_collector(monkeypatch: pytest.MonkeyPatch) -> AddCollector:
    """Return a function that makes a row of the table of collectors, with a new module for it."""

    def add(name: str, collect: object, *provides: str) -> ProbeRow:
        module = ModuleType(f"collector_{name}")
        module.collect = collect  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return ProbeRow(id=name, title=name.title(), module=module.__name__, provides=provides)

    return add


def crash(source: Source, options: CollectOptions) -> dict[str, object]:
    raise LookupError("the third page")


def test_a_slow_collector_holds_up_no_other(add_collector: AddCollector) -> None:
    quick_is_seen = threading.Event()

    def slow(source: Source, options: CollectOptions) -> dict[str, object]:
        assert quick_is_seen.wait(10)
        return {"hostname": "node1"}

    rows = [add_collector("slow", slow, "hostname"), add_collector("quick", lambda *_: {"gpus": ()}, "gpus")]
    results = []
    for row, result in gather(FakeSource(), CollectOptions(), rows):
        results.append((row, result))
        quick_is_seen.set()
    assert [row.id for row, _ in results] == ["quick", "slow"]
    facts = assemble("somewhere", results)
    assert (facts.source, facts.hostname, facts.gpus) == ("somewhere", "node1", ())


def test_a_crash_costs_only_its_own_facts(add_collector: AddCollector) -> None:
    rows = [
        add_collector("bad", crash, "gpus", "cpu"),
        add_collector("good", lambda *_: {"hostname": "node1"}, "hostname"),
        ProbeRow(id="gone", title="Gone", module="no_such_module", provides=("nics",)),
    ]
    facts = assemble("", gather(FakeSource(), CollectOptions(), rows))
    assert facts.hostname == "node1"
    for value in (facts.gpus, facts.cpu.model, facts.cpu.flags):
        assert value == Unknown(Reason.ERROR, "bad: LookupError: the third page")
    assert isinstance(facts.nics, Unknown)
    assert "no_such_module" in facts.nics.detail


def test_a_collector_that_does_not_end_is_left_behind(add_collector: AddCollector) -> None:
    never = threading.Event()

    def hang(source: Source, options: CollectOptions) -> dict[str, object]:
        never.wait()
        return {}

    rows = [
        add_collector("stuck", hang, "limits"),
        add_collector("good", lambda *_: {"hostname": "node1"}, "hostname"),
    ]
    facts = assemble("", gather(FakeSource(), CollectOptions(), rows, deadline_s=0.05))
    never.set()
    assert facts.hostname == "node1"
    assert isinstance(facts.limits.nofile, Unknown)
    assert facts.limits.nofile.reason is Reason.TIMEOUT


def test_a_collector_that_waits_for_the_driver_gets_more_time(
    add_collector: AddCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.collect.collecting.DRIVER_DEADLINE_S", 0.4)
    never, soon = threading.Event(), threading.Event()

    def hang(source: Source, options: CollectOptions) -> dict[str, object]:
        never.wait(10)
        return {}

    def slow(source: Source, options: CollectOptions) -> dict[str, object]:
        soon.wait(0.2)
        return {"gpus": ()}

    rows = [
        add_collector("stuck", hang, "limits"),
        msgspec.structs.replace(add_collector("hung", hang, "links"), asks_driver=True),
        msgspec.structs.replace(add_collector("slow", slow, "gpus"), asks_driver=True),
    ]
    results = {row.id: result for row, result in gather(FakeSource(), CollectOptions(), rows, 0.05)}
    never.set()
    assert results == {
        "stuck": Unknown(Reason.TIMEOUT, "Stuck took longer than 0.05 s"),
        "slow": {"gpus": ()},
        "hung": Unknown(Reason.TIMEOUT, "Hung took longer than 0.4 s"),
    }


@pytest.mark.parametrize("fields", [{}, {"hostname": "x", "gpus": ()}, {"host": "x"}])
def test_a_collector_that_returns_other_fields_is_a_bug(
    add_collector: AddCollector, fields: dict[str, object]
) -> None:
    rows = [add_collector("wrong", lambda *_: fields, "hostname")]
    facts = assemble("", gather(FakeSource(), CollectOptions(), rows))
    assert isinstance(facts.hostname, Unknown)
    assert facts.hostname.reason is Reason.ERROR


KEPT_FOR_READERS = {"profile", "cluster"}
"""Fields that no collector fills; they stay in the JSON for programs that read them."""


def test_the_table_fills_every_field_once() -> None:
    provided = [name for row in PROBES for name in row.provides if name not in JOINED]
    fields = {*MachineFacts.__struct_fields__} - {"schema_version", "source"} - JOINED - KEPT_FOR_READERS
    assert sorted(provided) == sorted(fields)


def test_every_fact_of_an_unrecorded_machine_has_this_reason() -> None:
    facts = assemble("", gather(FakeSource(missing=Reason.NOT_RECORDED), CollectOptions()))
    for leaf in _leaves(facts):
        assert leaf.reason is Reason.NOT_RECORDED, leaf


def _leaves(record: msgspec.Struct) -> Iterator[Unknown]:
    """Yield every leaf of a record except the constant fields; each of these leaves must be unknown."""
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, msgspec.Struct) and not isinstance(value, Unknown):
            yield from _leaves(value)
        elif name not in {"schema_version", "source", "evidence", "found_by"} | JOINED:
            assert isinstance(value, Unknown), f"{name} = {value!r}"
            yield value


ANSWERS = st.one_of(
    st.text(max_size=40), st.sampled_from(["0", "1", "-1", "0-3", "4: ACTIVE", "0x10de", "0x030200", "N/A"])
)
NVML = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 5),
        st.text(max_size=10),
        st.just(Unknown(Reason.ERROR, "lost")),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["busId", "total", "state", "pid"]), inner)
    ),
    max_leaves=4,
)


@given(st.data())
def test_facts_have_their_types_whatever_the_machine_answers(data: st.DataObject) -> None:
    answer = data.draw(ANSWERS)
    nvml = data.draw(NVML)
    count = data.draw(st.integers(0, 2))

    class Hostile(FakeSource):
        def read(self, path: str) -> bytes | Unknown:
            return answer.encode("utf-8", "replace")

        def names(self, directory: str) -> tuple[str, ...] | Unknown:
            return (answer.replace("/", "_") or "x", "0000:1b:00.0", "1", "mlx5_0")

    source = Hostile(
        nvml=lambda call, *_: count if call == "nvmlDeviceGetCount" else nvml, commands={"df -Pk": answer}
    )
    results = list(gather(source, CollectOptions(python=data.draw(st.none() | st.just("/x/python")))))
    facts = assemble("", results)
    assert [result for _, result in results if isinstance(result, Unknown)] == []
    assert msgspec.json.decode(msgspec.json.encode(facts), type=MachineFacts) == facts


def test_a_command_that_several_want_runs_once() -> None:
    source = FakeSource(commands={"df -Pk": "x"}, nvml={"nvmlDeviceGetCount": 2})
    once = AskedOnce(source)
    threads = [threading.Thread(target=once.run, args=(("df", "-Pk"),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.asked == ["df -Pk"]
    assert once.run(("df", "-Pk")).stdout == b"x"
    assert once.nvml("nvmlDeviceGetCount") == 2


def test_a_bug_in_a_source_reaches_everyone_who_asked() -> None:
    class Broken(FakeSource):
        def nvml(self, call: str, *args: int) -> Unknown:
            raise ValueError(call)

    once = AskedOnce(Broken())
    for _ in range(2):
        with pytest.raises(ValueError, match="nvmlSystemGetDriverVersion"):
            once.nvml("nvmlSystemGetDriverVersion")


def test_deep_collectors_start_only_when_they_are_wanted(add_collector: AddCollector) -> None:
    quick = add_collector("name", lambda *_: {"hostname": "x"}, "hostname")
    deep = msgspec.structs.replace(
        add_collector("watts", lambda *_: {"power": Power(system_w=1.0)}, "power"), tier="deep"
    )
    few = assemble("", gather(FakeSource(), CollectOptions(deep=False), [deep, quick]))
    assert (few.hostname, few.power.system_w) == ("x", DEEP_ONLY)
    assert assemble("", gather(FakeSource(), CollectOptions(), [deep, quick])).power.system_w == 1.0
