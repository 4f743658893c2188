"""Results as tables for a terminal."""

import pytest

from serl.sql.outcome import Outcome, Status
from serl.sql.table import cell, printable, table


def test_columns_are_aligned_and_what_is_not_shown_is_counted():
    outcome = Outcome(Status.OK, ("name", "n"), (("Ann", 2), (None, 10), ("Bo", 3)), 7)
    assert table(outcome, 2) == ["name  n", "----  --", "Ann   2", "NULL  10", "... 5 more rows"]
    assert table(outcome, 9)[-1] == "... 4 more rows", "those that were not kept"
    assert table(Outcome(Status.OK, ("n",), ((1,),), 1), 1) == ["n", "-", "1"]
    assert table(Outcome(Status.ERROR, error="no"), 5) == []


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x9b2J", "\u202e", "\u2066", "\x07", "\r", "\ud800"])
def test_nothing_that_a_terminal_obeys_is_left(hostile):
    assert printable(f"a{hostile}b\n") == f"a\ufffd{hostile[1:]}b\n"
    assert hostile[0] not in cell(f"a{hostile}b")


def test_a_cell_is_one_short_line():
    assert cell("a\r\n\tb") == "a b" and cell("x" * 50) == "x" * 37 + "..." and cell(b"ab") == "b'ab'"
