"""Totals of every preset, worked out by hand, for the same completions on a real database."""

import pytest

from serl.config import RewardConfig
from serl.reward.presets import PRESETS
from tests.reward.test_sql_r1 import COUNT, EMPTY, said

PERU = "SELECT name, people FROM city WHERE country = 'Peru'"  # Lima 10, Cusco 4
MALFORMED = PERU  # SQL alone
ONE_ROW = said("SELECT name, people FROM city WHERE country = 'Peru' AND people > 4")  # Lima 10
COLUMNS_SWAPPED = said("SELECT people, name FROM city WHERE country = 'Peru'")
STUCK = said("SELECT name, people FROM town WHERE country = 'Peru'")
NOTHING = said("SELECT name, people FROM city WHERE country = 'Chile'")
RIGHT = said(PERU)

TOTALS = {
    "serl": (-1, 0, 0, -0.5, 0, 1),
    "sql_r1": (-1, 0, 0, -1, 0, 6 + 0.5 * (2 + 63) / 2048 + 52 / 63),
    "skyrl_sql": (-1, 0, 0, 0, 0, 1),
    "mars_sql": (-1, 0, 0, 0, 0, 1),
    "arctic": (0, 0.1, 0.1, 0, 0.1, 1),
    # one row: precision 1, recall 2/4, cardinality 1/2; columns swapped: the same cells
    "think2sql": (0, (1 + 1 / 2 + 1 / 2) / 3, 1, 0, 0, 1),
    # execution 3, syntax, schema, ngram. Gold has 9 bigrams: SELECT-NAME, NAME-",", ","-PEOPLE, PEOPLE-FROM, FROM-CITY,
    # CITY-WHERE, WHERE-COUNTRY, COUNTRY-"=", "="-'Peru'. It uses city and three columns of it.
    "reasoning_sql": (
        0,
        0 + 1 + 1 + 9 / 13,  # 'Peru'-AND, AND-PEOPLE, PEOPLE->, >-4 are 4 more
        0 + 1 + 1 + 5 / 13,  # SELECT-PEOPLE, PEOPLE-",", ","-NAME, NAME-FROM for 4 of gold's
        0 + 0 + 0 + 7 / 11,  # FROM-TOWN, TOWN-WHERE for 2; no table of the database
        0 + 1 + 1 + 8 / 10,  # ='Chile' for ='Peru'
        3 + 1 + 1 + 1),
}


@pytest.mark.parametrize("preset", TOTALS)
def test_totals(play, preset):
    completions = (MALFORMED, ONE_ROW, COLUMNS_SWAPPED, STUCK, NOTHING, RIGHT)
    totals = [play(completion, PERU, RewardConfig(preset)).total for completion in completions]
    assert totals == pytest.approx(TOTALS[preset])


def test_every_preset_has_its_totals_here():
    elsewhere = {"mtsql_r1", "mtsql_outcome"}  # test_mtsql_r1.py: of conversations
    assert {*TOTALS, *elsewhere, "none"} == set(PRESETS)


def terms(reward) -> list[float]:
    return list(reward.terms.values())


@pytest.mark.parametrize(("sql", "gold", "expected"), [
    # gold: Lima, Cusco, Quito, Paris, Paris. Each name again and again pays no more than gold has it.
    ("SELECT 'Lima' UNION ALL SELECT 'Lima'", "SELECT name FROM city", [1 / 2, 1 / 5, 2 / 5]),
    ("SELECT name, name FROM city", "SELECT name FROM city", [1 / 2, 1, 1]),
    ("SELECT 5.0000001", COUNT, [1, 1, 1]),  # cells are equal as rewards have them
    ("SELECT '5'", COUNT, [0, 0, 1]),
    ("SELECT name FROM city WHERE 0", EMPTY, [1, 1, 1]),
    ("SELECT name, people FROM city WHERE 0", EMPTY, [0, 0, 0]),
    ("SELECT name FROM city", EMPTY, [0, 0, 0]),
])
def test_partial_credit_for_cells(play, sql, gold, expected):
    assert terms(play(said(sql), gold, RewardConfig("think2sql"))) == pytest.approx(expected)


@pytest.mark.parametrize(("sql", "schema", "ngram"), [
    ("select C.PEOPLE, C.Name -- both\nfrom CITY as c", 1, 1 / 14),  # no matter the alias; FROM-CITY is common
    ("SELECT name FROM city", 2 / 3, 2 / 6),
    ("SELECT * FROM city", 1 / 3, 1 / 7),  # a star says its table
    ("SELECT name, people FROM city LIMIT", 0, 5 / 6),  # cannot be parsed
    ("SELECT", 0, 0),
])
def test_partial_credit_for_what_a_query_names(play, sql, schema, ngram):
    reward = play(said(sql), "SELECT name, people FROM city", RewardConfig("reasoning_sql"))
    assert (reward.terms["schema"], reward.terms["ngram"]) == pytest.approx((schema, ngram))


def test_the_least_for_a_correct_result_is_more_than_the_most_for_a_wrong_one(play):
    """The query of another mind, which is right, against gold's own with another limit."""
    gold = "SELECT name FROM city ORDER BY people DESC LIMIT 1"
    right = play(said("SELECT 'Paris'"), gold, RewardConfig("reasoning_sql"))
    wrong = play(said("SELECT name FROM city ORDER BY people DESC LIMIT 2"), gold, RewardConfig("reasoning_sql"))
    assert terms(right) == [1, 1, 0, 0] and right.total == 4 > wrong.total > 2.5
