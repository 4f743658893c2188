"""Dr. GRPO (arXiv 2503.20783): GRPO without its two biases.

    A^n = R^n − mean R                                                 no division by std R
    L   = −(1/Z) Σ mask · min(r Â, clip(r, 1−ε, 1+ε) Â)                Z = trajectories, no division by |o_i|

Against GRPO: the advantage is centred only (`group_advantages(..., standardize=False)`), so that a question whose
answers are nearly all right or all wrong is not blown up; and tokens are summed, never averaged by length (`seq_sum`),
so that a long wrong answer pays for each of its tokens. The clip is GRPO's. Deviation: the released code also divides
by a constant (the longest answer); a constant factor is left to the learning rate, but mind that sums make large
gradients for `train.grad_clip`.
"""

import torch

from serl.train.losses.grpo import grpo_loss


def dr_grpo_loss(logp: torch.Tensor, old_logp: torch.Tensor, advantage: torch.Tensor, mask: torch.Tensor,
                 denominator: float, clip_low: float = 0.2, clip_high: float = 0.2, dual_clip: float | None = None,
                 coefficient: torch.Tensor | None = None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a (micro-)batch of tokens [N] with Z = the batch's trajectories, and sums of its diagnostics."""
    return grpo_loss(logp, old_logp, advantage, mask, denominator, clip_low, clip_high, dual_clip, coefficient)
