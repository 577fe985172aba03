"""Secrets in imported files: they are named and never copied."""

import re
from collections.abc import Iterator, Sequence

from probes.redaction.secrets import names_secret
from recipes.launch.imports.chains import escaped, options_of
from recipes.launch.imports.run_values import RunValues
from recipes.launch.imports.spelled_settings import plain
from recipes.launch.imports.training_files import LaunchFile
from recipes.launch.references import NAME

HIDDEN = "<hidden>"
_SHORTEST_SECRET = 8
"""Fewest characters of a key or password; the limit spares `pad_token: <pad>`, which is no secret."""
_PLAINLY_SECRET = ("token", "password", "secret", "api_key", "hf_token")
"""Names whose short values are secrets too."""


def is_secret(name: str, value: str) -> bool:
    """Return whether a setting of this name is a key, a token or a password."""
    is_short = len(value) < _SHORTEST_SECRET and plain(name).lower() not in _PLAINLY_SECRET
    is_plain = is_short or value.startswith(("<", "$", "{$", "[")) or value.isdigit()
    return not is_plain and names_secret(name, value)


def referring(arguments: Sequence[str]) -> dict[str, str]:
    """Return the arguments that contain a secret, each with the same argument that refers to a variable
    instead.

    `--token abc` becomes `--token {$TOKEN}`: a recipe and its launch files never contain the value.
    """
    safe = {}
    for at, word in enumerate(arguments):
        option, sign, value = word.partition("=")
        if not sign and at and not word.startswith("-"):
            option, value = arguments[at - 1], word
            if len(value) < _SHORTEST_SECRET and arguments.count(word) > 1:
                continue  # a short word with two uses is an ordinary word, and both would be replaced
        if option.startswith("-") or sign:
            variable = re.sub(r"[^A-Z0-9_]", "_", plain(option).upper())
            if is_secret(option, value) and NAME.fullmatch(variable):
                safe[word] = f"{option}={{${variable}}}" if sign else f"{{${variable}}}"
    return safe


_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)=(\"[^\"]*\"|'[^']*'|[^\s;]+?(?=,[A-Za-z_]\w*=|[\s;]|$))")


def without_secrets(text: str) -> str:
    """Return a kept line with secret values of variables hidden."""
    return _ASSIGNED.sub(
        lambda match: f"{match[1]}={HIDDEN}" if is_secret(match[1], match[2].strip("\"'")) else match[0],
        text,
    )


_SHELL_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)[^{}]*\}|(?P<plain>[A-Za-z_]\w*))")


def reference_in(written: str) -> str:
    """Return an argument of a script with references in place of its variables, as a recipe writes them.

    The name in a reference is in capitals.
    """
    pieces, at = [], 0
    for match in _SHELL_VARIABLE.finditer(written):
        name = (match["braced"] or match["plain"]).upper()
        pieces += [escaped(written[at : match.start()]), f"{{${name}}}"]
        at = match.end()
    return "".join((*pieces, escaped(written[at:])))


def secret_values(files: Sequence[LaunchFile], run_values: RunValues) -> frozenset[str]:
    """Return the values of variables and of options, such as `--api_key $KEY`, whose names show a secret."""
    return frozenset(
        value
        for name, text in _named_values(files)
        if (value := run_values.resolved(text)) is not None and is_secret(name, value)
    )


def _named_values(files: Sequence[LaunchFile]) -> Iterator[tuple[str, str]]:
    for file in files:
        yield from ((item.name, item.value or item.written) for item in file.settings)
        for command in file.commands:
            yield from ((use.name, use.value) for use in options_of(command, of_program=True))
