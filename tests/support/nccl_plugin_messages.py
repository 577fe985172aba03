"""Warnings and failures of plugins, network libraries and RCCL: reader, line, kind of event, fields."""

from __future__ import annotations

from probes.logs.readers import network_libraries, plugins, rccl

_INFO = "gpu-7:4001:4008 [3] NCCL INFO "
_WARN = "gpu-7:4001:4008 [3] file.cc:12 NCCL WARN "

PLUGIN_MESSAGES = [
    (
        plugins,
        f"{_INFO}NET/Plugin : No plugin found (libnccl-net.so), using internal",
        "nccl.plugin-missing",
        {"kind": "net"},
    ),
    (
        plugins,
        f"{_INFO}NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or "
        f"directory No plugin found "
        "(libnccl-net.so), using internal implementation",
        "nccl.plugin-missing",
        {"kind": "net"},
    ),
    (
        plugins,
        f"{_INFO}TUNER/Plugin: Could not find: libnccl-tuner.so. Using internal",
        "nccl.plugin-missing",
        {"kind": "tuner"},
    ),
    (
        plugins,
        f"{_INFO}NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: "
        "cannot open shared object file: No such file",
        "nccl.plugin-missing",
        {"kind": "net"},
    ),
    (
        plugins,
        f"{_INFO}NET/Plugin : Plugin load returned 2 : libfabric.so.1: cannot open shared object file: No "
        f"such file",
        "nccl.plugin-failed",
        {"kind": "net"},
    ),
    (
        plugins,
        f"{_INFO}NET/Plugin: libnccl-net.so: /lib/libc.so.6: version `GLIBC_2.38' not found",
        "nccl.plugin-failed",
        {"kind": "net", "name": "libnccl-net.so"},
    ),
    (
        plugins,
        f"{_INFO}NET/Plugin: Loaded net plugin AWS Libfabric (v8)",
        "nccl.plugin-loaded",
        {"name": "AWS Libfabric"},
    ),
    (
        plugins,
        f"{_INFO}Successfully loaded external network plugin /opt/libnccl-net.so",
        "nccl.plugin-loaded",
        {"kind": "net"},
    ),
    (
        plugins,
        f"{_INFO}TUNER/Plugin: Using nccl_ofi_tuner (v3)",
        "nccl.plugin-loaded",
        {"kind": "tuner", "version": "v3"},
    ),
    (plugins, f"{_INFO}P2P plugin IBext_v8", "nccl.plugin-loaded", {"name": "IBext_v8", "kind": "net"}),
    (
        plugins,
        f"{_INFO}Failed to initialize NET plugin Libfabric",
        "nccl.plugin-failed",
        {"name": "Libfabric", "kind": "net"},
    ),
    (plugins, f"{_WARN}Failed to initialize any NET plugin", "nccl.plugin-failed", {"kind": "net"}),
    (
        plugins,
        "n:1:2 [0] ucx_plugin.c:498 NCCL WARN Failed: UCX error ucx_plugin.c:498 '-5'",
        "nccl.plugin-failed",
        {"name": "UCX"},
    ),
    (
        plugins,
        f"{_INFO}NET/GPUDirectTCPX ver. 3.1.8.",
        "nccl.network-plugin",
        {"name": "GPUDirectTCPX", "version": "3.1.8"},
    ),
    (plugins, f"{_INFO}NET/FasTrak v1.0.15", "nccl.network-plugin", {"name": "FasTrak", "version": "1.0.15"}),
    (
        network_libraries,
        f"{_INFO}NET/OFI Using aws-ofi-nccl 1.5.0aws",
        "ofi.version",
        {"version": "1.5.0aws"},
    ),
    (
        network_libraries,
        f"{_INFO}NET/OFI Initializing aws-ofi-nccl 1.16.2",
        "ofi.version",
        {"version": "1.16.2"},
    ),
    (
        network_libraries,
        "INFO: Function: ofi_init Line: 686: NET/OFI Selected Provider is efa",
        "ofi.provider",
        {"name": "efa"},
    ),
    (
        network_libraries,
        "WARN: Function: f Line: 459: NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
        "ofi.failure",
        {"code": -22},
    ),
    (
        network_libraries,
        f"{_INFO}NET/OFI Selected Provider is efa (found 4 nics)",
        "ofi.provider",
        {"name": "efa", "nics": 4},
    ),
    (
        network_libraries,
        f"{_INFO}NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)",
        "ofi.provider",
        {"fabric": "efa-direct"},
    ),
    (
        network_libraries,
        f"{_INFO}NET/OFI Using transport protocol RDMA (platform set)",
        "ofi.protocol",
        {"name": "RDMA"},
    ),
    (
        network_libraries,
        "WARN: Function: find_ofi_provider Line: 543: NET/OFI Couldn't find any optimal provider",
        "ofi.no-provider",
        {},
    ),
    (
        network_libraries,
        "WARN: Function: main Line: 66: NET/OFI OFI NCCL failure: 2",
        "ofi.failure",
        {"code": 2},
    ),
    (
        network_libraries,
        "gpu-7:1:2 [0] ncclResult_t nccl_net_ofi_init_v6(ncclDebugLogger_t):166 NCCL WARN NET/OFI "
        "Initializing plugin failed",
        "ofi.failure",
        {"reason": "Initializing plugin failed"},
    ),
    (
        network_libraries,
        "gpu-7:1:2 [5] ofi_process_cq:1039 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 20. "
        "Error: unknown error. "
        "Completed length: 0, Request: { buffer_index: 255, dev: 1, size: 0, state: CREATED, direction: "
        "SEND }",
        "ofi.completion-error",
        {"code": 20, "reason": "unknown error", "device": 1, "direction": "SEND"},
    ),
    (
        network_libraries,
        "libfabric:35:16680::efa:cq:rxr_cq_write_tx_error():243<warn> rxr_cq_write_tx_error: err: 20, "
        "prov_err: Not a directory (20)",
        "ofi.completion-error",
        {"provider": "efa", "reason": "Not a directory", "code": 20},
    ),
    (
        network_libraries,
        f"{_WARN}NET/OFI Request 0x7f completed with error. RC: 103. Error: 4126 (Unresponsive receiver "
        f"(reachable by EFA device "
        "but handshake failed) My EFA addr: fi_addr_efa://[fe80::c55]:0:1 Peer EFA addr: "
        "fi_addr_efa://[fe80::d]:0:2). Completed",
        "ofi.completion-error",
        {"code": 103},
    ),
    (
        network_libraries,
        f"{_WARN}NET/OFI Unable to register memory (type = 2) for device 4. RC: -22, Error: Invalid",
        "ofi.registration",
        {"code": -22},
    ),
    (
        network_libraries,
        f"{_WARN}NET/OFI Failed to initialize GDRCopy: Failed to open gdr handle",
        "ofi.warning",
        {},
    ),
    (rccl, "RCCL version : 2.22.3-HEAD:9b8ea4f", "nccl.version", {"version": "2.22.3", "flavour": "RCCL"}),
    (rccl, "RCCL version 2.18.3+hip6.0 HEAD:2f6d59e", "nccl.version", {"version": "2.18.3", "hip": "6.0"}),
    (rccl, "HIP version  : 6.4.43482-0f2d60242", "rccl.version", {"hip": "6.4.43482-0f2d60242"}),
    (rccl, "ROCm version : 6.4.0.0-47-abc", "rccl.version", {"rocm": "6.4.0.0"}),
    (
        rccl,
        f'{_WARN}Missing "iommu=pt" from kernel command line',
        "rccl.kernel-setting",
        {"setting": "iommu=pt"},
    ),
    (
        rccl,
        f"{_WARN}NUMA auto balancing enabled which can lead to variability",
        "rccl.kernel-setting",
        {"setting": "numa_balancing"},
    ),
]
