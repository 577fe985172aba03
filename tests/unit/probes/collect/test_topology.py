"""Test the distances between GPUs and NICs."""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.topology import collect_topology
from probes.facts import Link
from probes.sources.base import NvmlValue
from tests.support.fake_source import FakeSource

ROOT = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0"
GPU_PATHS = [f"{ROOT}/0000:17:00.0/0000:18:00.0", "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0"]
NIC_PATH = f"{ROOT}/0000:17:01.0/0000:19:00.0"
MATRIX = (
    "\tGPU0\tGPU1\tNIC0\nGPU0\tX\tNV6\tPHB\nGPU1\tNV6\tX\tSYS\nNIC0\tPHB\tSYS\tX\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n"
)


class Nvml:
    """Two GPUs with `switch` links to a switch and `direct` links to each other."""

    def __init__(
        self,
        *,
        switch: tuple[int, int] = (0, 0),
        direct: int = 0,
        ancestor: NvmlValue | Unknown = NOT_RECORDED,
    ) -> None:
        self.switch, self.direct, self.ancestor = switch, direct, ancestor

    def __call__(self, call: str, *args: int) -> NvmlValue | Unknown:
        addresses = ["00000000:18:00.0", "00000000:38:00.0"]
        if call == "nvmlDeviceGetCount":
            return 2
        if call == "nvmlDeviceGetPciInfo":
            return {"busId": addresses[args[0]]}
        if call == "nvmlDeviceGetTopologyCommonAncestor":
            return self.ancestor
        if call == "nvmlDeviceGetNvLinkState":
            total = self.direct or self.switch[args[0]]
            return 1 if args[1] < total else Unknown(Reason.NOT_SUPPORTED, "Not Supported")
        if call == "nvmlDeviceGetNvLinkRemoteDeviceType":
            return 0 if self.direct else 2
        if call == "nvmlDeviceGetNvLinkRemotePciInfo":
            return {"busId": addresses[1 - args[0]]}
        return Unknown(Reason.NOT_SUPPORTED, "Not Supported")


def machine(nvml: Nvml | None, *, nic: bool = True, commands: dict[str, str] | None = None) -> FakeSource:
    links = {f"/sys/bus/pci/devices/{path[-12:]}": path for path in GPU_PATHS}
    files = {
        f"/sys/bus/pci/devices/{path[-12:]}/numa_node": f"{node}\n" for node, path in enumerate(GPU_PATHS)
    }
    if nic:
        links["/sys/class/infiniband/mlx5_0/device"] = NIC_PATH
        files["/sys/class/infiniband/mlx5_0/fw_ver"] = "1"
        files["/sys/bus/pci/devices/0000:19:00.0/numa_node"] = "0\n"
    return FakeSource(files=files, links=links, nvml=nvml, commands=commands)


def links(source: FakeSource) -> tuple[Link, ...] | Unknown:
    records = collect_topology(source, CollectOptions())["links"]
    assert isinstance(records, tuple | Unknown)
    return records


def kinds(source: FakeSource) -> dict[tuple[str, str], str]:
    records = links(source)
    assert isinstance(records, tuple)
    return {(link.a, link.b): f"{link.kind}{link.nvlink_count or ''}" for link in records}


def test_switch_links_count_as_those_of_the_lesser_gpu() -> None:
    assert kinds(machine(Nvml(switch=(18, 17)), nic=False)) == {("GPU0", "GPU1"): "NVLINK17"}


def test_direct_nvlinks_are_counted() -> None:
    assert kinds(machine(Nvml(direct=4), nic=False)) == {("GPU0", "GPU1"): "NVLINK4"}


def test_gpus_without_nvlink_have_the_distance_of_nvml() -> None:
    assert kinds(machine(Nvml(ancestor=40), nic=False)) == {("GPU0", "GPU1"): "NODE"}
    assert kinds(machine(Nvml(ancestor=0), nic=False)) == {("GPU0", "GPU1"): "PIX"}


def test_distances_follow_from_the_paths_of_devices_without_any_command() -> None:
    source = machine(Nvml())
    source.is_live = True
    assert kinds(source) == {("GPU0", "GPU1"): "SYS", ("GPU0", "mlx5_0"): "PIX", ("GPU1", "mlx5_0"): "SYS"}
    assert source.asked == []


def test_every_link_has_its_source() -> None:
    for source in (
        machine(Nvml(switch=(18, 18))),
        machine(Nvml(ancestor=50)),
        machine(None, commands={"nvidia-smi topo -m": MATRIX}),
    ):
        records = links(source)
        assert isinstance(records, tuple)
        assert all(link.evidence for link in records)


def test_the_matrix_fills_in_what_the_paths_leave_open() -> None:
    source = machine(Nvml(), commands={"nvidia-smi topo -m": MATRIX})
    source.links["/sys/bus/pci/devices/0000:18:00.0"] = "/sys/devices/platform/somewhere"
    assert kinds(source) == {
        ("GPU0", "GPU1"): "NVLINK6",
        ("GPU0", "mlx5_0"): "PHB",
        ("GPU1", "mlx5_0"): "SYS",
    }


def test_a_link_that_no_source_describes_is_unknown() -> None:
    source = machine(Nvml())
    source.links["/sys/bus/pci/devices/0000:18:00.0"] = "/sys/devices/platform/somewhere"
    records = links(source)
    assert isinstance(records, tuple)
    assert [isinstance(link.kind, Unknown) for link in records] == [True, True, False]


def test_without_nvml_the_matrix_is_used() -> None:
    records = kinds(machine(None, commands={"nvidia-smi topo -m": MATRIX}))
    assert records == {("GPU0", "GPU1"): "NVLINK6", ("GPU0", "mlx5_0"): "PHB", ("GPU1", "mlx5_0"): "SYS"}


def test_nics_of_a_machine_without_gpus_are_linked() -> None:
    source = FakeSource(
        links={
            f"/sys/class/infiniband/mlx5_{i}/device": f"{ROOT}/0000:17:01.0/0000:19:00.{i}" for i in range(2)
        },
        files={f"/sys/bus/pci/devices/0000:19:00.{i}/numa_node": "0" for i in range(2)}
        | {"/proc/bus/pci/devices": ""},
    )
    assert kinds(source) == {("mlx5_0", "mlx5_1"): "PIX"}


def test_a_machine_without_gpus_and_nics_has_no_links() -> None:
    assert links(FakeSource()) == ()


def test_links_of_gpus_that_no_driver_answers_for_are_unknown() -> None:
    source = FakeSource(
        files={
            "/proc/bus/pci/devices": "1b00\t10de2330\t10\n",
            "/sys/bus/pci/devices/0000:1b:00.0/vendor": "0x10de",
            "/sys/bus/pci/devices/0000:1b:00.0/class": "0x030200",
        }
    )
    assert isinstance(links(source), Unknown)


def test_nothing_recorded() -> None:
    records = links(FakeSource(missing=Reason.NOT_RECORDED))
    assert isinstance(records, Unknown)
    assert records.reason is Reason.NOT_RECORDED
