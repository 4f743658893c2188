"""A batch split among ranks gives the update of one process, also where a rank has no hindsight or nothing to learn.

The ranks are threads, each with a model of its own. One that left a collective out would leave the others waiting,
until their meeting breaks.
"""

import copy
from dataclasses import replace

import pytest
import torch

from serl.config import Config, HindsightConfig, TrainConfig
from serl.train import gradients
from serl.train.distill import distill
from serl.train.engine import TorchEngine
from serl.train.samples import Sample, add_reference, add_teacher
from serl.train.sft import sft_step
from serl.train.traces import Trace
from serl.train.update import update
from tests.models import tiny_model, tiny_tokenizer
from tests.ranks import in_threads
from tests.train.test_update import LOSSES, make_samples

RANKS = ((0, 1), (2,), (3,))  # with hindsight; without; with A = 0, so without any gradient of a policy loss
LAM = 0.5


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
    models = [copy.deepcopy(start) for _ in RANKS]

    def run(ranks) -> dict[str, float]:
        part = [batch()[place] for place in RANKS[ranks.rank]]
        # Modules of its own: the way of attending is a setting of the model while it runs.
        others = copy.deepcopy(teacher), copy.deepcopy(start)
        engine = TorchEngine(models[ranks.rank], 1e-3, 0.1, 1.0, lambda step: 1.0, ranks)
        return learn(engine, *others, part, encode, config)

    found = in_threads(len(RANKS), run)
    assert whole["grad_norm"] > 0
    for metrics in found:
        assert metrics == pytest.approx(whole, rel=1e-4, abs=1e-6)
    for model in models:  # gradients are compared: Adam's first step is their sign, also where that is rounding
        for one, other, first in zip(alone.parameters(), model.parameters(), models[0].parameters()):
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-5 * one.grad.abs().max().item() + 1e-9)
            assert torch.equal(other, first)


def test_a_gradient_that_no_rank_has_stays_none_and_one_that_some_have_is_summed(monkeypatch):
    monkeypatch.setattr(gradients, "BUCKET", 5)  # three buckets: 4; 3 + 2; 6, which is larger

    def run(ranks) -> list[torch.nn.Parameter]:
        parameters = [torch.nn.Parameter(torch.zeros(*shape)) for shape in ((2, 2), (3,), (7,), (2,), (6,))]
        for place, parameter in enumerate(parameters):
            if place != 2 and (place + ranks.rank) % 2:
                parameter.grad = torch.full_like(parameter, 10.0**ranks.rank * (place + 1))
        gradients.sum_gradients(parameters, ranks)
        return parameters

    for parameters in in_threads(3, run):
        assert [None if p.grad is None else p.grad.unique().tolist() for p in parameters] == [
            [10.0], [202.0], None, [404.0], [50.0]]
        assert all(p.grad is None or p.grad.shape == p.shape for p in parameters)


@pytest.mark.parametrize("prompt_loss", [0.0, 0.1])
def test_fine_tuning_on_shares_of_a_batch_takes_the_step_of_one_process(prompt_loss):
    """Three ranks and two traces: one rank has none."""
    traces = [Trace("direct", [5, 6, 7, 8, 9], [0, 0, 0, 1, 1]), Trace("direct", [5, 9, 4], [0, 1, 1])]
    start = tiny_model(16)

    def run(ranks):
        model = copy.deepcopy(start)
        engine = TorchEngine(model, 1e-3, 0.1, 1.0, lambda step: 1.0, ranks)
        metrics = sft_step(engine, [traces[place] for place in ranks.share(2)], prompt_loss)
        return metrics, [p.grad for p in model.parameters()]

    ((whole, expected),) = in_threads(1, run)
    for metrics, found in in_threads(3, run):
        assert metrics == pytest.approx(whole, rel=1e-5)
        for one, other in zip(found, expected):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
