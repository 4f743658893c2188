"""A batch split among ranks gives the update of one process, also where a rank has no hindsight or nothing to learn.

The ranks are threads, each with a model of its own; their collectives are sums at a barrier. A rank that left one out
would leave the others waiting, until the barrier breaks.
"""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from serl.config import Config, HindsightConfig, TrainConfig
from serl.train.distill import distill
from serl.train.engine import TorchEngine
from serl.train.samples import Sample, add_reference, add_teacher
from serl.train.update import update
from tests.models import tiny_model, tiny_tokenizer
from tests.train.test_update import LOSSES, make_samples

RANKS = ((0, 1), (2,), (3,))  # with hindsight; without; with A = 0, so without any gradient of a policy loss
LAM = 0.5


class Ranks:
    """What the ranks share: a sum of what each brings."""

    def __init__(self, count: int) -> None:
        self.barrier, self.parts = threading.Barrier(count, timeout=60), [None] * count

    def sum(self, rank: int, value):
        self.parts[rank] = value
        self.barrier.wait()
        total = sum(self.parts[1:], self.parts[0])
        self.barrier.wait()  # nobody brings the next part before all have read
        return total


class RankEngine(TorchEngine):
    """One rank: gradients are summed before each step."""

    def __init__(self, model, rank: int, ranks: Ranks) -> None:
        super().__init__(model, 1e-3, 0.1, 1.0, lambda step: 1.0)
        self.rank, self.ranks = rank, ranks

    def over_ranks(self, value: float) -> float:
        return self.ranks.sum(self.rank, value)

    def step(self) -> float:
        for parameter in self.model.parameters():
            own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = self.ranks.sum(self.rank, own)
        return super().step()


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def batch() -> list[Sample]:
    samples = make_samples()
    for turn in samples[2].trajectory.turns:
        turn.outcome = None
    samples[3] = replace(samples[3], advantage=0.0)
    return samples


def learn(engine, teacher, reference, samples, encode, config) -> dict[str, float]:
    if config.train.loss == "distillation":
        return distill(engine, teacher, samples, encode, config)[0]
    samples, _ = add_teacher(teacher, samples, encode, LAM, config)
    if config.train.kl_beta:
        samples = add_reference(reference, samples, config)
    return update(engine, samples, LAM, config)[0]


@pytest.mark.parametrize("options", [{"loss": loss, "reduction": reduction} for loss, reduction in LOSSES.items()]
                         + [{"reduction": "seq_mean", "kl_beta": 0.1}, {"loss": "distillation"}],
                         ids=lambda options: " ".join(map(str, options.values())))
def test_ranks_with_parts_of_a_batch_take_the_step_of_one_process(options, tokenizer):
    config = Config(train=TrainConfig(**options), hindsight=HindsightConfig(lambda0=LAM))
    start, teacher = tiny_model(len(tokenizer)), tiny_model(len(tokenizer), seed=1)

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    alone = copy.deepcopy(start)
    whole = learn(TorchEngine(alone, 1e-3, 0.1, 1.0, lambda step: 1.0), teacher, start, batch(), encode, config)
    ranks, models = Ranks(len(RANKS)), [copy.deepcopy(start) for _ in RANKS]

    def run(rank: int) -> dict[str, float]:
        part = [batch()[place] for place in RANKS[rank]]
        # Modules of its own: the way of attending is a setting of the model while it runs.
        others = copy.deepcopy(teacher), copy.deepcopy(start)
        return learn(RankEngine(models[rank], rank, ranks), *others, part, encode, config)

    with ThreadPoolExecutor(len(RANKS)) as pool:
        found = list(pool.map(run, range(len(RANKS))))
    assert whole["grad_norm"] > 0
    assert [metrics["grad_norm"] for metrics in found] == pytest.approx([whole["grad_norm"]] * len(RANKS), rel=1e-4)
    assert sum(metrics["loss"] for metrics in found) == pytest.approx(whole["loss"], rel=1e-4, abs=1e-6)
    for model in models:  # gradients are compared: Adam's first step is their sign, also where that is rounding
        for one, other, first in zip(alone.parameters(), model.parameters(), models[0].parameters()):
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-5 * one.grad.abs().max().item() + 1e-9)
            assert torch.equal(other, first)
