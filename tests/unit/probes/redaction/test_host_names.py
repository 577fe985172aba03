"""Test the redaction of hosts that are known before any text is read."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.redaction import redact
from probes.redaction.host_names import HostNames
from probes.redaction.text import TextRedactor
from probes.sources.stored import Recording

HOSTS = {
    "gpu001": "node-001",
    "gpu-12a": "node-002",
    "login.example.edu": "node-003",
    "n1": "node-004",
    "_spare": "node-005",
}


@pytest.fixture
def names() -> TextRedactor:
    return TextRedactor(b"salt", trusts_labels=True, hosts=HostNames(HOSTS, spares_parts=False))


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("gpu001 is down", "node-001 is down"),
        ("GPU001:eth0 and rail-gpu001_ib", "node-001:eth0 and rail-node-001_ib"),
        ("gpu-12a, gpu-13a", "node-002, gpu-13a"),
        ("gpu0011 gpu01 xgpu001", "gpu0011 gpu01 xgpu001"),
        ("gpu-12ab, gpu-12a", "gpu-12ab, node-002"),
        ("7_spare, _spare", "7_spare, node-005"),
        ("login is login.example.edu", "node-003 is node-003"),
        ("hostname: n1", "hostname: node-004"),
        ("SLURM_JOB_NODELIST=n1,gpu001", "SLURM_JOB_NODELIST=node-004,node-001"),
    ],
)
def test_known_hosts_are_replaced_wherever_they_occur(names, text, redacted):
    assert names.text(text) == redacted


def test_a_full_name_of_a_known_host_keeps_its_placeholder(names):
    text = names.text("ssh gpu001.cluster.example.edu")
    assert text.startswith("ssh node-001")
    assert "example.edu" not in text


def test_parts_of_a_machine_are_no_hosts_unless_a_text_labels_them():
    recording = Recording(
        title="x",
        files={"/sys/devices/system/node/node1/cpulist": "0-7\n", "/var/log/x": "node1 hostname: node1\n"},
    )
    hosts = HostNames({"node1": "node-001", "node02": "node-002"}, spares_parts=True)
    redacted, _ = redact(recording, salt=b"x", hosts=hosts)
    assert "/sys/devices/system/node/node1/cpulist" in redacted.files
    assert redacted.files["/var/log/x"] == "node1 hostname: node-001\n"
    padded = Recording(title="x", files={"/var/log/x": "node02 is down\n"})
    redacted, _ = redact(padded, salt=b"x", hosts=hosts)
    assert redacted.files["/var/log/x"] == "node-002 is down\n"


host_names = st.from_regex(r"[a-cG][a-c0-2._:@-]{0,6}", fullmatch=True)


@given(
    st.lists(host_names, min_size=1, max_size=5, unique_by=str.lower),
    st.lists(host_names | st.sampled_from(["-", ".", " ", "_", "a"]), max_size=8),
)
def test_every_name_between_boundaries_is_replaced(hosts, pieces):
    text = "".join(pieces)
    known = HostNames({name: f"node-{number}" for number, name in enumerate(hosts)}, spares_parts=False)
    spans = {(span.start, span.end) for span in known.spans(text)}
    for name in hosts:
        if re.search(r"[0-9A-Za-z]", name):
            whole = re.compile(rf"(?=(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z]))", re.IGNORECASE)
            for match in whole.finditer(text):
                assert (match.start(), match.start() + len(name)) in spans


def test_a_host_with_the_name_of_a_part_is_replaced_only_in_its_own_spelling():
    hosts = HostNames({"gpu1": "node-001", "gpu01": "node-002"}, spares_parts=False)
    text = TextRedactor(b"salt", trusts_labels=True, hosts=hosts)
    assert text.text("GPU1 of gpu1, GPU01") == "GPU1 of node-001, node-002"
    text.learn_hosts("gpu3")
    assert "GPU3 of host-" in text.text("GPU3 of gpu3")


def test_the_work_for_a_text_does_not_grow_with_the_number_of_names():
    def calls(count: int) -> int:
        names = [
            f"pool-{number:b}-{'x' * (number % 7)}{number}a".translate({49: "q"}) for number in range(count)
        ]
        known = TextRedactor(
            b"salt", trusts_labels=True, hosts=HostNames(dict.fromkeys(names, "n"), spares_parts=False)
        )
        for name in names[:20]:
            known.learn(f"hostname: {name}")
        text, made = f"{names[3]} cannot reach {names[5]}", 0

        def count_calls(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += event == "c_call"

        sys.setprofile(count_calls)
        try:
            assert known.text(text).startswith("n cannot reach n")
        finally:
            sys.setprofile(None)
        return made

    assert calls(600) < 2 * calls(20)
