"""Test options of an import: they take precedence over the files, and reach the arguments of the program."""

from __future__ import annotations

import pytest

from assistant.cli.import_command import import_command
from probes.base.errors import InputError
from recipes.launch.imports.adopted import IMPORT_OPTIONS
from recipes.launch.recipe import program_arguments
from tests.support.imported_launch import imported, kept, stated

SIZES = {"model": "llama-3.2-1b", "strategy": "fsdp", "sequence_length": 2048, "steps": 10}
MEGATRON = (
    "torchrun --nproc-per-node 8 pretrain_gpt.py --fp8-format hybrid --bf16 --micro-batch-size 1 "
    "--global-batch-size 64 --seq-length 4096 --lr 3e-4 --train-iters 1000"
)


@pytest.mark.parametrize("option", sorted(set(IMPORT_OPTIONS.values())))
def test_each_option_of_the_table_is_an_option_of_the_command(option):
    assert option.split()[0] in {name for parameter in import_command.params for name in parameter.opts}


def test_the_statement_of_an_option_is_written_as_the_user_gave_it():
    (given,) = (each for each in imported(("a.sh", MEGATRON), strategy="zero1").settings if each.line == 0)
    assert (given.setting, given.value, given.written) == ("sharding", "zero1", "--strategy zero1")


@pytest.mark.parametrize(("first", "second"), [(4, 2), (2, 4)])
def test_an_option_decides_a_contradiction_in_any_order(first, second):
    text = f"#SBATCH --nodes={first}\nsrun torchrun --nnodes {second} --nproc-per-node 8 t.py"
    answer = imported(("a.sbatch", text), nodes=2)
    assert stated(answer)["nodes"] == "2"
    assert ("#SBATCH --nodes=4" if first == 4 else "--nnodes 4") in kept(answer)


@pytest.mark.parametrize(
    ("text", "config", "option"),
    [
        ("--per_device_train_batch_size 2", '"train_micro_batch_size_per_gpu": 4', "--micro-batch SEQUENCES"),
        ("--weight_decay 0.2", '"optimizer": {"params": {"weight_decay": 0.1}}', ""),
    ],
)
def test_a_contradiction_names_the_option_that_decides_it_if_there_is_one(text, config, option):
    files = (
        ("a.sh", f"deepspeed t.py {text}"),
        ("ds_config.json", f'{{{config}, "zero_optimization": {{}}}}'),
    )
    with pytest.raises(InputError, match="contradict") as error:
        imported(*files)
    ending = f", or decide with {option} of `rigtune import`" if option else ""
    assert error.value.hint == f"remove the one that is wrong{ending}"


def test_options_of_nodes_and_ranks_decide_over_the_number_of_processes():
    sizes = {**SIZES, "micro_batch": 1, "grad_accum": 1, "learning_rate": 1e-4}
    answer = imported(("a.sh", "mpirun -np 16 python t.py"), nodes=4, ranks_per_node=8, **sizes)
    assert answer.recipe is not None
    assert answer.recipe.parallelism.world_size == 32
    with pytest.raises(InputError, match="contradict each other about the ranks"):
        imported(("a.sh", "mpirun -np 16 python t.py"), nodes=3, **sizes)


@pytest.mark.parametrize(("options", "precision"), [({}, "fp8"), ({"precision": "bf16"}, "bf16")])
def test_the_option_of_the_precision_decides_over_a_narrow_format(options, precision):
    recipe = imported(("a.sh", MEGATRON), model="llama-3-8b", **options).recipe
    assert recipe is not None
    assert recipe.parallelism.precision == precision
    ignored = [note for note in recipe.notes if "stays as it is written, although" in note]
    assert [note.split()[1] for note in ignored] == (["--fp8-format"] if options else [])


@pytest.mark.parametrize(("in_file", "given"), [("1e-4", 1e-4), ("2e-4", 1e-4)])
def test_a_value_given_as_an_option_reaches_the_program(in_file, given):
    text = f"torchrun --nproc-per-node 8 train.py --lr {in_file} --peak 2e-4"
    recipe = imported(("a.sh", text), **SIZES, micro_batch=4, grad_accum=1, learning_rate=given).recipe
    assert recipe is not None
    assert recipe.command.arguments == ("--lr", "{learning_rate}", "--peak", "2e-4")
    assert program_arguments(recipe) == ("--lr", "0.0001", "--peak", "2e-4")


BATCHES = {  # options, accumulation steps, the arguments after the import; 4 sequences on each of 8 ranks
    "the micro-batch": ("--batch 4 --workers 4", 2, "--batch {micro_batch} --workers 4", ""),
    "with an equals sign": ("--train-batch-size=4", 2, "--train-batch-size={micro_batch}", ""),
    "the global batch": ("--batch_size 64", 2, "--batch_size {global_batch}", ""),
    "the batch of a rank": ("--bs 8", 2, "--bs 8", "8 can be the batch of a rank:"),
    "one of two": ("--bs 4", 1, "--bs 4", "4 can be micro_batch or the batch of a rank:"),
    "two options": ("--bs 4 --batch 4", 2, "--bs 4 --batch 4", "4 can be micro_batch, and another option"),
    "another number": ("--batch 5", 2, "--batch 5", "5 is no batch of the recipe:"),
    "no number": ("--batch auto", 2, "--batch auto", "auto is no batch of the recipe:"),
    "another name": ("--eval-batch-size 4", 2, "--eval-batch-size 4", ""),
}


@pytest.mark.parametrize("name", BATCHES)
def test_an_option_for_a_batch_is_identified_by_its_value_or_named_as_plain_text(name):
    written, accumulated, expected, note = BATCHES[name]
    text = f"torchrun --nproc-per-node 8 train.py {written}"
    answer = imported(("a.sh", text), **SIZES, micro_batch=4, grad_accum=accumulated, learning_rate=1e-4)
    assert answer.recipe is not None
    assert answer.recipe.command.arguments == tuple(expected.split())
    notes = [each for each in answer.notes if "stays as it is written" in each]
    assert [note in each and "(a.sh:1)" in each for each in notes] == [True] * (len(notes) if note else 0)
    assert bool(notes) is bool(note)
    assert [f"Warning: {each}" for each in notes] == list(answer.recipe.notes)
    assert stated(answer)["micro_batch"] == "4"
