"""Cases of the checks of environment variables and of NCCL's configuration files."""

from __future__ import annotations

import msgspec

from probes.facts import (
    EnvironmentVariable,
    MachineFacts,
    Unread,
)
from tests.support.check_case import (
    BOX,
    NODE,
    NOT_RECORDED,
    TIMEOUT,
    Case,
)
from tests.support.machines import h100_node, with_gpus, with_part

HOST_PASSES, HOST_WARNS, HOST_FAILS, HOST_SKIPS = (
    ("PASS host",),
    ("WARN host",),
    ("FAIL host",),
    ("SKIP host",),
)

HOST_UNKNOWN = ("UNKNOWN host",)

NO_ENVIRONMENT = h100_node(environment=NOT_RECORDED)


def variables(facts: MachineFacts = NODE, origin: str = "environment", **values: str) -> MachineFacts:
    """Return `facts` with these additional variables."""
    before = facts.environment if isinstance(facts.environment, tuple) else ()
    own = tuple(EnvironmentVariable(name=name, value=value, origin=origin) for name, value in values.items())
    return msgspec.structs.replace(facts, environment=(*before, *own))


def batch(facts: MachineFacts = NODE, **changes: object) -> MachineFacts:
    return with_part(facts, "scheduler", **changes)


IN_JOB = batch(kind="slurm", job_id="7")

BLACKWELL = with_gpus(NODE, compute_capability="10.0")

PREFIXED = h100_node(
    nics=tuple(
        msgspec.structs.replace(nic, name=name)
        for nic, name in zip(NODE.nics[:2], ("mlx5_1", "mlx5_10"), strict=True)
    )
)

BROKEN_FILE = h100_node(unread=(Unread(source="/etc/nccl.conf", line=2, text="NCCL_DEBUG WARN", why="no ="),))

FILE = "/etc/nccl.conf"

ENVIRONMENT_CASES = (
    Case("nccl-debug-settings", "nothing set", NODE, HOST_PASSES),
    Case("nccl-debug-settings", "no peer-to-peer", variables(NCCL_P2P_DISABLE="1"), HOST_WARNS),
    Case("nccl-debug-settings", "its default", variables(NCCL_P2P_DISABLE="0"), HOST_PASSES),
    Case(
        "nccl-debug-settings",
        "two that cost",
        variables(NCCL_P2P_DISABLE="1", NCCL_IB_DISABLE="1"),
        ("WARN host",) * 2,
    ),
    Case(
        "nccl-debug-settings",
        "two others",
        variables(NCCL_NVLS_ENABLE="0", NCCL_GRAPH_REGISTER="0"),
        HOST_WARNS,
    ),
    Case("nccl-debug-settings", "long dead", variables(NCCL_LL_THRESHOLD="0"), HOST_WARNS),
    Case(
        "nccl-debug-settings",
        "a line for every call",
        variables(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,COLL"),
        HOST_WARNS,
    ),
    Case(
        "nccl-debug-settings",
        "a trial",
        variables(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET"),
        HOST_PASSES,
    ),
    Case(
        "nccl-debug-settings",
        "Azure's own file",
        variables(
            h100_node(cloud=msgspec.structs.replace(NODE.cloud, provider="azure")),
            FILE,
            NCCL_IB_PCI_RELAXED_ORDERING="1",
        ),
        HOST_PASSES,
    ),
    Case("nccl-debug-settings", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("nccl-values", "nothing set", NODE, HOST_PASSES),
    Case(
        "nccl-values",
        "understood",
        variables(NCCL_IB_TIMEOUT="22", NCCL_SOCKET_FAMILY="AF_INET"),
        HOST_PASSES,
    ),
    Case("nccl-values", "a word for a switch", variables(NCCL_P2P_DISABLE="true"), HOST_WARNS),
    Case(
        "nccl-values",
        "out of range",
        variables(NCCL_IB_TIMEOUT="300", NCCL_IB_RETRY_CNT="20"),
        ("WARN host",) * 2,
    ),
    Case("nccl-values", "a level in small letters", variables(NCCL_P2P_LEVEL="sys"), HOST_WARNS),
    Case("nccl-values", "not yet read", variables(NCCL_RAS_ENABLE="1"), HOST_WARNS),
    Case(
        "nccl-values",
        "too many sockets",
        variables(NCCL_SOCKET_NTHREADS="16", NCCL_NSOCKS_PERTHREAD="8"),
        HOST_WARNS,
    ),
    Case("nccl-values", "unknown in a file", variables(origin=FILE, NCCL_P2P_DISABEL="1"), HOST_WARNS),
    Case("nccl-values", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("nccl-forced", "nothing set", NODE, HOST_PASSES),
    Case("nccl-forced", "an algorithm", variables(NCCL_ALGO="Ring"), HOST_WARNS),
    Case("nccl-forced", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("nccl-interfaces", "not set", NODE, HOST_SKIPS),
    Case("nccl-interfaces", "exact", variables(NCCL_SOCKET_IFNAME="=eno1"), HOST_PASSES),
    Case("nccl-interfaces", "not here", variables(NCCL_SOCKET_IFNAME="ens5"), HOST_WARNS),
    Case("nccl-interfaces", "docker", variables(NCCL_SOCKET_IFNAME="docker0"), HOST_WARNS),
    Case("nccl-interfaces", "not virbr", variables(NCCL_SOCKET_IFNAME="^virbr"), HOST_WARNS),
    Case(
        "nccl-interfaces",
        "interfaces unread",
        variables(h100_node(interfaces=TIMEOUT), NCCL_SOCKET_IFNAME="eno1"),
        HOST_UNKNOWN,
    ),
    Case("nccl-interfaces", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("nccl-hcas", "not set", NODE, HOST_SKIPS),
    Case(
        "nccl-hcas",
        "exact",
        variables(NCCL_IB_HCA="=" + ",".join(f"mlx5_{n}" for n in range(8))),
        HOST_PASSES,
    ),
    Case(
        "nccl-hcas",
        "with ports",
        variables(NCCL_IB_HCA="=" + ",".join(f"mlx5_{n}:1" for n in range(8))),
        HOST_PASSES,
    ),
    Case("nccl-hcas", "storage too", variables(NCCL_IB_HCA="mlx5"), HOST_WARNS),
    Case("nccl-hcas", "storage left out", variables(NCCL_IB_HCA="^=mlx5_8"), HOST_PASSES),
    Case("nccl-hcas", "one left out", variables(NCCL_IB_HCA="=mlx5_0,mlx5_1"), HOST_WARNS),
    Case("nccl-hcas", "nothing", variables(NCCL_IB_HCA="ibp"), HOST_WARNS),
    Case("nccl-hcas", "the beginning of another", variables(PREFIXED, NCCL_IB_HCA="mlx5_1"), HOST_WARNS),
    Case("nccl-hcas", "ports unread", variables(h100_node(nics=TIMEOUT), NCCL_IB_HCA="mlx5"), HOST_UNKNOWN),
    Case("nccl-hcas", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("gloo-interface", "not set", NODE, HOST_SKIPS),
    Case("gloo-interface", "here", variables(GLOO_SOCKET_IFNAME="eno1"), HOST_PASSES),
    Case("gloo-interface", "an exclusion", variables(GLOO_SOCKET_IFNAME="^docker0"), HOST_WARNS),
    Case("gloo-interface", "not here", variables(GLOO_SOCKET_IFNAME="eth0"), HOST_WARNS),
    Case(
        "gloo-interface",
        "unread",
        variables(h100_node(interfaces=TIMEOUT), GLOO_SOCKET_IFNAME="eno1"),
        HOST_UNKNOWN,
    ),
    Case("nccl-configuration", "no file", NODE, HOST_SKIPS),
    Case("nccl-configuration", "well written", variables(origin=FILE, NCCL_DEBUG="WARN"), HOST_PASSES),
    Case("nccl-configuration", "quotes", variables(origin=FILE, NCCL_DEBUG='"WARN"'), HOST_WARNS),
    Case("nccl-configuration", "a comment", variables(origin=FILE, NCCL_DEBUG="WARN # less"), HOST_WARNS),
    Case("nccl-configuration", "blanks", variables(origin=FILE, **{"NCCL_DEBUG ": " WARN"}), HOST_WARNS),
    Case("nccl-configuration", "a line without =", BROKEN_FILE, HOST_WARNS),
    Case("nccl-configuration", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("cuda-connections", "not set", NODE, HOST_PASSES),
    Case("cuda-connections", "one on Hopper", variables(CUDA_DEVICE_MAX_CONNECTIONS="1"), HOST_PASSES),
    Case(
        "cuda-connections",
        "one on Blackwell",
        variables(BLACKWELL, CUDA_DEVICE_MAX_CONNECTIONS="1"),
        HOST_WARNS,
    ),
    Case("cuda-connections", "out of range", variables(CUDA_DEVICE_MAX_CONNECTIONS="64"), HOST_WARNS),
    Case("cuda-connections", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("cuda-visible-devices", "not set", NODE, HOST_PASSES),
    Case("cuda-visible-devices", "four of eight", variables(CUDA_VISIBLE_DEVICES="0,1,2,3"), HOST_WARNS),
    Case(
        "cuda-visible-devices",
        "four in a job",
        variables(IN_JOB, CUDA_VISIBLE_DEVICES="0,1,2,3"),
        HOST_PASSES,
    ),
    Case("cuda-visible-devices", "not there", variables(IN_JOB, CUDA_VISIBLE_DEVICES="0,8"), HOST_WARNS),
    Case("cuda-visible-devices", "empty", variables(CUDA_VISIBLE_DEVICES=""), HOST_WARNS),
    Case("cuda-visible-devices", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("cuda-injection", "none", NODE, HOST_PASSES),
    Case("cuda-injection", "a profiler", variables(CUDA_INJECTION64_PATH="/opt/nsys/x.so"), HOST_WARNS),
    Case("cuda-injection", "a sanitiser", variables(LD_PRELOAD="/usr/lib/libasan.so.6"), HOST_WARNS),
    Case("cuda-injection", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
    Case("omp-threads", "not set", NODE, HOST_PASSES),
    Case("omp-threads", "fits", variables(OMP_NUM_THREADS="14"), HOST_PASSES),
    Case("omp-threads", "too many", variables(OMP_NUM_THREADS="224"), HOST_WARNS),
    Case("omp-threads", "no number", variables(BOX, OMP_NUM_THREADS="auto"), HOST_WARNS),
    Case(
        "omp-threads",
        "CPUs unread",
        variables(with_part(NODE, "cpu", allowed_cpus=TIMEOUT), OMP_NUM_THREADS="8"),
        HOST_UNKNOWN,
    ),
    Case("omp-threads", "unread", NO_ENVIRONMENT, HOST_UNKNOWN),
)
