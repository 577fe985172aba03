"""Lines of the Fabric Manager, which `check` and `explain` must read alike."""

from __future__ import annotations

import pytest

from probes.collect.collecting import CollectOptions, assemble, gather
from probes.logs.reading import Reading
from probes.sources.loose import open_loose

LINES = {
    "[Jan 20 2026 10:00:00] [ERROR] [tid 88] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci "
    "bus id "
    "00000000:C1:00.0 physical id 8 port 30": ("sxid", "fabric_manager.switch-error"),
    "[Jan 20 2026 10:00:00] [ERROR] [tid 88] failed to configure the NVSwitch routing of a port": (
        "fabric-manager",
        "fabric_manager.failed",
    ),
    "Jan 20 10:00:00 gpu-7 nv-fabricmanager[77]: failed to allocate the resources of a partition": (
        "fabric-manager",
        "fabric_manager.failed",
    ),
    "nv-fabricmanager[77]: failed to allocate the resources of a partition": (
        "fabric-manager",
        "fabric_manager.failed",
    ),
    "nvidia-fabricmanager.service: Failed with result 'exit-code'.": (
        "fabric-manager",
        "fabric_manager.failed",
    ),
    "nv-fabricmanager[77]: fabric manager NVIDIA GPU driver interface version 550.54.15 don't match with "
    "driver version "
    "550.90.07. Please update with matching NVIDIA driver package.": (
        "fabric-manager",
        "fabric_manager.mismatch",
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_both_commands_report_a_line(line: str) -> None:
    source = open_loose([("fabricmanager.log", f"{line}\n".encode())])
    events = assemble(source.title, gather(source, CollectOptions())).events
    assert isinstance(events, tuple)
    reading = Reading()
    log = reading.source("fabricmanager.log")
    reading.feed(log, f"{line}\n".encode())
    log.end()
    kinds = [event.kind for event in reading.events() if event.kind.startswith("fabric_manager.")]

    assert (*(event.kind for event in events), *kinds) == LINES[line]
