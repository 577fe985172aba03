"""Test the small parts of which sentences about logs consist."""

from __future__ import annotations

import pytest

from probes.base.units import GIB
from probes.logs.deducing.common import named
from probes.logs.event import LogLine, event_of, is_clearly_later
from probes.logs.events.torch_events import TorchException
from probes.logs.frames import Frames
from probes.logs.spread import Spread
from probes.logs.wording import begun, command_for, filled


@pytest.mark.parametrize(
    ("template", "fields", "text"),
    [
        ("{name} failed", {"name": "NCCL: "}, "NCCL failed"),
        ("{size:GiB} free", {"size": 1.5 * GIB}, "1.50 GiB free"),
        ("{size:GiB}", {"size": "many"}, "many"),
        ("CUDA {api:CUDA}", {"api": 12040}, "CUDA 12.4"),
        ("CUDA {api:CUDA}", {"api": 1000}, "CUDA 1.0"),
        ("CUDA {api:CUDA}", {"api": 999}, "CUDA 999"),
        ("{at:rank} stopped", {"at": 3}, "rank 3 stopped"),
        ("{at:rank} stopped", {"at": "3, 6"}, "ranks 3, 6 stopped"),
        ("{at:rank} stopped", {"at": "3-6"}, "ranks 3-6 stopped"),
        ("slow[ on {host}].", {"host": "n1"}, "slow on n1."),
        ("slow[ on {host}].", {"host": ""}, "slow."),
        ("slow[ on {host}].", {}, "slow."),
        ("slow on {host}.", {}, "slow on ?."),
        ("{text}", {"text": "x" * 300}, "x" * 200),
    ],
)
def test_a_template_is_filled(template: str, fields: dict[str, object], text: str) -> None:
    assert filled(template, (), fields) == text


def test_brackets_can_be_plain_text() -> None:
    assert filled("a[0] {x}", (), {"x": 1}, parts=False) == "a[0] 1"


@pytest.mark.parametrize(
    ("words", "text"),
    [("rank 3", "Rank 3"), ("mlx5_0 is down", "mlx5_0 is down"), ("", ""), ("10 x", "10 x")],
)
def test_a_sentence_begins_with_a_capital_letter(words: str, text: str) -> None:
    assert begun(words) == text


def test_a_placeholder_without_a_value_stays_in_a_command() -> None:
    assert command_for(None, ()) is None
    assert command_for("ibstat <hca>", ()) == "ibstat <hca>"


def test_a_value_on_which_all_hosts_agree_is_written_alone() -> None:
    values = Spread()
    assert values.words() is None
    for host in ("a", "b", None):
        values.add("2.20", host)
    assert values.words() == "2.20"


def test_values_that_differ_name_at_most_four_hosts() -> None:
    values = Spread()
    for host in "abcd":
        values.add("1", host)
    for host in "efghij":
        values.add("2", host)
    values.add("3", None)
    assert values.words() == ["1 on a, b, c, d", "2 on e, f, g, h and 2 more", "3"]


def test_at_most_64_values_are_kept() -> None:
    values = Spread()
    for number in range(70):
        values.add(str(number), None)
    values.add("0", "late")
    words = values.words()
    assert isinstance(words, list)
    assert (len(words), words[0], words[-1]) == (64, "0 on late", "63")


def line(number: int, text: str) -> LogLine:
    return LogLine("0.log", number, text)


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        (['File "/home/u/train.py", line 7, in main'], "train.py:7 in main"),
        (['File "train.py", line 7'], "train.py:7"),
        # The innermost line of the own code counts, not that of a library below it.
        (
            [
                'File "a.py", line 1, in f',
                'File "b.py", line 2, in g',
                'File "/x/site-packages/torch/c.py", line 3, in h',
            ],
            "b.py:2 in g",
        ),
        (['File "/x/site-packages/torch/c.py", line 3, in h'], "c.py:3 in h"),
        (['File "/x/lib/python3.11/c.py", line 3, in h', 'File "a.py", line 4, in f'], "a.py:4 in f"),
    ],
)
def test_an_exception_is_placed_at_the_own_code(frames: list[str], place: str) -> None:
    traceback = Frames()
    process = (None, 1)
    assert traceback.take(process, line(1, "Traceback (most recent call last):"))
    assert all(traceback.take(process, line(number, frame)) for number, frame in enumerate(frames, 2))
    assert not traceback.take(process, line(9, "ValueError: no"))
    frame, error = traceback.ended(process, line(9, "ValueError: no"), ())
    assert (frame.kind, frame.fields["place"], frame.fields["ends"]) == ("process.frame", place, 9)
    assert (error.kind, error.fields["name"], error.fields["message"]) == (
        "torch.exception",
        "ValueError",
        "no",
    )
    assert traceback.ended(process, line(10, "ValueError: no"), ()) == ()


@pytest.mark.parametrize(("distance", "is_near"), [(200, True), (201, False)])
def test_a_frame_far_above_belongs_to_another_exception(distance: int, is_near: bool) -> None:
    traceback = Frames()
    traceback.take((None, 1), line(1, 'File "a.py", line 1, in f'))
    assert bool(traceback.ended((None, 1), line(1 + distance, "ValueError: no"), ())) is is_near
    assert traceback.ended((None, 2), line(2, "ValueError: no"), ()) == ()


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, ""), (1, "0"), (8, "0, 1, 2, 3, 4, 5, 6, 7"), (10, "0, 1, 2, 3, 4, 5, 6, 7 and 2 more")],
)
def test_a_list_names_eight_values(count: int, words: str) -> None:
    assert named([*range(count), *range(count)]) == words


@pytest.mark.parametrize(
    ("time_s", "than_s", "is_later"),
    [
        (130.0, 100.0, False),
        (130.1, 100.0, True),
        (50.0, 100.0, False),
        (None, 100.0, False),
        (200.0, None, False),
    ],
)
def test_clocks_may_differ_by_half_a_minute(
    time_s: float | None, than_s: float | None, is_later: bool
) -> None:
    event, than = (
        event_of(TorchException(name="E", message=""), LogLine("0.log", 1, "", time_s=each))
        for each in (time_s, than_s)
    )
    assert is_clearly_later(event, than) is is_later
