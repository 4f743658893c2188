"""What the update's largest micro-batch needs beside weights, gradients and optimizer: found by running it.

Trajectories of the given lengths are made, the update's own code packs them into micro-batches, and the largest one
goes forward and backward through the model's own layers, on tensors without data (`serl.plan.live`):

    kept        what the forward pass leaves for the backward pass: activations
    workspace   what the backward pass, and the chunk of logits, need at most above that: scores and products of a
                layer, gradients on their way, and those of weights that are in two passes (`serl.plan.depth`)

Gradients are there before, as in all micro-batches but a step's first one. Models of few layers run, and tell how it
is with all.
"""

import gc
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from serl.plan.depth import Bytes, Parts, of_all_layers
from serl.plan.made_up import branches, trajectories
from serl.plan.parameters import build, layers_of, with_layers
from serl.plan.setting import Setting


@dataclass(frozen=True)
class MicroBatch:
    """Bytes, and of what: trajectories, tokens that are encoded, micro-batches of a step on the most loaded GPU."""

    kept: int
    workspace: int
    trajectories: int
    tokens: int
    count: int

    @property
    def peak(self) -> int:
        return self.kept + self.workspace


@dataclass(frozen=True)
class Work:
    """What of a setting a micro-batch follows from. `hindsight` tokens are those of a teacher asked in the update."""

    prompt: int
    response: int
    sampled: int
    turns: int
    hindsight: int
    group: int
    groups: int
    tokens: int  # of a micro-batch
    shared: bool
    together: bool  # prompts are shared where nothing is gained by it, so that ranks make the same passes
    checkpointing: bool
    rank: int
    targets: tuple[str, ...]
    dtype: str
    device: str

    @classmethod
    def of(cls, setting: Setting) -> "Work":
        within = setting.teacher == "live" and setting.shared and not setting.score_first
        # As many groups as fill two micro-batches show the largest one; more of them are as these.
        groups = min(setting.groups_of_rank, 2 + 2 * setting.micro_tokens // (setting.prompt + setting.response))
        together = setting.shared and setting.zero >= 2
        return cls(setting.prompt, setting.response, setting.sampled, setting.turns, setting.hindsight * within,
                   setting.group, groups, setting.micro_tokens, setting.shared, together, setting.checkpointing,
                   setting.rank, setting.targets, setting.dtype, setting.device)


def micro_batch(config, setting: Setting) -> MicroBatch:
    """The largest micro-batch of a setting."""
    work = Work.of(setting)
    found = _micro_batch(config.to_json_string(use_diff=False), type(config), work)
    return replace(found, count=-(-found.count * setting.groups_of_rank // work.groups))


@lru_cache(maxsize=64)
def _micro_batch(text: str, kind: type, work: Work) -> MicroBatch:
    from serl.train.scoring import micro_batches

    config = kind.from_dict(json.loads(text))
    tails = trajectories(work.prompt, work.response, work.sampled, work.group, work.groups,
                         config.get_text_config().vocab_size, taught=work.hindsight > 0)
    batches = [[tails[i] for i in batch] for batch in micro_batches(tails, work.tokens, work.shared)]
    largest = max(batches, key=lambda batch: _encoded(batch, work.shared))
    found = of_all_layers(lambda layers: run(with_layers(config, layers), largest, work),
                          config.get_text_config().num_hidden_layers)
    return MicroBatch(found.kept, found.peak - found.kept, len(largest), _encoded(largest, work.shared), len(batches))


def _encoded(batch: Sequence, shared: bool) -> int:
    if not shared:
        return len(batch) * max(len(tail.ids) for tail in batch)
    return sum(len(tail.own) for tail in batch) + sum(map(len, {tail.prompt for tail in batch}))


def run(config, batch: Sequence, work: Work) -> Bytes:
    """Bytes of one micro-batch through a model with this config."""
    import torch

    from serl import lora
    from serl.config import LoraConfig
    from serl.partition import make_together
    from serl.plan.live import Live, without_data
    from serl.recompute import recompute_layers
    from serl.train.scoring import logprobs_with_branches

    model = build(config, work.dtype)
    if work.rank:
        lora.add(model, LoraConfig(rank=work.rank, targets=work.targets), "", 0)
    model.eval()
    if work.checkpointing:
        recompute_layers(model)
    if work.together:
        make_together(model)
    told = [branches(tail, work.turns, work.hindsight, config.get_text_config().vocab_size) if work.hindsight else ()
            for tail in batch]
    with without_data(work.device) as stand_in:
        _materialize(model, stand_in)
        _give_gradients(model)
        live = Live()
        parts = Parts(layers_of(model), live.take_peak)
        with live:
            logps, taught = logprobs_with_branches(model, batch, told, 1.0, work.shared)
            found = torch.cat(logps)
            total = torch.where(found.isnan(), 0.0, found).sum()
            gc.collect()  # what the forward pass returned and nobody wanted may wait for it
            kept = live.now
            total.backward()
    return Bytes(kept, parts.found())


def _materialize(model, device) -> None:
    """Give the model fake tensors on `device` in place of those on the meta device; tied ones stay tied."""
    import torch

    made: dict[int, torch.Tensor] = {}

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            dtype = torch.float32 if tensor.requires_grad and ".lora" in names.get(id(tensor), "") else tensor.dtype
            made[id(tensor)] = torch.empty(tensor.shape, dtype=dtype, device=device)
        return made[id(tensor)]

    names = {id(weight): name for name, weight in model.named_parameters()}
    parameters: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                if id(weight) not in parameters:
                    parameters[id(weight)] = torch.nn.Parameter(fake(weight), weight.requires_grad)
                module._parameters[name] = parameters[id(weight)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = fake(buffer)


def _give_gradients(model) -> None:
    """Gradients of all trained weights, as an engine keeps them: there already, left by an earlier micro-batch."""
    import torch

    from serl.train.masters import Masters

    for weight in Masters(model).parameters:
        weight.grad = torch.empty_like(weight)
