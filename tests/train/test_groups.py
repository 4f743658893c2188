"""Groups with a signal are those with an advantage other than 0."""

from hypothesis import given
from hypothesis import strategies as st

from serl.train.advantages import group_advantages
from serl.train.groups import groups_with_signal, has_signal

REWARDS = st.lists(st.one_of(st.none(), st.sampled_from([-1.0, -0.5, 0.0, 0.1 + 0.2, 1.0])), max_size=6)


@given(REWARDS, st.booleans())
def test_a_signal_is_an_advantage_other_than_zero(rewards, standardize):
    assert has_signal(rewards) == any(group_advantages(rewards, 1e-6, standardize))


def test_places_of_groups():
    assert groups_with_signal([[1, 1], [0, 1], [None, None], [None, 1], [-1, -0.5, None], []]) == [1, 4]
