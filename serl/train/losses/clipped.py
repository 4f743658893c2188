"""The clipped surrogate that GRPO, DAPO, Dr. GRPO and GSPO share (PPO, arXiv 1707.06347; dual clip, arXiv 1912.09729).

    S = min(r Â, clip(r, 1−ε_lo, 1+ε_hi) Â)                  Â ≥ 0, or without dual clip
    S = max(min(r Â, clip(r, 1−ε_lo, 1+ε_hi) Â), c Â)        Â < 0 with dual clip c > 1

Without dual clip, min leaves r unbounded where Â < 0: one token that has become far likelier than it was when it was
sampled can outweigh the batch. Dual clip bounds it at c, and the token gets no gradient beyond.
"""

import torch


def log_ratio(logp: torch.Tensor, old_logp: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """ln r [N], 0 outside the mask: NaN and inf are replaced before any arithmetic, since 0 · NaN is NaN."""
    return torch.where(mask, logp - old_logp.detach(), 0.0)


def kl_old_sum(log_r: torch.Tensor) -> torch.Tensor:
    """Σ of the k3 estimate of KL(π_old‖π), from tokens that π_old sampled: how far the policy has moved."""
    log_r = log_r.detach()
    return (log_r.exp() - 1.0 - log_r).sum()


def clipped_loss(ratio: torch.Tensor, advantage: torch.Tensor, mask: torch.Tensor, denominator: float,
                 clip_low: float, clip_high: float, dual_clip: float | None, coefficient: torch.Tensor | None
                 ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """−(1/Z) Σ mask · coefficient · S, and how many tokens each bound took the gradient from.

    `ratio` [N] is finite outside the mask too. `clipped` counts both bounds and the dual clip's.
    """
    # Masked first, as in `log_ratio`: the advantage is what makes a token outside the mask worth nothing.
    advantage = torch.where(mask, advantage.detach(), 0.0)
    plain = ratio * advantage
    bounded = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantage
    surrogate = torch.minimum(plain, bounded)
    hit = mask & (bounded < plain)
    metrics = {"clipped_low": (hit & (advantage < 0)).sum(), "clipped_high": (hit & (advantage > 0)).sum()}
    if dual_clip is not None:
        floor = dual_clip * advantage
        dual = mask & (advantage < 0) & (floor > surrogate)
        surrogate = torch.where(dual, floor, surrogate)
        metrics["clipped_dual"] = dual.sum()
        hit = hit | dual
    if coefficient is not None:
        surrogate = torch.where(mask, coefficient.detach(), 0.0) * surrogate
    return -surrogate.sum() / denominator, {"clipped": hit.sum(), **metrics}
