"""Test that the main job measures the subject of the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.cli import command_line
from assistant.usecases import auto as auto_module
from assistant.usecases.auto import AutoOptions, auto
from assistant.usecases.events import StageFinished
from assistant.usecases.plan import PlanRequest
from probes.base.errors import UsageError
from probes.facts.measurements import MeasurementSet
from probes.sources.choose import open_source


@pytest.mark.parametrize(("model", "ffn_hidden"), [("llama-3-8b", 14336), ("", None)])
def test_the_matrix_products_are_those_of_the_model_that_was_named(monkeypatch, tmp_path, model, ffn_hidden):
    asked = []

    def measure(facts, options):
        asked.append(options)
        yield StageFinished(stage="bench", result=MeasurementSet())

    monkeypatch.setattr(auto_module, "measure_machine", measure)
    *_, finished = auto(
        open_source((), "dgx-h100"), AutoOptions(directory=str(tmp_path), request=PlanRequest(model=model))
    )
    assert asked[0].settings.model.get("ffn_hidden") == ffn_hidden
    assert not model or finished.result.plan.workload.model.id == model


def test_an_unknown_model_is_reported_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(auto_module, "measure_machine", lambda *_: pytest.fail("measured"))
    with pytest.raises(UsageError, match="no model 'lama'"):
        list(
            auto(
                open_source((), "dgx-h100"),
                AutoOptions(directory=str(tmp_path), request=PlanRequest(model="lama")),
            )
        )


@pytest.mark.parametrize("named", [True, False])
def test_results_go_to_the_named_folder_or_to_a_new_one_of_the_user(monkeypatch, tmp_path, named):
    folders = []

    def without_work(source, options):
        folders.append(Path(options.directory))
        raise UsageError("the work is left out", "")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("assistant.usecases.auto.auto", without_work)
    command_line(["auto", "--machine", "dgx-h100", *["--out", str(tmp_path / "run")] * named])
    assert folders[0].parent == (tmp_path if named else tmp_path / "state" / "rigtune" / "runs")
