"""Test which PCIe errors of a kernel log are fatal."""

from __future__ import annotations

import pytest

from probes.parsers.kernel.kernel_log import parse_kernel_log


@pytest.mark.parametrize(
    ("severity", "fatal"),
    [("Uncorrected (Fatal)", True), ("Uncorrected (Non-Fatal)", False), ("Corrected", False)],
)
def test_only_an_uncorrected_error_can_be_fatal(severity: str, fatal: bool) -> None:
    line = (
        f"[ 10.000000] nvidia 0000:17:00.0: AER: PCIe Bus Error: severity={severity}, type=Data Link Layer\n"
    )
    (event,) = parse_kernel_log(line).events
    assert bool(event.fatal) is fatal
    assert event.device == "0000:17:00"
