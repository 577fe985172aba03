"""NCCL's configuration files as NCCL reads them, and the variables in its logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.parsers.tools.nccl_conf import parse_configuration, parse_logged, parse_network


def test_a_file_is_read_as_nccl_does() -> None:
    assignments, ignored = parse_configuration(
        "# a comment\nNCCL_DEBUG=WARN\n NCCL_IB_TC = 106 # class\nNCCL_ALGO Ring\n\n#NCCL_X=1\nA=b=c\n"
    )
    assert [(line.line, line.name, line.value) for line in assignments] == [
        (2, "NCCL_DEBUG", "WARN"),
        (3, " NCCL_IB_TC ", " 106 # class"),
        (7, "A", "b=c"),
    ]
    assert [(line.line, line.text) for line in ignored] == [(4, "NCCL_ALGO Ring")]


def test_variables_that_ranks_log_as_set_are_read() -> None:
    log = (
        "n1:7:7 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\n"
        "n1:8:8 [1] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\n"
        "n1:7:7 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to =eth0\n"
        "n1:7:7 [0] NCCL INFO Bootstrap : Using eth0\n"
    )
    assignments = parse_logged(log)
    assert [(line.line, line.name, line.value) for line in assignments] == [
        (1, "NCCL_IB_TIMEOUT", "22"),
        (3, "NCCL_SOCKET_IFNAME", "=eth0"),
    ]


def test_variables_that_a_plugin_sets_are_left_out() -> None:
    log = (
        'n1:7:7 [0] NCCL INFO NET/OFI Setting NCCL_PROTO to "simple"\n'
        "n1:7:7 [0] NCCL INFO NCCL_PROTO set by environment to simple\n"
        "n1:7:7 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
    )
    assert [line.name for line in parse_logged(log)] == ["NCCL_ALGO"]


@pytest.mark.parametrize(
    ("lines", "network"),
    [
        (("Using network IB", "Using network IB"), "IB"),
        (("Using network AWS Libfabric",), "AWS Libfabric"),
        (("Using network IB", "Using network Socket"), None),
        (("NCCL_NET set by environment to IB.",), None),
    ],
)
def test_the_network_is_the_one_that_all_ranks_report(lines: tuple[str, ...], network: str | None) -> None:
    assert parse_network("".join(f"n1:7:7 [0] NCCL INFO {line}\n" for line in lines)) == network


@given(st.one_of(st.text(), st.text(alphabet="NCL_=# \n\0'\"INFOset to.", max_size=300)))
def test_nothing_breaks_and_nothing_is_invented(text: str) -> None:
    assignments, ignored = parse_configuration(text)
    assert all(f"{line.name}={line.value}"[:1000] in text for line in assignments)
    assert all(line.text in text for line in ignored)
    assert all(line.name in text and line.value in text for line in parse_logged(text))
