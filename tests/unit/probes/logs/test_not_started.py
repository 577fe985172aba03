"""Test logs of jobs that schedulers, containers or launchers do not start, of file servers that do not answer,
and of losses that are not numbers.
"""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained, ids

_PLACED = "Normal  Scheduled  1s  default-scheduler  Successfully assigned team/job-0 to n3\n"
_UNPLACED = (
    "Warning  FailedScheduling  9s (x3 over 2m)  default-scheduler  0/6 nodes are available: 6 "
    "Insufficient nvidia.com/gpu.\n"
)
_STEP = "{{'loss': {}, 'grad_norm': {}, 'learning_rate': 1e-05, 'epoch': 0.{}}}\n"
_NFS = "[Thu Nov  6 02:11:0{} 2025] nfs: server store-a {}\n"
_PLAIN = {
    "no node has room": (_UNPLACED, "cannot be placed", "taints"),
    "an image that is not there": (
        'Warning  Failed  9s  kubelet  Failed to pull image "hub.local/train:9": rpc error: code = NotFound '
        "desc = not found\n",
        "hub.local/train:9 (rpc error",
        "imagePullSecrets",
    ),
    "an image, once more": (
        'Warning  BackOff  9s  kubelet  Back-off pulling image "hub.local/train:9"\n',
        "hub.local/train:9",
        "imagePullSecrets",
    ),
    "a name of an image that is none": (
        "job-0   0/1   InvalidImageName   0   2m\n",
        "InvalidImageName",
        "name and tag",
    ),
    "an end again and again": (
        "job-0   0/1   CrashLoopBackOff   7   9m\n",
        "again and again",
        "the log of its previous run",
    ),
    "a disk of a node": ("The node was low on resource: ephemeral-storage.\n", "ephemeral-storage", "volume"),
    "a job that is rejected": (
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination "
        "specified\n",
        "rejects the job: Invalid account",
        "QOS",
    ),
    "an allocation": (
        "salloc: error: Job submit/allocate failed: Invalid qos specification\n",
        "Invalid qos",
        "QOS",
    ),
    "a step": (
        "srun: error: Unable to create step for job 77: More processors requested than permitted\n",
        "the step",
        "srun",
    ),
    "a program that is not there": (
        "slurmstepd: error: execve(): /opt/run.sh: No such file or directory\n",
        "cannot start a task: execve()",
        "every node",
    ),
    "slots": (
        "There are not enough slots available in the system to satisfy the 32\n",
        "fewer slots than the requested",
        "hostfile",
    ),
}


@pytest.mark.parametrize(("log", "summary", "remedy"), _PLAIN.values(), ids=_PLAIN.keys())
def test_the_reason_why_a_job_did_not_start_is_reported_plainly(log: str, summary: str, remedy: str) -> None:
    explanation = explained(log)
    first = explanation.diagnoses[0]
    assert (first.cause_id, first.is_fault) == ("unknown", True)
    assert summary in first.summary
    assert remedy in first.remedy


def test_a_pod_that_was_placed_in_the_end_was_not_kept_from_running() -> None:
    assert "cannot be placed" in explained(_UNPLACED).diagnoses[0].summary
    assert "cannot be placed" not in "".join(one.summary for one in explained(_UNPLACED + _PLACED).diagnoses)


def test_a_container_that_is_being_made_is_no_fault_and_not_healthy() -> None:
    explanation = explained('Error: container "main" in pod "job-0" is waiting to start: ContainerCreating\n')
    assert explanation.state == "unknown"
    assert "not started yet (ContainerCreating)" in explanation.diagnoses[0].summary


def test_an_unresolved_name_in_an_exception_is_a_fault_and_in_a_warning_none() -> None:
    words = (
        "The IPv6 network addresses of (job-0-head, 29400) cannot be retrieved "
        "(gai error: -2 - Name or service not known)."
    )
    failed = explained(f"torch.distributed.DistNetworkError: {words}\n").diagnoses[0]
    assert (failed.cause_id, failed.is_fault) == ("peer-unreachable", True)
    assert "job-0-head" in failed.summary
    assert explained(f"[W socket.cpp:601] [c10d] {words}\nstep 1\n").state == "healthy"


def test_a_file_server_that_does_not_answer_explains_what_follows() -> None:
    silent = _NFS.format(1, "not responding, still trying")
    alone = explained(silent)
    assert (alone.state, ids(alone)[0]) == ("unknown", "file-system-stalled")
    assert "store-a" in alone.diagnoses[0].summary
    failed = explained(silent, "[rank0]: OSError: [Errno 116] Stale file handle: '/data/step_8'\n")
    assert (failed.state, ids(failed)[0]) == ("fault", "file-system-stalled")
    assert "file-system-stalled" not in ids(explained(silent + _NFS.format(9, "OK")))


def test_repeated_losses_that_are_no_numbers_are_reported() -> None:
    good = "".join(_STEP.format(2.5, 0.8, number) for number in range(5))
    assert explained(good).state != "fault"
    for loss, gradient in (("nan", "nan"), ("0.0", "nan")):
        explanation = explained(good + _STEP.format(loss, gradient, 6) + _STEP.format(loss, gradient, 7))
        assert explanation.state == "unknown"
        assert "became NaN (" in explanation.diagnoses[0].summary
    for harmless in (
        _STEP.format(1.9, "nan", 6),
        "step 6 loss 2.4 val_loss nan\n" * 3,
        "best loss: nan, val/loss: nan\n" * 3,
    ):
        assert "became NaN" not in "".join(one.summary for one in explained(good + harmless).diagnoses)
