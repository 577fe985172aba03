"""Test limits and less common answers of a host: processors, NUMA nodes, kernel files, versions."""

from __future__ import annotations

from typing import Any

import pytest

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.kernel import collect_clock, collect_kernel
from probes.collect.processors import collect_cpu, collect_numa
from probes.collect.resources import collect_storage
from probes.collect.software import collect as collect_software
from probes.collect.surroundings import collect_container, collect_scheduler
from probes.sources.base import CommandResult
from tests.support.fake_source import Answer, FakeSource

CPUS = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"


def field(collect: Any, name: str, source: FakeSource) -> Any:
    return collect(source, CollectOptions())[name]


def reason_or_value(value: Any) -> Any:
    return value.reason if isinstance(value, Unknown) else value


def test_the_highest_frequency_is_in_mhz() -> None:
    source = FakeSource(files={f"{CPUS}/cpu0/cpufreq/cpuinfo_max_freq": "3800000\n"})
    assert field(collect_cpu, "cpu", source).max_mhz == 3800


@pytest.mark.parametrize(
    ("files", "cpus", "threads"),
    [
        ({"online": "0-7\n", "cpu0/topology/thread_siblings_list": "0,4\n"}, 8, 2),
        ({"online": "2-3\n", "cpu2/topology/thread_siblings_list": "2-3\n"}, 2, 2),
        # Without the list, the folders are counted; other names have the same beginning.
        ({"cpu0/x": "", "cpu1/x": "", "cpufreq/x": "", "cpu99999/x": "", "cpu100000/x": ""}, 3, None),
        ({"online": "\n"}, 0, None),
    ],
)
def test_cpus_that_are_online_and_the_threads_of_a_core(
    files: dict[str, str], cpus: int, threads: int | None
) -> None:
    cpu = field(
        collect_cpu, "cpu", FakeSource(files={f"{CPUS}/{path}": text for path, text in files.items()})
    )
    assert cpu.logical_cpus == cpus
    assert cpu.threads_per_core == threads or (threads is None and isinstance(cpu.threads_per_core, Unknown))


@pytest.mark.parametrize(
    ("packages", "expected"), [((0, 0), (1, 2)), ((0, 1), (2, 2)), ((-1, -1), Reason.NOT_SUPPORTED)]
)
def test_sockets_of_a_platform_that_may_not_state_packages(
    packages: tuple[int, int], expected: object
) -> None:
    files = {f"{CPUS}/online": "0-1\n"}
    for number, package in enumerate(packages):
        files[f"{CPUS}/cpu{number}/topology/physical_package_id"] = f"{package}\n"
        files[f"{CPUS}/cpu{number}/topology/core_id"] = f"{number}\n"
    cpu = field(collect_cpu, "cpu", FakeSource(files=files))
    if isinstance(expected, Reason):
        assert (cpu.sockets.reason, cpu.physical_cores.reason) == (expected, expected)
    else:
        assert (cpu.sockets, cpu.physical_cores) == expected


@pytest.mark.parametrize(
    ("online", "names", "expected"),
    [
        (None, (), ()),
        (Unknown(Reason.PERMISSION, "no"), (), Reason.PERMISSION),
        (Unknown(Reason.PERMISSION, "no"), ("node1", "node0"), [0, 1]),
        ("0\n", (), [0]),
    ],
)
def test_a_kernel_without_numa_has_no_nodes_and_a_closed_folder_is_unknown(
    online: str | Unknown | None, names: tuple[str, ...], expected: object
) -> None:
    files: dict[str, str | Unknown] = {f"{NODES}/{name}/cpulist": "0-3\n" for name in names}
    if online is not None:
        files[f"{NODES}/online"] = online

    class Closed(FakeSource):
        def names(self, directory: str) -> tuple[str, ...] | Unknown:
            return names or Unknown(Reason.PERMISSION, "no")

    nodes = field(collect_numa, "numa_nodes", Closed(files=files))
    assert (
        reason_or_value(nodes) if not isinstance(nodes, tuple) else [node.index for node in nodes] or ()
    ) == expected


@pytest.mark.parametrize(
    ("cpulist", "online", "expected"),
    [
        ("0-3", "0-3", "0-3"),
        ("0-3", "0-7", "0-3"),
        ("0,1,2,3", "0-3", "0,1,2,3"),
        ("0-3", "0-1,3", "0-1,3"),
        ("0-3", "", "0-3"),
    ],
)
def test_cpus_of_a_node_that_are_offline_are_left_out(cpulist: str, online: str, expected: str) -> None:
    files = {f"{NODES}/online": "0\n", f"{NODES}/node0/cpulist": cpulist, f"{CPUS}/online": online}
    (node,) = field(collect_numa, "numa_nodes", FakeSource(files=files))
    assert node.cpus == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 21\n", (10, 21)),
        ("9999\n", (9999,)),
        ("10000\n", Reason.UNPARSABLE),
        ("10 -1\n", Reason.UNPARSABLE),
        ("\n", Reason.UNPARSABLE),
    ],
)
def test_the_distances_of_a_node(text: str, expected: object) -> None:
    files = {f"{NODES}/online": "0\n", f"{NODES}/node0/distance": text}
    (node,) = field(collect_numa, "numa_nodes", FakeSource(files=files))
    assert reason_or_value(node.distances) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("32768 60999\n", (32768, 60999)),
        ("1 99999\n", (1, 99999)),
        ("1 100000\n", None),
        ("-1 60999\n", None),
        ("32768\n", None),
        ("1 2 3\n", None),
    ],
)
def test_the_range_of_local_ports(text: str, expected: tuple[int, int] | None) -> None:
    kernel = field(
        collect_kernel, "kernel", FakeSource(files={"/proc/sys/net/ipv4/ip_local_port_range": text})
    )
    ports = (kernel.local_port_first, kernel.local_port_last)
    assert ports == expected or (expected is None and isinstance(ports[0], Unknown))


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({"mc0": "2\n", "mc1": "3\n"}, 5),
        ({"mc0": "2\n", "mc_poll": "7\n", "power1": "9\n", "0012": "9\n"}, 2),
        ({"mc0": "0\n"}, 0),
        ({"power": "1\n"}, Reason.NOT_SUPPORTED),
    ],
)
def test_errors_of_all_memory_controllers_are_added(counters: dict[str, str], expected: object) -> None:
    files = {f"/sys/devices/system/edac/mc/{name}/ce_count": text for name, text in counters.items()}
    kernel = field(collect_kernel, "kernel", FakeSource(files=files))
    assert reason_or_value(kernel.memory_errors_corrected) == expected


@pytest.mark.parametrize(("most", "expected"), [(2, 1), (1, Reason.ERROR)])
def test_at_most_a_number_of_processes_is_read(
    most: int, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.collect.kernel._MOST_PROCESSES", most)
    files = {f"/proc/{pid}/stat": f"{pid} (python3) {state} 1\n" for pid, state in ((7, "Z"), (8, "S"))}
    kernel = field(collect_kernel, "kernel", FakeSource(files=files))
    assert reason_or_value(kernel.zombie_processes) == expected


def test_the_question_whether_the_clock_is_synchronised_ends_after_five_seconds() -> None:
    waits = {}

    class Timed(FakeSource):
        def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
            waits[argv[0]] = timeout_s
            return super().run(argv, timeout_s=timeout_s)

    collect_clock(Timed(), CollectOptions())
    assert waits == {"timedatectl": 5}


@pytest.mark.parametrize(
    ("device", "listed", "is_known"),
    [("/dev/vda", "/dev/vda", True), ("/dev/vda", "/dev/vdb", False), ("tmpfs", "tmpfs", False)],
)
def test_only_a_block_device_shares_its_space_with_other_mounts(
    device: str, listed: str, is_known: bool
) -> None:
    """df lists a device with several mount points once; two file systems in memory have the same name."""
    df = f"Filesystem 1024-blocks Used Available Capacity Mounted on\n{listed} 100 60 40 60% /a\n"
    mounts = f"{listed} /a ext4 rw 0 0\n{device} /b ext4 rw 0 0\n"
    source = FakeSource(files={"/proc/self/mounts": mounts}, commands={"df -Pk": df})
    _, second = field(collect_storage, "storage", source)
    assert isinstance(second.free_bytes, Unknown) is not is_known


@pytest.mark.parametrize(
    ("root", "runtime"),
    [
        ("/var/lib/enroot/data/job", "enroot"),
        ("/pyxis_77", "enroot"),
        ("/docker/overlay", None),
    ],
)
def test_a_container_of_enroot_by_its_root(root: str, runtime: str | None) -> None:
    files = {"/proc/self/mountinfo": f"1 0 0:5 {root} / rw - overlay x rw\n", "/proc/self/cgroup": "0::/\n"}
    assert field(collect_container, "container", FakeSource(files=files)).runtime == runtime


DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
QUERY = "nvidia-smi -q -x"
XML = """<nvidia_smi_log><driver_version>535.1</driver_version><cuda_version>12.2</cuda_version>
<attached_gpus>1</attached_gpus><gpu id="00000000:1B:00.0"></gpu></nvidia_smi_log>"""
LATE = Unknown(Reason.TIMEOUT, "late")


@pytest.mark.parametrize(
    ("nvml", "smi", "live", "expected"),
    [
        (12080, XML, True, "12.8"),
        (Unknown(Reason.TOOL_MISSING, "x"), XML, True, "12.2"),
        (Unknown(Reason.ERROR, "x"), XML, True, "12.2"),
        # nvidia-smi would hang like the library.
        (LATE, XML, True, Reason.TIMEOUT),
        (LATE, XML, False, "12.2"),
        (True, XML, True, "12.2"),
        (Unknown(Reason.ERROR, "x"), LATE, True, Reason.ERROR),
        (NOT_RECORDED, LATE, True, Reason.TIMEOUT),
        ("x", LATE, True, Reason.TIMEOUT),
    ],
)
def test_the_cuda_version_of_the_driver(nvml: Any, smi: Answer, live: bool, expected: object) -> None:
    source = FakeSource(nvml={"nvmlSystemGetCudaDriverVersion": nvml}, commands={QUERY: smi})
    source.is_live = live
    assert reason_or_value(field(collect_software, "software", source).cuda_driver_version) == expected


UNIT = {"/lib/systemd/system/nvidia-fabricmanager.service": "[Unit]"}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (CommandResult(exit_code=3, stdout=b"failed\n"), "failed"),
        (CommandResult(exit_code=1, stderr=b"no bus " * 40), ("no bus " * 40)[:120]),
        (CommandResult(exit_code=1), "systemctl printed nothing"),
    ],
)
def test_the_state_of_the_fabric_manager(result: CommandResult, expected: str) -> None:
    source = FakeSource(files=UNIT, commands={"systemctl is-active nvidia-fabricmanager": result})
    state = field(collect_software, "software", source).fabric_manager
    assert (state.detail if isinstance(state, Unknown) else state) == expected


@pytest.mark.parametrize("paths", [("/etc/os-release", "/usr/lib/os-release")])
def test_an_unknown_operating_system_has_the_reason_of_the_last_file(paths: tuple[str, str]) -> None:
    files = {path: Unknown(Reason.PERMISSION, path) for path in paths}
    assert field(collect_software, "software", FakeSource(files=files)).operating_system == files[paths[-1]]


@pytest.mark.parametrize(("variable", "asked"), [("/opt/slurm.conf", True), ("", False), (None, False)])
def test_the_client_of_slurm_is_started_if_the_variable_names_a_configuration(
    variable: str | None, asked: bool
) -> None:
    env = {} if variable is None else {"SLURM_CONF": variable}
    source = FakeSource(env=env, links={variable: variable} if variable else {"": ""})
    field(collect_software, "software", source)
    assert ("sinfo --version" in source.asked) is asked


HEAD = "Module                  Size  Used by\n"


@pytest.mark.parametrize(
    ("lsmod", "expected"),
    [
        (f"{HEAD}nvidia_peermem 16384 0\nnvidia 56000000 2\n", True),
        (f"{HEAD}nvidia 56000000 2\n", False),
        ("nvidia_peermem 16384 0\nnvidia 56000000 2\n", True),
        ("nvidia 56000000 2\n", None),
    ],
)
def test_only_a_whole_list_of_modules_shows_that_one_is_not_loaded(lsmod: str, expected: bool | None) -> None:
    source = FakeSource(given={"lsmod": lsmod}, missing=Reason.NOT_RECORDED)
    loaded = field(collect_software, "software", source).peermem_loaded
    assert loaded is expected or (expected is None and isinstance(loaded, Unknown))


def test_slurm_is_read_from_the_folder_of_the_configuration_that_the_job_names() -> None:
    path = "/opt/slurm/slurm.conf"
    source = FakeSource(files={path: "GresTypes=gpu\n"}, env={"SLURM_CONF": path, "SLURM_JOB_ID": "1"})
    job = field(collect_scheduler, "scheduler", source)
    assert path in [ref.key for ref in job.evidence]
