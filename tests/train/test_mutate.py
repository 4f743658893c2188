"""Wrong queries and probes from gold: one change, still a query, nothing from what cannot be parsed."""

from random import Random

import pytest

from serl.train.mutate import mutations, probes

SCHEMA = {"race": ["id", "name", "laps", "circuit_id"], "circuit": ["id", "name", "country"],
          "order": ["id", "Order Date"]}


def all_mutations(sql: str) -> set[str]:
    return {wrong for seed in range(30) for wrong in mutations(sql, SCHEMA, Random(seed))}


def test_each_kind_of_mistake_occurs():
    found = all_mutations("SELECT MAX(laps) FROM race WHERE name = 'Monaco' AND laps > 50")
    assert "SELECT MIN(laps) FROM race WHERE name = 'Monaco' AND laps > 50" in found  # aggregate
    assert "SELECT MAX(laps) FROM race WHERE name = 'monaco' AND laps > 50" in found  # case of a literal
    assert "SELECT MAX(laps) FROM race WHERE name = 'Monaco' AND laps < 50" in found  # comparison
    assert "SELECT MAX(laps) FROM race WHERE laps > 50" in found  # forgotten condition
    assert "SELECT MAX(lap) FROM race WHERE name = 'Monaco' AND laps > 50" in found  # no such column
    assert any("MAX(circuit_id)" in sql or "MAX(id)" in sql or "MAX(name)" in sql for sql in found)  # another column


def test_a_stray_column_and_an_ambiguous_one():
    found = all_mutations("SELECT circuit.country FROM race JOIN circuit ON race.circuit_id = circuit.id")
    assert 'SELECT circuit."Order Date" FROM race JOIN circuit ON race.circuit_id = circuit.id' in found
    assert "SELECT circuit.country FROM race JOIN circuit ON race.circuit_id = id" in found
    assert not any(sql.startswith("SELECT country") for sql in found), "only one of the tables has a country"


def test_a_mutation_is_never_the_query_itself():
    for sql in ("SELECT name FROM race", "SELECT COUNT(*) FROM race WHERE laps >= 3"):
        assert sql not in all_mutations(sql)


def test_joins_take_the_other_column_from_the_same_table():
    found = all_mutations("SELECT circuit.country FROM race JOIN circuit ON race.circuit_id = circuit.id")
    assert "SELECT circuit.name FROM race JOIN circuit ON race.circuit_id = circuit.id" in found
    assert not any("circuit.laps" in sql for sql in found), "a column of the other table is no answer of this kind"


def test_the_same_seed_gives_the_same_mistakes():
    sql = "SELECT MAX(laps) FROM race WHERE name = 'Monaco'"
    assert list(mutations(sql, SCHEMA, Random(4))) == list(mutations(sql, SCHEMA, Random(4)))


@pytest.mark.parametrize("sql", ["SELECT FROM WHERE", "", "nonsense ("])
def test_what_cannot_be_parsed_gives_nothing(sql):
    assert list(mutations(sql, SCHEMA, Random(0))) == [] and probes(sql, SCHEMA) == []


def test_probes_list_the_values_of_compared_text_columns_with_their_table():
    sql = ("SELECT r.laps FROM race AS r JOIN circuit ON r.circuit_id = circuit.id "
           "WHERE country = 'Italy' AND r.laps = 3")
    assert probes(sql, SCHEMA) == ["SELECT DISTINCT country FROM circuit LIMIT 5"]
    quoted = """SELECT id FROM "order" WHERE "Order Date" = '2020-01-01'"""
    assert probes(quoted, SCHEMA) == ['SELECT DISTINCT "Order Date" FROM "order" LIMIT 5']
