"""Test the sentence about a healthy run, and the rate that its hardware should reach."""

from __future__ import annotations

import pytest

from probes.compare.reference_rows import load_bench_references
from probes.logs.diagnosis import Explanation
from probes.logs.event import Event
from probes.logs.reading import Reading
from tests.support.log_events import event

RAILS = " ".join(f"[{port}]mlx5_{port}:1/IB" for port in range(8))
SPEEDS = [
    f"NET/IB: [{port}] mlx5_{port}:uverbs{port}:1/IB provider=Mlx5 speed=400000 context=0x55 "
    f"pciPath=/sys/devices/pci0000:1a ar=1"
    for port in range(8)
]
TREE = ["+ PCI[48.0] - NIC/1a000", "              + NET[50.0] - NET/0 (1a/1/50.0)"]
PORTS = tuple(
    event(
        "machine.port", {"name": f"mlx5_{n}", "port": 1, "gbps": 400.0}, source="machine", number=0, text=""
    )
    for n in range(9)
)
H100 = event("machine.gpu", {"name": "NVIDIA H100 80GB HBM3"}, source="machine", number=0, text="")


def run(*said: str, nodes: int = 16, nvls: int = 16) -> str:
    """Return lines of rank 0 about a run with eight GPUs per node."""
    lines = (
        f"NET/IB : Using {RAILS} [RO]; OOB eth0:10.0.0.1<0>",
        *said,
        "Using network IB",
        f"comm 0x5 rank 0 nRanks {8 * nodes} nNodes {nodes} localRanks 8 localRank 0 MNNVL 0",
        f"NVLS multicast support is available on dev 0 (NVLS_NCHANNELS {nvls})",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA" if nodes > 1 else "",
        f"16 coll channels, 16 collnet channels, {nvls} nvls channels, 16 p2p channels, 2 p2p channels per "
        f"peer",
        f"ncclCommInitRank comm 0x5 rank 0 nranks {8 * nodes} cudaDev 0 nvmlDev 0 busId 1a000 commId 0x9 - "
        f"Init COMPLETE",
    )
    return "".join(f"w0:1:1 [0] NCCL INFO {line}\n" for line in lines if line) + "step 1 loss 2.5\n" * 40


def explained(text: str, *beside: Event) -> Explanation:
    reading = Reading()
    source = reading.source("job.log")
    reading.feed(source, text.encode())
    source.end()
    explanation = reading.explanation(beside)
    assert explanation.state == "healthy"
    return explanation


def sentence(explanation: Explanation) -> str:
    return next(one.summary for one in explanation.diagnoses if one.cause_id == "healthy")


@pytest.mark.parametrize(
    ("text", "beside"),
    [(run(*SPEEDS), ()), (run(*TREE), ()), (run(), PORTS)],
    ids=["speeds of the adapters", "speeds in the topology", "the machine's ports"],
)
def test_a_run_over_eight_rails(text: str, beside: tuple[Event, ...]) -> None:
    explanation = explained(text, *beside)
    words = sentence(explanation)
    assert words.startswith("IB with GPUDirect on 8 rails, NVLS on, ")
    assert "16 channels; 128 ranks on 16 nodes; expect 370 GB/s" in words
    row = load_bench_references().across("all_reduce", 8 << 30)
    assert row is not None
    assert row.fraction * 8 * 50 == pytest.approx(370, abs=5)
    (expected,) = explanation.expected
    assert "All-reduce of at least 1 GiB across 16 machines: about 370 GB/s" in expected


@pytest.mark.parametrize(
    ("megabits", "expected"), [("100000", "92 GB/s"), ("200000", "180 GB/s")], ids=["in full", "by tens"]
)
def test_from_100_gb_per_s_on_a_rate_is_rounded_to_tens(megabits: str, expected: str) -> None:
    slower = [speed.replace("400000", megabits) for speed in SPEEDS]
    assert f"expect {expected}" in sentence(explained(run(*slower)))


def test_between_two_machines_more_is_possible() -> None:
    (expected,) = explained(run(*SPEEDS, nodes=2)).expected
    assert "or more by trees or NVLS" in expected


def test_no_rate_is_expected_without_the_speeds_of_all_adapters() -> None:
    assert "expect" not in sentence(explained(run()))
    assert "expect" not in sentence(explained(run(*SPEEDS[:3])))


@pytest.mark.parametrize(("nvls", "algorithm"), [(16, "NVLS"), (0, "ring")])
def test_a_single_machine_is_expected_to_reach_the_published_rate_of_its_model(
    nvls: int, algorithm: str
) -> None:
    explanation = explained(run(nodes=1, nvls=nvls), H100)
    rows = load_bench_references().collective_rates("h100-sxm", "all_reduce", 8, 8 << 30, "")
    rate = rows["NVLS" if algorithm == "NVLS" else "ring"].rates["all_reduce"] / 1e9
    assert f"expect {round(rate / 10) * 10:.0f} GB/s" in sentence(explanation)
    assert not explained(run(nodes=1, nvls=nvls)).expected, "no GPU model is named"


def test_sockets_are_named_with_their_interface() -> None:
    text = (
        "w0:1:1 [0] NCCL INFO NET/Socket : Using [0]ens7:10.0.0.1<0>\nw0:1:1 [0] NCCL INFO NET/IB : No "
        "device found.\n"
    )
    assert sentence(explained(text)).startswith("Socket over ens7")
