"""Records of errors of CUDA, GPU memory and NVML that torch and other programs report."""

from probes.logs.events.log_record import LogRecord


class TorchOom(LogRecord, kw_only=True, tag="torch.oom"):
    """The memory of a GPU is used up."""

    gpu: int | None = None
    wanted: int | None = None
    """Requested bytes."""
    total: int | None = None
    """Memory of the GPU in bytes."""
    free: int | None = None
    used: int | None = None
    """Bytes in use by this process."""
    reserved: int | None = None
    """Bytes that torch reserved."""
    unallocated: int | None = None
    """Bytes that torch reserved but does not use."""
    others: str | None = None
    """A phrase that lists other processes that use memory of the GPU."""


class CudaError(LogRecord, kw_only=True, tag="cuda.error"):
    """An error of the CUDA runtime or driver."""

    name: str | None = None
    text: str | None = None
    code: int | None = None
    """Number of the error."""


class CudaInitFailed(LogRecord, kw_only=True, tag="cuda.init-failed"):
    """No GPU could be used at all."""

    code: int | None = None
    """Number of the error."""
    text: str | None = None


class CudaDriverOld(LogRecord, kw_only=True, tag="cuda.driver-old"):
    """The driver is older than the runtime needs."""

    actual: int | None = None
    """CUDA version of the driver as a number: 11040 for 11.4."""


class CudaFork(LogRecord, kw_only=True, tag="cuda.fork"):
    """CUDA was used in a child process after a fork."""


class CudaNoKernel(LogRecord, kw_only=True, tag="cuda.no-kernel"):
    """The program was built without code for this GPU."""

    capability: str | None = None
    """Compute capability: `sm_120`."""


class CudaInvalidDevice(LogRecord, kw_only=True, tag="cuda.invalid-device"):
    """A GPU of that number does not exist."""


class CudaAssert(LogRecord, kw_only=True, tag="cuda.assert"):
    """An assertion failed in device code."""

    file: str | None = None
    """Place in the source code."""
    line: int | None = None
    """Line of the source file."""


class NvmlMismatch(LogRecord, kw_only=True, tag="nvml.mismatch"):
    """The versions of the user-space library and the kernel driver differ."""

    library: str | None = None
    """Path or version of the library."""
    kernel: str | None = None
    """Version of the kernel driver."""


class NvmlFailed(LogRecord, kw_only=True, tag="nvml.failed"):
    """NVML or nvidia-smi cannot be used, or a GPU cannot be reached."""

    text: str | None = None
    bus: str | None = None
