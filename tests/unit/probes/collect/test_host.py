"""Test CPU, NUMA, memory, limits, storage, container, cloud, scheduler and software."""

from __future__ import annotations

from typing import Any

import pytest

from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.identity import collect_hostname
from probes.collect.processors import collect_cpu, collect_numa
from probes.collect.resources import collect_limits, collect_memory, collect_storage
from probes.collect.software import collect as collect_software
from probes.collect.surroundings import collect_cloud, collect_container, collect_scheduler
from probes.facts import Cloud, Container, Cpu, Limits, Memory, Scheduler, Software
from probes.sources.base import CommandResult
from tests.support.fake_source import FakeSource

CPUINFO = "".join(
    f"processor\t: {i}\nmodel name\t: Xeon\nphysical id\t: 0\ncore id\t: {i}\nflags\t: lm avx2 hypervisor\n\n"
    for i in range(8)
)
V2 = {
    "/proc/self/cgroup": "0::/job/task\n",
    "/proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "/sys/fs/cgroup/job/task/memory.max": "max\n",
    "/sys/fs/cgroup/job/task/cpu.max": "max 100000\n",
    "/sys/fs/cgroup/job/memory.max": "4294967296\n",
    "/sys/fs/cgroup/job/cpu.max": "250000 100000\n",
}
V1 = {
    "/proc/self/cgroup": "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n",
    "/proc/self/mountinfo": (
        "31 30 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "32 30 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
    ),
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "8589934592\n",
    "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
    "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
}
STATUS = {"/proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-5\n", "/proc/cpuinfo": CPUINFO}
MEMINFO = {"/proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 60 kB\nSwapTotal: 0 kB\n"}


def field(collect: Any, name: str, source: FakeSource) -> Any:
    return collect(source, CollectOptions())[name]


@pytest.mark.parametrize(
    ("groups", "allowed", "limit"),
    [
        (V2, 2, 4 * 1024**3),
        (V1, 4, 8 * 1024**3),
        ({}, 6, None),
        (V2 | {"/sys/fs/cgroup/job/memory.max": "max", "/sys/fs/cgroup/job/cpu.max": "max 100000"}, 6, None),
        (V2 | {"/sys/fs/cgroup/job/cpu.max": "50000 100000"}, 1, 4 * 1024**3),
        (V1 | {"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 4, None),
        (V1 | {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1"}, 6, 8 * 1024**3),
    ],
    ids=[
        "version 2 of a parent",
        "version 1 in docker",
        "no groups",
        "version 2 open",
        "half a CPU",
        "memory open",
        "CPU open",
    ],
)
def test_limits_of_control_groups(groups: dict[str, str], allowed: int, limit: int | None) -> None:
    source = FakeSource(files=STATUS | MEMINFO | groups)
    assert field(collect_cpu, "cpu", source).allowed_cpus == allowed
    assert field(collect_memory, "memory", source).limit_bytes == limit


def test_a_limit_that_may_not_be_read_is_unknown() -> None:
    denied = Unknown(Reason.PERMISSION, "no")
    source = FakeSource(files={**STATUS, **MEMINFO, **V2, "/sys/fs/cgroup/job/memory.max": denied})
    memory_facts: Memory = field(collect_memory, "memory", source)
    assert memory_facts.limit_bytes == denied
    assert (memory_facts.total_bytes, memory_facts.available_bytes, memory_facts.swap_total_bytes) == (
        102400,
        61440,
        0,
    )


def test_the_file_that_limits_is_cited() -> None:
    source = FakeSource(files=STATUS | MEMINFO | V2)
    assert "/sys/fs/cgroup/job/cpu.max" in [ref.key for ref in field(collect_cpu, "cpu", source).evidence]
    assert "/sys/fs/cgroup/job/memory.max" in [
        ref.key for ref in field(collect_memory, "memory", source).evidence
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("MemTotal: 100 kB\nMemFree: 60 kB\n", Reason.NOT_SUPPORTED),
        ("MemTotal: 100 kB\n", Reason.NOT_RECORDED),
        ("MemTotal\n", Reason.UNPARSABLE),
    ],
    ids=["old kernel", "part of the file", "damaged"],
)
def test_memory_that_is_not_stated(text: str, reason: Reason) -> None:
    available = field(collect_memory, "memory", FakeSource(files={"/proc/meminfo": text})).available_bytes
    assert isinstance(available, Unknown)
    assert available.reason is reason


def test_cpu() -> None:
    governors = {
        f"/sys/devices/system/cpu/cpufreq/policy{i}/scaling_governor": "performance\n" for i in range(2)
    }
    cpu_facts: Cpu = field(collect_cpu, "cpu", FakeSource(files=STATUS | governors))
    assert (cpu_facts.model, cpu_facts.sockets, cpu_facts.physical_cores, cpu_facts.logical_cpus) == (
        "Xeon",
        1,
        8,
        8,
    )
    assert (cpu_facts.architecture, cpu_facts.governor, cpu_facts.flags) == (
        "x86_64",
        "performance",
        ("avx2",),
    )
    mixed = governors | {"/sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "powersave\n"}
    assert field(collect_cpu, "cpu", FakeSource(files=STATUS | mixed)).governor == "performance, powersave"


def test_cpu_of_an_arm_machine() -> None:
    block = (
        "processor\t: {}\nFeatures\t: asimd\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU part\t: 0xd4f\n\n"
    )
    files = {
        "/proc/cpuinfo": "".join(block.format(i) for i in range(4)),
        "/sys/devices/system/cpu/online": "0-3\n",
    }
    for i in range(4):
        files[f"/sys/devices/system/cpu/cpu{i}/topology/physical_package_id"] = f"{i // 2}\n"
        files[f"/sys/devices/system/cpu/cpu{i}/topology/core_id"] = f"{i % 2}\n"
    cpu_facts: Cpu = field(collect_cpu, "cpu", FakeSource(files=files))
    assert (cpu_facts.sockets, cpu_facts.physical_cores, cpu_facts.architecture) == (2, 4, "aarch64")


def test_a_copied_file_may_end_in_a_nul() -> None:
    files = {"/sys/devices/system/node/online": "0-1\n\0", "/proc/sys/kernel/hostname": "\0node1\n"}
    assert len(field(collect_numa, "numa_nodes", FakeSource(files=files))) == 2
    assert field(collect_hostname, "hostname", FakeSource(files=files)) == "node1"


def test_numa_nodes_need_neither_be_contiguous_nor_have_cpus() -> None:
    files = {"/sys/devices/system/node/online": "0,8\n"}
    files |= {f"/sys/devices/system/node/node{i}/meminfo": f"Node {i} MemTotal: 10 kB\n" for i in (0, 8)}
    files |= {
        "/sys/devices/system/node/node0/cpulist": "0-71\n",
        "/sys/devices/system/node/node8/cpulist": "\n",
    }
    nodes = field(collect_numa, "numa_nodes", FakeSource(files=files))
    assert [(node.index, node.cpus, node.memory_bytes) for node in nodes] == [
        (0, "0-71", 10240),
        (8, "", 10240),
    ]


SHM = "/dev/shm"  # noqa: S108 - a mount point, not a file
TMP = "/tmp"  # noqa: S108 - likewise
DF = (
    "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
    "/dev/vda 100 60 40 60% /\ntmpfs 64 1 63 2% /dev/shm\n"
)
LIMITS = (
    "Max locked memory         unlimited            unlimited            bytes\n"
    "Max open files            1024                 4096                 files\n"
)


def test_limits() -> None:
    limits_facts: Limits = field(
        collect_limits, "limits", FakeSource(files={"/proc/self/limits": LIMITS}, commands={"df -Pk": DF})
    )
    assert (limits_facts.memlock_bytes, limits_facts.nofile) == ("unlimited", 1024)
    assert (limits_facts.shm_bytes, limits_facts.shm_free_bytes) == (64 * 1024, 63 * 1024)
    assert isinstance(limits_facts.stack_bytes, Unknown)


def test_no_shared_memory_is_mounted() -> None:
    source = FakeSource(commands={"df -Pk": DF.replace(SHM, "/mnt")})
    assert isinstance(field(collect_limits, "limits", source).shm_bytes, Unknown)


MOUNTS = (
    "/dev/vda / ext4 rw 0 0\nproc /proc proc rw 0 0\ntmpfs /run tmpfs rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
    "/dev/vda /etc/hosts ext4 rw 0 0\n/dev/vda /bind ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\noverlay "
    "/usr/x overlay rw 0 0\n"
)


def test_storage_is_where_a_job_can_keep_data() -> None:
    filesystems = field(
        collect_storage, "storage", FakeSource(files={"/proc/self/mounts": MOUNTS}, commands={"df -Pk": DF})
    )
    assert [filesystem.mount for filesystem in filesystems] == ["/", TMP, "/bind", "/data"]
    assert [filesystem.kind for filesystem in filesystems] == ["ext4", "tmpfs", "ext4", "nfs4"]
    assert filesystems[0].free_bytes == filesystems[2].free_bytes == 40 * 1024
    assert isinstance(filesystems[3].free_bytes, Unknown)


def test_a_dead_network_filesystem_does_not_hide_the_local_ones() -> None:
    late = Unknown(Reason.TIMEOUT, "df took longer than 10 s")
    source = FakeSource(files={"/proc/self/mounts": MOUNTS}, commands={"df -Pk": late, "df -Pkl": DF})
    filesystems = field(collect_storage, "storage", source)
    assert filesystems[0].total_bytes == 100 * 1024


def test_df_that_may_not_look_everywhere() -> None:
    partly = CommandResult(exit_code=1, stdout=DF.encode(), stderr=b"df: /srv/private: Permission denied")
    filesystems = field(
        collect_storage,
        "storage",
        FakeSource(files={"/proc/self/mounts": MOUNTS}, commands={"df -Pk": partly}),
    )
    assert filesystems[0].total_bytes == 100 * 1024


DMI = "/sys/class/dmi/id"


@pytest.mark.parametrize(
    ("files", "env", "runtime"),
    [
        ({"/.dockerenv": "", "/proc/self/cgroup": "0::/\n"}, {}, "docker"),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/proc/self/cgroup": "0::/kubepods.slice/x\n"}, {}, "kubernetes"),
        ({"/proc/self/cgroup": "1:name=systemd:/lxc/c1\n"}, {}, "lxc"),
        ({"/run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({"/proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2\n"}, {}, "wsl"),
        ({"/proc/self/mountinfo": "1 0 0:5 /pyxis_77 / rw - overlay /run/enroot/x rw\n"}, {}, "enroot"),
        ({"/proc/self/cgroup": "0::/user.slice\n"}, {}, None),
    ],
)
def test_container_runtime(files: dict[str, str], env: dict[str, str], runtime: str | None) -> None:
    container_facts: Container = field(collect_container, "container", FakeSource(files=files, env=env))
    assert container_facts.runtime == runtime


@pytest.mark.parametrize(
    ("files", "virtualization"),
    [
        ({"/proc/cpuinfo": CPUINFO.replace("hypervisor", "")}, None),
        ({"/proc/cpuinfo": CPUINFO, f"{DMI}/sys_vendor": "QEMU\n"}, "kvm"),
        ({"/proc/cpuinfo": CPUINFO, f"{DMI}/sys_vendor": "VMware, Inc.\n"}, "vmware"),
        ({"/proc/cpuinfo": CPUINFO, f"{DMI}/product_name": "Virtual Machine\n"}, "hyper-v"),
        ({"/proc/cpuinfo": CPUINFO, "/sys/hypervisor/type": "xen\n"}, "xen"),
        ({"/proc/cpuinfo": "processor\t: 0\n", f"{DMI}/sys_vendor": "NVIDIA\n"}, None),
    ],
)
def test_virtualization(files: dict[str, str], virtualization: str | None) -> None:
    assert field(collect_container, "container", FakeSource(files=files)).virtualization == virtualization


def test_a_virtual_machine_that_does_not_name_its_hypervisor() -> None:
    container_facts: Container = field(
        collect_container, "container", FakeSource(files={"/proc/cpuinfo": CPUINFO})
    )
    assert isinstance(container_facts.virtualization, Unknown)
    assert container_facts.virtualization.reason is Reason.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("files", "provider", "machine_type"),
    [
        ({"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"}, "aws", "p5.48xlarge"),
        ({"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "gcp", Unknown),
        (
            {"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"},
            "azure",
            Unknown,
        ),
        ({"sys_vendor": "QEMU", "chassis_asset_tag": "OracleCloud.com"}, "oci", Unknown),
        ({"sys_vendor": "Dell Inc.", "product_name": "PowerEdge XE9680"}, None, None),
    ],
)
def test_cloud(files: dict[str, str], provider: str | None, machine_type: object) -> None:
    cloud_facts: Cloud = field(
        collect_cloud, "cloud", FakeSource(files={f"{DMI}/{name}": text for name, text in files.items()})
    )
    assert cloud_facts.provider == provider
    assert (
        isinstance(cloud_facts.machine_type, Unknown)
        if machine_type is Unknown
        else cloud_facts.machine_type == machine_type
    )


def test_a_machine_without_dmi_table_is_not_said_to_be_outside_a_cloud() -> None:
    assert isinstance(field(collect_cloud, "cloud", FakeSource()).provider, Unknown)


def test_files_of_a_cloud_that_exist_are_named() -> None:
    gib = "/usr/local/gib"
    present: Cloud = field(collect_cloud, "cloud", FakeSource(links={gib: gib}))
    assert present.files == (gib,)
    assert field(collect_cloud, "cloud", FakeSource()).files == ()
    assert isinstance(field(collect_cloud, "cloud", FakeSource(missing=Reason.NOT_RECORDED)).files, Unknown)


def test_the_network_of_a_job_is_read_from_its_log() -> None:
    log = "n1:7:7 [0] NCCL INFO Using network IB\n"
    software_facts: Software = field(collect_software, "software", FakeSource(given={"nccl-log": log}))
    assert software_facts.nccl_network == "IB"
    assert isinstance(field(collect_software, "software", FakeSource()).nccl_network, Unknown)


def test_scheduler() -> None:
    job: Scheduler = field(
        collect_scheduler, "scheduler", FakeSource(env={"SLURM_JOB_ID": "42", "SLURM_NNODES": "4"})
    )
    assert (job.kind, job.job_id, job.node_count) == ("slurm", "42", 4)
    none: Scheduler = field(collect_scheduler, "scheduler", FakeSource())
    assert (none.kind, none.job_id, none.node_count) == (None, None, None)
    unknown: Scheduler = field(collect_scheduler, "scheduler", FakeSource(missing=Reason.NOT_RECORDED))
    assert isinstance(unknown.kind, Unknown)


def test_hostname() -> None:
    assert (
        field(collect_hostname, "hostname", FakeSource(files={"/proc/sys/kernel/hostname": "node17\n"}))
        == "node17"
    )


DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"


def test_software() -> None:
    source = FakeSource(
        files={
            "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
            "/proc/sys/kernel/osrelease": "5.15.0\n",
            "/proc/driver/nvidia/version": DRIVER,
            "/usr/local/cuda/version.json": '{"cuda": {"version": "12.8.0"}}',
            "/sys/module/nvidia_peermem/refcnt": "0",
            "/lib/systemd/system/nvidia-fabricmanager.service": "[Unit]",
        },
        links={"/usr/lib/x86_64-linux-gnu/libnccl.so.2": "/usr/lib/x86_64-linux-gnu/libnccl.so.2.26.2"},
        commands={
            "mpirun --version": "mpirun (Open MPI) 4.1.7\n",
            "slurmd -V": "slurm 24.05.3\n",
            "systemctl is-active nvidia-fabricmanager": CommandResult(exit_code=3, stdout=b"inactive\n"),
        },
        nvml={"nvmlSystemGetCudaDriverVersion": 12080},
    )
    software_facts: Software = field(collect_software, "software", source)
    assert (software_facts.operating_system, software_facts.kernel) == ("Ubuntu 22.04.4 LTS", "5.15.0")
    assert (
        software_facts.driver_version,
        software_facts.driver_open_module,
        software_facts.cuda_driver_version,
    ) == (
        "570.86.15",
        True,
        "12.8",
    )
    assert (software_facts.cuda_toolkit_version, software_facts.nccl_version, software_facts.mpi_version) == (
        "12.8.0",
        "2.26.2",
        "Open MPI 4.1.7",
    )
    assert (software_facts.slurm_version, software_facts.fabric_manager, software_facts.peermem_loaded) == (
        "24.05.3",
        "inactive",
        True,
    )
    assert len({ref.key for ref in software_facts.evidence}) == 10


def test_nothing_installed() -> None:
    software_facts: Software = field(collect_software, "software", FakeSource())
    assert (
        software_facts.driver_version,
        software_facts.cuda_toolkit_version,
        software_facts.nccl_version,
    ) == (None, None, None)
    assert (
        software_facts.mpi_version,
        software_facts.slurm_version,
        software_facts.fabric_manager,
        software_facts.peermem_loaded,
    ) == (
        None,
        None,
        None,
        False,
    )
    assert isinstance(software_facts.cuda_driver_version, Unknown)


def test_nothing_recorded_is_not_nothing_installed() -> None:
    software_facts: Software = field(collect_software, "software", FakeSource(missing=Reason.NOT_RECORDED))
    leaves = [
        getattr(software_facts, name) for name in software_facts.__struct_fields__ if name != "evidence"
    ]
    assert all(isinstance(leaf, Unknown) and leaf.reason is Reason.NOT_RECORDED for leaf in leaves)


def test_a_driver_that_does_not_answer_is_not_absent() -> None:
    broken = Unknown(Reason.ERROR, "Driver/library version mismatch")
    software_facts: Software = field(collect_software, "software", FakeSource(nvml=lambda *_: broken))
    assert software_facts.driver_version == broken


def test_slurms_client_is_not_started_without_a_configuration() -> None:
    source = FakeSource(commands={"sinfo --version": "slurm 23.11.4"})
    assert field(collect_software, "software", source).slurm_version is None
    assert "sinfo --version" not in source.asked
    configured = FakeSource(
        commands={"sinfo --version": "slurm 23.11.4"}, files={"/etc/slurm/slurm.conf": ""}
    )
    assert field(collect_software, "software", configured).slurm_version == "23.11.4"
