"""Measuring with stand-in interpreters that crash, hang, lie and die: all of it becomes data, finished samples stay."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from assistant.interpreter import Interpreter
from assistant.usecases.bench_context import bench_context
from assistant.usecases.bench_run import CaseMeasured, RunEnded, run_request
from assistant.usecases.events import BenchFailed, Measured, Progress, StageFinished, StageStarted
from assistant.usecases.measure import MeasureOptions, measure_machine
from probes.benching import BenchRequest
from probes.errors import UsageError, WorkerError
from probes.facts import Cpu, Gpu, GpuProcess, MachineFacts
from probes.registry import BENCHMARKS
from recipes.models import find_model, flops_per_token

FACTS = MachineFacts(gpus=(), cpu=Cpu(physical_cores=1, logical_cpus=1, allowed_cpus=1))
MODULES = {row.id: row.load() for row in BENCHMARKS}

STAND_IN = """#!{python}
import json, os, signal, sys
if sys.argv[2] == "rigtune_worker.vet":
    print(json.dumps({{"executable": "x", "python": "3.11", "torch": "2.13", "gloo": True, "devices": {devices}}}))
    sys.exit()
arguments = dict(zip(sys.argv[4::2], sys.argv[5::2]))
request = json.load(open(arguments["--request"]))
out = open(os.path.join(arguments["--out"], "rank0.jsonl"), "w")
def write(event, **fields):
    print(json.dumps({{"event": event, **fields}}), file=out, flush=True)
def sample(case):
    write("sample", case=case, durations_s=[0.5, 0.25], figures={{"peak_memory_bytes": 5.0}})
print("a log line", flush=True)
write("start", rank=0, world_size=1, conditions={{"device_name": "stand-in"}})
{body}
"""


@pytest.fixture
def stand_in(tmp_path):
    def make(body: str = "for case in request['cases']: sample(case)\nwrite('done')", devices: tuple[str, ...] = ()) -> str:
        path = tmp_path / "stand-in"
        path.write_text(STAND_IN.format(python=sys.executable, body=body, devices=json.dumps(devices)))
        path.chmod(0o755)
        return str(path)

    return make


def measure(python: str, tmp_path: Path, facts: MachineFacts = FACTS, **more):
    options = MeasureOptions(python=python, force=True, work_directory=str(tmp_path / "work"), **more)
    return list(measure_machine(facts, options))


def result_of(events):
    assert isinstance(events[-1], StageFinished)
    return events[-1].result


def test_the_whole_suite_on_one_rank(stand_in, tmp_path):
    events = measure(stand_in(), tmp_path)
    result = result_of(events)
    assert isinstance(events[0], StageStarted)
    assert result.failures == ()
    assert {m.bench_id for m in result.measurements} == {row.id for row in BENCHMARKS} - {"collectives"}  # nobody to reduce with
    assert [e.measurement for e in events if isinstance(e, Measured)] == list(result.measurements)
    assert result.interpreter.endswith("stand-in")


def test_what_will_be_occupied_is_said_before_it_is(stand_in, tmp_path):
    events = measure(stand_in(), tmp_path)
    assert isinstance(events[1], Progress)
    assert "will occupy all CPUs for about" in events[1].message


def test_only_the_chosen_benchmarks_run(stand_in, tmp_path):
    result = result_of(measure(stand_in(), tmp_path, only=("memory-copy",)))
    assert {m.bench_id for m in result.measurements} == {"memory-copy"}


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("sample(request['cases'][0]); sys.exit(7)", "crashed", "exit code 7"),
        ("sample(request['cases'][0]); os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "signal 11"),
        ("sample(request['cases'][0])", "incomplete", "no end"),
        ("sample(request['cases'][0]); out.write('{\"event\": \"don'); out.flush()", "incomplete", "no end"),
        (
            "sample(request['cases'][0]); write('failure', kind='out_of_memory', message='no room'); sys.exit(1)",
            "out_of_memory",
            "no room",
        ),
    ],
)
def test_finished_samples_stay_when_the_worker_fails(stand_in, tmp_path, body, kind, words):
    result = result_of(measure(stand_in(body), tmp_path, only=("gemm",)))
    assert len(result.measurements) == 1
    (failure,) = result.failures
    assert (failure.bench_id, failure.kind) == ("gemm", kind)
    assert words in failure.message
    assert failure.log_tail == "a log line"
    assert "rigtune_worker gemm" in failure.command


def test_one_failure_does_not_keep_the_others_from_running(stand_in, tmp_path):
    body = "if request['bench_id'] == 'gemm': sys.exit(1)\nfor case in request['cases']: sample(case)\nwrite('done')"
    result = result_of(measure(stand_in(body), tmp_path))
    assert [failure.bench_id for failure in result.failures] == ["gemm"]
    assert {m.bench_id for m in result.measurements} == {row.id for row in BENCHMARKS} - {"collectives", "gemm"}


def test_without_torch_every_benchmark_says_the_one_command(tmp_path):
    events = list(measure_machine(FACTS, MeasureOptions(python=str(tmp_path / "none"))))
    result = result_of(events)
    assert [failure.bench_id for failure in result.failures] == [row.id for row in BENCHMARKS]
    assert {failure.kind for failure in result.failures} == {"no_interpreter"}

    result = result_of(list(measure_machine(FACTS, MeasureOptions())))
    assert all(f"{sys.executable} -m pip install torch" in failure.message for failure in result.failures)


def test_busy_gpus_are_refused_unless_told(stand_in, tmp_path):
    gpu = Gpu(index=0, processes=(GpuProcess(pid=7, name="python"),))
    facts = MachineFacts(gpus=(gpu,), cpu=FACTS.cpu)
    python = stand_in(devices=("NVIDIA H100",))
    refused = result_of(list(measure_machine(facts, MeasureOptions(python=python))))
    assert {failure.kind for failure in refused.failures} == {"busy"}
    assert "GPU0 is held by python 7" in refused.failures[0].message
    told = result_of(measure(python, tmp_path, facts, only=("gemm",)))
    assert {m.subject for m in told.measurements} == {"GPU0"}


def test_no_temporary_folder_is_the_users_error(stand_in, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(WorkerError, match="cannot make a temporary folder") as caught:
        list(measure_machine(FACTS, MeasureOptions(python=stand_in(), force=True)))
    assert "TMPDIR" in caught.value.hint


def test_gpus_that_this_torch_cannot_use_are_not_measured_as_a_cpu(stand_in, tmp_path):
    result = result_of(measure(stand_in(), tmp_path, MachineFacts(gpus=(Gpu(index=0),))))
    assert result.measurements == ()
    assert {failure.kind for failure in result.failures} == {"unsupported"}
    assert "built without CUDA" in result.failures[0].message


def test_a_worker_that_hangs_is_stopped_and_what_it_had_stays(stand_in, tmp_path):
    python = stand_in("sample(request['cases'][0])\nsignal.pause()")
    events = run(python, tmp_path, stop=lambda: False, deadline_s=0.5)
    assert [len(e.measurements) for e in events if isinstance(e, RunEnded)] == [1]
    assert [failure.kind for failure in events[-1].failures] == ["timeout"]


def test_samples_are_told_while_the_worker_runs_and_it_can_be_stopped(stand_in, tmp_path):
    told = []
    python = stand_in("sample(request['cases'][0])\nsignal.pause()")
    for event in run_events(python, tmp_path, stop=lambda: bool(told)):
        told.append(event)
    assert isinstance(told[0], CaseMeasured)
    assert [failure.kind for failure in told[-1].failures] == ["stopped"]


def run_events(python: str, tmp_path: Path, **more):
    context = bench_context(FACTS)
    request: BenchRequest = MODULES["gemm"].requests(context)[0]
    interpreter = Interpreter(path=python, python="3.11", torch="2.13")
    return run_request(request, MODULES["gemm"], interpreter, tmp_path / "work", **more)


def run(python: str, tmp_path: Path, **more):
    return list(run_events(python, tmp_path, **more))


def test_stopped_before_it_began_nothing_runs(stand_in, tmp_path):
    options = MeasureOptions(python=stand_in(), force=True, work_directory=str(tmp_path / "work"))
    result = result_of(list(measure_machine(FACTS, options, lambda: True)))
    assert (result.measurements, result.failures) == ((), ())


def test_answers_of_an_earlier_run_are_not_taken_for_this_one(stand_in, tmp_path):
    assert result_of(measure(stand_in(), tmp_path, only=("gemm",))).failures == ()
    broken = Path(stand_in())
    broken.write_text(broken.read_text().replace("out = open", "sys.exit(1)\nout = open"))
    result = result_of(measure(str(broken), tmp_path, only=("gemm",)))
    assert result.measurements == ()
    assert [failure.kind for failure in result.failures] == ["crashed"]


@pytest.mark.parametrize(
    "options", [MeasureOptions(only=("gemn",)), MeasureOptions(suite="endless"), MeasureOptions(ranks_per_node=0)]
)
def test_wrong_options_are_the_users_error(options):
    with pytest.raises(UsageError):
        list(measure_machine(FACTS, options))


def test_a_work_folder_that_cannot_be_made_is_the_users_error(stand_in, tmp_path):
    (tmp_path / "work").write_text("a file")
    with pytest.raises(WorkerError, match="cannot write"):
        measure(stand_in(), tmp_path)


def test_events_and_failures_agree(stand_in, tmp_path):
    events = measure(stand_in("sys.exit(1)"), tmp_path)
    assert [e.failure for e in events if isinstance(e, BenchFailed)] == list(result_of(events).failures)


@pytest.mark.parametrize(
    ("memory_bytes", "capability", "model", "precision"),
    [
        (80 * 2**30, "9.0", "tinyllama-1.1b", "bf16"),
        (24 * 2**30, "8.9", "gpt2", "bf16"),
        (16 * 2**30, "7.0", "gpt2", "fp32"),
    ],
)
def test_the_reference_model_suits_the_gpu(memory_bytes, capability, model, precision):
    gpus = tuple(Gpu(index=index, memory_bytes=memory_bytes, compute_capability=capability) for index in range(4))
    context = bench_context(MachineFacts(gpus=gpus), visible_gpus=2)
    assert (context.device, context.backend, context.ranks_per_node) == ("cuda", "nccl", 2)
    assert (context.model.shape["id"], context.model.precision) == (model, precision)


def test_the_flops_are_the_planners():
    mini = find_model("rigtune-mini")
    assert bench_context(FACTS).model.flops_per_token == flops_per_token(mini, mini.sequence_length)
