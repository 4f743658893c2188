"""Divergences between next-token distributions, token by token: full vocabulary, or the top k and one tail bucket.

    forward KL      KL(T‖S) = Σ_v T ln(T/S)
    reverse KL      KL(S‖T) = Σ_v S ln(S/T)
    Jensen-Shannon  ½ KL(T‖M) + ½ KL(S‖M),   M = ½ (T + S)             symmetric, at most ln 2

Inputs are log-probs [N, V] that sum to 1. With k tokens, `with_tail` adds the mass of all others as one bucket: what
comes out is the divergence of the coarser distributions, never above the full one, and 0 only where these agree.
"""

import math

import torch

LOG_ZERO = -1e4  # a finite stand-in for ln 0


def forward_kl(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """KL(T‖S) [N] from log-probs [N, V]."""
    return _kl(teacher, student)


def reverse_kl(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """KL(S‖T) [N] from log-probs [N, V]."""
    return _kl(student, teacher)


def jensen_shannon(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """½ KL(T‖M) + ½ KL(S‖M) [N] from log-probs [N, V]."""
    # Where both are ln 0, logaddexp has no gradient; e^-1e4 is 0 as well.
    middle = torch.logaddexp(student.clamp(min=LOG_ZERO), teacher.clamp(min=LOG_ZERO)) - math.log(2.0)
    return 0.5 * (_kl(teacher, middle) + _kl(student, middle))


def with_tail(logp: torch.Tensor) -> torch.Tensor:
    """Log-probs [N, k] of k different tokens → [N, k + 1]: the last is ln(1 − Σ p), all other tokens together.

    Where rounding leaves no tail (k tokens hold everything), it gets the smallest mass that the type can tell from 0,
    and no gradient.
    """
    inside = logp.logsumexp(-1, keepdim=True).clamp(max=-torch.finfo(logp.dtype).eps)
    return torch.cat([logp, torch.log(-torch.expm1(inside))], -1)


def clean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`values` [N, V] with rows outside the mask replaced, so that what they hold reaches neither loss nor gradient."""
    return torch.where(mask[:, None], values, LOG_ZERO)


def masked_total(divergence: torch.Tensor, mask: torch.Tensor, denominator: float, name: str
                 ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """(1/Z) Σ mask · divergence [N], and the sum itself under `name`."""
    total = torch.where(mask, divergence, 0.0).sum()
    return total / denominator, {name: total.detach()}


def _kl(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    # A probability of 0 is worth 0, also where the other one is 0 too; the inner `where` keeps NaN out of the gradient.
    positive = first > -torch.inf
    difference = torch.where(positive, first, 0.0) - torch.where(positive, second, 0.0)
    return (torch.where(positive, first.exp(), 0.0) * difference).sum(-1)
