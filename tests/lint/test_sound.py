"""Correct texts that look like a mistake have no findings."""

from __future__ import annotations

import pytest

from tests.support.lint_sound_texts import SETTINGS_OF_OTHER_COMMANDS, SOUND_FILES, SOUND_SCRIPTS
from tests.support.linting import judge, read, rule_ids


@pytest.mark.parametrize(("name", "text"), SOUND_FILES.values(), ids=SOUND_FILES)
def test_sound_file_is_clean(name: str, text: str):
    assert rule_ids(name, text) == []


@pytest.mark.parametrize("text", SOUND_SCRIPTS.values(), ids=SOUND_SCRIPTS)
def test_sound_script_is_clean(text: str):
    assert rule_ids("a.sh", text) == []


@pytest.mark.parametrize("text", SETTINGS_OF_OTHER_COMMANDS.values(), ids=SETTINGS_OF_OTHER_COMMANDS)
def test_setting_does_not_harm_a_command_that_it_does_not_reach(text: str):
    assert rule_ids("a.sh", text) == []


def test_command_line_gives_the_processes_of_a_configuration() -> None:
    config = read(
        "two.yaml", "distributed_type: MULTI_GPU\nnum_machines: 2\nmain_process_ip: a\nnum_processes: 8\n"
    )
    other = read(
        "run.sh", "accelerate launch --config_file conf/two.yaml --num_processes 16 --machine_rank $R t.py\n"
    )
    assert {finding.rule_id for finding in judge(config)} == {"accelerate-processes"}
    assert judge(config, other) == ()


_MAP = "apiVersion: v1\nkind: ConfigMap\ndata:\n  zero.json: |\n"
_WORKFLOW = (
    "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n    - resource:\n        "
    "manifest: |\n"
)


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        (_MAP + '    {\n      "zero_optimization": {"stage": 7}\n    }\n', "deepspeed-stage", 6),
        (
            _MAP.replace("json", "yaml") + "    distributed_type: MULTI_GPU\n    mixed_precision: f16\n",
            "accelerate-type",
            6,
        ),
        (
            _WORKFLOW
            + "          apiVersion: v1\n          kind: Pod\n          spec:\n            containers:\n"
            "              - image: '{{inputs.parameters.i}}'\n                command: [torchrun, "
            "--nproc-per-node=4, t.py]\n                resources: {limits: {nvidia.com/gpu: 1}}\n",
            "kubernetes-gpus-fewer",
            12,
        ),
    ],
    ids=["json", "yaml", "manifest"],
)
def test_whole_files_in_a_manifest_are_judged_on_their_lines(text: str, rule: str, line: int):
    findings = judge(read("map.yaml", text))
    assert [(finding.rule_id, finding.place.line) for finding in findings] == [(rule, line)]
