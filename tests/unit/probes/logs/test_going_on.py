"""Test that an event which a run survived is no fault, and that quoted source code is no event."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained
from tests.unit.probes.logs.test_own_failures import traceback

_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of "
    "40.00 GiB\n"
)
_STEPS = "".join(f"epoch 2 step {step} loss 1.{step}\n" for step in range(10, 14))
_FAILED = (
    "E0312 04:01:04.530000 311 torch/distributed/elastic/multiprocessing/api.py:874] failed "
    "(exitcode: 1) local_rank: 3 (pid: "
    "322) of binary: /opt/py\n"
)
_RESTART = (
    "I0312 04:01:06.530000 311 torch/distributed/elastic/agent/server/api.py:870] [default] Worker group "
    "FAILED. 2/3 attempts "
    "left; will restart worker group\n"
)
_INIT = (
    "kit-1:9:60 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x9e - Init COMPLETE\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "batch of 900 skipped: CUDA out of memory. Tried to allocate 3.00 GiB.\n" + _STEPS,
        "trying batch size 64: " + _OOM + "trying batch size 32\nTraining complete.\n",
        traceback("ValueError: bad record", prefix="") + "passed over record 7\n" + _STEPS,
        traceback("ValueError: bad record", prefix="[rank3]: ") + "[rank3]: step 11 loss 2.0\n",
        traceback("OSError: [Errno 28] No space left on device", prefix="")
        + "wrote to /other instead\nAll done\n",
        _FAILED + _RESTART + _STEPS + "Training finished\n",
        traceback("KeyError: 'a'")
        + _FAILED
        + _RESTART
        + "I0312 07:01:06.530000 311 api.py:879] worker group successfully finished.\n",
    ],
)
def test_an_error_that_the_run_survived_is_no_fault(text: str) -> None:
    explanation = explained("step 1 loss 2.5\n" + text)
    assert explanation.state == "healthy"
    assert "first_failure" not in explanation.facts


@pytest.mark.parametrize(
    "text",
    [
        traceback("ValueError: bad record", prefix="") + _FAILED,
        traceback("ValueError: bad record", prefix="") + _STEPS + _FAILED,
        traceback("ValueError: bad record") + "[rank0]: step 11 loss 2.0\n[rank1]: step 11 loss 2.0\n",
        " 1%| | 6/500 [00:12<17:00]\n"
        + traceback("ValueError: bad record", prefix="")
        + " 1%| | 6/500 [00:12<17:01]\n" * 4,
        traceback("ValueError: bad record", prefix="") + "training failed at step 12, loss 2.0\n" * 4,
        _FAILED + _RESTART + _FAILED + "step 2 loss 2\n",
        _OOM + "wandb: run finished, epoch 2\n",
        traceback("ValueError: bad record") + "epoch 3 done\n",
    ],
)
def test_an_error_that_ended_the_run_is_a_fault(text: str) -> None:
    assert explained("step 1 loss 2.5\n" + text).state == "fault"


def test_an_exception_caught_before_the_fault_is_not_the_cause() -> None:
    caught = traceback("ImportError: no fast kernels", prefix="[rank3]: ") + "[rank3]: step 1 loss 2.0\n"
    explanation = explained(caught + "[rank3]: " + _OOM)
    assert explanation.diagnoses[0].cause_id == "gpu-oom"
    assert "ImportError" not in explanation.diagnoses[0].summary


@pytest.mark.parametrize(
    "text",
    [
        '+ grep -n "CUDA out of memory" fit.py\n',
        '88:        if "CUDA out of memory" in str(error):\n',
        "    raise RuntimeError('NCCL error in: a.cpp:3, remote process exited')\n",
        'logger.error("Segmentation fault (core dumped)")\n',
    ],
)
def test_source_code_did_not_happen(text: str) -> None:
    assert not any(
        diagnosis.is_fault
        for diagnosis in explained("step 1 loss 2\n" + text + "run finished ok\n").diagnoses
    )


@pytest.mark.parametrize(
    "line", ["it 100: train 2.31", "step 10 12k tok/s", "rows 7 of 9 are through", "Alles fertig"]
)
def test_any_line_of_the_program_reports_that_it_goes_on(line: str) -> None:
    assert explained(_INIT + line + "\n").state == "healthy"


@pytest.mark.parametrize(
    "line", ["", "# size count type", "x.py:3: UserWarning: old", "(here it hangs)", "-----"]
)
def test_heads_remarks_and_warnings_do_not_report_that_it_goes_on(line: str) -> None:
    explanation = explained(_INIT + line + "\n")
    assert (explanation.state, explanation.diagnoses[0].cause_id) == ("unknown", "hang-after-init")


def test_the_end_of_a_long_log_is_read_whatever_it_holds() -> None:
    rows = "".join(f"row {number} of the table\n" for number in range(30_000))
    survived = traceback("ValueError: bad record", prefix="") + rows
    assert explained(survived + "Training complete.\n").state == "healthy"
    assert explained(survived + "[rank0]: " + _OOM).diagnoses[0].cause_id == "gpu-oom"
