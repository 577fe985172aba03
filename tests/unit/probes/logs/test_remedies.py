"""Test that advice fits the events, and that sentences are complete whatever names the log contains."""

from __future__ import annotations

import re

import pytest

from probes.logs.wording import filled
from tests.support.log_cases.reading import cases, explained

_OOM = (
    "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 2 has a total "
    "capacity of 39.40 GiB of "
    "which 1.10 GiB is free. {holders}Of the allocated memory 15.00 GiB is allocated by PyTorch\n"
)
_REMEDIES = {
    "no code for this GPU": (
        "NVIDIA GB203 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
        "library-conflict",
        ("sm_120", "a torch whose CUDA supports it", "get_arch_list"),
    ),
    "an extension of another torch": (
        "ImportError: /opt/py/fast_attn_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: "
        "_ZN2at4_ops5zeros4callEv\n",
        "library-conflict",
        ("another torch", "build it again", "torch.__version__"),
    ),
    "a stray NCCL": (
        "ImportError: /opt/py/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommSplit\n",
        "library-conflict",
        ("ncclCommSplit", "LD_LIBRARY_PATH", "nccl"),
    ),
    "more ranks than GPUs": (
        "[rank5]: RuntimeError: CUDA error: invalid device ordinal\n",
        "cuda-init-failed",
        ("more ranks", "--nproc-per-node", "nvidia-smi -L"),
    ),
    "ranks of the second node that use shared memory": (
        "n2:7:9 [0] NCCL INFO Channel 00/0 : 8[0] -> 9[1] via SHM/direct/direct\n",
        "p2p-unavailable",
        ("ranks 8 and 9", "NVLink", "nvidia-smi"),
    ),
    "a node that failed": (
        "srun: error: Node failure on n12\n",
        "peer-died",
        ("n12", "kernel log", "sinfo -R"),
    ),
    "another process on the GPU": (
        _OOM.format(
            holders="Process 51 has 20.00 GiB memory in use. "
            "Including non-PyTorch memory, this process has 18.30 GiB memory in use. "
        ),
        "gpu-oom",
        ("process 51 with 20.00 GiB", "End the other process on that GPU", "compute-apps"),
    ),
    "a container hides which process is its own": (
        _OOM.format(
            holders="Process 51 has 20.00 GiB memory in use. Process 77 has 18.30 GiB memory in use. "
        ),
        "gpu-oom",
        (
            "process 51 with 20.00 GiB, process 77 with 18.30 GiB, one of which is this rank",
            "End the other process",
            "compute-apps",
        ),
    ),
    "a segmentation fault": (
        "Fatal Python error: Segmentation fault\n",
        "bus-error",
        ("signal 11", "core file", "coredumpctl"),
    ),
    "a bus error": (
        "Fatal Python error: Bus error\n",
        "bus-error",
        ("signal 7", "shared memory ends with SIGBUS", "df -h"),
    ),
    "a driver for an older CUDA": (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n",
        "driver-too-old",
        ("it supports CUDA 11.4", "driver", "nvidia-smi"),
    ),
}


@pytest.mark.parametrize(("log", "cause", "words"), _REMEDIES.values(), ids=_REMEDIES.keys())
def test_the_remedy_is_that_of_what_was_seen(log: str, cause: str, words: tuple[str, str, str]) -> None:
    first = explained(log).diagnoses[0]
    summary, remedy, command = words
    assert first.cause_id == cause
    assert summary in first.summary
    assert remedy in first.remedy
    assert command in (first.command or "")


def test_memory_of_the_failing_process_is_not_attributed_to_another_process() -> None:
    first = explained(_OOM.format(holders="Process 51 has 38.30 GiB memory in use. ")).diagnoses[0]
    assert "another process" not in first.summary


def test_a_rank_that_waits_in_another_collective_is_cited() -> None:
    work = (
        "[rank{0}]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective "
        "operation timeout: "
        "WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600023 "
        "milliseconds\n"
    )
    status = (
        "[rank{0}]:[E101 10:00:00.4 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
        "Exception (either an "
        "error or timeout) detected by watchdog at work: {1}, last enqueued NCCL work: {1}, last completed "
        "NCCL work: {2}.\n"
    )
    log = (
        work.format(0, 91, "ALLREDUCE")
        + work.format(1, 90, "BROADCAST")
        + status.format(0, 91, 90)
        + status.format(1, 90, 89)
    )
    first = explained(log).diagnoses[0]
    assert "Rank 1 did not join ALLREDUCE number 91" in first.summary
    assert "rank 1 timed out in BROADCAST number 90" in first.summary
    assert [line.line for line in first.evidence] == [1, 2]


@pytest.mark.parametrize("log", [text for _, text in cases()])
def test_sentences_have_no_gaps(log: str) -> None:
    for diagnosis in explained(log).diagnoses:
        assert not re.search(
            r"\?(?=[ :,.)])|\{\w+|\(\)|: *\.$|:[A-Za-z]|\b(\w{3,}) \1\b|[a-z]: :",
            _own_words(diagnosis.summary),
        )


def _own_words(summary: str) -> str:
    """Return the words without those of the log, which may contain colons."""
    return re.sub(r"https?://\S+|\S+::\S+|\S+:\d\S*|'[^']*'|\S+\.(?:cc|cpp|h|py)\S*", "x", summary)


def test_numbers_of_one_and_of_several_ranks() -> None:
    line = "[rank0]:[W1] Stalled ops:grad_0 [missing ranks: {}]\n"
    assert "Rank 3 did not submit" in explained(line.format("3")).diagnoses[0].summary
    assert "Ranks 3, 6 did not submit" in explained(line.format("3, 6")).diagnoses[0].summary
    assert filled("{free:GiB} of {api:CUDA}", []) == "? of ?"


def test_limits_of_the_host_printed_in_the_log_lead_to_the_cause() -> None:
    shm = (
        "Filesystem     1K-blocks  Used Available Use% Mounted on\nshm                65536 {0}      1024 "
        " {1}% /dev/shm\n"
    )
    bus = "Fatal Python error: Bus error\n"
    full = explained(shm.format(64512, 99) + bus).diagnoses[0]
    assert (full.cause_id, "99 % of /dev/shm" in full.summary) == ("shm-too-small", True)
    assert explained(shm.format(1024, 2) + bus).diagnoses[0].cause_id == "bus-error"
    limit = "max locked memory           (kbytes, -l) {}\n"
    call = "n1:5:60 [0] misc/ibvwrap.cc:199 NCCL WARN Call to ibv_reg_mr failed with error {}\n"
    small = explained(limit.format(64) + call.format("Cannot allocate memory")).diagnoses[0]
    assert (small.cause_id, "64 KiB" in small.summary) == ("memlock", True)
    assert (
        explained(limit.format(64) + call.format("Bad address")).diagnoses[0].cause_id
        == "memory-registration-failed"
    )
