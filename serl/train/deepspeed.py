"""The DeepSpeed engine: ranks share optimizer state, gradients and weights, as ZeRO (arXiv 1910.02054) says.

    zero 1   optimizer state and float32 master weights: each rank steps its part, and gathers the others' weights
    zero 2   gradients too: they are summed as a backward pass makes them, and each rank keeps its part of the sum
    zero 3   weights too: a pass gathers those of a module, and drops them behind it (`serl.partition`)

It stands behind the methods of `TorchEngine`, and takes the same steps: the same AdamW, groups, clipping and schedule.

Sums: a loss carries the denominator Z of the whole batch, so the gradient is the sum of the ranks'. DeepSpeed takes
their mean; the loss of each is multiplied by their number before, which is exact where that is a power of two.

Precision: weights of 16 or 32 bits are trained by float32 masters, and gradients are added up, and summed over ranks,
in float32. With adapters, which are float32, all this is of them alone.

Several micro-batches make one step (`managed_gradient_accumulation` off: the step is where accumulation ends). Each is
a backward pass, whose sums need every rank, so that all make as many (`rounds`).

The model's own forward is used, not DeepSpeed's around it, since a micro-batch calls its parts one by one. Its order of
modules is no fixed one, so that weights are not fetched ahead (DeepSpeed's trace of modules is off).

Teacher and KL reference of zero 3 are partitioned too (`hold`): a rank keeps its part of them, for a gathering of each
weight at each pass. With adapters they share the policy's frozen parts. Sampling by the policy itself needs all of its
weights at once (`whole`); for a model that does not fit one GPU, sample by vLLM.

Offload: what waits in the CPU's memory is stepped there by torch's AdamW, not by DeepSpeed's, which would be compiled
first.
"""

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from typing import Any

import torch

from serl.config import EngineConfig
from serl.errors import InputError
from serl.parallel import Ranks
from serl.partition import make_together
from serl.train.engine import adamw

BUCKET = 50_000_000  # elements that are summed, or gathered after a step, at once


class DeepSpeedEngine:
    """Optimizer and schedule around `model`, whose state, gradients and weights ranks share by `options.zero`."""

    def __init__(self, model: torch.nn.Module, lr: float, weight_decay: float, grad_clip: float,
                 schedule: Callable[[int], float], options: EngineConfig, ranks: Ranks) -> None:
        self.model, self.options, self.ranks = model, options, ranks
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        optimizer = adamw(trained, lr, weight_decay)
        self._engine = self._start(model, {
            "gradient_clipping": grad_clip, "managed_gradient_accumulation": False,
            "communication_data_type": "fp32", "data_types": {"grad_accum_dtype": "fp32"},
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
            "bf16": {"enabled": trained[0].dtype == torch.bfloat16, "check_grad_overflow": True}}, optimizer)
        if options.zero >= 2:
            make_together(model)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self._engine.basic_optimizer, schedule)
        self._owed = False  # whether there are gradients that no step has taken

    @property
    def apart(self) -> tuple[str, ...]:
        """What of a run's state is another one on each rank."""
        return ("engine", "teacher", "reference") if self.options.zero == 3 else ("engine",)

    def hold(self, model: torch.nn.Module) -> None:
        """Take over a model that is only read: each rank keeps its part of it, where it does so of the policy."""
        if self.options.zero == 3 and model is not self.model:
            self._start(model, {})  # its weights stay of the types they have
            make_together(model)

    def over_ranks(self, value: float) -> float:
        """The sum of a number that each rank has of its part of the batch."""
        return self.ranks.sum(value)

    def rounds(self, count: int) -> int:
        """How many backward passes this rank owes a step for `count` of its own: the most of any rank."""
        return int(self.ranks.most(count))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within it the model has all its weights, and may be called by one rank without the others."""
        if self.options.zero < 3:
            yield
            return
        from deepspeed.runtime.zero import unwrap_model_for_generation

        with unwrap_model_for_generation(self._engine):
            yield

    def zero_grad(self) -> None:
        """Forget gradients that no step has taken. A step leaves none behind, also one that was refused."""
        if self._owed:  # so one that is refused: a gradient that is not finite makes it so
            ids_12 = torch.zeros(1, 2, dtype=torch.long, device=self.model.device)
            self.backward(self.model(input_ids=ids_12, use_cache=False).logits.sum() * math.inf)
            self._engine.step()
            self._owed = False

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradient of `loss`, which is already divided by the whole batch's denominator."""
        self._owed = True
        # What DeepSpeed's own forward would have told the optimizer: another micro-batch begins, not the last one.
        self._engine.optimizer.clear_backward_seen_flag()
        self._engine.optimizer.set_gradient_accumulation_boundary(False)
        self._engine.backward(loss * self.ranks.size)

    def step(self) -> float:
        """Clip, update, advance the schedule; returns the gradient norm before clipping.

        Raises FloatingPointError on every rank, before any weight is touched, if that norm is not finite.
        """
        self._engine.step()
        self._owed = False
        if not self._engine.was_step_applied():
            raise FloatingPointError("gradient norm is not finite: the update was not applied")
        self.scheduler.step()
        return float(self._engine.get_global_grad_norm())

    @property
    def lr(self) -> float:
        return self.scheduler.get_last_lr()[0]

    def state_dict(self) -> dict:
        """This rank's part: master weights and their moments, and what is the same on all."""
        moments = self._engine.basic_optimizer.state
        return {"zero": self.options.zero, "scheduler": self.scheduler.state_dict(),
                "masters": [master.detach() for master in self._masters()],
                "moments": [dict(moments[master]) for master in self._masters()]}

    def load_state_dict(self, state: dict) -> None:
        """Go on from this rank's `state_dict`; the model's weights were loaded before the engine was made."""
        if state.get("zero") != self.options.zero:
            written = f"engine.zero {state['zero']}" if "zero" in state else "engine.kind torch"
            raise InputError(f"the checkpoint to resume from was written with {written}, and this run has engine.zero "
                             f"{self.options.zero}; resume with the former")
        self.scheduler.load_state_dict(state["scheduler"])
        for group, lr in zip(self._engine.basic_optimizer.param_groups, self.scheduler.get_last_lr()):
            group["lr"] = lr
        moments = self._engine.basic_optimizer.state
        for master, value, saved in zip(self._masters(), state["masters"], state["moments"], strict=True):
            master.data.copy_(value)
            # The count of steps, a scalar, stays on the CPU.
            moments[master] = {name: moment.to(master.device) if moment.dim() else moment
                               for name, moment in saved.items()}

    def _masters(self) -> list[torch.Tensor]:
        """This rank's parts of the float32 weights, flat; DeepSpeed's three optimizers have a name each for them."""
        names = ("fp32_partitioned_groups_flat", "fp32_groups_flat_partition", "single_partition_of_fp32_groups")
        return next(getattr(self._engine.optimizer, name) for name in names if hasattr(self._engine.optimizer, name))

    def _start(self, model: torch.nn.Module, settings: dict[str, Any], optimizer: torch.optim.Optimizer | None = None):
        """DeepSpeed's engine around `model`."""
        import deepspeed

        # It calls torch by names that are older than torch's warnings of them.
        warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
        # Its own sums among processes on one CPU would be compiled first, and wait for ever for one that is gone.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        _connect(self.options.timeout_s)
        settings = settings | {"train_micro_batch_size_per_gpu": 1, "log_level": "warning",
                               "zero_optimization": _zero(self.options, optimizer)}
        with redirect_stdout(sys.stderr):  # it prints, and what is printed here is for programs
            engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
        # Weights are gathered in everyone's group, gradients summed in one that DeepSpeed made with torch's time-out.
        for group in (None, engine.data_parallel_group, engine.seq_data_parallel_group):
            torch.distributed.distributed_c10d._set_pg_timeout(timedelta(seconds=self.options.timeout_s), group)
        if self.options.zero == 3:
            offload = engine.optimizer if optimizer is None else engine.optimizer.parameter_offload
            offload.fwd_pre_hook.remove()  # it begins a trace of modules
        return engine


def _zero(options: EngineConfig, optimizer: torch.optim.Optimizer | None) -> dict[str, Any]:
    """DeepSpeed's settings of ZeRO; nothing is kept whole or fetched ahead, which would need the trace of modules."""
    out: dict[str, Any] = {"stage": options.zero, "reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET,
                           "stage3_prefetch_bucket_size": 0, "stage3_param_persistence_threshold": 0}
    if options.offload != "none" and optimizer is not None:
        out["offload_optimizer"] = {"device": "cpu"}
    if options.offload == "parameters":
        out["offload_param"] = {"device": "cpu"}
    return out


def _connect(timeout_s: float) -> None:
    """A process group of one for a run of one process; DeepSpeed would look for a launcher."""
    import torch.distributed as dist

    os.environ.setdefault("LOCAL_RANK", "0")
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", rank=0, world_size=1,
                                store=dist.HashStore(), timeout=timedelta(seconds=timeout_s))
