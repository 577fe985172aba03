"""Test the state of the terminal UI after each event."""

from __future__ import annotations

from assistant.tui.session import Problem, State, advance, begin, end
from assistant.usecases.events import (
    BenchFailed,
    FactsGrew,
    FindingMade,
    Measured,
    Progress,
    StageFinished,
    StageStarted,
    Written,
)
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from tests.support.tui_machines import cpu_box, faulty_server, faulty_verdict
from tests.support.tui_measured import measured_on_gpus
from tests.support.tui_plans import gpu_plan, prepared


def after(state, *events):
    for event in events:
        state = advance(state, event)
    return state


def test_a_plan_that_failed_leaves_no_script_of_the_plan_before():
    state = after(
        State(),
        StageFinished(stage="plan", result=gpu_plan()),
        StageFinished(stage="recipe", result=prepared()),
        Written(path="launch.sh", what="launch script"),
    )
    state = end(begin(state, "plan", "Planning"), "plan", Problem(stage="plan", message="nothing fits"))
    assert (state.plan, state.prepared, state.written) == (None, None, ())


def test_facts_grow_until_they_are_complete():
    part = MachineFacts(hostname="node-17")
    state = after(begin(State(), "probe", "Reading"), FactsGrew(facts=part))
    assert state.facts == part
    assert not state.facts_complete
    state = after(state, StageFinished(stage="probe", result=faulty_server()))
    assert state.facts_complete
    assert len(state.facts.gpus) == 8


def test_a_second_probe_keeps_the_old_facts_until_it_is_complete():
    state = after(State(), StageFinished(stage="probe", result=faulty_server()))
    state = after(begin(state, "probe", "Reading"), FactsGrew(facts=MachineFacts()))
    assert len(state.facts.gpus) == 8
    assert after(state, StageFinished(stage="probe", result=cpu_box())).facts.gpus == ()


def test_findings_arrive_one_by_one_and_are_replaced_as_a_whole():
    verdict = faulty_verdict()
    state = after(State(), *(FindingMade(finding=finding) for finding in verdict.findings[:2]))
    assert len(state.findings) == 2
    state = after(state, StageFinished(stage="check", result=verdict))
    assert state.findings == verdict.findings
    assert after(state, FindingMade(finding=verdict.findings[0])).findings == verdict.findings


def test_a_new_benchmark_forgets_the_old_one_and_keeps_what_arrives():
    measured = measured_on_gpus()
    state = after(State(), StageFinished(stage="bench", result=measured))
    state = begin(state, "bench", "Measuring")
    assert state.measured == MeasurementSet()
    state = after(
        state, Measured(measurement=measured.measurements[0]), BenchFailed(failure=measured.failures[0])
    )
    assert state.measured.measurements == measured.measurements[:1]
    assert state.measured.failures == measured.failures


def test_a_new_plan_drops_the_recipe_and_files_of_the_old_one():
    state = after(
        State(),
        StageFinished(stage="plan", result=gpu_plan()),
        StageFinished(stage="recipe", result=prepared()),
        Written(path="launch.sh", what="script"),
    )
    assert state.prepared is not None
    assert state.written == ("launch.sh",)
    state = after(state, StageFinished(stage="plan", result=gpu_plan()))
    assert state.prepared is None
    assert state.written == ()


def test_progress_belongs_to_its_stage():
    state = begin(begin(State(), "bench", "Measuring"), "plan", "Planning")
    state = after(
        state,
        StageStarted(stage="bench", title="Measuring quick"),
        Progress(stage="bench", message="gemm", done=1, total=4),
    )
    assert state.running_stage("bench").message == "gemm"
    assert state.running_stage("bench").title == "Measuring quick"
    assert state.running_stage("plan").message == ""


def test_a_problem_lasts_until_its_stage_starts_again():
    state = end(begin(State(), "plan", "Planning"), "plan", Problem(stage="plan", message="no", hint="yes"))
    assert state.running == ()
    assert state.problem_of("plan").hint == "yes"
    assert state.problem_of("bench") is None
    assert begin(state, "plan", "Planning").problem_of("plan") is None
