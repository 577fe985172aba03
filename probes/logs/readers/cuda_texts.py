"""Numbers of CUDA errors by their texts, because older versions of NCCL print only the texts."""

CODES_OF_TEXTS = {
    "invalid argument": 1,
    "out of memory": 2,
    "initialization error": 3,
    "driver shutting down": 4,
    "CUDA driver version is insufficient for CUDA runtime version": 35,
    "API call is not supported in the installed CUDA driver": 36,
    "all CUDA-capable devices are busy or unavailable": 46,
    "CUDA-capable device(s) is/are busy or unavailable": 46,
    "no CUDA-capable device is detected": 100,
    "invalid device ordinal": 101,
    "no kernel image is available for execution on the device": 209,
    "uncorrectable ECC error encountered": 214,
    "peer access is not supported between these two devices": 217,
    "uncorrectable NVLink error detected during the execution": 220,
    "NVLink error detected during the execution": 220,
    "the provided PTX was compiled with an unsupported toolchain.": 222,
    "OS call failed or operation not supported on this OS": 304,
    "an illegal memory access was encountered": 700,
    "the launch timed out and was terminated": 702,
    "device-side assert triggered": 710,
    "misaligned address": 716,
    "unspecified launch failure": 719,
    "operation not permitted": 800,
    "operation not supported": 801,
    "system not yet initialized": 802,
    "system has unsupported display driver / cuda driver combination": 803,
    "forward compatibility was attempted on non supported HW": 804,
    "unknown error": 999,
    "GPU is lost": 999,
}
"""`cudaError_t` by `cudaGetErrorString`.

Source: NVIDIA, CUDA runtime API, cudaError (driver_types.h), of CUDA 12.
"""
