"""What gold SQL uses of a schema, worked out by hand."""

from pathlib import Path

import pytest

from grounding.evaluate.gold import Comparison, UnresolvedSql, read_gold
from grounding.schema import Column, Database, Table


def table(name, *columns):
    return Table(name, tuple(Column(column, "text") for column in columns))


RACING = Database("racing", Path("racing.sqlite"), (
    table("Race", "Id", "Name", "Race Date", "Circuit_Id"), table("circuit", "id", "name", "country")), ())


def compared(sql):
    return [(c.table, c.column, c.operator, c.literal) for c in read_gold(sql, RACING).comparisons]


def test_aliases_are_resolved_to_tables_and_columns_in_lower_case():
    use = read_gold("SELECT r.NAME, count(*) FROM race r JOIN circuit AS c ON r.circuit_id = c.id"
                    " WHERE c.country = 'Italy' GROUP BY r.name", RACING)
    assert use.tables == {"race", "circuit"}
    assert use.columns == {("race", "name"), ("race", "circuit_id"), ("circuit", "id"), ("circuit", "country")}
    assert use.comparisons == (Comparison("circuit", "country", "=", "Italy"),)


@pytest.mark.parametrize(("condition", "expected"), [
    ("name = 'Monza'", [("circuit", "name", "=", "Monza")]),
    ("'Monza' = name", [("circuit", "name", "=", "Monza")]),
    ('name != "Monza"', [("circuit", "name", "!=", "Monza")]),
    ("name IN ('A', 'B')", [("circuit", "name", "=", "A"), ("circuit", "name", "=", "B")]),
    ("name LIKE '%onz%'", [("circuit", "name", "like", "%onz%")]),
    ("lower(name) = 'monza'", [("circuit", "name", "=", "monza")]),
    ("id = 3", []),  # a bare number is no value to be found
    ("name = country", []),
])
def test_literals_are_what_a_column_is_compared_with(condition, expected):
    assert compared(f"SELECT id FROM circuit WHERE {condition}") == expected


def test_a_name_in_double_quotes_is_a_column_where_there_is_one_else_a_string():
    assert compared('SELECT "name" FROM race WHERE "Race Date" = "2009"') == [("race", "race date", "=", "2009")]
    assert read_gold('SELECT "Race Date" FROM race', RACING).columns == {("race", "race date")}


def test_derived_tables_unions_and_correlated_subqueries_are_followed():
    assert compared("SELECT x FROM (SELECT country AS x FROM circuit) AS t WHERE x = 'Italy'") == [
        ("circuit", "country", "=", "Italy")]
    assert compared("WITH t AS (SELECT name AS n FROM race) SELECT n FROM t WHERE n = 'A' UNION SELECT name FROM"
                    " circuit WHERE country = 'B'") == [("race", "name", "=", "A"), ("circuit", "country", "=", "B")]
    assert compared("SELECT id FROM race AS r WHERE EXISTS (SELECT 1 FROM circuit AS c WHERE c.id = r.circuit_id AND"
                    " r.name = 'A')") == [("race", "name", "=", "A")]


@pytest.mark.parametrize("sql", ["SELECT FROM WHERE", "SELECT 1", "SELECT a FROM nowhere"])
def test_what_cannot_be_resolved_says_so(sql):
    with pytest.raises(UnresolvedSql):
        read_gold(sql, RACING)


def test_names_that_differ_in_the_case_of_an_accent_stay_apart():
    database = Database("seasons", Path("seasons.sqlite"), (table("Été", "Âge", "Nom"), table("été", "Prix")), ())
    assert read_gold('SELECT T1."ÂGE" FROM "Été" AS T1', database).columns == {("Été", "Âge")}
    with pytest.raises(UnresolvedSql):  # SQLite folds ASCII letters only
        read_gold('SELECT T1."âge" FROM "Été" AS T1', database)
    use = read_gold("SELECT Âge, NOM FROM Été", database)
    assert (use.tables, use.columns) == ({"Été"}, {("Été", "Âge"), ("Été", "nom")})
    assert read_gold("SELECT prix FROM été", database).columns == {("été", "prix")}
