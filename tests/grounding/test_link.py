"""S': which tables and columns are kept, and why."""

from dataclasses import replace

import pytest

from grounding import Grounder, GroundingConfig, Request
from grounding.errors import InputError
from grounding.grounded import Links
from grounding.joins import close_over_joins
from grounding.schema import ForeignKey
from tests.grounding.pairs import Pairs

CUT = GroundingConfig(keep_all_columns=0, keep_table_columns=0)


def linked(question, path, cache, config=CUT, evidence=""):
    grounded = Grounder(cache, "none", config).ground(Request(question, path, evidence))
    return {table.name: {column.name: column.why for column in table.columns} for table in grounded.tables}


def test_names_and_values_link_and_join_paths_close(racing, tmp_path):
    kept = linked("What is the nationality of the driver who won in Italy?", racing, tmp_path)
    joins = ("primary key", "foreign key", "join path")
    assert kept["driver"] == {"nationality": ("name",), "id": joins}
    assert kept["circuit"] == {"country": ("value",), "id": joins}
    assert set(kept) == {"driver", "circuit", "race", "result"}, "race and result join driver to circuit"
    assert kept["race"] == {"id": joins, "circuit_id": ("foreign key", "join path")}
    assert kept["result"] == {"race_id": joins, "driver_id": ("name", *joins)}


def test_the_best_table_and_column_come_first(racing, tmp_path):
    kept = linked("Show the nationality of each driver", racing, tmp_path)
    assert next(iter(kept)) == "driver" and next(iter(kept["driver"])) == "nationality"


def test_a_poor_value_match_is_listed_but_links_nothing(racing, tmp_path):
    config = GroundingConfig(keep_all_columns=0, keep_table_columns=0, min_score=0.0)
    request = Request("nationality of Jenson Barton", racing)
    grounded = Grounder(tmp_path, "none", config).ground(request)
    assert [(m.column, m.value) for m in grounded.values] == [("name", "Jenson Button")] and grounded.values[
        0
    ].score < 0.75
    assert "name" not in {column.name for table in grounded.tables for column in table.columns}


def test_evidence_links_like_the_question(racing, tmp_path):
    kept = linked("Who did well?", racing, tmp_path, evidence="doing well refers to points > 5")
    assert kept["result"]["points"] == ("name",)


def test_the_meaning_of_codes_links_their_column(racing, tmp_path):
    folder = racing.parent / "database_description"
    folder.mkdir()
    (folder / "result.csv").write_text(
        "original_column_name,column_description,value_description\nstatus,,R: retired\n"
    )
    assert linked("Which drivers retired?", racing, tmp_path)["result"]["status"] == ("description",)


def test_a_table_that_only_shares_a_key_name_is_not_linked(racing, tmp_path):
    assert "circuit" not in linked("What is the id of each driver?", racing, tmp_path)


def test_small_databases_and_small_tables_are_kept_whole(racing, tmp_path):
    kept = linked("nationality", racing, tmp_path, GroundingConfig())
    assert {len(columns) for columns in kept.values()} == {3, 4, 5}
    assert kept["circuit"]["name"] == ("small database",)
    kept = linked("nationality", racing, tmp_path, GroundingConfig(keep_all_columns=0))
    assert list(kept) == ["driver"] and kept["driver"]["name"] == ("small table",)


def test_full_mode_keeps_everything_and_marks_what_is_linked(racing, tmp_path):
    kept = linked("nationality", racing, tmp_path, GroundingConfig(mode="full", keep_all_columns=0))
    assert sum(map(len, kept.values())) == 15
    assert kept["driver"]["nationality"] == ("name",) and kept["circuit"]["country"] == ("full",)


def test_nothing_is_cut_where_nothing_is_evident(racing, tmp_path):
    kept = linked("xyzzy", racing, tmp_path)
    assert sum(map(len, kept.values())) == 15 and kept["driver"]["name"] == ("no evidence",)


def test_a_large_table_of_which_only_the_name_is_said_is_kept(make_database, tmp_path):
    path = make_database("CREATE TABLE voyage (a TEXT, b TEXT); CREATE TABLE crew (c TEXT);")
    assert linked("How many voyages?", path, tmp_path) == {"voyage": {"a": ("table name",), "b": ("table name",)}}


def test_join_closure_takes_a_shortest_path_and_leaves_unconnected_tables_alone():
    keys = [ForeignKey(a, "x", b, "y") for a, b in (("a", "b"), ("b", "c"), ("a", "d"), ("d", "e"), ("e", "c"))]
    assert close_over_joins(["a", "c"], keys) == {"a", "b", "c"}
    assert close_over_joins(["a", "z"], keys) == {"a", "z"}


def test_an_unknown_mode_is_refused():
    with pytest.raises(InputError, match="hybrid"):
        GroundingConfig(mode="best")


def test_oracle_keeps_exactly_what_gold_uses_and_the_keys_of_its_tables(racing, tmp_path):
    gold = Links(frozenset({"race", "circuit"}), frozenset({("race", "race date"), ("circuit", "country")}))
    grounder = Grounder(tmp_path, "none", GroundingConfig(mode="oracle"))
    request = Request("Which driver is British?", racing, gold_links=gold)
    kept = {table.name: {c.name: c.why for c in table.columns} for table in grounder.ground(request).tables}
    assert kept == {
        "circuit": {"country": ("gold",), "id": ("primary key", "foreign key", "join path")},
        "race": {"Race Date": ("gold",), "id": ("primary key",), "circuit_id": ("foreign key", "join path")},
    }


def test_gold_is_needed_by_oracle_and_refused_by_every_other_mode(racing, tmp_path):
    gold = Links(frozenset({"race"}), frozenset())
    for mode in ("hybrid", "full"):
        with pytest.raises(InputError, match=f"mode {mode} must not see"):
            Grounder(tmp_path, "none", GroundingConfig(mode=mode)).ground(Request("?", racing, gold_links=gold))
    for links in (None, Links(), Links(frozenset({"elsewhere"}))):
        with pytest.raises(InputError, match="came without gold_links"):
            Grounder(tmp_path, "none", GroundingConfig(mode="oracle")).ground(Request("?", racing, gold_links=links))


def test_a_column_whose_name_is_near_a_mention_is_linked_unless_that_is_switched_off(racing, tmp_path):
    question, encoder = Request("Which natonality is there?", racing), Pairs()
    plain = Grounder(tmp_path, encoder, replace(CUT, link_similarity=None)).ground(question)
    assert {column.why for table in plain.tables for column in table.columns} >= {("no evidence",)}
    near = Grounder(tmp_path, encoder, replace(CUT, link_similarity=0.5)).ground(question)
    (driver,) = near.tables
    assert driver.name == "driver" and driver.columns[0].name == "nationality"
    assert driver.columns[0].why == ("similar",) and 1.0 < driver.columns[0].score < 2.0, "evidence and likeness"
