"""Spider's exact match, clause by clause, and its hardness."""

import pytest

from serl.evaluate.exact_match import CLAUSES, differing_clauses
from serl.evaluate.spider.hardness import hardness
from serl.evaluate.spider.parser import parse
from serl.evaluate.spider.schema import Schema

JOIN = "FROM singer AS T1 JOIN singer_in_concert AS T2 ON T1.singer_id = T2.singer_id"


def differing(pred: str, gold: str, schema: Schema) -> list[str]:
    return differing_clauses(parse(pred, schema), parse(gold, schema), schema)


@pytest.mark.parametrize(
    ("pred", "gold"),
    [
        ("SELECT age , name FROM singer", "select NAME, Age from singer"),  # order of columns
        ("SELECT DISTINCT name FROM singer", "SELECT name FROM singer"),
        ("SELECT count(DISTINCT name) FROM singer", "SELECT count(name) FROM singer"),
        ("SELECT name FROM singer WHERE age > 3", "SELECT name FROM singer WHERE age > 'x'"),  # values
        ("SELECT name FROM singer WHERE age = 1 AND name = 'a'",
         "SELECT name FROM singer WHERE name = 'b' AND age = 2"),
        # and/or are compared as a set
        ("SELECT name FROM singer WHERE age = 1 AND name = 'a' OR age = 2",
         "SELECT name FROM singer WHERE age = 1 OR name = 'a' AND age = 2"),
        ("SELECT name FROM singer ORDER BY age LIMIT 3", "SELECT name FROM singer ORDER BY age ASC LIMIT 1"),
        # aliases, joins' conditions
        (f"SELECT T1.name {JOIN}", "SELECT A.name FROM singer_in_concert JOIN singer AS A"),
        (f"SELECT T1.singer_id {JOIN}", f"SELECT T2.singer_id {JOIN}"),  # the same by foreign key
        ("SELECT name FROM singer WHERE age IN (SELECT age FROM singer WHERE name = 'a')",
         "SELECT name FROM singer WHERE age IN (SELECT age FROM singer WHERE name = 'b')"),
        ("SELECT name FROM singer UNION SELECT title FROM concert WHERE year = 1",
         "SELECT name FROM singer UNION SELECT DISTINCT title FROM concert WHERE year = 2"),
    ],
)  # fmt: skip
def test_what_is_not_looked_at(schema: Schema, pred: str, gold: str) -> None:
    assert differing(pred, gold, schema) == differing(gold, pred, schema) == []


@pytest.mark.parametrize(
    ("pred", "gold", "clauses"),
    [
        ("SELECT name FROM singer", "SELECT name , age FROM singer", ["select"]),
        ("SELECT max(age) FROM singer", "SELECT min(age) FROM singer", ["select"]),
        ("SELECT name FROM singer WHERE age > 1", "SELECT name FROM singer WHERE age < 1", ["where"]),
        ("SELECT name FROM singer WHERE age > 1", "SELECT name FROM singer", ["where", "keywords"]),
        ("SELECT name FROM singer WHERE age = 1 AND name = 'a'", "SELECT name FROM singer WHERE age = 1 OR name = 'a'",
         ["and/or", "keywords"]),
        ("SELECT name FROM singer ORDER BY age", "SELECT name FROM singer ORDER BY age DESC", ["order", "keywords"]),
        ("SELECT name FROM singer ORDER BY age , name", "SELECT name FROM singer ORDER BY name , age", ["order"]),
        ("SELECT name FROM singer ORDER BY age", "SELECT name FROM singer ORDER BY age LIMIT 1", ["order", "keywords"]),
        ("SELECT name FROM singer LIMIT 1", "SELECT name FROM singer", ["keywords"]),
        ("SELECT count(*) FROM singer GROUP BY age", "SELECT count(*) FROM singer GROUP BY name", ["group", "having"]),
        ("SELECT count(*) FROM singer GROUP BY age", "SELECT count(*) FROM singer", ["group", "having", "keywords"]),
        ("SELECT age FROM singer GROUP BY age HAVING count(*) > 1",
         "SELECT age FROM singer GROUP BY age HAVING max(age) > 1", ["having"]),
        # The columns are the same by foreign key, also where its target is not in FROM.
        ("SELECT singer_id FROM singer_in_concert", "SELECT singer_id FROM singer", ["tables"]),
        # Inside a condition, order and DISTINCT count.
        ("SELECT name FROM singer WHERE age IN (SELECT DISTINCT age FROM singer)",
         "SELECT name FROM singer WHERE age IN (SELECT age FROM singer)", ["where"]),
        ("SELECT name FROM singer UNION SELECT title FROM concert",
         "SELECT name FROM singer EXCEPT SELECT title FROM concert", ["set operation", "keywords"]),
        ("SELECT name FROM singer UNION SELECT title FROM concert",
         "SELECT name FROM singer UNION SELECT year FROM concert", ["set operation"]),
        (f"SELECT T1.name {JOIN}", "SELECT name FROM singer", ["tables"]),
    ],
)  # fmt: skip
def test_what_differs_is_named(schema: Schema, pred: str, gold: str, clauses: list[str]) -> None:
    assert differing(pred, gold, schema) == clauses
    assert set(clauses) <= set(CLAUSES)


def test_deeply_nested_queries_are_compared_too(schema: Schema) -> None:
    nested = "SELECT name FROM singer WHERE age IN (" * 55 + "SELECT age FROM singer" + ")" * 55
    assert differing(nested, nested, schema) == []
    unions = "SELECT name FROM singer UNION " * 55 + "SELECT title FROM concert"
    assert differing(unions, unions.replace("title", "year"), schema) == ["set operation"]


def test_grouping_by_a_foreign_key_is_grouping_by_its_target(schema: Schema) -> None:
    pred, gold = (f"SELECT count(*) {JOIN} GROUP BY {alias}.singer_id" for alias in ("T1", "T2"))
    assert differing(pred, gold, schema) == []


@pytest.mark.parametrize(
    ("sql", "level"),
    [
        ("SELECT name FROM singer", "easy"),
        ("SELECT name FROM singer WHERE age > 1", "easy"),
        ("SELECT name , age FROM singer WHERE age > 1", "medium"),  # 1 part, 1 other
        (f"SELECT T1.name {JOIN}", "easy"),  # a join is one part
        (f"SELECT T1.name {JOIN} WHERE T1.age > 1", "medium"),
        (f"SELECT T1.name {JOIN} WHERE T1.age > 1 ORDER BY T1.age", "hard"),  # 3 parts
        ("SELECT name FROM singer WHERE age > (SELECT avg(age) FROM singer)", "hard"),  # 1 part, 1 nested
        ("SELECT name FROM singer UNION SELECT title FROM concert", "hard"),
        ("SELECT name FROM singer WHERE age > (SELECT avg(age) FROM singer) ORDER BY age", "extra"),
        (f"SELECT T1.name , T1.age {JOIN} WHERE T1.age > 1 ORDER BY T1.age LIMIT 1", "extra"),  # 4 parts
        ("SELECT name FROM singer WHERE age > 1 AND country LIKE 'a' OR age < 3", "hard"),  # 1 + OR + LIKE
    ],
)
def test_hardness(schema: Schema, sql: str, level: str) -> None:
    assert hardness(parse(sql, schema)) == level
