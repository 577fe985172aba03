"""Values that replace others in damaged inputs: wrong types, extremes, control characters."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import re

ESCAPES = ("\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "a\u202eb\u2066", "\x00", "\x7f", "a\rb", "\ud800")
"""Texts with escape sequences or control characters, and a lone surrogate."""
WORDS = (
    "", "auto", "null", "N/A", "-1", "0", "1e999", "nan", "inf", "9" * 400, "0x7fffffffffffffff", "../../etc",
    "$(reboot)", "`reboot`", "'", '"', "{{ x }}", "{0}", "%s%n", "²", "１２", "[", "(((((((((((((((((((((",
    "a" * 5000, "=1+1", *ESCAPES,
)  # fmt: skip
VALUES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e-320, 1e308,
    float("inf"), float("nan"), [], {}, [[]], [None], {"": None}, *WORDS,
)  # fmt: skip
_LITERALS = (
    "1", "-1", "0", "1e308", "inf", "nan", "true", '""', "[]", "{}", "[[]]", "1979-05-27",
    "9223372036854775807", "'" + "a" * 5000 + "'", "[" * 90 + "]" * 90, r'"\u001b[31m"', r'"\u009b2J"',
    r'"\u202e"', '"a\\nb"',
    "-9223372036854775808", "0.5", '"auto"', "[1, 'a']",
)  # fmt: skip
"""TOML values that replace others."""
_TOML_VALUE = re.compile(rb"(?m)^([ \t]*[\w.\"-]+[ \t]*=[ \t]*)(.*)$")
_WORD = re.compile(rb"[\w.+-]+")


def changed_json(rng: random.Random, data: bytes) -> bytes:
    """Return JSON in which one to three values are replaced, removed, repeated or renamed."""
    tree = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change_node(rng, tree)
    return json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _change_node(rng: random.Random, node: object) -> None:
    """Walk down at random and change a member of the list or object at the end of the walk."""
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        child = node[key]  # type: ignore[index]
        if isinstance(child, dict | list) and child and rng.random() < 0.9:
            node = child
            continue
        match rng.randrange(8):
            case 0:
                del node[key]  # type: ignore[arg-type]
            case 1 if isinstance(node, list):
                node.extend([child] * rng.choice((1, 50)))
            case 1 if isinstance(node, dict):
                node[rng.choice(WORDS)] = node.pop(key)
            case 2 if isinstance(child, str):
                at = rng.randrange(len(child) + 1)
                node[key] = child[:at] + rng.choice(WORDS) + child[at:]  # type: ignore[index]
            case 3:
                node[key] = rng.choice(VALUES)  # type: ignore[index]
            case _:
                node[key] = _of_same_type(rng, child)  # type: ignore[index]
        return


def _of_same_type(rng: random.Random, value: object) -> object:
    """Return a changed text for a text, another constant for True, False or None, and else a number."""
    if isinstance(value, str):
        return changed_words(rng, value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    if isinstance(value, bool) or value is None:
        return rng.choice((True, False, None))
    return rng.choice(
        [other for other in VALUES if isinstance(other, int | float) and type(other) is not bool]
    )


def changed_toml(rng: random.Random, data: bytes) -> bytes:
    """Return TOML in which one or two values are replaced by values of any type."""
    for _ in range(rng.choice((1, 1, 2))):
        places = list(_TOML_VALUE.finditer(data))
        if places:
            place = rng.choice(places)
            value = _literal(rng, place[2])
            data = data[: place.start(2)] + value + data[place.end(2) :]
    return data


def _literal(rng: random.Random, value: bytes) -> bytes:
    """Return another value of TOML, mostly of the same type."""
    if rng.random() < 0.3:
        return rng.choice(_LITERALS).encode()
    if value.startswith((b'"', b"[")):
        with contextlib.suppress(ValueError):
            tree: list[object] = [json.loads(value), 0]
            _change_node(rng, tree)
            return json.dumps(tree[0]).encode()
        return changed_words(rng, value)
    if value in (b"true", b"false"):
        return rng.choice((b"true", b"false"))
    return rng.choice([each for each in _LITERALS if each[0] in "-0123456789"]).encode()


def changed_table(rng: random.Random, data: bytes) -> bytes:
    """Return a CSV table in which one to four cells are replaced."""
    rows = list(csv.reader(io.StringIO(data.decode())))
    for _ in range(rng.choice((1, 2, 4))):
        row = rng.choice(rows)
        if row:
            row[rng.randrange(len(row))] = rng.choice(WORDS)
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def changed_words(rng: random.Random, data: bytes) -> bytes:
    """Return a text in which one to four words are replaced."""
    for _ in range(rng.choice((1, 2, 4))):
        places = list(_WORD.finditer(data))
        if places:
            place = rng.choice(places)
            word = rng.choice(WORDS).encode("utf-8", "surrogatepass")
            data = data[: place.start()] + word + data[place.end() :]
    return data
