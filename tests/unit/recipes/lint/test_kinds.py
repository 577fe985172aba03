"""Recognition of launch files, and reading of templates and of files that editors and programs wrote."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.lint.document import Document, DocumentKind
from recipes.lint.reading import recognise
from tests.support.linting import judge, read, usable_rules


def given_by(document: Document) -> dict[str, str | None]:
    return {item.name: item.value for item in document.settings}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "    export NCCL_DEBUG=INFO\n    torchrun train.py\n"),
        ("Makefile", "train:\n\ttorchrun --nproc-per-node 8 train.py\n"),
        (
            "ci.yml",
            "on: [push]\njobs:\n  test:\n    steps:\n      - run: torchrun t.py\n        env:\n          "
            "NCCL_P2P_DISABLE: 1\n",
        ),
        ("package.json", '{"name": "x", "fp16": {}}'),
        ("config.json", '{"hidden_size": 4096, "torch_dtype": "bfloat16"}'),
        (
            "train.json",
            '{"model": "m", "train_batch_size": 32, "bf16": true, "gradient_accumulation_steps": 4}',
        ),
        ("arguments.json", '{"per_device_train_batch_size": 1, "deepspeed": {"bf16": {"enabled": true}}}'),
        (
            "sft.yaml",
            "model_name_or_path: m\nbf16: true\nfsdp_config:\n  transformer_layer_cls_to_wrap: Block\n",
        ),
        ("actor.yaml", "_target_: a.b.C\nfsdp_config:\n  wrap_policy: null\n"),
        ("prometheus.yml", "scrape_configs:\n  - job_name: nccl\n"),
    ],
)
def test_other_files_are_not_recognised(name: str, text: str) -> None:
    assert recognise(name, text) is None


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("Dockerfile.train", "FROM a:1\n", "dockerfile"),
        ("build", "ARG V=1\nFROM --platform=linux/amd64 a:${V} AS b\nENV A=1\n", "dockerfile"),
        ("train.py", "from torch import nn\nimport os\n", "python"),
        ("train.py.jinja", "import {{ package }}\n", None),
        ("job.sbatch.j2", "#!/bin/bash\n#SBATCH --nodes={{ nodes }}\n", "sbatch"),
        ("pod.yaml.tmpl", "apiVersion: v1\nkind: Pod\n", "kubernetes"),
        (
            "_helpers.tpl",
            '{{- define "env" -}}\n- {name: NCCL_CROSS_NIC, value: "0"}\n{{- end -}}\n',
            "kubernetes",
        ),
        (".env.example", "NCCL_DEBUG=WARN\n", "dotenv"),
        ("sky.yaml", "num_nodes: 2\nrun: |\n  deepspeed --hostfile h train.py\n", "kubernetes"),
        ("ds.json", '{"zero_optimization": {"stage": 2}}', "deepspeed"),
        ("devcontainer.json", "{}", "devcontainer"),
        ("tf.json", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}', "tf-config"),
    ],
)
def test_launch_files_are_recognised(name: str, text: str, kind: str) -> None:
    assert recognise(name, text) == kind


@pytest.mark.parametrize(
    "key",
    [
        "env_vars",
        "envVars",
        "env_variables",
        "environment_variables",
        "EnvironmentVariables",
        "envs",
        "extraEnv",
    ],
)
def test_environments_by_the_names_that_tools_give_them(key: str) -> None:
    assert given_by(read("a.yaml", f"job:\n  {key}:\n    NCCL_CROSS_NIC: '0'\n")) == {"NCCL_CROSS_NIC": "0"}


def test_variables_that_kustomize_puts_into_a_config_map() -> None:
    text = "kind: Kustomization\nconfigMapGenerator:\n  - name: n\n    literals:\n      - NCCL_CROSS_NIC=0\n"
    assert given_by(read("kustomization.yaml", text)) == {"NCCL_CROSS_NIC": "0"}


def test_devcontainer_gives_variables_and_options_of_docker() -> None:
    text = (
        '{\n  // GPUs\n  "containerEnv": {"NCCL_DEBUG": "WARN"},\n  "runArgs": ["--gpus", "all", '
        '"--shm-size", "512m"]\n}\n'
    )
    document = read("devcontainer.json", text)
    assert given_by(document) == {"NCCL_DEBUG": "WARN"}
    (command,) = [command for command in document.commands if command.program == "docker"]
    assert command.options["shm-size"] == "512m"
    assert "container-shm" in {finding.rule_id for finding in judge(document)}


def test_python_sets_the_variables_that_it_assigns() -> None:
    text = (
        'import os\nos.environ["NCCL_SOKET_IFNAME"] = "eth0"\nos.environ["RANK"] = str(rank)\n'
        'os.environ.setdefault("NCCL_DEBUG", "WARN")\nos.environ.update({"A_B": "1"}, C_D="2")\n'
        'def f():\n    é = os.environ["NCCL_ALGO"] = "Ring"\n    os.environ["NCCL_PROTO"] = "Simple"\n'
    )
    document = read("train.py", text)
    assert given_by(document) == {
        "NCCL_SOKET_IFNAME": "eth0", "RANK": None, "NCCL_DEBUG": "WARN", "A_B": "1", "C_D": "2",
        "NCCL_PROTO": "Simple",
    }  # fmt: skip
    assert [item.name for item in document.settings if item.is_conditional] == ["NCCL_DEBUG", "NCCL_PROTO"]
    (finding,) = [finding for finding in judge(document) if finding.rule_id == "variable-misspelt"]
    assert finding.place.line == 2


@pytest.mark.parametrize(
    "text",
    [
        "PyTorch(instance_count=2, environment={{{0}}})\n",
        "x = client.submit(runtime_env={{'env_vars': {{{0}}}}})\n",
        "table = {{{0}}}\nos.environ.update(table)\n",
        "def f():\n    table = {{**base, {0}}}\n    run('a', env=table)\n",
        "@environment(vars={{{0}}})\ndef f(): ...\n",
    ],
)
def test_python_passes_an_environment_to_the_programs_that_it_starts(text: str) -> None:
    document = read(
        "launch.py", text.format("'NCCL_DEBUG': 'INFO', 'NCCL_TREE_THRESHOLD': str(0), 'note': 'a'")
    )
    assert given_by(document) == {"NCCL_DEBUG": "INFO", "NCCL_TREE_THRESHOLD": None}
    assert "variable-removed" in {finding.rule_id for finding in judge(document)}


@pytest.mark.parametrize(
    "text",
    [
        "NAMES = {'NCCL_DEBUG': 'how much NCCL writes'}\n",
        "table = {'NCCL_DEBUG': 'a'}\ntable = {}\nrun(env=table)\n",
        "run(env=environment(), args={'NCCL_DEBUG': 'a'})\n",
    ],
)
def test_other_tables_of_python_are_no_environment(text: str) -> None:
    assert read("launch.py", text).settings == ()


def test_a_single_instance_has_no_other_machine() -> None:
    text = "PyTorch(instance_count={}, environment={{'NCCL_IB_DISABLE': '1'}})\n"
    for count, is_reported in ((1, False), (2, True)):
        document = read("launch.py", text.format(count))
        assert ("ib-disabled" in {finding.rule_id for finding in judge(document)}) is is_reported


@pytest.mark.parametrize("text", ["def f(:\n", "x = '\\ud800'\n\0", "(" * 2000, "a.b = 1"])
def test_python_that_cannot_be_read_is_no_error(text: str) -> None:
    assert read("train.py", text).settings == ()


HELM = """\
{{- define "job.container" -}}
{{- $v := .v }}{{ $ib := .ib }}
- name: trainer
  image: {{ required "image" $v.image }}
  {{- with $v.args }}
  args: {{ toJson . }}
  {{- end }}
  env:
    - { name: NNODES, value: {{ .nodes | quote }} }
    {{- if gt $ib 0 }}
    - { name: NCCL_CROSS_NIC, value: "0" }
    {{- else }}
    - { name: NCCL_CROSS_NIC, value: "2" }
    {{- end }}
    {{- range $k, $x := $v.env }}
    - { name: {{ $k | quote }}, value: {{ $x | quote }} }
    {{- end }}
{{- end }}
{{- if gt (int .Values.nodes) 1 }}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "labels" . | nindent 4 }}
spec:
  containers:
    - name: other
      command: [bash, -c, "torchrun --nnodes={{ .Values.nodes }} train.py"]
{{- end }}
"""


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_helm_is_read_around_its_templates(line_break: str) -> None:
    document = read("job.yaml", HELM.replace("\n", line_break))
    assert document.problems == ()
    variables = given_by(document)
    assert (variables["NNODES"], variables["NCCL_CROSS_NIC"]) == (None, "0")
    assert [item.place.line for item in document.settings if item.name == "NCCL_CROSS_NIC"] == [11]
    assert any(command.program == "torchrun" for command in document.commands)
    assert judge(document) == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "ds.json",
            '{\n  {% if fp16 %}\n  "fp16": {"enabled": true},\n  {% else %}\n  "bf16": {"enabled": true},\n'
            '  {% endif %}\n  "zero_optimization": {"stage": {{ stage }}}\n}\n',
        ),
        (
            "acc.yaml",
            "distributed_type: DEEPSPEED\ndeepspeed_config:\n  {%- if s == 3 %}\n  zero3_init_flag: true\n"
            "  {%- endif %}\nnum_machines: {{ n }}\nnum_processes: {{ p }}\n",
        ),
    ],
)
def test_jinja_is_read_around_its_templates(name: str, text: str) -> None:
    document = read(name, text)
    assert (document.problems, judge(document)) == ((), ())


TWO = """\
apiVersion: v1
kind: Pod
spec:
  containers:
    - name: a
      env:
        - {name: NCCL_P2P_DISABLE, value: "1"}
    - name: b
      env:
        - {name: NCCL_P2P_LEVEL, value: SYS}
"""


def test_each_container_is_judged_alone() -> None:
    finding = TWO.replace("    - name: b\n      env:\n", "")
    rules = [{finding.rule_id for finding in judge(read("pod.yaml", text))} for text in (TWO, finding)]
    assert ["variable-conflict" in each for each in rules] == [False, True]


_PIECES = [
    "{{", "}}", "{%", "%}", "{#", " if ", " else ", " end ", " define ", "---\n", "\n", "- ", "a: ", "env:\n",
    " name: NCCL_ALGO", '"', "os.environ", '["A"]', " = ", "(", ")", "'x'", "{", "}", ",", "runArgs", ":",
    "containers:\n", "  ", "$",
]  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["kubernetes", "compose", "devcontainer", "python", "accelerate", "deepspeed"]
)
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(_PIECES), max_size=40))
def test_no_template_breaks_a_reader_or_a_rule(kind: DocumentKind, pieces: list[str]) -> None:
    judge(read("file", "".join(pieces), kind), only=usable_rules())


def test_forced_choices_for_deterministic_results_are_no_mistake() -> None:
    text = "export NCCL_PROTO={}\nexport NCCL_MIN_NCHANNELS=1\ntorchrun --nproc-per-node=8 t.py {}\n"
    for protocol, words, rules in (
        ("Simple", "--deterministic", set[str]()),
        ("LL128", "--deterministic", {"protocol-ll128"}),
        ("Simple", "", {"choice-forced"}),
    ):
        document = read("a.sh", text.format(protocol, words))
        assert {finding.rule_id for finding in judge(document)} == rules


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("\n" * 100_000 + "hello", None),
        (" \n" * 100_000 + "FROM", None),
        ("# a\n\nARG A=1\n" * 30_000 + "FROM a b c\n", None),
        ("# a\n\nARG A=1\n" * 30_000 + "FROM a:1\n", "dockerfile"),
        ("FROM " + "a" * 100_000 + " b", None),
        ("kind:\n" + " " * 100_000 + "\n" * 100_000, "kubernetes"),
        ("- name: a\n" + " " * 100_000 + "!", None),
    ],
    ids=["blank", "blanks", "arguments", "image", "word", "manifest", "list"],
)
def test_kind_of_a_long_text_takes_linear_time(text: str, kind: str | None) -> None:
    # a quadratic or exponential expression would take hours here
    assert recognise("file", text) == kind
