"""Δ measured against the spread of what the mere frame does to tokens that are as uncertain.

    z_i = (Δ_i − mean Δ⁰) / deviation of Δ⁰       over the NEAREST tokens around i in the order of −logp_S

Δ⁰ is the same teacher's gap behind the empty frame.

A frame without a word in it moves a token that the policy is unsure of by tenths of nats, and one that it is sure of
hardly at all: the same Δ is noise at the one and remarkable at the other. An AUC goes by ranks, so one scale for all
tokens could not change it; this one, which goes by each token's uncertainty, can.
"""

from collections.abc import Sequence

import torch

NEAREST = 100
"""Tokens that a deviation rests on, which puts its standard error at 7% for a normal Δ⁰."""


def against_spread(gap: Sequence[torch.Tensor], empty: Sequence[torch.Tensor], student: Sequence[torch.Tensor],
                   nearest: int = NEAREST) -> list[torch.Tensor]:
    """z [T] of each trajectory from its Δ, its Δ⁰ and the student's log-probs, [T] each; NaN: no value.

    Neighbours come from all trajectories; of fewer than `nearest` tokens with Δ⁰, all are. NaN where theirs does not
    vary.
    """
    gap_N, empty_N, student_N = (torch.cat(list(values)).double() for values in (gap, empty, student))
    known_N = torch.isfinite(empty_N) & torch.isfinite(student_N)
    doubt_M, order_M = (-student_N[known_N]).sort(stable=True)
    width = min(nearest, len(doubt_M))
    if not width:
        return [torch.full_like(values, torch.nan) for values in gap]
    windows_WK = empty_N[known_N][order_M].unfold(0, width, 1)
    mean_W, deviation_W = windows_WK.mean(-1), windows_WK.std(-1, correction=0)
    own_N = (torch.searchsorted(doubt_M, -student_N) - width // 2).clamp(0, len(windows_WK) - 1)
    z_N = (gap_N - mean_W[own_N]) / deviation_W[own_N]
    told_N = torch.isfinite(z_N) & torch.isfinite(student_N)
    return list(z_N.where(told_N, torch.nan).float().split([len(values) for values in gap]))
