"""Cases of the checks of a policy."""

from __future__ import annotations

import datetime

from probes.base.record import DEEP_ONLY
from probes.base.units import GIB
from probes.facts import State
from probes.judging.policies.policy import (
    GpuExpectation,
    HostExpectation,
    NicExpectation,
    Policy,
    SoftwareExpectation,
    Waiver,
)
from tests.support.check_case import ALL, BOX, NODE, NOT_RECORDED, UNREAD, Case
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
)
