"""Groups with a signal are those with an advantage other than 0; a refill replaces the others, within its bound."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from serl.reward.panel import Reward
from serl.train.advantages import group_advantages
from serl.train.groups import Group, fill, has_signal
from serl.train.metrics import rollout_metrics
from serl.train.samples import Sample
from tests.train.made import made_trajectory

REWARDS = st.lists(st.one_of(st.none(), st.sampled_from([-1.0, -0.5, 0.0, 0.1 + 0.2, 1.0])), max_size=6)


@given(REWARDS, st.booleans())
def test_a_signal_is_an_advantage_other_than_zero(rewards, standardize):
    assert has_signal(rewards) == any(group_advantages(rewards, 1e-6, standardize))


def group(*rewards: float | None) -> Group:
    return Group(None, [Sample.of(made_trajectory([1, 2], [3, 4, 5], [6], [7, 8, 9]),
                                  None if total is None else Reward(total, {}, total == 1.0), advantage)
                        for total, advantage in zip(rewards, group_advantages(rewards, 1e-6))])


SIGNAL, ALIKE = group(1.0, 0.0), group(0.0, 0.0)


def asked(stream: str):
    """`ask` that gives S (signal) and . (none) in this order, and what was asked of it."""
    counts, rest = [], iter(stream)

    def ask(count: int) -> list[Group]:
        counts.append(count)
        return [SIGNAL if next(rest) == "S" else ALIKE for _ in range(count)]

    return ask, counts


@pytest.mark.parametrize(("stream", "refill", "counts", "rounds", "found"), [
    ("SSSS", 3, [4], 0, 4),  # nothing is missing
    ("S.S.SS", 3, [4, 2], 1, 4),
    ("....S..S.S.", 3, [4, 4, 2, 1], 3, 3),  # the bound is reached with one group missing
    ("....", 0, [4], 0, 0),  # off
    ("........", 1, [4, 4], 1, 0),  # no signal at all
])
def test_a_refill_asks_as_many_questions_as_groups_are_missing_and_stops_at_its_bound(
        stream, refill, counts, rounds, found):
    ask, seen = asked(stream)
    groups, dropped, extra = fill(ask, 4, refill)
    assert (seen, extra) == (counts, rounds)
    if refill:
        assert all(each.signal for each in groups) and not any(each.signal for each in dropped)
        assert (len(groups), len(dropped)) == (found, len(stream) - found)
    else:
        assert (len(groups), dropped) == (len(stream), []), "off: every group stays in the batch"


def test_groups_without_variance_are_counted_by_what_they_are():
    groups = [group(1.0, 1.0), group(0.0, 0.0), group(-1.0, -1.0), group(None, None), group(1.0, None),
              group(1.0, 0.0), group(0.0, -1.0), group(0.0, -1.0)]
    metrics = rollout_metrics([sample for each in groups for sample in each.samples], 2)
    found = {name: metrics[f"groups/{name}"] for name in ("zero_variance", "all_right", "all_wrong")}
    assert found == {"zero_variance": 5 / 8, "all_right": 2 / 8, "all_wrong": 2 / 8}
    assert torch.tensor([each.signal for each in groups]).tolist() == [False] * 5 + [True] * 3
