"""Test redacted linting: no name or secret of a script appears."""

from __future__ import annotations

import re

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.usecases.lint import Linted, judge_documents, redacted
from recipes.lint.context import Context
from recipes.lint.reading import read_document

SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --nodelist={host}
#SBATCH --gpu-per-node=8
export MASTER_ADDR={host}
export HF_TOKEN=hf_{body}
export NCCL_IB_TIMEOUT={host}
export NCCL_IB_RETRY_CNT=https://store.example.com/a?X-Amz-Signature={body}
export NCCL_SOKET_IFNAME=/home/{user}/eth0
torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint={host}:99999 /home/{user}/train.py
"""
hosts = st.one_of(
    st.sampled_from(["gpu07", "n1", "node12", "gpu-7", "worker-3"]),
    st.from_regex(r"wq[a-z]{1,6}-?[0-9]{1,3}", fullmatch=True),
)


@settings(deadline=None, max_examples=30)
@given(
    host=hosts,
    user=st.from_regex(r"wq[a-z]{3,9}z", fullmatch=True),
    body=st.from_regex(r"[A-Za-z]{10,20}[0-9][A-Za-z0-9]{9,20}", fullmatch=True),
)
def test_names_and_secrets_of_a_script_are_reported_nowhere(host: str, user: str, body: str) -> None:
    document = read_document(
        f"/home/{user}/{host}/train.sbatch", SCRIPT.format(host=host, user=user, body=body)
    )
    assert document is not None
    report = redacted(Linted(report=judge_documents((document,), Context()), documents=(document,))).report
    assert len(report.findings) >= 3
    words = msgspec.json.encode(report).decode()
    for name in (host, user):
        assert not re.search(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", words)
    assert body[:8] not in words
