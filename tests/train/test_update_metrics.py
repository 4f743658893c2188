"""What an update reports and what it counts: Z, means over tokens by loops, and batches without a gradient."""

import math
from dataclasses import replace

import pytest
import torch

from serl.train.engine import TorchEngine
from serl.train.samples import add_reference, add_student
from serl.train.update import denominator, update
from tests.models import tiny_model, tiny_tokenizer
from tests.train.test_update import config_of, make_samples


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer):
    return tiny_model(len(tokenizer))


@pytest.fixture(scope="module")
def old_model(tokenizer):
    """The policy some updates ago."""
    other = tiny_model(len(tokenizer))
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in other.parameters():
            parameter += 0.01 * torch.randn(parameter.shape, generator=generator)
    return other


def test_a_batch_without_a_gradient_is_no_step_of_the_optimizer_either(tokenizer):
    model = tiny_model(len(tokenizer))
    engine = TorchEngine(model, 0.1, 0.1, 1.0, lambda step: 1.0 / (1 + step))
    update(engine, make_samples(), 0.0, config_of())  # so that there is momentum to go on by
    before = [parameter.clone() for parameter in model.parameters()]
    lr = engine.lr
    metrics, _ = update(engine, [replace(sample, advantage=0.0) for sample in make_samples()], 0.0, config_of())
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters()))
    assert (metrics["grad_norm"], engine.lr) == (0.0, lr)


@pytest.mark.parametrize(("reduction", "tokens"), [("token_mean", 7 + 8 + 9), ("seq_sum", 3), ("seq_mean", 3)])
def test_z_counts_silent_groups_and_leaves_failures_of_ours_out(reduction, tokens):
    samples = make_samples()
    samples[2] = replace(samples[2], advantage=0.0)  # no signal, but sampled
    samples[3] = replace(samples[3], advantage=0.0, reward=None)
    assert denominator(samples, reduction) == tokens


def test_the_kl_term_draws_the_policy_to_its_reference(tokenizer, old_model):
    model, config = tiny_model(len(tokenizer)), config_of(kl_beta=1.0)
    samples = [replace(sample, advantage=0.0) for sample in make_samples()]
    samples = add_reference(old_model, add_student(model, samples, 0.0, config), config)
    engine = TorchEngine(model, 1e-4, 0.0, 1.0, lambda step: 1.0)
    divergences = [update(engine, samples, 0.0, config)[0]["kl"] for _ in range(4)]
    assert divergences == sorted(divergences, reverse=True) and 0 < divergences[-1] < 0.95 * divergences[0]


@pytest.mark.parametrize("micro_tokens", [1, 10_000])
@pytest.mark.parametrize("beta", [0.0, 0.05])
def test_metrics_are_means_over_the_encoded_tokens_by_loops(model, old_model, micro_tokens, beta):
    """Encoded are trajectories with a gradient: with a KL term, also those without a signal."""
    config = config_of(micro_tokens=micro_tokens, kl_beta=beta, tis="token", tis_cap=1.1, dual_clip=1.02)
    samples = add_reference(old_model, add_student(old_model, make_samples(offset=7.0), 0.0, config), config)
    samples[2] = replace(samples[2], advantage=0.0)
    samples[3] = replace(samples[3], advantage=0.0, reward=None)
    metrics, _ = update(TorchEngine(model, 0.0, 0.0, 1.0, lambda step: 1.0), samples, 0.0, config)

    rows = []  # of each encoded token: r, rho of the sampler, A, ln of the reference's ratio
    for sample, now in zip(samples[: 3 if beta else 2], add_student(model, samples, 0.0, config)):
        for place, inside in enumerate(sample.trajectory.loss_mask):
            if inside:
                old = sample.student[place].item()
                rows.append((math.exp(now.student[place].item() - old),
                             math.exp(old - sample.trajectory.sampler_logprobs[place]), sample.advantage,
                             sample.reference[place].item() - now.student[place].item()))
    share = {name: sum(map(rule, rows)) / len(rows) for name, rule in {
        "ratio/clip_low": lambda row: row[2] < 0 and row[0] < 0.8,
        "ratio/clip_high": lambda row: row[2] > 0 and row[0] > 1.2,
        "ratio/clip_dual": lambda row: row[2] < 0 and row[0] > 1.02,
        "kl/old": lambda row: row[0] - 1 - math.log(row[0]),
        "mismatch/k1": lambda row: -math.log(row[1]),
        "mismatch/k3": lambda row: row[1] - 1 - math.log(row[1]),
        "tis/weight_mean": lambda row: min(row[1], 1.1),
        "tis/limited": lambda row: row[1] > 1.1,
    }.items()}
    share["ratio/clip_fraction"] = share["ratio/clip_low"] + share["ratio/clip_high"] + share["ratio/clip_dual"]
    if beta:
        share["kl"] = sum(math.exp(row[3]) - row[3] - 1 for row in rows) / len(rows)
    assert {name: metrics[name] for name in share} == pytest.approx(share, rel=1e-3, abs=1e-6)
    assert "kl" in metrics if beta else "kl" not in metrics
    assert share["ratio/clip_dual"] > 0 and 0 < share["tis/limited"] <= 1
