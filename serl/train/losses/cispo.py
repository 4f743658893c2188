"""CISPO (MiniMax-M1, arXiv 2506.13585, Eq. 4 and 5): the importance weight is clipped, never the update.

    L = −(1/Z) Σ mask · sg[ clip(r, 1−ε_lo, 1+ε_hi) ] · Â · logp                Z = loss tokens

Every token keeps a gradient, rare decisive ones included, which PPO's clip drops after the first step on a batch.
The paper sets no lower bound (ε_lo = 1 here, as r ≥ 0) and tunes the upper one without printing it: ε_hi = 4, a weight
of at most 5, is our default. At r = 1 the gradient is GRPO's. Deviation: Z are the tokens of the optimizer batch, not
of one question's group (see `dapo.py`). The loss's value is no objective to read: only its gradient means something.
"""

import torch

from serl.train.losses.clipped import kl_old_sum, log_ratio

CLIP_LOW, CLIP_HIGH = 1.0, 4.0


def cispo_loss(logp: torch.Tensor, old_logp: torch.Tensor, advantage: torch.Tensor, mask: torch.Tensor,
               denominator: float, clip_low: float = CLIP_LOW, clip_high: float = CLIP_HIGH,
               coefficient: torch.Tensor | None = None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a (micro-)batch of tokens [N], and sums of its diagnostics (`clipped`: tokens with a bounded weight)."""
    log_r = log_ratio(logp, old_logp, mask)
    ratio = log_r.detach().exp()
    weight = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * torch.where(mask, advantage.detach(), 0.0)
    if coefficient is not None:
        weight = torch.where(mask, coefficient.detach(), 0.0) * weight
    low, high = mask & (ratio < 1.0 - clip_low), mask & (ratio > 1.0 + clip_high)
    metrics = {"clipped": (low | high).sum(), "clipped_low": low.sum(), "clipped_high": high.sum()}
    loss = -(weight * torch.where(mask, logp, 0.0)).sum() / denominator
    return loss, {**metrics, "kl_old": kl_old_sum(log_r)}
