"""Test the sentence that states how much of the files was read."""

from __future__ import annotations

import pytest

from recipes.lint.understanding import Understood, in_words, understood
from tests.support.linting import read


def part(**counts: int) -> Understood:
    fields = ("commands", "settings", "requests", "keys", "values_of_run", "parts_not_read")
    return Understood(document="a.sh", kind="script", **{**dict.fromkeys(fields, 0), **counts})


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((part(),), "read: nothing"),
        ((part(commands=1, requests=2),), "read: 1 command, 2 requests"),
        ((part(keys=1), part(keys=1, settings=1)), "read: 1 variable, 2 keys"),
        ((part(settings=3, values_of_run=1),), "read: 3 variables; 1 value depends on the run"),
        (
            (part(settings=3, values_of_run=1), part(values_of_run=1)),
            "read: 3 variables; 2 values depend on the run",
        ),
        ((part(commands=1, parts_not_read=1),), "read: 1 command; 1 part could not be read"),
    ],
)
def test_the_counts_of_read_settings_are_put_into_words(parts: tuple[Understood, ...], words: str) -> None:
    assert in_words(parts) == words


def test_parts_of_a_script_are_counted() -> None:
    text = (
        "#!/bin/bash\n#SBATCH --nodes=2 -c 4\nexport A=$1 B=$2 C=3\nsrun torchrun train.py $1 $2 $3 --lr 1\n"
    )
    counts = understood(read("a.sbatch", text))
    assert (counts.commands, counts.settings, counts.requests, counts.keys) == (3, 3, 2, 0)
    assert (counts.values_of_run, counts.parts_not_read) == (5, 0)


def test_parts_that_cannot_be_read_are_counted() -> None:
    faulty = understood(read("pod.yaml", "apiVersion: v1\nkind: [\n", "kubernetes"))
    assert faulty.parts_not_read == 1
    assert understood(read(".env", "A=1\nnothing\nat all\n", "dotenv")).parts_not_read == 2
