"""Records of reports by CUDA, its memory and NVML through torch and other programs."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class TorchOom(LogRecord, kw_only=True):
    """The memory of a GPU is used up."""

    KIND: ClassVar[str] = "torch.oom"
    gpu: int | None = None
    wanted: int | None = None
    """Bytes that were asked for."""
    total: int | None = None
    """Bytes of the GPU."""
    free: int | None = None
    used: int | None = None
    """Bytes that this process holds."""
    reserved: int | None = None
    """Bytes that torch holds."""
    unallocated: int | None = None
    """Bytes that torch holds and does not use."""
    others: str | None = None
    """Other processes that hold memory of the GPU, in words."""


class CudaError(LogRecord, kw_only=True):
    """A named error of the runtime or the driver."""

    KIND: ClassVar[str] = "cuda.error"
    name: str | None = None
    text: str | None = None
    code: int | None = None
    """Number of the error."""


class CudaInitFailed(LogRecord, kw_only=True):
    """No GPU could be used at all."""

    KIND: ClassVar[str] = "cuda.init-failed"
    code: int | None = None
    """Number of the error."""
    text: str | None = None


class CudaDriverOld(LogRecord, kw_only=True):
    """The driver is older than the runtime needs."""

    KIND: ClassVar[str] = "cuda.driver-old"
    actual: int | None = None
    """Version of CUDA as its API counts it."""


class CudaFork(LogRecord, kw_only=True):
    """CUDA was used in a forked child."""

    KIND: ClassVar[str] = "cuda.fork"


class CudaNoKernel(LogRecord, kw_only=True):
    """The build has no code for this GPU."""

    KIND: ClassVar[str] = "cuda.no-kernel"
    capability: str | None = None
    """Compute capability, as `sm_120`."""


class CudaInvalidDevice(LogRecord, kw_only=True):
    """A GPU of that number does not exist."""

    KIND: ClassVar[str] = "cuda.invalid-device"


class CudaAssert(LogRecord, kw_only=True):
    """An assertion failed in device code."""

    KIND: ClassVar[str] = "cuda.assert"
    file: str | None = None
    """Place in the source code."""
    line: int | None = None
    """Line of the source file."""


class NvmlMismatch(LogRecord, kw_only=True):
    """The versions of the user-space library and the kernel driver differ."""

    KIND: ClassVar[str] = "nvml.mismatch"
    library: str | None = None
    """Path or version of the library."""
    kernel: str | None = None
    """Version of the kernel driver."""


class NvmlFailed(LogRecord, kw_only=True):
    """NVML or nvidia-smi cannot be used, or a GPU cannot be reached."""

    KIND: ClassVar[str] = "nvml.failed"
    text: str | None = None
    bus: str | None = None
