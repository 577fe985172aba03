"""Test the facts of training loops, and the state of a log by whether its training ended."""

from __future__ import annotations

import json

import pytest

from tests.support.log_cases.reading import explained, ids


def megatron(step: int, steps: int = 40) -> str:
    return (
        f" [2026-01-02 03:04:{step % 60:02d}] iteration {step:8d}/{steps:8d} | consumed samples: {step * 64:12d} | "
        f"elapsed time per iteration (ms): {1200.5 + step % 3:.1f} | throughput per GPU (TFLOP/s/GPU): 410.2 | "
        f"learning rate: 3.0E-04 | global batch size:    64 | lm loss: {8 - step / 10:.6E} | loss scale: 1.0 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def deepspeed(step: int) -> str:
    return (
        f"[2026-01-02 03:04:05,678] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[1e-05], "
        "mom=[[0.9, 0.95]]\n"
        f"steps: {step} loss: {3 - step / 100:.4f} iter time (s): 0.512 samples/sec: 15.625\n"
    )


def trainer(step: int, steps: int = 30) -> str:
    share = 100 * step // steps
    return (
        f" {share}%|###       | {step}/{steps} [00:30<01:00,  2.5s/it]\r"
        f"{{'loss': {3 - step / 100:.4f}, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}}\n"
    )


def reference(step: int) -> str:
    return f"[rank0]: step {step}/5  loss {8.4 - step / 10:.3f}  step_time 0.584 s  tokens/s 7,012\n"


def swift(step: int) -> str:
    return (
        f"{{'loss': {3 - step / 100:.2f}, 'global_step/max_steps': '{step}/30', 'train_speed(s/it)': 2.5}}\n"
    )


def llama_factory(step: int) -> str:
    return json.dumps({"current_steps": step, "total_steps": 30, "loss": 3 - step / 100}) + "\n"


def helper(step: int) -> str:
    """Return the dictionary of a step that a program with rigtune's helper prints."""
    figures = {"event": "step", "step": step, "loss": 3 - step / 100, "grad_norm": 1.2, "duration_s": 0.41}
    return (
        f"{ {**figures, 'step_time_s': 0.41, 'peak_memory_bytes': 312344576, 'peak_reserved_bytes': None} }\n"
    )


SUMMARY = "{'train_runtime': 75.1, 'train_samples_per_second': 3.2, 'train_steps_per_second': 0.4, 'train_loss': 2.5}\n"

COURSES = {
    "Megatron": (
        "".join(map(megatron, (10, 20, 30))),
        {"step": 30, "steps": 40, "step_seconds": 1.202, "tflops_per_gpu": 410.2, "loss": 5.0, "finished": 0},
    ),
    "Megatron, finished": (
        "".join(map(megatron, (10, 20, 30, 40))),
        {"step": 40, "steps": 40, "step_seconds": 1.202, "tflops_per_gpu": 410.2, "loss": 4.0, "finished": 1},
    ),
    "reference workload": (
        "".join(map(reference, (1, 2, 3))),
        {"step": 3, "steps": 5, "step_seconds": 0.584, "loss": 8.1, "finished": 0},
    ),
    "reference workload, finished": (
        "".join(map(reference, range(1, 6))),
        {"step": 5, "steps": 5, "step_seconds": 0.584, "loss": 7.9, "finished": 1},
    ),
    "DeepSpeed": (
        "".join(map(deepspeed, (10, 20))),
        {"step": 20, "step_seconds": 0.512, "loss": 2.8, "finished": 0},
    ),
    "Trainer": (
        "".join(map(trainer, (10, 20))),
        {"step": 20, "steps": 30, "step_seconds": 2.5, "loss": 2.8, "finished": 0},
    ),
    "Trainer of transformers 5, with quoted numbers": (
        "".join(map(trainer, (10, 20))).replace("2.9000", "'2.9000'").replace("2.8000", "'2.8000'"),
        {"step": 20, "steps": 30, "step_seconds": 2.5, "loss": 2.8, "finished": 0},
    ),
    "ms-swift, finished": (
        "".join(map(swift, (10, 30))),
        {"step": 30, "steps": 30, "loss": 2.7, "finished": 1},
    ),
    "LLaMA-Factory": (
        "".join(map(llama_factory, (10, 20))),
        {"step": 20, "steps": 30, "loss": 2.8, "finished": 0},
    ),
    "rigtune's helper": (
        "".join(map(helper, (1, 2, 20))),
        {"step": 20, "step_seconds": 0.41, "loss": 2.8, "finished": 0},
    ),
    "Trainer, finished": (
        "".join(map(trainer, (10, 30))) + SUMMARY,
        {"step": 30, "steps": 30, "step_seconds": 2.5, "loss": 2.5, "finished": 1},
    ),
}


@pytest.mark.parametrize(("log", "facts"), COURSES.values(), ids=COURSES.keys())
def test_the_course_of_a_training_is_a_fact(log: str, facts: dict[str, float]) -> None:
    assert explained(log).facts["training"] == facts


@pytest.mark.parametrize(("log", "facts"), COURSES.values(), ids=COURSES.keys())
def test_only_a_finished_training_is_healthy(log: str, facts: dict[str, float]) -> None:
    explanation = explained(log)

    assert ids(explanation)[0] == "healthy"
    assert explanation.state == ("healthy" if facts["finished"] else "unknown")
    words = "finished after step" if facts["finished"] else f"It ran to step {facts['step']}"
    assert words in explanation.diagnoses[0].summary


def test_a_program_that_reports_its_end_is_healthy() -> None:
    assert explained(deepspeed(10) + "Training completed.\n").state == "healthy"


def test_a_failure_after_steps_is_a_fault() -> None:
    failed = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"

    assert explained(megatron(10) + failed).state == "fault"


def test_hostile_numbers_of_steps_are_no_crash() -> None:
    huge = (
        f"iteration {'9' * 300}/ 10 |\nsteps: {'9' * 12} loss: 1e999 iter time (s): -1e-99 samples/sec: 1\n"
    )

    assert explained(huge).state in ("healthy", "unknown")
