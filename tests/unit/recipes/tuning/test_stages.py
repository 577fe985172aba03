"""Test the stages of a tune, its journal, and the recipe that results."""

from __future__ import annotations

import math

import msgspec
import pytest

from probes.base.errors import InputError
from recipes.launch.edited import refreshed
from recipes.launch.recipe import Chosen, Environment
from recipes.launch.recipe_file import dump_recipe, load_recipe
from recipes.tuning.contest import Rules, Trial
from recipes.tuning.journal import Ran, Started, digest_of, line_of, read_journal
from recipes.tuning.tune_result import result_of, tuned_recipe
from recipes.tuning.tune_stages import Options, stages_of
from recipes.tuning.variants import BASELINE
from tests.support.clusters import cpu_cluster

THREADS = Environment(name="OMP_NUM_THREADS", value="2", why="you asked", source="--try")


@pytest.fixture
def recipe(make_recipe):
    """Return a recipe for two CPU ranks, with a decision about the micro-batch."""
    chosen = Chosen(name="micro_batch", value="2", basis="rule", because="a guess")
    return refreshed(make_recipe(machine=cpu_cluster(), decisions=(chosen,)))


def played(recipe, options, seconds, budget_s=math.inf, *, trials=None):
    """Return the stages and trials of a tune; a candidate takes `seconds(variant)`, and 0 means that it runs
    out of memory.
    """
    trials = trials or ([], [])
    for _ in range(1000):
        stages = stages_of(recipe, options, trials, budget_s)
        stage = stages[-1]
        if stage.is_over:
            break
        name = stage.state.due[0]
        time_s = seconds(next(each for each in stage.variants if each.name == name))
        trial = Trial(
            round=stage.state.round,
            candidate=name,
            outcome="measured" if time_s else "out_of_memory",
            step_time_s=time_s or None,
            reason="" if time_s else "out of memory",
            took_s=10.0,
        )
        trials[len(stages) - 1].append(trial)
    return stages_of(recipe, options, trials, budget_s), trials


def by_micro_batch(variant):
    """Return a time that is shorter for a larger micro-batch or more threads; 0 (out of memory) for fsdp."""
    layout = variant.recipe.parallelism
    threads = {each.name: each.value for each in variant.recipe.environment}.get("OMP_NUM_THREADS", "1")
    return 0.0 if layout.strategy == "fsdp" else 1.0 / layout.micro_batch / float(threads)


def test_the_winner_is_written_with_what_was_measured(recipe):
    stages, trials = played(recipe, Options(), by_micro_batch)
    result = result_of(recipe, Options(), stages, 1200.0)
    assert result.is_complete
    assert {each.name: each.value for each in result.changes} == {"micro_batch": "4", "grad_accum": "1"}
    assert result.speed_up == pytest.approx(1.0)
    assert result.trials == len(trials[0])
    tuned = tuned_recipe(recipe, stages, msgspec.structs.replace(result, journal="tune/journal.jsonl"))
    assert (tuned.parallelism.micro_batch, tuned.parallelism.grad_accum) == (4, 1)
    (decision,) = (each for each in tuned.decisions if each.name == "micro_batch")
    assert (decision.value, decision.basis) == ("4", "measured")
    assert "250 ms per step instead of 500 ms" in decision.because
    assert "tune/journal.jsonl" in decision.because
    assert "p = 0.031" in decision.because
    assert any("out of memory" in words for words in decision.alternatives)
    assert any(words.startswith(BASELINE) for words in decision.alternatives)
    assert refreshed(load_recipe(dump_recipe(tuned), "tuned.toml")) == tuned
    assert tuned.predicted.step_time_s != recipe.predicted.step_time_s


def test_a_recipe_that_a_person_edited_keeps_the_edits(recipe):
    edited = msgspec.structs.replace(
        recipe,
        convergence=msgspec.structs.replace(recipe.convergence, learning_rate=7e-4),
        decisions=(
            *recipe.decisions,
            Chosen(name="learning_rate", value="0.001", basis="rule", because="borrowed"),
        ),
        notes=("mine",),
    )
    stages, _ = played(edited, Options(), by_micro_batch)
    tuned = tuned_recipe(edited, stages, result_of(edited, Options(), stages, 1200.0))
    assert tuned.convergence.learning_rate == 7e-4
    bases = {each.name: each.basis for each in tuned.decisions}
    assert (bases["learning_rate"], bases["micro_batch"]) == ("user", "measured")
    assert "mine" in tuned.notes


def test_variables_are_measured_on_top_of_the_winner(recipe):
    options = Options(variables=(THREADS,))
    stages, _ = played(recipe, options, by_micro_batch)
    layouts, variables = stages
    assert layouts.winner.recipe.parallelism.micro_batch == 4
    assert variables.variants[0].recipe.parallelism.micro_batch == 4
    assert layouts.contest.rules.alpha == variables.contest.rules.alpha == 0.025
    result = result_of(recipe, options, stages, 1200.0)
    assert result.speed_up == pytest.approx(3.0)
    tuned = tuned_recipe(recipe, stages, result)
    (variable,) = tuned.environment
    assert (variable.name, variable.value) == ("OMP_NUM_THREADS", "2")
    assert "rigtune tune measured" in variable.why


def test_if_nothing_is_faster_the_recipe_stays(recipe):
    stages, _ = played(recipe, Options(), lambda variant: 1.0 if variant.name == BASELINE else 1.1)
    result = result_of(recipe, Options(), stages, 1200.0)
    assert result.changes == ()
    assert result.speed_up == 0.0
    assert result.is_complete
    assert tuned_recipe(recipe, stages, result) == recipe


@pytest.mark.parametrize("budget_s", [0.5, 35.0, 95.0])
def test_the_budget_ends_a_tune_and_the_first_trial_always_runs(recipe, budget_s):
    stages, trials = played(recipe, Options(), by_micro_batch, budget_s)
    assert sum(each.took_s for each in trials[0]) <= max(budget_s, 10.0)
    assert len(trials[0]) == max(1, int(budget_s // 10))
    result = result_of(recipe, Options(), stages, budget_s)
    assert (result.changes, result.is_complete) == ((), False)
    assert "budget" in result.stages[0].because


def test_the_second_stage_gets_its_share_of_the_budget(recipe):
    options = Options(variables=(THREADS,))
    _, (layouts, variables) = played(recipe, options, lambda _: 1.0 + 0.0, 200.0)
    assert layouts
    assert variables
    assert 10.0 * (len(layouts) + len(variables)) <= 200.0


def test_more_budget_does_not_reopen_a_stage_whose_successor_began(recipe):
    options = Options(variables=(THREADS,))
    _, trials = played(recipe, options, by_micro_batch, 100.0)
    assert trials[1]
    before = len(trials[0])
    _, trials = played(recipe, options, by_micro_batch, 10_000.0, trials=trials)
    assert len(trials[0]) == before


def journal_of(recipe, options, trials):
    lines = [line_of(Started(recipe=digest_of(recipe), options=options, budget_s=60.0))]
    lines += [line_of(Ran(stage=at, trial=each)) for at, stage in enumerate(trials) for each in stage]
    return b"".join(lines)


@pytest.fixture
def finished(recipe):
    """Return a recipe, the options, the trials and the journal of a finished tune."""
    options = Options(rules=Rules(seed=4))
    _, trials = played(recipe, options, by_micro_batch)
    return recipe, options, trials, journal_of(recipe, options, trials)


def test_a_journal_that_ends_anywhere_gives_the_whole_trials(finished):
    recipe, options, trials, data = finished
    whole, _ = played(recipe, options, by_micro_batch)
    for cut in range(0, len(data) + 1, 97):
        journal = read_journal(data[:cut], "journal")
        if journal is None:
            assert b"\n" not in data[:cut]
            continue
        assert data[: journal.whole_bytes].endswith(b"\n")
        assert journal.started.options == options
        assert journal.trials[0] == tuple(trials[0][: data[:cut].count(b"\n") - 1])
        kept = [list(part) for part in journal.trials]
        assert played(recipe, journal.started.options, by_micro_batch, trials=kept)[0] == whole


def test_a_baseline_that_failed_is_measured_again(recipe):
    failed = Trial(round=1, candidate=BASELINE, outcome="failed", reason="no torch")
    journal = read_journal(journal_of(recipe, Options(), ([failed], [])), "journal")
    assert journal.trials == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b'{"event": "other"}\n',
        line_of(Ran(stage=5, trial=Trial(round=1, candidate="a", outcome="failed"))),
        line_of(Ran(stage=0, trial=Trial(round=0, candidate="a", outcome="failed"))),
        line_of(Ran(stage=0, trial=Trial(round=1, candidate="a", outcome="measured"))),
        line_of(Ran(stage=0, trial=Trial(round=1, candidate="a", outcome="measured", step_time_s=-1.0))),
        line_of(Ran(stage=0, trial=Trial(round=17, candidate="a", outcome="failed"))),
        line_of(Ran(stage=0, trial=Trial(round=1, candidate="a", outcome="measured", step_time_s=1e300))),
        line_of(Ran(stage=0, trial=Trial(round=1, candidate="a", outcome="failed", took_s=-1.0))),
        b'{"event":"trial","stage":0,"trial":{"candidate":"\xed\xb2\xa0"}}\n',
        line_of(Started(recipe="", options=Options(), budget_s=1.0)),
        line_of(Started(recipe="", options=Options(), budget_s=1.0, schema_version=9)),
    ],
)
def test_a_file_that_is_no_journal_is_refused_with_the_line(recipe, line):
    with pytest.raises(InputError, match=r"my\.jsonl, line 2"):
        read_journal(journal_of(recipe, Options(), ()) + line, "my.jsonl")


@pytest.mark.parametrize(
    "options",
    [
        # The significance test computes 2**rounds sign patterns, so many rounds would exhaust the memory.
        Options(rules=Rules(most_rounds=2**31)),
        Options(rules=Rules(most_rounds=0)),
        Options(rules=Rules(hopeless=-2.0)),
        Options(rules=Rules(survivors=1e30)),
        Options(rules=Rules(alpha=0.0)),
        Options(rules=Rules(worthwhile=1.0)),
        Options(candidates=2**31),
        Options(steps=0),
    ],
)
def test_rules_that_no_tune_writes_are_refused(recipe, options):
    with pytest.raises(InputError, match=r"my\.jsonl, line 1: not an entry of a journal") as caught:
        read_journal(journal_of(recipe, options, ()), "my.jsonl")
    assert "--out" in caught.value.hint


def test_a_trial_before_the_start_is_refused():
    with pytest.raises(InputError, match="line 1: a trial before the start"):
        read_journal(line_of(Ran(stage=0, trial=Trial(round=1, candidate="a", outcome="failed"))), "j")


def test_the_digest_ignores_words_and_follows_settings(recipe):
    assert digest_of(recipe) == digest_of(msgspec.structs.replace(recipe, notes=("a",), decisions=()))
    other = msgspec.structs.replace(recipe.parallelism, bucket_mb=5)
    assert digest_of(recipe) != digest_of(msgspec.structs.replace(recipe, parallelism=other))
