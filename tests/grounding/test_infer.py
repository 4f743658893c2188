"""Foreign keys that nobody declared."""

import sqlite3
from contextlib import closing

import pytest

from grounding import Grounder, GroundingConfig, Request
from grounding.infer import infer_keys
from grounding.infer.cells import Cells
from grounding.infer.names import CANDIDATES, Forms, Key, Likeness
from grounding.schema import INFERRED, Database
from grounding.sqlite import connect_readonly


def inferred(path):
    """table.column > table.column of the inferred keys, composite ones with + between their pairs."""
    return {
        "+".join(f"{key.table}.{key.column}>{key.ref_table}.{key.ref_column}" for key in pairs)
        for pairs in Database.read(path).joins
        if pairs[0].origin == INFERRED
    }


def counted(names, rows, first=1):
    """INSERT values: as many columns as names, each counting from `first`, modulo nothing."""
    return ", ".join("(" + ", ".join([str(first + row)] * names) + ")" for row in range(rows))


@pytest.mark.parametrize(
    ("table", "key", "column", "likeness"),
    [
        ("customer", "customer_id", "customer_id", Likeness.SAME),
        ("customers", "CustomerID", "bill_customer_id", Likeness.SAME),
        ("Teams", "id", "home_team_id", Likeness.TABLE_KEY),
        ("car_makers", "Id", "maker_id", Likeness.TABLE_KEY),
        ("car_makers", "Id", "Maker", Likeness.TABLE),
        ("club", "club_id", "club_id_2", Likeness.SAME),
        ("buildings", "id", "building", Likeness.TABLE),
        ("airport", "code", "AirportName", Likeness.PART),
        ("customer", "id", "id", None),
        ("customer", "name", "name", None),
        ("t", "id", "t", None),
        ("customer", "id", "custom", None),
    ],
)
def test_how_a_name_names_a_key(table, key, column, likeness):
    forms = Forms([Key(table, key, is_primary=True, is_text=True)])
    assert [named.likeness for named in forms.named_by("other", column)] == ([likeness] if likeness else [])
    assert forms.named_by(table, column) == []


def test_the_table_that_a_name_says_comes_first_of_a_bounded_number():
    keys = [Key(f"store_{i:02d}_detail", "store_id", True, False) for i in range(50)]
    found = Forms([*keys, Key("store", "store_id", True, False)]).named_by("product", "store_id")
    assert len(found) == CANDIDATES and found[0].key.table == "store"


def test_names_and_values_together_make_a_key(make_database):
    path = make_database(
        f"""CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE game (id INTEGER PRIMARY KEY, home_team_id INTEGER, away_team_id INTEGER, laps INTEGER);
        INSERT INTO team (id) VALUES {counted(1, 20)};
        INSERT INTO game VALUES {counted(4, 20)};"""
    )
    assert inferred(path) == {"game.home_team_id>team.id", "game.away_team_id>team.id"}, "not laps, not game.id"


def test_a_name_alone_makes_no_key(make_database):
    path = make_database(
        f"""CREATE TABLE team (id INTEGER PRIMARY KEY); INSERT INTO team VALUES {counted(1, 20)};
        CREATE TABLE game (team_id INTEGER); INSERT INTO game VALUES {counted(1, 20, first=12)};"""
    )
    assert inferred(path) == set(), "9 of 20 are there"


@pytest.mark.parametrize(("dangling", "keys"), [(4, {"game.team_id>team.id"}), (5, set())])
def test_a_fifth_of_the_values_may_dangle(make_database, dangling, keys):
    path = make_database(
        f"""CREATE TABLE team (id INTEGER PRIMARY KEY); INSERT INTO team VALUES {counted(1, 20)};
        CREATE TABLE game (team_id INTEGER); INSERT INTO game VALUES {counted(1, 20, first=1 + dangling)}, (NULL);"""
    )
    assert inferred(path) == keys


def test_text_needs_one_common_part_and_all_its_values(make_database):
    script = """CREATE TABLE airport (code TEXT PRIMARY KEY); INSERT INTO airport VALUES ('AAA'), ('BBB'), ('CCC');
        CREATE TABLE flight (airport_of_departure TEXT, airport_of_arrival TEXT, carrier TEXT);
        INSERT INTO flight VALUES ('AAA', 'BBB', 'AAA'), ('BBB', 'CCC', 'CCC'), ('CCC', 'DDD', 'BBB');"""
    assert inferred(make_database(script)) == {"flight.airport_of_departure>airport.code"}


def test_text_and_numbers_are_compared_as_a_join_compares_them(make_database):
    path = make_database(
        """CREATE TABLE team (team_id INTEGER PRIMARY KEY); INSERT INTO team VALUES (1), (2);
        CREATE TABLE game (team_id TEXT); INSERT INTO game VALUES ('1'), ('2');
        CREATE TABLE town (town_id TEXT); INSERT INTO town VALUES ('7'), ('8'); CREATE TABLE road (town_id REAL);
        INSERT INTO road VALUES (7.0), (8.0), (7.0);"""
    )
    assert inferred(path) == {"game.team_id>team.team_id", "road.town_id>town.town_id"}


def test_a_key_need_not_be_declared_one_if_its_values_are_distinct(make_database):
    script = """CREATE TABLE grape (grape TEXT, colour TEXT); CREATE TABLE wine (grape TEXT);
        INSERT INTO grape VALUES ('Merlot', 'red'), ('Riesling', 'white'){more};
        INSERT INTO wine VALUES ('Merlot'), ('Merlot'), ('Riesling');"""
    assert inferred(make_database(script.format(more=""), "a")) == {"wine.grape>grape.grape"}
    assert inferred(make_database(script.format(more=", ('Merlot', 'blue')"), "b")) == set()


def test_a_tables_own_key_refers_only_to_the_table_it_is_named_after(make_database):
    path = make_database(
        f"""CREATE TABLE city (city_id INTEGER PRIMARY KEY); INSERT INTO city VALUES {counted(1, 9)};
        CREATE TABLE temperature (city_id INTEGER PRIMARY KEY); INSERT INTO temperature VALUES {counted(1, 9)};
        CREATE TABLE checking (cust_id INTEGER PRIMARY KEY); INSERT INTO checking VALUES {counted(1, 9)};
        CREATE TABLE saving (cust_id INTEGER PRIMARY KEY); INSERT INTO saving VALUES {counted(1, 9)};"""
    )
    assert inferred(path) == {"temperature.city_id>city.city_id"}


def test_a_composite_key_is_inferred_as_one(make_database):
    script = """CREATE TABLE block (block_floor INTEGER, block_code INTEGER, PRIMARY KEY (block_floor, block_code));
        INSERT INTO block VALUES (1, 1), (1, 2), (2, 1), (3, 2);
        CREATE TABLE room (room_no INTEGER PRIMARY KEY, BlockFloor INTEGER, BlockCode INTEGER);
        INSERT INTO room VALUES (1, 1, 1), (2, 1, 2), (3, {last}), (4, NULL, 7);"""
    assert inferred(make_database(script.format(last="2, 1"), "a")) == {
        "room.BlockFloor>block.block_floor+room.BlockCode>block.block_code"
    }
    assert inferred(make_database(script.format(last="3, 1"), "b")) == set(), "each is there, the pair is not"


def test_a_table_that_relates_others_is_not_what_a_third_refers_to(make_database):
    rows = counted(2, 9)
    path = make_database(
        f"""CREATE TABLE race (race_id INTEGER PRIMARY KEY); INSERT INTO race VALUES {counted(1, 9)};
        CREATE TABLE driver (driver_id INTEGER PRIMARY KEY); INSERT INTO driver VALUES {counted(1, 9)};
        CREATE TABLE result (race_id INTEGER, driver_id INTEGER, PRIMARY KEY (race_id, driver_id));
        CREATE TABLE lap (race_id INTEGER, driver_id INTEGER);
        INSERT INTO result VALUES {rows}; INSERT INTO lap VALUES {rows};"""
    )
    assert inferred(path) == {
        f"{table}.{name}_id>{name}.{name}_id" for table in ("result", "lap") for name in ("race", "driver")
    }


def test_tables_that_declared_keys_connect_get_no_further_ones(make_database):
    script = f"""CREATE TABLE team (id INTEGER PRIMARY KEY); INSERT INTO team VALUES {counted(1, 9)};
        CREATE TABLE game (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team, guest_team_id INTEGER);
        CREATE TABLE goal (game_id INTEGER, team_id INTEGER); INSERT INTO game VALUES {counted(3, 9)};
        INSERT INTO goal VALUES {counted(2, 9)};"""
    database = Database.read(make_database(script))
    found = {(key.table, key.column, key.origin) for key in database.foreign_keys}
    assert found == {
        ("game", "team_id", "declared"), ("goal", "game_id", "inferred"), ("goal", "team_id", "inferred")
    }  # fmt: skip
    assert Database.read(database.path, infer_keys=False).foreign_keys == database.foreign_keys[:1]


def test_a_database_that_declares_its_keys_is_not_looked_at(racing):
    database = Database.read(racing, infer_keys=False)
    with closing(sqlite3.connect(":memory:")) as nothing:  # every look at a table would fail
        assert infer_keys(nothing, database.tables, database.foreign_keys) == ()


def test_large_tables_are_sampled_evenly_and_always_the_same(make_database):
    path = make_database(
        """CREATE TABLE team (id INTEGER PRIMARY KEY);
        WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 20000)
            INSERT INTO team SELECT n FROM r;
        CREATE TABLE game (rowid TEXT, team_id INTEGER); INSERT INTO game SELECT 'x', id FROM team;
        CREATE TABLE bare (team_id INTEGER PRIMARY KEY) WITHOUT ROWID; INSERT INTO bare SELECT id FROM team;"""
    )
    database = Database.read(path)
    samples = []
    for _ in range(2):
        with closing(connect_readonly(path)) as connection:
            cells = Cells(connection)
            samples.append([cells.sample(database.by_name[name], ["team_id"]) for name in ("game", "bare")])
    game, bare = samples[0]
    assert samples[0] == samples[1] and len(game) == 300
    assert {value // 2000 for (value,) in game} == set(range(10)), "some of every tenth"
    assert max(value for (value,) in bare) <= 1001, "without row ids: the first"
    assert inferred(path) == {"game.team_id>team.id", "bare.team_id>team.id"}


def test_what_is_read_is_bounded(make_database):
    path = make_database(
        f"""CREATE TABLE grape (grape TEXT); CREATE TABLE wine (grape TEXT);
        INSERT INTO grape VALUES {counted(1, 500)}; INSERT INTO wine VALUES {counted(1, 500)};"""
    )
    database = Database.read(path, infer_keys=False)
    grape, wine = database.tables
    with closing(connect_readonly(path)) as connection:
        rich, poor = Cells(connection, budget=2000), Cells(connection, budget=400)
        assert rich.is_key(grape, "grape") and rich.share_in(rich.sample(wine, ["grape"]), grape, ["grape"]) == 1
        assert not poor.is_key(grape, "grape")


def test_inferred_keys_close_join_paths(make_database, tmp_path):
    path = make_database(
        f"""CREATE TABLE singer (id INTEGER PRIMARY KEY, age); CREATE TABLE stage (id INTEGER PRIMARY KEY, size);
        CREATE TABLE show (singer_id INTEGER, stage_id INTEGER); CREATE TABLE ticket (price REAL);
        INSERT INTO singer VALUES {counted(2, 9)}; INSERT INTO stage VALUES {counted(2, 9)};
        INSERT INTO show VALUES {counted(2, 9)};"""
    )
    grounder = Grounder(tmp_path / "cache", "none", GroundingConfig(keep_all_columns=0))
    grounded = grounder.ground(Request("What is the age of singers by size of the stage?", path))
    assert {table.name for table in grounded.tables} == {"singer", "stage", "show"}
    whys = {(t["name"], c["name"]): c["why"] for t in grounded.to_json()["tables"] for c in t["columns"]}
    assert whys["show", "stage_id"][-3:] == ["foreign key", "inferred", "join path"]


def test_only_what_no_known_key_explains_is_said_to_be_inferred(make_database, tmp_path):
    path = make_database(
        f"""CREATE TABLE team (id INTEGER PRIMARY KEY); CREATE TABLE game (team_id INTEGER REFERENCES team (id));
        CREATE TABLE fan (team_id INTEGER); INSERT INTO team VALUES {counted(1, 9)};
        INSERT INTO game VALUES {counted(1, 9)}; INSERT INTO fan VALUES {counted(1, 9)};"""
    )
    grounded = Grounder(tmp_path / "cache", "none", GroundingConfig(mode="full")).ground(Request("?", path))
    inferred = {(t.name, c.name) for t in grounded.tables for c in t.columns if "inferred" in c.why}
    assert inferred == {("fan", "team_id")}, "game's key to team.id is declared"
