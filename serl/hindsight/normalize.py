"""Normalizations over a trajectory: what evidence says of a token beside the other tokens of its trajectory.

Sampled tokens come from the student, so E[Δ] ≤ 0: positive advantages shrink on average and negative ones grow.

    center   Δ ← Δ − mean_m Δ                  before the map: the trajectory's evidence has mean 0
    mean1    w ← 1 + s·(w−1)                   after it: Σ_m (w−1) = 0, so that the trajectory's Σ|Â| is what it was

`mean1` does not divide by the mean, which would leave the bounds and could turn a factor above 1 into one below. It
shrinks the heavier side: s = min(1, D/U) for w > 1 and min(1, U/D) for w < 1, with U = Σ_m (w−1)⁺ and D = Σ_m (w−1)⁻.
Where all evidence points one way there is nothing to trade, and every factor is 1.

`m` are the trajectory's tokens with evidence; sums run over the last dimension.
"""

import torch


def center(evidence: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
    """Evidence [..., T] less its mean over `active`; 0 outside."""
    evidence = torch.where(active, evidence, 0.0)
    mean = evidence.sum(-1, keepdim=True) / active.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(active, evidence - mean, 0.0)


def balance(deviation: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
    """w − 1 [..., T] with the heavier side shrunk, so that its sum over `active` is 0 (to rounding)."""
    deviation = torch.where(active, deviation, 0.0)
    up, down = deviation.clamp(min=0.0), deviation.clamp(max=0.0)
    more, less = up.sum(-1, keepdim=True), -down.sum(-1, keepdim=True)
    common = torch.minimum(more, less)
    # A side without mass has nothing to scale: any finite factor does.
    return up * (common / more.clamp(min=1e-30)) + down * (common / less.clamp(min=1e-30))
