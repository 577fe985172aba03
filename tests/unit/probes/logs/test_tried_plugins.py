"""Test that failed attempts of NCCL are failures only if its callers need them."""

from __future__ import annotations

import pytest

from probes.logs.diagnosis import Explanation
from probes.logs.reading import Reading
from probes.logs.wording import begun

PREFIX = "trn-a7:4001:4008 [0]"
START = f"{PREFIX} NCCL INFO NCCL version 2.21.5+cuda12.4\n"


def explained(text: str) -> Explanation:
    reading = Reading()
    source = reading.source("job.log")
    reading.feed(source, text.encode())
    source.end()
    return reading.explanation()


@pytest.mark.parametrize("call", ["include/net.h:19 -> 2", "net.cc:55 -> 3", "transport/net.cc:55 -> 3"])
def test_a_log_that_ends_while_plugins_are_tried_reports_no_fault(call: str) -> None:
    assert explained(f"{START}{PREFIX} NCCL INFO {call}\n").state == "healthy"


@pytest.mark.parametrize(
    "after",
    [
        "NCCL INFO proxy.cc:494 -> 6",
        "NCCL WARN NET/IB : Call to ibv_create_qp failed",
        "NCCL INFO init.cc:1500 -> 6",
    ],
)
def test_a_call_for_which_its_callers_fail_is_a_failure(after: str) -> None:
    assert (
        explained(f"{START}{PREFIX} NCCL INFO transport/net.cc:870 -> 6\n{PREFIX} {after}\n").state
        != "healthy"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [("the peer is "
      "gone", "The peer is gone"), ("fd00::7 does not answer", "fd00::7 does not answer"), ("", ""),
     ("mlx5_0 has no link", "mlx5_0 has no link")],
)  # fmt: skip
def test_names_and_addresses_at_the_beginning_of_a_sentence_stay_as_they_are(
    words: str, sentence: str
) -> None:
    assert begun(words) == sentence
