"""Test lines about faults of the network between nodes, and the cause of each."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained, ids

_INFO = "gpu-a:310:402 [1] NCCL INFO "
_PEER = "gpu-b:512:608 [1] NCCL INFO "
_WARN = "gpu-a:310:402 [1] transport/net_ib.cc:101 NCCL WARN "
_UCX = "[1700000000.1] [gpu-a:310:0]       ib_mlx5_log.c:177  UCX  ERROR "
_TORCH = (
    "[rank3]: torch.distributed.DistBackendError: NCCL error in: "
    "../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, unhandled "
    "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
    "[rank3]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device "
    "error.",
    "[rank3]: Last error:",
)
_EFA = "libfabric:310:1731000000::efa:cq:efa_rdm_txe_handle_error():737<warn> err: "

_FAULTS = [
    pytest.param(
        (
            f"{_WARN}NET/IB : mlx5_2:1 Got async event : local access violation work queue error",
            f"{_WARN}NET/IB : Got completion from peer 10.4.0.2<41000> with status=5 opcode=1 len=0 vendor "
            f"err 249 (Recv)",
        ),
        "ib-remote-access",
        id="access-violation-before-flush",
    ),
    pytest.param(
        (f"{_WARN}NET/IB : mlx5_2:1 Got async event : invalid request local work queue error",),
        "ib-remote-access",
        id="invalid-request-is-no-lid",
    ),
    pytest.param(
        (
            "2024-03-02T10:13:44.884Z: [1,3]<stdout>:gpu-a:310:402 [0] transport/net_ib.cu:80 NCCL WARN "
            "NET/IB : "
            "Got async event : local catastrophic error",
            "2024-03-02T10:13:44.884Z: [1,3]<stdout>:gpu-a:310:402 [0] misc/ibvwrap.cu:220 NCCL WARN Call to "
            "ibv_get_async_event failed",
        ),
        "ib-device-fatal",
        id="catastrophic",
    ),
    pytest.param(
        (
            "[1700000000.473099] [gpu-a:310:0]          ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq"
            "() failed: Cannot allocate "
            "memory. Please set max locked memory (ulimit -l) to 'unlimited' (current: 128 kbytes)",
        ),
        "memlock",
        id="ucx-memlock",
    ),
    pytest.param(
        (
            f"{_EFA}113, message: Unreachable remote (never received a response) My EFA addr: "
            f"fi_addr_efa://[fe80::1]:0:7 (15)",
        ),
        "efa-security-group",
        id="efa-unreachable",
    ),
    pytest.param(
        (
            f"{_EFA}103, message: Unresponsive receiver (connection previously established) My EFA addr: "
            f"fi_addr (4124)",
        ),
        "peer-died",
        id="efa-was-there",
    ),
    pytest.param(
        (
            "gpu-a:310:402 [1] nccl_net_ofi_rdma_connect:5501 NCCL WARN NET/OFI Unable to insert remote "
            "address into address "
            "vector for device 3. RC: -22",
            f"{_INFO}transport/net.cc:733 -> 3",
        ),
        "plugin-failed",
        id="ofi-address-vector",
    ),
    pytest.param(
        (
            "gpu-a:310:402 [1] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo"
            "() call failed: No data available",
        ),
        "rdma-device-missing",
        id="ofi-without-devices",
    ),
    pytest.param(
        ("libfabric:310:1731000000::efa:mr:efa_mr_reg_impl():801<warn> Unable to register MR: Bad address",),
        "memory-registration-failed",
        id="libfabric-registration",
    ),
    pytest.param(
        (f"{_UCX}Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)",),
        "ib-retry-exceeded",
        id="ucx-retry",
    ),
    pytest.param(
        (f"{_UCX}Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/12)",),
        "acs-enabled",
        id="ucx-protection",
    ),
    pytest.param(
        (
            "libibverbs: Warning: no userspace device-specific driver found for "
            "/sys/class/infiniband_verbs/uverbs0",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}Using network Socket",
        ),
        "rdma-device-missing",
        id="no-provider-for-the-card",
    ),
    pytest.param(
        (
            "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 "
            "(supports 1 to 1) for device "
            "/sys/class/infiniband/bnxt_re0",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}Using network Socket",
        ),
        "rdma-device-missing",
        id="provider-of-another-kernel",
    ),
    pytest.param(
        (
            "gpu-a:310:402 [1] accept_wait_for_connection(a_t*, b_t**):4909 NCCL WARN NET/OFI Unexpected "
            "number of remote rails "
            "for dev 3. Expected 4 but got 0",
            f"{_INFO}transport/net.cc:867 -> 3",
        ),
        "plugin-failed",
        id="ofi-rails",
    ),
    pytest.param(
        (f"{_WARN}NET/IB : mlx5_1:1 Got async error event: port error",),
        "ib-port-flapping",
        id="async-error-event",
    ),
    pytest.param(
        (
            f"{_WARN}NET/IB : mlx5_3:1 async fatal event on QP (0x732d78661238): invalid request local "
            f"work queue error",
        ),
        "ib-remote-access",
        id="fatal-for-a-queue-pair-alone",
    ),
    pytest.param((f"{_WARN}NET/IB : No IP interface found.",), "no-interface", id="no-ip-interface"),
    pytest.param(
        (f"{_WARN}Call to ibv_query_port failed with error No such device",),
        "rdma-device-missing",
        id="port-gone",
    ),
    pytest.param(
        (f"{_WARN}Call to connect timeout : Connection refused",), "peer-unreachable", id="timeout-of-2.3"
    ),
    pytest.param((f"{_WARN}socketStartConnect: exceeded retries (20000)",), "peer-unreachable", id="retries"),
    pytest.param(
        (
            *_TORCH,
            "[rank3]: socketProgressOpt: Call to recv from 10.4.0.2<5432> failed : Connection reset by peer",
        ),
        "peer-died",
        id="reset-in-last-error",
    ),
    pytest.param(
        (f"{_WARN}socketProgressOpt: Call to recv from 10.4.0.2<5432> failed : Connection timed out",),
        "peer-unreachable",
        id="standing-connection-cut",
    ),
    pytest.param(
        (f"{_WARN}Net : error encountered when getting address info : Name or service not known",),
        "peer-unreachable",
        id="name-not-resolved",
    ),
    pytest.param(
        (
            *_TORCH,
            "[rank3]: NET/IB : req 0/1 tag 0 peer 10.4.0.2<58683> collective mismatch error, local size "
            "496640 remote size 65536",
        ),
        "collective-mismatch",
        id="mismatch-in-last-error",
    ),
    pytest.param(
        (
            f"{_INFO}misc/socket.cc:564 -> 2",
            f"{_INFO}misc/socket.cc:615 -> 2",
            f"{_INFO}bootstrap.cc:270 -> 2",
        ),
        "peer-unreachable",
        id="sockets-without-a-word",
    ),
    pytest.param(
        (
            f"{_INFO}socketPollConnect: connect returned No route to host, retrying "
            f"(34/34) after sleep for 3400 msec",
        ),
        "peer-unreachable",
        id="the-last-retry",
    ),
    pytest.param(
        (
            f"{_INFO}misc/socket.cc:567 -> 2",
            f"{_INFO}transport/net_socket.cc:336 -> 2",
            "gpu-a:310:402 [1] proxy.cc:1519 NCCL WARN [Proxy Service 11] Failed to execute operation "
            "Connect from rank 11, "
            "retcode 2",
            "gpu-a:310:402 [1] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote "
            "peer gpu-a.ibnet<53735>",
        ),
        "peer-unreachable",
        id="a-connection-that-fails-without-a-word",
    ),
    pytest.param(
        (
            f"{_INFO}P2P plugin IBext_v8",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}NET/Socket : Using [0]eth0:10.4.0.1<0>",
            f"{_INFO}Using network Socket",
            f"{_INFO}Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0",
        ),
        "rdma-device-missing",
        id="the-plugin-of-an-image-between-nodes",
    ),
]


@pytest.mark.parametrize(("lines", "cause"), _FAULTS)
def test_the_cause_of_a_failure(lines, cause):
    explanation = explained("\n".join(lines) + "\n")
    assert explanation.diagnoses[0].cause_id == cause, [each.cause_id for each in explanation.diagnoses]


_NO_VERBS = (f"{_INFO}Failed to open libibverbs.so[.1]", f"{_INFO}Using network Socket")
_SHAPE = f"{_INFO}comm 0x7f5d rank 0 nRanks 16 nNodes {{}} localRanks 8 localRank 0 MNNVL 0"
_COMPLETE = f"{_INFO}comm 0x7f5d rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 10000 commId 0x1 - Init COMPLETE"


@pytest.mark.parametrize(
    ("lines", "is_reported"),
    [
        pytest.param(_NO_VERBS, False, id="one host"),
        pytest.param((*_NO_VERBS, *_TORCH), False, id="one host that failed"),
        pytest.param((*_NO_VERBS, _SHAPE.format(1), _COMPLETE), False, id="one node"),
        pytest.param((*_NO_VERBS, _SHAPE.format(2)), True, id="two nodes"),
        pytest.param((*_NO_VERBS, _SHAPE.format(2), _COMPLETE), True, id="two nodes that communicate"),
        pytest.param((*_NO_VERBS, f"{_PEER}Using network Socket"), True, id="lines of two hosts"),
        pytest.param(
            (*_NO_VERBS, f"{_INFO}NCCL_IB_DISABLE set by environment to 1.", _SHAPE.format(2)),
            False,
            id="two nodes without InfiniBand by choice",
        ),
    ],
)
def test_missing_libibverbs_matters_between_hosts_alone(lines: tuple[str, ...], is_reported: bool) -> None:
    causes = {diagnosis.cause_id for diagnosis in explained("\n".join(lines) + "\n").diagnoses}
    assert ("rdma-device-missing" in causes) is is_reported


DISABLED = "NCCL_IB_DISABLE set by environment to 1."
PLUGIN = "NET/Plugin: Loaded net plugin IBext_v9 (v9)"
PORT = "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"


@pytest.mark.parametrize(
    ("lines", "is_ignored"),
    [
        (("Using network IBext_v9", PORT), True),
        ((PLUGIN, PORT), True),
        ((PORT,), False),
        ((PLUGIN,), False),
        (("Using network IB", PLUGIN, PORT), False),
        ((PLUGIN.replace("IBext_v9", "AWS"), PORT), False),
        (("NCCL_IBEXT_DISABLE set by environment to 1.", PLUGIN, PORT), False),
    ],
    ids=["network", "plugin and ports", "no plugin", "no ports", "own network", "another plugin", "both off"],
)
def test_an_external_plugin_ignores_the_variable_that_switches_infiniband_off(
    lines: tuple[str, ...], is_ignored: bool
) -> None:
    text = "".join(f"n1:9:60 [0] NCCL INFO {line}\n" for line in (DISABLED, *lines))
    assert ("env-ineffective" in ids(explained(text))) == is_ignored
