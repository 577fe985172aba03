"""Apply a plan of rigtune to any torch model. Keep this file beside your program; it needs only torch.

    plan = rigtune_helper.load()                   # the plan that RIGTUNE_RECIPE names
    run = plan.prepare(model, loss)                # loss(model, batch) returns the mean loss of a micro-batch
    for step in run.steps(make_batch): print(step) # make_batch(first_sample, count), or a DataLoader

`prepare` divides the model, makes the optimizer and continues from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import math
import os
import resource
import shutil
import signal
import threading
import time
import types
from typing import Any, Callable, Iterator, Sequence

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError:  # torch before 2.6
    MixedPrecisionPolicy = fully_shard = None

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": None}  # None: the format of the weights
CHOICES: dict[str, tuple[Any, ...]] = {"strategy": ("ddp", "fsdp", "hsdp"), "precision": tuple(DTYPES)}
CHOICES |= {"activation_checkpointing": ("none", "full")} | dict.fromkeys(("pp", "cp", "ep"), (1,))
CHOICES |= {"schedule": ("constant", "cosine", "linear", "wsd")}
# Linear layers that tensor parallelism divides by outputs and by inputs, as Hugging Face names them.
COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")
BUCKET_CAP_MB = 25  # DDP's default, set explicitly because the plan's memory model relies on it
FREEING_S = 0.2  # time for Gloo's threads to free their last tensors, which during exit aborts the process
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)  # keys states by parameter name


class PlanError(ValueError):
    """The plan cannot be applied or continued; the message states why."""


class Plan(types.SimpleNamespace):
    """The settings of plan.json by name; the degrees dp, fsdp, tp, pp, cp and ep are settings too."""

    tp = pp = cp = ep = 1
    recomputed_share, embedding_learning_rate, schedule = 1.0, 0.0, "constant"

    @property
    def is_sharded(self) -> bool:  # with tp > 1, FSDP2 also replicates
        return self.strategy in ("fsdp", "hsdp") or self.tp > 1

    def check(self, ranks: int) -> None:
        """Raise PlanError if this file cannot apply a setting, or if the plan does not fit `ranks`."""
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise PlanError(f"{name} is {value}, but rigtune_helper can apply only {choices}")
        if self.dp * self.fsdp * self.tp != ranks:
            words = f"dp {self.dp} x fsdp {self.fsdp} x tp {self.tp}"
            raise PlanError(f"the plan needs {words} ranks, but the job has {ranks}: plan for that number")
        if self.is_sharded and fully_shard is None:
            raise PlanError(f"strategy {self.strategy} needs torch 2.6 (FSDP2), this is {torch.__version__}")

    def prepare(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor] = lambda model, batch: model(**batch).loss,
        *,
        blocks: Sequence[nn.Module] | None = None,
        optimizer: Callable[[list[dict[str, Any]]], torch.optim.Optimizer] | None = None,
        initialise: Callable[[nn.Module], object] | None = None,
        checkpoints: str | None = None,
    ) -> Run:
        """Return the run of `model` on this rank, continued from the last checkpoint in `checkpoints`.

        Without `loss` the model computes its loss, as Hugging Face models do. `blocks` are the layers to
        shard and recompute one at a time; None for those that the model repeats. `optimizer` makes the
        optimizer from parameter groups, `initialise` fills a model on the meta device. `checkpoints` is a
        folder that all nodes share; None for the plan's folder, empty for no checkpoints. Raises PlanError.
        """
        device = choose_device(self.device)
        if not dist.is_initialized():
            join(self.backend, device)
        self.check(dist.get_world_size())
        if self.tuning != "full" and all(parameter.requires_grad for parameter in model.parameters()):
            raise PlanError(f"tuning is {self.tuning}: add the adapters and freeze the other weights first")
        if self.ramp_samples and dist.get_rank() == 0:
            print(f"rigtune_helper: the batch is {self.global_batch} from the first step, without a ramp")
        blocks = repeated_layers(model) if blocks is None else blocks
        is_meta = any(parameter.is_meta for parameter in model.parameters())
        if is_meta and initialise is None:
            raise PlanError("the model is on the meta device: give prepare(..., initialise=FUNCTION)")
        if self.is_sharded and not is_meta:
            for tensor in (*model.parameters(), *model.buffers()):
                first = tensor.detach().to(device)  # ranks may have built the model with different seeds
                dist.broadcast(first, 0)
                tensor.data.copy_(first)
        layout = Layout(self, device)
        layout.divide(model, blocks)
        recompute(blocks, self)
        for block in blocks if self.is_sharded else ():
            layout.shard(block)
        if is_meta:
            model.to_empty(device=device)
            initialise(model)
        model = layout.wrap(model.to(device), blocks)
        groups = parameter_groups(model, self)  # after sharding, which replaces the parameters
        run = Run(self, model, (optimizer or self.make_optimizer)(groups), device, loss)
        folder = self.checkpoints or os.path.join("checkpoints", self.name)
        run.checkpoints = folder if checkpoints is None else checkpoints
        run.resume()
        return run

    def make_optimizer(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        if self.optimizer == "adamw":
            betas = (self.beta1, self.beta2)
            return torch.optim.AdamW(groups, self.learning_rate, betas, fused=self.device == "cuda")
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, self.learning_rate, momentum=self.beta1)
        raise PlanError(f"optimizer is {self.optimizer}: give prepare(..., optimizer=FUNCTION_OF_GROUPS)")


def load(path: str | None = None) -> Plan:
    """Return the plan in `path`, or in the file that RIGTUNE_RECIPE names. Raises PlanError."""
    path = path or os.environ.get("RIGTUNE_RECIPE", "")
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        return Plan(**values, **values["degrees"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise PlanError(f"{path!r} is no plan.json (load(PATH) or RIGTUNE_RECIPE): {error}") from None


def choose_device(kind: str) -> torch.device:
    """Return this rank's device: the GPU whose number is LOCAL_RANK, or the CPU."""
    if kind != "cuda":
        return torch.device(kind)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device(kind, torch.cuda.current_device())


def join(backend: str, device: torch.device) -> None:
    """Join the ranks that the launcher started, or create a group of one rank."""
    # With `device_id`, NCCL is initialised at once, and torch need not guess this rank's GPU.
    options: dict[str, Any] = {"device_id": device} if backend == "nccl" else {}
    if "RANK" not in os.environ:
        options.update(store=dist.HashStore(), rank=0, world_size=1)
    dist.init_process_group(backend, timeout=datetime.timedelta(minutes=10), **options)


def repeated_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of the class with the most parameters, among the classes that the model repeats."""
    named = getattr(model, "_no_split_modules", None)
    sizes: dict[type, int] = {}
    for holder in model.modules():
        for child in holder.children() if isinstance(holder, (nn.ModuleList, nn.Sequential)) else ():
            is_block = any(child.children()) and not isinstance(child, nn.Sequential)
            if type(child).__name__ in named if named else is_block:
                size = sum(parameter.numel() for parameter in child.parameters())
                sizes[type(child)] = sizes.get(type(child), 0) + size
    largest = max(sizes, key=lambda kind: sizes[kind], default=None)
    return [module for module in model.modules() if type(module) is largest]


class Layout:
    """The ranks as a mesh of replicas, shards and parts of layers, and the division of a model over them."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self.plan, self.device, self.data_mesh, self.tp_mesh = plan, device, None, None
        if plan.is_sharded:
            sizes = {"replicate": plan.dp} if plan.dp > 1 else {}
            sizes |= {"shard": plan.fsdp} | ({"tp": plan.tp} if plan.tp > 1 else {})
            mesh = dist.init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
            self.data_mesh = mesh[tuple(sizes)[:-1]] if plan.tp > 1 else mesh
            self.tp_mesh = mesh["tp"] if plan.tp > 1 else None

    def divide(self, model: nn.Module, blocks: Sequence[nn.Module]) -> None:
        """Divide the linear layers of each block over the ranks of a tensor-parallel group."""
        tp, names = self.plan.tp, (*COLUMNS, *ROWS)
        if tp > 1 and not blocks:
            raise PlanError(f"tp is {tp}, but {type(model).__name__} repeats no layer: give blocks=LIST")
        for block in blocks if tp > 1 else ():
            linear = [path for path, part in block.named_modules() if isinstance(part, nn.Linear)]
            paths = {path.rpartition(".")[2]: path for path in linear}
            fault = ", ".join(name for name in names if name not in paths)
            if fault or len(paths) != len(linear):
                fault = f"it has no {fault}" if fault else "several of its layers have one name"
                raise PlanError(f"tp is {tp}, but {type(block).__name__} cannot be divided: {fault}")
            attention = block.get_submodule(paths["k_proj"].rpartition(".")[0])
            heads = block.get_submodule(paths["k_proj"]).out_features // getattr(attention, "head_dim", 1)
            if heads % tp:
                raise PlanError(f"tp is {tp}, which does not divide the {heads} key and value heads")
            styles = {name: ColwiseParallel() if name in COLUMNS else RowwiseParallel() for name in names}
            parallelize_module(block, self.tp_mesh, {paths[name]: styles[name] for name in names})

    def shard(self, module: nn.Module, *, is_root: bool = False) -> None:
        """Shard the parameters of `module` that no inner module has sharded."""
        # Only inputs of the root are cast: rotary angles, which are inputs of blocks, must stay fp32.
        dtype = DTYPES[self.plan.precision]
        policy = MixedPrecisionPolicy(dtype, torch.float32, cast_forward_inputs=is_root)
        fully_shard(module, mesh=self.data_mesh, mp_policy=policy)

    def wrap(self, model: nn.Module, blocks: Sequence[Any]) -> nn.Module:
        """Return the model with its root sharded, or in DDP; unchanged for one rank without sharding."""
        plan = self.plan
        if plan.is_sharded:
            self.shard(model, is_root=True)
            for place, block in enumerate(blocks if plan.prefetch else ()):
                block.set_modules_to_forward_prefetch(blocks[place + 1 : place + 1 + plan.prefetch])
                block.set_modules_to_backward_prefetch(blocks[max(0, place - plan.prefetch) : place][::-1])
        elif dist.get_world_size() > 1:
            ids = [self.device.index] if self.device.type == "cuda" else None
            options = {"gradient_as_bucket_view": True, "bucket_cap_mb": plan.bucket_mb or BUCKET_CAP_MB}
            model = nn.parallel.DistributedDataParallel(model, device_ids=ids, **options)
        return model


def recompute(blocks: Sequence[nn.Module], plan: Plan, *, keeps_random_state: bool = True) -> None:
    """Let the planned share of the blocks keep only their inputs and compute the rest again when needed."""
    if plan.activation_checkpointing == "full" and not blocks:
        raise PlanError("activation_checkpointing is full, but the model repeats no layer: give blocks=LIST")
    for place, block in enumerate(blocks if plan.activation_checkpointing == "full" else ()):
        if math.floor((place + 1) * plan.recomputed_share) > math.floor(place * plan.recomputed_share):
            # Around forward and not around the call, so that FSDP's hooks gather the parameters before it.
            again = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=keeps_random_state)
            block.forward = functools.partial(again, block.forward)


def parameter_groups(model: nn.Module, plan: Plan) -> list[dict[str, Any]]:
    """Return the trained parameters by learning rate, weight decay (only matrices have it) and mesh."""
    embeddings = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    groups: dict[Any, dict[str, Any]] = {}
    for parameter in model.parameters():
        has_own_rate = plan.embedding_learning_rate and (parameter.ndim < 2 or id(parameter) in embeddings)
        rate = plan.embedding_learning_rate if has_own_rate else plan.learning_rate
        decay = plan.weight_decay if parameter.ndim > 1 else 0.0
        if parameter.requires_grad:
            key = (rate, decay, str(getattr(parameter, "device_mesh", "")))
            group = groups.setdefault(key, {"params": [], "lr": rate, "weight_decay": decay})
            group["params"].append(parameter)
    return list(groups.values())


def learning_rate_factor(step: int, plan: Any) -> float:
    """Return the learning rate of `step` (from 0) relative to the peak: warm-up, then the schedule."""
    first = plan.warmup_steps
    if step < first or plan.schedule == "constant":
        return min(1.0, (step + 1) / max(1, first))
    if plan.schedule == "wsd":
        first = max(first, round(plan.steps * (1 - plan.decay_share)))
    progress = min(1.0, max(0, step - first) / max(1, plan.steps - first))
    left = 0.5 * (1 + math.cos(math.pi * progress)) if plan.schedule == "cosine" else 1 - progress
    return plan.final_share + (1 - plan.final_share) * left


def agree(device: torch.device, loss: Tensor, *, stop: bool = False) -> tuple[float, bool]:
    """Return the mean loss over ranks, and whether any rank must stop; all ranks leave the loop together."""
    shared = torch.stack((loss.float(), torch.tensor(float(stop), device=device)))
    dist.all_reduce(shared)
    total, stops = shared.tolist()
    return total / dist.get_world_size(), stops > 0


def peak_memory(device: torch.device) -> tuple[int, int | None]:
    """Return the peak bytes allocated and reserved on the GPU; on a CPU, the process's peak and None."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, None


class StopRequest:
    """A request to stop by SIGTERM, SIGUSR1 or SIGINT, checked between two steps; a second SIGINT kills."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            if threading.current_thread() is threading.main_thread():
                signal.signal(number, self.ask)

    def ask(self, number: int, _frame: Any) -> None:
        self.asked = True
        signal.signal(number, signal.SIG_DFL if number == signal.SIGINT else self.ask)


class Run:
    """The model, the optimizer and the progress of one rank; `stopped` is True after a signal."""

    def __init__(self, plan: Plan, model: Any, optimizer: Any, device: torch.device, loss: Any) -> None:
        self.plan, self.model, self.optimizer, self.device, self.loss = plan, model, optimizer, device, loss
        self.rank, self.step, self.stopped, self.checkpoints = dist.get_rank(), 0, False, ""
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.scale, self.good_steps = 2.0**16 if plan.precision == "fp16" else 1.0, 0
        self.measures_norm = True  # if False, only clipping and loss scaling compute the norm

    def samples(self, step: int) -> range:
        """Return this rank's samples in `step`; all ranks together have the same samples in every layout."""
        plan, count = self.plan, self.plan.micro_batch * self.plan.grad_accum
        first = (step * plan.dp * plan.fsdp + self.rank // plan.tp) * count
        return range(first, first + count)

    def sampler(self, size: int, seed: int = 0) -> Iterator[int]:
        """Yield this rank's samples of a dataset of `size` in a new random order per epoch."""
        order: dict[int, list[int]] = {}
        for number in (number for step in range(self.step, self.plan.steps) for number in self.samples(step)):
            epoch, place = divmod(number, size)
            if epoch not in order:
                own = torch.Generator().manual_seed(seed + epoch)
                order = {epoch: torch.randperm(size, generator=own).tolist()}
            yield order[epoch][place]

    def steps(self, batches: Any) -> Iterator[dict[str, Any]]:
        """Train until the plan's last step or a signal, and yield the report of each step.

        `batches` is a function of the first sample's number and the count of samples, or an iterable of
        micro-batches from `self.step` on. Checkpoints are written every checkpoint_steps and at the end.
        """
        plan, stop, source = self.plan, StopRequest(), None if callable(batches) else iter(batches)
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        world = {"world_size": dist.get_world_size(), "backend": dist.get_backend(), "device_name": name}
        self.report({"event": "start", **world, "torch_version": torch.__version__})
        while self.step < plan.steps and not self.stopped:
            started, starts = time.perf_counter(), self.samples(self.step)[:: plan.micro_batch]
            made = (batches(first, plan.micro_batch) for first in starts)
            share, norm = self.train_step(made if source is None else source)
            loss, self.stopped = agree(self.device, share, stop=stop.asked)
            time_s = time.perf_counter() - started
            rate = plan.global_batch * plan.sequence_length / time_s
            line = {"event": "step", "step": self.step, "loss": loss, "grad_norm": float(norm)}
            line |= {"duration_s": time_s, "step_time_s": time_s, "tokens_per_s": rate}
            line |= dict(zip(("peak_memory_bytes", "peak_reserved_bytes"), peak_memory(self.device)))
            self.report(line)
            is_due = plan.checkpoint_steps and self.step % plan.checkpoint_steps == 0
            if self.checkpoints and (is_due or self.stopped or self.step == plan.steps):
                self.save()
            yield line
        time.sleep(FREEING_S)

    def train_step(self, batches: Iterator[Any]) -> tuple[Tensor, Tensor]:
        """Train on the next micro-batches; return this rank's loss and the norm of the gradient."""
        plan = self.plan
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            group["lr"] = rate * learning_rate_factor(self.step, plan)
        total = torch.zeros((), device=self.device)
        for number in range(plan.grad_accum):
            batch = next(batches, None)
            if batch is None:
                raise PlanError(f"the data ended in step {self.step + 1} of {plan.steps}: repeat them")
            batch = tree_map(lambda part: part.to(self.device) if hasattr(part, "to") else part, batch)
            with self.reduction(last=number == plan.grad_accum - 1):
                loss = self.forward(batch) / plan.grad_accum
                (loss * self.scale if self.scale != 1 else loss).backward()
            total += loss.detach()
        norm = self.clip()
        if self.scale == 1 or self.adjust_scale(norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return total, norm

    def forward(self, batch: Any) -> Tensor:
        """Return the loss of a micro-batch. FSDP casts by its own policy, DDP by autocast."""
        dtype = None if self.plan.is_sharded else DTYPES[self.plan.precision]
        with torch.autocast(self.device.type, dtype, enabled=dtype is not None):
            return self.loss(self.model, batch)

    def reduction(self, *, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Return the context for a micro-batch: DDP and replicas exchange gradients only in the last one."""
        # FSDP shards gradients every time, because whole gradients would need the memory of the whole model.
        if self.plan.is_sharded and self.plan.dp > 1:
            self.model.set_requires_all_reduce(last)
        is_ddp = isinstance(self.model, nn.parallel.DistributedDataParallel)
        return self.model.no_sync() if is_ddp and not last else contextlib.nullcontext()

    def clip(self) -> Tensor:
        """Undo the scale of the loss, clip the gradient, and return its norm before clipping."""
        most = self.plan.gradient_clipping or math.inf
        if most == math.inf and self.scale == 1 and not self.measures_norm:
            return torch.tensor(math.nan)
        owners, parts = [], []
        for gradient in (each.grad for each in self.model.parameters() if each.grad is not None):
            is_divided = hasattr(gradient, "placements")
            mesh = zip(gradient.device_mesh.shape, gradient.placements) if is_divided else ()
            # Each part is on (world size / owners) ranks; with this weight, the sum counts the part once.
            owners.append(math.prod(size for size, placement in mesh if not placement.is_replicate()))
            parts.append(gradient.to_local() if is_divided else gradient)
        squares = torch.stack(torch._foreach_norm(parts)).float().square()
        total = (squares * torch.tensor(owners, device=self.device)).sum() / dist.get_world_size()
        dist.all_reduce(total)
        norm = total.sqrt() / self.scale
        if most < math.inf or self.scale != 1:
            torch._foreach_mul_(parts, (most / (norm + 1e-6)).clamp(max=1.0) / self.scale)
        return norm

    def adjust_scale(self, norm: Any) -> bool:
        """Halve the scale after an overflow, double it after 2000 good steps; return False on overflow."""
        self.good_steps = self.good_steps + 1 if norm.isfinite() else 0
        if self.good_steps % 2000 == 0:
            self.scale = max(2.0, self.scale * (2.0 if self.good_steps else 0.5))
        return self.good_steps > 0

    def report(self, line: dict[str, Any]) -> None:
        if self.rank == 0 and "RIGTUNE_REPORT" in os.environ:
            line = json.loads(json.dumps(line), parse_constant=lambda _: None)  # JSON has no NaN: null
            with open(os.environ["RIGTUNE_REPORT"], "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def state(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer, options=FLAT)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def save(self) -> None:
        """Write a checkpoint as `step-N.partial`, and rename it to `step-N` when it is complete."""
        path = os.path.join(self.checkpoints, f"step-{self.step:08d}")
        dcp.save(self.state(), checkpoint_id=f"{path}.partial")
        if self.rank == 0:
            shutil.rmtree(path, ignore_errors=True)
            os.rename(f"{path}.partial", path)
            with open(f"{path}.latest", "w", encoding="utf-8") as file:
                file.write(os.path.basename(path))
            os.replace(f"{path}.latest", os.path.join(self.checkpoints, "latest"))
            for old in sorted(each for each in os.listdir(self.checkpoints) if each[5:].isdigit())[:-2]:
                shutil.rmtree(os.path.join(self.checkpoints, old))
        dist.barrier()

    def resume(self) -> None:
        """Load the latest checkpoint, if any, even from a run with other ranks or another layout."""
        latest = os.path.join(self.checkpoints, "latest")
        if self.checkpoints and os.path.exists(latest):
            with open(latest, encoding="utf-8") as file:
                path = os.path.join(self.checkpoints, file.read().strip())
            state = self.state()
            dcp.load(state, checkpoint_id=path)
            parts = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
            set_state_dict(self.model, self.optimizer, **parts, options=FLAT)
            self.step = state["step"]
