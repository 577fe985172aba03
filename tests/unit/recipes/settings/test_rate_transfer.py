"""Test learning rates that rules transfer to another batch, optimizer or width, and the rules' limits."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.job.models.counts import load_models
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.planning.planner import default_workload
from recipes.settings.convergence import convergence_settings
from recipes.settings.critical_batch import critical_batch, load_batch_laws
from recipes.settings.learning_rate import load_optimizer_rules
from recipes.settings.setting import NOTHING_STATED, Stated
from tests.support.clusters import figure, h100_cluster
from tests.unit.recipes.settings.test_published_cases import CLUSTER, images, settings_of, text


def rate(workload: Any, stated: Stated = NOTHING_STATED) -> float:
    return settings_of(workload, stated).rate.value


# --- the batch


def test_a_quarter_of_the_batch_halves_the_rate_of_adamw() -> None:
    assert rate(text("gpt2", 512, 1024)) == 6e-4
    assert rate(text("gpt2", 128, 1024)) == pytest.approx(3e-4)


@pytest.mark.parametrize(
    ("optimizer", "factor"),
    [
        ("sgd", 4.0),
        ("adamw", 2.0),
        ("adamw-8bit", 2.0),
        ("lamb", 2.0),
        ("lars", 2.0),
        ("lion", 2.0),
        ("muon", 2.0),
    ],
)
def test_a_known_pair_is_carried_by_the_rule_of_the_optimizer(optimizer: Any, factor: float) -> None:
    known = Stated(known_batch=64, known_rate=1e-3)
    settings = settings_of(text("gpt2", 256, 1024, optimizer=optimizer), known)
    assert settings.rate.value == pytest.approx(1e-3 * factor)
    assert settings.rate.because.startswith("your own run: 0.001 at 64 sequences per step")
    assert settings_of(text("gpt2", 64, 1024, optimizer=optimizer), known).rate.basis == "user"


def test_growth_ends_at_the_critical_batch_with_a_warning() -> None:
    workload = text("gpt2", 512 * 64, 1024)
    limit = critical_batch(workload, NOTHING_STATED)
    assert limit is not None
    ceiling = max(524_288, limit.high)
    settings = settings_of(workload)
    assert settings.rate.value == pytest.approx(6e-4 * math.sqrt(ceiling / 524_288), rel=0.01)
    assert "critical batch" in settings.warnings[0]
    assert "known within a factor of 2 to 4" in settings.warnings[0]
    assert not settings_of(text("gpt2", 512, 1024)).warnings


@given(st.sampled_from([model.id for model in load_models()]), st.integers(1, 10**6))
def test_a_larger_batch_never_has_a_smaller_rate(model: str, batch: int) -> None:
    assert rate(text(model, batch + 1)) >= rate(text(model, batch)) > 0


BOUND = st.floats(1e-12, 1e12)
WHOLE = st.integers(1, 10**12)


@given(
    st.sampled_from(sorted(load_optimizer_rules())),
    st.integers(1, 10**9),
    st.integers(1, 10**9),
    st.builds(
        Stated,
        known_batch=WHOLE,
        known_rate=BOUND,
        known_width=st.none() | WHOLE,
        noise_scale=st.none() | BOUND,
        tokens=st.none() | st.floats(1, 1e15),
    ),
)
def test_any_known_pair_gives_finite_settings(optimizer: Any, batch: int, steps: int, stated: Stated) -> None:
    """Numbers at the bounds of the command line; only muP refuses optimizers without a rule."""
    if load_optimizer_rules()[optimizer].width_exponent < 0:
        stated = msgspec.structs.replace(stated, known_width=None)
    job = text("gpt3-13b", batch, 1024, steps, optimizer=optimizer)
    settings = settings_of(job, stated)
    assert 0 < settings.rate.value < math.inf
    assert rate(msgspec.structs.replace(job, global_batch=batch + 1), stated) >= settings.rate.value
    assert 0 <= settings.warmup.value <= steps
    assert 0 <= settings.optimization.ramp_from <= batch
    values = msgspec.structs.asdict(settings.optimization).values()
    assert all(0 <= value < math.inf for value in values if not isinstance(value, str))


def test_a_fine_tuning_recipe_at_another_batch_says_that_the_rule_is_not_its_own() -> None:
    settings = settings_of(text("llama-3-8b", 512, fine_tuning=True))
    assert settings.rate.value == pytest.approx(2e-5 * 2)
    assert "come from pre-training" in settings.warnings[0]


# --- the noise scale and the laws


def test_a_measured_noise_scale_is_the_batch_and_the_limit() -> None:
    stated = Stated(noise_scale=96.0)
    workload = default_workload(find_model("gpt2"), CLUSTER, stated=stated)
    assert workload.global_batch == 96
    settings = settings_of(workload, stated)
    assert settings.batch.basis == "measured"
    assert "noise scale that you measured is 96 samples" in settings.batch.because
    # The recipe's own batch of 512 stays the limit if the noise scale is smaller.
    assert rate(text("gpt2", 4096, 1024), stated) == rate(text("gpt2", 512, 1024), stated)


@pytest.mark.parametrize(
    ("law", "argument", "expected"),
    [
        ("zhang-2024-parameters", 85e6, 0.39e6),
        ("zhang-2024-parameters", 1.2e9, 1.34e6),
        ("zhang-2024-tokens", 24e9, 1.34e6),
        ("step-law", 100e9, 1.11e6),
        ("deepseek-llm", 1e19, 0.48e6),
    ],
)
def test_published_laws(law: str, argument: float, expected: float) -> None:
    """Zhang 2024: 93.2 x 85^0.47 = 752 sequences of 512; the other rows follow from their laws' formulas."""
    row = load_batch_laws()[law]
    assert row.batch_tokens(argument) == pytest.approx(expected, rel=0.03)
    assert row.covers(argument)
    assert not row.covers(100 * row.valid_to)
    assert not row.covers(row.valid_from / 100)


def test_a_longer_run_uses_more_laws_and_names_those_out_of_range() -> None:
    workload = text("llama-3-8b", 512, 8192)
    short, whole = critical_batch(workload, NOTHING_STATED), critical_batch(workload, Stated(tokens=1e12))
    assert short is not None
    assert whole is not None
    assert short.low == short.high
    assert whole.low < whole.high
    assert "outside the range of zhang-2024-parameters" in short.words
    assert "Step Law" in whole.words
    assert critical_batch(images("resnet50", 256), NOTHING_STATED) is None
    assert critical_batch(text("bert-base", 256, 512), NOTHING_STATED) is None


@pytest.mark.parametrize("field", ["factor", "exponent", "per", "valid_from", "valid_to"])
@pytest.mark.parametrize("name", load_batch_laws())
def test_every_figure_of_a_law_matters(name: str, field: str) -> None:
    rows = load_batch_laws()
    row = rows[name]
    doubled = msgspec.structs.replace(row, **{field: 2 * getattr(row, field)})
    edges = [row.valid_from, row.valid_to]
    before = [(row.batch_tokens(edge), row.covers(edge), row.covers(1.5 * edge)) for edge in edges]
    assert [
        (doubled.batch_tokens(edge), doubled.covers(edge), doubled.covers(1.5 * edge)) for edge in edges
    ] != before


def test_the_batch_names_the_measured_noise_scale_of_the_step() -> None:
    noisy = h100_cluster(noise_scale_sequences=figure(64.0))
    settings = convergence_settings(text("gpt2", 512, 1024), noisy, NOTHING_STATED, Pins())
    assert "8 times the gradient noise scale of your step" in settings.batch.because


# --- the optimizer


@pytest.mark.parametrize(
    ("optimizer", "rate_factor", "decay_factor", "betas"),
    [
        ("adamw-8bit", 1.0, 1.0, (0.9, 0.95)),
        ("adam-mini", 1.0, 1.0, (0.9, 0.95)),
        ("muon", 1.0, 1.0, (0.95, 0.95)),
        ("lion", 0.1, 10.0, (0.9, 0.99)),
        ("lion-8bit", 0.1, 10.0, (0.9, 0.99)),
    ],
)
def test_published_factors_from_adamw(
    optimizer: Any, rate_factor: float, decay_factor: float, betas: tuple[float, float]
) -> None:
    settings = settings_of(text("gpt3-125m", 256, 2048, optimizer=optimizer))
    assert settings.rate.value == pytest.approx(6e-4 * rate_factor)
    assert settings.optimization.weight_decay == pytest.approx(0.1 * decay_factor)
    assert (settings.optimization.beta1, settings.optimization.beta2) == betas


@pytest.mark.parametrize("optimizer", ["lomo", "sgd", "lars", "galore", "adafactor"])
def test_an_unpublished_rate_is_refused_not_guessed(optimizer: Any) -> None:
    workload = text("gpt2", 512, 1024, optimizer=optimizer)
    with pytest.raises(UsageError, match="nobody published a learning rate for gpt2") as error:
        settings_of(workload)
    assert "--known-lr" in str(error.value.hint)
    pinned = convergence_settings(workload, CLUSTER, NOTHING_STATED, Pins(learning_rate=0.5))
    assert (pinned.rate.value, pinned.rate.basis) == (0.5, "user")


def test_t5_names_the_optimizer_with_a_published_rate() -> None:
    with pytest.raises(UsageError) as error:
        settings_of(text("t5-base", 64, 512, optimizer="adamw", fine_tuning=True))
    assert "--optimizer adafactor" in str(error.value.hint)


def test_every_figure_of_a_rule_matters() -> None:
    rules = load_optimizer_rules()
    for name, rule in list(rules.items()):
        for field in ("exponent", "rate_of_adamw", "decay_of_adamw", "beta1", "beta2", "width_exponent"):
            value = getattr(rule, field)
            if value <= 0:
                continue
            before = _answers(name)
            try:
                rules[name] = msgspec.structs.replace(rule, **{field: 2 * value})
                assert _answers(name) != before, (name, field)
            finally:
                rules[name] = rule


def _answers(optimizer: str) -> list[Any]:
    """Return the learning rates and settings that depend on the rule of an optimizer."""
    answers: list[Any] = []
    known = Stated(known_batch=64, known_rate=1e-3)
    for stated in (NOTHING_STATED, known, msgspec.structs.replace(known, known_width=256)):
        for named in (optimizer, "lion"):
            try:
                settings = settings_of(text("gpt2", 256, 1024, optimizer=named), stated)
            except UsageError:
                continue
            answers.append((settings.rate.value, msgspec.structs.astuple(settings.optimization)))
    return answers


# --- the width


def test_mup_divides_the_rate_of_hidden_matrices_by_the_width() -> None:
    """Yang 2022 (arXiv 2203.03466), table 3: Adam's rate of hidden matrices is in proportion to 1 / width."""
    stated = Stated(known_batch=512, known_rate=8e-3, known_width=192)
    settings = settings_of(text("gpt2", 512, 1024), stated)
    assert settings.rate.value == pytest.approx(8e-3 * 192 / 768)
    assert settings.optimization.embedding_learning_rate == 8e-3
    assert "muP's initialisation" in settings.rate.because
    unchanged = settings_of(text("gpt2", 512, 1024, optimizer="sgd"), stated)
    assert unchanged.rate.value == 8e-3


def test_mup_needs_a_rule_and_a_pair() -> None:
    stated = Stated(known_batch=512, known_rate=8e-3, known_width=192)
    with pytest.raises(UsageError, match="muP has no rule"):
        settings_of(images("resnet50", 256), stated)
    with pytest.raises(UsageError, match="only a part of a known learning rate"):
        settings_of(text("gpt2", 512, 1024), Stated(known_width=192))


# --- warm-up, decay and the ramp


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_warm_up_takes_at_most_a_tenth_and_at_least_one_step(steps: int, batch: int) -> None:
    warmup = settings_of(text("gpt2", batch, 1024, steps)).warmup.value
    assert 1 <= warmup <= max(1, steps // 10)


def test_the_warm_up_keeps_its_samples_but_has_some_hundred_steps_at_large_batches() -> None:
    """375 M tokens (GPT-3) are 716 steps of 512 sequences of 1024."""
    steps = [settings_of(text("gpt2", batch, 1024)).warmup.value for batch in (512, 64, 2048, 8192)]
    assert steps == [716, 5723, 200, 200]
    # 2 / (1 - 0.999) = 2000 steps for BERT's second decay
    assert settings_of(text("bert-base", 2**16, 512)).warmup.value == 2000


@pytest.mark.parametrize(
    ("model", "batch", "length", "because"),
    [
        ("llama-2-7b", 1024, 4096, "2000 steps (recipe of Llama 2 7B); 8.39 B tokens"),
        ("llama-2-7b", 512, 4096, "with as many samples at this batch: 4000 steps; 8.39 B tokens"),
        ("gpt2", 512, 1024, "): 716 steps; 375 M tokens"),
    ],
)
def test_a_warm_up_states_its_steps_if_they_are_not_those_of_the_recipe(
    model: str, batch: int, length: int, because: str
) -> None:
    assert settings_of(text(model, batch, length)).warmup.because.endswith(because)


def test_weight_decay_names_the_value_that_keeps_the_time_scale() -> None:
    row = next(each for each in settings_of(text("gpt2", 2048, 1024)).others if each.name == "weight_decay")
    assert row.text == "0.1"
    assert row.alternatives[0].startswith("0.2 keeps AdamW's time scale")


def test_a_batch_ramp_needs_a_run_that_is_longer_than_the_ramp() -> None:
    workload = text("gpt3-13b", 1024)
    for tokens in (None, 11e9):
        assert settings_of(workload, Stated(tokens=tokens)).optimization.ramp_from == 0
    ramp = settings_of(workload, Stated(tokens=13e9)).optimization
    assert (ramp.ramp_from, ramp.ramp_samples) == (16, math.ceil(4e9 / 2048))
    assert (
        settings_of(text("deepseek-v3", 15360, 4096), Stated(tokens=14.8e12)).optimization.ramp_from == 3072
    )


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="no training recipe") as error:
        settings_of(text("gpt2", 512), Stated(training_recipe="qlora7b"))
    assert "qlora-7b" in str(error.value.hint)
    with pytest.raises(UsageError, match="is for training on images, and the job is pre-training"):
        settings_of(text("gpt2", 512), Stated(training_recipe="resnet50-sgd"))
