"""Passes that ranks make together give the numbers of any others, and whole weights pay nothing for what parts need.

The parts themselves need several processes: tests/train/deepspeed.
"""

import copy

import pytest
import torch

from serl.config import Config, ModelConfig, TrainConfig
from serl.partition import gathered, inside, is_partitioned, make_together, own_part, rounds, whole_state
from serl.train.distill import distill
from serl.train.engine import TorchEngine
from serl.train.scoring import Tail, logprobs
from serl.train.update import update
from tests.models import tiny_model, tiny_tokenizer
from tests.train.test_update import make_samples

# Three prompts, one of them for two sequences; whole sequences of very different lengths.
TAILS = [Tail([5, 9, 30, 7, 12, 40], 3, 2), Tail([5, 9, 31, 8, *range(20, 60)], 3, 2), Tail([6, 50, 51], 2, 1),
         Tail([*range(70, 170), 3, 4, 5], 101, 100)]


def learnt(model, tails) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs and their gradient."""
    model.zero_grad()
    found = torch.cat(logprobs(model, tails, 0.7, True))
    (found * torch.arange(1.0, len(found) + 1)).sum().backward()
    return found.detach(), torch.cat([weight.grad.flatten() for weight in model.parameters()])


@pytest.mark.parametrize("tied", [True, False])
def test_passes_made_together_are_two_a_batch_whatever_it_holds_with_the_same_numbers(tied):
    model = tiny_model(200, tied=tied)
    expected = learnt(model, TAILS)
    other = copy.deepcopy(model)
    make_together(other)
    calls = []
    other.model.register_forward_hook(lambda *_: calls.append(1))
    for ours, theirs in zip(learnt(other, TAILS), expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * theirs.abs().max().item())
    assert len(calls) == 2
    learnt(other, TAILS[2:3])
    assert len(calls) == 4


def test_work_inside_a_module_meets_its_hooks_and_leaves_its_forward_as_it_was():
    layer, seen = torch.nn.Linear(3, 2), []
    layer.register_forward_pre_hook(lambda module, inputs: seen.append("before"))
    layer.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)))
    x = torch.ones(4, 3)
    assert torch.equal(inside(layer, lambda x: x @ layer.weight.T, x), x @ layer.weight.T)
    assert seen == ["before", (4, 2)]
    with pytest.raises(ZeroDivisionError):
        inside(layer, lambda x: 1 / 0, x)
    assert torch.equal(layer(x), x @ layer.weight.T + layer.bias)


def test_whole_weights_are_their_own_parts():
    model = tiny_model(64)
    weight = model.lm_head.weight
    assert not is_partitioned(model) and own_part(weight) is weight and rounds(model, 3) == 3
    with gathered(*model.parameters()):
        pass
    state = whole_state(model, True)
    assert state.keys() == dict(model.named_parameters()).keys(), "a tied head comes once"
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state.items())
    assert whole_state(model, False) == {}
    assert list(whole_state(model, True, lambda name: name == "model.norm.weight")) == ["model.norm.weight"]


class Owing(TorchEngine):
    """Another rank has two micro-batches more."""

    passes = 0

    def rounds(self, count: int) -> int:
        return count + 2

    def backward(self, loss: torch.Tensor) -> None:
        self.passes += 1
        super().backward(loss)


@pytest.mark.parametrize("loss", ["grpo", "distillation"])
@pytest.mark.parametrize("share", [True, False])
def test_passes_for_the_sake_of_other_ranks_change_nothing(loss, share):
    tokenizer = tiny_tokenizer()
    config = Config(train=TrainConfig(loss=loss, micro_tokens=30), model=ModelConfig(shared_prefix=share))
    teacher, ends, engines = tiny_model(len(tokenizer), seed=1), [], []
    for kind in (TorchEngine, Owing):
        model = tiny_model(len(tokenizer))
        engines.append(kind(model, 1e-3, 0.1, 1.0, lambda step: 1.0))
        if loss == "grpo":
            metrics, _ = update(engines[-1], make_samples(), 0.0, config)
        else:
            metrics, _ = distill(engines[-1], teacher, make_samples(),
                                 lambda text: tokenizer.encode(text, add_special_tokens=False), config)
        ends.append((metrics, torch.cat([weight.flatten() for weight in model.parameters()])))
    assert engines[1].passes >= 4
    (plain, weights), (owing, others) = ends
    assert owing == pytest.approx(plain, rel=1e-5) and plain["grad_norm"] > 0
    torch.testing.assert_close(others, weights, rtol=0, atol=1e-6)
