"""Which tokens each scope of the action mask holds, on a hand-made trajectory of two turns."""

import pytest
import torch

from serl.agent.dialects import Action, Kind
from serl.hindsight.masks import scope_mask
from tests.train.made import made_trajectory

# places:          0  1 | 2  3  4  5 | 6  7 | 8  9 10
TRAJECTORY = ([5, 6], [7, 8, 9, 7], [4, 4], [7, 8, 7])


@pytest.mark.parametrize(("scope", "inside"), [
    ("action", {3, 4, 9}), ("sql_only", {3, 4, 9}), ("final_only", {9}), ("all", {2, 3, 4, 5, 8, 9, 10}),
    ("none", set())])
def test_scopes_by_hand(scope, inside):
    mask = scope_mask(made_trajectory(*TRAJECTORY), scope)
    assert mask.dtype == torch.bool and set(mask.nonzero().flatten().tolist()) == inside


def test_tool_names_and_arguments_are_actions_but_not_sql():
    trajectory = made_trajectory(*TRAJECTORY)
    trajectory.action_mask[2] = 1  # a dialect whose action is `tool(sql)`
    assert scope_mask(trajectory, "action")[2] and not scope_mask(trajectory, "sql_only")[2]


def test_a_turn_without_sql_and_a_trajectory_without_a_solution_have_nothing():
    trajectory = made_trajectory(*TRAJECTORY)
    trajectory.turns[1].sql, trajectory.turns[1].parsed = None, Action(Kind.MALFORMED)
    assert not scope_mask(trajectory, "final_only").any()
    assert set(scope_mask(trajectory, "sql_only").nonzero().flatten().tolist()) == {3, 4}


def test_context_is_never_in_scope():
    trajectory = made_trajectory(*TRAJECTORY)
    trajectory.action_mask = [1] * len(trajectory)
    assert scope_mask(trajectory, "action").tolist() == [bool(on) for on in trajectory.loss_mask]


def test_an_unknown_scope_is_refused():
    with pytest.raises(ValueError, match="no such mask scope"):
        scope_mask(made_trajectory(*TRAJECTORY), "thinking")
