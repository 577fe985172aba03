"""Warnings and failures of NCCL in the forms of several versions: reader, line, kind of event, fields."""

from __future__ import annotations

from probes.logs.readers import nccl_errors

_INFO = "gpu-7:4001:4008 [3] NCCL INFO "
_WARN = "gpu-7:4001:4008 [3] file.cc:12 NCCL WARN "
_WARN_226 = "[2026-03-13 22:26:02] gpu-7:4001:4008 [3] transport/net_ib/p2p.cc:648 (ncclIbTest) NCCL WARN "

ERROR_MESSAGES = [
    (
        nccl_errors,
        f"{_WARN}NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
        "nccl.ib.completion-error",
        {"status": 12, "vendor": 129},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/IB: Got completion from peer 192.0.2.3<51161> with status=4 opcode=32614 len=32614 "
        f"vendor err 81 (Send) "
        "localGid ::ffff:192.0.2.9 remoteGids::ffff:192.0.2.3 hca mlx5_1",
        "nccl.ib.completion-error",
        {
            "status": 4,
            "vendor": 81,
            "side": "Send",
            "hca": "mlx5_1",
            "remote_gid": "::ffff:192.0.2.3",
            "peer": "192.0.2.3<51161>",
        },
    ),
    (
        nccl_errors,
        f"{_WARN_226}NET/IB: Got completion from peer 192.0.2.3<40554> with status=IBV_WC_RETRY_EXC_ERR(12) "
        "opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129 localGid ::ffff:1.1.2.2 "
        "remoteGids::ffff:1.1.1.4 hca mlx5_1",
        "nccl.ib.completion-error",
        {"status": 12, "vendor": 129, "hca": "mlx5_1", "local_gid": "::ffff:1.1.2.2"},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/IB: Got completion from peer h<1> with status=IBV_WC_RETRY_EXC_ERR"
        f"(12) opcode=IBV_WC_SEND(0) reqSize=8 "
        "vendor_err=129 req_type=Send hca mlx5_0",
        "nccl.ib.completion-error",
        {"status": 12, "vendor": 129, "hca": "mlx5_0"},
    ),
    (
        nccl_errors,
        f"{_WARN}Call to ibv_modify_qp failed with error No such device",
        "nccl.ib.modify-qp",
        {"reason": "No such device"},
    ),
    (
        nccl_errors,
        f"{_WARN}Call to ibv_modify_qp failed with 22 Invalid argument, on dev rocep1s0f0:1, curr state "
        f"INIT, next state RTR, "
        "local GID index 3, local GID ::ffff:192.0.2.3, remote GID ::ffff:192.0.2.4",
        "nccl.ib.modify-qp",
        {"errno": 22, "reason": "Invalid argument", "hca": "rocep1s0f0:1", "state": "INIT", "gid_index": 3},
    ),
    (
        nccl_errors,
        f"{_WARN}Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        "nccl.ib.registration",
        {"call": "ibv_reg_mr_iova2", "reason": "Cannot allocate memory"},
    ),
    (
        nccl_errors,
        f"{_WARN}Call to ibv_create_cq failed: Cannot allocate memory",
        "nccl.ib.registration",
        {"call": "ibv_create_cq"},
    ),
    (
        nccl_errors,
        f"{_WARN}Call to ibv_open_device failed",
        "nccl.ib.call-failed",
        {"call": "ibv_open_device"},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/IB : mlx5_3:1 async fatal event on QP (0x732d): local access violation work queue error",
        "nccl.ib.async",
        {"fatal": 1, "hca": "mlx5_3", "event": "local access violation work queue error"},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/IB : mlx5_0:1 Got async event : port error",
        "nccl.ib.async",
        {"fatal": 0, "event": "port error"},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/IB : mlx5_0:1 Got non-fatal async event: port active(9)",
        "nccl.ib.async",
        {"event": "port active"},
    ),
    (
        nccl_errors,
        "n1:4:8 [3] p2p_plugin.c:141 NCCL WARN NET/IB : Got async event : port error",
        "nccl.ib.async",
        {"event": "port error"},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/IB : Remote IB device is incompatible with the local [0]mlx5_0:1/RoCE.",
        "nccl.ib.mixed-links",
        {},
    ),
    (
        nccl_errors,
        f"{_WARN}communicator encountered a fatal error (detected in ncclIbIrecv)",
        "nccl.ib.communicator-failed",
        {},
    ),
    (
        nccl_errors,
        "GENOA-06: Test NCCL failure common.cu:392 'unhandled cuda error (run with NCCL_DEBUG=INFO for "
        "details) / '",
        "nccl.error",
        {"name": "unhandled cuda error", "code": 1},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",
        "nccl.ib.call-failed",
        {"call": "query_gid_type"},
    ),
    (nccl_errors, f"{_WARN}Call to ibv_reg_mr failed", "nccl.ib.registration", {"call": "ibv_reg_mr"}),
    (
        nccl_errors,
        f"{_WARN}NET/IB : mlx5_0:1 GID table changed",
        "nccl.ib.async",
        {"event": "GID table changed"},
    ),
    (
        nccl_errors,
        "gpu-7:41:48 [0] include/socket.h:360 WARN Call to connect failed : Connection timed out",
        "nccl.connect-failed",
        {"reason": "Connection timed out"},
    ),
    (
        nccl_errors,
        f"{_WARN}Call to connect to 192.0.2.3<45763> failed : No route to host",
        "nccl.connect-failed",
        {"peer": "192.0.2.3<45763>", "reason": "No route to host"},
    ),
    (
        nccl_errors,
        f"{_WARN}socketPollConnect: Connect to 192.0.2.3<40861> returned 113(No route to host) errno 11"
        f"(Resource "
        "temporarily unavailable)",
        "nccl.connect-failed",
        {"errno": 113, "reason": "No route to host"},
    ),
    (
        nccl_errors,
        f"{_WARN}socketStartConnect: Connect to 192.0.2.3<45763> failed : Software caused connection abort",
        "nccl.connect-failed",
        {"reason": "Software caused connection abort"},
    ),
    (nccl_errors, f"{_WARN}Bootstrap : no socket interface found", "nccl.interface-missing", {}),
    (nccl_errors, f"{_WARN}NET/Socket : No usable listening interface found", "nccl.interface-missing", {}),
    (
        nccl_errors,
        f"{_WARN}Net : Connect to  family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        "nccl.address-family",
        {},
    ),
    (
        nccl_errors,
        f"{_WARN}socketFinalizeAccept: wrong type 4 != 3",
        "nccl.socket-wrong-type",
        {"actual": 4, "expected": 3},
    ),
    (
        nccl_errors,
        f"{_WARN}Connection closed by remote peer gpu-9<51234>",
        "nccl.remote-closed",
        {"peer": "gpu-9<51234>"},
    ),
    (
        nccl_errors,
        f"{_WARN}Bootstrap Root : mismatch in info from procs, nranks 16 vs 8",
        "nccl.nranks-mismatch",
        {"actual": 8},
    ),
    (
        nccl_errors,
        f"{_WARN}Bootstrap Root : mismatch in rank count from procs 16 : 8",
        "nccl.nranks-mismatch",
        {"expected": 16},
    ),
    (
        nccl_errors,
        f"{_WARN}Bootstrap Root : mismatch in info from procs, nranks 16 vs 16, offset 9 vs 0",
        "nccl.root-mismatch",
        {},
    ),
    (
        nccl_errors,
        f"{_INFO}socketPollConnect: connect to 192.0.2.3<45763> returned Connection refused, retrying "
        f"(3/34) after 300 msec",
        "nccl.connect-retry",
        {"reason": "Connection refused", "tries": 3},
    ),
    (
        nccl_errors,
        f"{_WARN}NET/Socket : message truncated : receiving 8 bytes instead of 4. If you believe your "
        f"socket network is healthy",
        "nccl.message-truncated",
        {"received": 8, "expected": 4},
    ),
    (
        nccl_errors,
        "n1:1:2 [4] misc/shmutils.cc:93 NCCL WARN Call to open failed: No such file or directory",
        "nccl.shm",
        {"step": "open"},
    ),
    (
        nccl_errors,
        f"{_WARN}Bootstrap Root : rank 3 of 16 ranks has already checked in",
        "nccl.rank-twice",
        {"rank": 3, "ranks": 16},
    ),
    (
        nccl_errors,
        f"{_WARN}Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22703",
        "nccl.version-mismatch",
        {"rank_a": 1, "version_a": 22705, "version_b": 22703},
    ),
    (
        nccl_errors,
        f"{_WARN}Message truncated : received 256 bytes instead of 128",
        "nccl.message-truncated",
        {"received": 256, "expected": 128},
    ),
    (
        nccl_errors,
        f"{_WARN}no algorithm/protocol available for function AllGather with datatype ncclInt8. NCCL_ALGO "
        f"was set to Tree.",
        "nccl.algo-unavailable",
        {"function": "AllGather", "algorithm": "Tree"},
    ),
    (
        nccl_errors,
        f"{_WARN}Error: network AWS Libfabric not found.",
        "nccl.network-not-found",
        {"name": "AWS Libfabric"},
    ),
    (
        nccl_errors,
        f"{_WARN}Error: failed to extend /dev/shm/nccl-a to 9637892 bytes, error: No space left on device "
        f"(28)",
        "nccl.shm",
        {"step": "extend", "bytes": 9637892, "reason": "No space left on device (28)"},
    ),
    (
        nccl_errors,
        f"{_WARN}Error while attaching to shared memory segment /dev/shm/nccl-1 (size 5)",
        "nccl.shm",
        {"step": "attaching"},
    ),
    (
        nccl_errors,
        f"{_WARN}Call to posix_fallocate failed : No space left on device",
        "nccl.shm",
        {"reason": "No space left on device"},
    ),
    (
        nccl_errors,
        f"{_WARN}Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000",
        "nccl.duplicate-gpu",
        {"rank_a": 2},
    ),
    (
        nccl_errors,
        "Duplicate GPU detected : rank 3 and rank 0 both on CUDA device f000",
        "nccl.duplicate-gpu",
        {"bus": "f000"},
    ),
    (
        nccl_errors,
        f"{_WARN}Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
        "nccl.duplicate-gpu",
        {},
    ),
    (
        nccl_errors,
        f"{_WARN}Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the "
        f"operation cannot be'",
        "nccl.nvls-bind",
        {"error": 401, "bytes": 2097152},
    ),
    (
        nccl_errors,
        "gpu-7:1:2 [2] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'",
        "nccl.nvls-bind",
        {"error": 1},
    ),
    (
        nccl_errors,
        f"{_WARN}MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX",
        "nccl.imex",
        {},
    ),
    (nccl_errors, f"{_WARN}Cuda failure 'initialization error'", "nccl.cuda-error", {"code": 3}),
    (
        nccl_errors,
        "n1: Test CUDA failure common.cu:941 'system not yet initialized'",
        "nccl.cuda-error",
        {"code": 802},
    ),
    (nccl_errors, f"{_WARN}Attribute arch of node cpu not found", "nccl.topology-invalid", {}),
    (
        nccl_errors,
        f"{_WARN}Cuda failure 802 'system not yet initialized'",
        "nccl.cuda-error",
        {"code": 802, "file": "file.cc:12"},
    ),
    (
        nccl_errors,
        f"{_WARN}Cuda failure 'API call is not supported in the installed CUDA driver'",
        "nccl.driver-old",
        {"text": "API call is not supported in the installed CUDA driver"},
    ),
    (
        nccl_errors,
        f"{_INFO}/usr/src/debug/rccl/build/hipify/src/misc/a_long_name_of_a_file.cc:68 -> 3 [Async thread]",
        "nccl.error",
        {"code": 3},
    ),
    (
        nccl_errors,
        f"{_WARN}hipIpcGetMemHandle failed : invalid argument",
        "nccl.ipc-failed",
        {"reason": "invalid argument"},
    ),
    (
        nccl_errors,
        f"{_WARN}Your program may be hanging, this may be caused by a collective mismatch around rank 1. "
        f"Please check",
        "nccl.collective-mismatch",
        {"rank": 1},
    ),
    (
        nccl_errors,
        f"{_WARN}Error while creating shared memory segment nccl-shm-recv-14624-1-2-3 (size 9637888)",
        "nccl.shm",
        {"path": "nccl-shm-recv-14624-1-2-3"},
    ),
    (nccl_errors, f"{_INFO}init.cc:867 -> 5", "nccl.error", {"code": 5, "file": "init.cc:867"}),
    (nccl_errors, f"{_INFO}proxy.cc:614 -> 6 [Proxy Thread]", "nccl.error", {"code": 6}),
    (
        nccl_errors,
        "ncclRemoteError: A call failed possibly due to a network error",
        "nccl.error",
        {"name": "ncclRemoteError", "code": 6},
    ),
    (
        nccl_errors,
        f"{_WARN}[Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2",
        "nccl.proxy-failed",
        {"operation": "Connect", "code": 2},
    ),
    (nccl_errors, f"{_WARN}Something new failed: internal error", "nccl.warning", {"file": "file.cc:12"}),
    (
        nccl_errors,
        f"{_WARN}Something that is merely odd",
        "nccl.notice",
        {"message": "Something that is merely odd"},
    ),
]
