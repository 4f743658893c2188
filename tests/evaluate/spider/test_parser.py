"""Clauses of Spider's SQL subset, and what is outside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.evaluate.spider.parser import NotInSubset, parse
from serl.evaluate.spider.query import Column, Condition, Conditions, Query, Selected, Term
from serl.evaluate.spider.schema import Schema
from serl.evaluate.spider.tokens import tokenize


def test_all_clauses(schema: Schema) -> None:
    sql = """SELECT DISTINCT T1.name , count(DISTINCT T2.concert_id) FROM Singer AS T1
        JOIN singer_in_concert AS T2 ON T1.singer_id = T2.singer_id
        WHERE age > = 20 AND country NOT IN ('US', "it's") OR name LIKE '%a%'
        GROUP BY T1.name HAVING count(*) > 1 ORDER BY T1.age - T2.concert_id DESC LIMIT 3;"""
    sql = sql.replace("('US', \"it's\")", "(SELECT country FROM singer)")
    query = parse(sql, schema)
    name, age = Column("singer.name"), Term(Column("singer.age"))
    assert query == Query(
        distinct=True,
        select=(
            Selected("", Term(name)),
            Selected("count", Term(Column("singer_in_concert.concert_id", "", distinct=True))),
        ),
        tables=("singer", "singer_in_concert"),
        joins=Conditions(
            (Condition(False, "=", Term(Column("singer.singer_id")), Column("singer_in_concert.singer_id")),)
        ),
        where=Conditions(
            (
                Condition(False, ">=", age, 20.0),
                Condition(True, "in", Term(Column("singer.country")), parse("SELECT country FROM singer", schema)),
                Condition(False, "like", Term(name), '"%a%"'),
            ),
            ("and", "or"),
        ),
        group=(name,),
        having=Conditions((Condition(False, ">", Term(Column("*", "count")), 1.0),)),
        order=(Term(Column("singer.age"), "-", Column("singer_in_concert.concert_id")),),
        descending=True,
        limit=True,
    )


def test_set_operations_and_subqueries_in_from(schema: Schema) -> None:
    query = parse("SELECT name FROM singer EXCEPT SELECT title FROM concert", schema)
    assert (query.combined_by, query.combined_with) == ("except", parse("SELECT title FROM concert", schema))
    query = parse("SELECT count(*) FROM (SELECT name FROM singer)", schema)
    assert query.tables == (parse("SELECT name FROM singer", schema),)


def test_a_column_without_a_table_is_the_first_tables_that_has_it(schema: Schema) -> None:
    for first, second in (("singer", "singer_in_concert"), ("singer_in_concert", "singer")):
        query = parse(f"SELECT singer_id FROM {first} JOIN {second}", schema)
        assert query.select[0].term.left.name == f"{first}.singer_id"


def test_between_has_two_values(schema: Schema) -> None:
    (unit,) = parse("SELECT name FROM singer WHERE age BETWEEN 20 AND 30", schema).where.units
    assert (unit.operator, unit.value, unit.value2) == ("between", 20.0, 30.0)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT name",
        "SELECT nothing FROM singer",
        "SELECT name FROM nowhere",
        "SELECT T9.name FROM singer AS T1",
        "SELECT T1.* FROM singer AS T1",
        "SELECT name AS n FROM singer",
        "SELECT name FROM singer T1",
        "SELECT name FROM singer AS concert",
        "SELECT name FROM singer , concert",
        "SELECT name FROM singer LEFT JOIN concert",
        "SELECT name FROM singer WHERE age IS NOT NULL",
        "SELECT name FROM singer WHERE (age > 1 OR age < 3)",
        "SELECT name FROM singer WHERE age > (1 + 2)",
        "SELECT name FROM singer WHERE age>=20",
        "SELECT name FROM singer WHERE age <> 20",
        "SELECT name FROM singer WHERE age = 1 AND",
        "SELECT `name` FROM singer",
        "SELECT name FROM singer WHERE name = 'O''Hare'",
        "SELECT name FROM singer WHERE name = 'a",
        "SELECT name FROM singer WHERE age >",
        "SELECT name FROM singer ORDER age",
        "SELECT max(age FROM singer",
        "(" * 5000 + "SELECT name FROM singer",
        "SELECT name FROM singer " + "UNION SELECT name FROM singer " * 100,
        "SELECT name FROM singer WHERE age IN " + "(SELECT age FROM singer WHERE age IN " * 5000,
    ],
)
def test_what_the_official_parser_cannot_read(schema: Schema, sql: str) -> None:
    with pytest.raises(NotInSubset):
        parse(sql, schema)


@pytest.mark.parametrize(
    ("sql", "tokens"),
    [
        ("a.B>1", ["a.b", ">", "1"]),
        ("a > = 1 and b ! = 'X y'", ["a", ">=", "1", "and", "b", "!=", '"X y"']),
        ("a=1", ["a=1"]),
        ("a>=1", ["a", ">", "=1"]),
        ("f(1,2),a,b", ["f", "(", "1,2", ")", ",", "a", ",", "b"]),
        ("n = 'O''Hare'", ["n", "=", '"o""hare"']),
    ],
)
def test_tokens_are_the_official_ones(sql: str, tokens: list[str]) -> None:
    assert tokenize(sql) == tokens


_WORDS = st.sampled_from(
    "select from where group by having order limit union except join on as and or not in like between max count ( ) , "
    "; * - = > distinct desc 1 'x' singer concert name age T1 T1.name singer.age title".split()
)


@given(st.one_of(st.lists(_WORDS, max_size=25).map(" ".join), st.text(max_size=40)))
def test_any_text_is_read_or_refused(schema: Schema, sql: str) -> None:
    try:
        query = parse(sql, schema)
    except NotInSubset:
        return
    assert query.tables is not None and hash(query) == hash(parse(sql, schema))
