"""Sampler against trainer: how far they differ, and weights that correct for it.

The same weights give other log-probs in another engine (kernels, precision, batch shapes), so tokens that "the old
policy" sampled are slightly off-policy. With ρ = π_old(trainer) / π(sampler) at each sampled token:

    off        c = 1
    token      c_t = min(ρ_t, C)                                 truncated importance sampling (Yao et al. 2025, "Your
                                                                 efficient RL framework secretly brings you off-policy")
    sequence   c_t = min(Π_u ρ_u, C) for all t of a trajectory   Liu et al. 2025, "When speed kills stability"
    mask       c_t = ρ_t where F ≤ ρ_t ≤ C, else 0               IcePop (arXiv 2510.18855)

c is a constant factor of the token's surrogate, beside PPO's ratio of the current to the old policy; the KL term does
not take it. `sequence` is the product: the unbiased weight of the trajectory before it is truncated, and the more
variable one (a geometric mean would be neither). It falls below 1 without bound, so that long trajectories fade.

    k1 = −ln ρ      k3 = ρ − 1 − ln ρ       both estimate KL(sampler‖trainer), from tokens that the sampler drew
"""

import math

import torch

from serl.train.losses.rows import row_sum


def sampler_correction(old_logp: torch.Tensor, sampler_logp: torch.Tensor, mask: torch.Tensor, row: torch.Tensor,
                       mode: str, cap: float = 2.0, floor: float = 0.5) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """c [N] without gradient, and sums over the mask: k1 and k3, and tokens whose ρ is not known (they count as ρ = 1).

    Except for `off` also Σ c and how many tokens were truncated or left out. `cap` is C ≥ 1; `floor`, F ≤ 1, is used
    by `mask` only. Raises ValueError for another mode.
    """
    known = mask & torch.isfinite(old_logp) & torch.isfinite(sampler_logp)
    log_rho = torch.where(known, old_logp.detach() - sampler_logp.detach(), 0.0)
    metrics = {"mismatch_k1": -log_rho.sum(), "mismatch_k3": (log_rho.exp() - 1.0 - log_rho).sum(),
               "mismatch_unknown": (mask & ~known).sum()}
    match mode:
        case "off":
            return torch.ones_like(log_rho), metrics
        case "token" | "mask":
            pass
        case "sequence":
            log_rho = row_sum(log_rho, row)
        case other:
            raise ValueError(f"no such correction: {other!r}")
    # Bounded before exp: the product over a long trajectory may be too large for a float.
    weight = log_rho.clamp(max=math.log(cap)).exp()
    limited = log_rho > math.log(cap)
    if mode == "mask":
        limited = limited | (log_rho < (math.log(floor) if floor > 0.0 else -math.inf))
        weight = weight.masked_fill(limited, 0.0)
    return weight, metrics | {"tis_weight": torch.where(mask, weight, 0.0).sum(), "tis_limited": (mask & limited).sum()}
