"""Which values are taken from a database."""

from grounding.schema import Database
from grounding.values import stored_values


def values_of(path, limit=100, chars=100):
    return [(v.table, v.column, v.text, v.count) for v in stored_values(Database.read(path), limit, chars)]


def test_only_text_is_taken_by_how_each_cell_is_stored(make_database):
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
