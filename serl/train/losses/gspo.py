"""GSPO (arXiv 2507.18071, Eq. 5 to 7), in its token variant (Eq. 13 and 14), since Â comes a token.

    s_i   = exp( (1/|y_i|) Σ_t (logp_it − logp_old_it) )             one ratio a trajectory, length-normalised
    s_it  = sg[s_i] · π(y_it) / sg[π(y_it)]                          the trajectory's value, the token's own gradient
    L     = −(1/Z) Σ_i (1/|y_i|) Σ_t min(s_it Â_it, clip(s_it, 1−ε_lo, 1+ε_hi) Â_it)         Z = trajectories

What a token's Â_it = A_i ω_it means: every s_it of a trajectory has the one value s_i, and ω > 0 keeps the sign of A_i,
so the clip still keeps or drops whole trajectories, by s_i and A_i alone. Where it is kept, token t has the gradient
s_i A_i ω_it / |y_i|: ω shares the trajectory's update out among its tokens. The loss has the value of GSPO with
A_i · mean_t ω_it. With ω = 1 value and gradient are GSPO's, −(1/Z) Σ_i min(s_i A_i, clip(s_i) A_i).

`coefficient` must hold the 1/|y_i| (`row_share`, with what else scales the token), as `train.reduction` seq_mean does.
y_i are the sampled tokens of all turns. Bounds are those of the paper's section 5.1: s_i moves far less than r.
"""

import torch

from serl.train.losses.clipped import clipped_loss, kl_old_sum, log_ratio
from serl.train.losses.rows import row_share, row_sum

CLIP_LOW, CLIP_HIGH = 3e-4, 4e-4


def gspo_loss(logp: torch.Tensor, old_logp: torch.Tensor, advantage: torch.Tensor, mask: torch.Tensor,
              row: torch.Tensor, denominator: float, clip_low: float = CLIP_LOW, clip_high: float = CLIP_HIGH,
              dual_clip: float | None = None, coefficient: torch.Tensor | None = None
              ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a (micro-)batch of whole rows, tokens [N], and sums of its diagnostics (of a clipped row, all tokens)."""
    log_r = log_ratio(logp, old_logp, mask)
    log_s = row_sum(log_r.detach(), row) * row_share(mask, row, log_r.dtype)
    ratio = (log_s + (log_r - log_r.detach())).exp()
    loss, metrics = clipped_loss(ratio, advantage, mask, denominator, clip_low, clip_high, dual_clip, coefficient)
    return loss, {**metrics, "kl_old": kl_old_sum(log_r)}
