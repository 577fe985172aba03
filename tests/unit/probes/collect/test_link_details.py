"""Test how links between GPUs and NICs are counted, and when a live machine is asked for the matrix."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.topology import collect_topology
from probes.facts import Link
from probes.sources.base import NvmlValue
from tests.support.fake_source import FakeSource

ADDRESSES = ("00000000:18:00.0", "00000000:38:00.0")
PATHS = {
    f"/sys/bus/pci/devices/0000:{bus}:00.0": f"/sys/devices/pci0000:{bus}/0000:{bus}:00.0"
    for bus in ("18", "38")
}
MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tSYS\t0-3\nGPU1\tSYS\tX\t0-3\n"
TOPO = "nvidia-smi topo -m"
SWITCH = "switch"
DENIED = Unknown(Reason.NOT_SUPPORTED, "Not Supported")
HIDDEN = Unknown(Reason.ERROR, "GPU is lost")


def machine(
    links: tuple[Mapping[int, tuple[int | Unknown, str]] | Unknown, ...],
    *,
    ancestor: NvmlValue | Unknown = DENIED,
    paths: Mapping[str, str] = PATHS,
    live: bool = False,
    matrix: str | None = None,
    peers: Mapping[tuple[int, int], NvmlValue | Unknown] | None = None,
) -> FakeSource:
    """Return GPUs with `links`: state and remote end by port, or the reason why NVML hides the ports."""

    def nvml(call: str, *args: int) -> NvmlValue | Unknown:
        if call == "nvmlDeviceGetCount":
            return len(links)
        if call == "nvmlDeviceGetPciInfo":
            return {"busId": ADDRESSES[args[0]]} if args[0] < 2 else DENIED
        if call == "nvmlDeviceGetTopologyCommonAncestor":
            return ancestor
        if call == "nvmlDeviceGetP2PStatus":
            return (peers or {}).get(args[:2], DENIED)
        if not call.startswith("nvmlDeviceGetNvLink"):
            return DENIED
        ports = links[args[0]]
        if isinstance(ports, Unknown) or args[1] not in ports:
            return ports if isinstance(ports, Unknown) else DENIED
        state, remote = ports[args[1]]
        if call == "nvmlDeviceGetNvLinkState":
            return state
        if call == "nvmlDeviceGetNvLinkRemoteDeviceType":
            return 2 if remote == SWITCH else 0
        return {"busId": remote}

    files = {f"{folder}/numa_node": "0\n" if folder.endswith("18:00.0") else "1\n" for folder in paths}
    source = FakeSource(files=files, nvml=nvml, links=paths, commands={TOPO: matrix} if matrix else {})
    source.is_live = live
    return source


def only_link(source: FakeSource) -> Link:
    (link,) = collect_topology(source, CollectOptions())["links"]  # type: ignore[misc]
    assert isinstance(link, Link)
    return link


def ports(up: int, remote: str, down: int = 0) -> dict[int, tuple[int | Unknown, str]]:
    return {port: (1 if port < up else 0, remote) for port in range(up + down)}


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (ports(4, ADDRESSES[1]), ports(4, ADDRESSES[0]), 4),
        (ports(4, ADDRESSES[1], down=2), ports(4, ADDRESSES[0], down=2), 4),
        (ports(18, SWITCH), ports(17, SWITCH), 17),
        (ports(17, SWITCH, down=1), ports(18, SWITCH), 17),
        (ports(1, SWITCH), ports(1, SWITCH), 1),
        (ports(1, SWITCH), {}, None),
        # Links to a third GPU are no links of this pair.
        (ports(4, "00000000:77:00.0"), ports(4, "00000000:77:00.0"), None),
        (ports(4, SWITCH), HIDDEN, None),
        (HIDDEN, HIDDEN, None),
    ],
)
def test_the_number_of_links_between_two_gpus(
    first: dict[int, tuple[int | Unknown, str]],
    second: dict[int, tuple[int | Unknown, str]],
    count: int | None,
) -> None:
    link = only_link(machine((first, second)))
    assert link.nvlink_count == count
    assert (link.kind == "NVLINK") is (count is not None)


@pytest.mark.parametrize(
    ("ancestor", "ports_of_second", "kind", "sees"),
    [
        (30, {}, "PHB", True),
        (30, HIDDEN, "PHB", False),
        (31, {}, "SYS", None),
        (DENIED, {}, "SYS", None),
        ("30", {}, "SYS", None),
    ],
)
def test_the_distance_by_nvml_precedes_that_of_the_paths(
    ancestor: NvmlValue | Unknown,
    ports_of_second: dict[int, tuple[int | Unknown, str]] | Unknown,
    kind: str,
    sees: bool | None,
) -> None:
    link = only_link(machine(({}, ports_of_second), ancestor=ancestor))
    by_nvml = link.evidence[0].source == "nvml"
    assert by_nvml is (sees is not None)
    if by_nvml:
        assert (link.kind, link.sees_nvlink) == (kind, sees)


@pytest.mark.parametrize(
    ("paths", "live", "asked"), [(PATHS, True, []), ({}, True, [TOPO]), (PATHS, False, [TOPO])]
)
def test_a_live_machine_prints_the_matrix_only_if_a_link_is_unknown(
    paths: dict[str, str], live: bool, asked: list[str]
) -> None:
    source = machine(({}, {}), paths=paths, live=live, matrix=MATRIX)
    link = only_link(source)
    assert source.asked == asked
    assert link.kind == "SYS"


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (MATRIX, 1),
        ("\tGPU0\tCPU Affinity\nGPU0\tX\t0-3\n", 0),
        ("\tGPU0\tGPU1\n", Reason.TOOL_MISSING),
        (None, None),
    ],
)
def test_a_matrix_without_pairs_is_an_answer_but_a_damaged_one_is_not(
    matrix: str | None, expected: object
) -> None:
    gpu = "/sys/bus/pci/devices/0000:18:00.0"
    files = {f"{gpu}/vendor": "0x10de\n", f"{gpu}/class": "0x030200\n"}
    source = FakeSource(files=files, commands={TOPO: matrix} if matrix else {})
    links = collect_topology(source, CollectOptions())["links"]
    if isinstance(links, Unknown):
        assert expected in (None, links.reason)
    else:
        assert isinstance(links, tuple)
        assert len(links) == expected


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        ({(0, 1): 0, (0, 2): 0, (1, 2): 0}, ["GPU0-GPU1", "GPU0-GPU2", "GPU1-GPU2"]),
        ({(0, 1): 0, (0, 2): Unknown(Reason.TIMEOUT, "x"), (1, 2): 0}, ["GPU0-GPU1", "GPU1-GPU2"]),
        ({(0, 1): 0, (0, 2): Unknown(Reason.ERROR, "x"), (1, 2): 0}, Reason.ERROR),
        (dict.fromkeys(((0, 1), (0, 2), (1, 2)), Unknown(Reason.TIMEOUT, "x")), Reason.TIMEOUT),
    ],
)
def test_a_gpu_that_hangs_hides_only_its_own_pairs(
    peers: dict[tuple[int, int], NvmlValue | Unknown], expected: object
) -> None:
    access = collect_topology(machine(({}, {}, {}), peers=peers), CollectOptions())["peer_access"]
    if isinstance(access, Unknown):
        assert access.reason == expected
    else:
        assert isinstance(access, tuple)
        assert list(dict.fromkeys(f"{pair.a}-{pair.b}" for pair in access)) == expected
