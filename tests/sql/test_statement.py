"""Cutting text into statements."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.sql.statement import split


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
