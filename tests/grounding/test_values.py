"""Which values are taken from a database."""

from contextlib import closing

import pytest

from grounding.schema import Database
from grounding.values import number_text, numbers_worth, open_values, plan_columns, read_values


def stored_values(path, limit, chars, numbers=False):
    """What an index of the database takes, column by column."""
    database = Database.read(path)
    with closing(open_values(database)) as connection:
        plans = plan_columns(connection, database, numbers)
        return [value for plan in plans for value in read_values(connection, plan, limit, chars)]


def values_of(path, limit=100, chars=100):
    return [(v.table, v.column, v.text, v.count) for v in stored_values(path, limit, chars)]


def test_without_numbers_only_text_is_taken_by_how_each_cell_is_stored(make_database):
    path = make_database(
        """CREATE TABLE t (a INTEGER, b BLOB);
        INSERT INTO t VALUES ('unknown', 'x'), (1, x'ff'), (2.5, NULL), ('unknown', '  '), (NULL, 'y');"""
    )
    assert sorted(values_of(path)) == [("t", "a", "unknown", 2), ("t", "b", "x", 1), ("t", "b", "y", 1)]


def test_the_cap_keeps_the_frequent_and_an_even_spread_of_the_rest(make_database):
    path = make_database("CREATE TABLE t (a TEXT);")
    rows = ", ".join(f"('row{i:03d}')" for i in range(1000))
    make_database(f"INSERT INTO t VALUES {rows}, ('row777'), ('row888'), ('row888');")
    kept = [text for _, _, text, _ in values_of(path, limit=102)]
    assert kept[:2] == ["row888", "row777"]
    late = sum(text >= "row500" for text in kept[2:])
    assert 30 <= late <= 70  # 50 expected; the first 100 rows would give 0


def test_long_text_is_cut_and_views_are_left_out(make_database):
    path = make_database(
        "CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('abcdefgh'); CREATE VIEW v AS SELECT a FROM t;"
    )
    assert values_of(path, chars=3) == [("t", "a", "abc", 1)]


def test_text_that_is_not_utf8_is_taken_with_replacement_characters(make_database):
    path = make_database("CREATE TABLE t (a TEXT); INSERT INTO t VALUES (CAST(x'636166e9' AS TEXT));")
    assert values_of(path) == [("t", "a", "caf\ufffd", 1)]


def numbers_of(path, limit=100_000):
    """Taken numbers by column."""
    found = {}
    for value in stored_values(path, limit, 100, numbers=True):
        if value.stored != "text":
            found.setdefault(value.column, []).append(value.text)
    return found


def test_numbers_are_taken_where_they_name_things(make_database):
    path = make_database(
        """CREATE TABLE t (id INTEGER PRIMARY KEY, year INTEGER, zip INTEGER, rating REAL, weight REAL, people INTEGER,
            place INTEGER, ref INTEGER REFERENCES t, mixed);
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
        INSERT INTO t SELECT i, 1900 + i % 120, 10000 + i * 37 % 80000, i % 10 / 2.0, i * 1.37, i * i * i, i, i / 2 + 1,
            CASE WHEN i % 2 THEN 'code' ELSE i % 5 END FROM n;"""
    )
    found = numbers_of(path)
    assert set(found) == {"year", "zip", "rating", "mixed"}
    assert len(found["year"]) == 120 and len(found["zip"]) == 2000
    assert sorted(found["rating"]) == ["0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5"]
    assert sorted(found["mixed"]) == ["0", "1", "2", "3", "4"]


def test_a_key_that_does_not_count_its_rows_is_an_identifier(make_database):
    path = make_database(
        "CREATE TABLE school (code INTEGER PRIMARY KEY); INSERT INTO school VALUES (1100170109835), (1100170112607);"
        "CREATE TABLE score (school INTEGER REFERENCES school, n INTEGER); INSERT INTO score VALUES (1100170109835, 1);"
    )
    found = {column: sorted(texts) for column, texts in numbers_of(path).items()}
    assert found == {"code": ["1100170109835", "1100170112607"], "school": ["1100170109835"], "n": ["1"]}


def test_the_cap_of_numbers_keeps_the_frequent(make_database):
    path = make_database("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (7), (8), (8), (9), (9), (9);")
    assert numbers_of(path, limit=2) == {"a": ["9", "8"]}


@pytest.mark.parametrize(
    ("distinct", "low", "high", "fractions", "rows", "taken"),
    [
        (100, 0.5, 99.5, True, 100, True),  # few
        (101, 0.5, 99.5, True, 9000, False),  # measurements
        (101, -5, 3000, False, 202, True),  # codes, repeated
        (101, -5, 3000, False, 201, False),
        (1001, -5, 9000, False, 90_000, False),  # too many codes
        (1001, 1000, 9999, False, 1001, True),  # of one width
        (1001, 100, 999, False, 1001, False),  # too narrow to tell
        (1001, -9999, 1000, False, 1001, False),
        (500, 1, 500, False, 500, False),  # a count of the rows
        (500, 1, 500, False, 5000, True),
    ],
)
def test_which_numbers_are_worth_indexing(distinct, low, high, fractions, rows, taken):
    assert numbers_worth(distinct, low, high, fractions, rows)[0] is taken


def test_the_least_and_greatest_integers_and_infinity_are_no_trouble(make_database):
    path = make_database(
        "CREATE TABLE t (a, b); INSERT INTO t VALUES (-9223372036854775808, 9e999), (9223372036854775807, -9e999);"
    )
    assert {column: sorted(texts) for column, texts in numbers_of(path).items()} == {
        "a": ["-9223372036854775808", "9223372036854775807"], "b": ["-inf", "inf"],
    }  # fmt: skip
    assert number_text(1e300) == "1e+300"
