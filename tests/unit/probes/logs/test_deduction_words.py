"""Test that the words of a deduction fit the value of the variable and the number of machines."""

import pytest

from probes.logs.deducing.bandwidth import cliff
from probes.logs.deducing.variables_in_force import left_from_debugging
from probes.logs.event import LogLine, event_of
from probes.logs.events.log_record import LogRecord
from probes.logs.events.measurement_events import NcclTestsResult, NcclTestsSummary
from probes.logs.events.nccl_events import NcclEnvironment
from probes.logs.logged_events import LoggedEvents


def logged(*records: LogRecord) -> LoggedEvents:
    lines = (LogLine(source="log", number=number, text="") for number in range(1, len(records) + 1))
    return LoggedEvents(event_of(record, line) for record, line in zip(records, lines, strict=True))


@pytest.mark.parametrize(
    ("name", "value"),
    [("NCCL_NVLS_ENABLE", "0"), ("NCCL_NVLS_ENABLE", "1"), ("NCCL_NET_GDR_LEVEL", "SYS")],
)
def test_a_setting_that_may_enable_a_feature_is_not_called_off(name: str, value: str) -> None:
    (event,) = left_from_debugging(logged(NcclEnvironment(name=name, value=value, by="environment")))
    assert "does not decide itself" in str(event.fields["why"])


@pytest.mark.parametrize(("nodes", "words"), [(1, "of this machine"), (2, "some hosts")])
def test_a_collapse_names_the_network_only_for_several_hosts(nodes: int, words: str) -> None:
    results = [
        NcclTestsResult(
            collective="all_reduce",
            bytes=mebibytes << 20,
            time_us=1.0,
            algbw_gbps=rate,
            busbw_gbps=rate,
            in_place=False,
        )
        for mebibytes, rate in ((16, 20.0), (32, 24.0), (64, 3.0), (128, 3.0))
    ]
    (collapse,) = cliff(logged(*results, NcclTestsSummary(collective="all_reduce", nodes=nodes)))
    assert words in str(collapse.fields["why"])
