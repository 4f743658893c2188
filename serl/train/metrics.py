"""Diagnostics of one training step, from its samples."""

from collections.abc import Sequence
from statistics import fmean

import torch

from serl.config import HindsightConfig
from serl.hindsight.diagnostics.groups import hindsight_diagnostics
from serl.hindsight.diagnostics.table import MALFORMED, Piece, Row, TokenTable, TurnView, labelled, text_of
from serl.train.samples import Sample


def rollout_metrics(samples: Sequence[Sample], group_size: int) -> dict[str, float]:
    """Rewards and their terms, correctness, groups without a signal (all right, all wrong, or not scored), lengths.

    Terms are means of what they were before the panel weighed them.
    """
    scored = [sample.reward for sample in samples if sample.reward is not None]
    rewards, terms = [reward.total for reward in scored], scored[0].terms if scored else ()
    groups = [samples[i: i + group_size] for i in range(0, len(samples), group_size)]
    alike = [[s.reward.correct for s in group if s.reward is not None] for group in groups
             if not any(s.learns for s in group)]
    return {
        "reward/mean": fmean(rewards) if rewards else 0.0,
        "reward/std": torch.tensor(rewards).std(correction=0).item() if rewards else 0.0,
        **{f"reward/{name}": fmean(reward.terms[name] for reward in scored) for name in terms},
        "ex/train": fmean(reward.correct for reward in scored) if scored else 0.0,
        "groups/zero_variance": len(alike) / len(groups),
        "groups/all_right": sum(bool(correct) and all(correct) for correct in alike) / len(groups),
        "groups/all_wrong": sum(bool(correct) and not any(correct) for correct in alike) / len(groups),
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


def hindsight_metrics(samples: Sequence[Sample], piece: Piece, options: HindsightConfig) -> dict[str, float]:
    """What hindsight did to the step's tokens (see `serl.hindsight.diagnostics.groups`)."""
    return hindsight_diagnostics(token_table(samples, piece), options)


def token_table(samples: Sequence[Sample], piece: Piece) -> TokenTable:
    """The tokens of the samples with A ≠ 0 that the trainer has scored."""
    return TokenTable.of([_row(sample, piece) for sample in samples
                          if sample.learns and sample.gap is not None])


def _row(sample: Sample, piece: Piece) -> Row:
    trajectory, first = sample.trajectory, sample.first
    views = [TurnView(turn.action, turn.sql, turn.parsed.sql, turn.parsed.offsets,
                      MALFORMED if turn.outcome is None else str(turn.outcome.status),
                      None if hindsight is None else text_of(hindsight.ids, piece))
             for turn, hindsight in zip(trajectory.turns, sample.hindsights, strict=True)]
    return Row(sample.advantage, trajectory.loss_mask[first:], trajectory.action_mask[first:], sample.evidence[first:],
               sample.weight[first:], sample.student[first:], **labelled(trajectory.token_ids, views, first, piece),
               steps_T=None if sample.steps is None else sample.advantages[first:])
