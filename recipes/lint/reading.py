"""Recognise launch files by name and text, read them, and find waivers in their comments."""

import importlib
import re

import msgspec

from recipes.lint.document import Command, Document, DocumentKind, Fault, lines_of
from recipes.lint.views import entries, option

READERS: dict[DocumentKind, str] = {
    "shell": "shell.read",
    "sbatch": "shell.read",
    "dockerfile": "dockerfile.read",
    "compose": "pods.compose",
    "kubernetes": "pods.kubernetes",
    "accelerate": "tree.accelerate",
    "deepspeed": "tree.deepspeed",
    "tf-config": "tree.tf_config",
    "nccl-conf": "entry_lines.nccl_conf",
    "dotenv": "entry_lines.dotenv",
    "environment": "entry_lines.environment",
    "devcontainer": "pods.devcontainer",
    "python": "python.read",
    "hostfile": "entry_lines.hostfile",
}
"""Function of `recipes.lint.readers` that turns the name and the text into a `Document`, for each kind."""

_HOSTFILE = re.compile(r"[\w.-]*(?:hostfile|machinefile|nodefile|hosts?)[\w-]*(?:\.txt)?")
_SHEBANG = re.compile(r"#!.*\b(ba|z|k|da|tc|c)?sh\b")
_DIRECTIVE = re.compile(r"^#(SBATCH|PBS|BSUB)\b", re.MULTILINE)
_DOCKERFILE = re.compile(
    r"(?:[^\S\n]*(?:#[^\n]*|ARG [^\n]*)?\n)*"
    r"[^\S\n]*FROM\s+(?:--\S+\s+)?\S+(?:\s+AS\s+\S+)?[ \t\r]*(?:\n|$)",
    re.IGNORECASE,
)
"""Lines of comments and ARG, then FROM.

Each line can match in one way only, so the search takes linear time.
"""
_YAML_KINDS: tuple[tuple[re.Pattern[str], DocumentKind], ...] = (
    (re.compile(r"^(apiVersion|kind):", re.MULTILINE), "kubernetes"),
    (re.compile(r"^services:", re.MULTILINE), "compose"),
    (re.compile(r"^(compute_environment|distributed_type|num_machines):", re.MULTILINE), "accelerate"),
)
"""Keys of the first level that show the kind of a YAML file, the most certain first."""
_YAML_KEY = re.compile(r"^[^\S\n]*(?:- (?:\{?[^\S\n]*)|\{[^\S\n]*)?[\w.\"'-]+:(?:\s|$)", re.MULTILINE)
_WORKFLOW = re.compile(r"^(on|jobs|stages|pipelines?|steps):", re.MULTILINE)
"""Keys of a file for continuous integration; the commands in the file are not a training job."""
_LAUNCHES = re.compile(
    r"\bNCCL_|\bGLOO_|FI_PROVIDER|torchrun|torch\.distributed|mpirun|accelerate launch|"
    r"\bdeepspeed\s+(-|\\|\S+\.py)"
)
_VARIABLE_LINE = re.compile(r"\s*(#.*|(export\s+)?[A-Za-z_][\w.]*\s*=.*)?$")
_DEEPSPEED = re.compile(
    r'"(?:(?:train_micro_batch_size_per_gpu|zero_optimization|zero_allow_untested_optimizer|steps_per_print|'
    r'wall_clock_breakdown|zero_force_ds_cpu_optimizer)"\s*:|'
    r'(?:bf16|fp16|activation_checkpointing)"\s*:\s*\{)'
)
_TRAINING_ARGUMENTS = re.compile(r'"(?:per_device_train_batch_size|deepspeed)"\s*:')
"""Keys of Hugging Face's TrainingArguments, which may contain a configuration of DeepSpeed."""
_DEEPSPEED_NAME = re.compile(r"(?:^|[_.-])ds(?:[_.-]|$)|deepspeed|(?:^|[_-])zero[_-]?[0-3]")
_BATCH = re.compile(r'"(?:train_batch_size|gradient_accumulation_steps)"\s*:')
_TF_CONFIG = re.compile(r'"cluster"\s*:\s*\{|"task"\s*:\s*\{[^{}]*"index"')
_ACCELERATE_JSON = re.compile(r'"(compute_environment|distributed_type|num_machines)"\s*:')
_SCRIPT_WORDS = re.compile(
    r"^[^\S\n]*(export\s|srun\b|mpirun\b|torchrun\b|python\d?\s|accelerate\s+launch|deepspeed\s|if\s|for\s|"
    r"set\s+-|source\s|[A-Za-z_]\w*=\S*$)",
    re.MULTILINE,
)


_TEMPLATE_ENDINGS = (
    ".j2",
    ".jinja",
    ".jinja2",
    ".tmpl",
    ".tpl",
    ".template",
    ".gotmpl",
    ".example",
    ".sample",
    ".dist",
)
_STRUCTURED_ENDINGS = (".yml", ".yaml", ".json", ".jsonc", ".json5")
_OTHER_ENDINGS = (
    ".md", ".rst", ".adoc", ".toml", ".cfg", ".ini", ".lock", ".ipynb", ".go", ".rs", ".c", ".cc", ".cpp",
    ".cu", ".h", ".hpp", ".js", ".ts", ".tsx", ".java", ".scala", ".rb", ".lua", ".html", ".css", ".xml",
    ".csv", ".log", ".cue", ".tf", ".hcl", ".diff", ".patch", ".pl", ".pm", ".m4", ".awk",
)  # fmt: skip
_OTHER_NAMES = frozenset(
    {"makefile", "gnumakefile", "justfile", "jenkinsfile", "cmakelists.txt", "package.json", "tsconfig.json"}
)


def read_document(name: str, text: str, kind: DocumentKind | None = None) -> Document | None:
    """Return the file as a document; None if its kind is unknown. Never raises an error."""
    recognised = kind or recognise(name, text)
    if recognised is None:
        return None
    text = text.removeprefix("\ufeff")
    module, _, function = READERS[recognised].partition(".")
    reader = getattr(importlib.import_module(f"recipes.lint.readers.{module}"), function)
    document: Document = reader(name, text)
    problems, faults = document.problems, document.faults
    if kind is None and not name.lower().endswith(_STRUCTURED_ENDINGS):
        # The file only looks like YAML or JSON, so an error of syntax need not be a mistake.
        problems, faults = (*problems, *(f"line {fault.place.line}: {fault.reason}" for fault in faults)), ()
    waived = {} if recognised == "environment" else waived_in(text)
    return msgspec.structs.replace(document, problems=problems, faults=faults, waived=waived)


def fault_of_unknown(name: str, text: str) -> Fault | None:
    """Return the syntax error that prevents recognition of a file.

    None if there is no such error, or if the name does not end like that of a JSON or YAML file.
    """
    if not name.lower().endswith(_STRUCTURED_ENDINGS):
        return None
    from recipes.lint.readers.tree import parse  # noqa: PLC0415 - files of known kinds have their reader

    return next(iter(parse(text, is_json=".json" in name.lower()).faults), None)


def recognise(name: str, text: str) -> DocumentKind | None:
    """Return the kind of a file, from its name if the name is enough, else from its text; None if unknown."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    for ending in _TEMPLATE_ENDINGS:
        base = base.removesuffix(ending)
    is_template_of_python = base.endswith(".py") and not name.lower().endswith(".py")
    if base in _OTHER_NAMES or base.endswith(_OTHER_ENDINGS) or is_template_of_python:
        return None
    if base.endswith((".yml", ".yaml")):
        return _yaml_kind(text)
    if base.endswith((".json", ".jsonc", ".json5")):
        kind = "devcontainer" if base.endswith("devcontainer.json") else _json_kind(text)
        return kind or ("deepspeed" if _DEEPSPEED_NAME.search(base) and _BATCH.search(text) else None)
    return _by_name(base, text) or _by_text(text)


def _by_name(base: str, text: str) -> DocumentKind | None:
    if base.endswith("nccl.conf"):
        return "nccl-conf"
    if base.endswith((".env", ".deepspeed_env")) or base.startswith(".env"):
        return "dotenv"
    if base.startswith(("dockerfile", "containerfile")) or base.endswith((".dockerfile", ".containerfile")):
        return "dockerfile"
    if base.endswith((".sbatch", ".slurm")):
        return "sbatch"
    if base.endswith((".sh", ".bash", ".zsh", ".ksh", ".csh", ".pbs", ".lsf", ".qsub", ".job", ".cmd")):
        return "sbatch" if _DIRECTIVE.search(text) else "shell"
    if _HOSTFILE.fullmatch(base):
        from recipes.lint.readers.entry_lines import is_hostfile  # noqa: PLC0415

        if is_hostfile(text):
            return "hostfile"
    return "python" if base.endswith(".py") else None


def _by_text(text: str) -> DocumentKind | None:
    head = text.removeprefix("\ufeff").lstrip()
    if _SHEBANG.match(head):
        return "sbatch" if _DIRECTIVE.search(text) else "shell"
    if _DIRECTIVE.search(text):
        return "sbatch"
    if head.startswith("{") and not head.startswith(("{{", "{%")):
        return _json_kind(text)
    if _DOCKERFILE.match(text):
        return "dockerfile"
    if any(pattern.search(text) for pattern, _ in _YAML_KINDS):
        return _yaml_kind(text)
    lines = [line for line in lines_of(text) if line.strip()]
    if lines and all(_VARIABLE_LINE.match(line) for line in lines):
        if any(line.lstrip().startswith("export") for line in lines):
            return "shell"
        return "dotenv" if any("=" in line and not line.lstrip().startswith("#") for line in lines) else None
    if re.search(r"^[^\S\n]*- \{?\s*name:", text, re.MULTILINE):
        return _yaml_kind(text)
    return "shell" if _SCRIPT_WORDS.search(text) else None


def _yaml_kind(text: str) -> DocumentKind | None:
    for pattern, kind in _YAML_KINDS:
        if pattern.search(text):
            return kind
    if len({match[1] for match in _WORKFLOW.finditer(text)}) > 1:
        return None  # A job file may have only one of these keys.
    return "kubernetes" if _YAML_KEY.search(text) and _LAUNCHES.search(text) else None


def _json_kind(text: str) -> DocumentKind | None:
    if _TF_CONFIG.search(text) and not _DEEPSPEED.search(text):
        return "tf-config"
    if _ACCELERATE_JSON.search(text):
        return "accelerate"
    if re.search(r'"apiVersion"\s*:', text):
        return "kubernetes"
    return "deepspeed" if _DEEPSPEED.search(text) and not _TRAINING_ARGUMENTS.search(text) else None


_SOURCING = frozenset({"source", "."})
_FILE_OPTIONS = {"deepspeed": "hostfile", "mpirun": "hostfile", "docker": "env-file", "podman": "env-file"}
"""Option that names a file, by program."""
_ENV_FILES = r"services\.[^.\[]+\.env_file(?:\[\d+\])?(?:\.path)?"
_RELATIVE = re.compile(r"(?:\./)?[\w.][\w./@+-]*")


def named_files(document: Document) -> tuple[str, ...]:
    """Return the relative paths of files that belong to a script or a compose file.

    A script sources them, starts them in a step or a shell (`srun bash -c ./launch.sh`), or gives them to a
    launcher as a list of hosts or of variables; a compose file names them in `env_file`. Paths with variables
    and paths above the folder of the file are left out.
    """
    if document.kind not in ("shell", "sbatch", "compose"):
        return ()
    names: dict[str, None] = dict.fromkeys(str(item.value) for item in entries(document, _ENV_FILES))
    for command in document.commands:
        if command.program in _SOURCING and command.arguments and command.arguments[0].is_literal:
            names[command.arguments[0].text] = None
        if command.inside and command.program.endswith(".sh") and _starts_beside(document, command):
            names[command.program] = None
        for path in (option(command, _FILE_OPTIONS.get(command.program, "")) or "").split("\n"):
            names[path] = None
    return tuple(name for name in names if _RELATIVE.fullmatch(name) and ".." not in name.split("/"))


def _starts_beside(document: Document, command: Command) -> bool:
    """Return whether the line of a command names its script without a folder, or with `./`."""
    line = document.lines[command.place.line - 1] if command.place.line <= len(document.lines) else ""
    return re.search(rf"(?<![\w./@+-])(?:\./)?{re.escape(command.program)}(?![\w./])", line) is not None


_WAIVER = re.compile(r"(?:#|//)\s*rigtune:\s*(ignore(?:-file)?)\b(?:=([\w,-]*))?")
_COMMENT_LINE = re.compile(r"\s*(#|//|$)")


def waived_in(text: str) -> dict[int, tuple[str, ...]]:
    """Return the waived rules by line; 0 is the whole file."""
    if "rigtune:" not in text:
        return {}
    lines = text.split("\n")
    waived: dict[int, tuple[str, ...]] = {}
    for number, line in enumerate(lines, start=1):
        match = _WAIVER.search(line)
        if match is None:
            continue
        rules = tuple(name for name in (match[2] or "").split(",") if name) or ("all",)
        if match[1] == "ignore-file":
            waived[0] = waived.get(0, ()) + rules
            continue
        first = number
        if _COMMENT_LINE.match(line):
            first += 1
            while first < len(lines) and _COMMENT_LINE.match(lines[first - 1]):
                first += 1
        for covered in _statement(lines, first):
            waived[covered] = waived.get(covered, ()) + rules
    return waived


def _statement(lines: list[str], first: int) -> range:
    last = first
    while last < len(lines) and lines[last - 1].rstrip("\r").endswith("\\"):
        last += 1
    return range(first, last + 1)
