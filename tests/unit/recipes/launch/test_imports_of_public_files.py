"""Test forms of public launch files: defaults of the shell, steps of a job, comments in arrays, `auto`."""

from __future__ import annotations

import pytest

from tests.support.imported_launch import imported, kept, stated

TORCHRUN = "torchrun --nnodes 1 --nproc-per-node 8 "
MEGATRON = f"{TORCHRUN}pretrain_gpt.py --tensor-model-parallel-size "


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (': "${TP:=4}"', "4"),
        (": ${TP:=4}", "4"),
        (': "${TP=4}"  # usual', "4"),
        ("TP=${TP:=4}", "4"),
        ("TP=2\n: ${TP:=4}", "2"),
        ('if true; then\n  : "${TP:=4}"\nfi', None),
    ],
)
def test_a_value_for_the_case_that_the_shell_has_none_is_read(line, value):
    assert stated(imported(("a.sh", f"{line}\n{MEGATRON}$TP"))).get("tp") == value


def test_a_degree_that_only_the_run_decides_is_missing_and_not_one():
    answer = imported(("a.sh", f"{MEGATRON}$TP --lr-warmup-iters $WARM"), model="gpt2")
    why = {each.setting: each.why for each in answer.missing}
    assert why["tp"] == "--tensor-model-parallel-size $TP (a.sh:1) is known only when the job runs"
    assert "warmup_steps" in why
    assert "warmup_steps" not in {each.setting for each in answer.assumed}
    answer = imported(("a.sh", f"{MEGATRON}$TP --lr-warmup-iters $WARM"), warmup_steps=5)
    assert "warmup_steps" not in {each.setting for each in answer.missing}


def test_the_warm_up_of_megatron_may_be_stated_in_samples():
    words = (
        "1 --micro-batch-size 1 --global-batch-size 64 --train-samples 6400 --lr-warmup-samples 100 "
        "--lr 1e-4 --seq-length 512 --bf16"
    )
    recipe = imported(("a.sh", MEGATRON + words), model="gpt2").recipe
    assert (recipe.convergence.steps, recipe.convergence.warmup_steps) == (100, 2)


def test_a_stated_share_is_not_called_absent():
    answer = imported(("a.sh", f"{TORCHRUN}run_clm.py --warmup_ratio 0.1"))
    assert "warmup_steps" not in {each.setting for each in answer.assumed}


def test_an_option_of_srun_takes_precedence_for_its_step():
    script = (
        "#!/bin/bash\n#SBATCH --nodes=9\n"
        "srun --nodes=8 --ntasks=8 torchrun --nnodes 8 --nproc-per-node 8 t.py\n"
    )
    answer = imported(("a.sbatch", script))
    assert stated(answer)["nodes"] == "8"
    assert "#SBATCH --nodes=9" in kept(answer)


def test_comments_in_an_array_are_not_kept_as_commands():
    script = (
        f'ARGS=(\n  # the peak\n  --lr 1e-4 # as in a paper\n  --steps 5\n)\n{TORCHRUN}t.py "${{ARGS[@]}}"\n'
    )
    answer = imported(("a.sh", script))
    assert stated(answer)["learning_rate"] == "1e-4"
    assert "#" not in kept(answer)


def test_values_that_leave_a_setting_to_the_program_are_understood():
    text = '{"fp16": {"enabled": false}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}'
    answer = imported(("ds_config.json", text))
    why = {each.text.partition(":")[0]: each.why for each in answer.kept}
    assert set(why) == {"fp16.enabled", "bf16.enabled"}
    assert set(why.values()) == {"leaves the setting to the program's other settings"}


def test_a_file_that_a_variable_names_can_be_the_one_that_was_given():
    script = ("a.sh", f"{TORCHRUN}run_clm.py --deepspeed $CONFIG")
    config = ("ds.json", '{"zero_optimization": {"stage": 2}}')
    assert any("$CONFIG is named" in note for note in imported(script).notes)
    assert not any("is named" in note for note in imported(script, config).notes)
    other = ("a.sh", "accelerate launch --config_file acc.yaml run_clm.py --deepspeed $CONFIG")
    settings = ("acc.yaml", "distributed_type: FSDP\nnum_machines: 1\n")
    assert any("$CONFIG is named" in note for note in imported(other, settings).notes)


def test_a_comment_with_quotes_is_no_part_of_a_value_of_toml():
    text = (
        '[training]\nseq_len = 512 # not "1024"\n'
        "[activation_checkpoint]\nmode = 'full'  # ['none', \"full\"]\n"
    )
    written = {each.setting: each.written for each in imported(("a.toml", text)).settings}
    assert written["sequence_length"] == "training.seq_len: 512"
    assert written["activation_checkpointing"] == "activation_checkpoint.mode: 'full'"


def test_the_keys_of_a_pod_whose_values_are_read_are_not_kept():
    text = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: job\nspec:\n"
        "  pytorchReplicaSpecs:\n"
        "    Worker:\n      replicas: 2\n      template:\n        spec:\n          containers:\n"
        "          - name: pytorch\n            env:\n            - name: NCCL_DEBUG\n"
        "              value: INFO\n"
        "            command:\n            - torchrun\n            - --nproc_per_node=8\n            - t.py\n"
    )
    answer = imported(("job.yaml", text))
    assert ("NCCL_DEBUG", "INFO") in {(each.name, each.value) for each in answer.environment}
    assert not {each.text for each in answer.kept} & {"-", "- name:", "value:"}


def test_settings_in_an_option_of_json_are_read():
    kwargs = """--lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs '{"min_lr_rate": 0.25}'"""
    answer = imported(("a.sh", f"{TORCHRUN}run_clm.py {kwargs}"))
    assert stated(answer)["final_share"] == "0.25"
    assert stated(answer)["lr_schedule"] == "cosine"
    assert "final_share" not in stated(imported(("a.sh", f"{TORCHRUN}run_clm.py --lr_scheduler_kwargs '{{'")))


TITAN = f"{TORCHRUN}-m torchtitan.train --training.seq-len 512 --lr-scheduler.decay-type "


@pytest.mark.parametrize(
    ("words", "schedule"),
    [
        ("cosine --lr-scheduler.decay-ratio None", "cosine"),
        ("cosine --lr-scheduler.decay-ratio 0.2", "wsd"),
        ("linear", "linear"),
    ],
)
def test_the_form_and_the_part_of_a_decay_state_the_schedule_of_torchtitan(words, schedule):
    sizes = {"steps": 100, "learning_rate": 1e-4, "micro_batch": 1, "grad_accum": 1, "strategy": "ddp"}
    recipe = imported(("a.sh", f"{TITAN}{words}"), model="gpt2", **sizes).recipe
    assert recipe.convergence.schedule == schedule


@pytest.mark.parametrize("mode", ["none", "selective", "full"])
def test_the_recomputation_of_torchtitan_is_a_word_without_dashes(mode):
    answer = imported(("a.sh", f"{TITAN}cosine activation-checkpoint:{mode}"))
    assert stated(answer)["activation_checkpointing"] == mode
