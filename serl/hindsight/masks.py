"""Which sampled tokens hindsight may re-weight: the scope of the selective action mask.

    action       SQL bodies, tool names and arguments, the final SQL: what the environment acts on (the paper's)
    sql_only     SQL bodies only, intermediate and final (in a dialect without tools, the same as `action`)
    final_only   the solution's SQL only
    all          every sampled token of a turn: thinking, tags and end token too (the ablation without a mask)
    none         nothing: plain GRPO beside a teacher that changes nothing
"""

import torch

from serl.agent.dialects import Kind
from serl.agent.trajectory import Trajectory


def scope_mask(trajectory: Trajectory, scope: str) -> torch.Tensor:
    """Bool [T], True on the tokens in `scope`; always within the loss mask. ValueError for another scope."""
    loss_mask = torch.tensor(trajectory.loss_mask, dtype=torch.bool)
    match scope:
        case "action":
            inside = torch.tensor(trajectory.action_mask, dtype=torch.bool)
        case "sql_only":
            inside = _spans(trajectory, [turn.sql for turn in trajectory.turns])
        case "final_only":
            inside = _spans(trajectory, [turn.sql for turn in trajectory.turns if turn.parsed.kind is Kind.FINAL])
        case "all":
            inside = _spans(trajectory, [turn.action for turn in trajectory.turns])
        case "none":
            inside = torch.zeros_like(loss_mask)
        case other:
            raise ValueError(f"no such mask scope: {other!r}")
    return loss_mask & inside


def _spans(trajectory: Trajectory, spans: list[tuple[int, int] | None]) -> torch.Tensor:
    inside = torch.zeros(len(trajectory), dtype=torch.bool)
    for span in spans:
        if span is not None:
            inside[slice(*span)] = True
    return inside
