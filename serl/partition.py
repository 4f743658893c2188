"""Weights of which each rank holds a part (DeepSpeed's ZeRO-3), and passes that ranks make together.

A pass through such a model is a collective: the weights of a module are gathered when it is called and once more before
its backward pass, and dropped behind it. What reads weights elsewhere does so in a call of their module (`inside`), or
`gathered`. Gradients are summed as they come, for ZeRO-2 too. So ranks must make the same passes in the same order:

    batches                as many on each rank (`rounds`); one that has none left encodes `serl.train.tail.IDLE`
    passes of a batch      the same ones on each rank, whatever it holds (`together`, and `Backbone.passes`)

Where weights are whole and gradients are summed at the end, nothing here costs anything.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from serl.parallel import Ranks

T = TypeVar("T")
_TOGETHER = "serl_passes_together"


def is_partitioned(model: torch.nn.Module) -> bool:
    """Whether this rank holds only a part of some weights."""
    return any(hasattr(weight, "ds_id") for weight in model.parameters())


def make_together(model: torch.nn.Module) -> None:
    """From now on ranks make passes through `model` together."""
    setattr(model, _TOGETHER, True)


def together(model: torch.nn.Module) -> bool:
    """Whether ranks must make the same passes through `model`, in the same order."""
    return getattr(model, _TOGETHER, False)


def own_part(weight: torch.Tensor) -> torch.Tensor:
    """What this rank holds of a weight: flat and padded, if it is a part."""
    return getattr(weight, "ds_tensor", weight)


@contextmanager
def gathered(*weights: torch.Tensor) -> Iterator[None]:
    """With the whole weights, on every rank; they are only read. A collective where there are parts."""
    parts = [weight for weight in weights if hasattr(weight, "ds_id")]
    if not parts:
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters(parts):
        yield


def whole_state(model: torch.nn.Module, keep: bool, wanted: Callable[[str], bool] | None = None
                ) -> dict[str, torch.Tensor]:
    """The `state_dict` of a partitioned model on the CPU, gathered one weight at a time; empty where not to `keep`.

    Every rank must call it. `wanted` chooses by the name. A weight that has two names, as a tied head, comes by the
    first of them.
    """
    state, seen = {}, set()
    for name, weight in model.state_dict(keep_vars=True).items():
        if id(weight) not in seen and (wanted is None or wanted(name)):
            seen.add(id(weight))
            with gathered(weight):
                if keep:
                    state[name] = weight.detach().to("cpu", copy=True)
    return state


def inside(module: torch.nn.Module, work: Callable[..., T], *inputs: torch.Tensor) -> T:
    """`work(*inputs)` as a call of `module`, so that its hooks run as for its own forward.

    DeepSpeed's gather the module's weights for `work`, and again for the backward pass of the tensors that it returns.
    """
    module.forward = work
    try:
        return module(*inputs)
    finally:
        del module.forward


def rounds(model: torch.nn.Module, count: int) -> int:
    """How many passes this rank makes through `model` for `count` of its own: the most of any rank, if partitioned."""
    if not is_partitioned(model):
        return count
    import torch.distributed as dist

    return int(Ranks(dist.get_rank(), dist.get_world_size()).most(count))
