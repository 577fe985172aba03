"""Cases of the checks of other tools' measurements and diagnoses."""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from probes.facts import Diagnosis, MachineFacts, ToolResult
from tests.support.check_case import NODE, TIMEOUT, Case
from tests.support.machines import h100_node, ndr_port


def copies(test: str, *rates: float, peers: bool = False) -> MachineFacts:
    """Return one copy per GPU, or from GPU0 to each other GPU."""
    subjects = [f"GPU0-GPU{n + 1}" if peers else f"GPU{n}" for n in range(len(rates))]
    return h100_node(
        tool_results=tuple(
            ToolResult(tool="nvbandwidth", test=test, subject=subject, metric="bandwidth", value=rate * 1e9)
            for subject, rate in zip(subjects, rates, strict=True)
        )
    )


def curve(
    *points: tuple[int, float], test: str = "all_reduce", nodes: int | None = 1, wrong: int | None = 0
) -> MachineFacts:
    """Return bus bandwidths in GB/s by size in MiB."""
    return h100_node(
        tool_results=tuple(
            ToolResult(
                tool="nccl-tests",
                test=test,
                subject="host",
                metric="bus_bandwidth",
                value=rate * 1e9,
                size_bytes=size * 2**20,
                wrong_values=wrong,
                ranks=8,
                nodes=nodes,
            )
            for size, rate in points
        )
    )


def said(message: str, test: str = "run") -> ToolResult:
    return ToolResult(
        tool="nccl-tests",
        test=test,
        subject="host",
        metric="bus_bandwidth" if test == "average" else "status",
        value=Unknown(Reason.ERROR, "failed"),
        unit="",
        message=message,
    )


def transfer(test: str, value: float, size: int, subject: str = "mlx5_2") -> MachineFacts:
    is_latency = test.endswith("_lat")
    result = ToolResult(
        tool="perftest",
        test=test,
        subject=subject,
        metric="latency" if is_latency else "bandwidth",
        value=value,
        unit="s" if is_latency else "B/s",
        size_bytes=size,
    )
    return h100_node(tool_results=(result,))


def diagnosed(*results: tuple[str, str, str]) -> MachineFacts:
    return h100_node(
        diagnoses=tuple(
            Diagnosis(tool="dcgmi diag", test=test, subject=subject, result=result)  # type: ignore[arg-type]
            for test, subject, result in results
        )
    )


NO_TOOLS = h100_node(tool_results=TIMEOUT)
TOOL_CHECKS = (
    "host-bandwidth",
    "peer-bandwidth",
    "collective-results",
    "collective-bandwidth",
    "network-bandwidth",
    "tool-complaints",
)

TOOL_CASES = (
    *(Case(check_id, "unread", NO_TOOLS, ("UNKNOWN host",)) for check_id in TOOL_CHECKS),
    *(Case(check_id, "nothing measured", NODE, ("SKIP host",)) for check_id in TOOL_CHECKS),
    Case("host-bandwidth", "PCIe 5", copies("host_to_device_memcpy_ce", 55.4, 54.9), ("PASS GPU0-1",)),
    Case(
        "host-bandwidth",
        "one at half speed",
        copies("host_to_device_memcpy_ce", 55.4, 27.0),
        ("FAIL GPU1", "PASS GPU0"),
    ),
    Case("host-bandwidth", "one a little slow", copies("H2D-Pinned", 55.4, 46.0), ("WARN GPU1", "PASS GPU0")),
    Case(
        "host-bandwidth",
        "copies by SMs are slow by nature",
        copies("device_to_host_memcpy_sm", 6.0),
        ("SKIP host",),
    ),
    Case(
        "host-bandwidth",
        "GPUs unknown, one slow",
        h100_node(
            gpus=(), tool_results=copies("host_to_device_memcpy_ce", 25.0, 25.1, 25.2, 12.0).tool_results
        ),
        ("WARN GPU3",),
    ),
    Case(
        "host-bandwidth",
        "GPUs unknown, one exactly at the limit",
        h100_node(
            gpus=(), tool_results=copies("host_to_device_memcpy_ce", 24.0, 24.0, 24.0, 18.0).tool_results
        ),
        ("PASS GPU0-3",),
    ),
    Case(
        "host-bandwidth",
        "GPUs unknown, alike",
        h100_node(gpus=(), tool_results=copies("host_to_device_memcpy_ce", 25.0, 25.1, 25.2).tool_results),
        ("PASS GPU0-2",),
    ),
    Case(
        "host-bandwidth",
        "one GPU, unknown",
        h100_node(gpus=(), tool_results=copies("host_to_device_memcpy_ce", 12.0).tool_results),
        ("SKIP GPU0",),
    ),
    Case(
        "peer-bandwidth",
        "NVLink",
        copies("device_to_device_memcpy_read_ce", 390.0, peers=True),
        ("PASS GPU0-1",),
    ),
    Case(
        "peer-bandwidth",
        "over PCIe instead",
        copies("device_to_device_memcpy_write_ce", 42.0, peers=True),
        ("FAIL GPU0-GPU1",),
    ),
    Case(
        "peer-bandwidth",
        "links missing",
        copies("gpu_to_gpu_read_by_dma", 310.0, peers=True),
        ("WARN GPU0-GPU1",),
    ),
    Case("collective-results", "right", curve((1024, 360.0)), ("PASS host",)),
    Case("collective-results", "wrong", curve((1024, 360.0), wrong=3), ("FAIL host",)),
    Case("collective-results", "not checked", curve((1024, 360.0), wrong=None), ("SKIP host",)),
    Case("collective-bandwidth", "as the links", curve((1, 30.0), (1024, 360.0)), ("PASS host",)),
    Case("collective-bandwidth", "NVLS reads higher", curve((1024, 475.0)), ("PASS host",)),
    Case("collective-bandwidth", "a part of it", curve((1024, 180.0)), ("FAIL host",)),
    Case("collective-bandwidth", "a little less", curve((1024, 300.0)), ("WARN host",)),
    Case("collective-bandwidth", "small messages tell nothing", curve((256, 180.0)), ("SKIP host",)),
    Case("collective-bandwidth", "across machines", curve((1024, 180.0), nodes=2), ("SKIP host",)),
    Case(
        "collective-bandwidth",
        "a collapse across machines",
        curve((32, 29.5), (64, 5.3), (512, 5.3), nodes=3),
        ("FAIL host",),
    ),
    Case(
        "collective-bandwidth",
        "a dip across machines",
        curve((32, 29.5), (64, 20.0), nodes=3),
        ("WARN host",),
    ),
    Case(
        "collective-bandwidth",
        "below the minimum that was asked for",
        h100_node(tool_results=(said("Avg bus bandwidth 0 FAILED", "average"),)),
        ("FAIL host",),
    ),
    Case(
        "collective-bandwidth",
        "nothing was carried at all",
        curve((32, 0.0), (64, 0.0), nodes=2),
        ("SKIP host",),
    ),
    Case("tool-complaints", "none", curve((1024, 360.0)), ("PASS host",)),
    Case(
        "tool-complaints",
        "a failure",
        h100_node(tool_results=(said("Test failure common.cu:1126"),)),
        ("WARN host",),
    ),
    Case("network-bandwidth", "the port's rate", transfer("ib_write_bw", 48.5e9, 8 << 20), ("PASS mlx5_2",)),
    Case("network-bandwidth", "half of it", transfer("ib_write_bw", 24.0e9, 8 << 20), ("FAIL mlx5_2",)),
    Case("network-bandwidth", "a little less", transfer("ib_read_bw", 40.0e9, 8 << 20), ("WARN mlx5_2",)),
    Case(
        "network-bandwidth",
        "small messages tell nothing",
        transfer("ib_write_bw", 1.0e9, 512),
        ("SKIP host",),
    ),
    Case(
        "network-bandwidth",
        "a port that nobody knows",
        transfer("ib_write_bw", 24.0e9, 8 << 20, "ib0"),
        ("SKIP host",),
    ),
    Case("network-bandwidth", "quick", transfer("ib_write_lat", 1.9e-6, 2), ("PASS mlx5_2",)),
    Case("network-bandwidth", "slow", transfer("ib_write_lat", 30e-6, 2), ("WARN mlx5_2",)),
    Case(
        "network-bandwidth",
        "rate unread",
        h100_node(
            nics=(ndr_port(2, rate_gbps=TIMEOUT),),
            tool_results=transfer("ib_write_bw", 24.0e9, 8 << 20).tool_results,
        ),
        ("SKIP host",),
    ),
    Case(
        "dcgm-diagnosis",
        "passed",
        diagnosed(("pcie", "GPU0", "PASS"), ("pcie", "GPU1", "PASS")),
        ("PASS GPU0-1",),
    ),
    Case(
        "dcgm-diagnosis",
        "failed on one",
        diagnosed(("memory", "GPU0", "FAIL"), ("memory", "GPU1", "PASS")),
        ("FAIL GPU0", "PASS GPU1"),
    ),
    Case("dcgm-diagnosis", "warns", diagnosed(("software", "host", "WARN")), ("WARN host",)),
    Case(
        "dcgm-diagnosis", "nothing in the report", diagnosed(("diag", "host", "UNKNOWN")), ("UNKNOWN host",)
    ),
    Case("dcgm-diagnosis", "all skipped", diagnosed(("pcie", "host", "SKIP")), ("SKIP host",)),
    Case("dcgm-diagnosis", "none given", NODE, ("SKIP host",)),
    Case("dcgm-diagnosis", "unread", h100_node(diagnoses=TIMEOUT), ("UNKNOWN host",)),
)
