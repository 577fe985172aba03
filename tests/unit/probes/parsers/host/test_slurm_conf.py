"""Slurm's configuration files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.parsers.host.slurm_conf import contains_host, gpus_of_node, parse_lines, settings_of

CONFIGURATION = """# slurm.conf
ClusterName=c1
proctracktype=proctrack/cgroup   # kernel
PropagateResourceLimitsExcept=MEMLOCK,CORE
NodeName=DEFAULT CPUs=224 \\
  Gres=gpu:h100:8
NodeName=gpu[01-16,20],spare State=UNKNOWN
NodeName=login1 Gres=(null)
NodeName=old[1-4] Gres=gpu:4,gpu:a100:2(S:0-1)
"""


def test_settings_whatever_their_case() -> None:
    settings = settings_of(CONFIGURATION, ("ProctrackType", "PropagateResourceLimitsExcept", "TaskPlugin"))
    assert settings == {"ProctrackType": "proctrack/cgroup", "PropagateResourceLimitsExcept": "MEMLOCK,CORE"}


@pytest.mark.parametrize(
    ("host", "gpus"),
    [
        ("gpu07", 8),
        ("gpu20", 8),
        ("spare", 8),
        ("login1", 0),
        ("old3", 6),
        ("gpu7", None),
        ("gpu17", None),
        ("x", None),
    ],
)
def test_gpus_of_a_node(host: str, gpus: int | None) -> None:
    assert gpus_of_node(CONFIGURATION, host) == gpus


@pytest.mark.parametrize(
    ("hostlist", "host", "inside"),
    [
        ("n[1-3,7]", "n7", True),
        ("n[1-3]", "n4", False),
        ("n[001-128]", "n017", True),
        ("n[001-128]", "n17", False),
        ("n[8-12]", "n10", True),
        ("rack1-n[1-2]-ib", "rack1-n2-ib", True),
        ("a,b,c", "b", True),
        ("n[1-", "n1", False),
        ("n[x]", "nx", False),
        ("n[1-3]", "nx", False),
        ("n[1-3]", "n", False),
        ("n[1-9999999999]", "n5", False),
        ("n[1-999999999]", "n999999999", True),
        ("n[1-999999999]", "n1000000000", False),
        ("n[2-2]", "n2", True),
        ("n[3-2]", "n2", False),
        ("", "", False),
    ],
)
def test_host_lists(hostlist: str, host: str, inside: bool) -> None:
    assert contains_host(hostlist, host) is inside


@given(
    st.text(alphabet="NodeameGrsgpu=[]-,0123:#\\ \n", max_size=300), st.text(alphabet="node012", max_size=8)
)
def test_nothing_breaks_and_nothing_is_invented(text: str, host: str) -> None:
    for row in parse_lines(text):
        assert all(value in text.replace("\\\n", " ") for value in row.values())
    gpus = gpus_of_node(text, host)
    assert gpus is None or (gpus >= 0 and "=" in text)
    contains_host(text, host)
