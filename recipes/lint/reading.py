"""Recognition of a launch file by its name and its text, and reading by the reader of its kind."""

from __future__ import annotations

import importlib
import re

import msgspec

from recipes.lint.document import Document, DocumentKind, Fault, lines_of

READERS: dict[DocumentKind, str] = {
    "shell": "shell",
    "sbatch": "shell",
    "dockerfile": "dockerfile",
    "compose": "compose",
    "kubernetes": "kubernetes",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "tf-config": "tf_config",
    "nccl-conf": "nccl_conf",
    "dotenv": "dotenv",
    "environment": "environment",
    "devcontainer": "devcontainer",
    "python": "python",
    "hostfile": "hostfile",
}
"""Module of `recipes.lint.readers` with `read(name, text) -> Document`, for each kind."""

_HOSTFILE = re.compile(r"[\w.-]*(?:hostfile|machinefile|nodefile|hosts?)[\w-]*(?:\.txt)?")
_SHEBANG = re.compile(r"#!.*\b(ba|z|k|da|tc|c)?sh\b")
_DIRECTIVE = re.compile(r"^#(SBATCH|PBS|BSUB)\b", re.MULTILINE)
_DOCKERFILE = re.compile(
    r"(?:[^\S\n]*(?:#[^\n]*|ARG [^\n]*)?\n)*"
    r"[^\S\n]*FROM\s+(?:--\S+\s+)?\S+(?:\s+AS\s+\S+)?[ \t\r]*(?:\n|$)",
    re.IGNORECASE,
)
"""Lines of comments and ARG, then FROM. Each line can match in one way only, so that the time is linear."""
_KUBERNETES = re.compile(r"^(apiVersion|kind):", re.MULTILINE)
_COMPOSE = re.compile(r"^services:", re.MULTILINE)
_ACCELERATE = re.compile(r"^(compute_environment|distributed_type|num_machines):", re.MULTILINE)
_YAML_KEY = re.compile(r"^[^\S\n]*(?:- (?:\{?[^\S\n]*)|\{[^\S\n]*)?[\w.\"'-]+:(?:\s|$)", re.MULTILINE)
_WORKFLOW = re.compile(r"^(on|jobs|stages|pipelines?|steps):", re.MULTILINE)
"""Keys of a service that builds and tests; its commands are no job."""
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
    """Return the file as a document; None if it is of no known kind.

    No text makes it raise an error.
    """
    recognised = kind or recognise(name, text)
    if recognised is None:
        return None
    text = text.removeprefix("\ufeff")
    document: Document = importlib.import_module(f"recipes.lint.readers.{READERS[recognised]}").read(
        name, text
    )
    if kind is None and not name.lower().endswith(_STRUCTURED_ENDINGS):
        return _without_faults(document)
    return document


def _without_faults(document: Document) -> Document:
    """Return the document with its faults as problems, as the file only looks like YAML or JSON."""
    reasons = tuple(f"line {fault.place.line}: {fault.reason}" for fault in document.faults)
    return (
        msgspec.structs.replace(document, problems=(*document.problems, *reasons), faults=())
        if reasons
        else document
    )


def fault_of_unknown(name: str, text: str) -> Fault | None:
    """Return the error of syntax that prevents recognition of a file.

    Only files whose name promises JSON or YAML have one.
    """
    if not name.lower().endswith(_STRUCTURED_ENDINGS):
        return None
    from recipes.lint.readers.tree import parse  # noqa: PLC0415 - files of known kinds have their reader

    return next(iter(parse(text, is_json=".json" in name.lower()).faults), None)


def recognise(name: str, text: str) -> DocumentKind | None:
    """Return the kind by the file's name if that is enough, else by its content."""
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
        from recipes.lint.readers.hostfile import is_hostfile  # noqa: PLC0415 - loaded for files of this name

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
    if _KUBERNETES.search(text) or _COMPOSE.search(text) or _ACCELERATE.search(text):
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
    if _KUBERNETES.search(text):
        return "kubernetes"
    if _COMPOSE.search(text):
        return "compose"
    if _ACCELERATE.search(text):
        return "accelerate"
    if len({match[1] for match in _WORKFLOW.finditer(text)}) > 1:
        return None  # one of these keys alone may be a job file's
    return "kubernetes" if _YAML_KEY.search(text) and _LAUNCHES.search(text) else None


def _json_kind(text: str) -> DocumentKind | None:
    if _TF_CONFIG.search(text) and not _DEEPSPEED.search(text):
        return "tf-config"
    if _ACCELERATE_JSON.search(text):
        return "accelerate"
    if re.search(r'"apiVersion"\s*:', text):
        return "kubernetes"
    return "deepspeed" if _DEEPSPEED.search(text) else None
