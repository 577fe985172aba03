"""YAML and JSON files as trees in which each value has its place."""

import json
import re
from collections.abc import Iterator

import msgspec
import yaml

from recipes.lint.document import Document, DocumentKind, Entry, Fault, Place, lines_of
from recipes.lint.readers.options import Argued
from recipes.lint.readers.span import Lines, Span, fixed
from recipes.lint.readers.words import Word

LONGEST = 1024 * 1024
"""Largest size in characters. Parsing a larger file takes too long, and launch files are smaller."""
_DEEPEST = 400
_BRACKET = re.compile(r"[\[\]{}]")
_TEMPLATE = re.compile(r"\{\{.{0,1000}?\}\}|\{%.{0,1000}?%\}|\{#.{0,1000}?#\}", re.DOTALL)
_CONTROL = re.compile(
    r"\{\{-?\s*(define|block|if|range|with|else|end)\b|\{%-?\s*(if|for|macro|block|filter|elif|else|end)"
)
_BLANK = re.compile(r"[^\n]")
_ALONE = re.compile(r"^[ \t]*\$_[$_ \t\r]*$", re.MULTILINE)
_CUT = re.compile(r"^---[^\n]*\}\}[ \t\r]*$", re.MULTILINE)
_TEMPLATE_MARK = re.compile(r"\{\{|\{%|<%")
_PLACEHOLDER = re.compile(r"\$[({\w]|@\w+@|%\w+%|%%|@@|<[A-Za-z][\w -]*>")
_SYNTAX = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|(?<![\w"])#[^\n]*', re.DOTALL)
Scalar = str | int | float | bool | None


class Tree:
    """A parsed file: its documents, the parts that could not be read, and its syntax errors."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        self.roots: list[yaml.Node] = []
        self.problems: list[str] = []
        self.faults: list[Fault] = []

    def place(self, node: yaml.Node) -> Place:
        start, end = self.offsets(node)
        return self.lines.place(start, end)

    def offsets(self, node: yaml.Node) -> tuple[int, int]:
        """Return the offsets of the start and end of a node, without the line break after a block."""
        start = self.lines.offset(node.start_mark.line, node.start_mark.column)
        end = self.lines.offset(node.end_mark.line, node.end_mark.column)
        while end > start and self.text[end - 1 : end] in ("\n", " ", "\r"):
            end -= 1
        return start, end

    def span(self, node: yaml.ScalarNode) -> Span:
        """Return the value of a scalar, with the place of each character if quotes and folding allow this."""
        start, end = self.offsets(node)
        whole = Span(self.text[start:end], range(start, end), self.lines)
        value: str = node.value
        if node.style in ("'", '"'):
            whole = whole.part(1, max(1, len(whole.text) - 1))
        if whole.text == value:
            return whole
        if node.style in ("|", ">"):
            return self._block(node, value, whole)
        return fixed(value, whole)

    def _block(self, node: yaml.ScalarNode, value: str, whole: Span) -> Span:
        offsets: list[int] = []
        at = self.text.find("\n", whole.offsets[0]) + 1 if len(whole.offsets) else 0
        for line in value.splitlines(keepends=True):
            start = self.text.find(line.rstrip("\n"), at) if line.strip() else -1
            if start < 0:
                offsets += [at] * len(line)
                continue
            offsets += range(start, start + len(line))
            at = start + len(line)
        return Span(value, [min(offset, len(self.text)) for offset in offsets], self.lines)

    def argued(self, node: yaml.ScalarNode) -> Argued:
        """Return the node as an argument of a command that is written as a list, which no shell parses."""
        start, end = self.offsets(node)
        written = Span(self.text[start:end], range(start, end), self.lines)
        return Argued(node.value, self.place(node), word=Word(written, self.span(node), (), 1))

    def entries(self, node: yaml.Node, *, is_json: bool = False) -> Iterator[Entry]:
        """Yield all values below a node with their paths."""
        stack: list[tuple[str, yaml.Node]] = [("", node)]
        visited: set[int] = set()
        while stack:
            path, current = stack.pop()
            if isinstance(current, yaml.ScalarNode):
                yield Entry(path=path, value=scalar(current, is_json=is_json), place=self.place(current))
                continue
            if id(current) in visited:  # an alias
                continue
            visited.add(id(current))
            stack += reversed(
                [
                    (f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}".lstrip("."), value)
                    for key, value in children(current)
                ]
            )


def children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node]]:
    """Yield keys and values of a mapping, or numbers and items of a list."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value) if isinstance(key, yaml.ScalarNode) else "?", value
    elif isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)


def get(node: yaml.Node | None, *keys: str | int) -> yaml.Node | None:
    """Return the node at a path; None if no node has this path."""
    for key in keys:
        child = None
        if node is not None:
            child = next((value for name, value in children(node) if name == key), None)
        node = child
    return node


def text_of(node: yaml.Node | None) -> str | None:
    return node.value if isinstance(node, yaml.ScalarNode) else None


def scalar(node: yaml.ScalarNode, *, is_json: bool = False) -> Scalar:
    """Return the value with the type that it has in YAML 1.1 or in JSON."""
    value: str = node.value
    if node.style is not None:
        return value
    if is_json:
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return decoded if isinstance(decoded, str | int | float | bool) or decoded is None else value
    tag = node.tag.rpartition(":")[2]
    if tag == "null":
        return None
    if tag == "bool":
        return value.lower() in ("yes", "true", "on")
    try:
        if tag == "int":
            return int(value.replace("_", ""), 0) if not re.match(r"[-+]?0\d", value) else int(value, 8)
        if tag == "float":
            return float(value.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return value
    return value


def parse(text: str, *, is_json: bool = False) -> Tree:
    """Return the tree of a text. Never raises an error.

    Templates in braces and comments in JSON are ignored.
    """
    tree = Tree(text)
    if len(text) > LONGEST:
        tree.problems.append(f"the file is longer than {LONGEST // 1024} KiB and was not read")
        return tree
    if _depth(text) > _DEEPEST:
        tree.problems.append(f"more than {_DEEPEST} brackets are open at once, and nothing was read")
        return tree
    # If the text cannot be parsed, try it without templates, then with each Helm template as a document.
    first = _compose(tree, _plain_json(text) if is_json else text)
    if first is not None and ("{{" in text or "{%" in text):
        single = _one_branch(text)
        for plain in (_plain(single), _plain(_parted(single))):
            tree.roots = []
            first = _compose(tree, _plain_json(plain) if is_json else plain)
            if first is None:
                break
    if first is not None:
        _report(tree, first, "JSON" if is_json else "YAML")
    return tree


def accelerate(name: str, text: str) -> Document:
    """Return the configuration of `accelerate launch`, in YAML or JSON, as a document."""
    return _config(name, text, "accelerate", is_json=False)


def deepspeed(name: str, text: str) -> Document:
    """Return DeepSpeed's configuration in JSON as a document; comments are ignored."""
    return _config(name, text, "deepspeed", is_json=True)


def tf_config(name: str, text: str) -> Document:
    """Return TF_CONFIG (the cluster of TensorFlow and the task of one process) in JSON as a document."""
    return _config(name, text, "tf-config", is_json=True)


def _config(name: str, text: str, kind: DocumentKind, *, is_json: bool) -> Document:
    tree = parse(text, is_json=is_json)
    return Document(
        name=name,
        kind=kind,
        text=text,
        entries=tuple(entry for root in tree.roots[:1] for entry in tree.entries(root, is_json=is_json)),
        problems=tuple(tree.problems),
        faults=tuple(tree.faults),
    )


def _report(tree: Tree, fault: Fault, language: str) -> None:
    """Add a fault to the tree; if the file is a template, add a problem instead.

    The parser cannot read templates and lines that another program fills in, but these are not mistakes.
    """
    lines = lines_of(tree.text)
    line = lines[fault.place.line - 1] if 0 < fault.place.line <= len(lines) else ""
    if _TEMPLATE_MARK.search(tree.text) or _PLACEHOLDER.search(line):
        tree.problems.append(f"line {fault.place.line}: {fault.reason}")
    else:
        tree.faults.append(msgspec.structs.replace(fault, reason=f"not valid {language}: {fault.reason}"))


def _depth(text: str) -> int:
    """Return the largest number of brackets that are open at the same time.

    Brackets in quotes count too. This does no harm, because the number only limits the work of the parser.
    """
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        depth = depth + 1 if match[0] in "{[" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _compose(tree: Tree, text: str) -> Fault | None:
    """Fill `roots`; return the fault that ended reading, if any."""
    try:
        for root in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if root is not None:
                tree.roots.append(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(line=mark.line + 1, column=mark.column + 1) if mark else Place(line=1)
        return Fault(reason=error.problem or type(error).__name__, place=place)
    except (
        yaml.YAMLError,
        RecursionError,
        ValueError,
        IndexError,
        AttributeError,
        TypeError,
        KeyError,
    ) as error:
        return Fault(
            reason=str(error).splitlines()[0][:120] if str(error) else type(error).__name__,
            place=Place(line=1),
        )
    return None


def _plain_json(text: str) -> str:
    """Return JSON with blanks instead of comments and tabs; the result is YAML."""
    plain = _SYNTAX.sub(
        lambda match: match[0] if match[0].startswith('"') else _BLANK.sub(" ", match[0]), text
    )
    return plain.replace("\t", " ").replace("\ufeff", " ")


def _plain(text: str) -> str:
    """Return the text with templates replaced by variables.

    A line of templates only (`{{- if .Values.x }}`, `{% endif %}`) becomes blank.
    """
    return _ALONE.sub(_blank, _TEMPLATE.sub(_filled, text))


def _filled(match: re.Match[str]) -> str:
    """Return a text of the same length: a variable `$____` for a value, blanks for a Jinja statement."""
    if not match[0].startswith("{{"):
        return _blank(match)
    return _BLANK.sub("$", match[0], count=1)[:1] + _BLANK.sub("_", match[0][1:])


def _blank(match: re.Match[str]) -> str:
    return _BLANK.sub(" ", match[0])


def _one_branch(text: str) -> str:
    """Return the text with blanks instead of each branch after `else`."""
    open_blocks: list[int | None] = []
    blank: list[tuple[int, int]] = []
    for match in _CONTROL.finditer(text):
        word = match[1] or match[2]
        if word in ("else", "elif"):
            if open_blocks and open_blocks[-1] is None:
                open_blocks[-1] = match.start()
        elif word != "end":
            open_blocks.append(None)
        elif open_blocks and (start := open_blocks.pop()) is not None:
            blank.append((start, match.start()))
    for start, end in blank:
        text = text[:start] + _BLANK.sub(" ", text[start:end]) + text[end:]
    return text


def _parted(text: str) -> str:
    """Return the text with each Helm template after `define` or `block` as a separate YAML document."""
    open_blocks: list[str] = []
    cuts = []
    for match in _CONTROL.finditer(text):
        word = match[1] or match[2]
        if word == "end":
            word = open_blocks.pop() if open_blocks else word
        elif word not in ("else", "elif"):
            open_blocks.append(word)
        if (
            word in ("define", "block")
            and not open_blocks[1:]
            and text[match.start() - 1 : match.start()] in ("", "\n")
        ):
            cuts.append(match.start())
    for cut in cuts:
        text = f"{text[:cut]}---{text[cut + 3 :]}"
    return _CUT.sub(lambda match: "---" + " " * (len(match[0]) - 3), text)
