"""Measure how many random faults in the code make a test fail.

    python -m tests.mutants --count 100 --seed 13

Each mutant is a copy of the tree in which one operator or one number of one function is changed. These tests
run against it: every test file that imports the changed module, and the unit tests that mirror its room and
the rooms of the modules that use it. A mutant that no test notices is printed with its line, so that a person
can decide whether it matters. A test that also fails in an unchanged copy of the tree does not count.

Operators: a comparison becomes its neighbour (`<` and `<=`, `==` and `!=`, `in` and `not in`), `+` and `-` as
well as `*` and `/` are exchanged, `and` and `or` are exchanged, `not x` becomes `x`, and a number is doubled
(0 becomes 1).
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("probes", "recipes", "assistant")
LEFT_OUT = ("probes/workers/",)
"""Workers run in an interpreter with torch; their tests take minutes for each mutant."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


_ELSEWHERE = (
    ("assistant/cli/fleet", "unit/assistant/usecases/fleet"),
    ("assistant/cli/plan_commands.py", "golden/test_plan_pages.py"),
    ("assistant/pages/training/", "golden/test_plan_pages.py"),
    ("assistant/cli/tune_command.py", "unit/assistant/usecases/test_tune.py"),
    ("probes/checks/", "golden/test_finding_texts.py"),
    ("probes/compare/", "golden/test_finding_texts.py"),
    ("probes/judging/", "golden/test_finding_texts.py"),
    ("recipes/advice/", "golden/test_advice_text.py"),
    ("recipes/cases/", "golden/test_predict_text.py"),
    ("recipes/cases/", "golden/test_predicted_figures.py"),
    ("recipes/job/", "golden/test_predicted_figures.py"),
    ("recipes/launch/", "golden/test_configuration_files.py"),
    ("recipes/launch/", "golden/test_launch_files.py"),
    ("recipes/launch/", "golden/test_program_files.py"),
    ("recipes/launch/", "golden/test_provision_files.py"),
    ("recipes/lint/", "golden/test_lint_texts.py"),
    ("recipes/lint/", "lint"),
    ("recipes/machine/", "golden/test_predicted_figures.py"),
    ("recipes/planning/", "golden/test_plan_pages.py"),
    ("recipes/planning/", "golden/test_what_if_pages.py"),
    ("recipes/predict/", "golden/test_predict_text.py"),
    ("recipes/predict/", "golden/test_predicted_figures.py"),
    ("recipes/predict/", "quantities"),
)
"""Tests outside the folder that mirrors a room, by the beginning of the path of a module."""
_TESTS_FAILED = 1
"""Exit code of pytest if a test fails."""


class Place(NamedTuple):
    """One node of one file that can be changed."""

    path: Path
    index: int
    """Position among the changeable nodes of the file, in the order of `ast.walk`."""
    line: int
    before: str


def changeable(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside functions that one of the operators can change."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    visited: set[int] = set()
    for function in functions:
        for statement in function.body:
            for node in ast.walk(statement):
                if id(node) not in visited and _can_change(node):
                    visited.add(id(node))
                    yield node


def _can_change(node: ast.AST) -> bool:
    match node:
        case ast.Compare(ops=[operator]):
            return type(operator) in COMPARISONS
        case (
            ast.BinOp(op=operator, left=ast.Constant(value=str()))
            | ast.BinOp(op=operator, left=ast.JoinedStr())
        ):
            return False
        case ast.BinOp(op=operator):
            return type(operator) in ARITHMETIC
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
    return False


def change(node: ast.AST) -> ast.AST:
    """Return the node with one operator or number changed."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operator]):
            changed.ops = [COMPARISONS[type(operator)]()]
        case ast.BinOp(op=operator):
            changed.op = ARITHMETIC[type(operator)]()
        case ast.BoolOp(op=operator):
            changed.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.UnaryOp(operand=operand):
            return operand
        case ast.Constant(value=value):
            changed.value = value * 2 or 1
    return changed


def places() -> list[Place]:
    """Return everything that can be changed in the three packages, in the order of the files."""
    result = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if str(relative).startswith(LEFT_OUT):
                continue
            nodes = changeable(ast.parse(path.read_text("utf-8")))
            result += [
                Place(relative, index, node.lineno, ast.unparse(node)) for index, node in enumerate(nodes)
            ]
    return result


def apply(place: Place, root: Path) -> str:
    """Write the mutant of `place` below `root` and return the changed code."""
    path = root / place.path
    tree = ast.parse(path.read_text("utf-8"))
    node = list(changeable(tree))[place.index]
    replacement = change(node)

    class Replace(ast.NodeTransformer):
        def visit(self, visited: ast.AST) -> ast.AST:
            return replacement if visited is node else super().generic_visit(visited)

    path.write_text(ast.unparse(ast.fix_missing_locations(Replace().visit(tree))), "utf-8")
    return ast.unparse(replacement)


def tests_of(path: Path, root: Path) -> list[str]:
    """Return the tests that import a module, then those that mirror its room and the rooms of its users.

    `path` is relative to `root`, the copy of the tree in which the tests are run.
    """
    module = ".".join(path.with_suffix("").parts)
    package, _, name = module.rpartition(".")

    def uses(text: str) -> bool:
        return module in text or f"from {package} import {name}\n" in text

    direct = [
        file
        for file in sorted((root / "tests").rglob("test_*.py"))
        if not {"benchmarks", "integration", "workers"} & set(file.parts) and uses(file.read_text("utf-8"))
    ]
    users = [
        file.relative_to(root)
        for package_name in PACKAGES
        for file in sorted((root / package_name).rglob("*.py"))
        if uses(file.read_text("utf-8"))
    ]
    folders = [root / "tests" / "unit" / Path(*user.parts[:2]) for user in (path, *users)]
    mirrored = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    extra = [root / "tests" / place for start, place in _ELSEWHERE if str(path).startswith(start)]
    rooms = [*(mirrored or [root / "tests" / "unit" / path.parts[0]]), *extra]
    # A file that is named before its folder would be all that pytest collects of that folder.
    alone = [file for file in direct if not set(rooms) & set(file.parents)]
    return [str(test.relative_to(root)) for test in (*alone, *rooms)]


def copy_tree(source: Path, folder: Path) -> Path:
    """Copy the tree `source` into `folder`, without what tests do not read, and return the copy."""
    ignored = shutil.ignore_patterns(".git", ".venv", ".torch-venv", "__pycache__", ".*_cache")
    return Path(shutil.copytree(source, folder / "tree", ignore=ignored))


def run_tests(
    root: Path, tests: list[str], timeout_s: float, deselected: set[str]
) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy of the tree until the first failure. Raises TimeoutExpired."""
    left_out = [option for test in sorted(deselected) for option in ("--deselect", test)]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *left_out, *tests]
    variables = {"RIGTUNE_SHARED": str(ROOT.parent / "shared"), **os.environ}
    return subprocess.run(
        command, cwd=root, env=variables, capture_output=True, text=True, timeout=timeout_s, check=False
    )


class Judge:
    """Decide whether a test notices a mutant; tests that fail in the unchanged tree do not count."""

    def __init__(self, unchanged: Path, timeout_s: float) -> None:
        self._unchanged = unchanged
        self._timeout_s = timeout_s
        self._broken: set[str] = set()

    def catching_test(self, root: Path, path: Path) -> str:
        """Return the test that fails because of the mutant of `path` below `root`; blank if there is none."""
        while True:
            try:
                done = run_tests(root, tests_of(path, root), self._timeout_s, self._broken)
            except subprocess.TimeoutExpired:
                return "(the tests do not end)"
            if done.returncode == 0:
                return ""
            failure = re.search(
                r"^(?:FAILED|ERROR) (\S+\.py(?:::.*?)?)(?: - .*)?$", done.stdout, re.MULTILINE
            )
            if failure is None:
                return "(pytest does not start)"
            test = failure.group(1)
            if run_tests(self._unchanged, [test], self._timeout_s, set()).returncode != _TESTS_FAILED:
                return test
            self._broken.add(test)


def sample(count: int, seed: int) -> list[Place]:
    """Choose a file first and then a place in it, so that long tables of numbers do not dominate."""
    by_file: dict[Path, list[Place]] = {}
    for place in places():
        by_file.setdefault(place.path, []).append(place)
    chooser = random.Random(seed)  # noqa: S311
    files = sorted(by_file)
    return [chooser.choice(by_file[chooser.choice(files)]) for _ in range(count)]


def main() -> None:
    """Make the mutants that the arguments ask for; print the fate of each and the share that was caught."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first mutants of the sequence")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the tests of one mutant")
    arguments = parser.parse_args()
    chosen = sample(arguments.count, arguments.seed)[arguments.skip :]
    caught = 0
    with tempfile.TemporaryDirectory() as first:
        # Every mutant is a copy of this copy, so that a person can go on editing the tree during a run.
        unchanged = copy_tree(ROOT, Path(first))
        judge = Judge(unchanged, arguments.timeout)
        for number, place in enumerate(chosen, arguments.skip + 1):
            with tempfile.TemporaryDirectory() as folder:
                root = copy_tree(unchanged, Path(folder))
                after = apply(place, root)
                test = judge.catching_test(root, place.path)
            caught += bool(test)
            fate = f"caught by {test}" if test else "SURVIVED"
            line = f"{number:3} {place.path}:{place.line}  {place.before}  ->  {after}  {fate}"
            print(line, flush=True)  # noqa: T201
    print(f"{caught} of {len(chosen)} caught")  # noqa: T201


if __name__ == "__main__":
    main()
