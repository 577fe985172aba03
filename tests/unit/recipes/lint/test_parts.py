"""Files that a script writes in here-documents, and names that `-x` passes on."""

from __future__ import annotations

import pytest

from recipes.lint.finding import LintFinding, without_waived
from recipes.lint.reading import read_document
from tests.support.linting import judge, read

_POD = """apiVersion: v1
kind: Pod
spec:
  containers:
    - name: a
      image: trainer:v1
      resources:
        limits:
          nvidia.com/gpu: ${GPUS}
      env:
        - name: NCCL_SOKET_IFNAME
          value: "eth0"
"""


def _findings(text: str) -> tuple[LintFinding, ...]:
    return judge(read("run.sh", text))


@pytest.mark.parametrize("word", ["EOF", "'EOF'", '"EOF"', "\\EOF"])
@pytest.mark.parametrize(
    "command", ["kubectl apply -f - <<{}", "cat > pod.yaml << {}", "cat <<{} | kubectl apply -f -"]
)
def test_a_manifest_in_a_script_is_judged(command: str, word: str) -> None:
    findings = _findings("#!/bin/bash\nset -e\n" + command.format(word) + "\n" + _POD + "EOF\necho done\n")
    assert [(item.rule_id, item.place.line, item.document) for item in findings] == [
        ("variable-misspelt", 14, "run.sh")
    ]


def test_several_files_of_a_script_are_judged() -> None:
    config = (
        'cat > ds.json <<J\n{"zero_optimization": {"stage": 2}, "offload_optimizer": {"device": "cpu"}}\nJ\n'
    )
    findings = _findings("#!/bin/bash\n" + config + "kubectl apply -f - <<Y\n" + _POD + "Y\n")
    assert [(item.rule_id, item.place.line) for item in findings] == [
        ("deepspeed-misplaced", 3),
        ("variable-misspelt", 16),
    ]


def test_escaped_variables_belong_to_the_inner_file() -> None:
    words = (
        'accelerate config <<EOF\ncompute_environment: LOCAL_MACHINE\nmain_process_ip: "\\$HEAD"\n'
        "num_machines: two\nEOF\n"
    )
    assert _findings("#!/bin/bash\n" + words) == _findings("#!/bin/bash\n" + words.replace("\\$", "$"))


@pytest.mark.parametrize(
    "text",
    [
        "cat <<EOF\n" + _POD,
        "# kubectl apply -f - <<EOF\n#" + _POD.replace("\n", "\n#") + "\n",
        "cat <<<EOF\necho\n",
        "cat <<EOF > notes.txt\nNCCL_SOKET_IFNAME: eth0 is what you write in the env of torchrun\nEOF\n",
    ],
)
def test_text_that_is_no_file_is_ignored(text: str) -> None:
    assert not _findings("#!/bin/bash\n" + text)


def test_a_comment_in_the_file_waives() -> None:
    waived = _POD.replace("IFNAME\n", "IFNAME # rigtune: ignore=variable-misspelt\n")
    document = read_document("run.sh", "#!/bin/bash\ncat <<EOF > pod.yaml\n" + waived + "EOF\n")
    assert document is not None
    assert without_waived(judge(document), (document,)) == ((), 1)


@pytest.mark.parametrize(
    "words",
    ["-x NCCL_CROSS_NIC=0", "-x NCCL_SOCKET_IFNAME -x NCCL_DEBUG=INFO", "-x NCCL_ASYNC_ERROR_HANDLING"],
)
def test_names_with_a_reader_are_not_reported(words: str) -> None:
    assert "variable-misspelt" not in {
        item.rule_id for item in _findings(f"#!/bin/bash\nmpirun -np 8 {words} ./train\n")
    }
