"""Cutting text into statements."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.sql.statement import join_operators, split


@pytest.mark.parametrize(
    ("sql", "statements"),
    [
        ("", []),
        (" \n\t;; ; ", []),
        ("-- only a comment", []),
        ("/* never closed ; SELECT 1", []),
        ("SELECT 1", ["SELECT 1"]),
        ("  SELECT 1 ;; -- done;", ["SELECT 1"]),
        ("; SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \";\", `;`, [;]", ["SELECT ';', \";\", `;`, [;]"]),
        ("SELECT 'it''s; fine'; DROP TABLE t", ["SELECT 'it''s; fine'", "DROP TABLE t"]),
        ("SELECT 1 /* ; */ + -- ;\n 2", ["SELECT 1 /* ; */ + -- ;\n 2"]),
        ("SELECT 4 - 2 / 1; SELECT -1", ["SELECT 4 - 2 / 1", "SELECT -1"]),
        ("SELECT 'never closed; SELECT 2", ["SELECT 'never closed; SELECT 2"]),
    ],
)
def test_splits_where_sqlite_does(sql: str, statements: list[str]) -> None:
    assert split(sql) == statements


@given(st.text(alphabet="a1'\"`[];-/*\n ().", max_size=40))
def test_statements_are_slices_and_none_is_two(sql: str) -> None:
    position = 0
    for statement in split(sql):
        position = sql.index(statement, position) + len(statement)
        with pytest.raises(sqlite3.Error) as caught:  # random text: refused, but never as two statements
            sqlite3.connect(":memory:").execute(statement)
        assert "one statement" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "joined"),
    [
        ("a > = 3 AND b !\n= 4 OR c < >5", "a >= 3 AND b != 4 OR c <>5"),
        ("a < = 3 AND b = = c | | d", "a <= 3 AND b == c || d"),
        ("a = '> =' AND b = \"! =\" AND c > = 3 -- > =", "a = '> =' AND b = \"! =\" AND c >= 3 -- > ="),
        ("a - - 3 AND b > /* */ = 3 AND c >= 3", "a - - 3 AND b > /* */ = 3 AND c >= 3"),
    ],
)
def test_white_space_inside_of_operators_goes_and_nothing_else(sql: str, joined: str) -> None:
    assert join_operators(sql) == joined


@given(st.text(alphabet="a1'\"<>=!| \n-/*;", max_size=40))
def test_operators_are_joined_once_and_only_white_space_goes(sql: str) -> None:
    joined = join_operators(sql)
    assert join_operators(joined) == joined
    assert "".join(joined.split()) == "".join(sql.split())
