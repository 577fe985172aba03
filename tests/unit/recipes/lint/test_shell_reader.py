"""Shell and batch scripts: settings with the programs that get them, and commands with their place."""

from __future__ import annotations

import textwrap

import pytest

from recipes.lint.document import Command, Document, Setting
from recipes.lint.reading import read_document


def read(text: str, name: str = "job.sh") -> Document:
    document = read_document(name, textwrap.dedent(text).lstrip("\n"))
    assert document is not None
    return document


def setting(document: Document, name: str) -> Setting:
    (match,) = [setting for setting in document.settings if setting.name == name]
    return match


def command(document: Document, program: str) -> Command:
    (match,) = [command for command in document.commands if command.program == program]
    return match


def written_at(document: Document, place: object) -> str:
    line = document.text.split("\n")[place.line - 1]
    return line[place.column - 1 : place.end_column - 1]


def test_settings_have_a_place_and_a_reach() -> None:
    document = read(
        """
        A=1
        export B="two  words" C=3  # comment
        D=4 python train.py
        """
    )
    a, b, c, d = (setting(document, name) for name in "ABCD")
    assert (a.value, a.is_exported) == ("1", False)
    assert (b.value, b.written, b.is_exported, b.reaches) == ("two  words", '"two  words"', True, "node")
    assert written_at(document, b.place) == 'B="two  words"'
    assert written_at(document, c.value_place) == "3"
    assert (d.reaches, d.value) == ("command", "4")
    assert command(document, "train.py").settings == (d,)


def test_a_variable_exported_later_is_exported() -> None:
    document = read("A=1\nexport A\nset -a\nB=2\nset +a\nC=3\n")
    assert [setting(document, name).is_exported for name in "ABC"] == [True, True, False]


def test_unset_and_unknown_are_different() -> None:
    document = read("unset A\nexport B=$(hostname)\nexport C=${D:-1}\n")
    assert (setting(document, "A").value, setting(document, "A").is_literal) == (None, True)
    assert [(setting(document, name).value, setting(document, name).is_literal) for name in "BC"] == [
        (None, False)
    ] * 2


def test_certain_variables_of_the_script_are_filled_in() -> None:
    document = read(
        """
        NODES=2
        if [ -n "$X" ]; then PORT=1; else PORT=2; fi
        torchrun --nnodes=$NODES --master_port ${PORT} --node-rank $RANK train.py
        """
    )
    options = command(document, "torchrun").options
    assert options == {"nnodes": "2", "master-port": "${PORT}", "node-rank": "$RANK"}
    assert [argument.is_literal for argument in command(document, "torchrun").arguments] == [
        True,
        True,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "script",
    [
        'ARGS="--nnodes 2 --standalone"\ntorchrun $ARGS train.py --lr 1\n',
        'ARGS=(--nnodes 2)\nARGS+=(--standalone)\ntorchrun "${ARGS[@]}" train.py --lr 1\n',
        'ARGS="--nnodes 2"\nARGS="$ARGS --standalone"\nCMD="torchrun $ARGS"\n$CMD train.py --lr 1\n',
        "torchrun --nnodes 2 \\\n  --standalone \\\n  train.py --lr 1\n",
        'eval "torchrun --nnodes 2 --standalone train.py --lr 1"\n',
        'bash -c "torchrun --nnodes 2 --standalone train.py --lr 1"\n',
        "cat > run.sh <<'EOF'\ntorchrun --nnodes 2 --standalone train.py --lr 1\nEOF\n",
        "ssh -p 22 node1 'cd x && torchrun --nnodes 2 --standalone train.py --lr 1'\n",
        "main() {\n  torchrun --nnodes 2 --standalone train.py --lr 1 2>&1 | tee log\n}\nmain\n",
        "case $X in\n a|b) torchrun --nnodes 2 --standalone train.py --lr 1 ;;\nesac\n",
        "python3 -u -m torch.distributed.run --nnodes 2 --standalone train.py --lr 1\n",
        "env -u A B=1 nohup torchrun --nnodes 2 --standalone train.py --lr 1 &\n",
        "sbatch --wrap='torchrun --nnodes 2 --standalone train.py --lr 1'\n",
        "bash <<EOF\ntorchrun --nnodes 2 --standalone train.py --lr 1\nEOF\n",
        "apptainer exec --nv -B /a:/b image.sif torchrun --nnodes 2 --standalone train.py --lr 1\n",
    ],
)
def test_a_launcher_is_found_inside_other_commands(script: str) -> None:
    document = read(script)
    assert command(document, "torchrun").options == {"nnodes": "2", "standalone": "true"}
    assert command(document, "train.py").options == {"lr": "1"}
    assert command(document, "train.py").inside[-1] == "torchrun"


def test_launchers_are_unwrapped() -> None:
    document = read(
        """
        srun -N2 --ntasks-per-node=1 --container-image=a.sqsh \\
          bash -c 'A=1 accelerate launch --multi_gpu --num_processes 16 a.py'
        mpirun -np 16 -H a:8,b:8 -x NCCL_DEBUG=INFO -x PATH --mca btl tcp,self -bind-to none \\
          ./all_reduce_perf -b 8
        docker run -it --gpus all -e X=1 --ipc=host image:1 \\
          deepspeed --hostfile h train2.py --deepspeed ds.json
        """
    )
    assert command(document, "srun").options == {
        "nodes": "2",
        "ntasks-per-node": "1",
        "container-image": "a.sqsh",
    }
    launch = command(document, "accelerate")
    assert launch.inside == ("srun", "bash")
    assert launch.in_single_quotes
    assert launch.options == {"multi-gpu": "true", "num-processes": "16"}
    assert [setting.name for setting in launch.settings] == ["A"]
    mpirun = command(document, "mpirun").options
    assert (mpirun["np"], mpirun["bind-to"], mpirun["mca"]) == ("16", "none", "btl=tcp,self")
    assert mpirun["x"].split("\n") == ["NCCL_DEBUG=INFO", "PATH"]
    assert setting(document, "NCCL_DEBUG").value == "INFO"
    assert command(document, "all_reduce_perf").inside == ("mpirun",)
    assert command(document, "docker").options["ipc"] == "host"
    assert command(document, "train2.py").inside == ("docker", "deepspeed")
    assert command(document, "train2.py").options == {"deepspeed": "ds.json"}


@pytest.mark.parametrize(
    ("script", "single"),
    [
        ("srun bash -c 'torchrun --node-rank $SLURM_PROCID a.py'", True),
        ('srun bash -c "torchrun --node-rank $SLURM_PROCID a.py"', False),
        ('srun bash -c "torchrun --node-rank \\$SLURM_PROCID --master-addr $HEAD a.py"', True),
        ("srun torchrun --node-rank $SLURM_PROCID a.py", False),
        ('L="torchrun --node-rank \\$SLURM_PROCID a.py"\nsrun bash -c "$L"', True),
        ('L="torchrun --node-rank $SLURM_PROCID a.py"\nsrun bash -c "$L"', False),
        ("cat > r.sh <<'E'\ntorchrun --node-rank $SLURM_PROCID a.py\nE\n", True),
    ],
)
def test_variables_that_differ_between_nodes_expand_on_the_node(script: str, single: bool) -> None:
    launch = command(read(script), "torchrun")
    assert launch.options["node-rank"] == "$SLURM_PROCID"
    assert launch.in_single_quotes is single


def test_directives() -> None:
    document = read(
        """
        #!/bin/bash
        #SBATCH --nodes=2 --exclusive  # two of them
        #SBATCH -c 8
        ##SBATCH --mem=1
        #SBATCH --export=ALL,NCCL_DEBUG=WARN
        srun hostname
        #SBATCH --time 10
        """,
        "train.sh",
    )
    assert document.kind == "sbatch"
    directives = [
        (directive.name, directive.value, directive.place.line, directive.is_read)
        for directive in document.directives
    ]
    assert directives == [
        ("nodes", "2", 2, True),
        ("exclusive", "", 2, True),
        ("cpus-per-task", "8", 3, True),
        ("export", "ALL,NCCL_DEBUG=WARN", 5, True),
        ("time", "10", 7, False),
    ]
    assert setting(document, "NCCL_DEBUG").reaches == "all"
    assert written_at(document, document.directives[0].place) == "--nodes=2"


def test_branches_are_conditional() -> None:
    document = read(
        "if x; then\n export A=1\n torchrun a.py\nfi\nexport B=1\n[ -z $C ] && export C=1\nexport D=1\n"
    )
    assert [setting(document, name).is_conditional for name in "ABCD"] == [True, False, True, False]
    assert command(document, "torchrun").is_conditional


def test_places_in_nested_scripts_refer_to_the_file() -> None:
    document = read("srun bash -c '\n  export A=1\n  torchrun a.py\n'\n")
    assert (setting(document, "A").place.line, setting(document, "A").place.column) == (2, 10)
    assert command(document, "torchrun").place.line == 3


def test_variables_that_multiply_do_not_run_forever() -> None:
    script = (
        "".join(f'A{number}="$A{number + 1}$A{number + 1}$A{number + 1}"\n' for number in range(100))
        + "torchrun $A0\n"
    )
    assert read(script).commands
