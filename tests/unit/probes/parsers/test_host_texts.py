"""Small texts of /proc, /sys and version commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Unknown
from probes.parsers.fabric import infiniband_files as infiniband
from probes.parsers.fabric import rdma_words
from probes.parsers.host import limit_files, mounts, procfs
from probes.parsers.host import network_files as network
from probes.parsers.host import version_outputs as versions
from probes.parsers.host.cpulist import parse_cpu_list


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8", (0, 1, 2, 3, 8)), ("7", (7,)), ("", ()), ("1-1\n", (1,))]
)
def test_cpu_list(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == numbers


@pytest.mark.parametrize("text", ["3-1", "0-", "a", "0-999999", "0,,1", "-1"])
def test_damaged_cpu_list_is_unknown(text: str) -> None:
    assert isinstance(parse_cpu_list(text), Unknown)


def test_meminfo_of_the_machine_and_of_a_node() -> None:
    assert procfs.parse_meminfo("MemTotal:  100 kB\nHugePages_Total:  4\nActive(anon):  2 kB\n") == {
        "MemTotal": 102400,
        "Active(anon)": 2048,
    }
    assert procfs.parse_meminfo("Node 0 MemTotal:   1 kB\n") == {"MemTotal": 1024}


def test_limits_are_the_soft_ones() -> None:
    text = (
        "Limit  Soft Limit  Hard Limit  Units\n"
        "Max locked memory         8388608              unlimited            bytes\n"
    )
    assert procfs.parse_limits(text) == {"Max locked memory": 8388608}
    assert procfs.parse_limits(text.replace("8388608", "unlimited")) == {"Max locked memory": "unlimited"}


X86 = (
    "processor\t: {0}\nmodel name\t: Xeon 8480\nphysical id\t: {1}\ncore id\t: {2}\n"
    "flags\t: lm avx2 amx_bf16 {3}\n\n"
)


def test_cpuinfo_of_x86() -> None:
    info = procfs.parse_cpuinfo("".join(X86.format(i, i // 4, i % 2, "hypervisor") for i in range(8)))
    assert isinstance(info, procfs.CpuInfo)
    assert (info.sockets, info.physical_cores, info.logical_cpus) == (2, 4, 8)
    assert (info.architecture, info.hypervisor, info.flags) == ("x86_64", True, ("avx2", "amx_bf16"))


def test_cpuinfo_of_grace() -> None:
    block = (
        "processor\t: 0\nFeatures\t: fp asimd sve2\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
        "CPU part\t: 0xd4f\n\n"
    )
    info = procfs.parse_cpuinfo(block)
    assert isinstance(info, procfs.CpuInfo)
    assert (info.model, info.architecture, info.flags) == ("Arm Neoverse V2", "aarch64", ("asimd", "sve2"))
    assert isinstance(info.sockets, Unknown)


def test_cpuinfo_of_power() -> None:
    info = procfs.parse_cpuinfo("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n")
    assert isinstance(info, procfs.CpuInfo)
    assert (info.model, info.architecture) == ("POWER9", "ppc64le")


def test_mount_points_with_spaces_and_mounts_over_mounts() -> None:
    text = (
        "/dev/sda1 /mnt/my\\040disk ext4 rw 0 0\nold /data nfs rw 0 0\nnew /data nfs4 rw,hard 0 0\nbroken\n"
    )
    assert [(mount.path, mount.device) for mount in mounts.parse_mounts(text)] == [
        ("/mnt/my disk", "/dev/sda1"),
        ("/data", "new"),
    ]


def test_rows_of_df_without_sizes_are_skipped() -> None:
    text = (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        "/dev/sda1 100 60 40 60% /\nserver:/a b 1000 0 1000 0% /mnt/a b\nproc - - - - /proc\n"
        "df: /x: Stale file handle\n"
    )
    spaces = mounts.parse_df(text)
    assert [(space.device, space.path, space.total_bytes, space.available_bytes) for space in spaces] == [
        ("/dev/sda1", "/", 102400, 40960),
        ("server:/a b", "/mnt/a b", 1024000, 1024000),
    ]


ROUTES = (
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
    "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "down0\t00000000\t00000000\t0002\t0\t0\t0\t00000000\t0\t0\t0\nshort\n"
)


def test_default_route_is_the_one_with_the_lowest_metric() -> None:
    assert network.default_interface(network.parse_routes(ROUTES)) == "eth0"


def test_addresses_go_to_the_interface_of_their_network() -> None:
    trie = (
        "Local:\n  |-- 127.0.0.1\n     /32 host LOCAL\n"
        "  |-- 192.0.2.2\n     /32 host LOCAL\n  |-- 192.0.2.255\n    /32 link BROADCAST\n"
    )
    routes = network.parse_routes(ROUTES)
    assert network.addresses_by_route(network.local_addresses(trie), routes) == {"eth0": ("192.0.2.2/24",)}


def test_ip_addresses() -> None:
    eth0 = (
        '{"ifname":"eth0","addr_info":[{"local":"192.0.2.2","prefixlen":24},'
        '{"local":"fd00::1","prefixlen":64}]}'
    )
    text = f'[{eth0},{{}},{{"ifname":"lo"}}]'
    assert network.parse_ip_addresses(text) == {"eth0": ("192.0.2.2/24", "fd00::1/64"), "lo": ()}
    assert isinstance(network.parse_ip_addresses(text[:-9]), Unknown)


@pytest.mark.parametrize(
    ("text", "rate"), [("400 Gb/sec (4X NDR)", 400.0), ("2.5 Gb/sec (1X SDR)", 2.5), ("100", 100.0)]
)
def test_port_rate(text: str, rate: float) -> None:
    assert rdma_words.port_rate(text)[0] == rate


@pytest.mark.parametrize("text", ["", "N/A", "Gb/sec", "fast", "400 Mb/sec"])
def test_no_port_rate_is_unknown(text: str) -> None:
    assert isinstance(rdma_words.port_rate(text)[0], Unknown)


def test_ibstat_that_breaks_off() -> None:
    text = (
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 2\n\tPort 1:\n\t\tState: Active\n"
        "\t\tPhysical state: LinkUp\n"
        "\t\tRate: 400\n\t\tLink layer: InfiniBand\n\tPort 2:\n\t\tState: Initializing\n\t\tRate: 40\n"
        "ibpanic: stat failed\n"
    )
    first, second = infiniband.parse_ibstat(text)
    assert (first.name, first.port, first.state, first.rate_gbps, first.link_layer) == (
        "mlx5_0",
        1,
        "ACTIVE",
        400.0,
        "InfiniBand",
    )
    assert (second.port, second.state, second.device_type) == (2, "INIT", "MT4129")
    assert isinstance(second.link_layer, Unknown)


@pytest.mark.parametrize(
    ("text", "version", "is_open"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\nGCC version:  gcc\n",
            "535.129.03",
            False,
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n",
            "570.86.15",
            True,
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95  Release\n", "580.95", True),
    ],
)
def test_driver_module(text: str, version: str, *, is_open: bool) -> None:
    module = versions.parse_driver_module(text)
    assert isinstance(module, versions.DriverModule)
    assert (module.version, module.is_open) == (version, is_open)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("mpirun (Open MPI) 4.1.7a1\n\nReport bugs to", "Open MPI 4.1.7a1"),
        ("mpirun.real (OpenRTE) 4.0.3\n", "Open MPI 4.0.3"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.11 Build", "Intel MPI 2021.11"),
        ("HYDRA build details:\n    Version:                                 4.1.2\n", "MPICH 4.1.2"),
    ],
)
def test_mpi(text: str, version: str) -> None:
    assert versions.mpi_version(text) == version


def test_other_versions() -> None:
    assert versions.cuda_version(12080) == "12.8"
    assert versions.cuda_version(13010) == "13.1"
    assert versions.toolkit_version('{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}') == "12.4.1"
    assert versions.nvcc_version("Cuda compilation tools, release 13.0, V13.0.88\n") == "13.0.88"
    assert versions.slurm_version("slurm-wlm 22.05.8\n") == "22.05.8"
    assert versions.nccl_library_version("/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3") == "2.27.3"
    assert versions.os_name('NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\n') == "Ubuntu 22.04.4 LTS"
    assert versions.os_name("NAME=Alpine\nVERSION_ID=3.20\n") == "Alpine 3.20"


@pytest.mark.parametrize(
    "read",
    [
        versions.nvcc_version,
        versions.slurm_version,
        versions.nccl_library_version,
        versions.mpi_version,
        versions.toolkit_version,
    ],
)
def test_no_version_is_unknown(read: object) -> None:
    assert callable(read)
    assert isinstance(read("nothing of the kind 1.2"), Unknown)


def test_version_file_of_torch() -> None:
    text = (
        "import x\n__version__ = '2.8.0+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\n"
        "hip: Optional[str] = None\n"
    )
    assert versions.python_assignments(text) == {"__version__": "2.8.0+cu128", "cuda": "12.8", "hip": None}


@given(st.text(max_size=300))
def test_random_text_never_raises(text: str) -> None:
    for read in (
        procfs.parse_meminfo,
        procfs.parse_limits,
        procfs.parse_status,
        procfs.parse_cpuinfo,
        procfs.parse_cgroup,
        mounts.parse_mounts,
        mounts.parse_mountinfo,
        mounts.parse_df,
        network.parse_routes,
        network.parse_default_ipv6,
        network.parse_ip_addresses,
        network.local_addresses,
        infiniband.parse_ibstat,
        infiniband.port_word,
        versions.parse_driver_module,
        versions.python_assignments,
        versions.os_name,
        versions.toolkit_version,
        parse_cpu_list,
    ):
        read(text)


@given(st.lists(st.text(alphabet="0123456789ABCDEFeth \t.-", max_size=12), max_size=40))
def test_damaged_routes_never_raise(fields: list[str]) -> None:
    network.parse_routes("header\n" + "\t".join(fields))
    network.parse_default_ipv6(" ".join(fields))


@pytest.mark.parametrize(("number", "version"), [(1000, "1.0"), (12080, "12.8"), (11020, "11.2")])
def test_cuda_version_from_nvml(number: int, version: str) -> None:
    assert versions.cuda_version(number) == version
    assert isinstance(versions.cuda_version(999), Unknown)


def test_a_route_to_one_network_is_no_default_route() -> None:
    head = ROUTES.splitlines()[0]
    network_zero = f"{head}\nwlan0\t00000000\t0\t0001\t0\t0\t1\t000000FF\t0\t0\t0\n"
    host = f"{head}\nwlan0\t0100000A\t0\t0001\t0\t0\t1\t00000000\t0\t0\t0\n"
    assert network.default_interface(network.parse_routes(network_zero)) is None
    assert network.default_interface(network.parse_routes(host)) is None


def test_a_line_of_mountinfo_that_was_cut_is_left_out() -> None:
    text = (
        "36 35 98:0 /a\\040b /mnt rw,noatime shared:1 - cgroup cgroup rw,memory\n"
        "36 35 98:0 / /cut rw,noatime - ext4\n36 35 98:0 / - ext4 /dev/sda rw\n36 35 98:0 /\n"
    )
    (mount,) = mounts.parse_mountinfo(text)
    assert (mount.root, mount.path, mount.kind, mount.options) == (
        "/a b",
        "/mnt",
        "cgroup",
        ("rw", "memory"),
    )


def test_a_processor_of_another_maker_has_no_name() -> None:
    block = "processor\t: 0\nCPU implementer\t: 0x48\nCPU part\t: 0xd4f\n"
    info = procfs.parse_cpuinfo(block)
    assert isinstance(info, procfs.CpuInfo)
    assert isinstance(info.model, Unknown)
    unknown = procfs.parse_cpuinfo(block.replace("0x48", "0x41").replace("0xd4f", "0xfff"))
    assert isinstance(unknown, procfs.CpuInfo)
    assert isinstance(unknown.model, Unknown)
    assert isinstance(unknown.architecture, Unknown)


@pytest.mark.parametrize(
    ("line", "limits"),
    [
        ("LimitMEMLOCK=infinity", {"memlock": "unlimited"}),
        ("LimitMEMLOCK=8M", {"memlock": 8 * 2**20}),
        ("LimitMEMLOCK=64K:infinity", {"memlock": 65536}),
        ("LimitMEMLOCK=65536", {"memlock": 65536}),
        ("LimitNOFILE=2G:4G", {"nofile": 2 * 2**30}),
        ("LimitNOFILE=", {"nofile": None}),
        ("LimitNOFILE=many", {}),
        ("LimitCORE=1", {}),
        ("LimitNOFILE=1\nLimitNOFILE=2", {"nofile": 2}),
    ],
)
def test_limits_of_a_unit(line: str, limits: dict[str, object]) -> None:
    assert limit_files.parse_unit(f"[Service]\n{line}\n") == limits


@pytest.mark.parametrize(
    ("line", "limits"),
    [
        ("* soft memlock unlimited", {"memlock": "unlimited"}),
        ("* - memlock -1", {"memlock": "unlimited"}),
        ("* soft memlock 64", {"memlock": 65536}),
        ("* soft nofile 1024", {"nofile": 1024}),
        ("* hard nofile 1024", {}),
        ("@users soft nofile 1024", {}),
        ("* soft nofile many", {}),
    ],
)
def test_limits_of_every_user(line: str, limits: dict[str, object]) -> None:
    assert limit_files.parse_pam_limits(f"# limits\n{line}\n") == limits


def test_listening_ports() -> None:
    text = (
        "  sl  local_address rem_address   st\n   0: 00000000:1F90 00000000:0000 0A\n"
        "   1: 0100007F:0016 00000000:0000 01\n   2: 00000000:XY 00000000:0000 0A\n   3: 00000000:0050 0A\n"
    )
    assert procfs.parse_listening(text) == {8080}


@pytest.mark.parametrize(
    ("text", "interface"),
    [
        (f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} 00000400 00000001 00000000 00000003 eth0\n", "eth0"),
        (f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200 lo\n", None),
        (f"{'0' * 32} 40 {'0' * 32} 00 {'0' * 32} 00000400 00000001 00000000 00000003 eth0\n", None),
        (f"fe80{'0' * 28} 00 {'0' * 32} 00 {'0' * 32} 00000400 00000001 00000000 00000003 eth0\n", None),
        ("short\n", None),
    ],
)
def test_the_default_route_of_ipv6(text: str, interface: str | None) -> None:
    assert network.parse_default_ipv6(text) == interface


def test_the_lowest_metric_of_ipv6_wins() -> None:
    row = f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} %s 00000001 00000000 00000003 %s\n"
    text = row % ("00000400", "eth0") + row % ("00000100", "eth1") + row % ("00000200", "eth2")
    assert network.parse_default_ipv6(text) == "eth1"


def test_members_of_a_bond() -> None:
    text = (
        "Bonding Mode: x\nMII Status: up\n\nSlave Interface: eth0\nMII Status: up\nSlave Interface: eth1\n"
        "MII Status: down\nMII Status: up\n"
    )
    assert network.parse_bonding(text) == {"eth0": True, "eth1": False}


def test_addresses_of_a_host_name() -> None:
    hosts = "# 192.0.2.9 node1\n192.0.2.1 Node1 n1 # node2\n192.0.2.2 node2\nfd00::1 node1\n"
    assert network.parse_hosts(hosts, "node1") == ("192.0.2.1", "fd00::1")
    assert network.parse_hosts(hosts, "192.0.2.1") == ()
    ahosts = "192.0.2.1 STREAM node1\n192.0.2.1 DGRAM\n\nfd00::1 STREAM\n"
    assert network.parse_ahosts(ahosts) == ("192.0.2.1", "fd00::1")


def test_an_address_in_two_networks_belongs_to_none() -> None:
    routes = network.parse_routes(ROUTES + "eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")
    assert network.addresses_by_route(("192.0.2.2",), routes) == {}
    assert network.addresses_by_route(("192.0.2.256", "192.0.3.1"), network.parse_routes(ROUTES)) == {}


@pytest.mark.parametrize(
    ("gbps", "name"),
    [(25.78125, "EDR"), (53.125, "HDR"), (2.5, "SDR"), (14.0625, "FDR"), (13.72, "FDR"), (106.25, "NDR")],
)
def test_the_speed_of_a_lane_may_be_its_signalling_rate(gbps: float, name: str) -> None:
    assert rdma_words.lane_speed(gbps) == name


@pytest.mark.parametrize("gbps", [13.7, 2.7, 54.0, 1000.0])
def test_other_rates_of_a_lane_have_no_name(gbps: float) -> None:
    assert isinstance(rdma_words.lane_speed(gbps), Unknown)
