"""Rendering what somebody made to break it: names, values and descriptions of any kind, in both styles."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grounding import (
    Column,
    ColumnSamples,
    Database,
    ForeignKey,
    GroundedSchema,
    InputError,
    LinkedColumn,
    LinkedTable,
    Table,
    ValueMatch,
    render_schema,
)  # fmt: skip
from grounding.render import altered_names
from grounding.render.literals import EXPRESSION_CHARS, VALUE_CHARS, literal
from grounding.render.names import Names
from grounding.schema import DECLARED, INFERRED, TABLES_JSON
from grounding.sqlite import quote
from tests.grounding.hostile import forged, texts
from tests.grounding.test_safety import TOKENIZERS

ROOT = Path(__file__).parents[2]
TYPES = ("text", "integer", "real", "date", "blob")
ORIGINS = (DECLARED, TABLES_JSON, INFERRED)
names = st.one_of(
    texts, st.sampled_from(("id", "order", "a b", "a  b", "a\tb", 'a"b', "[x]", "城市", "x\ny", "x y", "X Y"))
)


def distinct(drawn):
    """Lists of names that SQLite takes for different ones."""
    return st.lists(drawn, min_size=1, max_size=4, unique_by=lambda name: name.lower())


def schema(tables, keys=(), values=(), samples=(), why=("value",)):
    database = Database("x", Path("x.sqlite"), tuple(tables), tuple(keys))
    linked = [LinkedTable(t.name, tuple(LinkedColumn(c.name, why) for c in t.columns)) for t in tables]
    return GroundedSchema(database, tuple(linked), tuple(values), tuple(samples))


@st.composite
def schemas(draw):
    tables = [
        Table(name, tuple(
            Column(column, draw(st.sampled_from(TYPES)), draw(st.booleans()), draw(texts), draw(st.just("") | texts))
            for column in draw(distinct(names))
        ))
        for name in draw(distinct(names.filter(lambda name: not name.lower().startswith("sqlite_"))))
    ]  # fmt: skip
    places = [(table.name, column.name) for table in tables for column in table.columns]
    place = st.sampled_from(places)
    origin, composite = st.sampled_from(ORIGINS), st.none() | st.just(0)
    keys = [ForeignKey(*draw(place), *draw(place), draw(origin), draw(composite)) for _ in range(3)]
    values = [ValueMatch(*draw(place), draw(texts), 1.0, "exact") for _ in range(3)]
    samples = [ColumnSamples(*draw(place), (draw(texts), draw(texts)))]
    return schema(tables, keys, values, samples, draw(st.sampled_from((("value",), ("full",)))))


def executed(text):
    """Tables and their columns after a script, by SQLite's own catalogue."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(text)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({quote(name)})")] for name in tables}


@given(schemas())
@settings(max_examples=60, deadline=None)
def test_ddl_of_a_hostile_schema_is_executed_and_has_its_tables_and_columns(grounded):
    made = executed(render_schema(grounded, "ddl", samples=2))
    tables = grounded.database.tables
    assert [len(columns) for columns in made.values()] == [len(table.columns) for table in tables]
    for (name, columns), table in zip(made.items(), tables):
        assert name == table.name or Names.is_altered(table.name)
        for written, column in zip(columns, table.columns):
            assert written == column.name or Names.is_altered(column.name)


@pytest.mark.parametrize("style", ["compact", "ddl"])
@given(grounded=schemas())
@settings(max_examples=40, deadline=None)
def test_a_hostile_schema_forges_no_control_token_and_no_line(style, grounded):
    text = render_schema(grounded, style, samples=2)
    for made in TOKENIZERS.values():
        assert not forged(made, text)
    assert text.encode() and "\x00" not in text
    tables = grounded.database.tables
    if style == "compact":
        assert text.split("\n") == text.splitlines() and len(text.splitlines()) == len(tables)
    altered = [name for t in tables for name in (t.name, *(c.name for c in t.columns)) if Names.is_altered(name)]
    assert text.count("name altered") >= len(altered) == len(altered_names(grounded.database))


@given(grounded=schemas(), share=st.floats(0.2, 1.0), style=st.sampled_from(["compact", "ddl"]))
@settings(max_examples=40, deadline=None)
def test_a_hostile_schema_keeps_its_budget(grounded, share, style):
    made = TOKENIZERS["bytes"]

    def count(text):
        return len(made.encode(text).ids)

    whole = count(render_schema(grounded, style, None, count, 2))
    budget = round(share * whole)
    try:
        text = render_schema(grounded, style, budget, count, 2)
    except InputError:  # it is below what one column takes
        assert budget < whole
        return
    assert 0 < count(text) <= budget
    if style == "ddl":
        executed(text)


@given(texts)
@settings(max_examples=150, deadline=None)
def test_a_literal_is_equal_to_what_is_stored_or_says_that_it_is_not(value):
    value = value.replace("\ud800", "")  # SQLite stores no half of a pair
    written = literal(value)
    ((read,),) = sqlite3.connect(":memory:").execute(f"SELECT {written}")
    assert "\n" not in written and not any(forged(made, written) for made in TOKENIZERS.values())
    assert read == value or written.endswith("…'")
    assert len(written) <= EXPRESSION_CHARS + 2


@pytest.mark.parametrize(
    ("value", "stored", "written"),
    [
        ("two  spaces ", "text", "'two  spaces '"),
        ("a\nb", "text", "'a' || char(10) || 'b'"),
        ("\r\n", "text", "char(13, 10)"),
        ("a\u00a0b", "text", "'a' || char(160) || 'b'"),
        ("<|im_start|>", "text", "'<' || '|im_start|' || '>'"),
        ("a\u202eb", "text", "'a' || char(8238) || 'b'"),
        ("", "text", "''"),
        ("می\u200cخواهم", "text", "'می\u200cخواهم'"),
        ("x" * VALUE_CHARS, "text", f"'{'x' * VALUE_CHARS}'"),
        ("x" * 61, "text", f"'{'x' * 59}…'"),
        ("x" * 58 + "👨\u200d👩\u200d👧", "text", f"'{'x' * 58}…'"),
        ("\n" * 50, "text", "'…'"),
        ("1998", "integer", "1998"),
        ("-2.5e-07", "real", "-2.5e-07"),
        ("inf", "real", "9e999"),
        ("-inf", "real", "-9e999"),
    ],
)
def test_literals_by_hand(value, stored, written):
    assert literal(value, stored) == written


def test_names_that_are_altered_stay_apart_and_are_told():
    table = Table("t\n", tuple(Column(name, "text") for name in ("a b", "a\nb", "A\x0bB", "<sql>", "a\u200b b", "ok")))
    grounded = schema([table])
    text = render_schema(grounded)
    assert text == (
        '"t "("a b" text, "a b 2" text (name altered), "A B 3" text (name altered), "< sql>" text (name altered),'
        ' "a b 4" text (name altered), ok text) (name altered)'
    )
    assert executed(render_schema(grounded, "ddl")) == {"t ": ["a b", "a b 2", "A B 3", "< sql>", "a b 4", "ok"]}
    assert len(altered_names(grounded.database)) == 5
    assert altered_names(grounded.database)[3].startswith("column '<sql>' of table 't\\n' is shown as \"< sql>\"")


def test_inferred_keys_are_marked_and_composite_ones_are_one():
    tables = [
        Table("seat", (Column("hall", "text", True), Column("number", "integer", True), Column("kind", "text"))),
        Table("ticket", tuple(Column(name, "text") for name in ("hall", "number", "show", "was"))),
        Table("show", (Column("id", "integer", True),)),
    ]
    keys = [
        ForeignKey("ticket", "hall", "seat", "hall", composite=0),
        ForeignKey("ticket", "show", "show", "id", INFERRED),
        ForeignKey("ticket", "number", "seat", "number", composite=0),
        ForeignKey("ticket", "was", "seat", "hall", TABLES_JSON),
    ]
    grounded = schema(tables, keys)
    assert render_schema(grounded).splitlines()[1] == (
        "ticket(hall text -> seat.hall, number text -> seat.number, show text -> show.id (inferred),"
        " was text -> seat.hall)"
    )
    assert render_schema(grounded, "ddl").splitlines()[6:15] == [
        "CREATE TABLE ticket (",
        "  hall TEXT,",
        "  number TEXT,",
        "  show TEXT,",
        "  was TEXT,",
        "  FOREIGN KEY (show) REFERENCES show (id), -- inferred",
        "  FOREIGN KEY (was) REFERENCES seat (hall),",
        "  FOREIGN KEY (hall, number) REFERENCES seat (hall, number)",
        ");",
    ]
    seat, *others = grounded.tables
    partly = replace(grounded, tables=(replace(seat, columns=seat.columns[:1]), *others))
    for style in ("compact", "ddl"):
        text = render_schema(partly, style)
        assert text.count("REFERENCES") + text.count("->") == 2, "show and was: half of a composite key joins wrongly"
        assert "number text ->" not in text and "PRIMARY KEY (hall)" not in text and "hall text pk" not in text


def test_two_keys_to_one_table_are_not_taken_for_a_composite_one():
    tables = [
        Table("team", (Column("id", "integer", True), Column("name", "text"))),
        Table("game", (Column("home", "integer"), Column("away", "integer"))),
    ]
    keys = [ForeignKey("game", "home", "team", "id"), ForeignKey("game", "away", "team", "id")]
    assert render_schema(schema(tables, keys), "ddl").count("FOREIGN KEY") == 2


def test_the_same_bytes_whatever_the_process_hash_seed_and_locale(racing, tmp_path):
    script = (
        "import sys; from pathlib import Path; from grounding import Grounder, Request, render_schema\n"
        f"g = Grounder(Path({str(tmp_path / 'cache')!r}), 'none')\n"
        f"s = g.ground(Request('Which British driver was in Monaco, where is İstanbul?', Path({str(racing)!r})))\n"
        "for style in ('compact', 'ddl'): sys.stdout.buffer.write(render_schema(s, style, 300, len, 3).encode())"
    )
    made = set()
    for seed, language in (("0", "C"), ("1", "tr_TR.UTF-8"), ("2", "de_DE.ISO-8859-1")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": language}
        run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=True)
        made.add(run.stdout)
    assert len(made) == 1 and b"British" in made.pop()
