"""Tell what this interpreter can do, as one JSON line: `python -m rigtune_worker.vet`.

It needs no torch itself and runs on every Python 3, so that the answer for an unusable interpreter is an
answer too.
"""

import json
import platform
import sys


def describe():
    found = {"executable": sys.executable, "python": platform.python_version()}
    try:
        import torch  # noqa: PLC0415 - whether this works is the question
    except Exception as error:  # a broken installation fails with anything from ImportError to OSError
        missing = isinstance(error, ImportError) and getattr(error, "name", None) == "torch"
        found["error"] = "" if missing else "{}: {}".format(type(error).__name__, error)
        return found
    import torch.distributed as dist  # noqa: PLC0415

    available = dist.is_available()
    found.update(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        gloo=available and dist.is_gloo_available(),
        nccl=available and dist.is_nccl_available(),
        devices=[],
    )
    if torch.version.cuda:
        try:
            torch.cuda.init()
            found["devices"] = [
                torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
            ]
        except Exception as error:  # no driver, one too old, a GPU in trouble
            found["cuda_error"] = " ".join(str(error).split())[:300]
    if found["nccl"]:
        found["nccl_version"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return found


if __name__ == "__main__":
    print(json.dumps(describe()), flush=True)
