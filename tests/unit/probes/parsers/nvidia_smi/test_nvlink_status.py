"""`nvidia-smi nvlink -s`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.parsers.nvidia_smi.nvlink_status import NvlinkStatus, parse_nvlink_status

FULL = (
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
    "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n\t Link 17: 26.562 GB/s\n"
)


def parsed(text: str) -> tuple[NvlinkStatus, ...]:
    status = parse_nvlink_status(text)
    assert isinstance(status, tuple), status
    return status


def test_links_with_their_state_and_speed() -> None:
    first, second = parsed(FULL)
    assert isinstance(first.nvlinks, tuple)
    assert isinstance(second.nvlinks, tuple)
    assert [(link.index, link.active) for link in first.nvlinks] == [(0, True), (1, False)]
    assert first.nvlinks[0].bandwidth_bytes_per_s == pytest.approx(26.562e9)
    assert isinstance(first.nvlinks[1].bandwidth_bytes_per_s, Unknown)
    assert [link.index for link in second.nvlinks] == [0, 17]
    assert (first.name, second.uuid) == ("NVIDIA H100 80GB HBM3", "GPU-2")
    assert (first.line, second.line) == (1, 4)


def test_a_fragment_without_a_heading_cites_its_first_link() -> None:
    (status,) = parsed("\n" + FULL.split("\n", 1)[1].partition("GPU 1")[0])
    assert (status.line, isinstance(status.name, Unknown)) == (2, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("NVML: Unable to retrieve NVLink information as all links are inactive", Reason.ERROR),
        ("NVML: Unable to retrieve Nvlink information as all links are inActive", Reason.ERROR),
        ("Nvlink queries are not supported for Devices in MIG mode", Reason.NOT_SUPPORTED),
        ("", Reason.NOT_RECORDED),
    ],
)
def test_words_in_place_of_links(words: str, reason: Reason) -> None:
    (status,) = parsed(f"GPU 6: NVIDIA A100-SXM4-80GB (UUID: GPU-9)\n{words}\n")
    assert isinstance(status.nvlinks, Unknown)
    assert status.nvlinks.reason is reason


def test_a_gpu_without_nvlink_has_none() -> None:
    assert (
        parsed("GPU 0: NVIDIA L40S (UUID: GPU-0)\nDevice does not have or support Nvlink\n")[0].nvlinks == ()
    )


@given(st.integers(0, len(FULL)))
def test_a_cut_text_never_invents_links(length: int) -> None:
    part = parse_nvlink_status(FULL[:length])
    for status in part if isinstance(part, tuple) else ():
        whole = {gpu.index: gpu for gpu in parsed(FULL)}[status.index].nvlinks
        if isinstance(status.nvlinks, tuple):
            assert isinstance(whole, tuple)
            assert set(status.nvlinks) <= set(whole)


@given(st.text(alphabet="GPU 0: Link 1GB/s<inactive>NVML\n", max_size=200))
def test_random_text_never_raises(text: str) -> None:
    parse_nvlink_status(text)
