"""Test that healthy runs over each network have no fault, whatever NCCL and its plugins write."""

from __future__ import annotations

import pytest

from probes.logs.reading import Reading


def _run(said: list[str], network: str, way: str, *, hosts: int = 2, extra: str = "") -> str:
    """Return the log of a training run with eight GPUs per host."""
    lines = []
    world = hosts * 8
    init = (
        "ncclCommInitRankConfig comm 0x5{0:x} rank {0} nranks {1} cudaDev {2} nvmlDev {2} busId {2}8000 "
        "commId 0x94 - Init {3}"
    )
    for rank in range(world):
        host, gpu = rank // 8, rank % 8
        start = f"node{host}:{1000 + gpu}:{2000 + gpu} [{gpu}] NCCL INFO "
        peer = (rank + 1) % world
        is_across = hosts > 1 and gpu == 7
        lines += [
            f"{start}{words}"
            for words in (
                f"Bootstrap: Using eth0:10.0.0.{host + 1}<0>",
                "cudaDriverVersion 12080",
                *said,
                f"Using network {network}",
                init.format(rank, world, gpu, "START"),
                f"comm 0x5{rank:x} rank {rank} nRanks {world} nNodes {hosts} localRanks 8 localRank {gpu} "
                f"MNNVL 0",
                *(
                    f"Channel {channel:02d}/0 : {rank}[{gpu}] -> {peer}[{peer % 8}] "
                    + (f"[send] via NET/{way}" if is_across else "via P2P/CUMEM")
                    for channel in range(4)
                ),
                "Connected all rings, use ring PXN 0 GDR 1",
                "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels "
                "per peer",
                init.format(rank, world, gpu, "COMPLETE"),
            )
        ]
    return "\n".join([*lines, extra, *(f"step {step} loss 2.1" for step in range(50))])


_EIGHT = " ".join(f"[{port}]mlx5_{port}:1/RoCE" for port in range(8))
_EFA = [
    "NET/Plugin: Failed to find ncclNetPlugin_v10 symbol.",
    "NET/OFI Initializing aws-ofi-nccl 1.16.2",
    "NET/OFI Using Libfabric version 2.1",
    "NET/OFI Setting provider_filter to efa",
    "NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)",
    "NET/OFI Using transport protocol RDMA (platform set)",
]
_RETRY = (
    "socketPollConnect: connect to 10.0.0.1<45763> returned Connection refused, retrying "
    "(1/34) after 100 msec of sleep"
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            _run([f"NET/IB : Using {_EIGHT} [RO]; OOB eth0:10.0.0.1<0>"], "IB", "IB/3(5)/GDRDMA/Shared"),
            id="roce",
        ),
        pytest.param(
            _run([_RETRY, f"NET/IB : Using {_EIGHT} [RO]; OOB eth0:10.0.0.1<0>"], "IB", "IB/0/GDRDMA"),
            id="retries",
        ),
        pytest.param(_run(_EFA, "Libfabric", "Libfabric/3/GDRDMA"), id="efa"),
        pytest.param(
            _run([f"NET/gIB : Using {_EIGHT} [RO]; OOB eth0:10.0.0.1<0>"], "gIB", "gIB/3/GDRDMA"), id="gib"
        ),
        pytest.param(_run(["NET/FasTrak v1.0.15"], "FasTrak", "FasTrak/1/GDRDMA"), id="fastrak"),
        pytest.param(_run(["P2P plugin v9 IBext_v9"], "IBext_v9", "IBext_v9/0/GDRDMA"), id="hpc-x"),
        pytest.param(_run(["NET/IB : No device found."], "Socket", "", hosts=1), id="one-machine"),
        pytest.param(
            _run(["Failed to open libibverbs.so[.1]"], "Socket", "", hosts=1), id="no-verbs-on-one-machine"
        ),
        pytest.param(_run(["RCCL version : 2.22.3-HEAD:9b8ea4f"], "IB", "IB/0/GDRDMA"), id="rccl"),
        pytest.param(
            _run(
                [],
                "IB",
                "IB/0/GDRDMA",
                extra="node0:1:2 [0] NCCL INFO [Service thread] Connection closed by localRank 0",
            ),
            id="shut-down",
        ),
        pytest.param(
            _run(
                [],
                "IB",
                "IB/0/GDRDMA",
                extra="[2025-08-22 17:44:36] n1:1:2 [1] ras/client_support.cc:159 NCCL WARN "
                "Call to bind failed: Address already in use",
            ),
            id="port-for-tools-taken",
        ),
        pytest.param(
            _run(
                [],
                "IB",
                "IB/0/GDRDMA",
                extra="n1:1:2 [0] search.cc:9 NCCL WARN Could not find a path for pattern 4",
            ),
            id="odd-topology",
        ),
    ],
)
def test_healthy_runs_are_accused_of_nothing(text):
    reading = Reading()
    source = reading.source("job.log")
    reading.feed(source, text.encode())
    source.end()
    explanation = reading.explanation()
    assert (explanation.state, explanation.diagnoses[0].cause_id) == ("healthy", "healthy")
    assert not any(each.is_fault for each in explanation.diagnoses)
