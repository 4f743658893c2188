"""DAPO (arXiv 2503.14476, Eq. 8): clip-higher and the token mean.

    L = −(1/Z) Σ mask · min(r Â, clip(r, 1−ε_lo, 1+ε_hi) Â)          ε_lo = 0.2 < ε_hi = 0.28,  Z = loss tokens

A higher upper bound lets an unlikely token that was right grow; the lower bound stays, so that nothing is pushed to
probability 0. Deviations: the paper's Z are the tokens of one question's group, with an expectation over questions
outside; here they are those of the optimizer batch (as in its released code), so that a question with long answers
weighs more. No KL term, as in the paper, unless `train.kl_beta` asks for it. Dynamic sampling is the trainer's: see
`serl.train.groups`. Overlong reward shaping is a matter of the reward.
"""

import torch

from serl.train.losses.grpo import grpo_loss

CLIP_LOW, CLIP_HIGH = 0.2, 0.28


def dapo_loss(logp: torch.Tensor, old_logp: torch.Tensor, advantage: torch.Tensor, mask: torch.Tensor,
              denominator: float, clip_low: float = CLIP_LOW, clip_high: float = CLIP_HIGH,
              dual_clip: float | None = None, coefficient: torch.Tensor | None = None
              ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a (micro-)batch of tokens [N] with Z = the batch's loss tokens, and sums of its diagnostics."""
    return grpo_loss(logp, old_logp, advantage, mask, denominator, clip_low, clip_high, dual_clip, coefficient)
