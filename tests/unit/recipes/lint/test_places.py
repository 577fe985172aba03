"""Places of settings, commands, requests and values: the text between their columns."""

from __future__ import annotations

import pytest

from recipes.lint.document import Document, DocumentKind, Place
from recipes.lint.reading import read_document


def _cut(document: Document, place: Place | None) -> str | None:
    """Return the text at a place; None without a place."""
    if place is None:
        return None
    lines = document.text.split("\n")
    last = place.end_line or place.line
    assert place.end_column is not None
    if last == place.line:
        return lines[last - 1][place.column - 1 : place.end_column - 1]
    first = lines[place.line - 1][place.column - 1 :]
    return "\n".join((first, *lines[place.line : last - 1], lines[last - 1][: place.end_column - 1]))


def _read(kind: DocumentKind, text: str) -> Document:
    document = read_document("file", text, kind)
    assert document is not None
    return document


@pytest.mark.parametrize(
    ("kind", "text", "settings"),
    [
        ("dotenv", "# c\nA=1 # comment\n", [("A=1", "1", "1")]),
        ("dotenv", 'export B="x y"  # c\n', [('B="x y"', '"x y"', "x y")]),
        ("dotenv", "C='$A'\nD=$A \nE=\n", [("C='$A'", "'$A'", "$A"), ("D=$A", "$A", None), ("E=", "", "")]),
        (
            "environment",
            "A=1\n0=z\nB=x y\nC=\n",
            [("A=1", "1", "1"), ("B=x y", "x y", "x y"), ("C=", "", "")],
        ),
        (
            "nccl-conf",
            "# c\nNCCL_DEBUG=WARN # no\n NCCL_X = 1\n",
            [("NCCL_DEBUG=WARN # no", "WARN # no", "WARN # no"), (" NCCL_X = 1", " 1", " 1")],
        ),
        ("shell", 'export A="x y" B=1\n', [('A="x y"', '"x y"', "x y"), ("B=1", "1", "1")]),
        ("shell", "env C=2 torchrun t.py\n", [("C=2", None, "2")]),
        (
            "dockerfile",
            'FROM a\nENV A=1 \\\n  B="x y"\nENV OLD one two\nRUN C=1 make\n',
            [
                ("A=1", "1", "1"),
                ('B="x y"', '"x y"', "x y"),
                ("OLD", "one two", "one two"),
                ("C=1", "1", "1"),
            ],
        ),
        (
            "python",
            'import os\nos.environ["A"] = "é1"; environ["B"] = "2"\nother["C"] = environs["C"] = "3"\n'
            'x.environ["D"] = f(1)\nos.environ.update(E="5")\n',
            [
                ('"A"', '"é1"', "é1"),
                ('"B"', '"2"', "2"),
                ('"D"', "f(1)", None),
                ('E="5"', '"5"', "5"),
            ],
        ),
        (
            "kubernetes",
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      env:\n        - name: A\n"
            '          value: "1"\n        - {name: B, value: x}\n',
            [("A", '"1"', "1"), ("B", "x", "x")],
        ),
        (
            "compose",
            'services:\n  a:\n    environment:\n      A: "1"\n      B: 2\n',
            [("A", '"1"', "1"), ("B", "2", "2")],
        ),
    ],
)
def test_settings_lie_where_they_are_written(
    kind: DocumentKind, text: str, settings: list[tuple[str, str | None, str | None]]
):
    document = _read(kind, text)
    given = [
        (_cut(document, item.place), _cut(document, item.value_place), item.value) for item in document.given
    ]
    assert given == settings


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (
            "shell",
            '  D=3 mpirun -np 8 -x E=4 ./a "b c"\n',
            [("mpirun", "-np", "8", "-x", "E=4"), ("./a", '"b c"')],
        ),
        (
            "shell",
            "env C=2 torchrun --nnodes=2 t.py -x\n",
            [("env", "C=2"), ("torchrun", "--nnodes=2"), ("t.py", "-x")],
        ),
        (
            "dockerfile",
            'FROM a\nCMD [ "torchrun","--nnodes=2",  "a b.py", "--x=1"]\n',
            [('"torchrun"', '"--nnodes=2"'), ('"a b.py"', '"--x=1"')],
        ),
        (
            "kubernetes",
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n"
            "      command: [torchrun, \"--nnodes=2\", 't.py']\n      args:\n        - |\n          one\n"
            "          two\n",
            [("torchrun", '"--nnodes=2"'), ("'t.py'", "|\n          one\n          two")],
        ),
        (
            "compose",
            "services:\n  a:\n    command: torchrun --nnodes 2 t.py\n",
            [("torchrun", "--nnodes", "2"), ("t.py",)],
        ),
    ],
)
def test_commands_and_their_words_lie_where_they_are_written(
    kind: DocumentKind, text: str, words: list[tuple[str, ...]]
):
    document = _read(kind, text)
    assert [
        tuple(_cut(document, place) for place in (item.place, *(word.place for word in item.arguments)))
        for item in document.commands
    ] == words


def test_requests_lie_where_they_are_written():
    text = "#!/bin/bash\n#SBATCH --nodes=2 -c 4  # why\n#SBATCH -J  name\nsrun a.py\n#SBATCH -p x\n"
    document = _read("sbatch", text)
    assert [
        (item.name, item.value, _cut(document, item.place), item.is_read) for item in document.directives
    ] == [
        ("nodes", "2", "--nodes=2", True),
        ("cpus-per-task", "4", "-c 4", True),
        ("job-name", "name", "-J  name", True),
        ("partition", "x", "-p x", False),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        (
            "deepspeed",
            '{\n // c\n "a": "auto", "b": {"c": 3, "d": [1e-5, true]}\n}\n',
            {"a": '"auto"', "b.c": "3", "b.d[0]": "1e-5", "b.d[1]": "true"},
        ),
        (
            "accelerate",
            "num_processes: 16\nfsdp_config:\n  offload: false  # c\n  name: 'x'\n",
            {"num_processes": "16", "fsdp_config.offload": "false", "fsdp_config.name": "'x'"},
        ),
    ],
)
def test_values_lie_where_they_are_written(kind: DocumentKind, text: str, values: dict[str, str]):
    document = _read(kind, text)
    assert {entry.path: _cut(document, entry.place) for entry in document.entries} == values
