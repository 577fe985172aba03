"""Settings that reach each command of a script."""

from __future__ import annotations

import pytest

from recipes.lint.document import Document
from recipes.lint.reach import given_to, is_aside, nodes_that_get
from recipes.lint.reading import read_document


def _read(text: str, name: str = "a.sh") -> Document:
    document = read_document(name, text)
    assert document is not None
    return document


def _value_of_a(text: str) -> str | None:
    """Return the value of A that `t.py` gets."""
    document = _read(text)
    (command,) = [command for command in document.commands if command.program == "t.py"]
    item = given_to(document, command).get("A")
    return None if item is None else item.value


_RUN = "torchrun t.py\n"
_REACHES = {
    "export before": ("export A=1\n" + _RUN, "1"),
    "export after": (_RUN + "export A=1\n", None),
    "the last of two": ("export A=1\nexport A=2\n" + _RUN + "export A=3\n", "2"),
    "exported later than set": ("A=1\nexport A\n" + _RUN, "1"),
    "never exported": ("A=1\n" + _RUN, None),
    "unset": ("export A=1\nunset A\n" + _RUN, None),
    "before its command": ("A=1 " + _RUN, "1"),
    "before another command": ("A=1 python p.py\n" + _RUN, None),
    "a subshell's": ("( export A=1; python p.py )\n" + _RUN, None),
    "in the subshell": ("export A=1\n( export A=2; torchrun t.py )\n", "2"),
    "what a subshell changed": ("export A=1\n(export A=2; unset A)\n" + _RUN, "1"),
    "another shell's": ("bash -c 'export A=1; python p.py'\n" + _RUN, None),
    "of the other shell": ("A=1 bash -c 'export A=2; torchrun t.py'\n", "2"),
    "of eval": ("eval 'export A=1'\n" + _RUN, "1"),
    "a function that is called": ("f() {\n  export A=1\n}\nf\n" + _RUN, "1"),
    "a function that is called later": ("f() { export A=1; }\n" + _RUN + "f\n", None),
    "a function that is not called": ("function f { export A=1; python p.py; }\n" + _RUN, None),
    "a function in a subshell": ("f() { export A=1; }\n(f)\n" + _RUN, None),
    "a function twice": ("f() { export A=1; }\nf\nexport A=2\nf\n" + _RUN, "1"),
    "the launch in a function": ("main() {\n  torchrun t.py\n}\nexport A=1\nmain\nexport A=2\n", "1"),
    "a function's own words": ("main() { torchrun t.py; }\nA=1 main\n", "1"),
    "a function in a function": ("f() {\n  g() { export A=1; }\n  g\n}\nf\n" + _RUN, "1"),
    "a function that runs its words": (
        'run() {\n  echo "$@"\n  "$@"\n}\nexport A=1\nrun torchrun t.py\n',
        "1",
    ),
    "a function that tries its words": (
        'again() { until "$@"; do sleep 5; done; }\nA=1 again torchrun t.py\n',
        "1",
    ),
    "a function that calls itself": ("f() { f; export A=1; }\nf\n" + _RUN, "1"),
    "the other branch": ("if x; then export A=1; else torchrun t.py; fi\n", None),
    "after the branch": ("if x; then export A=1; else y; fi\n" + _RUN, "1"),
    "the other pattern": ("case $x in\n a) export A=1 ;;\n b) torchrun t.py ;;\nesac\n", None),
    "on another machine": ("export A=1\nssh host 'torchrun t.py'\n", None),
    "given there": ("ssh host 'export A=1; torchrun t.py'\n", "1"),
    "in a container": ("export A=1\ndocker run img torchrun t.py\n", None),
    "by name into a container": ("export A=1\ndocker run -e A img torchrun t.py\n", "1"),
    "by value into a container": ("export A=1\ndocker run -e A=2 img torchrun t.py\n", "2"),
    "without an environment": ("export A=1\nenv -i torchrun t.py\n", None),
    "by srun": ("export A=1\nsrun -c 8 torchrun t.py\n", "1"),
}


@pytest.mark.parametrize(("text", "value"), _REACHES.values(), ids=_REACHES)
def test_command_gets_what_reaches_it(text: str, value: str | None):
    assert _value_of_a(text) == value


def test_a_setting_in_a_branch_is_conditional():
    document = _read("export A=1\nif x; then\n  export A=2\nfi\ntorchrun t.py\n")
    assert given_to(document, document.commands[-1])["A"].is_conditional


@pytest.mark.parametrize(
    ("text", "aside"),
    [
        ("A=1 python smoke.py\ntorchrun t.py\n", True),
        ("A=1 torchrun small.py\ntorchrun t.py\n", True),
        ("python p.py\nA=1 torchrun t.py\n", False),
        ("A=1 python t.py\n", False),
        ("A=1 all_reduce_perf -g 8\n", True),
        ("export A=1\ntorchrun t.py\n", False),
        ("torchrun t.py\nexport A=1\n", True),
        ("export A=1\n", False),
    ],
)
def test_the_setting_of_a_trial_is_aside(text: str, aside: bool):
    document = _read(text)
    (item,) = document.given
    assert is_aside(document, item) is aside


_TWO = "#!/bin/bash\n#SBATCH --nodes=2\n"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (_TWO + "export A=1\nsrun python t.py\n", 2),
        (_TWO + "export A=1\nsrun -N 1 -n 1 python t.py\n", 1),
        (_TWO + "A=1 python t.py\nsrun python u.py\n", 1),
        ("export A=1\ntorchrun --nnodes 4 t.py\n", 4),
        ("A=1 python t.py\ntorchrun --nnodes 4 u.py\n", 1),
    ],
)
def test_machines_of_a_setting_are_those_of_its_commands(text: str, nodes: int):
    document = _read(text)
    (item,) = document.given
    assert nodes_that_get(document, item) == nodes


@pytest.mark.parametrize(
    "text",
    ["f() {\n" * 20 + "}\n" * 20, "f() { ) ) }\nf\n", "( f() { ( ( }\nf\n", "f() { f() { ) }; f; }\n(f))\n)"],
)
def test_brackets_that_do_not_match_break_nothing(text: str):
    assert _value_of_a(f"{text}export A=1\n{_RUN}") in ("1", None)
