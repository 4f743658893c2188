"""Adaptive N: the posterior by hand and by integration, when it stops, and what it chooses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from serl.select import adaptive, vote
from tests.select.made import candidate, failed, keyed

POOL = st.lists(st.sampled_from("aaabbc-"), max_size=16)


def pool_of(keys):
    return [failed() if key == "-" else candidate((key,)) for key in keys]


def test_the_posterior_by_hand():
    assert adaptive.posterior(0, 0) == 0.5
    assert adaptive.posterior(1, 0) == 0.75
    assert adaptive.posterior(4, 0) == 31 / 32
    assert adaptive.posterior(2, 1) == 11 / 16  # (1 + 4 + 6) / 16


@given(st.integers(0, 20), st.integers(0, 20))
def test_the_posterior_is_the_betas(leader, second):
    leader, second = max(leader, second), min(leader, second)
    assert adaptive.posterior(leader, second) == pytest.approx(beta.sf(0.5, leader + 1, second + 1), abs=1e-12)


def test_it_stops_at_the_first_prefix_that_is_sure_enough():
    assert adaptive.needed(keyed("aaaaaaaaaaaaaaaa"), 0.95) == 4
    assert adaptive.needed(keyed("aaaaaaaaaaaaaaaa"), 0.9) == 3
    # One vote against: P(p > 1/2) is 0.891 at 4:1, 0.9375 at 5:1, 0.965 at 6:1.
    assert adaptive.needed(keyed("abaaaaaaaaaaaaaa"), 0.95) == 7


def test_it_stops_when_what_is_left_cannot_change_the_vote():
    assert adaptive.needed(keyed("aaab"), 0.999) == 3  # three to none with one to go
    assert adaptive.needed(keyed("aabb"), 0.999) == 4  # two to none with two to go may still be a tie


def test_errors_take_a_sample_and_never_vote():
    pool = [failed() for _ in range(16)]
    assert adaptive.needed(pool) == 16 and adaptive.pick(pool) is None
    assert adaptive.needed([failed(), failed(), *keyed("aaaaaaaaaaaaaa")]) == 6


@given(POOL)
def test_at_full_confidence_it_chooses_as_the_vote_of_all(keys):
    pool = pool_of(keys)
    chosen, full = adaptive.pick(pool, confidence=1.0), vote.pick(pool)
    assert (chosen is None) == (full is None)
    if full is not None:
        assert pool[chosen].result_key == pool[full].result_key


@given(POOL, st.floats(0.5, 1.0))
def test_it_never_looks_at_what_comes_after_it_stopped(keys, confidence):
    pool = pool_of(keys)
    size = adaptive.needed(pool, confidence)
    rest = [failed() for _ in range(len(pool) - size)]
    assert adaptive.needed([*pool[:size], *rest], confidence) == size
    assert adaptive.enough(pool[:size], len(pool), confidence)
    assert not any(adaptive.enough(pool[:less], len(pool), confidence) for less in range(size))
