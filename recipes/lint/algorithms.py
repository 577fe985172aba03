"""Algorithms and protocols of NCCL."""

WORDS = {
    "NCCL_ALGO": ("ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat", "collnet"),
    "NCCL_PROTO": ("ll", "ll128", "simple"),
}
"""Words that each variable accepts.

Source: NVIDIA NCCL user guide, NCCL_ALGO and NCCL_PROTO, read on 2026-11-22.
"""


def unknown_words(name: str, value: str) -> list[str]:
    """Return the words of NCCL_ALGO or NCCL_PROTO that name no algorithm or protocol."""
    parts = [part.rpartition(":")[2] for part in value.lower().split(";")]
    words = [word for part in parts for word in part.lstrip("^").split(",")]
    return [word for word in words if word.strip() and word.strip() not in WORDS[name]]
