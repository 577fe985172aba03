"""Test values that are derived from events: figures of steps, ranks of processes, chains of Xids, failures."""

from __future__ import annotations

from typing import Any

import pytest

from probes.logs.bench_facts import BenchFacts
from probes.logs.chains import with_chains
from probes.logs.event import Event, LogLine
from probes.logs.failure_facts import FailureFacts
from probes.logs.frames import Frames
from probes.logs.ordering import RankBook, merged, with_ranks
from probes.logs.recovered import without_recovered
from probes.logs.run_figures import figures_of
from probes.logs.training_steps import FORMATS, StepLog, StepSample
from tests.support.log_events import event

FINE = next(kind for kind in FORMATS if not kind.resolution_s)
COARSE = next((kind for kind in FORMATS if kind.resolution_s), FINE._replace(resolution_s=1.0))


def step_times(samples: list[dict[str, Any]], *, coarse: bool = False, **options: Any) -> list[float]:
    kind = (COARSE if coarse else FINE)._replace(resolution_s=1.0 if coarse else 0.0)
    log = StepLog(format=kind, samples=tuple(StepSample(**sample) for sample in samples))
    figures = figures_of(log, **{"tokens_per_gpu": 1000.0, **options})
    assert figures is not None
    return [round(time_s, 6) for time_s in figures.steps_s]


@pytest.mark.parametrize(
    ("samples", "options", "times"),
    [
        ([{"step": step, "seconds": step / 10} for step in (1, 2, 3, 4, 5)], {}, [0.4, 0.5]),
        ([{"step": step, "seconds": step / 10} for step in (1, 2, 3)], {}, [0.1, 0.2, 0.3]),
        ([{"seconds": 9.0}] * 3 + [{"seconds": 2.0}], {}, [2.0]),
        ([{"step": 4, "seconds": 0.0}, {"step": 5, "seconds": 0.3}], {}, [0.3]),
        # 1000 tokens at 500 tokens per second.
        ([{"step": 4, "tokens_per_s": 500.0}], {}, [2.0]),
        ([{"step": 4, "tokens_per_s": 500.0, "seconds": 3.0}], {}, [3.0]),
        ([{"step": 4, "tokens_per_s": 500.0}], {"tokens_per_gpu": 0.0}, []),
        ([{"step": 4, "elapsed_s": 10.0}, {"step": 6, "elapsed_s": 13.0}], {}, [1.5]),
        ([{"step": 4, "elapsed_s": 10.0}, {"step": 4, "elapsed_s": 13.0}], {}, []),
        ([{"step": 4, "elapsed_s": 10.0}, {"step": 5, "elapsed_s": 10.0}], {}, []),
        # Means of all steps so far: 4 steps of 2 s, then 5 steps of 2.2 s.
        ([{"step": 4, "mean_s": 2.0}, {"step": 5, "mean_s": 2.2}], {}, [3.0]),
        ([{"run_steps_per_s": 2.0}, {"run_steps_per_s": 4.0}], {}, [0.25]),
        ([{"run_steps_per_s": 4.0}, {"run_steps_per_s": -1.0}], {}, []),
        ([{"step": 4, "seconds": 3.0, "run_steps_per_s": 4.0}], {}, [3.0]),
    ],
)
def test_step_times_come_from_the_best_figures_of_the_log(
    samples: list[dict[str, Any]], options: dict[str, float], times: list[float]
) -> None:
    assert step_times(samples, **options) == times


@pytest.mark.parametrize(
    ("ends_s", "times"), [((0.0, 4.0, 10.0), [5.0]), ((0.0, 4.0, 9.0), []), ((0.0, 4.0, 11.0), [5.5])]
)
def test_whole_seconds_need_ten_of_them(ends_s: tuple[float, ...], times: list[float]) -> None:
    """The error of one second is then at most a tenth; two steps lie between the first and the last report."""
    samples = [{"step": 4 + place, "elapsed_s": end_s} for place, end_s in enumerate(ends_s)]
    assert step_times(samples, coarse=True) == times


def test_losses_and_peaks_of_memory() -> None:
    samples = (
        StepSample(step=1, loss=3.0, allocated_bytes=5.0, reserved_bytes=8.0),
        StepSample(step=2, allocated_bytes=7.0),
        StepSample(step=3, loss=0.0, reserved_bytes=6.0),
    )
    figures = figures_of(StepLog(format=FINE, samples=samples), tokens_per_gpu=1.0)
    assert figures is not None
    assert (figures.loss_first, figures.loss_last) == (3.0, 0.0)
    assert (figures.allocated_bytes, figures.reserved_bytes, figures.steps) == (7.0, 8.0, 3)


def member(rank: int, ranks: int, pid: int | None = 7, host: str | None = "n1", **more: Any) -> Event:
    return event("nccl.init-start", {"rank": rank, "ranks": ranks}, pid=pid, host=host, **more)


@pytest.mark.parametrize(
    ("members", "rank"),
    [
        ([member(5, 16), member(1, 4)], 5),
        ([member(1, 4), member(5, 16)], 5),
        ([member(1, 4), member(1, 4)], 1),
        ([member(1, 4), member(2, 4)], None),
        ([member(1, 4), member(2, 4), member(5, 16)], 5),
        ([member(1, 4, pid=8)], None),
        ([member(1, 4, host=None)], None),
        ([member(1, 4, pid=None)], None),
        ([], None),
    ],
)
def test_the_rank_of_a_process_is_that_in_its_largest_communicator(
    members: list[Event], rank: int | None
) -> None:
    book = RankBook()
    for each in members:
        book.add(each)
    line = event("torch.exception", {"name": "E", "message": "m"}, pid=7, host="n1")
    assert book.rank_of(line) == rank
    *_, named = with_ranks([*members, line])
    assert named.rank == rank
    *_, own = with_ranks([*members, event("torch.exception", {}, pid=7, host="n1", rank=9)])
    assert own.rank == 9


def test_events_of_several_logs_are_in_the_order_of_their_times() -> None:
    day_s = 1.7e9

    def at(source: str, number: int, time_s: float | None) -> Event:
        return event("torch.exception", {}, source=source, number=number, time_s=time_s)

    events = [
        at("b", 2, None),
        at("b", 1, day_s + 5),
        at("a", 1, None),
        at("a", 2, day_s + 3),
        at("a", 3, day_s + 9),
        at("a", 4, day_s + 4),
        at("boot", 1, 12.0),
    ]
    order = [(each.source, each.number) for each in merged(events)]
    assert order == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("a", 3), ("a", 4), ("boot", 1)]
    assert [each.number for each in merged([at("b", 2, None), at("b", 1, None)])] == [1, 2]


def xid(code: int, place: int, bus: str = "0000:17:00", **envelope: Any) -> Event:
    return event("kernel.xid", {"xid": code, "bus": bus}, **{"host": "n1", "number": place, **envelope})


def chain_of(events: list[Event]) -> list[tuple[int, int | None, str | None]]:
    whats: list[Any] = [each.what for each in with_chains(events) if each.kind == "kernel.xid"]
    return [(what.xid, what.after, what.followers or None) for what in whats]


def test_an_effect_is_linked_to_the_xid_of_its_gpu_and_log() -> None:
    first, effect = 79, 154
    assert chain_of([xid(first, 1), xid(effect, 2)]) == [(first, None, "154"), (effect, first, None)]
    repeated = chain_of([xid(first, 1), xid(effect, 2), xid(effect, 3)])
    assert repeated[0] == (first, None, "154 (2 lines)")
    other_gpu = chain_of([xid(first, 1), xid(effect, 2, bus="0000:3b:00")])
    other_log = chain_of([xid(first, 1), xid(effect, 2, source="b.log")])
    reloaded = chain_of([xid(first, 1), event("kernel.driver", host="n1", number=2), xid(effect, 3)])
    assert [after for _, after, _ in (*other_gpu, *other_log, *reloaded)] == [None] * 6


def failure(number: int, time_s: float | None = None, rank: int | None = None) -> Event:
    fields = {"name": "RuntimeError", "message": "x"}
    return event("torch.oom", fields, number=number, time_s=time_s, rank=rank, host="n1", pid=number)


@pytest.mark.parametrize(
    ("events", "line", "after_s", "ranks"),
    [
        ([failure(5, 20.0, 1), failure(6, 12.5, 2)], 6, None, [2, 1]),
        ([failure(5, 20.0, 1), failure(6, 20.0, 2)], 5, None, [1, 2]),
        ([failure(5, None, 1), failure(6, 12.5, 2)], 5, None, [1, 2]),
        ([event("program.progress", time_s=10.0), failure(5, 12.5, 1)], 5, 2.5, [1]),
        ([failure(5, 12.5, 1), failure(6, 11.0, 1), failure(7, 13.0, 1)], 6, None, [1]),
    ],
)
def test_the_first_failure_and_the_ranks_that_failed(
    events: list[Event], line: int, after_s: float | None, ranks: list[int]
) -> None:
    facts = FailureFacts()
    assert facts.as_dict() == {}
    for each in events:
        facts.add(each)
    values: Any = facts.as_dict()
    assert (values["first_failure"]["line"], values["first_failure"].get("after_s")) == (line, after_s)
    assert values["failed_ranks"] == ranks


@pytest.mark.parametrize(("last_line", "is_kept"), [(104, True), (105, False)])
def test_a_caught_exception_is_followed_by_a_hundred_lines(last_line: int, is_kept: bool) -> None:
    caught = event("torch.exception", {"name": "RuntimeError", "message": "x"}, number=5)
    assert without_recovered([caught], {"a.log": last_line}) == ([caught] if is_kept else [])


@pytest.mark.parametrize(
    ("finished", "failed", "is_kept"), [(9, None, False), (4, None, True), (9, 7, True), (9, 3, False)]
)
def test_a_program_that_finished_survived_its_exceptions(
    finished: int, failed: int | None, is_kept: bool
) -> None:
    caught = event("torch.exception", {"name": "RuntimeError", "message": "x"}, number=5)
    others = [event("program.finished", number=finished)]
    others += [event("kernel.oom-kill", number=failed)] if failed else []
    assert (caught in without_recovered([caught, *others], {})) is is_kept


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(8, 1, 100.0), (16, 2, 90.0)], (16, 2, 100.0)),
        ([(16, 2, 90.0), (8, 1, 100.0)], (16, 2, 100.0)),
        ([(8, 1, 100.0), (8, 4, 100.0)], (8, 1, 100.0)),
    ],
)
def test_the_run_with_the_most_ranks_and_the_best_bandwidth(
    rows: list[tuple[int, int, float]], expected: tuple[int, int, float]
) -> None:
    facts = BenchFacts()
    for ranks, nodes, best in rows:
        fields: dict[str, Any] = {
            "collective": "all_reduce", "ranks": ranks, "nodes": nodes, "peak_busbw_gbps": best
        }  # fmt: skip
        facts.add(event("nccl_tests.summary", fields))
    values: Any = facts.as_dict()
    best_of_all = values["bandwidth"]["all_reduce"]["busbw_best"]
    assert (values["ranks"], values["nodes"], best_of_all) == expected


OWN, LIBRARY = 'File "/job/train.py", line 12, in main', 'File "/x/site-packages/torch/a.py", line 3, in f'


@pytest.mark.parametrize(
    ("frames", "end", "place"),
    [
        ([OWN, LIBRARY], 10, "train.py:12 in main"),
        ([LIBRARY, OWN], 10, "train.py:12 in main"),
        ([LIBRARY], 10, "a.py:3 in f"),
        ([OWN, OWN.replace("12", "40")], 10, "train.py:40 in main"),
        ([OWN], 202, "train.py:12 in main"),
        ([OWN], 203, None),
        ([], 10, None),
    ],
)
def test_an_exception_is_placed_in_the_program_s_own_code(
    frames: list[str], end: int, place: str | None
) -> None:
    tracebacks, process = Frames(), ("n1", 7)
    head = LogLine("a.log", 1, "Traceback (most recent call last):")
    assert tracebacks.take(process, head)
    for number, text in enumerate(frames, 2):
        assert tracebacks.take(process, LogLine("a.log", number, text))
    assert not tracebacks.take(process, LogLine("a.log", 9, "loss 1.0"))
    ended: Any = tracebacks.ended(process, LogLine("a.log", end, "ValueError: bad shape"), ())
    assert [each.what.place for each in ended if each.kind == "process.frame"] == ([place] if place else [])


def test_the_latest_report_of_a_step_and_of_a_test_is_kept() -> None:
    facts = BenchFacts()
    for step, loss in ((5, 1.0), (7, 2.0), (7, 3.0), (6, 4.0)):
        facts.add(event("training.course", {"step": step, "loss": loss}))
    values: Any = facts.as_dict()
    assert (values["training"]["step"], values["training"]["loss"]) == (7, 3.0)


@pytest.mark.parametrize(("effects", "followers"), [(1, "154"), (2, "154 (2 lines)")])
def test_repeated_effects_are_counted(effects: int, followers: str) -> None:
    events = [xid(79, 1), *(xid(154, 2 + place) for place in range(effects))]
    assert chain_of(events)[0] == (79, None, followers)
