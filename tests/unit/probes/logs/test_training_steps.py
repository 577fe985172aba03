"""Test the steps in logs of training programs: one text per format, in the shape that its program documents."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.units import GIB, MIB
from probes.logs.run_figures import figures_of
from probes.logs.training_steps import FORMATS, StepLog, read_step_log

STEPS = range(1, 11)


def read_text(text: str) -> StepLog:
    return read_step_log(text.encode("utf-8", "surrogatepass"))


TOKENS = 2500.0


def quoted(step: int) -> str:
    return f" 5%|## | {step}/30 [00:{step:02d}<01:00,  2.5s/it]\r{{'loss': '{3 - step / 100:.2f}', 'epoch': '0.1'}}"


def bare(step: int) -> str:
    return f" 5%|## | {step}/30 [00:{step:02d}<01:00,  4.00it/s]{{'loss': {3 - step / 100:.2f}, 'grad_norm': 1.5}}"


def swift(step: int) -> str:
    # The mean since the start: 8 s for the first step, 0.5 s for each further step.
    mean = (8 + 0.5 * (step - 1)) / step
    return (
        f"{{'loss': {3 - step / 100:.2f}, 'memory(GiB)': 3.25, 'train_speed(s/it)': {mean:.9f}, "
        f"'global_step/max_steps': '{step}/100'}}"
    )


def axolotl(step: int) -> str:
    return quoted(step)[:-1] + ", 'memory/max_allocated (GiB)': 2.5}"


def llama_factory(step: int) -> str:
    fields = {"current_steps": step * 10, "total_steps": 300, "loss": 3 - step / 100, "lr": 5e-05}
    return json.dumps({**fields, "elapsed_time": f"0:00:{step * 4:02d}", "remaining_time": "1 day, 0:04:40"})


def deepspeed(step: int) -> str:
    first = 40 if step == 1 else 0
    return (
        f"[2026-01-02 03:04:05] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[1e-05]\n"
        "[Rank 0] time (ms) | fwd_microstep: 1.0 | bwd_microstep: 2.0 | step_microstep: 9000.0\n"
        f"[Rank 0] time (ms) | fwd: {100 + first}.0 | bwd: 200.0 | bwd_inner: 190.0 | bwd_allreduce: 10.0 | "
        "step: 50.0\n"
        f"[Rank 0] epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec=12.3, "
        "MemAllocated=0.5GB, MaxMemAllocated=0.75GB"
    )


def megatron(step: int) -> str:
    took_ms = 9000 if step < 4 else 1200
    return (
        f" [2026-01-02] iteration {step:8d}/      40 | consumed samples:  64 | elapsed time per iteration (ms): "
        f"{took_ms:.1f} | lm loss: {3 - step / 100:.6E} | loss scale: 1.0 |\n"
        "[Rank 1] (after 2 iterations) memory (MB) | allocated: 100.0 | max allocated: 200.0 | reserved: 300.0 "
        "| max reserved: 400.0"
    )


def torchtitan(step: int) -> str:
    tps = "12" if step < 4 else "1,250"
    return (
        f"\x1b[31mstep: {step:2}  \x1b[32mloss:  {3 - step / 100:.4f}  \x1b[38;2;180;60;0mgrad_norm:  1.2  "
        f"\x1b[36mmemory:  1.25GiB(1.50%)  \x1b[34mtps: {tps}  \x1b[36mtflops: 1.1  \x1b[35mmfu: 1.2%\x1b[39m"
    )


def reference(step: int) -> str:
    took_s = 0.716 if step < 4 else 0.6
    end = (
        ""
        if step < 10
        else (
            "\ndone: loss 2.990 -> 2.900, median step time 0.6000 s, peak memory 0.25 GiB allocated, "
            "0.50 GiB reserved per rank"
        )
    )
    return (
        f"[rank0]: step {step}/10  loss {3 - step / 100:.3f}  step_time {took_s:.3f} s  tokens/s 6,780{end}"
    )


def helper(step: int) -> str:
    """Return the dictionary of a step as a program prints it, after a slow step as in Megatron's log."""
    took_s = 0.716 if step < 4 else 0.6
    figures = {"step": step, "loss": 3 - step / 100, "grad_norm": 1.2, "duration_s": took_s}
    rates = {"step_time_s": took_s, "tokens_per_s": 6780.0, "peak_memory_bytes": 2**28}
    return f"[rank0]:{ {'event': 'step'} | figures | rates | {'peak_reserved_bytes': None} }"


def helper_report(step: int) -> str:
    figures = {"event": "step", "duration_s": 0.6, "step": step, "loss": 3 - step / 100, "step_time_s": 0.6}
    return json.dumps({**figures, "peak_memory_bytes": 2**28, "peak_reserved_bytes": 2**29})


def lightning(step: int) -> str:
    head = "epoch,step,train_loss,val_loss,train|time\n" if step == 1 else ""
    return f"{head}0,{step - 1},{3 - step / 100:.2f},,{step * 0.5}\n0,{step - 1},,1.5,"


LOGS = {
    "quoted": (quoted, "huggingface", 2.5, None, None),
    "bare": (bare, "huggingface", 0.25, None, None),
    "ms-swift": (swift, "huggingface", 0.5, None, 3.25 * GIB),
    "axolotl": (axolotl, "huggingface", 2.5, 2.5 * GIB, None),
    "LLaMA-Factory": (llama_factory, "llama-factory", 0.4, None, None),
    "DeepSpeed": (deepspeed, "deepspeed", 0.35, 0.75 * GIB, None),
    "Megatron": (megatron, "megatron", 1.2, 200 * MIB, 400 * MIB),
    "torchtitan": (torchtitan, "torchtitan", 2.0, None, 1.25 * GIB),
    "reference workload": (reference, "reference", 0.6, 0.25 * GIB, 0.5 * GIB),
    "helper": (helper, "helper", 0.6, 0.25 * GIB, None),
    "report of the helper": (helper_report, "helper", 0.6, 0.25 * GIB, 0.5 * GIB),
    "Lightning": (lightning, "lightning", 0.5, None, None),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_figures_of_each_format(name):
    line, format_id, step_s, allocated, reserved = LOGS[name]
    log = read_text("\n".join(map(line, STEPS)))
    figures = figures_of(log, tokens_per_gpu=TOKENS)
    assert figures.format == format_id
    assert figures.steps == (100 if name == "LLaMA-Factory" else 10)
    assert figures.step_time_s == pytest.approx(step_s, rel=1e-6)
    losses = (None, None) if name == "DeepSpeed" else (2.99, 2.9)
    assert (figures.loss_first, figures.loss_last) == losses
    assert (figures.allocated_bytes, figures.reserved_bytes) == (allocated, reserved)


@pytest.mark.parametrize("name", ["Megatron", "torchtitan"])
def test_the_first_steps_are_left_out(name):
    log = read_text("\n".join(map(LOGS[name][0], STEPS)))
    assert len(figures_of(log, tokens_per_gpu=TOKENS).steps_s) == 7
    everything = figures_of(log, tokens_per_gpu=TOKENS, left_out=0)
    assert max(everything.steps_s) > 5 * everything.step_time_s


@pytest.mark.parametrize(("reports", "step_time_s"), [(2, None), (3, None), (4, 0.4)])
def test_times_of_one_second_resolution_need_ten_seconds(reports, step_time_s):
    """Each report follows the one before after 10 steps and 4 seconds."""
    log = read_text("\n".join(llama_factory(1 + number) for number in range(reports)))
    assert figures_of(log, tokens_per_gpu=TOKENS).step_time_s == step_time_s


def test_times_of_one_second_resolution_are_a_mean_over_many_reports():
    long = figures_of(read_text("\n".join(map(llama_factory, STEPS))), tokens_per_gpu=TOKENS)
    assert "whole seconds" in long.notes[0]


def test_the_summary_of_a_run_counts_only_if_there_is_no_other_time():
    lines = [f"{{'loss': {3 - step / 100:.2f}, 'epoch': 0.1}}" for step in STEPS]
    lines.append("{'train_runtime': 20.0, 'train_steps_per_second': 0.5, 'train_loss': 9.9}")
    figures = figures_of(read_text("\n".join(lines)), tokens_per_gpu=TOKENS)
    assert (figures.step_time_s, figures.loss_last, figures.steps) == (2.0, 2.9, 10)
    assert "checkpoints" in figures.notes[0]


def test_a_trainer_state_has_losses_without_times():
    history = [{"step": step, "loss": 3 - step / 10} for step in STEPS] + [{"step": 10, "train_runtime": 5.0}]
    figures = figures_of(read_text(json.dumps({"log_history": history})), tokens_per_gpu=TOKENS)
    assert (figures.steps, figures.step_time_s, figures.loss_last) == (10, None, 2.0)


@pytest.mark.parametrize(
    "text", ["", "hello\nworld", "a,b\n1,2", '{"log_history": [1, {"step": "x"}]}', "step\n1"]
)
def test_other_texts_have_no_steps(text):
    log = read_text(text)
    assert log.samples == ()
    assert figures_of(log, tokens_per_gpu=TOKENS) is None


def test_every_row_names_its_source():
    assert all(row.source and row.title for row in FORMATS)
    assert len({row.id for row in FORMATS}) == len(FORMATS)


PIECES = st.sampled_from([line(step) for line, *_ in LOGS.values() for step in (1, 2, 7)])


@given(st.lists(st.one_of(PIECES, st.text(max_size=40)), max_size=12), st.integers(0, 400))
def test_damaged_logs_never_raise_and_give_finite_figures(parts, cut):
    text = "\n".join(parts)
    for damaged in (text, text[:cut], text[cut:]):
        figures = figures_of(read_text(damaged), tokens_per_gpu=TOKENS)
        if figures is not None:
            numbers = (figures.step_time_s, figures.loss_last, figures.allocated_bytes, *figures.steps_s)
            assert all(math.isfinite(number) for number in numbers if number is not None)
            assert all(seconds > 0 for seconds in figures.steps_s)


PREFIXES = {
    "torch": "[rank{}]: ",
    "torchrun": "[default{}]:",
    "srun -l": "{}: ",
    "srun -l of many tasks": "  {}: ",
    "mpirun --tag-output": "[1,{}]<stdout>: ",
    "mpirun of PRRTE": "[1,{},gpu7]<stderr>: ",
    "Ray": "(RayTrainWorker pid=1{}, ip=10.0.0.7) ",
    "colour of Ray": "\x1b[36m(TrainWorker pid=1{})\x1b[0m ",
    "kubectl --prefix": "[pod/llama-{}/trainer] ",
    "docker compose": "trainer-{}  | ",
}


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", LOGS)
def test_the_prefix_of_a_launcher_changes_nothing(name, prefix):
    text = "\n".join(map(LOGS[name][0], STEPS))
    marked = "\n".join(PREFIXES[prefix].format(0) + line for line in text.split("\n"))
    assert figures_of(read_text(marked), tokens_per_gpu=TOKENS) == figures_of(
        read_text(text), tokens_per_gpu=TOKENS
    )


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("line", [quoted, torchtitan])
def test_steps_that_a_process_of_each_node_reports_count_once(line, prefix):
    alone = "\n".join(PREFIXES[prefix].format(0) + line(step) for step in STEPS)
    both = "\n".join(PREFIXES[prefix].format(rank) + line(step) for step in STEPS for rank in (0, 8))
    log = read_text(both)
    assert len(log.samples) == 10
    assert log == read_text(alone)
