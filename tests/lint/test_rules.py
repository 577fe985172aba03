"""Each rule detects the mistake in its short texts, edits remove the mistake, and no rule fails on a text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.lint.context import Context
from recipes.lint.finding import Edit
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint, load_rules
from tests.support.lint_script_texts import MACHINE, SCRIPT_MISTAKES
from tests.support.lint_texts import MISTAKES
from tests.support.linting import judge, read, rule_ids, usable_rules


def _label(value: object) -> str:
    return value if isinstance(value, str) and "\n" not in value else ""


@pytest.mark.parametrize(("rule_id", "name", "text"), MISTAKES, ids=_label)
def test_rule_finds_its_mistake(rule_id: str, name: str, text: str):
    assert rule_id in rule_ids(name, text, only=[rule_id])


@pytest.mark.parametrize(("rule_id", "text"), SCRIPT_MISTAKES, ids=_label)
def test_rule_finds_its_mistake_in_a_script(rule_id: str, text: str):
    assert rule_id in rule_ids("a.sh", text, only=[rule_id])


def test_script_overrules_nccl_conf():
    conf, script = read("nccl.conf", "NCCL_CROSS_NIC=0\n"), read("a.sh", "export NCCL_CROSS_NIC=2\n")
    findings = judge(conf, script, only=["conf-overruled"])
    assert "conf-overruled" in {finding.rule_id for finding in findings}


def _applied(text: str, edits: tuple[Edit, ...]) -> str:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for edit in sorted(edits, key=lambda one: (one.place.line, one.place.column), reverse=True):
        place = edit.place
        end_line, end_column = place.end_line or place.line, place.end_column
        assert end_column is not None
        begin, end = starts[place.line - 1] + place.column - 1, starts[end_line - 1] + end_column - 1
        text = text[:begin] + edit.text + text[end:]
    return text


@pytest.mark.parametrize(("rule_id", "name", "text"), MISTAKES, ids=_label)
def test_an_edit_removes_what_it_is_for(rule_id: str, name: str, text: str):
    for finding in judge(read(name, text), only=[rule_id]):
        edits = finding.edits or finding.unsafe_edits
        if edits:
            edited = read_document(name, _applied(text, edits))
            ids_after = {other.rule_id for other in judge(edited, only=[rule_id])} if edited else set()
            assert finding.rule_id not in ids_after


_WORDS = st.sampled_from(
    re.findall(
        r"\S+",
        "export NCCL_DEBUG= NCCL_IB_HCA= =mlx5_1 mlx5_1, ^ GLOO_SOCKET_IFNAME= "
        "srun torchrun --nnodes 2 --nproc-per-node $(( )) ' \" \\ "
        "#SBATCH --nodes= --gres=gpu: docker run --gpus all mpirun -H a,b -x bash -c train.py { } [ ] : , 0x "
        "099 $SLURM_PROCID "
        'CUDA_VISIBLE_DEVICES= TF_CONFIG= "cluster" apiVersion: kind: spec: containers: - name: 1e9 true '
        "null ulimit -s -n",
    )
)
_KINDS = {
    "a.sh": None,
    "a.sbatch": None,
    "Dockerfile": None,
    "p.yaml": "kubernetes",
    "ds.json": "deepspeed",
    "tf.json": "tf-config",
    "nccl.conf": None,
    "a.env": None,
    "hostfile": "hostfile",
    "compose.yaml": "compose",
}


@pytest.mark.parametrize("name", _KINDS)
@settings(max_examples=40, deadline=None)
@given(
    words=st.lists(st.one_of(_WORDS, st.text(max_size=4)), max_size=40),
    glue=st.sampled_from([" ", "\n", ""]),
)
def test_no_text_breaks_a_rule(name: str, words: list[str], glue: str):
    document = read_document(name, glue.join(words), _KINDS[name])  # type: ignore[arg-type]
    if document is not None:
        context = Context(machine=MACHINE, nccl_version="2.21.5")
        for finding in lint((document,), context, only=usable_rules()):
            assert finding.rule_id in load_rules()


def test_long_file_is_judged_to_its_end():
    launch = "srun -c 4 bash -c 'torchrun --nnodes 2 --node-rank $SLURM_NODEID train.py'\n"
    step = launch + "export NCCL_CROSS_NIC=0\n"
    assert judge(read("a.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\n" + step * 500))
