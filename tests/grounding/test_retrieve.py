"""V_q: which values are found, where, and in what order."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grounding import Grounder, GroundingConfig, Request
from grounding.retrieve import retrieve

KEEP_ALL = GroundingConfig(min_score=0.0)


def values_for(question, path, cache, encoder="none", config=KEEP_ALL):
    return Grounder(cache, encoder, config).ground(Request(question, path)).values


@pytest.mark.parametrize(
    ("question", "column", "value", "channel"),
    [
        ("Who won the Italian Grand Prix?", "name", "ITALIAN GRAND PRIX", "exact"),
        ("Which races did Jensen Buton win?", "name", "Jenson Button", "trigram"),
        ("Where did 'Pat O'Ward' finish?", "name", "Pat O'Ward", "exact"),
    ],
)
def test_values_are_found_whatever_their_case_or_spelling(racing, tmp_path, question, column, value, channel):
    best = values_for(question, racing, tmp_path / "cache")[0]
    assert (best.column, best.value, best.channel) == (column, value, channel)
    assert best.score == 1.0 if channel == "exact" else 0.5 < best.score < 1.0


def test_a_value_of_other_words_is_found_by_meaning(racing, tmp_path):
    question = "How many points did drivers from the United Kingdom get?"
    assert "British" not in [match.value for match in values_for(question, racing, tmp_path / "cache")]
    dense = values_for(question, racing, tmp_path / "cache", encoder="minilm")
    (british,) = [match for match in dense if match.value == "British"]
    assert (british.column, british.channel) == ("nationality", "dense") and british.score > 0.5


def test_of_two_columns_that_hold_a_value_the_one_the_question_names_is_first(make_database, tmp_path):
    path = make_database("CREATE TABLE team (home TEXT, origin TEXT); INSERT INTO team VALUES ('Oslo', 'Oslo');")
    found = values_for("teams whose origin is Oslo", path, tmp_path / "cache")
    assert [match.column for match in found] == ["origin", "home"]


def test_spellings_of_one_value_in_a_column_are_one_match_the_commonest(make_database, tmp_path):
    path = make_database("CREATE TABLE t (city TEXT); INSERT INTO t VALUES ('OSLO'), ('Oslo'), ('Oslo'), ('oslo');")
    assert [match.value for match in values_for("people in OSLO", path, tmp_path / "cache")] == ["Oslo"]


def test_the_best_k_are_returned_and_poor_matches_are_dropped(make_database, tmp_path):
    rows = ", ".join(f"('Lake Resort {i}')" for i in range(50))
    path = make_database(f"CREATE TABLE t (name TEXT); INSERT INTO t VALUES {rows}, ('Lake Resort');")
    found = values_for("Lake Resort", path, tmp_path / "cache", config=GroundingConfig(top_values=3, min_score=0.0))
    assert len(found) == 3 and found[0].value == "Lake Resort"
    strict = values_for("Lake Resort", path, tmp_path / "cache", config=GroundingConfig(min_score=0.99))
    assert [match.value for match in strict] == ["Lake Resort"]


def test_many_questions_at_once_are_answered_as_one_by_one(racing, make_database, tmp_path):
    other = make_database("CREATE TABLE city (name TEXT); INSERT INTO city VALUES ('Oslo');", name="cities")
    requests = [
        Request("Who is British?", racing),
        Request("people in Oslo", other),
        Request("", racing),
        Request("Monaco", racing, evidence="a principality"),
    ]
    together = Grounder(tmp_path / "a", "minilm").ground_many(requests)
    alone = [Grounder(tmp_path / "a", "minilm").ground(request) for request in requests]
    assert together == alone


def test_the_runner_up_of_an_exact_match_is_dropped_but_another_mention_is_not(make_database, tmp_path):
    path = make_database(
        "CREATE TABLE t (name TEXT); INSERT INTO t VALUES ('Tina Robertson'), ('Tim Robertson'), ('Oleander');"
    )
    question = "Does 'Tina Robertson' like the oleanders?"
    assert {m.value for m in values_for(question, path, tmp_path)} == {"Tina Robertson", "Tim Robertson", "Oleander"}
    strict = values_for(question, path, tmp_path, config=GroundingConfig(min_score=0.5))
    assert {match.value for match in strict} == {"Tina Robertson", "Oleander"}


FLAGS = """
CREATE TABLE member (name TEXT, sex TEXT, is_active TEXT, state TEXT, stars TEXT);
INSERT INTO member VALUES ('Ann', 'F', 'Y', 'NY', '5'), ('Bob', 'M', 'N', 'TX', '3'), ('Cid', 'M', 'Y', 'OH', '4');
"""


@pytest.mark.parametrize(
    ("question", "column", "value"),
    [
        ("How many women are there?", "sex", "F"),
        ("Names of the male ones", "sex", "M"),
        ("Who is active?", "is_active", "Y"),
        ("Who is not active?", "is_active", "N"),
        ("Who lives in New York?", "state", "NY"),
        ("Who is from Texas?", "state", "TX"),
        ("Who has five stars?", "stars", "5"),
    ],
)
def test_codes_and_flags_are_found_by_what_they_stand_for(make_database, tmp_path, question, column, value):
    path = make_database(FLAGS)
    best = values_for(question, path, tmp_path / "cache")[0]
    assert (best.column, best.value) == (column, value)
    assert best.channel in ("code", "exact")


def test_a_code_is_a_guess_that_no_prompt_shows(make_database, tmp_path):
    path = make_database(FLAGS)
    assert values_for("How many women are active?", path, tmp_path / "cache", config=GroundingConfig()) == ()


def test_names_that_hold_stop_words_are_found_just_as_they_are_written(make_database, tmp_path):
    path = make_database("CREATE TABLE film (title TEXT); INSERT INTO film VALUES ('Gone with the Wind'), ('It');")
    found = values_for("who reviewed gone with the wind?", path, tmp_path / "cache")
    assert [(match.value, match.channel) for match in found] == [("Gone with the Wind", "exact")]


NAMES = st.lists(st.sampled_from(["Oslo", "Bergen", "New York", "York", "Lima", "O'Hara", "Sao Paulo"]), min_size=1,
                 max_size=5, unique=True)


@pytest.fixture(scope="module")
def cities(tmp_path_factory):
    """A database, and the retrieval of a question as a function of its mentions."""
    folder = tmp_path_factory.mktemp("cities")
    with closing(sqlite3.connect(folder / "cities.sqlite")) as connection:
        connection.executescript(
            "CREATE TABLE city (name TEXT, mayor TEXT); CREATE TABLE team (home TEXT, name TEXT);"
            "INSERT INTO city VALUES ('Oslo', 'Lima'), ('Bergen', 'O''Hara'), ('New York', 'York'), ('Sao Paulo', 'X');"
            "INSERT INTO team VALUES ('Oslo', 'Bergen'), ('York', 'New York'), ('Lima', 'O''Hara'), ('Lima', 'Sao');"
        )
    grounder = Grounder(folder / "cache", "none", KEEP_ALL)

    def ask(question: str, order=tuple):
        (asked,) = grounder.ask([Request(question, folder / "cities.sqlite")])
        opened = grounder.open_all(folder / "cities.sqlite")
        asked = replace(asked, mentions=tuple(order(asked.mentions)), spans=tuple(order(asked.spans)))
        return retrieve(opened.index, opened.profile, asked, 10)

    return ask


@given(NAMES)
@settings(max_examples=25)
def test_what_is_quoted_and_stored_is_among_the_first_ten(cities, names):
    found = cities("Which teams are from " + " or ".join(f'"{name}"' for name in names) + "?")
    assert set(names) <= {match.value for match in found}
    assert all(0 <= match.score <= 1 for match in found)


@given(NAMES, st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_which_values_are_found_and_how_alike_does_not_depend_on_the_order_of_mentions(cities, names, random):
    question = f"teams from {' and '.join(names)}"
    plain = cities(question)
    shuffled = cities(question, lambda mentions: random.sample(mentions, len(mentions)))
    assert cities(question) == plain

    def without_order(matches):
        return {(match.table, match.column, match.value, match.score) for match in matches}

    assert without_order(shuffled) == without_order(plain)
