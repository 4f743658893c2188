"""From spans of a text to tokens of a trajectory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.hindsight.credit.candidate import candidate_of, marks
from serl.hindsight.credit.difference import Difference, compare
from serl.hindsight.credit.tokens import byte_offsets, token_at, tokens_of
from tests.agent.test_env import act, environment, start
from tests.hindsight.credit.played import PIECE, played, text_of


def test_a_token_that_straddles_a_border_belongs_to_the_span():
    assert tokens_of([4, 4, 4], [(3, 5)]) == [True, True, False]
    assert tokens_of([4, 0, 4], [(4, 5), (5, 5)]) == [False, False, True]
    assert tokens_of([4, 4], []) == [False, False]


def test_the_token_at_a_place_is_the_one_that_covers_it():
    assert [token_at([2, 0, 3], position) for position in (0, 1, 2, 4, 5)] == [0, 0, 2, 2, 3]


@given(st.text(max_size=12))
def test_offsets_are_bytes(text: str):
    assert byte_offsets(text) == [len(text[:end].encode()) for end in range(len(text) + 1)]


@given(st.lists(st.integers(0, 4), max_size=8), st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_tokens_of_a_span_are_those_with_a_byte_in_it(lengths: list[int], span: tuple[int, int]):
    owners = [index for index, length in enumerate(lengths) for _ in range(length)]
    expected = {owners[byte] for byte in range(*span) if byte < len(owners)}
    assert {index for index, inside in enumerate(tokens_of(lengths, [span])) if inside} == expected


def test_marked_tokens_say_the_wrong_words_and_stand_in_the_place_of_the_missing_ones():
    trajectory = played("SELECT 'é', name FROM city ORDER BY area LIMIT 1", query="SELECT name FROM city")
    candidate = candidate_of(trajectory, PIECE, correct=False)
    difference = compare(candidate.sql, "SELECT 'é', mayor FROM city ORDER BY area DESC LIMIT 1")
    found = marks(candidate, difference)
    assert "name" in text_of(trajectory, found.wrong) and len(text_of(trajectory, found.wrong).strip(" ,")) == 4
    assert min(found.wrong) == min(found.first) and found.wrong.isdisjoint(found.missing)
    (place,) = found.missing
    assert text_of(trajectory, {place}) == " " or text_of(trajectory, {place}).startswith(" L")
    before = text_of(trajectory, range(trajectory.turns[-1].sql[0], place))
    assert before.endswith("ORDER BY area")


def test_what_is_missing_at_the_end_is_blamed_on_the_closing_tag():
    trajectory = played("SELECT name FROM city")
    candidate = candidate_of(trajectory, PIECE, correct=False)
    found = marks(candidate, compare(candidate.sql, "SELECT name FROM city WHERE area > 1"))
    assert text_of(trajectory, found.missing) == "</solution>" and not found.wrong
    assert found.missing == {candidate.closer} and candidate.closer in candidate.scope


def test_a_solution_that_was_cut_off_is_none():
    episode = start(environment())
    act(episode, "<solution>SELECT name FROM city")
    episode.observe(None)
    assert candidate_of(episode.trajectory, PIECE, correct=False).sql is None


@pytest.mark.parametrize("sql", ["SELECT  name\n FROM city ", " SELECT 'ü' || name FROM city;"])
def test_every_character_of_the_sql_has_its_token(sql: str):
    trajectory = played(sql)
    candidate = candidate_of(trajectory, PIECE, correct=False)
    assert candidate.sql == sql
    for place in range(len(sql)):
        found = marks(candidate, Difference(((place, place + 1),), (), (), 1.0))
        assert sql[place].encode() in b"".join(PIECE(trajectory.token_ids[token]) for token in sorted(found.wrong))
