"""Files that a person pasted: recognised by what they hold, whatever they are called.

A new kind is a row in `KINDS`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

import msgspec

from probes.errors import InputError
from probes.record import Unknown
from probes.sources.answers import Answers
from probes.sources.base import CommandResult
from probes.sources.stored import FORMAT, Recording, StoredSource, follow_links, load_recording, unpack

_ESCAPES = re.compile(r"(?:\x1b|\^\[)\[[0-9;]*[A-Za-z]")
"""Terminal colours, as such or in caret notation."""
_CPU_COLUMN = re.compile(r"CPU\s*Affinity")
_GPU_LABEL = re.compile(r"[ \t]*GPU\d+\s*")
_DISTANCE = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
_NVLINK = re.compile(
    r"^GPU \d+: [^\n(]*\(UUID: [^)\n]*\)[ \t]*\n"
    r"\s*(?:Link \d+: (?:<inactive>|[\d.]+ [GM]B/s)"
    r"|NVML: Unable to retrieve NVLink information"
    r"|Device does not have or support Nvlink"
    r"|Nvlink queries are not supported)",
    re.MULTILINE | re.IGNORECASE,
)
_IBSTAT = re.compile(r"^[ \t]*CA '[^'\n]+'[ \t]*\n[ \t]*CA type:", re.MULTILINE)
_TREE_ROOTS = ("/sys", "/proc", "/etc", "/dev", "/run", "/var", "/usr", "/opt")
_LONGEST_PATH = 4096
"""PATH_MAX of Linux."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of pasted file: how it is told, and what it answers."""

    id: str
    title: str
    recognise: Callable[[str], bool]
    answer: Callable[[str, str, Answers], None]
    """Takes the text, the file's name and where to put the answers."""


def open_loose(files: Sequence[tuple[str, bytes]]) -> StoredSource:
    """One source from all `files` (name and content), in any order and mix.

    InputError for a file of no known kind, for a damaged one, and for two that answer the same question differently.
    """
    together = Answers()
    for name, data in files:
        own = Answers()
        text = _text_of(unpack(data, name))
        kinds = [kind for kind in KINDS if kind.recognise(text)]
        if not kinds:
            raise InputError(
                f"{name} is nothing that rigtune knows",
                "It reads " + "; ".join(kind.title for kind in KINDS) + ".",
            )
        for kind in kinds:
            kind.answer(text, name, own)
        _merge(together, own, name)
    return StoredSource(together.recording(" + ".join(posixpath.basename(name) for name, _ in files)))


def _text_of(data: bytes) -> str:
    """Text of whatever encoding and line ends a terminal, an editor or a Windows shell made of it."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, "replace")
    if text.lstrip().startswith("{"):
        return text  # JSON escapes what is no text; what looks like colours in there is content
    return _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _merge(together: Answers, own: Answers, name: str) -> None:
    """Add the answers of one file."""
    for directory, names in own.directories.items():
        earlier = together.directories.get(directory, ())
        if not isinstance(names, Unknown) and not isinstance(earlier, Unknown):
            together.directories[directory] = tuple(sorted({*names, *earlier}))
        else:
            together.directories[directory] = names
    for target, answers in zip(together.exact(), own.exact(), strict=True):
        for question, answer in answers.items():
            if target.setdefault(question, answer) != answer:
                words = " ".join(map(str, question)) if isinstance(question, tuple) else question
                raise InputError(
                    f"{name} and an earlier file answer `{words}` differently",
                    "Give the files of one machine, each kind once.",
                )


def _command(*argv: str) -> Callable[[str, str, Answers], None]:
    """The whole text is what this command wrote."""

    def answer(text: str, _name: str, answers: Answers) -> None:
        answers.command(argv, CommandResult(stdout=text.encode()))

    return answer


def _is_topology_line(line: str) -> bool:
    """The header, or the row of a GPU: its own cell X, and a distance behind that."""
    gpu = line.find("GPU0")
    if gpu >= 0 and _CPU_COLUMN.search(line, gpu):
        return True
    label = _GPU_LABEL.match(line)
    if label is None:
        return False
    last = max((match.start() for match in _DISTANCE.finditer(line, label.end())), default=0)
    own = line.find("X", label.end(), last)
    while own >= 0:
        begins = own == label.end() or not (line[own - 1].isalnum() or line[own - 1] in "_.")
        ends = not (line[own + 1].isalnum() or line[own + 1] == "_") or _DISTANCE.match(line, own + 1) is not None
        if begins and ends:
            return True
        own = line.find("X", own + 1, last)
    return False


def _is_tree(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        entries = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError):
        return False
    return bool(entries) and all(path.startswith(_TREE_ROOTS) and len(path) <= _LONGEST_PATH for path in entries)


def _tree(text: str, _name: str, answers: Answers) -> None:
    """`{"/sys/...": content}`; a content of `-> target` is a symbolic link."""
    raw: dict[str, str | Unknown] = {}
    for path, content in msgspec.json.decode(text, type=dict[str, str]).items():
        if content.startswith("-> "):
            raw[path] = posixpath.normpath(posixpath.join(posixpath.dirname(path), content[3:].strip()))
        else:
            answers.file(path, content.encode())
    answers.links.update((path, follow_links(path, raw)) for path in raw)
    answers.list_directories()


def _recording(text: str, name: str, answers: Answers) -> None:
    recording: Recording = load_recording(text.encode(), name)
    answers.commands.update((answer.argv, answer) for answer in recording.commands)
    answers.files.update(recording.files)
    answers.directories.update(recording.directories)
    answers.links.update(recording.links)
    answers.calls.update(((answer.call, answer.args), answer) for answer in recording.nvml)
    answers.env.update(recording.env)


KINDS: tuple[Kind, ...] = (
    Kind("recording", "a rigtune recording", lambda text: f'"{FORMAT}"' in text[:4096], _recording),
    Kind("tree", "a JSON map of absolute paths to file contents", _is_tree, _tree),
    Kind(
        "nvidia-smi-xml",
        "the output of `nvidia-smi -q -x`",
        lambda text: "<nvidia_smi_log" in text,
        _command("nvidia-smi", "-q", "-x"),
    ),
    Kind(
        "topology",
        "of `nvidia-smi topo -m`",
        lambda text: any(_is_topology_line(line) for line in text.split("\n")),
        _command("nvidia-smi", "topo", "-m"),
    ),
    Kind(
        "nvlink",
        "of `nvidia-smi nvlink --status`",
        lambda text: bool(_NVLINK.search(text)),
        _command("nvidia-smi", "nvlink", "-s"),
    ),
    Kind("ibstat", "of `ibstat`", lambda text: bool(_IBSTAT.search(text)), _command("ibstat")),
)
"""Every kind whose recogniser agrees answers: a pasted terminal session may hold several."""
