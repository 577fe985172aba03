"""Test that words in logged data, help texts and counts of zero are no events, unlike the same words in reports."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained

_OK = 'INFO:     10.1.0.4:50111 - "POST /v1/completions HTTP/1.1" 200 OK\n'
_XID = "NVRM: Xid (PCI:0000:4b:00): 79, pid=12, GPU has fallen off the bus."
_OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB."
_OOM_KILL = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=70.0. Some of the step tasks have been OOM "
    "Killed."
)
_NCCL = "RuntimeError: NCCL error: unhandled system error"
_CRASH = "Segmentation fault (core dumped)"
_FAILURES = (_XID, _OOM, _OOM_KILL, _NCCL, _CRASH, "CUDA error: an illegal memory access was encountered")


@pytest.mark.parametrize("words", _FAILURES)
@pytest.mark.parametrize(
    "line",
    [
        "INFO 03-02 09:00:01 [logger.py:41] Received request cmpl-7: prompt: 'why does it say {} now', "
        "params: Params(n=1)",
        "INFO 03-02 09:00:01 [logger.py:41] Received request cmpl-7: prompt: {}",
        "[2026-03-02 09:00:01,120][INFO] Prompt: {}",
        'prediction: "{}"',
        "record 9 | target: {} | pred: nothing | match 0.0",
        "step 40 completion: {}",
        "sample: Q: What is {}? A: An error.",
        "Q: What does {} mean?",
        "Model output: {}",
        '{{"id": 3, "completion": "{}"}}',
        '{{"step": 40, "loss": 1.5, "text": "{}"}}',
        '{{"role": "user", "content": "it said: {}", "score": 1}}',
        "{{'question': 'What is {}?', 'answer': 'An error.'}}",
        '{{"predictions": ["fine", "{}"]}}',
        "RequestOutput(request_id=3, prompt='{}', finished=True)",
        "  --on-failure {{skip,raise}} what to do on {}",
        "  --retries N  how often to try again after {}",
    ],
)
def test_data_is_not_what_happened(line: str, words: str) -> None:
    explanation = explained(line.format(words) + "\n" + _OK)
    assert [row.cause_id for row in explanation.diagnoses if row.is_fault] == []


@pytest.mark.parametrize(
    "line",
    [
        "CUDA out of memory errors: 0",
        "Number of CUDA OOM events = 0",
        "NCCL timeouts: none, CUDA out of memory: 0",
    ],
)
def test_a_count_of_zero_errors_is_no_fault(line: str) -> None:
    assert not any(row.is_fault for row in explained(line + "\n").diagnoses)


@pytest.mark.parametrize(
    "line",
    [
        _OOM,
        "{{'error': '{0}', 'rank': 3}}",
        '{{"log": "{0}", "stream": "stderr"}}',
        '{{"text": "2026-03-02 09:00:01.120 | ERROR | fit:step:9 - {0}", "record": {{"line": 9}}}}',
        '{{"message": {{"message": "{0}", "extraInfo": {{"timestamp": "1767000000"}}}}}}',
        '  "message": "{0}",',
        "[W 2026-03-02 09:00:01,120] Trial 3 failed with parameters: {{'rate': 0.1}} because of: "
        "OutOfMemoryError('{0}')",
        "(Trainer pid=77, ip=10.0.0.7) {0}",
        "batch of the longest sample failed: {0}",
        "CUDA out of memory errors: 2",
        "copy to 0000:A:00.0 failed: {0}",
        "own::text::wrap: {0}",
        "/mnt/own/sample: {0}",
        "lost the encoder of a question: {0}",
        '{{"prompt": "hello", "error": "{0}"}}',
    ],
)
def test_failures_in_quotes_and_records_of_logs_happened(line: str) -> None:
    explanation = explained(line.format(_OOM) + "\n")
    assert [row.cause_id for row in explanation.diagnoses][:1] == ["gpu-oom"]
