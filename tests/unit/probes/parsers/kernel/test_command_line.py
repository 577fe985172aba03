"""Read the arguments of the kernel's command line."""

from __future__ import annotations

import pytest

from probes.parsers.kernel.command_line import kernel_arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", ()),
        ("ro  iommu=pt\tquiet\n", ("ro", "iommu=pt", "quiet")),
        ('a="x y" "b=z w" c', ("a=x y", "b=z w", "c")),
        ("init-on-alloc=a-b", ("init_on_alloc=a-b",)),
        ("ro -- iommu=pt", ("ro",)),
        ('ro a="unclosed text', ("ro", "a=unclosed text")),
        ('""' * 20_000, ("",)),
    ],
)
def test_arguments(text: str, arguments: tuple[str, ...]) -> None:
    assert kernel_arguments(text) == arguments
