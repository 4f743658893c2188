"""The engine of a run, as its config says."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

import torch

from serl.config import Config
from serl.errors import InputError
from serl.parallel import ALONE, Ranks
from serl.train.engine import TorchEngine


def sampling(engine, config: Config) -> AbstractContextManager[None]:
    """Where the policy itself samples, it does so within this, with all its weights."""
    return engine.whole() if config.rollout.engine == "hf" else nullcontext()


def make_engine(config: Config, model: torch.nn.Module, schedule: Callable[[int], float],
                beside: Iterable[torch.nn.Module] = (), ranks: Ranks = ALONE):
    """A `TorchEngine`, or one with its methods; `beside` are the models that are read beside the policy's."""
    options = config.train
    arguments = (model, options.lr, options.weight_decay, options.grad_clip, schedule)
    if config.engine.kind == "torch":
        return TorchEngine(*arguments, ranks)
    if find_spec("deepspeed") is None:
        raise InputError("config: engine.kind deepspeed, and DeepSpeed is not installed; pip install 'serl[deepspeed]'")
    from serl.train.deepspeed import DeepSpeedEngine

    engine = DeepSpeedEngine(*arguments, config.engine, ranks)
    for other in beside:
        engine.hold(other)
    return engine
