"""Python programs that set the environment: `os.environ["NCCL_DEBUG"] = "INFO"`.

The program is parsed and never run.
"""

import ast
import re
import warnings
from collections.abc import Iterator

from recipes.lint.document import Document, Place, Setting

LONGEST = 512 * 1024
"""Largest size in characters."""
_ENVIRONMENTS = frozenset({"env", "envs", "env_vars", "environment", "environment_variables", "vars"})
"""Names of the arguments and keys with which Python programs pass an environment to commands."""
_NAME = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")


def read(name: str, text: str) -> Document:
    """Return the program as a document. Never raises an error.

    Settings in a function or a branch are conditional.
    """
    problems: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    try:
        if len(text) > LONGEST:
            raise ValueError(f"the file is longer than {LONGEST // 1024} KiB and was not read")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        reader = _Reader(text)
        settings = (*reader.body(tree, is_conditional=False), *reader.handed(tree))
    except SyntaxError as error:
        problems = (f"line {error.lineno or 1}: not valid Python",)
    except (ValueError, RecursionError, MemoryError) as error:
        problems = (f"line 1: {error}",)
    return Document(name=name, kind="python", text=text, settings=settings, problems=problems)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text_lines = text.splitlines(keepends=True)

    def handed(self, tree: ast.AST) -> Iterator[Setting]:
        """Yield the environment that a program passes to others.

        Examples are `PyTorch(environment={...})`, `{"env_vars": {...}}`, and a dictionary that is passed by
        name.
        """
        tables: dict[str, ast.Dict | None] = {}
        values: list[ast.expr] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg in _ENVIRONMENTS:
                values.append(node.value)
            elif isinstance(node, ast.Dict):
                values += [
                    value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant) and key.value in _ENVIRONMENTS
                ]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "update"
            ):
                values += [
                    value
                    for value in node.args
                    if isinstance(value, ast.Name) and _is_environ(node.func.value)
                ]
            elif (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
            ):
                name = node.targets[0].id
                tables[name] = node.value if isinstance(node.value, ast.Dict) and name not in tables else None
        # a name is resolved if exactly one dictionary is assigned to it
        resolved = (tables.get(value.id) if isinstance(value, ast.Name) else value for value in values)
        for table in dict.fromkeys(each for each in resolved if isinstance(each, ast.Dict)):
            for key, value in zip(table.keys, table.values, strict=True):
                if (
                    isinstance(key, ast.Constant)
                    and isinstance(key.value, str)
                    and _NAME.fullmatch(key.value)
                ):
                    yield from self._named(key.value, value, self._place(key), is_conditional=True)

    def body(self, node: ast.AST, *, is_conditional: bool) -> Iterator[Setting]:
        for child in ast.iter_child_nodes(node):
            target = child.targets[0] if isinstance(child, ast.Assign) and len(child.targets) == 1 else None
            if (
                isinstance(child, ast.Assign)
                and isinstance(target, ast.Subscript)
                and _is_environ(target.value)
            ):
                yield from self._setting(target.slice, child.value, is_conditional=is_conditional)
            elif isinstance(child, ast.Expr) and isinstance(child.value, ast.Call):
                yield from self._call(child.value, is_conditional=is_conditional)
            else:
                yield from self.body(
                    child, is_conditional=is_conditional or not isinstance(child, ast.Module)
                )

    def _call(self, call: ast.Call, *, is_conditional: bool) -> Iterator[Setting]:
        function = call.func
        if not isinstance(function, ast.Attribute) or not _is_environ(function.value):
            return
        if function.attr == "setdefault" and len(call.args) == 2:
            yield from self._setting(call.args[0], call.args[1], is_conditional=True)
        elif function.attr == "update":
            for mapping in call.args:
                if isinstance(mapping, ast.Dict):
                    for key, value in zip(mapping.keys, mapping.values, strict=True):
                        if key is not None:
                            yield from self._setting(key, value, is_conditional=is_conditional)
            for keyword in call.keywords:
                if keyword.arg is not None:
                    yield from self._named(
                        keyword.arg, keyword.value, self._place(keyword), is_conditional=is_conditional
                    )

    def _setting(self, key: ast.expr, value: ast.expr, *, is_conditional: bool) -> Iterator[Setting]:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield from self._named(key.value, value, self._place(key), is_conditional=is_conditional)

    def _named(self, name: str, value: ast.expr, place: Place, *, is_conditional: bool) -> Iterator[Setting]:
        text = value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
        yield Setting(
            name=name,
            value=text,
            written=text or "",
            is_literal=text is not None,
            place=place,
            value_place=self._place(value),
            is_conditional=is_conditional,
        )

    def _place(self, node: ast.expr | ast.keyword) -> Place:
        """Return the place of a node in characters; Python counts columns in bytes of UTF-8."""
        first, last = node.lineno, node.end_lineno or node.lineno
        return Place(
            line=first,
            column=self._column(first, node.col_offset),
            end_line=last,
            end_column=self._column(last, node.end_col_offset or node.col_offset),
        )

    def _column(self, line: int, offset: int) -> int:
        text = self.text_lines[line - 1] if line <= len(self.text_lines) else ""
        return len(text.encode("utf-8", "surrogateescape")[:offset].decode("utf-8", "replace")) + 1


def _is_environ(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id == "environ"
    )
