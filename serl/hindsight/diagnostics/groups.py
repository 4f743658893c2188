"""Diagnostics of a step's hindsight, from its token table.

    hindsight/gap_mean, gap_abs_mean, gap_std, weight_mean      Δ (nats) and ω over m
    hindsight/coverage, coverage_action                         share of the loss tokens, of the action tokens in m
    hindsight/abs_adv_gain_{pos,neg}                            Σ|Â| / Σ|A| − 1 over all loss tokens with A > 0, A < 0
    hindsight/clip_{low,high}, the same with _{pos,neg}         share of the re-weighted tokens at a bound of the map
    gap/AXIS_GROUP, weight/AXIS_GROUP                           mean Δ and mean ω of a group of m's tokens
    gap/AXIS_GROUP_{pos,neg}, weight/AXIS_GROUP_{pos,neg}       its part with A > 0, with A < 0
    coverage/AXIS_GROUP                                         share of the loss tokens that are in m and in the group

Each axis divides m: its `coverage/` add up to `hindsight/coverage`. The axes are

    sign     of the advantage: pos, neg
    status   of the turn's SQL: ok, empty, error, ..., malformed
    turn     1, 2, ...; the last number stands for all later turns too
    kind     of the token: keyword, identifier, literal, operator, other (`lexemes.py`)
    shown    yes, no: does the token stand in the hindsight text of its turn (`shown.py`)
    doubt    yes, no: did the student give it a probability below 0.9

Loss and action tokens are those of trajectories with A ≠ 0, since others have no credit to share out. What no token
is in has no key: there is no mean of nothing.
"""

from __future__ import annotations

import torch

from serl.config import HindsightConfig
from serl.hindsight.credit.mistakes import UNCERTAIN
from serl.hindsight.diagnostics.lexemes import TokenKind
from serl.hindsight.diagnostics.table import STATUSES, TokenTable
from serl.hindsight.maps import limits
from serl.hindsight.weights import signed_evidence

MOST_TURNS = 6

AXES: dict[str, tuple[str, ...]] = {
    "sign": ("pos", "neg"),
    "status": STATUSES,
    "turn": tuple(str(number) for number in range(1, MOST_TURNS + 1)),
    "kind": tuple(kind.name.lower() for kind in TokenKind),
    "shown": ("no", "yes"),
    "doubt": ("no", "yes"),
}


def hindsight_diagnostics(table: TokenTable, options: HindsightConfig) -> dict[str, float]:
    """All metrics above that the table has tokens for."""
    live_BT = table.advantage_BT != 0
    loss_BT = table.sampled_BT & live_BT
    metrics = _moved(table, loss_BT)
    covered_BT, tokens = table.covered_BT, loss_BT.sum().item()
    if tokens:
        metrics["hindsight/coverage"] = covered_BT.sum().item() / tokens
    acting_BT = table.acting_BT & loss_BT
    if acting_BT.any():
        metrics["hindsight/coverage_action"] = (covered_BT & acting_BT).sum().item() / acting_BT.sum().item()
    if not covered_BT.any():
        return metrics
    gap_N, weight_N = (values[covered_BT].double() for values in (table.evidence_BT, table.weight_BT))
    metrics |= {"hindsight/gap_mean": gap_N.mean().item(), "hindsight/gap_abs_mean": gap_N.abs().mean().item(),
                "hindsight/gap_std": gap_N.std(correction=0).item(), "hindsight/weight_mean": weight_N.mean().item()}
    metrics |= _bounds(table, covered_BT, options)
    negative_N = (table.advantage_BT[covered_BT] < 0).long()
    for axis, codes_N in _codes(table, covered_BT).items():
        metrics |= _by_group(axis, codes_N, negative_N, gap_N, weight_N, tokens)
    return metrics


def _moved(table: TokenTable, loss_BT: torch.Tensor) -> dict[str, float]:
    """How much of the total |A| each sign of A gained or lost."""
    metrics = {}
    for name, side_BT in (("pos", table.advantage_BT > 0), ("neg", table.advantage_BT < 0)):
        size_N = table.advantage_BT[loss_BT & side_BT].double().abs()
        if len(size_N):
            after = (size_N * table.weight_BT[loss_BT & side_BT].double()).sum()
            metrics[f"hindsight/abs_adv_gain_{name}"] = (after / size_N.sum()).item() - 1.0
    return metrics


def _bounds(table: TokenTable, covered_BT: torch.Tensor, options: HindsightConfig) -> dict[str, float]:
    """Where the map's bounds bind, among the tokens whose sign of A is re-weighted at all."""
    metrics = {}
    signed_BT, active_BT = signed_evidence(table.advantage_BT, table.evidence_BT, covered_BT, options)
    low, high = limits(options.eps_low, options.eps_high, options.map)
    for suffix, side_BT in (("", active_BT), ("_pos", active_BT & (table.advantage_BT > 0)),
                            ("_neg", active_BT & (table.advantage_BT < 0))):
        signed_N = signed_BT[side_BT]
        if len(signed_N):
            metrics[f"hindsight/clip_low{suffix}"] = (signed_N < low).double().mean().item()
            metrics[f"hindsight/clip_high{suffix}"] = (signed_N > high).double().mean().item()
    return metrics


def _codes(table: TokenTable, covered_BT: torch.Tensor) -> dict[str, torch.Tensor]:
    """For each axis the place of each covered token's group in AXES, [N]."""
    return {
        "sign": (table.advantage_BT < 0)[covered_BT].long(),
        "status": table.status_BT[covered_BT],
        "turn": table.turn_BT[covered_BT].clamp(max=MOST_TURNS - 1),
        "kind": table.kind_BT[covered_BT],
        "shown": table.shown_BT[covered_BT].long(),
        "doubt": (table.student_BT < -UNCERTAIN)[covered_BT].long(),
    }


def _by_group(axis: str, code_N: torch.Tensor, negative_N: torch.Tensor, gap_N: torch.Tensor, weight_N: torch.Tensor,
              tokens: int) -> dict[str, float]:
    """Means of one axis's groups, over both signs of A and for each of them."""
    groups = AXES[axis]

    def sums(value_N: torch.Tensor | None) -> list[list[float]]:
        """[G][2]: a sum (or a count) for each group and sign of A."""
        counted = torch.bincount(2 * code_N + negative_N, value_N, 2 * len(groups))
        return counted.view(len(groups), 2).tolist()

    metrics = {}
    for group, count, gap, weight in zip(groups, sums(None), sums(gap_N), sums(weight_N)):
        parts = {"": (sum(count), sum(gap), sum(weight))}
        if axis != "sign":
            parts |= {f"_{name}": (count[i], gap[i], weight[i]) for i, name in enumerate(AXES["sign"])}
        for suffix, (size, gap_sum, weight_sum) in parts.items():
            if size:
                metrics[f"gap/{axis}_{group}{suffix}"] = gap_sum / size
                metrics[f"weight/{axis}_{group}{suffix}"] = weight_sum / size
        if sum(count):
            metrics[f"coverage/{axis}_{group}"] = sum(count) / tokens
    return metrics
