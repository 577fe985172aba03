"""Rules judge the settings that reach a command, and edits change only the mistake."""

from __future__ import annotations

import pytest

from probes.facts import Gpu, MachineFacts
from probes.facts.gpu_facts import NvLink
from recipes.lint.context import Context
from recipes.lint.editing import edited
from recipes.lint.finding import LintFinding
from tests.support.lint_script_texts import REACHING_MISTAKES
from tests.support.linting import judge, read, rule_ids


def _findings(text: str, context: Context | None = None) -> tuple[LintFinding, ...]:
    return judge(read("a.sh", text), context=context)


_RUN = "torchrun --standalone --nproc-per-node 8 train.py\n"
_TWO = "torchrun --nnodes 2 --node-rank $1 --nproc-per-node 8 --master-addr 10.0.0.1 train.py\n"


@pytest.mark.parametrize(("rule_id", "text"), REACHING_MISTAKES.values(), ids=REACHING_MISTAKES)
def test_setting_is_judged_with_the_command_that_gets_it(rule_id: str, text: str):
    assert rule_id in rule_ids("a.sh", text, only=[rule_id])


def _gpus(name: str, *, links: bool) -> Context:
    ports = (NvLink(index=0, active=True),) if links else ()
    return Context(
        machine=MachineFacts(gpus=tuple(Gpu(index=index, name=name, nvlinks=ports) for index in range(2)))
    )


_OFF = "export NCCL_P2P_DISABLE=1\n" + _RUN


@pytest.mark.parametrize(
    ("text", "context", "severity"),
    [
        (_OFF, Context(), "warning"),
        ("# NCCL\n" + _OFF, Context(), "warning"),
        ("# turn peers off if they do not work\n" + _OFF, Context(), "warning"),
        ('[ -z "$P2P" ] && ' + _OFF, Context(), "note"),
        ("# no P2P on this board\nexport NCCL_DEBUG=WARN\n" + _OFF, Context(), "note"),
        ("# no InfiniBand here\nexport NCCL_DEBUG=WARN\n" + _OFF, Context(), "warning"),
        ("# hangs on this board with the IOMMU on\n" + _OFF, Context(), "note"),
        (_OFF.replace("\n", "  # no P2P in these VMs\n", 1), Context(), "note"),
        (_OFF, _gpus("NVIDIA L40S", links=False), "note"),
        (_OFF, _gpus("NVIDIA H100 80GB HBM3", links=True), "warning"),
        (_OFF, _gpus("NVIDIA GeForce RTX 4090", links=False), None),
    ],
)
def test_severity_of_disabled_peers_follows_the_known_reason(
    text: str, context: Context, severity: str | None
):
    findings = [finding for finding in _findings(text, context) if finding.rule_id == "p2p-disabled"]
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert not any(finding.edits or finding.unsafe_edits for finding in findings)


def test_idle_nvlink_is_reported_only_if_the_board_may_have_it():
    assert "NVLink" not in _findings(_OFF, _gpus("NVIDIA L40S", links=False))[0].message


def _fixed(text: str, *, unsafe: bool = True) -> str:
    document = read("a.sh", text)
    return edited(document, judge(document, context=Context(torch_version="2.8.0")), unsafe=unsafe)


def test_new_name_replaces_the_old_name_everywhere():
    text = (
        'set -u\n# NCCL_DEBG of old\nexport NCCL_DEBG=WARN\necho "${NCCL_DEBG}"\nmpirun -np 8 -x NCCL_DEBG '
        "-x PATH t.py\n"
    )
    fixed = _fixed(text)
    assert fixed == text.replace("NCCL_DEBG", "NCCL_DEBUG").replace("# NCCL_DEBUG of", "# NCCL_DEBG of")


def test_name_that_the_file_uses_already_is_not_written():
    text = 'export NCCL_DEBG=WARN\necho "$NCCL_DEBUG"\n' + _RUN
    assert _fixed(text) == text


def test_line_is_kept_while_another_line_uses_its_variable():
    line = "export CUDA_LAUNCH_BLOCKING=1\n"
    assert _fixed(line + _RUN) == _RUN
    for text in (
        f'{line}echo "$CUDA_LAUNCH_BLOCKING"\n{_RUN}',
        f"{line}mpirun -np 8 -x CUDA_LAUNCH_BLOCKING -x PATH t.py\n",
    ):
        assert _fixed(text) == text


@pytest.mark.parametrize(
    "line", ["NCCL_P2P_DISABLE=1", "NCCL_IB_DISABLE=1", "NCCL_ALGO=Ring", "NCCL_NET_GDR_LEVEL=LOC"]
)
def test_setting_that_may_hide_a_fault_is_not_removed(line: str):
    text = f"export {line}\n{_TWO}"
    assert _findings(text)
    assert _fixed(text) == text


@pytest.mark.parametrize(
    ("value", "fixed"),
    [
        ("mlx5_1,mlx5_2", "=mlx5_1,mlx5_2"),
        ("mlx5_1,mlx5_bond", "mlx5_1,mlx5_bond"),
        ("mlx5_1,rocep", "mlx5_1,rocep"),
    ],
)
def test_adapters_are_named_exactly_if_all_names_are_complete(value: str, fixed: str):
    assert _fixed(f"export NCCL_IB_HCA={value}\n{_TWO}") == f"export NCCL_IB_HCA={fixed}\n{_TWO}"


_BLOCKING = "export CUDA_LAUNCH_BLOCKING=1\n"


@pytest.mark.parametrize(
    "text",
    [
        "# do not remove or the training will hang\n" + _BLOCKING,
        "# do not remove\n# NCCL\nexport NCCL_DEBUG=WARN\n" + _BLOCKING,
        "# hangs otherwise\n\n" + _BLOCKING,
        "# this is needed by the cluster\nexport A=1  # first\n" + _BLOCKING,
        _BLOCKING.replace("\n", "  # keep\n"),
        _BLOCKING.replace("\n", "\t# keep\n"),
        "# \u4e0d\u8981\u5220\u9664\n" + _BLOCKING,
        "# ne pas supprimer cette ligne\n" + _BLOCKING,
        "# hangs without\n" + _BLOCKING.replace("CUDA_LAUNCH_BLOCKING=1", "NCCL_TREE_THRESHOLD=0"),
        "# hangs without\n" + _BLOCKING.replace("CUDA_LAUNCH_BLOCKING", "NCCL_BLOCKING_WAIT"),
    ],
)
def test_line_with_a_reason_is_never_edited(text: str):
    assert judge(read("a.sh", text + _RUN))
    assert _fixed(text + _RUN) == text + _RUN


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("export NCCL_TREE_THRESHOLD=0\n", ""),
        ("export NCCL_BLOCKING_WAIT=1\n", "export TORCH_NCCL_BLOCKING_WAIT=1\n"),
        ("export GLOO_SOCKET_IFNAME==eth0\n", "export GLOO_SOCKET_IFNAME=eth0\n"),
        ("# NCCL\nexport NCCL_TREE_THRESHOLD=0\n", "# NCCL\n"),
    ],
)
def test_safe_edit_cannot_change_a_job_that_works(line: str, fixed: str):
    assert _fixed(line + _RUN, unsafe=False) == fixed + _RUN
    branch = f'if [ -n "$A" ]; then\n  echo b\n  {line.splitlines()[-1]}\nfi\n' + _RUN
    assert _fixed(branch, unsafe=False) == branch


@pytest.mark.parametrize(
    "line",
    [
        "export CUDA_LAUNCH_BLOCKING=1\n",
        "export NCCL_SOKET_IFNAME=eth0\n",
        "export NCCL_IB_HCA=mlx5_1,mlx5_2\n",
        "export NCCL_BUFFSIZE=4M\n",
        "export TORCH_DISTRIBUTED_DEBUG=DETAIL\n",
    ],
)
def test_edit_that_may_change_the_job_is_unsafe(line: str):
    assert _fixed(line + _TWO, unsafe=False) == line + _TWO
    assert _fixed(line + _TWO) != line + _TWO
