"""Every selector on lists made by hand."""

import pytest

from serl.select import NAMES, ORACLE, SELECTORS, first, greedy, logprob, oracle, selectors, verifier, vote
from serl.select.oracle import Marked
from tests.select.made import candidate, failed, keyed


def test_first_takes_the_first_even_when_it_failed():
    assert first.pick([failed(), candidate((1,))]) == 0


def test_greedy_takes_the_decoded_one_even_when_it_failed():
    assert greedy.pick([candidate((1,)), failed(greedy=True)]) == 1
    assert greedy.pick([candidate((1,))]) is None


def test_every_selector_answers_none_for_no_candidates():
    assert {name: pick([]) for name, pick in SELECTORS.items()} == dict.fromkeys(SELECTORS)
    assert oracle.pick([]) is None


def test_vote_takes_the_earliest_member_of_the_largest_group():
    assert vote.pick(keyed("abcb")) == 1


def test_vote_breaks_a_tie_by_the_earliest_first_member():
    assert vote.pick(keyed("cabba")) == 1  # a and b have two each; a came first
    assert vote.pick(keyed("ba")) == 0


@pytest.mark.parametrize("name", ["vote", "soft", "adaptive", "logprob", "verifier"])
def test_errors_never_win_even_when_they_are_most(name):
    lost = [failed(status, sql_logprob=-0.1, verified=0.9)
            for status in ("error", "timeout", "denied", "infrastructure", "none")]
    assert SELECTORS[name]([*lost, candidate(sql_logprob=-5.0, verified=0.1)]) == 5
    assert SELECTORS[name](lost) is None


def test_an_answer_without_a_key_cannot_vote():
    assert vote.pick([failed("ok"), failed("ok"), candidate((1,))]) == 2


def test_logprob_takes_the_surest_sql_and_the_earliest_of_equal_ones():
    assert logprob.pick([candidate((1,), sql_logprob=value) for value in (-2.0, -0.5, -0.5, -1.0)]) == 1
    assert logprob.pick([candidate((1,)), candidate((2,), sql_logprob=-9.0)]) == 1  # what is not known is least sure


def test_verifier_takes_the_likeliest_yes_and_the_earliest_of_equal_ones():
    assert verifier.pick([candidate((1,), verified=value) for value in (0.2, None, 0.7, 0.7)]) == 2


def test_oracle_finds_the_first_correct_one_or_none():
    a, b, c = keyed("abc")
    assert oracle.pick([Marked(a, False), Marked(b, True), Marked(c, True)]) == 1
    assert oracle.pick([Marked(a, False)]) is None


def test_the_oracle_refuses_what_selectors_take_and_they_know_no_oracle():
    with pytest.raises(TypeError, match="gold's verdict"):
        oracle.pick(keyed("ab"))
    assert ORACLE not in NAMES and ORACLE not in SELECTORS
    assert list(selectors(["vote", ORACLE])) == ["vote"]
