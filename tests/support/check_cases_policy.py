"""Cases of the checks of a policy."""

from __future__ import annotations

import datetime

import msgspec

from probes.base.record import DEEP_ONLY, Unknown
from probes.base.units import GIB
from probes.facts import Dmi, Kernel, MachineFacts, PcieLink, State, Sysctl
from probes.judging.policies.policy import (
    GpuExpectation,
    HostExpectation,
    NicExpectation,
    Policy,
    SiteCheck,
    SiteOutcome,
    SoftwareExpectation,
    Waiver,
)
from tests.support.check_case import ALL, BOX, NODE, NOT_RECORDED, TIMEOUT, UNREAD, Case, nvlinks, pcie
from tests.support.machines import with_gpus, with_nics, with_part

GPUS = Policy(
    gpu=GpuExpectation(
        model="h100-sxm", count=8, memory_bytes=80 * GIB, vbios=("96.00.89.00.01", "96.00.A*"), mig=False
    )
)
NICS = Policy(
    nic=NicExpectation(
        count=8,
        rate_gbps=400,
        link_layer="InfiniBand",
        firmware={"MT4129": "28.39.1002"},
        places={"mlx5_1": "2A:00.0"},
    )
)
VERSIONS = Policy(
    gpu=GpuExpectation(driver=">=550.40,<581"),
    software=SoftwareExpectation(
        operating_system="Ubuntu 22.04*",
        kernel="5.15.0",
        cuda="12.4",
        cuda_toolkit="12.4",
        nccl=">=2.20",
        torch="2.6.0",
    ),
)
HOST = Policy(host=HostExpectation(memory_bytes=2000 * GIB, cpus=224, numa_nodes=2, mounts=("/", "/raid")))
SERVICES = Policy(host=HostExpectation(services=("nvidia-fabricmanager",), modules=("nvidia-peermem",)))
SERVED = with_part(
    NODE,
    "software",
    services=(State(name="nvidia-fabricmanager.service", value="active"),),
    modules=("nvidia_peermem",),
)
UNSERVED = with_part(NODE, "software", services=NOT_RECORDED, modules=NOT_RECORDED)
DRIVER = Policy(gpu=GpuExpectation(driver="550.54.15"))
LIMITS = Policy(
    gpu=GpuExpectation(
        ecc=True, power_limit_w=700, sm_clock_max_mhz=1980, pcie_generation=5, pcie_width=16, nvlinks=18
    )
)
LIMITED = with_gpus(
    NODE, ecc_enabled=True, power_limit_w=699.8, sm_clock_max_mhz=1980, pcie=pcie(16), nvlinks=nvlinks(up=18)
)
LANES = Policy(nic=NicExpectation(pcie_width=16, pcie_generation=5))
WIDE = with_nics(NODE, pcie=PcieLink(generation=5, width=16))
FIRMWARE = Policy(
    software=SoftwareExpectation(ofed="MLNX_OFED_LINUX-23.10-*"),
    host=HostExpectation(bios="2.1.*", bmc=">=1.43,<2"),
)
FIRM = with_part(
    msgspec.structs.replace(NODE, dmi=Dmi(bios_version="2.1.7", bmc_version="1.43")),
    "software",
    ofed_version="MLNX_OFED_LINUX-23.10-1.1.9.0",
)
KERNEL = Policy(
    host=HostExpectation(
        sysctl={"net.core.somaxconn": ">=4096", "net.ipv4.tcp_rmem": "4096 * 6291456", "a.b": -1},
        kernel_arguments=("iommu=pt", "intel-iommu=*", "dyndbg=file a +p"),
        kernel_arguments_absent=("nouveau.modeset=1",),
    )
)
TUNED = msgspec.structs.replace(
    NODE,
    kernel=Kernel(
        command_line='ro intel_iommu=on iommu=pt dyndbg="file a +p" -- nouveau.modeset=1',
        sysctls=(
            Sysctl(name="net.core.somaxconn", value=4096),
            Sysctl(name="net.ipv4.tcp_rmem", value="4096 131072 6291456"),
            Sysctl(name="a.b", value=-1),
        ),
    ),
)
UNTUNED = msgspec.structs.replace(
    NODE,
    kernel=Kernel(
        command_line="ro iommu=nopt intel_iommu=on nouveau.modeset=1",
        sysctls=(
            Sysctl(name="net.core.somaxconn", value=128),
            Sysctl(name="net.ipv4.tcp_rmem", value="4096 131072 4194304"),
            Sysctl(name="a.b", value=NOT_RECORDED),
        ),
    ),
)
SITE = Policy(
    site_checks=(
        SiteCheck(name="a", command=("a",), line="* ready"),
        SiteCheck(name="b", command=("b",), exit_code=3, status="warn"),
    )
)
SECTIONS = Policy(hosts=({"names": ["node1?", "x"]}, {"names": ["node2*"]}))


def with_name(name: str | Unknown) -> MachineFacts:
    return msgspec.structs.replace(NODE, hostname=name)


def with_kernel_unread() -> MachineFacts:
    return msgspec.structs.replace(NODE, kernel=Kernel())


def outcomes(*results: tuple[str, int | Unknown, str]) -> tuple[SiteOutcome, ...]:
    return tuple(
        SiteOutcome(name=name, exit_code=code, lines=(line,) if line else ()) for name, code, line in results
    )


def waiving(check: str, expires: datetime.date) -> Policy:
    return Policy(waivers=(Waiver(check=check, subject="mlx5_7", reason="cable ordered", expires=expires),))


POLICY_CASES = (
    Case("policy-gpus", "as expected", NODE, ("PASS host",), GPUS),
    Case(
        "policy-gpus",
        "expected by the driver's name",
        NODE,
        ("PASS host",),
        Policy(gpu=GpuExpectation(model="nvidia h100 80gb hbm3")),
    ),
    Case("policy-gpus", "nothing expected", NODE, ("SKIP host",)),
    Case(
        "policy-gpus",
        "another VBIOS on two",
        with_gpus(NODE, 1, 2, vbios_version="92.00"),
        ("FAIL GPU1-2", "PASS host"),
        GPUS,
    ),
    Case("policy-gpus", "another model", NODE, ("FAIL GPU0-7",), Policy(gpu=GpuExpectation(model="l40s"))),
    Case("policy-gpus", "fewer", NODE, ("FAIL host",), Policy(gpu=GpuExpectation(count=4))),
    Case(
        "policy-gpus",
        "less memory",
        with_gpus(NODE, 3, memory_bytes=70 * GIB),
        ("FAIL GPU3", "PASS host"),
        GPUS,
    ),
    Case("policy-gpus", "partitioned", with_gpus(NODE, mig_enabled=True), (f"FAIL {ALL}", "PASS host"), GPUS),
    Case("policy-gpus", "unread", UNREAD, ("UNKNOWN host",), GPUS),
    Case(
        "policy-gpus",
        "no VBIOS read",
        with_gpus(NODE, vbios_version=NOT_RECORDED),
        ("UNKNOWN host", "PASS host"),
        GPUS,
    ),
    Case(
        "policy-gpus",
        "none, as expected",
        BOX,
        ("PASS host",),
        Policy(gpu=GpuExpectation(count=0, model="h100-sxm")),
    ),
    Case("policy-nics", "as expected", NODE, ("PASS host",), NICS),
    Case("policy-nics", "nothing expected", NODE, ("SKIP host",)),
    Case(
        "policy-nics",
        "a port is down",
        with_nics(NODE, "mlx5_5", state="DOWN"),
        ("FAIL host", "PASS host"),
        NICS,
    ),
    Case(
        "policy-nics", "all are slow", with_nics(NODE, rate_gbps=200.0), ("FAIL mlx5_0-7", "PASS host"), NICS
    ),
    Case(
        "policy-nics",
        "old firmware",
        with_nics(NODE, "mlx5_2", firmware_version="28.33.1"),
        ("FAIL mlx5_2", "PASS host"),
        NICS,
    ),
    Case(
        "policy-nics",
        "no such card",
        NODE,
        ("FAIL host",),
        Policy(nic=NicExpectation(firmware={"MT4131": "40"})),
    ),
    Case(
        "policy-nics",
        "moved",
        NODE,
        ("FAIL mlx5_3",),
        Policy(nic=NicExpectation(places={"mlx5_3": "0000:01:00.0"})),
    ),
    Case(
        "policy-nics",
        "gone",
        NODE,
        ("FAIL mlx5_9",),
        Policy(nic=NicExpectation(places={"mlx5_9": "0000:01:00.0"})),
    ),
    Case("policy-nics", "unread", UNREAD, ("UNKNOWN host",), NICS),
    Case("policy-versions", "as expected", NODE, ("PASS host",), VERSIONS),
    Case("policy-versions", "nothing expected", NODE, ("SKIP host",)),
    Case(
        "policy-versions",
        "another driver",
        with_part(NODE, "software", driver_version="535.1"),
        ("FAIL host", "PASS host"),
        VERSIONS,
    ),
    Case(
        "policy-versions",
        "no toolkit",
        with_part(NODE, "software", cuda_toolkit_version=None),
        ("FAIL host", "PASS host"),
        VERSIONS,
    ),
    Case(
        "policy-versions",
        "driver of a paste",
        with_part(NODE, "software", driver_version=NOT_RECORDED),
        ("PASS host",),
        DRIVER,
    ),
    Case(
        "policy-versions",
        "unread",
        with_part(NODE, "software", kernel=NOT_RECORDED),
        ("UNKNOWN host", "PASS host"),
        VERSIONS,
    ),
    Case("policy-host", "as expected", NODE, ("PASS host",), HOST),
    Case("policy-host", "nothing expected", NODE, ("SKIP host",)),
    Case("policy-host", "served", SERVED, ("PASS host",), SERVICES),
    Case(
        "policy-host",
        "not served",
        with_part(SERVED, "software", services=(), modules=()),
        ("FAIL host", "FAIL host"),
        SERVICES,
    ),
    Case("policy-host", "a small machine", BOX, ("FAIL host",) * 3 + ("PASS host",), HOST),
    Case("policy-host", "unread", UNSERVED, ("UNKNOWN host",), SERVICES),
    Case(
        "policy-host",
        "read by a deep check",
        with_part(NODE, "software", services=DEEP_ONLY, modules=DEEP_ONLY),
        ("SKIP host",),
        SERVICES,
    ),
    Case(
        "policy-waivers",
        "valid to the last day",
        NODE,
        ("PASS host",),
        waiving("nic-state", datetime.date(2026, 11, 21)),
    ),
    Case(
        "policy-waivers",
        "expired yesterday",
        NODE,
        ("WARN mlx5_7",),
        waiving("nic-state", datetime.date(2026, 11, 20)),
    ),
    Case(
        "policy-waivers",
        "nobody knows the day",
        NODE,
        ("UNKNOWN host",),
        waiving("nic-state", datetime.date(2099, 1, 1)),
        None,
    ),
    Case("policy-waivers", "nothing waived", NODE, ("SKIP host",)),
    Case("policy-gpus", "with the limits of the policy", LIMITED, ("PASS host",), LIMITS),
    Case(
        "policy-gpus",
        "with other limits",
        with_gpus(
            LIMITED,
            3,
            ecc_enabled=False,
            power_limit_w=500.0,
            sm_clock_max_mhz=1755,
            pcie=pcie(8, 4),
            nvlinks=nvlinks(up=17),
        ),
        ("FAIL GPU3",) * 5 + ("PASS host",),
        LIMITS,
    ),
    Case(
        "policy-gpus",
        "with unread limits",
        with_gpus(LIMITED, 3, power_limit_w=NOT_RECORDED, nvlinks=NOT_RECORDED),
        ("UNKNOWN host", "PASS host"),
        LIMITS,
    ),
    Case("policy-nics", "with all lanes", WIDE, ("PASS host",), LANES),
    Case(
        "policy-nics",
        "with few lanes",
        with_nics(WIDE, "mlx5_2", pcie=PcieLink(generation=4, width=8)),
        ("FAIL mlx5_2", "FAIL mlx5_2", "PASS host"),
        LANES,
    ),
    Case("policy-nics", "lanes of unread ports", UNREAD, ("UNKNOWN host",), LANES),
    Case("policy-nics", "lanes of no port", BOX, ("FAIL host", "FAIL host"), LANES),
    Case("policy-versions", "with the firmware of the policy", FIRM, ("PASS host",), FIRMWARE),
    Case(
        "policy-versions",
        "with other firmware",
        msgspec.structs.replace(FIRM, dmi=Dmi(bios_version="1.9", bmc_version="1.42")),
        ("FAIL host", "FAIL host", "PASS host"),
        FIRMWARE,
    ),
    Case(
        "policy-versions",
        "without OFED, unread BMC",
        with_part(with_part(FIRM, "dmi", bmc_version=NOT_RECORDED), "software", ofed_version=None),
        ("FAIL host", "UNKNOWN host", "PASS host"),
        FIRMWARE,
    ),
    Case("policy-host", "tuned", TUNED, ("PASS host",), KERNEL),
    Case("policy-host", "untuned", UNTUNED, ("FAIL host",) * 5 + ("UNKNOWN host", "PASS host"), KERNEL),
    Case("policy-host", "unread kernel", with_kernel_unread(), ("UNKNOWN host",), KERNEL),
    Case("site-checks", "none", NODE, ("SKIP host",)),
    Case("site-checks", "not run", NODE, ("UNKNOWN a", "UNKNOWN b"), SITE),
    Case("policy-sections", "none", NODE, ("SKIP host",)),
    Case("policy-sections", "for this host", NODE, ("PASS host",), SECTIONS),
    Case("policy-sections", "for others alone", with_name("node3"), ("WARN host",), SECTIONS),
    Case(
        "policy-sections",
        "for others",
        with_name("node3"),
        ("SKIP host",),
        msgspec.structs.replace(SECTIONS, gpu=GpuExpectation(count=8)),
    ),
    Case("policy-sections", "for an unknown host", with_name(TIMEOUT), ("UNKNOWN host",), SECTIONS),
    Case(
        "site-checks",
        "as expected",
        NODE,
        ("PASS a", "PASS b"),
        SITE,
        site_outcomes=outcomes(("a", 0, "3 ready"), ("b", 3, "")),
    ),
    Case(
        "site-checks",
        "other results",
        NODE,
        ("FAIL a", "WARN b"),
        SITE,
        site_outcomes=outcomes(("a", 0, "waiting"), ("b", 0, "")),
    ),
    Case(
        "site-checks",
        "late",
        NODE,
        ("UNKNOWN a", "PASS b"),
        SITE,
        site_outcomes=outcomes(("a", TIMEOUT, ""), ("b", 3, "")),
    ),
)
