"""Readers of all kinds of launch files; no text makes a reader fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.lint.document import Document, DocumentKind
from recipes.lint.reading import READERS, read_document, recognise

POD = """\
apiVersion: v1
kind: Pod
spec:
  hostNetwork: true
  containers:
    - name: a
      command: [bash, -c]
      args:
        - |
          export A=1

          torchrun --nnodes=2 \\
            train.py {{ .Values.more }}
      env:
        - name: NCCL_IB_HCA  # rigtune: ignore=hca-prefix why not
          value: "mlx5_1"
        - name: B
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
      resources: {limits: {nvidia.com/gpu: 8, memory: 64Gi}}
---
kind: ConfigMap
data:
  NCCL_DEBUG: "WARN"
  nccl.conf: |
    NCCL_IB_TC=106
"""
DOCKERFILE = """\
# syntax=docker/dockerfile:1
FROM a/b:1
ENV NCCL_DEBUG=INFO \\
    # a comment
    NCCL_IB_HCA="mlx5_0,mlx5_1"
ENV OLD one two
RUN export C=1 && make
CMD ["torchrun", "--nnodes=2", "train.py"]
"""
COMPOSE = """\
services:
  a:
    environment: ["NCCL_DEBUG=INFO", "HOST=$HOST"]
    command: torchrun --nnodes 2 train.py
    shm_size: 1g
"""
DEEPSPEED = (
    '{\n // comment\n "train_batch_size": "auto",\n "zero_optimization": {"stage": 3, "sizes": [1e-5, true, '
    "null,],}\n}\n"
)
ACCELERATE = (
    "compute_environment: LOCAL_MACHINE\nnum_processes: 16\nfsdp_config:\n  fsdp_offload_params: false\n"
)
TF_CONFIG = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
DOTENV = 'A=1 # comment\nexport B="x y"\nC=$A\nno variable\n'
CONF = "# comment\nNCCL_DEBUG=WARN # no comment\n NCCL_X = 1\nnothing\n"
SHELL = (
    "#!/bin/sh\nexport A='$(' B=${C:-`d`}\nif [[ $A ]]; then\n srun bash -c \"torchrun $X\" <<E; fi\nE\ncase "
    "a in b) c;; esac\n"
)


def read(text: str, kind: DocumentKind | None = None, name: str = "file") -> Document:
    document = read_document(name, text, kind)
    assert document is not None
    return document


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("x", POD, "kubernetes"),
        ("job.yaml", POD, "kubernetes"),
        ("x", DOCKERFILE, "dockerfile"),
        ("Dockerfile.gpu", "", "dockerfile"),
        ("x", COMPOSE, "compose"),
        ("x", DEEPSPEED, "deepspeed"),
        ("ds.json", DEEPSPEED, "deepspeed"),
        ("x", ACCELERATE, "accelerate"),
        ("tf.json", TF_CONFIG, "tf-config"),
        ("x", "A=1\nB=2\n", "dotenv"),
        ("/etc/nccl.conf", CONF, "nccl-conf"),
        (".env.production", DOTENV, "dotenv"),
        ("x", SHELL, "shell"),
        ("x", "#!/bin/bash\n#SBATCH -N 2\n", "sbatch"),
        ("x", "set -e\ntorchrun a.py\n", "shell"),
        ("x.json", '{"a": 1}', None),
        ("notes.md", "Hello there.\n", None),
        ("x", "", None),
    ],
)
def test_kinds(name: str, text: str, kind: DocumentKind | None) -> None:
    assert recognise(name, text) == kind


def test_kubernetes() -> None:
    document = read(POD)
    assert {setting.name: (setting.value, setting.place.line) for setting in document.settings} == {
        "NCCL_IB_HCA": ("mlx5_1", 15),
        "B": (None, 17),
        "A": ("1", 10),
        "NCCL_DEBUG": ("WARN", 23),
        "NCCL_IB_TC": ("106", 25),
    }
    assert [(command.program, command.place.line, command.place.column) for command in document.commands] == [
        ("bash", 7, 17),
        ("torchrun", 12, 11),
        ("train.py", 13, 13),
    ]
    entries = {entry.path: entry.value for entry in document.entries}
    assert entries["spec.hostNetwork"] is True
    assert entries["spec.containers[0].resources.limits.nvidia.com/gpu"] == 8
    assert entries["[1].kind"] == "ConfigMap"
    assert document.waived == {15: ("hca-prefix",)}
    assert not document.problems


def test_dockerfile() -> None:
    document = read(DOCKERFILE)
    assert [
        (setting.name, setting.value, setting.place.line, setting.reaches) for setting in document.settings
    ] == [
        ("NCCL_DEBUG", "INFO", 3, "all"),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_1", 5, "all"),
        ("OLD", "one two", 6, "all"),
        ("C", "1", 7, "command"),
    ]
    assert [command.program for command in document.commands] == ["make", "torchrun", "train.py"]


def test_compose() -> None:
    document = read(COMPOSE)
    assert [(setting.name, setting.value) for setting in document.settings] == [
        ("NCCL_DEBUG", "INFO"),
        ("HOST", None),
    ]
    assert [command.program for command in document.commands] == ["torchrun", "train.py"]


def test_json_with_comments() -> None:
    entries = {
        entry.path: (entry.value, entry.place.line, entry.place.column) for entry in read(DEEPSPEED).entries
    }
    assert entries["train_batch_size"] == ("auto", 3, 22)
    assert entries["zero_optimization.stage"] == (3, 4, 33)
    assert [entries[f"zero_optimization.sizes[{number}]"][0] for number in range(3)] == [1e-5, True, None]


def test_accelerate_and_tf_config() -> None:
    assert {entry.path: entry.value for entry in read(ACCELERATE).entries}[
        "fsdp_config.fsdp_offload_params"
    ] is False
    assert {entry.path: entry.value for entry in read(TF_CONFIG).entries}["cluster.worker[1]"] == "b:1"


def test_nccl_conf_is_read_literally() -> None:
    document = read(CONF, "nccl-conf")
    assert [(setting.name, setting.value) for setting in document.settings] == [
        ("NCCL_DEBUG", "WARN # no comment"),
        (" NCCL_X ", " 1"),
    ]
    assert document.problems == ("line 4: not NAME=value, so NCCL ignores the line",)


def test_dotenv() -> None:
    document = read(DOTENV, "dotenv")
    assert [(setting.name, setting.value) for setting in document.settings] == [
        ("A", "1"),
        ("B", "x y"),
        ("C", None),
    ]
    assert document.problems == ("line 4: not NAME=value",)


def test_invalid_yaml_is_a_fault_of_the_file() -> None:
    document = read("apiVersion: v1\nkind: [\n", "kubernetes")
    assert [fault.place.line for fault in document.faults] == [3]
    assert document.faults[0].reason.startswith("not valid YAML: ")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("kind: Pod\nname: {{ .Values.name }}\n  b: 1\n", "kubernetes"),
        ("kind: Pod\nimage: @IMAGE@\n", "kubernetes"),
        ("kind: Pod\nspec: {replicas: ${COUNT}}}\n", "kubernetes"),
        ("services:\n  <% if gpu %>\n  a:\n   b: 1\n", "compose"),
    ],
)
def test_placeholders_of_other_programs_are_no_fault(text: str, kind: DocumentKind) -> None:
    document = read(text, kind)
    assert document.problems
    assert document.faults == ()


def test_text_that_only_looks_like_yaml_has_no_faults() -> None:
    text = "kind: Pod\nname: a: b\n"
    doubted, named = read_document("notes", text), read_document("notes", text, "kubernetes")
    assert doubted is not None
    assert (doubted.faults, doubted.problems) == (
        (),
        ("line 2: not valid YAML: mapping values are not allowed here",),
    )
    assert named is not None
    assert [fault.place.line for fault in named.faults] == [2]
    assert recognise("pod.patch", text) is None


def test_comments_and_a_last_comma_are_no_fault_in_the_json_of_deepspeed() -> None:
    assert read('{"zero_optimization": {"stage": 2},  // as hjson\n}\n', "deepspeed").faults == ()


def test_waivers() -> None:
    text = (
        "# rigtune: ignore=a,b because\n# more\nsrun \\\n  x\ny  # rigtune: ignore\n# rigtune: "
        "ignore-file=c\n"
    )
    assert read(text, "shell").waived == {3: ("a", "b"), 4: ("a", "b"), 5: ("all",), 0: ("c",)}


_SEEDS = (POD, DOCKERFILE, COMPOSE, DEEPSPEED, ACCELERATE, TF_CONFIG, DOTENV, CONF, SHELL)
_BITS = (
    "$(",
    '"',
    "'",
    "`",
    "<<E\n",
    "\\",
    "\n",
    "((",
    "[[",
    "case x in",
    "fi",
    "{{",
    "}}",
    "&a",
    "*a",
    "|\n",
    "\0",
    "\ud800",
    "=(",
    "\t",
)


@pytest.mark.parametrize("kind", [*READERS, None])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_no_text_makes_a_reader_fail(kind: DocumentKind | None, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(_SEEDS) | st.text())
    for _ in range(data.draw(st.integers(0, 5))):
        start = data.draw(st.integers(0, len(seed)))
        end = min(len(seed), start + data.draw(st.integers(0, 40)))
        seed = seed[:start] + data.draw(st.sampled_from(_BITS) | st.text(max_size=5)) + seed[end:]
    document = read_document("file", seed, kind)
    if document is None:
        return
    lines = seed.removeprefix("\ufeff").count("\n") + 1
    for item in (*document.settings, *document.commands, *document.directives, *document.entries):
        assert 1 <= item.place.line <= lines
        assert item.place.column >= 1


@pytest.mark.parametrize("piece", ["$(", "a=(", "[", "- ", "bash -c '", "{{", "case x in ", '"$(', "<<A "])
@pytest.mark.parametrize("kind", ["shell", "kubernetes", "dockerfile"])
def test_nesting_ends(kind: DocumentKind, piece: str) -> None:
    assert read(piece * 4000, kind).kind == kind


@pytest.mark.parametrize("separator", ["\x85", "\x0b", "\x0c", "\x1c", "\u2028"])
def test_lines_are_counted_as_editors_do(separator: str) -> None:
    document = read_document("hosts", f"# a{separator}b\r\nnode1 slots=8\r\n", "hostfile")
    assert document is not None
    assert [entry.place.line for entry in document.entries] == [2, 2]


def test_a_python_variable_whose_name_is_computed_is_no_setting() -> None:
    document = read(
        'import os\nos.environ[name] = "1"\nos.environ[0] = "2"\nos.environ["NCCL_DEBUG"] = "INFO"\n',
        "python",
    )
    assert [setting.name for setting in document.settings] == ["NCCL_DEBUG"]
