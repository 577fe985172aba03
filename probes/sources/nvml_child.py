"""The process that loads NVML: one JSON request per line on stdin, one JSON answer per line on stdout.

A request is `{"call": "nvmlDeviceGetName", "args": [0]}`. An answer is `{"value": ...}`, `{"code": 3,
"words": "Not Supported"}` with NVML's error code, or `{"words": ...}` for other errors. The process is
separate so that a call that never returns, or a library that crashes, does not stop the program. It is
started as `python -I -S nvml_child.py FOLDER_OF_PYNVML`, which takes a third of the time of a normal start.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import queue
import resource
import sys
import threading
import types

TYPE_CHECKING = False  # importing typing takes as long as two hundred answers
if TYPE_CHECKING:
    from typing import Any, BinaryIO

DEVICE_ARGUMENTS = {"nvmlDeviceGetTopologyCommonAncestor": 2, "nvmlDeviceGetP2PStatus": 2}
"""Number of leading arguments that are devices, if not one."""

MOST_FLOAT = 1e300
SCOPE_SHIFT = 16
"""Field ids are below 1 << 16; the higher bits contain their scope (the number of an NVLink)."""

FILLED_STRUCTURES = {
    "nvmlDeviceGetGpuFabricInfo": "c_nvmlGpuFabricInfo_t",
    "nvmlDeviceGetGpuFabricInfoV": "c_nvmlGpuFabricInfo_v2_t",
    "nvmlDeviceGetSramEccErrorStatus": "c_nvmlEccSramErrorStatus_v1_t",
}
"""Calls of pynvml that fill a structure of the caller instead of returning a structure."""


@functools.cache
def field_names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a structure or union; the fields of its bases come first."""
    return tuple(field[0] for base in reversed(kind.__mro__) for field in vars(base).get("_fields_", ()))


def plain(value: Any) -> Any:
    """Return `value` as plain JSON.

    Structures and pynvml's objects become dicts, arrays lists, bytes text.
    """
    if isinstance(value, float) and not -MOST_FLOAT < value < MOST_FLOAT:
        return None  # JSON has no NaN, which a union with a negative integer may contain
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {name: plain(getattr(value, name)) for name in field_names(type(value))}
    if isinstance(value, (ctypes.Array, list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, ctypes._SimpleCData):
        return plain(value.value)
    if isinstance(value, ctypes._Pointer):
        raise TypeError("a handle is not a plain value")
    if hasattr(value, "__dict__"):
        return {name: plain(item) for name, item in vars(value).items()}
    raise TypeError(f"{type(value).__name__} is not a plain value")


def defer_ctypes_util() -> None:
    """Let pynvml import ctypes.util without loading the real module until a function is called.

    The real module loads subprocess, tempfile and three compression libraries for a function that pynvml
    calls on Windows only.
    """
    late = types.ModuleType("ctypes.util")

    def find_library(name: str) -> str | None:
        sys.modules.pop("ctypes.util", None)
        import ctypes.util  # noqa: PLC0415 - see above

        return ctypes.util.find_library(name)

    late.find_library = find_library  # type: ignore[attr-defined]
    sys.modules["ctypes.util"] = late


class Library:
    """pynvml, initialised at the first call. If this fails, later calls fail without another attempt."""

    def __init__(self) -> None:
        defer_ctypes_util()
        import pynvml  # noqa: PLC0415 - after the caller has set the path

        self._nvml = pynvml
        self._handles: dict[int, Any] = {}
        self._initialised = False
        self._failure: Exception | None = None

    def answer(self, call: str, arguments: list[int]) -> dict[str, Any]:
        try:
            return {"value": plain(self._call(call, arguments))}
        except self._nvml.NVMLError as error:
            return {"code": error.value, "words": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever pynvml raises is an answer too
            return {"words": f"{type(error).__name__}: {error}"}

    def _call(self, call: str, arguments: list[int]) -> Any:
        self._initialise()
        function = getattr(self._nvml, call, None)
        if function is None:
            raise self._nvml.NVMLError(self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        devices = 0 if call.startswith("nvmlSystem") else DEVICE_ARGUMENTS.get(call, 1)
        ready: list[Any] = [self._handle(index) for index in arguments[:devices]]
        arguments_of_call = arguments[devices:]
        if call == "nvmlDeviceGetFieldValues":
            low = (1 << SCOPE_SHIFT) - 1
            return function(*ready, [(field & low, field >> SCOPE_SHIFT) for field in arguments_of_call])
        if call in FILLED_STRUCTURES:
            structure = getattr(self._nvml, FILLED_STRUCTURES[call])()
            function(*ready, ctypes.byref(structure))
            return structure
        return function(*ready, *arguments_of_call)

    def _initialise(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._initialised:
            try:
                self._nvml.nvmlInit()
            except self._nvml.NVMLError as error:
                self._failure = error
                raise
            self._initialised = True

    def _handle(self, index: int) -> Any:
        if index not in self._handles:
            self._handles[index] = self._nvml.nvmlDeviceGetHandleByIndex(index)
        return self._handles[index]


def serve(requests: queue.SimpleQueue[bytes], answers: BinaryIO) -> None:
    """Answer requests until the process ends; leave at once if pynvml is unusable."""
    try:
        library = Library()
        while True:
            request = json.loads(requests.get())
            answer = library.answer(request["call"], request["args"])
            answers.write(json.dumps(answer).encode() + b"\n")
    finally:
        os._exit(1)


def main(pynvml_folder: str) -> None:
    """Serve until standard input ends (as when the parent ends); then exit, even in the middle of a call."""
    gc.disable()  # objects that pynvml creates while it loads exist as long as this process
    sys.path.append(pynvml_folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # output of a library must not mix with the answers
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=serve, args=(requests, answers), daemon=True).start()
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
