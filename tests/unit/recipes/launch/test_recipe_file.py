"""Test that a dumped recipe.toml loads again, and that mistakes of a person are reported."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import InputError
from recipes.launch.recipe import (
    Command,
    Convergence,
    Environment,
    ModelShape,
    Parallelism,
    Prediction,
    Recipe,
    Resources,
)
from recipes.launch.recipe_file import dump_recipe, faults, load_recipe

counts = st.integers(1, 10**9)
rates = st.floats(1e-12, 1e12)
one_line = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=40)
prose = st.text(
    st.characters(
        exclude_categories=("Cs", "Cc"), include_characters="\n\t\r", exclude_characters="\u2028\u2029"
    )
)
names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,40}\Z")
variables = st.from_regex(r"\A[A-Z][A-Z_0-9]{0,20}_X\Z")
plain_arguments = one_line.map(lambda text: text.replace("{", "{{").replace("}", "}}"))
predictions = st.builds(
    Prediction,
    **{name: st.none() | st.just(0.0) | st.floats(1e-12, 1e18) for name in Prediction.__struct_fields__},
)
environments = st.lists(
    st.builds(Environment, name=variables, value=one_line, why=prose, source=prose),
    unique_by=lambda entry: entry.name,
    max_size=3,
)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    kv_heads, groups = draw(counts), draw(st.integers(1, 64))
    sequence_length = draw(counts)
    flags = {name: draw(st.booleans()) for name in ("gated_mlp", "tied_embeddings", "bias", "qkv_bias")}
    sizes = {name: draw(counts) for name in ("layers", "hidden", "head_dim", "ffn_hidden", "vocab")}
    nodes, ranks, micro_batch, grad_accum = (draw(st.integers(1, 1000)) for _ in range(4))
    hosts = draw(st.just(()) | st.just(tuple(f"node{index}.cluster" for index in range(nodes))))
    kind = draw(st.sampled_from(("reference", "script", "module")))
    targets = {"reference": st.just(""), "script": one_line.filter(bool), "module": st.just("pkg.train_it")}
    device, backend = draw(st.sampled_from((("cuda", "nccl"), ("cuda", "gloo"), ("cpu", "gloo"))))
    return Recipe(
        name=draw(names),
        title=draw(prose),
        model=ModelShape(
            id=draw(one_line),
            heads=kv_heads * groups,
            kv_heads=kv_heads,
            learned_positions=draw(st.just(0) | st.just(sequence_length)),
            norm=draw(st.sampled_from(("rmsnorm", "layernorm"))),
            sequence_length=sequence_length,
            **flags,
            **sizes,
        ),
        parallelism=Parallelism(
            strategy=draw(st.sampled_from(("ddp", "fsdp"))),
            nodes=nodes,
            ranks_per_node=ranks,
            micro_batch=micro_batch,
            grad_accum=grad_accum,
            global_batch=nodes * ranks * micro_batch * grad_accum,
        ),
        convergence=Convergence(
            learning_rate=draw(rates), warmup_steps=draw(st.integers(0, 10**9)), steps=draw(counts)
        ),
        resources=Resources(
            device=device,
            backend=backend,
            device_name=draw(prose),
            python=draw(one_line.filter(lambda text: not text.startswith("-"))),
            cpus_per_node=draw(st.none() | counts),
            hosts=hosts,
        ),
        command=Command(
            kind=kind,
            target=draw(targets[kind]),
            arguments=tuple(draw(st.lists(plain_arguments, max_size=3))),
            working_directory=draw(one_line),
        ),
        environment=tuple(draw(environments)),
        predicted=draw(predictions),
        notes=tuple(draw(st.lists(prose, max_size=3))),
    )


@given(recipe=recipes())
def test_a_dumped_recipe_loads_as_the_same_recipe(recipe):
    assert load_recipe(dump_recipe(recipe), "recipe.toml") == recipe


@given(text=st.text())
def test_a_text_that_is_no_recipe_is_an_error_that_names_the_file(text):
    with pytest.raises(InputError, match=r"^recipe\.toml"):
        load_recipe(text, "recipe.toml")


def edited(make_recipe, old: str, new: str) -> str:
    text = dump_recipe(make_recipe())
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("micro_batch = 2", "micro_batch = ", "not valid TOML.*line", "quotes"),
        (
            "micro_batch = 2",
            "micro_bach = 2",
            r"parallelism\.micro_bach: there is no such field",
            "did you mean micro_batch",
        ),
        ('name = "mini"', "nodes = 3", "nodes: there is no such field", "did you mean notes"),
        ("micro_batch = 2", "zzz = 2", r"parallelism\.zzz", "fields here: strategy, nodes"),
        (
            "micro_batch = 2",
            'micro_batch = "2"',
            r"parallelism\.micro_batch: Expected `int`",
            "a value of that type",
        ),
        (
            "micro_batch = 2",
            "micro_batch = 2.5",
            r"parallelism\.micro_batch: Expected `int`",
            "a value of that type",
        ),
        ("micro_batch = 2\n", "", "parallelism: .*missing required field `micro_batch`", "rigtune plan"),
        (
            "micro_batch = 2",
            "micro_batch = 3",
            r"parallelism\.global_batch: is 8, but micro_batch 3 x grad_accum 2",
            "keep it",
        ),
        ("micro_batch = 2", "micro_batch = -2", r"parallelism\.micro_batch: is -2", "more than 0"),
        ("learning_rate = 0.003", "learning_rate = 1e308", r"learning_rate: is 1e\+308", r"1e-30 to 1e\+30"),
        ("learning_rate = 0.003", "learning_rate = 1e-320", "learning_rate: is 1e-320", "1e-30"),
        ("learning_rate = 0.003", "learning_rate = nan", r"convergence\.learning_rate: is nan", "finite"),
        ("learning_rate = 0.003", "learning_rate = inf", r"convergence\.learning_rate: is inf", "finite"),
        ("warmup_steps = 2", "warmup_steps = -1", r"convergence\.warmup_steps: is -1", "0 or more"),
        (
            "schema_version = 1",
            "schema_version = 2",
            "schema_version is 2, this rigtune reads up to 1",
            "update",
        ),
        ("schema_version = 1", "schema_version = -1", "schema_version: is -1", "finite"),
        ('name = "mini"', 'name = "a b"', "name: 'a b' is not a job name", "letters"),
        ('name = "mini"', 'name = "a\\nb"', "name: contains a line break", "one line"),
        (
            'title = "rigtune-mini on a CPU"',
            'title = "a\\u0000"',
            "title: contains a line break or control",
            "one line",
        ),
        ('title = "rigtune-mini on a CPU"', 'title = "a\\u202e"', "title: contains", "text direction"),
        (
            'strategy = "ddp"',
            'strategy = "zero9"',
            r"parallelism\.strategy: 'zero9' does not exist",
            "ddp, zero1, zero2, fsdp, hsdp",
        ),
        (
            'precision = "fp32"',
            'precision = "fp12"',
            r"parallelism\.precision: Invalid enum value 'fp12'",
            "one of: bf16, fp16, fp32, tf32, fp8",
        ),
        ("tp = 1", "tp = 0", r"parallelism\.tp: is 0", "more than 0"),
        ("tp = 1", "tp = 3", r"parallelism\.dp: dp 1 x fsdp 1 x tp 3 .*ranks_per_node 2 = 2", "change dp"),
        ("tp = 1", "tp = 2", r"parallelism\.global_batch: is 8, but micro_batch 2 .*= 4", "keep it"),
        ("tp = 1", "tp = 1\nfsdp = 2", r"parallelism\.fsdp: is 2, but ddp", "fsdp = 1"),
        ('strategy = "ddp"', 'strategy = "hsdp"', r"parallelism\.fsdp: is 2 with dp 1", "'fsdp'"),
        ('strategy = "ddp"', 'strategy = "fsdp"\ndp = 2', r"parallelism\.dp: is 2, but fsdp", "'hsdp'"),
        ("vp = 1", "vp = 2", r"parallelism\.vp: is 2 without a pipeline", "vp = 1"),
        ("recomputed_share = 1.0", "recomputed_share = 1.5", r"recomputed_share: is 1\.5", "at most 1"),
        ('program = "own"', 'program = "owl"', "program: there is no program 'owl'", "megatron"),
        ('tuning = "full"', 'tuning = "half"', r"job\.tuning: Invalid enum value 'half'", "qlora"),
        ('backend = "gloo"', 'backend = "nccl"', r"resources\.backend: is nccl", "gloo"),
        ('partition = ""', 'partition = "a b"', r"resources\.partition: 'a b' is not", "gpu"),
        ('account = ""', 'account = "x#SBATCH"', r"resources\.account", "gpu"),
        ('time_limit = ""', 'time_limit = "one day"', r"resources\.time_limit: 'one day'", "24:00:00"),
        ('python = ""', 'python = "-c"', r"resources\.python: '-c' is not an interpreter", "path"),
        ("hosts = []", 'hosts = ["a", "b"]', r"resources\.hosts: has 2 hosts", "per node"),
        ("hosts = []", 'hosts = ["-oProxyCommand=x"]', r"resources\.hosts\[0\]", "host name"),
        ("kv_heads = 2", "kv_heads = 3", r"model\.kv_heads: is 3", "divisor"),
        (
            "learned_positions = 0",
            "learned_positions = 8",
            r"model\.sequence_length: is 32",
            "position table",
        ),
        ('kind = "reference"', 'kind = "script"', r"command\.target: is missing", "path"),
        ('kind = "reference"', 'kind = "module"', r"command\.target: '' is not a module", "dotted"),
        ('target = ""', 'target = "x.py"', r"command\.target: is given, but kind is 'reference'", "script"),
        (
            "arguments = []",
            'arguments = ["{micro}"]',
            r"command\.arguments\[0\]: .*no placeholder \{micro\}",
            r"\{micro_batch\}",
        ),
        ("arguments = []", 'arguments = ["a{"]', r"command\.arguments\[0\]: .*no partner", r"\{\{"),
        (
            "arguments = []",
            'arguments = ["a\\nb"]',
            r"command\.arguments\[0\]: contains a line break",
            "one line",
        ),
        (
            "environment = []",
            "environment = [{}]",
            r"environment\[0\]: .*missing required field `name`",
            "rigtune plan",
        ),
        ("environment = []", "environment = 3", "environment: Expected `array`", "a value of that type"),
    ],
)
def test_a_fault_is_named_with_its_place_and_remedy(make_recipe, old, new, message, hint):
    with pytest.raises(InputError, match=rf"(?s)^my/recipe\.toml.*{message}") as caught:
        load_recipe(edited(make_recipe, old, new), "my/recipe.toml")
    assert hint.replace("\\", "") in caught.value.hint


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("A B", "not a variable name"),
        ("A;reboot", "not a variable name"),
        ("", "not a variable name"),
        ("WORLD_SIZE", "set by the launch script"),
        ("UID", "belongs to the launch script or its shell"),
        ("python", "belongs to the launch script or its shell"),
        # These change how bash splits words, changes folders or starts.
        ("IFS", "belongs to the launch script or its shell"),
        ("CDPATH", "belongs to the launch script or its shell"),
        ("BASH_ENV", "belongs to the launch script or its shell"),
    ],
)
def test_variables_that_no_script_can_set_are_refused(make_recipe, name, problem):
    recipe = make_recipe(environment=(Environment(name=name, value="1", why="", source=""),))
    with pytest.raises(InputError, match=rf"environment\[0\]\.name: .*{problem}"):
        load_recipe(dump_recipe(recipe), "recipe.toml")


@pytest.mark.parametrize("value", ["x" * 131_070, "é" * 65_535])
def test_a_value_that_linux_gives_to_no_program_is_refused(make_recipe, value):
    """The limit is 131 072 bytes, including the name, the equals sign and the terminating NUL byte."""
    (fault,) = faults(make_recipe(environment=(Environment(name="A", value=value, why="", source=""),)))
    assert fault.place == "environment[0].value"
    assert "131073 bytes" in fault.problem
    fits = Environment(name="A", value="x" * 131_069, why="", source="")
    assert not list(faults(make_recipe(environment=(fits,))))


def test_a_variable_appears_once(make_recipe):
    entry = Environment(name="A", value="1", why="", source="")
    assert [fault.place for fault in faults(make_recipe(environment=(entry, entry)))] == [
        "environment[1].name"
    ]


@pytest.mark.parametrize("field", ["title", "notes"])
def test_text_for_people_may_have_several_lines(make_recipe, field):
    recipe = make_recipe(**{field: "one\ntwo" if field == "title" else ("one\ntwo",)})
    assert not list(faults(recipe))


@pytest.mark.parametrize("text", ["\x00", "\x1b[31m", "\x7f", "\u2028"])
def test_control_characters_are_refused_even_in_text_for_people(make_recipe, text):
    assert [fault.place for fault in faults(make_recipe(notes=(text,)))] == ["notes[0]"]


def test_text_that_is_not_utf8_is_refused(make_recipe):
    recipe = make_recipe(title="caf\udce9")
    assert [fault.problem for fault in faults(recipe)] == ["is not valid UTF-8"]


def test_deep_nesting_is_an_error_of_the_file():
    with pytest.raises(InputError, match="not valid TOML"):
        load_recipe("a = " + "[" * 100_000, "recipe.toml")


def test_the_file_has_a_header_and_no_unknown_predictions(make_recipe):
    text = dump_recipe(make_recipe(predicted=Prediction(step_time_s=1.5)))
    assert text.startswith("# A training recipe of rigtune")
    assert "step_time_s = 1.5" in text
    assert "mfu" not in text
    assert "cpus_per_node" not in text
    order = [
        text.index(f"[{name}]")
        for name in ("model", "parallelism", "convergence", "resources", "command", "predicted")
    ]
    assert order == sorted(order)


def test_comments_blanks_and_the_form_of_numbers_do_not_change_the_recipe(make_recipe):
    recipe = make_recipe()
    text = (
        dump_recipe(recipe)
        .replace(" = ", "=")
        .replace("steps=20", "steps=20 # a short run")
        .replace("0.003", "3e-3")
    )
    assert load_recipe(text, "recipe.toml") == recipe
    assert msgspec.to_builtins(load_recipe(text, "recipe.toml")) == msgspec.to_builtins(recipe)
