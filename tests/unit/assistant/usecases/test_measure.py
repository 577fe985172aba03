"""Measure with stand-in interpreters that crash, hang or give wrong answers: each failure is recorded."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import psutil
import pytest

from assistant.usecases.bench.bench_context import bench_context, machine_id
from assistant.usecases.bench.bench_gate import Gate
from assistant.usecases.bench.bench_run import CaseMeasured, Provisional, run_request
from assistant.usecases.bench.bench_suite import jobs_of, run_jobs
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import BenchFailed, Measured, Progress, StageFinished, StageStarted
from assistant.usecases.measure import MeasureOptions, context_of, measure_machine
from probes.base.errors import UsageError, WorkerError
from probes.base.table_rows import BenchmarkRow
from probes.bench.answers import per_rank
from probes.bench.bench_requests import BenchRequest
from probes.bench.benchmark_table import BENCHMARKS
from probes.facts import Cpu, Gpu, GpuProcess, MachineFacts
from recipes.job.models.counts import flops_per_token
from recipes.job.models.names import find_model

FACTS = MachineFacts(gpus=(), cpu=Cpu(physical_cores=1, logical_cpus=1, allowed_cpus=1))

STAND_IN = """#!{python} -IS
import json, os, signal, sys
if sys.argv[2] == "rigtune_worker.vet":
    torch = {{"torch": "2.13", "gloo": True, "devices": {devices}}}
    print(json.dumps({{"executable": "x", "python": "3.11", **torch}}))
    sys.exit()
arguments = dict(zip(sys.argv[4::2], sys.argv[5::2]))
request = json.load(open(arguments["--request"]))
out = open(os.path.join(arguments["--out"], "rank0.jsonl"), "w")
def write(event, **fields):
    print(json.dumps({{"event": event, **fields}}), file=out, flush=True)
def sample(case):
    write("sample", case=case, durations_s=[0.5, 0.25], figures={{"warmup_calls": 9, "unsettled": 1.0}})
print("a log line", flush=True)
write("start", rank=0, world_size=1, uuid="GPU-a", conditions={{"device_name": "stand-in"}})
{body}
"""
ALL = "for case in request['cases']: sample(case)\nwrite('done')"
FIRST = "sample(request['cases'][0])\n"


@pytest.fixture
def stand_in(tmp_path):
    def make(body: str = ALL, devices: tuple[str, ...] = ()) -> str:
        path = tmp_path / "stand-in"
        path.write_text(STAND_IN.format(python=sys.executable, body=body, devices=json.dumps(devices)))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture(autouse=True)
def rows(monkeypatch):
    """Install two benchmarks with torch, one without, and one that applies nowhere."""

    def interpret(request, lines):
        return per_rank(request, lines, "rate", "1/s", lambda _: 1.0)

    made = []
    for name, applies, torch in (
        ("alpha", True, True),
        ("beta", True, True),
        ("plain", True, False),
        ("absent", False, True),
    ):
        module = types.ModuleType(f"stand_in_bench_{name}")

        def requests(context, name=name, applies=applies, torch=torch):
            return (request_of(context, name, torch),) if applies else ()

        module.requests = requests  # type: ignore[attr-defined]
        module.interpret = interpret  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        made.append(
            BenchmarkRow(
                id=name,
                title=name,
                module=module.__name__,
                suites=("quick", "full"),
                occupies="",
                cost_s=1,
                full_cost_s=2,
            )
        )
    monkeypatch.setattr("assistant.usecases.measure.BENCHMARKS", tuple(made))
    return tuple(made)


def request_of(context, name: str, torch: bool) -> BenchRequest:
    return BenchRequest(
        bench_id=name,
        title=f"the {name}",
        device=context.device if torch else "cpu",
        backend="gloo",
        ranks=1,
        threads_per_rank=1,
        budget_s=1.0,
        cases=({"size": 1}, {"size": 2}),
        subjects={"GPU-a": "GPU0"} if context.device == "cuda" else {},
        needs_torch=torch,
    )


def measure(python: str, tmp_path: Path, facts: MachineFacts = FACTS, stop=lambda: False, **more):
    options = MeasureOptions(python=python, force=True, work_directory=str(tmp_path / "work"), **more)
    return list(measure_machine(facts, options, stop))


def result_of(events):
    assert isinstance(events[-1], StageFinished)
    return events[-1].result


def kinds_of(result) -> dict[str, str]:
    return {failure.bench_id: failure.kind for failure in result.failures}


def test_the_whole_suite(stand_in, tmp_path):
    events = measure(stand_in(), tmp_path)
    result = result_of(events)
    assert isinstance(events[0], StageStarted)
    assert isinstance(events[1], Progress)
    assert "will occupy all CPUs for about 3 s" in events[1].message
    assert result.failures == ()
    assert [m.bench_id for m in result.measurements] == ["alpha"] * 2 + ["beta"] * 2 + ["plain"] * 2
    assert result.interpreter.endswith("stand-in")
    assert result.machine == machine_id(FACTS)


def test_each_measurement_is_reported_once_and_as_in_the_result(stand_in, tmp_path):
    events = measure(stand_in(), tmp_path, only=("alpha",))
    reported = [event.measurement for event in events if isinstance(event, Measured)]
    measurements = result_of(events).measurements
    assert [(m.subject, m.parameters, m.samples) for m in reported] == [
        (m.subject, m.parameters, m.samples) for m in measurements
    ]
    conditions = measurements[0].conditions
    assert (conditions["device_name"], conditions["warmup_calls"], conditions["unsettled"]) == (
        "stand-in",
        9,
        True,
    )
    assert "load_average_before" in conditions


def test_only_the_chosen_benchmarks_run(stand_in, tmp_path):
    chosen = result_of(measure(stand_in(), tmp_path, only=("beta", "absent")))
    assert {m.bench_id for m in chosen.measurements} == {"beta"}
    assert kinds_of(chosen) == {"absent": "unsupported"}
    rest = result_of(measure(stand_in(), tmp_path, skip=("beta", "plain")))
    assert {m.bench_id for m in rest.measurements} == {"alpha"}


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("sys.exit(7)", "crashed", "exit code 7"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "signal 11 (SIGSEGV)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "crashed", "because memory ran out"),
        ("raise ValueError('no such shape')", "crashed", "exit code 1: ValueError: no such shape"),
        ("", "incomplete", "no end"),
        ('out.write(\'{"event": "don\'); out.flush()', "incomplete", "no end"),
        (
            "out.buffer.write(b'\\xff\\x00}{' * 999 + b'\\n[[[[\\n{\"event\": 3}\\n'); out.flush()",
            "incomplete",
            "no end",
        ),
        (
            "write('failure', kind='out_of_memory', message='no room'); sys.exit(1)",
            "out_of_memory",
            "no room",
        ),
    ],
)
def test_finished_samples_stay_when_the_worker_fails(stand_in, tmp_path, body, kind, words):
    result = result_of(measure(stand_in(FIRST + body), tmp_path, only=("alpha",)))
    assert len(result.measurements) == 1
    (failure,) = result.failures
    assert (failure.bench_id, failure.kind) == ("alpha", kind)
    assert words in failure.message
    assert "\n" not in failure.message
    assert "a log line" in failure.log_tail
    assert "rigtune_worker alpha" in failure.command


def test_one_failure_does_not_keep_the_others_from_running(stand_in, tmp_path):
    events = measure(stand_in(f"if request['bench_id'] == 'alpha': sys.exit(1)\n{ALL}"), tmp_path)
    result = result_of(events)
    assert kinds_of(result) == {"alpha": "crashed"}
    assert {m.bench_id for m in result.measurements} == {"beta", "plain"}
    assert [e.failure for e in events if isinstance(e, BenchFailed)] == list(result.failures)


def test_without_torch_one_line_states_why_and_benchmarks_without_torch_run(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr("assistant.usecases.bench.bench_gate._OWN_PYTHON", stand_in())
    result = result_of(measure(str(tmp_path / "none"), tmp_path))
    assert {m.bench_id for m in result.measurements} == {"plain"}
    assert kinds_of(result) == {"alpha": "no_interpreter", "beta": "no_interpreter"}
    (message,) = {failure.message for failure in result.failures}
    assert "there is no Python interpreter" in message
    assert "\n" not in message


def test_busy_gpus_are_refused_unless_forced(stand_in, tmp_path):
    gpu = Gpu(index=0, processes=(GpuProcess(pid=7, name="python"),))
    facts = MachineFacts(gpus=(gpu,), cpu=FACTS.cpu)
    python = stand_in(devices=("NVIDIA H100",))
    refused = result_of(list(measure_machine(facts, MeasureOptions(python=python))))
    assert set(kinds_of(refused).values()) == {"busy"}
    assert "GPU0 is used by python 7" in refused.failures[0].message
    forced = result_of(measure(python, tmp_path, facts, only=("alpha",)))
    assert {m.subject for m in forced.measurements} == {"GPU0"}


def test_gpus_that_this_torch_cannot_use_are_not_measured_as_a_cpu(stand_in, tmp_path):
    result = result_of(measure(stand_in(), tmp_path, MachineFacts(gpus=(Gpu(index=0),))))
    assert {m.bench_id for m in result.measurements} == {"plain"}
    assert kinds_of(result) == {"alpha": "unsupported", "beta": "unsupported"}
    assert "built without CUDA" in result.failures[0].message


def run(python: str, tmp_path: Path, rows, stop=lambda: False, **more):
    row = rows[0]
    request = row.load().requests(bench_context(FACTS))[0]
    return run_request(request, row.load(), python, tmp_path / "work", stop=stop, watch=Watch(FACTS), **more)


def test_a_worker_that_hangs_is_stopped_and_what_it_had_stays(stand_in, tmp_path, rows):
    *_, ended = run(stand_in(FIRST + "signal.pause()"), tmp_path, rows, deadline_s=0.5)
    assert len(ended.measurements) == 1
    assert [failure.kind for failure in ended.failures] == ["timeout"]
    assert psutil.Process().children() == []


def test_a_folder_that_is_removed_meanwhile_is_the_cause(stand_in, tmp_path, rows):
    *_, ended = run(
        stand_in("import shutil\nshutil.rmtree(os.path.dirname(arguments['--out']))\nsys.exit(1)"),
        tmp_path,
        rows,
    )
    (failure,) = ended.failures
    assert f"{tmp_path / 'work'} was removed during the run" in failure.message


def test_samples_are_reported_while_the_worker_runs_and_it_can_be_stopped(stand_in, tmp_path, rows):
    events = []
    for event in run(stand_in(FIRST + "signal.pause()"), tmp_path, rows, stop=lambda: bool(events)):
        events.append(event)
    case, provisional, ended = events
    assert isinstance(case, CaseMeasured)
    assert isinstance(provisional, Provisional)
    assert [m.parameters for m in provisional.measurements] == [{"size": 1}]
    assert (ended.fresh, [m.parameters for m in ended.measurements]) == ((), [{"size": 1}])
    assert [failure.kind for failure in ended.failures] == ["stopped"]


def test_stopped_in_the_middle_the_result_holds_what_there_is(stand_in, tmp_path):
    body = f"if request['bench_id'] == 'beta': sample(request['cases'][0]); signal.pause()\n{ALL}"
    events = []
    options = MeasureOptions(python=stand_in(body), force=True, work_directory=str(tmp_path / "work"))
    for event in measure_machine(
        FACTS, options, lambda: len([e for e in events if isinstance(e, Measured)]) == 3
    ):
        events.append(event)
    result = result_of(events)
    assert [m.bench_id for m in result.measurements] == ["alpha", "alpha", "beta"]
    assert kinds_of(result) == {"beta": "stopped"}


def test_stopped_before_it_began_nothing_runs(stand_in, tmp_path):
    result = result_of(measure(stand_in(), tmp_path, stop=lambda: True))
    assert (result.measurements, result.failures) == ((), ())


def test_a_suite_that_overran_begins_nothing_more(stand_in, tmp_path, rows):
    context = bench_context(FACTS)
    gate = Gate(interpreter=None)
    jobs, _ = jobs_of(rows[2:3] * 2, context, gate)
    events = list(
        run_jobs(jobs, tmp_path, watch=Watch(FACTS), stop=lambda: False, device="all CPUs", deadline_s=-1)
    )
    assert [e.failure.kind for e in events if isinstance(e, BenchFailed)] == ["timeout", "timeout"]
    assert not list(tmp_path.iterdir())


def test_a_worker_that_prints_without_end_is_stopped(stand_in, tmp_path, rows, monkeypatch):
    monkeypatch.setattr("assistant.usecases.bench.bench_run._MOST_LOG_BYTES", 10_000)
    *_, ended = run(stand_in(FIRST + "while True: print('x' * 1000)"), tmp_path, rows)
    assert [failure.kind for failure in ended.failures] == ["crashed"]
    assert "printed more than" in ended.failures[0].message


def test_a_benchmark_that_is_broken_itself_does_not_take_the_others_along(
    stand_in, tmp_path, rows, monkeypatch
):
    monkeypatch.setattr(sys.modules[rows[0].module], "interpret", lambda *_: 1 / 0)
    monkeypatch.setattr(sys.modules[rows[1].module], "requests", lambda _: 1 / 0)
    result = result_of(measure(stand_in(), tmp_path))
    assert {m.bench_id for m in result.measurements} == {"plain"}
    assert kinds_of(result) == {"alpha": "crashed", "beta": "crashed"}


def test_answers_of_an_earlier_run_are_not_taken_for_this_one(stand_in, tmp_path):
    assert result_of(measure(stand_in(), tmp_path, only=("alpha",))).failures == ()
    broken = Path(stand_in())
    broken.write_text(broken.read_text().replace("out = open", "sys.exit(1)\nout = open"))
    result = result_of(measure(str(broken), tmp_path, only=("alpha",)))
    assert result.measurements == ()
    assert kinds_of(result) == {"alpha": "crashed"}


@pytest.mark.parametrize(
    "options",
    [MeasureOptions(only=("gemn",)), MeasureOptions(suite="endless"), MeasureOptions(ranks_per_node=0)],
)
def test_wrong_options_are_the_users_error(options):
    with pytest.raises(UsageError):
        list(measure_machine(FACTS, options))


def test_a_work_folder_that_cannot_be_made_is_the_users_error(stand_in, tmp_path):
    (tmp_path / "work").write_text("a file")
    with pytest.raises(WorkerError, match="cannot write"):
        measure(stand_in(), tmp_path)


def test_a_folder_that_cannot_be_written_later_fails_its_benchmark_alone(stand_in, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "1-alpha").write_text("a file")
    result = result_of(measure(stand_in(), tmp_path))
    assert kinds_of(result) == {"alpha": "crashed"}
    assert {m.bench_id for m in result.measurements} == {"beta", "plain"}


def test_the_suites_keep_their_time():
    """The stated costs of the benchmarks add up to at most 2 minutes (quick) and 15 minutes (full)."""
    assert sum(row.cost_s for row in BENCHMARKS if "quick" in row.suites) <= 120
    assert sum(row.full_cost_s for row in BENCHMARKS if "full" in row.suites) <= 900


@pytest.mark.parametrize(
    ("memory_bytes", "capability", "model", "precision"),
    [
        (80 * 2**30, "9.0", "tinyllama-1.1b", "bf16"),
        (24 * 2**30, "8.9", "gpt2", "bf16"),
        (16 * 2**30, "7.0", "gpt2", "fp32"),
    ],
)
def test_the_reference_model_suits_the_gpu(memory_bytes, capability, model, precision):
    gpus = tuple(
        Gpu(index=index, memory_bytes=memory_bytes, compute_capability=capability) for index in range(4)
    )
    context = bench_context(MachineFacts(gpus=gpus), visible_gpus=2)
    assert (context.device, context.backend, context.ranks_per_node) == ("cuda", "nccl", 2)
    assert (context.model.shape["id"], context.model.precision) == (model, precision)


def test_the_flops_are_the_planners():
    mini = find_model("rigtune-mini")
    assert bench_context(FACTS).model.flops_per_token == flops_per_token(mini, mini.sequence_length)


def test_a_machine_is_known_by_its_name_and_its_gpus():
    first, second = Gpu(index=0, uuid="GPU-a"), Gpu(index=1, uuid="GPU-b")
    machines = [
        MachineFacts(hostname="a", gpus=(first, second)),
        MachineFacts(hostname="b", gpus=(first, second)),
        MachineFacts(hostname="a", gpus=(first,)),
        MachineFacts(hostname="a", gpus=()),
        MachineFacts(hostname="a", cpu=Cpu(model="EPYC")),
        MachineFacts(),
    ]
    assert len({machine_id(facts) for facts in machines}) == len(machines)
    assert machine_id(machines[0]) == machine_id(MachineFacts(hostname="a", gpus=(second, first)))


def test_each_run_over_hosts_has_its_own_token() -> None:
    [row] = [row for row in BENCHMARKS if row.id == "network"]
    options = MeasureOptions(hosts=("a", "b"))
    first, second = (row.load().requests(context_of(FACTS, options))[0] for _ in range(2))
    assert first.settings.pop("token") != second.settings.pop("token")
    assert first == second
