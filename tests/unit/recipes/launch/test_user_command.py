"""Test how the words of a user's own command become a recipe's command."""

from __future__ import annotations

import pytest

from probes.base.errors import UsageError
from recipes.launch.user_command import user_command


@pytest.mark.parametrize(
    ("words", "kind", "target", "arguments"),
    [
        ((), "reference", "", ()),
        (("python3",), "reference", "", ()),
        (("train.py", "--lr", "1"), "script", "train.py", ("--lr", "1")),
        (("python", "train.py"), "script", "train.py", ()),
        (("-m", "pkg.train", "-m"), "module", "pkg.train", ("-m",)),
        (("torchrun", "--nproc-per-node", "2", "train.py"), "script", "train.py", ()),
    ],
)
def test_words_of_a_command(
    words: tuple[str, ...], kind: str, target: str, arguments: tuple[str, ...]
) -> None:
    command = user_command(words)
    assert (command.kind, command.target, command.arguments) == (kind, target, arguments)


@pytest.mark.parametrize("words", [("-m",), ("python", "-m"), ("--lr", "1")])
def test_an_option_without_a_program_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"is (not a module|an option)"):
        user_command(words)
