"""What an operator demands of a machine: which checks count, other limits, expected hardware and versions, waivers."""

from __future__ import annotations

from probes.record import StrictRecord


class Policy(StrictRecord, kw_only=True):
    """A policy file. The empty one is rigtune's own judgement."""

    schema_version: int = 1
