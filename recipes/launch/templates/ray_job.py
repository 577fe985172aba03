"""Run a training script under Ray Train: one worker per rank, each as torchrun would start it.

Usage: ray_job.py OPTIONS -- (-m MODULE | SCRIPT) [ARGUMENTS]

If the script defines `train_loop_per_worker(config)`, every worker calls that function with the plan
(RIGTUNE_RECIPE) as `config`, inside the process group that Ray Train made. Any other script runs as a whole
in every worker, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and makes a process group
itself.
"""

import argparse
import ast
import importlib.util
import json
import os
import runpy
import socket
import sys
import time
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch.distributed as dist

LOOP = "train_loop_per_worker"
JOIN_S = 600


def options_of(arguments: list[str]) -> argparse.Namespace:
    """Return the options; `command` has the words after the two dashes."""
    parser = argparse.ArgumentParser(prog="ray_job.py", description="Run a script under Ray Train.")
    continues = "name of the run; a run that is started again under the same name continues"
    parser.add_argument("--name", required=True, help=continues)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks-per-node", type=int, required=True)
    parser.add_argument("--cores", type=int, required=True, help="CPU cores of a worker")
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True)
    parser.add_argument("--placement", choices=("STRICT_PACK", "PACK", "STRICT_SPREAD"), required=True)
    parser.add_argument("--storage", help="folder for checkpoints, which every node must reach")
    parser.add_argument("--max-failures", type=int, default=0, help="how often the workers start again")
    parser.add_argument("--variables", default="", help="variables that workers get, separated by commas")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    options.command = arguments[end + 1 :]
    if not options.command or options.command == ["-m"]:
        parser.error("the script is missing after --")
    return options


def source_of(command: list[str]) -> str:
    """Return the text of the script or module; empty for a module without a source file."""
    path = command[0]
    if path == "-m":
        sys.path.insert(0, str(Path.cwd()))
        spec = importlib.util.find_spec(command[1])
        if spec is None:
            sys.exit(f"ray_job.py: there is no module {command[1]}")
        path = spec.origin or ""
    if not path:
        return ""
    return Path(path).read_text(encoding="utf-8")


def has_loop(text: str) -> bool:
    """Return whether the program defines the function that Ray Train calls."""
    return any(isinstance(node, ast.FunctionDef) and node.name == LOOP for node in ast.parse(text).body)


def wait_for_nodes(count: int) -> None:
    """Return when the cluster has this number of nodes; end the program if they do not come."""
    give_up = time.monotonic() + JOIN_S
    while (alive := sum(node["Alive"] for node in ray.nodes())) < count:
        if time.monotonic() > give_up:
            sys.exit(f"ray_job.py: nodes in the Ray cluster after {JOIN_S} s: {alive} of {count}")
        time.sleep(1)


def worker(config: dict[str, Any]) -> None:
    """Run the program as one rank."""
    context = ray.train.get_context()
    ranks = context.get_local_world_size()
    if ranks != config["ranks_per_node"]:
        raise RuntimeError(
            f"the number of workers on {socket.gethostname()} is {ranks}, but the plan has "
            f"{config['ranks_per_node']} per node: other jobs use this Ray cluster, "
            "or its nodes have other numbers of GPUs"
        )
    os.chdir(config["folder"])
    name, *arguments = config["command"]
    if name == "-m":
        sys.path.insert(0, config["folder"])
        name, *arguments = arguments
        run = runpy.run_module
    else:
        sys.path.insert(0, str(Path(name).resolve().parent))
        run = runpy.run_path
    sys.argv = [name, *arguments]
    if config["has_loop"]:
        run(name, run_name="ray_worker")[LOOP](config["plan"])
        return
    leave_process_group()
    try:
        run(name, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError(f"{name} ended with {end.code!r}") from None


def leave_process_group() -> None:
    """Leave the process group of Ray Train, and put a free port for the program's into MASTER_PORT."""
    if not dist.is_initialized():
        return
    ports = [0]
    if dist.get_rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            ports = [probe.getsockname()[1]]
    dist.broadcast_object_list(ports, device=ray.train.torch.get_device())
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = str(ports[0])


def main() -> None:
    options = options_of(sys.argv[1:])
    if options.nodes > 1 and not os.environ.get("RAY_ADDRESS"):
        sys.exit(
            "ray_job.py: RAY_ADDRESS is not set, but the job needs a Ray cluster of several nodes: start the "
            "job with launch-ray.sh (`rigtune export --to ray`), or name your cluster: RAY_ADDRESS=HOST:PORT"
        )
    looped = has_loop(source_of(options.command))
    names = [name for name in (*options.variables.split(","), "RIGTUNE_RECIPE") if name in os.environ]
    ray.init(runtime_env={"env_vars": {name: os.environ[name] for name in names}}, log_to_driver=True)
    wait_for_nodes(options.nodes)
    plan = {}
    if "RIGTUNE_RECIPE" in os.environ:
        plan = json.loads(Path(os.environ["RIGTUNE_RECIPE"]).read_text(encoding="utf-8"))
    trainer = ray.train.torch.TorchTrainer(
        worker,
        train_loop_config={
            "command": options.command,
            "folder": str(Path.cwd()),
            "has_loop": looped,
            "plan": plan,
            "ranks_per_node": options.ranks_per_node,
        },
        torch_config=ray.train.torch.TorchConfig(backend=options.backend),
        scaling_config=ray.train.ScalingConfig(
            num_workers=options.nodes * options.ranks_per_node,
            use_gpu=options.backend == "nccl",
            resources_per_worker={"CPU": options.cores},
            placement_strategy=options.placement,
        ),
        run_config=ray.train.RunConfig(
            name=options.name,
            storage_path=options.storage,
            failure_config=ray.train.FailureConfig(max_failures=options.max_failures),
        ),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
