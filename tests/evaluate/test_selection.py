"""Selectors side by side, counted by hand."""

import pytest

from serl.evaluate.candidates import MarkedPool
from serl.evaluate.selection import outcomes, selection, sizes
from serl.evaluate.selection_table import selection_table
from serl.select import selectors
from serl.select.pool import Pool
from tests.select.made import candidate, failed


def pool(greedy_correct, results, right, seen=True, tokens=10):
    """A question: a letter a sample (`-` failed, `!` lost); those whose letter is `right` are correct."""
    samples = tuple(failed("infrastructure" if key == "!" else "error", tokens=tokens) if key in "-!"
                    else candidate((key,), tokens=tokens) for key in results)
    return MarkedPool(Pool("q", "db", candidate(("g",), greedy=True, tokens=7), samples), greedy_correct,
                      tuple(key == right for key in results), seen, "simple")


POOLS = [
    pool(True, "aaba", "a"),  # the vote is right at every N
    pool(False, "abbb", "b"),  # right from N = 4 on; at N = 2 the tie goes to a
    pool(False, "aab-", "b"),  # wrong, although b was sampled
    pool(True, "----", "x", seen=False),  # nothing to choose, and greedy is right
]


def block(pools=POOLS, names=("first", "vote"), n=4):
    return selection(pools, outcomes(pools, selectors(names), n), n)["splits"]


def values(row):
    return {name: each["value"]["value"] for name, each in row.items()}


def test_values_at_every_n_are_those_of_the_prefixes():
    found = block()["all"]
    assert found["questions"] == 4 and found["greedy"]["value"]["value"] == 0.5
    assert values(found["at"]["1"]) == {"first": 0.25, "vote": 0.25, "oracle": 0.25}
    assert values(found["at"]["2"]) == {"first": 0.25, "vote": 0.25, "oracle": 0.5}
    assert values(found["at"]["4"]) == {"first": 0.25, "vote": 0.5, "oracle": 0.75}


def test_regret_share_of_the_gap_and_distance_to_the_vote():
    at = block()["all"]["at"]["4"]
    assert at["vote"]["regret"]["value"] == 0.25 and at["first"]["regret"]["value"] == 0.5
    assert at["vote"]["closed"]["value"] == 0.0  # as many right as greedy, of a gap of a quarter
    assert at["first"]["closed"]["value"] == -1.0
    assert at["first"]["over_vote"]["value"] == -0.25 and at["first"]["over_vote"]["p_value"] == 1.0
    assert "over_vote" not in at["vote"] and "regret" not in at["oracle"]


def test_splits_are_those_of_the_databases_and_where_there_is_no_gap_none_is_closed():
    found = block()
    assert (found["seen"]["questions"], found["unseen"]["questions"]) == (3, 1)
    assert found["unseen"]["at"]["4"]["vote"]["closed"] is None
    assert block([POOLS[0]])["unseen"] == {}


def test_tokens_are_summed_over_the_prefix_and_a_lost_sample_is_no_ones():
    found = block([pool(True, "a!b", "b", tokens=5)], n=3)["all"]
    assert found["tokens"] == {"1": 5, "2": 5, "3": 10} and found["greedy"]["tokens"] == 7
    assert values(found["at"]["2"])["oracle"] == 0 and values(found["at"]["3"])["oracle"] == 1


def test_a_question_whose_samples_or_greedy_answer_are_lost_is_left_out():
    lost_greedy = MarkedPool(Pool("q", "db", failed("infrastructure", greedy=True), (candidate((1,)),)), False, (True,),
                             True, "")
    assert block([pool(True, "!!", "a"), lost_greedy, POOLS[0]], n=2)["all"]["questions"] == 1


def test_adaptive_says_what_it_takes_and_saves():
    found = block([pool(True, "aaaaaaaa", "a"), pool(True, "abcdefgh", "a")], ("vote", "adaptive"), 8)["all"]
    saved = found["adaptive"]["8"]
    assert saved["samples"] == (4 + 8) / 2 and saved["tokens"] == 60 and saved["saved"] == pytest.approx(0.25)
    assert values(found["at"]["8"])["adaptive"] == values(found["at"]["8"])["vote"] == 1.0


def test_intervals_hold_their_value_and_differences_are_paired():
    pools = [pool(number % 3 == 0, "aabb", "b" if number % 2 else "a") for number in range(60)]
    at = block(pools)["all"]["at"]["4"]
    for row in at.values():
        for each in row.values():
            assert each["low"] <= each["value"] <= each["high"]
    same = at["first"]["over_vote"]  # both take the first sample of each question
    assert (same["low"], same["value"], same["high"]) == (0, 0, 0)
    assert block(pools) == block(pools)


def test_the_table_says_every_n_and_never_calls_the_oracle_accurate():
    pools = [pool(number % 3 == 0, "aabb", "b" if number % 2 else "a") for number in range(60)]
    picks = selectors(("first", "vote", "adaptive"))
    text = selection_table(selection(pools, outcomes(pools, picks, 4), 4))
    assert "N=1" in text and "N=4" in text and "upper bound" in text and "adaptive takes" in text
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert rows == ["N=1", "first", "vote", "adaptive", "oracle", "tokens"] * 2  # seen and all, no unseen ones
    assert "accura" not in text


def test_sizes_are_powers_of_two_and_all_samples():
    assert sizes(16) == [1, 2, 4, 8, 16] and sizes(12) == [1, 2, 4, 8, 12]
