"""Test that a plan's settings equal published training recipes, which are stated here a second time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from recipes.job.models.image_models import find_vision_model
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.job.training_recipes import TrainingRecipe, load_training_recipes, nearest
from recipes.job.workload import AnyWorkload, VisionWorkload, Workload
from recipes.planning.planner import default_workload
from recipes.planning.programs import load_programs
from recipes.settings.convergence import ConvergenceSettings, convergence_settings
from recipes.settings.recipe_choice import known_for
from recipes.settings.setting import NOTHING_STATED, Stated
from tests.support.clusters import h100_cluster

CLUSTER = h100_cluster()
LONG = 10**6
"""Steps of a run that is so long that no warm-up is cut."""


def settings_of(
    workload: AnyWorkload, stated: Stated = NOTHING_STATED, program: str = "own"
) -> ConvergenceSettings:
    row = load_programs()[program]
    return convergence_settings(workload, CLUSTER, stated, Pins(), (row.id, *row.stacks))


def text(model: str, batch: int, length: int = 2048, steps: int = LONG, **fields: Any) -> Workload:
    return Workload(
        model=find_model(model), sequence_length=length, global_batch=batch, steps=steps, **fields
    )


def images(model: str, batch: int, steps: int = LONG, optimizer: Any = "sgd") -> VisionWorkload:
    return VisionWorkload(
        model=find_vision_model(model), image_size=224, global_batch=batch, steps=steps, optimizer=optimizer
    )


# --- Goyal 2017, table 1 and section 5.1: 0.1 x k n / 256, 5 of 90 epochs of warm-up, 1 281 167 images


@pytest.mark.parametrize(
    ("batch", "rate"),
    [(64, 0.025), (128, 0.05), (256, 0.1), (512, 0.2), (1024, 0.4), (2048, 0.8), (4096, 1.6), (8192, 3.2)],
)
def test_resnet50_from_256_to_8k(batch: int, rate: float) -> None:
    epoch = -(-1_281_167 // batch)
    settings = settings_of(images("resnet50", batch, steps=90 * epoch))
    assert settings.rate.value == rate
    assert settings.warmup.value == pytest.approx(5 * epoch, abs=5)
    assert not settings.warnings
    assert (settings.optimization.beta1, settings.optimization.weight_decay) == (0.9, 1e-4)
    assert settings.optimization.schedule == "step"
    assert "1706.02677" in settings.rate.because


def test_resnet50_beyond_8k_keeps_the_rate_and_says_why() -> None:
    settings = settings_of(images("resnet50", 16384))
    assert settings.rate.value == 3.2
    assert "16384 images per step are beyond the range of the recipe" in settings.warnings[0]
    assert "loses no accuracy up to 8192 images" in settings.warnings[0]


def test_lars_has_its_published_rate_at_a_batch_of_32k() -> None:
    settings = settings_of(images("resnet50", 32768, steps=2815, optimizer="lars"))
    assert (settings.rate.value, settings.optimization.beta1) == (29.0, 0.929)
    assert settings.warmup.value == 18 * 1_281_167 // 32768


# --- You 2019 (LAMB), table 4: rates and warm-up shares for BERT at a fixed number of epochs; 64k by NVIDIA


@pytest.mark.parametrize(
    ("batch", "steps", "rate", "warmup_share"),
    [
        (512, 1_000_000, 5 / 2**3.0 / 1e3, 1 / 320),
        (1024, 500_000, 5 / 2**2.5 / 1e3, 1 / 160),
        (2048, 250_000, 5 / 2**2.0 / 1e3, 1 / 80),
        (4096, 125_000, 5 / 2**1.5 / 1e3, 1 / 40),
        (8192, 62_500, 5 / 2**1.0 / 1e3, 1 / 20),
        (16384, 31_250, 5 / 2**0.5 / 1e3, 1 / 10),
        (32768, 15_625, 5 / 2**0.0 / 1e3, 1 / 5),
        (65536, 7_038, 6e-3, 0.2843),
    ],
)
def test_bert_with_lamb_from_512_to_64k(batch: int, steps: int, rate: float, warmup_share: float) -> None:
    settings = settings_of(text("bert-large", batch, 512, steps, optimizer="lamb"))
    assert settings.rate.value == pytest.approx(rate, rel=0.003)
    assert settings.warmup.value / steps == pytest.approx(warmup_share, rel=0.001)
    assert settings.optimization.schedule == "linear"
    assert not settings.warnings


# --- GPT-3, table 2.1 and appendix B


@pytest.mark.parametrize(
    ("model", "batch_tokens", "rate"),
    [
        ("gpt3-125m", 0.5e6, 6.0e-4),
        ("gpt3-350m", 0.5e6, 3.0e-4),
        ("gpt3-760m", 0.5e6, 2.5e-4),
        ("gpt3-1.3b", 1e6, 2.0e-4),
        ("gpt3-2.7b", 1e6, 1.6e-4),
        ("gpt3-6.7b", 2e6, 1.2e-4),
        ("gpt3-13b", 2e6, 1.0e-4),
        ("gpt3-175b", 3.2e6, 0.6e-4),
    ],
)
def test_the_gpt3_table(model: str, batch_tokens: float, rate: float) -> None:
    workload = default_workload(find_model(model), CLUSTER, sequence_length=2048, tokens=300 * 10**9)
    assert workload.tokens_per_step == pytest.approx(batch_tokens, rel=0.06)
    settings = settings_of(workload, Stated(tokens=300e9))
    assert settings.rate.value == rate
    assert settings.rate.basis == "published"
    assert settings.warmup.value * workload.tokens_per_step == pytest.approx(375e6, rel=0.01)
    optimization = settings.optimization
    assert (optimization.beta1, optimization.beta2, optimization.weight_decay) == (0.9, 0.95, 0.1)
    assert (optimization.schedule, optimization.final_share) == ("cosine", 0.1)
    assert optimization.gradient_clipping == 1.0
    assert optimization.ramp_from * 2048 == 32768
    assert optimization.ramp_samples * 2048 == pytest.approx(4e9, rel=0.001)
    assert "4 B to 12 B tokens" in next(row.because for row in settings.others if row.name == "batch_ramp")


# --- adapters and fine-tuning: recipe, model, tuning, batch, rate, warm-up of a run of 1000 steps, schedule,
# clipping, weight decay


FINE_TUNING = [
    ("lora-gpt2-medium", "gpt2-medium", "lora", 8, 2e-4, 100, "linear", 0.0, 0.01),
    ("lora-gpt3-175b", "gpt3-175b", "lora", 128, 2e-4, 1, "linear", 0.0, 0.1),
    ("lora-roberta-base", "roberta-base", "lora", 16, 5e-4, 60, "linear", 0.0, 0.0),
    ("torchtune-lora", "mistral-7b", "lora", 128, 3e-4, 100, "cosine", 0.0, 0.01),
    ("qlora-7b", "llama-2-7b", "qlora", 16, 2e-4, 30, "constant", 0.3, 0.0),
    ("qlora-13b", "llama-2-13b", "qlora", 16, 2e-4, 30, "constant", 0.3, 0.0),
    ("qlora-33b", "llama-30b", "qlora", 16, 1e-4, 30, "constant", 0.3, 0.0),
    ("qlora-65b", "llama-65b", "qlora", 16, 1e-4, 30, "constant", 0.3, 0.0),
    ("zephyr-7b-sft", "mistral-7b", "full", 128, 2e-5, 100, "cosine", 1.0, 0.0),
    ("bert-fine-tuning", "bert-large", "full", 32, 3e-5, 100, "linear", 1.0, 0.01),
]
NAMED = [
    ("torchtune-full", "llama-3-8b", "full", 8, 2e-5, 0, "constant", 0.0, 0.01),
    ("torchtune-lora", "llama-3-8b", "lora", 128, 3e-4, 100, "cosine", 0.0, 0.01),
    ("torchtune-qlora", "llama-3-8b", "qlora", 32, 3e-4, 100, "cosine", 0.0, 0.01),
    ("axolotl-full", "llama-3-8b", "full", 8, 2e-5, 100, "cosine", 1.0, 0.0),
    ("axolotl-lora", "llama-3-8b", "lora", 8, 2e-4, 100, "cosine", 1.0, 0.0),
    ("axolotl-qlora", "llama-3-8b", "qlora", 8, 2e-4, 10, "cosine", 1.0, 0.0),
    ("llama-factory-full", "llama-3-8b", "full", 2, 1e-5, 100, "cosine", 1.0, 0.0),
    ("llama-factory-lora", "llama-3-8b", "lora", 8, 1e-4, 100, "cosine", 1.0, 0.0),
]
"""Example recipes of programs. A plan uses them only if the user names them."""


@pytest.mark.parametrize("case", [*FINE_TUNING, *NAMED], ids=lambda case: case[0])
def test_adapters_and_fine_tuning(case: tuple[Any, ...]) -> None:
    recipe, model, tuning, batch, rate, warmup, schedule, clipping, decay = case
    stated = Stated(training_recipe=recipe if case in NAMED else "")
    workload = text(model, batch, 2048, 1000, tuning=tuning, fine_tuning=True)
    known = known_for(workload, stated)
    assert (known.recipe.id, known.recipe.batch) == (recipe, batch)
    settings = settings_of(workload, stated)
    optimization = settings.optimization
    assert (settings.rate.value, settings.warmup.value) == (rate, warmup)
    assert (optimization.schedule, optimization.gradient_clipping) == (schedule, clipping)
    assert (optimization.weight_decay, optimization.beta2) == (decay, 0.999)
    assert settings.rate.because.startswith("borrowed from ")
    assert not settings.warnings


@pytest.mark.parametrize(("tuning", "recipe"), [("full", "full"), ("lora", "lora"), ("qlora", "qlora")])
def test_torchtune_takes_its_own_recipes(tuning: Any, recipe: str) -> None:
    workload = text("llama-3-8b", 8, tuning=tuning, fine_tuning=True)
    assert known_for(workload, NOTHING_STATED, ("torchtune",)).recipe.id == f"torchtune-{recipe}"


# --- encoders, and image models trained with AdamW, have recipes of their own, never GPT-3's


@pytest.mark.parametrize(
    ("model", "batch", "rate", "warmup", "beta2"),
    [
        ("bert-base", 256, 1e-4, 10_000, 0.999),
        ("bert-large", 256, 1e-4, 10_000, 0.999),
        ("roberta-base", 8192, 6e-4, 24_000, 0.98),
        ("roberta-large", 8192, 4e-4, 30_000, 0.98),
        ("megatron-bert-1.3b", 1024, 1e-4, 10_000, 0.999),
        ("megatron-bert-3.9b", 1024, 1e-4, 10_000, 0.999),
        ("t5-base", 512, 1e-4, 10_000, 0.999),
    ],
)
def test_encoders(model: str, batch: int, rate: float, warmup: int, beta2: float) -> None:
    workload = default_workload(find_model(model), CLUSTER, steps=LONG)
    assert workload.global_batch == batch
    assert workload.model.learning_rate_batch_tokens == batch * 512
    settings = settings_of(workload)
    assert (settings.rate.value, settings.warmup.value) == (rate, warmup)
    assert settings.optimization.beta2 == beta2
    assert settings.optimization.schedule == "linear"


def test_bert_clips_its_gradients() -> None:
    for model in ("bert-base", "bert-large"):
        assert settings_of(text(model, 256, 512)).optimization.gradient_clipping == 1.0


def test_no_encoder_borrows_from_gpt3() -> None:
    for model in ("electra-base", "deberta-v3-large", "distilbert-base", "bart-large", "mt5-xl"):
        assert "GPT-3" not in settings_of(text(model, 256, 512)).rate.because


@pytest.mark.parametrize(
    "case",
    [
        ("deit_base_patch16_224", 512, 5e-4, 5 * 1_281_167 / 512, 0.05, 0.0),
        ("deit_base_patch16_224", 1024, 1e-3, 5 * 1_281_167 / 1024, 0.05, 0.0),
        ("convnext_tiny", 4096, 4e-3, 5 * 1_281_167 / 4096, 0.05, 0.0),
        ("vit_base_patch16_224", 4096, 3e-3, 10_000, 0.3, 1.0),
    ],
)
def test_image_models_with_adamw(case: tuple[Any, ...]) -> None:
    model, batch, rate, warmup, decay, clipping = case
    settings = settings_of(images(model, batch, optimizer="adamw"))
    assert settings.rate.value == pytest.approx(rate)
    assert settings.warmup.value == pytest.approx(warmup, abs=1)
    assert (settings.optimization.weight_decay, settings.optimization.gradient_clipping) == (decay, clipping)


@pytest.mark.parametrize(
    ("model", "rate", "warmup", "final"),
    [
        ("llama-2-7b", 3e-4, 2000, 0.1),
        ("llama-2-70b", 1.5e-4, 2000, 0.1),
        ("llama-3.1-8b", 3e-4, 8000, 0.01),
        ("llama-3.1-405b", 8e-5, 8000, 0.01),
        ("tinyllama-1.1b", 4e-4, 2000, 0.1),
        ("deepseek-v3", 2.2e-4, 2000, 0.1),
        ("bloom-176b", 6e-5, 90, 0.1),
    ],
)
def test_decoders_have_their_own_recipe(model: str, rate: float, warmup: int, final: float) -> None:
    workload = default_workload(find_model(model), CLUSTER, steps=LONG)
    settings = settings_of(workload)
    assert (settings.rate.value, settings.warmup.value) == (rate, warmup)
    assert settings.optimization.final_share == final
    assert settings.rate.basis == "published"


# --- the rows


@pytest.mark.parametrize("recipe", load_training_recipes().values(), ids=lambda row: row.id)
def test_every_row_is_whole(recipe: Any) -> None:
    assert recipe.source
    assert recipe.date
    assert recipe.learning_rate > 0
    assert recipe.batch >= 1
    assert recipe.batch_tokens or recipe.kind == "images" or recipe.is_fine_tuning
    assert recipe.schedule != "constant" or recipe.final_share == 1.0
    assert (recipe.schedule == "wsd") == (recipe.decay_share > 0)
    for model in recipe.models:
        row = find_vision_model(model) if recipe.kind == "images" else find_model(model)
        assert row is not None


def test_rates_of_models_and_of_recipes_agree() -> None:
    for recipe in load_training_recipes().values():
        if recipe.kind == "decoder" and not recipe.is_fine_tuning:
            for model in map(find_model, recipe.models):
                stated = model.learning_rate, model.learning_rate_batch_tokens
                assert stated == (recipe.learning_rate, recipe.batch_tokens), model.id


FIGURES = (
    *("learning_rate", "batch", "largest_batch", "warmup", "longest_warmup", "final_share", "decay_share"),
    *("beta1", "beta2", "weight_decay", "gradient_clipping", "ramp_from", "ramp_low", "ramp_high"),
    *("parameters", "sequence_length"),
)


@pytest.mark.parametrize("recipe", load_training_recipes().values(), ids=lambda row: row.id)
def test_every_figure_of_a_row_reaches_the_settings(recipe: TrainingRecipe) -> None:
    """A job gets other settings, or another recipe, if a figure of a row is twice as large."""
    rows, before = load_training_recipes(), _answers(recipe)
    unstated = {field.name: field.default for field in msgspec.structs.fields(TrainingRecipe)}
    for field in FIGURES:
        value = getattr(recipe, field)
        # The size of a model decides only between several recipes.
        if value != unstated[field] and (field != "parameters" or len(_rivals(recipe)) > 1) and value:
            try:
                rows[recipe.id] = msgspec.structs.replace(recipe, **{field: 2 * value})
                assert _answers(rows[recipe.id]) != before, field
            finally:
                rows[recipe.id] = recipe


def _answers(recipe: TrainingRecipe) -> list[Any]:
    """Return the settings of jobs that use every figure of a row, and the recipe chosen by model size."""
    stated = Stated(training_recipe=recipe.id)
    jobs = [(7, 10**9, None), (10**7, 10**9, None), (7, 20, None)]
    if published := load_training_recipes()[recipe.id].ramp_high:
        jobs += [(10**6, 10**6, tokens) for tokens in (3.9e9, 1.1 * published, 1e15)]
        jobs += [(10**6, 10**6, 1.1 * RAMPS[recipe.id])]
    answers: list[Any] = [
        recipe.batch_tokens,
        [nearest(_rivals(recipe), 1.1**power).id for power in range(150, 300)],
    ]
    for batch, steps, tokens in jobs:
        settings = settings_of(_job(recipe, batch, steps), msgspec.structs.replace(stated, tokens=tokens))
        values = msgspec.structs.astuple(settings.optimization)
        answers.append((settings.rate.value, settings.warmup.value, values))
    return answers


RAMPS = {row.id: row.ramp_high for row in load_training_recipes().values()}
"""Published tokens after which each batch is full, as they are before a test changes them."""


def _rivals(recipe: TrainingRecipe) -> list[TrainingRecipe]:
    rows = load_training_recipes().values()
    others = [row for row in rows if row.kind == recipe.kind and row.tuning == recipe.tuning]
    return [row for row in others if row.is_fine_tuning == recipe.is_fine_tuning]


def _job(recipe: TrainingRecipe, batch: int, steps: int) -> AnyWorkload:
    if recipe.kind == "images":
        return images("resnet50", batch, steps, optimizer=recipe.optimizer)
    model = {"encoder": "bert-base", "encoder-decoder": "t5-base"}.get(recipe.kind, "gpt2")
    task: dict[str, Any] = {"tuning": recipe.tuning, "fine_tuning": recipe.is_fine_tuning}
    return text(model, batch, 512, steps, optimizer=recipe.optimizer, **task)
