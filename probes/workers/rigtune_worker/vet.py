"""Print the abilities of this interpreter as one JSON line: `python -m rigtune_worker.vet`.

The module needs no torch and runs on every Python 3, so that it also reports an unusable interpreter.
"""

import json
import platform
import sys


def describe():
    answer = {"executable": sys.executable, "python": platform.python_version()}
    try:
        import torch  # noqa: PLC0415 - this program tests whether the import works
    except Exception as error:  # a broken installation fails with anything from ImportError to OSError
        missing = isinstance(error, ImportError) and getattr(error, "name", None) == "torch"
        answer["error"] = "" if missing else "{}: {}".format(type(error).__name__, error)
        return answer
    import torch.distributed as dist  # noqa: PLC0415

    available = dist.is_available()
    answer.update(
        torch=torch.__version__,
        cuda=torch.version.cuda,
        gloo=available and dist.is_gloo_available(),
        nccl=available and dist.is_nccl_available(),
        devices=[],
    )
    if torch.version.cuda:
        try:
            torch.cuda.init()
            answer["devices"] = [
                torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())
            ]
        except Exception as error:  # no driver, a driver that is too old, a faulty GPU
            answer["cuda_error"] = " ".join(str(error).split())[:300]
    if answer["nccl"]:
        answer["nccl_version"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return answer


if __name__ == "__main__":
    print(json.dumps(describe()), flush=True)
