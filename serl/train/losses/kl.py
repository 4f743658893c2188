"""The KL term to the reference policy (GRPO, arXiv 2402.03300, Eq. 4; k3 of Schulman, "Approximating KL divergence").

    L = β (1/Z) Σ mask · k3,    k3 = exp(logp_ref − logp) − (logp_ref − logp) − 1

k3 ≥ 0 estimates KL(π‖π_ref) from tokens that π sampled. It is minimised: a descent step pulls logp towards logp_ref.
It carries neither ω nor an importance weight: it is a leash, not credit. `share` is the reduction's 1/|o_i|, if any.
"""

import torch


def k3_loss(logp: torch.Tensor, ref_logp: torch.Tensor, mask: torch.Tensor, denominator: float, beta: float,
            share: torch.Tensor | None = None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss of a (micro-)batch of tokens [N], and Σ k3 over the mask as `kl_ref`."""
    log_ref = torch.where(mask, ref_logp.detach() - logp, 0.0)
    kl = log_ref.exp() - log_ref - 1.0
    shared = kl if share is None else share * kl
    return beta * shared.sum() / denominator, {"kl_ref": kl.detach().sum()}
