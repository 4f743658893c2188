"""What is told of each kind of part, with counts worked out by hand (see conftest.py)."""

import pytest

from serl.hindsight.parts.asks import MOST, MOST_PARTS, asks
from serl.hindsight.parts.part import Kind
from serl.sql.outcome import Status

JOINED = "FROM city JOIN state ON city.state_id = state.id"
JOIN = "JOIN state ON city.state_id = state.id"


def test_tables_and_a_join_that_loses_a_row(lines, ranks):
    assert lines(f"SELECT city.name {JOINED}") == ["table city: 4 rows", "table state: 3 rows",
                                                    f"{JOIN}: 3 rows, 4 before"]
    assert lines(f"SELECT city.name {JOINED}", named=False) == ["table 1 of 2: 4 rows", "table 2 of 2: 3 rows",
                                                                 "join 1 of 1: 3 rows, 4 before"]
    assert ranks(f"SELECT city.name {JOINED}") == {"table 1 of 2": 3, "table 2 of 2": 3, "join 1 of 1": 1}


def test_a_join_that_multiplies(lines, ranks):
    # 3 visits of cities up to 1, and 4 of those up to 2, 3 and 4
    sql = "SELECT 1 FROM city AS c JOIN visit AS v ON c.id >= v.city_id"
    assert lines(sql)[-1] == "JOIN visit AS v ON c.id >= v.city_id: 15 rows, 4 before"
    assert ranks(sql)["join 1 of 1"] == 1
    # A row of the longer table for each of its own is what a foreign key gives.
    assert ranks("SELECT 1 FROM state JOIN city ON city.state_id = state.id")["join 1 of 1"] == 3
    assert lines("SELECT 1 FROM city, state WHERE city.state_id = state.id")[1:] == [
        "table state: 3 rows", "CROSS JOIN state: 12 rows, 4 before", "WHERE city.state_id = state.id: 3 of 12 rows"]


def test_joins_are_told_one_after_the_other(lines):
    sql = f"SELECT 1 {JOINED} LEFT JOIN visit ON visit.city_id = city.id"
    assert lines(sql, named=False)[3:] == ["join 1 of 2: 3 rows, 4 before", "join 2 of 2: 5 rows, 3 before"]


def test_conditions_alone_and_together(lines, ranks):
    sql = "SELECT name FROM city WHERE people > 6 AND (state_id = 2 AND id > 0)"
    assert lines(sql) == ["table city: 4 rows", "WHERE people > 6: 2 of 4 rows", "WHERE state_id = 2: 2 of 4 rows",
                          "WHERE id > 0: 4 of 4 rows", "all of WHERE: 0 of 4 rows"]
    assert ranks(sql) == {"table 1 of 1": 3, "condition 1 of 3": 2, "condition 2 of 3": 2, "condition 3 of 3": 1,
                          "all conditions": 0}
    alone = "SELECT name FROM city WHERE people > 6 OR id = 3"
    assert lines(alone)[1:] == ["WHERE people > 6 OR id = 3: 3 of 4 rows"]


def test_what_follows_from_a_part_without_rows_is_not_told_first(ranks):
    told = ranks("SELECT name, COUNT(*) FROM city WHERE people > 99 AND id > 1 GROUP BY name")
    assert told == {"table 1 of 1": 3, "condition 1 of 2": 0, "condition 2 of 2": 2, "all conditions": 3, "group by": 3}


def test_a_text_that_the_column_does_not_hold(lines, ranks):
    sql = "SELECT id FROM city WHERE name = 'lima'"
    assert lines(sql)[1:] == ["WHERE name = 'lima': 0 of 4 rows; 'lima' is not in name, 'Lima' is"]
    assert lines(sql, named=False)[1:] == [
        "condition 1 of 1: 0 of 4 rows; its text is not in the column, but in other upper or lower case"]
    assert lines("SELECT id FROM city WHERE 'Quito' = name")[1:] == [
        "WHERE 'Quito' = name: 0 of 4 rows; 'Quito' is not in name"]
    assert lines("SELECT id FROM city WHERE name <> 'Quito'", named=False)[1:] == [
        "condition 1 of 1: 4 of 4 rows; its text is not in the column"]
    assert ranks("SELECT id FROM city WHERE name <> 'Quito'")["condition 1 of 1"] == 0
    listed = "SELECT id FROM city WHERE name IN ('Lima', 'PUNO')"
    assert lines(listed)[1:] == ["WHERE name IN ('Lima', 'PUNO'): 1 of 4 rows; 'PUNO' is not in name, 'Puno' is"]
    assert lines(listed, named=False)[1:] == [
        "condition 1 of 1: 1 of 4 rows; text 2 of 2 is not in the column, but in other upper or lower case"]


def test_a_text_is_looked_up_in_its_columns_own_table(lines):
    # Selva has no city, so that the join has no row of it; the column has.
    assert lines(f"SELECT 1 {JOINED} WHERE state.name = 'Selva'")[3:] == ["WHERE state.name = 'Selva': 0 of 3 rows"]
    assert lines("SELECT 1 FROM city AS a JOIN state AS b ON a.state_id = b.id WHERE b.name = 'ANDES'")[3:] == [
        "WHERE b.name = 'ANDES': 0 of 3 rows; 'ANDES' is not in b.name, 'Andes' is"]
    # Which table an unqualified column belongs to, only the rows of FROM can tell.
    assert lines(f"SELECT 1 {JOINED} WHERE people = 'many'")[3:] == [
        "WHERE people = 'many': 0 of 3 rows; 'many' is not in people"]


def test_conditions_of_case(lines):
    sql = ("SELECT CAST(SUM(CASE WHEN name = 'lima' THEN 1 ELSE 0 END) AS REAL) / COUNT(*), "
           "MAX(CASE WHEN people > 6 THEN id WHEN people > 4 THEN 0 END) FROM city WHERE id < 4")
    assert lines(sql)[2:] == ["WHEN name = 'lima': 0 of 4 rows; 'lima' is not in name, 'Lima' is",
                              "WHEN people > 6: 2 of 4 rows", "WHEN people > 4: 3 of 4 rows"]
    assert lines(sql, named=False)[3:] == ["case 2 of 3: 2 of 4 rows", "case 3 of 3: 3 of 4 rows"]
    assert lines("SELECT CASE name WHEN 'lima' THEN 1 END, IIF(id > 1, 'a', 'b') FROM city")[1:] == [
        "WHEN id > 1: 3 of 4 rows"]
    assert lines("SELECT CASE WHEN COUNT(*) > 1 THEN 'many' END FROM city") == ["table city: 4 rows"]
    assert lines("SELECT SUM(CASE WHEN nme = 'x' THEN 1 END) FROM city")[1:] == ["WHEN nme = 'x': fails"]


def test_groups_and_having(lines):
    sql = "SELECT state_id, COUNT(*) AS n FROM city WHERE people > 0 GROUP BY state_id HAVING n > 1"
    assert lines(sql)[2:] == ["GROUP BY state_id: 3 groups", "HAVING n > 1: 0 of 3 groups"]
    assert lines("SELECT state_id AS s, COUNT(*) FROM city GROUP BY 1", named=False)[1:] == ["group by: 3 groups"]
    assert lines("SELECT state_id AS s, COUNT(*) FROM city GROUP BY s HAVING COUNT(*) > 1")[2:] == [
        "HAVING COUNT(*) > 1: 1 of 3 groups"]


def test_an_alias_of_the_select_list_comes_with_the_condition_that_names_it(lines):
    assert lines("SELECT people * 2 AS double FROM city WHERE double > 12")[1:] == ["WHERE double > 12: 2 of 4 rows"]
    # A column goes before an alias, which as an aggregate would make one row of all.
    assert lines("SELECT COUNT(id) AS id FROM city WHERE id > 1")[1:] == ["WHERE id > 1: 3 of 4 rows"]


def test_distinct_and_limit(lines, ranks):
    assert ranks("SELECT DISTINCT name FROM city WHERE id > 9 LIMIT 2") == {
        "table 1 of 1": 3, "condition 1 of 1": 0, "distinct": 3, "limit": 3}
    assert lines("SELECT DISTINCT state_id FROM city ORDER BY people DESC LIMIT 2")[1:] == [
        "DISTINCT: 3 of 4 rows", "LIMIT 2: 2 of 3 rows"]
    assert lines("SELECT name FROM city LIMIT 9 OFFSET 1", named=False)[1:] == ["limit: 3 of 4 rows"]


def test_subqueries_alone_unless_they_refer_to_what_is_around_them(lines):
    assert lines("SELECT name FROM city WHERE state_id IN (SELECT id FROM state WHERE name = 'andes')") == [
        "table city: 4 rows", "WHERE state_id IN (SELECT id FROM state WHERE name = 'andes'): 0 of 4 rows",
        "subquery 1 of 1: 0 rows", "subquery 1 of 1, table state: 3 rows",
        "subquery 1 of 1, WHERE name = 'andes': 0 of 3 rows; 'andes' is not in name, 'Andes' is"]
    for correlated in ("visit.city_id = city.id", "city_id = id"):  # only the engine knows whose column id is
        told = lines(f"SELECT name FROM city WHERE EXISTS(SELECT 1 FROM visit WHERE {correlated})")
        assert told == ["table city: 4 rows",
                        f"WHERE EXISTS(SELECT 1 FROM visit WHERE {correlated}): 2 of 4 rows"]


def test_arms_of_a_set_operation(lines, ranks):
    sql = "SELECT name FROM city WHERE people > 99 UNION SELECT name FROM state EXCEPT SELECT name FROM city LIMIT 2"
    assert lines(sql, named=False) == [
        "limit: 2 of 3 rows", "arm 1 of 3: 0 rows", "arm 1 of 3, table 1 of 1: 4 rows",
        "arm 1 of 3, condition 1 of 1: 0 of 4 rows", "arm 2 of 3: 3 rows", "arm 2 of 3, table 1 of 1: 3 rows",
        "arm 3 of 3: 4 rows", "arm 3 of 3, table 1 of 1: 4 rows"]
    assert [name for name, rank in ranks(sql).items() if rank == 0] == ["arm 1 of 3, condition 1 of 1"]


def test_tables_that_the_query_defines(lines):
    sql = "WITH big AS (SELECT * FROM city WHERE people > 6), none AS (SELECT * FROM big WHERE id > 9) "
    assert lines(f"{sql} SELECT name FROM big WHERE id = 4") == [
        "WITH big: 2 rows", "WITH none: 0 rows", "table big: 2 rows", "WHERE id = 4: 1 of 2 rows"]
    assert lines("SELECT 1 FROM (SELECT id FROM city WHERE people > 6) AS big", named=False) == ["table 1 of 1: 2 rows"]


@pytest.mark.parametrize(("sql", "failing"), [
    (f"SELECT nme {JOINED}", ["SELECT nme"]),
    ("SELECT DISTINCT nme FROM city LIMIT 2", ["SELECT nme"]),
    ("SELECT name FROM town JOIN state ON town.x = state.id WHERE town.y = 1", ["table town"]),
    ("SELECT 1 FROM city JOIN state ON city.region = state.id WHERE people > 1",
     ["JOIN state ON city.region = state.id"]),
    ("SELECT 1 FROM city WHERE people > 1 AND size > 2 AND id > 0", ["WHERE size > 2"]),
    ("SELECT 1 FROM city WHERE COUNT(*) > 1", ["WHERE COUNT(*) > 1"]),
    (f"SELECT name {JOINED}", ["SELECT name"]),  # both tables have one
    ("SELECT state_id FROM city GROUP BY region HAVING COUNT(*) > 1", ["GROUP BY region"]),
    ("SELECT state_id FROM city GROUP BY state_id HAVING total > 1", ["HAVING total > 1"]),
    ("SELECT name FROM city ORDER BY people DESC, size", ["ORDER BY size"]),
    ("SELECT name FROM city WHERE id IN (SELECT v.town FROM visit AS v)",
     ["subquery 1 of 1, SELECT v.town"]),
    ("SELECT name FROM city UNION SELECT nme FROM state", ["arm 2 of 2, SELECT nme"]),
    ("WITH big AS (SELECT size FROM city) SELECT size FROM big WHERE size > 1", ["WITH big"]),
    ("SELECT name FROM city UNION SELECT id, name FROM state", []),  # each part is right alone
])
def test_the_smallest_part_that_fails_is_named(lines, sql, failing):
    assert [line.partition(": ")[0] for line in lines(sql) if line.endswith(": fails")] == failing


def test_parts_that_do_not_fail_are_counted_in_a_query_that_does(lines, ranks):
    sql = "SELECT nme FROM city WHERE people > 6 AND name = 'lima'"
    assert lines(sql, named=False) == [
        "table 1 of 1: 4 rows", "condition 1 of 2: 2 of 4 rows",
        "condition 2 of 2: 0 of 4 rows; its text is not in the column, but in other upper or lower case",
        "all conditions: 0 of 4 rows", "column 1 of 1: fails"]
    assert ranks(sql)["column 1 of 1"] == 0


def test_a_part_whose_failing_may_come_from_what_is_around_it_is_not_blamed(lines):
    # size is no column at all; alone the sub-query fails for it, but it would for any column of city.
    sql = "SELECT name FROM city WHERE id IN (SELECT city_id FROM visit WHERE year > size)"
    assert [line for line in lines(sql, named=False) if line.endswith("fails")] == ["condition 1 of 1: fails"]


@pytest.mark.parametrize("sql", [
    "SELECT 1", "SELEC name FROM", "", "DELETE FROM city", "SELECT 1; SELECT 2", f"SELECT {'1 + ' * 3000} 1 FROM city",
    f"SELECT 1 FROM city WHERE {'(' * 2000}id > 0{')' * 2000}",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n LIMIT 3"])
def test_of_what_is_no_query_or_too_much_of_one_nothing_is_asked(sql):
    assert asks(sql, Status.OK) == ()


def test_how_much_is_asked_depends_on_how_the_query_ended():
    sql = "SELECT name FROM city, state WHERE people > 1 AND id IN (SELECT city_id FROM visit) ORDER BY name"
    ran = asks(sql, Status.OK)
    assert len(ran) == 2 and asks(sql, Status.EMPTY) == asks(sql, Status.TOO_LARGE) == ran == asks(sql, Status.OK)
    failed = asks(sql, Status.ERROR)
    assert all(len(ask.parts) == 1 for ask in failed)
    assert {Kind.COLUMN, Kind.ORDER} == {ask.parts[0].kind for ask in failed} - {
        part.kind for ask in ran for part in ask.parts}
    (stopped,) = asks(sql, Status.TIMEOUT)
    assert [part.kind for part in stopped.parts] == [Kind.TABLE, Kind.TABLE]
    for status in (Status.DENIED, Status.NO_STATEMENT, Status.INFRASTRUCTURE):
        assert asks(sql, status) == ()
    many = " AND ".join(f"people > {number}" for number in range(40))
    assert len(asks(f"SELECT name FROM city WHERE {many}", Status.ERROR)) == MOST
    (whole,) = asks(f"SELECT name FROM city WHERE {many}", Status.OK)
    assert len(whole.parts) == MOST_PARTS
    arms = " UNION ".join(f"SELECT {number} FROM city" for number in range(40))
    assert len(asks(arms, Status.OK)) == MOST


def test_a_part_knows_where_it_stands_in_the_text():
    sql = "SELECT name FROM city WHERE people > 6  AND name = 'lima' GROUP BY state_id"
    spans = {part.kind: sql[slice(*part.span)] for ask in asks(sql, Status.OK) for part in ask.parts if part.span}
    assert spans == {Kind.TABLE: "city", Kind.CONDITION: "name = 'lima'", Kind.GROUP: "state_id",
                     Kind.WHERE: "people > 6  AND name = 'lima'"}
