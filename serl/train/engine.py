"""The PyTorch engine: one model, AdamW; with several ranks each has all of it (data parallel).

It knows nothing of RL: it takes losses that already carry their denominator, adds their gradients up, over ranks too
(`serl.train.gradients`), clips and steps. Other engines stand behind the same methods.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import torch

from serl.errors import InputError
from serl.parallel import ALONE, Ranks
from serl.train.gradients import sum_gradients
from serl.train.masters import Masters


def constant_with_warmup(warmup_steps: int) -> Callable[[int], float]:
    """Factor of the learning rate at each step: linear warm-up, then 1."""
    return lambda step: min(1.0, (step + 1) / (warmup_steps + 1))


def linear_decay(decay_steps: int, warmup_steps: int = 0) -> Callable[[int], float]:
    """Linear warm-up, then a line from 1 down to 0, which it reaches after `decay_steps` steps in all."""
    warmup = constant_with_warmup(warmup_steps)
    return lambda step: min(warmup(step), max(0.0, 1.0 - step / decay_steps))


def cosine_with_warmup(steps: int, warmup: float, floor: float = 0.05) -> Callable[[int], float]:
    """Linear warm-up over a share of `steps`, then half a cosine down to `floor`."""
    rise = max(1, round(warmup * steps))

    def factor(step: int) -> float:
        if step < rise:
            return (step + 1) / rise
        progress = min(1.0, (step - rise) / max(1, steps - rise))
        return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))

    return factor


def adamw(parameters: Iterable[torch.nn.Parameter], lr: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW that decays matrices only."""
    groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
    for parameter in parameters:
        groups[parameter.dim() >= 2].append(parameter)
    return torch.optim.AdamW([{"params": groups[True], "weight_decay": weight_decay},
                              {"params": groups[False], "weight_decay": 0.0}], lr=lr, betas=(0.9, 0.95))


class TorchEngine:
    """Optimizer and schedule around `model`, whose 16-bit weights have float32 masters."""

    apart: tuple[str, ...] = ()  # what of a run's state is another one on each rank

    def __init__(self, model: torch.nn.Module, lr: float, weight_decay: float, grad_clip: float,
                 schedule: Callable[[int], float], ranks: Ranks = ALONE) -> None:
        self.model, self.ranks = model, ranks
        self.grad_clip = grad_clip
        self.masters = Masters(model)
        self.optimizer = adamw(self.masters.parameters, lr, weight_decay)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, schedule)

    def over_ranks(self, value: float) -> float:
        """The sum of a number that each rank has of its part of the batch."""
        return self.ranks.sum(value)

    def rounds(self, count: int) -> int:
        """How many backward passes this rank owes a step for `count` of its own; their gradient may be 0."""
        return count

    def whole(self) -> AbstractContextManager[None]:
        """Within it the model has all its weights, and may be called by one rank without the others."""
        return nullcontext()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradient of `loss`, which is already divided by the whole batch's denominator."""
        loss.backward()

    def step(self) -> float:
        """Sum over ranks, clip, update, advance the schedule; returns the gradient norm before clipping.

        Raises FloatingPointError, before any weight is touched, if that norm is not finite.
        """
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        sum_gradients(parameters, self.ranks)
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.grad_clip).item()
        if not math.isfinite(norm):
            raise FloatingPointError(f"gradient norm is {norm}: the update was not applied")
        self.optimizer.step()
        self.masters.round()
        self.scheduler.step()
        return norm

    @property
    def lr(self) -> float:
        return self.scheduler.get_last_lr()[0]

    def state_dict(self) -> dict:
        return {"optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict(),
                "masters": self.masters.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        if "zero" in state:
            raise InputError(f"the checkpoint to resume from was written with engine.kind deepspeed and engine.zero "
                             f"{state['zero']}; resume with these")
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.masters.load_state_dict(state.get("masters", {}))  # older checkpoints are of float32 weights
