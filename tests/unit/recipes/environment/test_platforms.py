"""Each platform gets exactly its documented variables; the table has the source of each set.

The published prefixes `ibp` and `eth0` are written as exact names, and lists of ports with their port number.
NCCL_DEBUG and OMP_NUM_THREADS, which every job gets, are left out of the table.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.base.rows import load_rows
from probes.collect.surroundings import PLATFORM_FILES
from probes.facts import Cloud, MachineFacts
from recipes.environment.environment_rows import Platform, load_platforms
from tests.support.platform_machines import (
    IBP,
    MEGA_ENP,
    MLX8,
    OCI_H200,
    PLATFORM_MACHINES,
    in_container,
    with_file,
)
from tests.support.worlds import World, world

EVERYWHERE = {"NCCL_DEBUG", "OMP_NUM_THREADS"}


def exact(names: list[str]) -> str:
    return "=" + ",".join(f"{name}:1" for name in names)


def mpi(**variables: str) -> dict[str, str]:
    return {f"mpi:{name}": value for name, value in variables.items()}


class Documented(NamedTuple):
    """The variables of a platform on two nodes, its presets, and the source that documents both."""

    source: str
    exported: dict[str, str] = {}
    """Variables; `mpi:` marks those that only the script for mpirun exports."""
    presets: dict[str, str] = {}


TCPX = {
    "NCCL_NET": "GPUDirectTCPX_v7",
    "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": "/run/tcpx",
    "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS": "500000",
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_CROSS_NIC": "0",
    "NCCL_NSOCKS_PERTHREAD": "4",
    "NCCL_SOCKET_NTHREADS": "1",
    "NCCL_NET_GDR_LEVEL": "PIX",
    "NCCL_P2P_PXN_LEVEL": "0",
    "NCCL_DYNAMIC_CHUNK_SIZE": "524288",
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "NCCL_P2P_PCI_CHUNKSIZE": "524288",
    "NCCL_P2P_NVL_CHUNKSIZE": "1048576",
    "NCCL_BUFFSIZE": "4194304",
}
TCPXO = {
    "NCCL_FASTRAK_NUM_FLOWS": "2",
    "NCCL_FASTRAK_USE_SNAP": "1",
    "NCCL_FASTRAK_USE_LLCM": "1",
    "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL": "0",
    "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
    "NCCL_CROSS_NIC": "0",
    "NCCL_ALGO": "Ring,Tree",
    "NCCL_PROTO": "Simple",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_NVLS_ENABLE": "0",
    "NCCL_TUNER_PLUGIN": "libnccl-tuner.so",
    "NCCL_TUNER_CONFIG_PATH": "/var/lib/tcpxo/lib64/a3plus_tuner_config.textproto",
    "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE": "/var/lib/tcpxo/lib64/a3plus_guest_config.textproto",
    "NCCL_DYNAMIC_CHUNK_SIZE": "524288",
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "NCCL_P2P_PCI_CHUNKSIZE": "524288",
    "NCCL_P2P_NVL_CHUNKSIZE": "1048576",
}
GIB = {
    "NCCL_NET": "gIB",
    "NCCL_CROSS_NIC": "0",
    "NCCL_NET_GDR_LEVEL": "PIX",
    "NCCL_P2P_NET_CHUNKSIZE": "131072",
    "NCCL_NVLS_CHUNKSIZE": "524288",
    "NCCL_IB_ADAPTIVE_ROUTING": "1",
    "NCCL_IB_QPS_PER_CONNECTION": "4",
    "NCCL_IB_TC": "52",
    "NCCL_IB_FIFO_TC": "84",
    "NCCL_TUNER_CONFIG_PATH": "/usr/local/gib/configs/tuner_config_a4.txtpb",
}
NVL72 = {"NCCL_MNNVL_ENABLE": "1", "NCCL_CUMEM_ENABLE": "1", "NCCL_NET_GDR_C2C": "1"}
EFA_P4D = {
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "OFI_NCCL_PROTOCOL": "SENDRECV",
}
EFA_P5 = {
    **EFA_P4D,
    "OFI_NCCL_PROTOCOL": "RDMA",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE": "524288",
    "NCCL_NVLS_CHUNKSIZE": "524288",
    "NCCL_NET_FORCE_FLUSH": "0",
}
EFA_P5EN = {**EFA_P5, "NCCL_NETDEVS_POLICY": "max:1"}
OCI_RDMA = {
    "NCCL_CUMEM_ENABLE": "0",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
    "NCCL_IB_QPS_PER_CONNECTION": "1",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_IB_TC": "41",
    "NCCL_IB_SL": "0",
    "NCCL_IB_TIMEOUT": "22",
    "NCCL_NET_PLUGIN": "none",
    "NCCL_SOCKET_IFNAME": "=eth0",
}
NDV4 = {"NCCL_IB_PCI_RELAXED_ORDERING": "1", "NCCL_IGNORE_CPU_AFFINITY": "1"}
OFI = "aws/aws-ofi-nccl 2daf7d30 src/platform-aws.cpp"
CTK = "GoogleCloudPlatform/cluster-toolkit 10470803"
AZI = "Azure/azhpc-images 8e9d055f, /etc/nccl.conf of the image, which this container does not mount"
OCI = "oracle-quickstart/oci-hpc b5285a68 playbooks/roles/nccl-conf"
CW = "coreweave/nccl-tests cb86553"
NONE = "NVIDIA NCCL user guide: variables only for a documented need; no platform"

TABLE: dict[str, Documented] = {
    "aws-p4d": Documented(OFI, presets=EFA_P4D),
    "aws-p5": Documented(OFI, presets=EFA_P5),
    "aws-p5en": Documented(OFI, presets=EFA_P5EN),
    "aws-p6-b200": Documented(OFI, presets=EFA_P5EN),
    "aws-p6-b300": Documented(OFI, presets=EFA_P5EN),
    "aws-p6e": Documented(f"{OFI}; awslabs 0edaf152", {"NCCL_MNNVL_ENABLE": "1"}, EFA_P5EN),
    "aws-g5": Documented("awslabs/awsome-distributed-training 0edaf152: nothing"),
    "gcp-a3-high-gke": Documented(
        f"{CTK} examples/gke-a3-highgpu",
        {
            **TCPX,
            "NCCL_SOCKET_IFNAME": "=eth0",
            "NCCL_GPUDIRECTTCPX_CTRL_DEV": "eth0",
            "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "eth1,eth2,eth3,eth4",
            "NCCL_GPUDIRECTTCPX_TX_BINDINGS": "eth1:8-21,112-125;eth2:8-21,112-125;"
            "eth3:60-73,164-177;eth4:60-73,164-177",
            "NCCL_GPUDIRECTTCPX_RX_BINDINGS": "eth1:22-35,126-139;eth2:22-35,126-139;"
            "eth3:74-87,178-191;eth4:74-87,178-191",
        },
    ),
    "gcp-a3-high-slurm": Documented(
        f"{CTK} examples/machine-learning/a3-highgpu-8g",
        {
            **TCPX,
            "NCCL_SOCKET_IFNAME": "=enp0s12",
            "NCCL_GPUDIRECTTCPX_CTRL_DEV": "enp0s12",
            "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "enp6s0,enp12s0,enp134s0,enp140s0",
            "NCCL_GPUDIRECTTCPX_TX_BINDINGS": "enp6s0:8-21,112-125;enp12s0:8-21,112-125;"
            "enp134s0:60-73,164-177;enp140s0:60-73,164-177",
            "NCCL_GPUDIRECTTCPX_RX_BINDINGS": "enp6s0:22-35,126-139;enp12s0:22-35,126-139;"
            "enp134s0:74-87,178-191;enp140s0:74-87,178-191",
        },
    ),
    "gcp-a3-mega-gke": Documented(
        "AI-Hypercomputer/gpu-recipes 2e1fd5e",
        {
            **TCPXO,
            "NCCL_SOCKET_IFNAME": "=eth0",
            "NCCL_FASTRAK_CTRL_DEV": "eth0",
            "NCCL_FASTRAK_IFNAME": "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8",
        },
    ),
    "gcp-a3-mega-slurm": Documented(
        f"{CTK} examples/machine-learning/a3-megagpu-8g",
        {
            **TCPXO,
            "NCCL_SOCKET_IFNAME": "=enp0s12",
            "NCCL_FASTRAK_CTRL_DEV": "enp0s12",
            "NCCL_FASTRAK_IFNAME": ",".join(MEGA_ENP),
        },
    ),
    "gcp-a3-ultra": Documented(
        f"{CTK} examples/machine-learning/a3-ultragpu-8g",
        {
            **GIB,
            "NCCL_SOCKET_IFNAME": "=enp0s19,enp192s20",
            "NCCL_TUNER_CONFIG_PATH": "/usr/local/gib/configs/tuner_config_a3u.txtpb",
        },
    ),
    "gcp-a4": Documented("AI-Hypercomputer/gpu-recipes 2e1fd5e", {**GIB, "NCCL_SOCKET_IFNAME": "=eth0,eth1"}),
    "gcp-a4x": Documented(
        f"{CTK} examples/machine-learning/a4x-highgpu-4g; AI-Hypercomputer/gpu-recipes 2e1fd5e",
        {**GIB, **NVL72, "NCCL_SOCKET_IFNAME": "=enp0s3,enp192s2"},
    ),
    "gcp-a4x-max": Documented(
        "AI-Hypercomputer/gpu-recipes 2e1fd5e",
        {
            **GIB,
            **NVL72,
            "NCCL_SOCKET_IFNAME": "=eth0,eth1",
            "NCCL_IB_GID_INDEX": "3",
            "NCCL_IB_HCA": exact(MLX8[:4]),
        },
    ),
    "gcp-g4": Documented("AI-Hypercomputer/gpu-recipes 2e1fd5e inference/g4", {"NCCL_P2P_LEVEL": "SYS"}),
    "gcp-without-plugin": Documented("names of plugins have an effect only where the plugin is present"),
    "azure-ndv2": Documented(AZI, {"NCCL_IGNORE_CPU_AFFINITY": "1"}),
    "azure-ndv4": Documented(AZI, NDV4),
    "azure-ndv5": Documented(AZI, NDV4),
    "azure-ncv4": Documented(f"{AZI}; without /opt/microsoft there is no topology file"),
    "azure-ncv6": Documented(AZI, {"NCCL_SOCKET_IFNAME": "=eth0"}),
    "azure-nd-gb200": Documented("Azure/azhpc-images 8e9d055f: only nvidia_peermem"),
    "oci-a100": Documented(
        OCI,
        {
            "NCCL_IB_SL": "0",
            "NCCL_IB_TC": "41",
            "NCCL_IB_QPS_PER_CONNECTION": "4",
            "NCCL_IB_GID_INDEX": "3",
            "NCCL_IGNORE_CPU_AFFINITY": "1",
            "NCCL_IB_HCA": exact([f"mlx5_{n}" for n in range(18) if n not in (4, 12)]),
            **mpi(
                RX_QUEUE_LEN="8192",
                IB_RX_QUEUE_LEN="8192",
                UCX_TLS="tcp",
                UCX_NET_DEVICES="eth0",
                OMPI_MCA_coll_hcoll_enable="0",
            ),
        },
    ),
    "oci-h100": Documented(OCI, {**OCI_RDMA, "NCCL_IB_HCA": exact(MLX8)}),
    "oci-h200": Documented(OCI, {**OCI_RDMA, "NCCL_IB_HCA": exact(OCI_H200)}),
    "oci-gb200": Documented(OCI, {**NVL72, "NCCL_NVLS_ENABLE": "1"}),
    "coreweave-h100": Documented(
        f"{CW}; docs.coreweave.com, use-gpudirect-rdma",
        {
            "NCCL_SOCKET_IFNAME": "=eth0",
            "NCCL_IB_HCA": exact(IBP),
            "NCCL_NET_PLUGIN": "none",
            **mpi(
                UCX_TLS="tcp", UCX_NET_DEVICES="eth0", OMPI_MCA_coll_hcoll_enable="0", PMIX_MCA_gds="^ds12"
            ),
        },
    ),
    "coreweave-gb200": Documented(CW, {**NVL72, "NCCL_SHM_DISABLE": "0"}),
    "coreweave-gb300-roce": Documented(
        CW,
        {
            **NVL72,
            "NCCL_SHM_DISABLE": "0",
            "NCCL_IB_ADAPTIVE_ROUTING": "1",
            "NCCL_IB_NET_LATENCY": "50",
            "NCCL_NVLS_NCHANNELS": "24",
            "NCCL_P2P_NET_CHUNKSIZE": "524288",
            "NCCL_NVLS_CHUNKSIZE": "262144",
            "NCCL_NVLSTREE_MAX_CHUNKSIZE": "262144",
            "NCCL_IB_ADDR_FAMILY": "AF_INET6",
            "NCCL_IB_ADDR_RANGE": "fd02::/16",
            "NCCL_IB_TC": "96",
        },
    ),
    "alibaba-lingjun": Documented(
        "Alibaba Cloud, PAI, RDMA: high-performance networks (2024 to 2026)",
        presets={
            "NCCL_IB_TC": "136",
            "NCCL_IB_SL": "5",
            "NCCL_IB_GID_INDEX": "3",
            "NCCL_SOCKET_IFNAME": "eth",
            "NCCL_IB_HCA": "mlx5",
            "NCCL_IB_TIMEOUT": "22",
            "NCCL_IB_QPS_PER_CONNECTION": "8",
            "NCCL_NET_PLUGIN": "none",
        },
    ),
    "alibaba-erdma": Documented("Alibaba Cloud, PAI, eRDMA: the platform sets its own"),
    "lambda": Documented("no document has a variable for Lambda's 1-Click clusters"),
    "bare-dgx": Documented(NONE),
    "bare-roce": Documented(NONE),
    "bare-ethernet": Documented(NONE),
    "bare-nvl72": Documented(
        "NVIDIA NCCL user guide, NCCL_MNNVL_ENABLE, with IMEX up", {"NCCL_MNNVL_ENABLE": "1"}
    ),
}


def exported(job: World) -> dict[str, str]:
    return {
        ("mpi:" if variable.launchers == ("mpi",) else "") + name: variable.value
        for name, variable in job.variables.items()
        if name not in EVERYWHERE
    }


def presets(job: World) -> dict[str, str]:
    return {row.name: row.value for row in job.plan.effective if row.origin != "plan"}


def test_every_made_machine_has_its_set():
    assert set(TABLE) == set(PLATFORM_MACHINES)
    recognised = {world(name, facts).plan.platform for name, facts in PLATFORM_MACHINES.items()}
    assert recognised == {row.id for row in load_platforms()} | {""}


@pytest.mark.parametrize("name", TABLE)
def test_a_platform_gets_exactly_the_documented_set(name: str) -> None:
    job = world(name, PLATFORM_MACHINES[name])
    assert exported(job) == TABLE[name].exported
    assert presets(job) == TABLE[name].presets
    assert set(job.variables) >= EVERYWHERE


@pytest.mark.parametrize("name", TABLE)
def test_a_job_on_one_node_needs_no_network(name: str) -> None:
    settings = {"NCCL_P2P_LEVEL", "NCCL_SOCKET_IFNAME", *NDV4} if "azure" in name or "g4" in name else set()
    assert set(exported(world(name, PLATFORM_MACHINES[name], 1))) <= settings


@pytest.mark.parametrize(
    "name", [name for name in TABLE if name.startswith("azure") and TABLE[name].exported]
)
def test_the_configuration_file_of_an_image_is_not_repeated(name: str) -> None:
    documented = TABLE[name].exported
    job = world(name, with_file(PLATFORM_MACHINES[name], **documented))
    assert exported(job) == {}
    assert {row.name: row.origin for row in job.plan.effective if row.name in documented} == dict.fromkeys(
        documented, "/etc/nccl.conf"
    )


def test_a_topology_file_that_exists_is_named():
    facts = PLATFORM_MACHINES["azure-ndv5"]
    with_topology = msgspec.structs.replace(
        facts, cloud=Cloud(provider="azure", machine_type=None, files=("/opt/microsoft/ndv5/topo.xml",))
    )
    expected = {**NDV4, "NCCL_TOPO_FILE": "/opt/microsoft/ndv5/topo.xml"}
    assert exported(world("azure", with_topology)) == expected
    assert exported(world("azure", with_file(with_topology, **expected))) == {}


def test_the_file_of_an_image_is_assumed_if_files_were_not_read():
    facts = msgspec.structs.replace(PLATFORM_MACHINES["azure-ndv5"], environment=NOT_RECORDED)
    job = world("azure", facts)
    assert (exported(job), presets(job)) == ({}, NDV4)


def test_the_environment_of_a_container_is_not_repeated():
    facts = with_file(in_container(PLATFORM_MACHINES["gcp-a4"], "sys_nice"), "environment", **GIB)
    assert exported(world("gcp", facts)) == {"NCCL_SOCKET_IFNAME": "=eth0,eth1"}


def test_an_image_that_selects_a_foreign_plugin_gets_the_plugin_of_the_platform():
    facts = with_file(
        in_container(PLATFORM_MACHINES["aws-p5"], "sys_nice"), "environment", NCCL_NET_PLUGIN="spcx"
    )
    assert exported(world("aws", facts)) == {"NCCL_NET_PLUGIN": "/opt/amazon/ofi-nccl/lib/libnccl-net.so"}


def unmarked(facts: MachineFacts) -> MachineFacts:
    return msgspec.structs.replace(
        facts, cloud=msgspec.structs.replace(facts.cloud, files=NOT_RECORDED, machine_type=NOT_RECORDED)
    )


@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith(("gcp-a", "aws-p"))])
def test_an_unknown_type_or_plugin_is_not_guessed(name: str) -> None:
    job = world(name, unmarked(PLATFORM_MACHINES[name]))
    assert job.plan.platform in ("", "aws-without-efa")
    assert not {name for name in exported(job) if "TCPX" in name or "FASTRAK" in name or name == "NCCL_NET"}


def test_every_file_of_a_platform_is_collected():
    named = {
        path
        for row in load_platforms()
        for when in (row.when, *(rule.when for rule in row.rules))
        for path in when.files
    }
    assert named <= set(PLATFORM_FILES)


def test_every_row_has_source_and_date():
    for row in load_platforms():
        assert row.source
        assert row.date
        assert all(rule.source and rule.date and rule.why for rule in row.rules), row.id


def test_each_variable_of_a_platform_is_cited_and_a_rule_replaces_the_inherited_one():
    raw = {row.id: row for row in load_rows("recipes", "platforms", Platform)}
    load_platforms.cache_clear()
    extending = 0
    for platform in load_platforms():
        row = raw[platform.id]
        own = {rule.variable for rule in row.rules}
        assert [rule.variable for rule in platform.rules[: len(row.rules)]] == [
            rule.variable for rule in row.rules
        ]
        for rule, written in zip(platform.rules, row.rules, strict=False):
            assert (rule.source, rule.date) == (written.source or row.source, written.date or row.date)
        assert all(rule.source and rule.date for rule in platform.rules)
        if row.extends:
            inherited = {rule.variable for rule in raw[row.extends].rules} - own
            extending += bool(inherited)
            assert {rule.variable for rule in platform.rules} >= own | inherited
        more = [rule.variable for rule in platform.rules[len(row.rules) :]]
        assert not own & set(more)
    assert extending
