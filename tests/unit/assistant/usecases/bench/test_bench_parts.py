"""Test small parts of a run: answers of ranks, the interpreter for a request, the context of a machine."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import msgspec
import pytest

from assistant.processes.interpreter import Interpreter
from assistant.usecases.bench import bench_trouble
from assistant.usecases.bench.bench_answers import AnswerFiles
from assistant.usecases.bench.bench_context import bench_context, machine_id, shape_of
from assistant.usecases.bench.bench_gate import Gate, Hindrance
from assistant.usecases.bench.bench_list import list_benchmarks
from assistant.usecases.bench.bench_trouble import cause_of_end, lost_folder
from assistant.usecases.measure import MeasureOptions
from probes.base.record import NOT_RECORDED
from probes.base.units import GIB
from probes.bench.bench_requests import FailureLine, SampleLine, SkippedLine
from recipes.job.models.names import find_model
from tests.support.machines import cpu_box, h100, h100_node, with_part


def ended(number: int) -> bytes:
    """Return the answer of a rank that has ended so many cases, each in another way."""
    kinds = (
        lambda case: SampleLine(case=case, durations_s=(1.0,)),
        lambda case: SkippedLine(case=case, message="no time"),
        lambda case: FailureLine(kind="crashed", message="no", case=case),
    )
    lines = [kinds[index % 3]({"m": index}) for index in range(number)]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((0, 0), ""),
        ((3, 3), ""),
        ((3,), ""),
        ((3, 2), "rank 1 had ended 2 cases, rank 0 had ended 3"),
        ((1, 0, 4), "rank 1 had ended 0 cases, rank 2 had ended 4"),
    ],
)
def test_progress_names_the_slowest_and_the_fastest_rank(tmp_path, counts, words):
    for rank, number in enumerate(counts):
        (tmp_path / f"rank{rank}.jsonl").write_bytes(ended(number))
    answers = AnswerFiles(tmp_path, len(counts))
    answers.read()
    assert answers.progress() == words
    assert [case["m"] for case in answers.cases_of_first_rank()] == list(range(0, counts[0], 3))


def test_only_new_complete_lines_are_news(tmp_path):
    path, text = tmp_path / "rank0.jsonl", ended(2)
    answers = AnswerFiles(tmp_path, 1)
    assert not answers.read()
    path.write_bytes(text[:-1])
    assert answers.read()
    assert len(answers.lines[0]) == 1
    assert not answers.read()
    path.write_bytes(text)
    assert answers.read()
    assert len(answers.lines[0]) == 2


PYTHON = Interpreter(path="/opt/python", python="3.11", torch="2.6")
HINDRANCE = Hindrance(kind="unsupported", message="no")


@pytest.mark.parametrize(
    ("gate", "needs_torch", "device", "answer"),
    [
        (Gate(interpreter=PYTHON), True, "cuda", "/opt/python"),
        (Gate(interpreter=PYTHON), False, "cpu", "/opt/python"),
        (Gate(interpreter=PYTHON, hindrance=HINDRANCE), True, "cuda", HINDRANCE),
        (Gate(interpreter=PYTHON, hindrance=HINDRANCE), True, "cpu", "/opt/python"),
        (Gate(interpreter=PYTHON, hindrance=HINDRANCE), False, "cuda", "/opt/python"),
        (Gate(interpreter=None, hindrance=HINDRANCE), True, "cpu", HINDRANCE),
        (Gate(interpreter=None, hindrance=HINDRANCE), False, "cuda", "own"),
    ],
)
def test_a_request_gets_an_interpreter_or_the_reason_why_not(monkeypatch, gate, needs_torch, device, answer):
    monkeypatch.setattr("assistant.usecases.bench.bench_gate._OWN_PYTHON", "own")
    request = SimpleNamespace(needs_torch=needs_torch, device=device)
    assert gate.python_for(request) == answer


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (128, "the worker of X ended with exit code 128"),
        (129, "the worker of X was ended by signal 1 (SIGHUP)"),
        (134, "the worker of X was ended by signal 6 (SIGABRT)"),
    ],
)
def test_codes_above_128_are_signals(code, words):
    assert cause_of_end("X", code, "", kernel_killed=True) == ("crashed", words)


@pytest.mark.parametrize(("free_bytes", "is_full"), [(65535, True), (65536, False)])
def test_a_full_disk_and_a_lost_folder_are_reported(tmp_path, monkeypatch, free_bytes, is_full):
    usage = SimpleNamespace(free=free_bytes)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert lost_folder(tmp_path) == (f"the disk of {tmp_path} is full" if is_full else "")
    gone = tmp_path / "gone"
    assert lost_folder(gone) == f"{gone} was removed during the run"


@pytest.mark.parametrize(
    ("text", "number"), [("nr_free 5\noom_kill 3\nx 1\n", 3), ("nr_free 5\n", 0), (None, 0)]
)
def test_kills_of_the_kernel_are_counted(tmp_path, monkeypatch, text, number):
    file = tmp_path / "vmstat"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(bench_trouble, "Path", lambda _: file)
    assert bench_trouble.oom_kills() == number


@pytest.mark.parametrize(("visible", "ranks"), [(None, 8), (3, 3), (9, 8)])
def test_hidden_gpus_get_no_rank(visible, ranks):
    context = bench_context(h100_node(), visible_gpus=visible)
    assert (context.device, context.backend, context.ranks_per_node) == ("cuda", "nccl", ranks)
    assert context.subjects["GPU-00000003"] == "GPU3"
    assert bench_context(cpu_box(), ranks_per_node=4, visible_gpus=0).ranks_per_node == 4


@pytest.mark.parametrize(
    ("memory_gib", "model"), [(80, "tinyllama-1.1b"), (40, "tinyllama-1.1b"), (30, "gpt2")]
)
def test_the_states_of_the_reference_model_take_at_most_half_of_the_smallest_gpu(memory_gib, model):
    """The states of TinyLlama's 1.1e9 parameters take 16.4 GiB, with 16 bytes for each."""
    gpus = (h100(0), h100(1, memory_bytes=memory_gib * GIB))
    assert bench_context(h100_node(gpus=gpus)).model.shape == shape_of(find_model(model))


def test_a_machine_is_known_by_its_name_and_its_gpus():
    one, renamed = machine_id(h100_node()), machine_id(h100_node(hostname="other"))
    assert one.startswith("node17-")
    assert renamed.partition("-")[2] == one.partition("-")[2]
    assert machine_id(h100_node(gpus=(h100(0),))) != one
    for name in ("", NOT_RECORDED):
        assert machine_id(h100_node(hostname=name)).startswith("unnamed-")
    assert machine_id(cpu_box()) != machine_id(with_part(cpu_box(), "cpu", model="other"))


@pytest.mark.parametrize(
    ("training", "options", "reason"),
    [
        ({}, MeasureOptions(), ""),
        ({"torch_version": None}, MeasureOptions(), "needs a training interpreter with torch"),
        ({"path": None}, MeasureOptions(), "needs a training interpreter with torch"),
        ({"path": NOT_RECORDED}, MeasureOptions(), "needs a training interpreter with torch"),
        ({"torch_version": None}, MeasureOptions(python="/opt/python"), ""),
    ],
)
def test_without_torch_only_some_benchmarks_apply(training, options, reason):
    entries = {
        each.id: each for each in list_benchmarks(with_part(h100_node(), "training", **training), options)
    }
    assert (entries["gemm"].why_not, entries["gemm"].applies) == (reason, not reason)
    assert (
        entries["storage"].applies or entries["storage"].why_not != "needs a training interpreter with torch"
    )
