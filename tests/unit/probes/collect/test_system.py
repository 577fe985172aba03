"""Test kernel, clock, maker, power, environment, and more of container, batch system and software."""

from __future__ import annotations

from typing import Any

import pytest

from probes.base.record import Reason, Unknown
from probes.checks.limit_checks import check as limit_check
from probes.collect.collecting import CollectOptions
from probes.collect.environment import collect as collect_environment
from probes.collect.identity import collect_dmi
from probes.collect.kernel import collect_clock, collect_kernel
from probes.collect.resources import collect_limits, collect_memory, collect_power, collect_storage
from probes.collect.software import collect as collect_software
from probes.collect.surroundings import collect_container, collect_scheduler
from probes.facts import Clock, Container, Dmi, Kernel, MachineFacts, Power, Scheduler, Software
from probes.parsers.host.ipmi import recognise as recognise_ipmi
from probes.sources.base import CommandResult
from tests.support.fake_source import FakeSource
from tests.support.machines import evidence_of

HEALTHY = {
    "/proc/cmdline": "ro iommu=pt\n",
    "/sys/class/iommu/dmar0/x": "",
    "/sys/kernel/iommu_groups/0/type": "identity\n",
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "/proc/uptime": "1234.5 99.1\n",
    "/proc/loadavg": "0.25 0.1 0.1 1/900 77\n",
    "/proc/buddyinfo": "Node 0, zone Normal 0 0 0 0 0 0 0 0 7 1 1\n",
    "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "/proc/sys/net/core/somaxconn": "4096\n",
    "/proc/sys/fs/file-max": "9223372036854775807\n",
    "/sys/devices/system/edac/mc/mc0/ce_count": "2\n",
    "/sys/devices/system/edac/mc/mc0/ue_count": "0\n",
    "/sys/devices/system/edac/mc/mc1/ce_count": "1\n",
    "/sys/devices/system/edac/mc/mc1/ue_count": "1\n",
    "/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\n",
    "/proc/7/stat": "7 (nvidia-smi) D 1 7",
    "/proc/8/stat": "8 (python3) Z 1 8",
    "/proc/9/stat": "9 (jbd2/sda) D 1 9",
}


def field(collect: Any, name: str, source: FakeSource, **options: Any) -> Any:
    return collect(source, CollectOptions(**options))[name]


def without(*paths: str, **changes: str) -> FakeSource:
    return FakeSource(files={path: text for path, text in (HEALTHY | changes).items() if path not in paths})


def test_kernel() -> None:
    facts: Kernel = field(collect_kernel, "kernel", without())
    assert (facts.iommu, facts.numa_balancing, facts.transparent_hugepages) == (
        "passthrough",
        False,
        "madvise",
    )
    assert (facts.clocksource, facts.uptime_s, facts.load_average, facts.free_blocks_1mib) == (
        "tsc",
        1234.5,
        0.25,
        9,
    )
    assert (facts.local_port_first, facts.local_port_last, facts.somaxconn) == (32768, 60999, 4096)
    assert (facts.memory_errors_corrected, facts.memory_errors_uncorrected) == (3, 1)
    assert (facts.zombie_processes, facts.blocked_processes) == (1, ("nvidia-smi (7)",))
    assert facts.remove_ipc is True
    assert "/proc/cmdline" in {ref.key for ref in facts.evidence}


def test_a_setting_that_a_data_row_is_about_is_collected_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {
        "id": "receive-buffer", "title": "Receive "
                                         "buffers are "
                                         "large", "group": "host", "fact": "sysctl:net.core.rmem_max",
        "what": "the receive buffer", "good": "receive "
                                              "buffers are "
                                              "large", "why": "Small ones stall.", "source": "tests",
        "rules": [
            {
                "at_least": 16777216,
                "bad": "small",
                "fix": "Raise it.",
                "command": "sysctl -w net.core.rmem_max={limit}",
            }
        ],
    }  # fmt: skip
    monkeypatch.setattr("probes.collect.kernel.sysctl_names", lambda: ("net.core.rmem_max", "vm.swappiness"))
    path = "/proc/sys/net/core/rmem_max"
    statuses = []
    for source in (without(**{path: "212992\n"}), without(**{path: "33554432\n"}), without()):
        kernel: Kernel = field(collect_kernel, "kernel", source)
        (finding,) = limit_check(evidence_of(MachineFacts(kernel=kernel)), row)
        statuses.append(finding.status.value)
        assert (path in {ref.key for ref in kernel.evidence}) == (finding.status.value != "UNKNOWN")
    assert statuses == ["WARN", "PASS", "UNKNOWN"]


def test_nothing_of_the_kernel_is_recorded() -> None:
    facts: Kernel = field(collect_kernel, "kernel", FakeSource(missing=Reason.NOT_RECORDED))
    leaves = [
        getattr(facts, name) for name in facts.__struct_fields__ if name not in ("evidence", "remove_ipc")
    ]
    assert all(isinstance(leaf, Unknown) and leaf.reason is Reason.NOT_RECORDED for leaf in leaves)
    assert isinstance(facts.remove_ipc, Unknown)


def test_processes_are_only_walked_in_deep_checks() -> None:
    facts: Kernel = field(collect_kernel, "kernel", without(), deep=False)
    assert isinstance(facts.zombie_processes, Unknown)
    assert isinstance(facts.blocked_processes, Unknown)


def test_iommu_mode_without_domain_types_follows_from_the_kernel_command_line() -> None:
    assert field(collect_kernel, "kernel", without("/sys/kernel/iommu_groups/0/type")).iommu == "passthrough"
    undecided = without("/sys/kernel/iommu_groups/0/type")
    undecided.files["/proc/cmdline"] = "intel_iommu=on"
    assert isinstance(field(collect_kernel, "kernel", undecided).iommu, Unknown)


def test_a_kernel_without_iommu_support_has_none() -> None:
    source = without("/sys/class/iommu/dmar0/x", "/sys/kernel/iommu_groups/0/type")
    source.files["/proc/cmdline"] = "ro quiet"
    assert field(collect_kernel, "kernel", source).iommu == "off"


def test_a_kernel_feature_that_is_not_built_in_is_not_supported() -> None:
    facts: Kernel = field(collect_kernel, "kernel", without("/proc/sys/kernel/numa_balancing"))
    assert isinstance(facts.numa_balancing, Unknown)
    assert facts.numa_balancing.reason is Reason.NOT_SUPPORTED


def test_a_drop_in_of_logind_counts_by_its_name() -> None:
    source = without()
    source.files["/usr/lib/systemd/logind.conf.d/10-vendor.conf"] = "[Login]\nRemoveIPC=yes\n"
    source.files["/etc/systemd/logind.conf.d/20-site.conf"] = "[Login]\nRemoveIPC=no\n"
    assert field(collect_kernel, "kernel", source).remove_ipc is False
    source.files["/etc/systemd/logind.conf.d/30-late.conf"] = "[Login]\nRemoveIPC=yes\n"
    assert field(collect_kernel, "kernel", source).remove_ipc is True
    none = field(collect_kernel, "kernel", without("/etc/systemd/logind.conf")).remove_ipc
    assert isinstance(none, Unknown)
    assert none.reason is Reason.NOT_SUPPORTED


def test_settings_of_the_last_boot_are_read_from_a_kernel_log() -> None:
    log = "[    0.0] Command line: ro iommu=nopt\n[    1.0] clocksource: Switched to clocksource hpet\n"
    source = FakeSource(given={"kernel-log": log}, missing=Reason.NOT_RECORDED)
    facts: Kernel = field(collect_kernel, "kernel", source)
    assert (facts.iommu, facts.clocksource) == ("translated", "hpet")
    assert facts.evidence[0].source == "paste"


SLICE = "/sys/fs/cgroup/system.slice"


@pytest.mark.parametrize(
    ("files", "daemon"),
    [
        ({f"{SLICE}/chrony.service/cgroup.procs": "7"}, "chronyd"),
        ({f"{SLICE}/systemd-timesyncd.service/cgroup.procs": "7"}, "systemd-timesyncd"),
        ({"/run/ntpd.pid": "12\n", "/proc/12/comm": "ntpd\n"}, "ntpd"),
        ({"/run/ntpd.pid": "12\n", "/proc/12/comm": "bash\n", "/proc/1/stat": "1 (init) S 0"}, None),
        ({"/proc/44/stat": "44 (chronyd) S 1 44"}, "chronyd"),
        ({f"{SLICE}/ssh.service/cgroup.procs": "7"}, None),
    ],
)
def test_the_running_time_daemon_is_named(files: dict[str, str], daemon: str | None) -> None:
    assert field(collect_clock, "clock", FakeSource(files=files)).daemon == daemon


def test_synchronization_of_the_clock_is_asked_for_in_deep_checks_only() -> None:
    kept: Clock = field(collect_clock, "clock", FakeSource(files={"/run/systemd/timesync/synchronized": ""}))
    assert kept.synchronized is True
    facts = FakeSource(commands={"timedatectl show -p NTPSynchronized": "NTPSynchronized=no\n"})
    assert field(collect_clock, "clock", facts).synchronized is False
    quick = FakeSource()
    assert isinstance(field(collect_clock, "clock", quick, deep=False).synchronized, Unknown)
    assert quick.asked == []


def test_maker_and_model() -> None:
    files = {"sys_vendor": "Dell Inc.\n", "product_name": "PowerEdge XE9680\n", "board_name": "\n"}
    facts: Dmi = field(
        collect_dmi,
        "dmi",
        FakeSource(files={f"/sys/class/dmi/id/{name}": text for name, text in files.items()}),
    )
    assert (facts.system_vendor, facts.product_name) == ("Dell Inc.", "PowerEdge XE9680")
    assert isinstance(facts.board_name, Unknown)
    assert facts.board_name.reason is Reason.NOT_SUPPORTED


def test_power() -> None:
    source = FakeSource(
        commands={
            "ipmitool dcmi power reading": " Instantaneous power reading: 2410 Watts\n",
            "ipmitool sdr elist": CommandResult(
                exit_code=1, stdout=b"PS1 | 1h | ok | 10.1 | Failure detected\nT | 2h | nr | 1.1 | 99\n"
            ),
            "dmidecode -t 39": "Max Power Capacity: 3000 W\nMax Power Capacity: 3000 W\n",
        }
    )
    facts: Power = field(collect_power, "power", source)
    assert (facts.system_w, facts.supply_capacity_w, facts.failed_supplies) == (2410.0, 6000.0, ("PS1",))
    assert facts.sensor_alarms == ("T (99)",)


def test_power_without_a_tool() -> None:
    source = FakeSource()
    facts: Power = field(collect_power, "power", source)
    assert isinstance(facts.system_w, Unknown)
    assert facts.system_w.reason is Reason.TOOL_MISSING


def test_environment_by_rank_of_its_origins() -> None:
    source = FakeSource(
        env={
            "NCCL_DEBUG": "WARN",
            "HOME": "/home/a",
            "SECRET_TOKEN": "x",
            "https_proxy": "http://user:word@proxy:3128",
        },
        files={
            "/home/a/.nccl.conf": "NCCL_DEBUG=INFO\nNCCL_IB_TC=106\nNCCL_ALGO Ring\n",
            "/etc/nccl.conf": "NCCL_IB_TC=41\nNCCL_IB_SL=3\nNCCL_IB_SL=4\n",
        },
    )
    result = collect_environment(source, CollectOptions())
    facts = result["environment"]
    assert [(v.name, v.value, v.origin, v.is_effective) for v in facts] == [
        ("NCCL_DEBUG", "WARN", "environment", True),
        ("https_proxy", "http://***@proxy:3128", "environment", True),
        ("NCCL_DEBUG", "INFO", "/home/a/.nccl.conf", False),
        ("NCCL_IB_TC", "106", "/home/a/.nccl.conf", True),
        ("NCCL_IB_TC", "41", "/etc/nccl.conf", False),
        ("NCCL_IB_SL", "3", "/etc/nccl.conf", True),
        ("NCCL_IB_SL", "4", "/etc/nccl.conf", False),
    ]
    assert [(line.source, line.line) for line in result["unread"]] == [("/home/a/.nccl.conf", 3)]


def test_a_named_file_replaces_that_of_the_home() -> None:
    files = {"/home/a/.nccl.conf": "NCCL_ALGO=Ring\n", "/x/nccl": "NCCL_PROTO=Simple\n"}
    source = FakeSource(env={"NCCL_CONF_FILE": "/x/nccl", "HOME": "/home/a"}, files=files)
    names = [variable.name for variable in collect_environment(source, CollectOptions())["environment"]]
    assert names == ["NCCL_CONF_FILE", "NCCL_PROTO"]
    missing = FakeSource(env={"NCCL_CONF_FILE": "~/nccl.conf"})
    assert [line.source for line in collect_environment(missing, CollectOptions())["unread"]] == [
        "~/nccl.conf"
    ]


def test_an_environment_that_was_not_recorded_is_unknown_but_for_the_log() -> None:
    assert isinstance(
        collect_environment(FakeSource(missing=Reason.NOT_RECORDED), CollectOptions())["environment"], Unknown
    )
    log = "n:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    (logged,) = field(
        collect_environment, "environment", FakeSource(missing=Reason.NOT_RECORDED, given={"nccl-log": log})
    )
    assert (logged.name, logged.value, logged.evidence[0].detail) == ("NCCL_IB_DISABLE", "1", "line 1")
    assert field(collect_environment, "environment", FakeSource()) == ()


TCP = (
    "  sl  local_address rem_address   st\n"
    "   0: 00000000:3A9E 00000000:0000 0A\n   1: 00000000:3A99 00000000:0000 0A\n"
)


def test_rights_and_devices_of_a_container() -> None:
    source = FakeSource(
        files={
            "/proc/self/status": "CapEff:\t0000000000804000\nSeccomp:\t2\n",
            "/dev/infiniband/uverbs0": "",
            "/dev/nvidia0": "",
            "/dev/null": "",
            "/proc/net/tcp": TCP,
        },
        env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
    )
    facts: Container = field(collect_container, "container", source)
    assert (facts.capabilities, facts.seccomp) == (("ipc_lock", "sys_nice"), True)
    assert (facts.rdma_devices, facts.nvidia_devices) == (("uverbs0",), ("nvidia0",))
    assert [(sign.name, sign.value) for sign in facts.annotations] == [
        ("istio", "listens on 15001 and 15006")
    ]
    bare: Container = field(collect_container, "container", FakeSource(files={"/proc/self/cgroup": "0::/\n"}))
    assert (bare.rdma_devices, bare.nvidia_devices, bare.annotations) == ((), (), ())


def test_slurm_by_its_files() -> None:
    source = FakeSource(
        files={
            "/etc/slurm/slurm.conf": "ProctrackType=proctrack/cgroup\nNodeName=gpu[1-4] Gres=gpu:h100:8\n",
            "/etc/slurm/cgroup.conf": "ConstrainDevices=yes\n",
            "/proc/sys/kernel/hostname": "gpu2.example.net\n",
        },
        commands={"slurmd -V": "slurm 24.05.3\n"},
    )
    facts: Scheduler = field(collect_scheduler, "scheduler", source)
    assert (facts.kind, facts.version, facts.gpus_of_node) == (None, "24.05.3", 8)
    assert {(state.name, state.value) for state in facts.settings} == {
        ("ProctrackType", "proctrack/cgroup"),
        ("ConstrainDevices", "yes"),
    }
    none: Scheduler = field(collect_scheduler, "scheduler", FakeSource())
    assert (none.version, none.settings, none.gpus_of_node) == (None, (), None)


CACHE = b"\0libnccl.so.2\0/usr/lib/libnccl.so.2\0/usr/lib/libdcgm.so.4\0/opt/ofi/libnccl-net.so\0"


def test_software_around_training_is_collected() -> None:
    source = FakeSource(
        files={
            "/etc/ld.so.cache": CACHE,
            "/proc/modules": "nvidia_uvm 1515520 4 - Live 0x0\next4 999 1 - Live 0x0\n",
            "/sys/module/gdrdrv/version": "2.4\n",
            "/opt/nccl/lib/libnccl.so.2": "",
            "/opt/nccl/lib/libother.so": "",
            "/dev/nvidia-caps-imex-channels/channel0": "",
            "/usr/bin/nvidia-imex-ctl": "",
        },
        links={
            "/usr/lib/libnccl.so.2": "/usr/lib/libnccl.so.2.26.2",
            "/usr/lib/libdcgm.so.4": "/usr/lib/libdcgm.so.4.2.3",
            "/opt/nccl/lib/libnccl.so.2": "/opt/nccl/lib/libnccl.so.2.19.3",
        },
        env={"LD_LIBRARY_PATH": "/opt/nccl/lib:relative"},
        commands={"nvidia-imex-ctl -N": "Domain State: UP\n"},
    )
    facts: Software = field(collect_software, "software", source)
    assert (facts.dcgm_version, facts.gdrcopy_version, facts.modules) == (
        "4.2.3",
        "2.4",
        ("gdrdrv", "nvidia_uvm"),
    )
    assert (facts.imex, facts.imex_channels, facts.nccl_plugins) == ("UP", 1, ("/opt/ofi/libnccl-net.so",))
    assert [(library.version, library.found_by) for library in facts.nccl_libraries] == [
        ("2.19.3", "LD_LIBRARY_PATH"),
        ("2.26.2", "system"),
    ]
    quick: Software = field(collect_software, "software", source, deep=False)
    assert isinstance(quick.imex, Unknown)
    assert isinstance(quick.services, Unknown)


def test_versions_are_read_from_texts_where_other_sources_lack_them() -> None:
    given = {
        "nvidia-smi-error": "Failed to initialize NVML: Driver/library version mismatch\nNVML library "
        "version: 580.178\n",
        "driver-version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.173.02  Mon\n",
        "lsmod": "Module Size Used by\nnvidia_peermem 16384 0\n",
    }
    facts: Software = field(
        collect_software, "software", FakeSource(given=given, missing=Reason.NOT_RECORDED)
    )
    assert (facts.driver_version, facts.driver_library_version) == ("580.173.02", "580.178")
    assert (facts.modules, facts.peermem_loaded) == (("nvidia_peermem",), True)


def test_the_newer_fields_of_memory_limits_and_storage() -> None:
    source = FakeSource(
        files={
            "/proc/meminfo": "MemTotal: 1 kB\nMemFree: 1 kB\nHugePages_Total:      12\nHugepagesize: 2048 "
            "kB\n",
            "/proc/self/limits": "Max processes             4096                 4096                 "
            "processes\n",
            "/proc/self/mounts": "/dev/md0 /raid xfs ro,noatime 0 0\n",
        }
    )
    facts = field(collect_memory, "memory", source)
    assert (facts.hugepages_total, facts.hugepage_bytes) == (12, 2048 * 1024)
    assert field(collect_limits, "limits", source).processes == 4096
    assert field(collect_storage, "storage", source)[0].read_only is True


def test_settings_that_the_policy_names_are_read() -> None:
    files = {
        "/proc/sys/vm/swappiness": "60\n",
        "/proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
        "/proc/sys/kernel/sched_rt_runtime_us": "-1\n",
        "/proc/sys/net/ipv4/conf/eth0.100/rp_filter": "2\n",
    }
    names = ("vm.swappiness", "net.ipv4.tcp_rmem", "kernel.sched_rt_runtime_us")
    names = (*names, "net.ipv4.conf.eth0/100.rp_filter", "vm.absent")
    kernel: Kernel = field(collect_kernel, "kernel", FakeSource(files=files), sysctls=names)
    assert isinstance(kernel.sysctls, tuple)
    values = {row.name: row.value for row in kernel.sysctls}
    assert isinstance(values.pop("vm.absent"), Unknown)
    assert list(values.values()) == [60, "4096 131072 6291456", -1, 2]


MC_INFO = """Device ID                 : 32
Device Revision           : 1
Firmware Revision         : 6.10
IPMI Version              : 2.0
"""
DMIDECODE = """Handle 0x0000, DMI type 0, 26 bytes
BIOS Information
\tVendor: Example
\tVersion: 2.1.7

Handle 0x0100, DMI type 1, 27 bytes
System Information
\tManufacturer: Example
\tProduct Name: Model 8
"""


def test_firmware_of_the_machine() -> None:
    live = FakeSource(
        files={
            "/sys/class/dmi/id/bios_version": "2.0\n",
            "/sys/class/ipmi/ipmi0/device/bmc/firmware_revision": "1.43\n",
        },
        given={"ipmi": MC_INFO, "dmidecode": DMIDECODE},
    )
    dmi: Dmi = field(collect_dmi, "dmi", live)
    assert (dmi.bios_version, dmi.bmc_version, dmi.product_name) == ("2.0", "1.43", "Model 8")
    pasted: Dmi = field(collect_dmi, "dmi", FakeSource(given={"ipmi": MC_INFO, "dmidecode": DMIDECODE}))
    assert (pasted.bios_version, pasted.bmc_version) == ("2.1.7", "6.10")
    assert recognise_ipmi(MC_INFO)
