"""What one rank may do alone, what refuses a step on all of them, and an end to waiting for one that is gone."""

import time
from dataclasses import replace

import pytest
import torch

from serl.train.update import update
from tests.models import tiny_model
from tests.train.deepspeed.cases import Case, Learner, batch
from tests.train.deepspeed.pair import opened

pytestmark = [pytest.mark.engine, pytest.mark.deepspeed, pytest.mark.timeout(900)]

IDS = torch.tensor([[5, 9, 30, 7, 12, 40]])


def sample_alone(ranks) -> dict:
    """Rank 0 calls the policy more often than rank 1, then both learn."""
    learner = Learner(Case(3), ranks)
    before = learner.model(IDS).logits.detach()
    with learner.engine.whole(), torch.no_grad():
        alone = [learner.model(IDS).logits for _ in range(3 - 3 * ranks.rank)]
    learner.step([batch()[place] for place in learner.case.parts[ranks.rank]])
    held = sum(weight.numel() for weight in learner.model.parameters())
    return {"before": before, "alone": alone, "held": held}


def refuse(ranks, zero: int) -> dict:
    """A step of which rank 1 has a part that is not finite, and one that is."""
    learner = Learner(Case(zero), ranks)
    samples = [batch()[place] for place in learner.case.parts[ranks.rank]]
    before = learner.weights()
    with pytest.raises(FloatingPointError, match="not applied"):
        learner.step([replace(sample, advantage=float("inf")) for sample in samples] if ranks.rank else samples)
    unmoved = all(torch.equal(weight, before[name]) for name, weight in learner.weights().items())
    lr = learner.engine.lr
    metrics = learner.step(samples)
    fresh = Learner(Case(zero), ranks).step(samples)
    return {"unmoved": unmoved, "lr": lr, "norm": metrics["grad_norm"], "fresh": fresh["grad_norm"]}


def leave_out(ranks, zero: int) -> dict:
    """An update whose gradients no step takes, as a guard decides, and one that is taken."""
    learner = Learner(Case(zero), ranks)
    samples = [batch()[place] for place in learner.case.parts[ranks.rank]]
    before = learner.weights()
    update(learner.engine, samples, 0.0, learner.case.config, lambda engine, metrics: 0.0)
    learner.engine.zero_grad()
    unmoved = all(torch.equal(weight, before[name]) for name, weight in learner.weights().items())
    metrics = learner.step(samples)
    fresh = Learner(Case(zero), ranks).step(samples)
    return {"unmoved": unmoved, "lr": metrics["lr"], "norm": metrics["grad_norm"], "fresh": fresh}


def wait_in_vain(ranks) -> float:
    learner = Learner(Case(3), ranks, timeout_s=3.0)
    if ranks.rank == 1:
        time.sleep(8.0)
        return 0.0
    start = time.perf_counter()
    with pytest.raises(RuntimeError):
        learner.model(IDS)
    return time.perf_counter() - start


def test_with_the_whole_weights_one_rank_samples_without_the_other(run):
    model = tiny_model(Learner(Case()).model.config.vocab_size)
    with torch.no_grad():
        expected = model(IDS).logits
    first, second = run(sample_alone)
    assert len(first["alone"]) == 3 and not second["alone"]
    for found in (first["before"], second["before"], *first["alone"]):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert first["held"] == 0, "behind it, and behind a step, no rank holds whole weights"


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_a_gradient_that_is_not_finite_on_one_rank_is_refused_on_all_and_leaves_no_trace(run, zero):
    for found in run(refuse, zero):
        assert found["unmoved"] and found["lr"] == 1e-4
        assert found["norm"] == pytest.approx(found["fresh"], rel=1e-6)


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_gradients_that_no_step_takes_are_not_in_the_next_one(run, zero):
    for found in run(leave_out, zero):
        assert found["unmoved"] and found["lr"] == found["fresh"]["lr"]
        assert found["norm"] == pytest.approx(found["fresh"]["grad_norm"], rel=1e-6) and found["norm"] > 0


def test_a_rank_that_waits_for_the_weights_of_one_that_is_gone_raises():
    with opened(60.0) as run:
        waited, _ = run(wait_in_vain)
    assert 1.0 < waited < 8.0
