"""Small files of the kernel, and the last values in a kernel log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.parsers.kernel.kernel_files import (
    iommu_of_command_line,
    iommu_of_types,
    parse_boot_log,
    parse_buddyinfo,
    parse_capabilities,
    parse_chosen,
    parse_commented,
    parse_process,
    parse_settings,
    parse_switch,
)

X86 = """Node 0, zone    DMA32  1 1 1 1 1 1 1 1 1 1 9
Node 0, zone   Normal  5 5 5 5 5 5 5 5 3 2 1
Node 1, zone   Normal  0 0 0 0 0 0 0 0 0 0 4
"""


def test_free_blocks_of_a_mebibyte_by_page_size() -> None:
    assert parse_buddyinfo(X86) == 3 + 2 + 1 + 4
    pages_of_64_kib = "Node 0, zone   Normal " + " ".join(["1"] * 14)
    assert parse_buddyinfo(pages_of_64_kib) == 10


def test_free_blocks_that_cannot_be_counted() -> None:
    odd = parse_buddyinfo("Node 0, zone Normal 1 2 3\n")
    none = parse_buddyinfo("Node 0, zone DMA32 1 1 1 1 1 1 1 1 1 1 9\n")
    assert isinstance(odd, Unknown)
    assert odd.reason is Reason.UNPARSABLE
    assert isinstance(none, Unknown)
    assert none.reason is Reason.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("ro iommu=pt", "passthrough"),
        ("intel_iommu=on,sm_on iommu=pt quiet", "passthrough"),
        ("iommu.passthrough=1", "passthrough"),
        ("intel_iommu=off iommu=pt", "off"),
        ("amd_iommu=off", "off"),
        ("iommu=off", "off"),
        ("iommu=nopt", "translated"),
        ("iommu.passthrough=0", "translated"),
        ("intel_iommu=on", None),
        ("root=/dev/iommu=pt", None),
        ("", None),
    ],
)
def test_iommu_by_the_command_line(line: str, mode: str | None) -> None:
    assert iommu_of_command_line(line) == mode


@pytest.mark.parametrize(
    ("types", "mode"),
    [
        (["identity", "identity"], "passthrough"),
        (["identity", "DMA-FQ"], "translated"),
        (["DMA"], "translated"),
        (["?"], None),
        ([], None),
    ],
)
def test_iommu_by_domain_types(types: list[str], mode: str | None) -> None:
    assert iommu_of_types(types) == mode


def test_values_of_the_last_start_in_a_log() -> None:
    log = parse_boot_log(
        "[    0.000000] Command line: ro\n[    0.5] iommu: Default domain type: Translated\n"
        "[    0.0] Command line: ro iommu=pt quiet\n"
        "[    0.5] iommu: Default domain type: Passthrough (set via kernel command line)\n"
        "[    1.1] clocksource: Switched to clocksource tsc\n"
    )
    assert (log.command_line, log.iommu, log.clocksource) == ("ro iommu=pt quiet", "passthrough", "tsc")


def test_a_process_name_may_hold_anything() -> None:
    process = parse_process("77 (irq/1) D (x) D 1 77")
    assert process is not None
    assert (process.pid, process.name, process.state) == (77, "irq/1) D (x", "D")
    assert parse_process("gone") is None


def test_capabilities_by_bit() -> None:
    assert parse_capabilities("0000000000004000") == ("ipc_lock",)
    assert parse_capabilities("0000000000804000") == ("ipc_lock", "sys_nice")
    assert parse_capabilities("0") == ()
    assert isinstance(parse_capabilities("g" * 16), Unknown)


def test_settings_of_systemd() -> None:
    text = "[Journal]\nRemoveIPC=no\n[Login]\n# a remark\n#RemoveIPC=yes\nKillUserProcesses = no\n"
    assert parse_settings(text, "Login") == {"KillUserProcesses": "no"}
    assert parse_commented(text, "Login") == {"RemoveIPC": "yes"}
    assert parse_switch("Yes") is True
    assert parse_switch("off") is False
    assert isinstance(parse_switch("maybe"), Unknown)


def test_the_word_in_brackets_is_the_chosen_value() -> None:
    assert parse_chosen("always [madvise] never") == "madvise"
    assert isinstance(parse_chosen("always madvise never"), Unknown)


@given(st.one_of(st.text(), st.text(alphabet="[]=#;()0 \nNormalzoeDMA-", max_size=200)))
def test_nothing_breaks_and_nothing_is_invented(text: str) -> None:
    blocks = parse_buddyinfo(text)
    assert isinstance(blocks, Unknown) or blocks >= 0
    assert iommu_of_command_line(text) in (None, "off", "passthrough", "translated")
    parse_settings(text, "Login")
    parse_commented(text, "Login")
    log = parse_boot_log(text)
    assert log.command_line is None or log.command_line in text
    process = parse_process(text)
    assert process is None or process.name in text
    capabilities = parse_capabilities(text)
    assert isinstance(capabilities, Unknown) or len(capabilities) <= 41
    chosen = parse_chosen(text)
    assert isinstance(chosen, Unknown) or f"[{chosen}]" in text
