"""From signed evidence x = sign(A)·Δ to how much a factor differs from 1, within bounds.

    clip     w = exp( clamp(x, ln(1−ε_lo), ln(1+ε_hi)) )           published (arXiv 2605.19447, 2604.03128)
    tanh     w = 1 + ε_hi tanh(x/ε_hi) for x ≥ 0,  1 + ε_lo tanh(x/ε_lo) for x < 0
    logsym   w = exp( clamp(x, −b, b) ),   b = min(−ln(1−ε_lo), ln(1+ε_hi))

All map 0 to exactly 1, never fall as x grows, have slope 1 at 0, and stay in [1−ε_lo, 1+ε_hi]. What each is for:
- clip reaches its bounds at +0.18 and −0.22 nats with ε = 0.2, and what lies beyond is all the same;
- tanh approaches the bounds smoothly, so that 0.3 nats still count more than 0.2;
- logsym has the same room on both sides in log space, so that opposite evidence has reciprocal factors, w(−x) = 1/w(x),
  at the bounds too. (After mixing, ω = 1 + λ(w−1), that holds at λ = 1.)
The papers have `clip` only; `tanh` and `logsym` are ours, each one change away from it.
"""

import math

import torch

SATURATED = 0.95


def deviation(evidence: torch.Tensor, eps_low: float, eps_high: float, name: str) -> torch.Tensor:
    """w − 1, shaped like `evidence`; `name` is clip, tanh or logsym. ValueError for another."""
    low, high = math.log1p(-eps_low), math.log1p(eps_high)
    match name:
        case "clip":
            return torch.expm1(evidence.clamp(low, high))
        case "tanh":
            return _saturate(evidence.clamp(min=0.0), eps_high) + _saturate(evidence.clamp(max=0.0), eps_low)
        case "logsym":
            bound = min(-low, high)
            return torch.expm1(evidence.clamp(-bound, bound))
        case other:
            raise ValueError(f"no such map: {other!r}")


def _saturate(evidence: torch.Tensor, bound: float) -> torch.Tensor:
    return bound * torch.tanh(evidence / max(bound, 1e-30))  # float32 would make 0/0 of a smaller bound


def limits(eps_low: float, eps_high: float, name: str) -> tuple[float, float]:
    """The evidence below and above which a map's bounds bind: more of it changes w no more.

    `tanh` never reaches its bounds; there it is where w − 1 is SATURATED of them.
    """
    low, high = math.log1p(-eps_low), math.log1p(eps_high)
    match name:
        case "clip":
            return low, high
        case "tanh":
            return -math.atanh(SATURATED) * eps_low, math.atanh(SATURATED) * eps_high
        case "logsym":
            bound = min(-low, high)
            return -bound, bound
        case other:
            raise ValueError(f"no such map: {other!r}")
