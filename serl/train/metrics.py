"""Diagnostics of one training step, from its samples."""

from collections.abc import Sequence
from statistics import fmean

import torch

from serl.train.samples import Sample


def rollout_metrics(samples: Sequence[Sample], group_size: int) -> dict[str, float]:
    """Rewards, correctness, groups without a signal, lengths."""
    rewards = [sample.reward.total for sample in samples if sample.reward is not None]
    groups = [samples[i: i + group_size] for i in range(0, len(samples), group_size)]
    return {
        "reward/mean": fmean(rewards) if rewards else 0.0,
        "reward/std": torch.tensor(rewards).std(correction=0).item() if rewards else 0.0,
        "ex/train": fmean(sample.reward.correct for sample in samples if sample.reward) if rewards else 0.0,
        "groups/zero_variance": fmean(all(s.advantage == 0.0 for s in group) for group in groups),
        "infrastructure": float(len(samples) - len(rewards)),
        "tokens/sampled": float(sum(sample.trajectory.loss_tokens for sample in samples)),
        "turns/mean": fmean(len(sample.trajectory.turns) for sample in samples),
        "stop/final": fmean(sample.trajectory.stop == "final" for sample in samples),
    }


def mismatch_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    """Largest difference between the sampler's and the trainer's log-probs of the same tokens, in nats.

    Over the trajectories that the trainer has scored (those with a gradient, unless `train.score_first`).
    """
    worst = 0.0
    for sample in samples:
        if sample.student is None:
            continue
        difference = (sample.sampler - sample.student).abs()
        difference = difference[torch.isfinite(difference)]
        worst = max(worst, difference.max().item() if len(difference) else 0.0)
    return {"mismatch/max": worst}


def hindsight_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    """Δ and ω over the tokens that the teacher re-weighted, and the |Â| each sign of A gained or lost.

    `hindsight/abs_adv_gain_pos` is Σ|Â| / Σ|A| − 1 over all sampled tokens of trajectories with A > 0;
    `coverage` is the share of the sampled tokens of trajectories with A ≠ 0 that lie in the mask m.
    """
    metrics: dict[str, float] = {}
    gaps, weights = [torch.empty(0)], [torch.empty(0)]
    before, after, covered, tokens = {1: 0.0, -1: 0.0}, {1: 0.0, -1: 0.0}, 0, 0
    for sample in samples:
        if sample.advantage == 0.0 or sample.student is None:
            continue
        mask = sample.hindsight_mask & torch.isfinite(sample.teacher) & torch.isfinite(sample.student)
        loss_mask = torch.tensor(sample.trajectory.loss_mask, dtype=torch.bool)
        gaps.append((sample.teacher - sample.student)[mask])
        weights.append(sample.weight[mask])
        sign = 1 if sample.advantage > 0 else -1
        before[sign] += abs(sample.advantage) * loss_mask.sum().item()
        after[sign] += abs(sample.advantage) * sample.weight[loss_mask].sum().item()
        covered += mask.sum().item()
        tokens += loss_mask.sum().item()
    gap, weight = torch.cat(gaps), torch.cat(weights)
    metrics["hindsight/coverage"] = covered / max(1, tokens)
    metrics["hindsight/gap_mean"] = gap.mean().item() if len(gap) else 0.0
    metrics["hindsight/gap_abs_mean"] = gap.abs().mean().item() if len(gap) else 0.0
    metrics["hindsight/weight_mean"] = weight.mean().item() if len(weight) else 1.0
    for sign, name in ((1, "pos"), (-1, "neg")):
        metrics[f"hindsight/abs_adv_gain_{name}"] = after[sign] / before[sign] - 1.0 if before[sign] else 0.0
    return metrics
