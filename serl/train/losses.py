"""The clipped policy loss (DESIGN section 4; PPO arXiv 1707.06347, GRPO arXiv 2402.03300).

    r  = exp(logp − logp_old)
    L  = −(1/Z) Σ mask · min(r Â, clip(r, 1−ε_p, 1+ε_p) Â)  +  β (1/Z) Σ mask · k3
    k3 = exp(logp_ref − logp) − (logp_ref − logp) − 1                (Schulman's estimator of KL(π_θ‖π_ref))

Â already holds the token weight ω; the KL term is not reweighted. Z is a constant of the whole optimizer
batch: its loss tokens (`token_mean`; GRPO's paper averages per sequence first, which favours short ones, as
DAPO and Dr.GRPO point out) or its trajectories (`seq_sum`, the expectation over trajectories of SERL-SQL's
Eq. 5). Numerator and denominator use the same mask, so that micro-batches simply add up.
"""

import torch


def grpo_loss(logp: torch.Tensor, old_logp: torch.Tensor, advantage: torch.Tensor, mask: torch.Tensor,
              denominator: float, clip_eps: float, ref_logp: torch.Tensor | None = None, beta: float = 0.0
              ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a (micro-)batch and sums of its diagnostics, which the caller divides by the mask's sum.

    All tensors are [B, T]; `mask` is bool (True: a sampled token). Entries outside the mask are ignored,
    whatever they hold. Only `logp` takes a gradient.
    """
    old_logp, advantage = old_logp.detach(), advantage.detach()
    # Values outside the mask may be NaN or inf: replace them before any arithmetic, since 0 · NaN is NaN.
    log_ratio = torch.where(mask, logp - old_logp, 0.0)
    advantage = torch.where(mask, advantage, 0.0)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    loss = -surrogate.sum() / denominator
    metrics = {
        "clipped": (mask & (clipped * advantage < ratio * advantage)).sum(),
        "kl_old": (ratio - 1.0 - log_ratio).detach().sum(),
    }
    if beta and ref_logp is not None:
        log_ref = torch.where(mask, ref_logp.detach() - logp, 0.0)
        kl = log_ref.exp() - log_ref - 1.0
        loss = loss + beta * kl.sum() / denominator
        metrics["kl_ref"] = kl.detach().sum()
    return loss, metrics
