"""GRPO (arXiv 2402.03300) on tokens that carry their own Â (SERL-SQL's Eq. 4 and 5; DESIGN section 4).

    r = exp(logp − logp_old)
    L = −(1/Z) Σ mask · min(r Â, clip(r, 1−ε_lo, 1+ε_hi) Â)

Z and coefficient choose the average (`train.reduction`):

    token_mean   Z = loss tokens of the batch                       every token counts the same
    seq_sum      Z = trajectories                                   SERL-SQL's Eq. 5, an expectation over trajectories
    seq_mean     Z = trajectories, coefficient = 1/|o_i|            GRPO's paper: its own mean first, per trajectory

The paper averages over the group and takes the expectation over questions; with groups of one size that is the mean
over all trajectories. Deviations: the default is `token_mean`, since `seq_mean` lets a long wrong answer off lightly
(as DAPO and Dr. GRPO point out); the KL term is a loss of its own (`kl.py`); the bounds may differ (`dapo.py`).
"""

import torch

from serl.train.losses.clipped import clipped_loss, kl_old_sum, log_ratio


def grpo_loss(logp: torch.Tensor, old_logp: torch.Tensor, advantage: torch.Tensor, mask: torch.Tensor,
              denominator: float, clip_low: float = 0.2, clip_high: float = 0.2, dual_clip: float | None = None,
              coefficient: torch.Tensor | None = None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a (micro-)batch of tokens [N], and sums of its diagnostics."""
    log_r = log_ratio(logp, old_logp, mask)
    loss, metrics = clipped_loss(log_r.exp(), advantage, mask, denominator, clip_low, clip_high, dual_clip, coefficient)
    return loss, {**metrics, "kl_old": kl_old_sum(log_r)}
