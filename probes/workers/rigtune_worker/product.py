"""Compute and check matrix products C[m, n] = A[m, k] B[k, n] by dtype, on random data.

With zeros a GPU would use less power and run at higher clocks.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import torch

from .cases import SkipCaseError
from .protocol import CaseError, first_line, is_out_of_memory

DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
}
LEAST_CAPABILITY = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
"""Lowest compute capability with tensor cores for the type: 8.0 is Ampere, 8.9 is Ada.

Source: CUDA C++ Programming Guide, 'Compute Capabilities'. On older GPUs torch emulates bf16, so a rate would
not be the rate of the hardware.
"""
FLUSH_BYTES = 256 * 1024**2
"""Bytes that are more than any GPU's L2 cache (126 MB on B200)."""
CHECKED = 64
"""Number of compared rows and columns of the result."""
TOLERANCE = {"fp32": 0.01, "tf32": 0.01, "fp16": 0.01, "bf16": 0.05, "fp8": 0.5}
"""Largest allowed error divided by sqrt(k), which is the standard deviation of the result's elements.

The largest of the compared elements is about 4.5 standard deviations from zero. Rounding changes an element
by up to half a unit in the last place: 2**-11 of its value in fp16 and 2**-8 in bf16. tf32 rounds the
operands to 2**-11. The limits are larger, because a GPU adds partial sums in another order. fp8 products are
summed with about 14 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.2). Faults cause errors of at least a
standard deviation.
"""


def memory_bytes(case: dict[str, Any]) -> int:
    """Return the memory of a case {dtype, m, n, k}: operands, result, and one temporary operand in fp32."""
    m, n, k, stored = case["m"], case["n"], case["k"], DTYPES[case["dtype"]].itemsize
    return stored * (m * k + k * n + m * n) + (4 * max(m * k, k * n) if stored < 4 else 0)


class Product:
    """The product of one case {dtype, m, n, k}. Raises SkipCaseError if the device lacks the arithmetic."""

    def __init__(self, case: dict[str, Any], device: torch.device) -> None:
        self.dtype, self.k = case["dtype"], case["k"]
        missing = lacks(self.dtype, device)
        if missing:
            raise SkipCaseError(missing)
        torch.set_float32_matmul_precision("high" if self.dtype == "tf32" else "highest")
        stored = DTYPES[self.dtype]
        # The closures refer to the operands and not to `self`: a cycle would keep the device's memory until
        # a garbage collection.
        a = torch.randn(case["m"], case["k"], device=device).to(stored)
        if self.dtype == "fp8":
            # The second operand must be column-major (torch._scaled_mm).
            b = torch.randn(case["n"], case["k"], device=device).to(stored).t()
            self.multiply = fp8_product(a, b)
        else:
            b = torch.randn(case["k"], case["n"], device=device).to(stored)
            c = torch.empty(case["m"], case["n"], device=device, dtype=stored)
            self.multiply = lambda: torch.mm(a, b, out=c)
        self.a, self.b = a, b

    def check(self) -> None:
        """Compare some rows and columns of a product with a product in fp64.

        Raises CaseError (wrong_result).
        """
        result = self.multiply()
        wrong = largest_error(self.a, self.b, result) / math.sqrt(self.k)
        if not wrong <= TOLERANCE[self.dtype]:
            raise CaseError(
                "wrong_result",
                f"a {self.dtype} product is off by {wrong:.2g} standard deviations of its elements,"
                f" but rounding explains only {TOLERANCE[self.dtype]:g}: silent data corruption",
            )


def fp8_product(a: torch.Tensor, b: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Return a product from fp8 to bf16, with the fast accumulation that is usual in forward passes.

    Raises SkipCaseError.
    """
    unit_scale = torch.ones((), device=a.device)

    def multiply() -> torch.Tensor:
        result = torch._scaled_mm(
            a, b, scale_a=unit_scale, scale_b=unit_scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )
        return (
            result[0] if isinstance(result, tuple) else result
        )  # torch before 2.5 returns the largest value as well

    try:
        multiply()
    except (RuntimeError, ValueError, AttributeError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        raise SkipCaseError(
            f"torch {torch.__version__} cannot multiply fp8 here: {first_line(error)}"
        ) from error
    return multiply


def largest_error(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> float:
    """Return the largest error in some rows and columns of the result."""
    # An odd distance between the rows (and columns) reaches every place within the tiles of a kernel.
    row_step, column_step = (size // CHECKED | 1 for size in c.shape)
    expected = a[::row_step].double() @ b[:, ::column_step].double()
    return float((c[::row_step, ::column_step].double() - expected).abs().max())


def lacks(dtype: str, device: torch.device) -> str:
    """Return why the device cannot compute in `dtype`; empty if it can."""
    if device.type != "cuda" or dtype not in LEAST_CAPABILITY:
        return ""
    have, need = torch.cuda.get_device_capability(device), LEAST_CAPABILITY[dtype]
    if have >= need:
        return ""
    return f"{dtype} needs compute capability {need[0]}.{need[1]}, this GPU has {have[0]}.{have[1]}"


def cache_flush(device: torch.device) -> Callable[[], object] | None:
    """Return the call that removes operands from a GPU's L2 cache; None on a CPU."""
    if device.type != "cuda":
        return None
    return torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device).zero_
