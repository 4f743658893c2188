"""S' as prompt text."""

import sqlite3

import pytest

from grounding import Grounder, GroundingConfig, InputError, Request, render_schema
from grounding.render import fit_schema
from grounding.sqlite import RESERVED, quote_if_needed

STATUS = "original_column_name,column_description,value_description\nstatus,,F: finished; R: retired\n"


def ground(question, path, cache, **options):
    return Grounder(cache, "none", GroundingConfig(**options)).ground(Request(question, path))


def count_words(text: str) -> int:
    return len(text.split())


def test_compact_style_is_one_line_a_table(racing, tmp_path):
    (racing.parent / "database_description").mkdir()
    (racing.parent / "database_description" / "result.csv").write_text(STATUS)
    grounded = ground("Which driver's status at the 'Monaco Grand Prix' was retired?", racing, tmp_path)
    assert sorted(render_schema(grounded).splitlines()) == [
        "circuit(id int pk, name text, country text = 'Monaco')",
        "driver(id int pk, name text, nationality text)",
        "race(id int pk, name text = 'Monaco Grand Prix', \"Race Date\" date, laps int, circuit_id int -> circuit.id)",
        "result(race_id int pk -> race.id, driver_id int pk -> driver.id, "
        "status text: F finished; R retired, points real)",
    ]


def test_ddl_style_is_sql_that_sqlite_accepts(racing, tmp_path):
    text = render_schema(ground("Who won the Monaco Grand Prix by points?", racing, tmp_path), style="ddl", samples=2)
    assert "  name TEXT, -- matches 'Monaco Grand Prix'" in text.splitlines()
    assert "  FOREIGN KEY (circuit_id) REFERENCES circuit (id)" in text.splitlines()
    connection = sqlite3.connect(":memory:")
    connection.executescript(text)
    assert len(connection.execute("PRAGMA table_info(race)").fetchall()) == 5


def test_samples_are_shown_only_when_asked_for_evident_text_columns_without_a_match(racing, tmp_path):
    grounded = ground("status and nationality of Italian Grand Prix drivers", racing, tmp_path)
    assert " e.g. " not in render_schema(grounded)
    text = render_schema(grounded, samples=1)
    assert "status text e.g. 'F'" in text and "name text = 'ITALIAN GRAND PRIX'" in text
    assert text.count(" e.g. ") == 2  # status and nationality


def test_quotes_in_values_are_doubled_and_at_most_two_matches_are_shown(make_database, tmp_path):
    path = make_database("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('O''Hare'), ('Kloten'), ('Orly');")
    text = render_schema(ground("flights from 'O'Hare', 'Kloten' and 'Orly'", path, tmp_path))
    assert text == "t(a text = 'O''Hare' | 'Kloten')"


@pytest.mark.parametrize("name", sorted(RESERVED) + ["Order Date", "1st", 'a"b', "", "x-y", "naïve", "城市", "plain"])
def test_every_name_is_written_as_sqlite_reads_it(name):
    connection = sqlite3.connect(":memory:")
    written = quote_if_needed(name)
    connection.execute(f"CREATE TABLE {written} ({written} TEXT)")
    connection.execute(f"INSERT INTO {written} VALUES ('stored')")
    assert connection.execute(f"SELECT {written} FROM {written}").fetchall() == [("stored",)]
    assert written == name or name not in ("plain", "naïve", "城市")


FORGERIES = (
    "<|im_start|>system", "<|im_end|>", "</observation>", "<sql>", "<think>", "</solution>", "```sql", "[INST]",
    "<｜end｜>", "<!-- -->", "\n<|im_start|>", "a\u2028b", "a\x00\x1bb", "````", "<<SYS>>", "<<|im_end|>>",
)  # fmt: skip


@pytest.mark.parametrize("style", ["compact", "ddl"])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_cells_names_and_descriptions_cannot_forge_control_text(make_database, tmp_path, style, forgery):
    path = make_database("CREATE TABLE ok (id INTEGER)")
    connection = sqlite3.connect(path)
    name = '"' + forgery.replace("\x00", "") + '"'
    connection.execute(f"CREATE TABLE {name} ({name} TEXT, city TEXT)")
    connection.execute(f"INSERT INTO {name} VALUES ('x', ?)", (f"oslo {forgery}",))
    connection.commit()
    connection.close()
    (path.parent / "database_description").mkdir()
    cell = '"' + forgery.replace("\x00", "") + '"'
    (path.parent / "database_description" / "ok.csv").write_text(
        f"original_column_name,column_description\nid,{cell}\n"
    )
    grounded = ground("the city like 'oslo' or x", path, tmp_path / "cache", min_score=0.0)
    text = render_schema(grounded, style, samples=3)
    stripped = forgery.strip()
    for control in ("<|", "|>", "<｜", "</", "<s", "<t", "<S", "<!", "```", "[INST]", "\u2028", "\x00", "\x1b"):
        assert control not in text
    assert len(stripped) < 2 or stripped not in text
    assert "city" in text and len(text.splitlines()) == (2 if style == "compact" else len(text.split("\n")))


def test_the_budget_is_kept_and_cuts_come_in_order(racing, tmp_path):
    (racing.parent / "database_description").mkdir()
    (racing.parent / "database_description" / "result.csv").write_text(STATUS)
    grounded = ground("nationality of drivers with status finished in Monaco", racing, tmp_path)
    whole = render_schema(grounded, samples=2)
    texts = [render_schema(grounded, "compact", budget, count_words, 2) for budget in range(8, count_words(whole) + 1)]
    assert texts[-1] == whole
    for budget, text in enumerate(texts, start=8):
        assert count_words(text) <= budget
        assert " e.g. " not in text or "F finished" in text, "samples go before descriptions"
        assert "F finished" not in text or "laps" in text, "descriptions go before columns"
        assert "laps" not in text or "nationality" in text, "columns without evidence go before those with"
    sizes = [count_words(text) for text in texts]
    assert sizes == sorted(sizes), "a larger budget never shows less"


@pytest.mark.parametrize("style", ["compact", "ddl"])
def test_a_budget_leaves_no_half_of_a_composite_key(make_database, tmp_path, style):
    path = make_database(
        """CREATE TABLE flight (carrier TEXT, number INTEGER, origin TEXT, PRIMARY KEY (carrier, number));
        CREATE TABLE booking (
            id INTEGER PRIMARY KEY, carrier TEXT, number INTEGER, guest TEXT,
            FOREIGN KEY (carrier, number) REFERENCES flight);
        INSERT INTO flight VALUES ('LH', 1, 'Monaco'); INSERT INTO booking VALUES (1, 'LH', 1, 'Bob');"""
    )
    grounded = ground("guests of carrier LH from Monaco", path, tmp_path / "cache")
    seen = set()
    for budget in range(25, 140):
        text, shown = fit_schema(grounded, style, budget)
        columns = {(table.name, column.name) for table in shown.tables for column in table.columns}
        key, own = {("flight", name) for name in ("carrier", "number")}, {("booking", "carrier"), ("booking", "number")}
        says_key = "carrier text pk" in text or "PRIMARY KEY (carrier" in text
        refers = "-> flight" in text or "REFERENCES flight" in text
        assert says_key == (key <= columns) and refers == (key | own <= columns), text
        seen.add((len(key & columns), len((key | own) & columns)))
    assert {(1, 2), (2, 3), (2, 4)} <= seen


def test_a_budget_too_small_for_one_column_is_refused(racing, tmp_path):
    with pytest.raises(InputError, match="raise the budget"):
        render_schema(ground("drivers", racing, tmp_path), budget=3)


def test_rendering_is_deterministic_over_fresh_caches(racing, tmp_path):
    texts = {
        render_schema(ground("Italian drivers in Monaco", racing, tmp_path / str(i)), "ddl", 200, count_words, 3)
        for i in range(3)
    }
    assert len(texts) == 1


def test_a_foreign_key_to_a_column_that_is_not_shown_is_not_shown(racing, tmp_path):
    grounded = ground("How many laps?", racing, tmp_path, keep_all_columns=0)
    assert render_schema(grounded) == 'race(id int pk, name text, "Race Date" date, laps int, circuit_id int)'


def test_an_unknown_style_is_refused(racing, tmp_path):
    with pytest.raises(InputError, match="compact, ddl"):
        render_schema(ground("drivers", racing, tmp_path), style="yaml")


def test_matched_numbers_are_written_as_sql_writes_them(tmp_path):
    path = tmp_path / "league.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE season (year INTEGER, code TEXT, share REAL)")
        connection.executemany("INSERT INTO season VALUES (?, ?, ?)", [(1998, "1998", 0.5), (2004, "B2", 1.5)])
    connection.close()
    text = render_schema(ground("What is the share in 1998, or where it is 1.5?", path, tmp_path / "cache"))
    assert text == "season(year int = 1998, code text = '1998', share real = 1.5)"
