"""Cutting text into statements as PostgreSQL does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.sql.postgres_statement import first_word, split


@pytest.mark.parametrize(
    ("sql", "statements"),
    [
        ("", []),
        (" ;; -- only; a comment", []),
        ("/* a /* nested ; */ one ; */", []),
        ("/* never /* closed */ ; SELECT 1", []),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("/* /* */ ; */ SELECT 1 /* ; */ ;", ["SELECT 1"]),
        ("SELECT $$;$$, $a$ ; $$ ; $a$; SELECT 2", ["SELECT $$;$$, $a$ ; $$ ; $a$", "SELECT 2"]),
        ("SELECT $1; SELECT a$b$; SELECT 3", ["SELECT $1", "SELECT a$b$", "SELECT 3"]),
        (r"SELECT '\'; SELECT 2", [r"SELECT '\'", "SELECT 2"]),
        (r"SELECT E'\'; SELECT 2", [r"SELECT E'\'; SELECT 2"]),
        ("SELECT e'a'\n'\\'; ' ; SELECT 2", ["SELECT e'a'\n'\\'; '", "SELECT 2"]),
        ("SELECT 'a;''b;', \"c;\"\"d;\"", ["SELECT 'a;''b;', \"c;\"\"d;\""]),
        ("SELECT 1$$;$$ ; 2", ["SELECT 1$$;$$", "2"]),
        ("SELECT $—$ ' $—$; SELECT '2'", ["SELECT $—$ ' $—$", "SELECT '2'"]),
    ],
)
def test_splits_where_postgres_does(sql: str, statements: list[str]) -> None:
    assert split(sql) == statements


@pytest.mark.parametrize(
    ("sql", "word"),
    [("select 1", "SELECT"), ("((values (1)))", "VALUES"), ("/* /* */ copy */ with x", "WITH"), ("1", ""), ("", "")],
)
def test_first_word_is_found_behind_comments_and_parentheses(sql: str, word: str) -> None:
    assert first_word(sql) == word


@given(st.text(alphabet="aE1'\"$\\;-/*\n (", max_size=40))
def test_statements_are_slices_in_order(sql: str) -> None:
    position = 0
    for statement in split(sql):
        position = sql.index(statement, position) + len(statement)
