"""What the policy sees of a result: header and true count always, rows and cells within their caps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agent.observation import bodies, reminder, render_outcome, shortest
from serl.sql.outcome import Outcome, Status


def table(rows: int, columns: int, status: Status = Status.OK) -> Outcome:
    names = tuple(f"c{number}" for number in range(columns))
    return Outcome(status, names, tuple(tuple(range(columns)) for _ in range(rows)), rows)


@pytest.mark.parametrize(("rows", "columns", "cap", "cells", "shown"), [
    (9, 2, 5, 200, 5), (9, 2, 5, 6, 3), (9, 2, 5, 7, 3), (3, 2, 5, 200, 5),
    (9, 40, 5, 100, 2), (9, 40, 5, 40, 1), (9, 40, 5, 39, 0), (9, 500, 5, 200, 0), (0, 0, 5, 200, 5)])
def test_a_wide_result_shows_fewer_rows_and_its_whole_header(rows, columns, cap, cells, shown):
    outcome = table(rows, columns)
    told = bodies(outcome, cap, cells, 20)
    assert told[0] == render_outcome(outcome, shown, 20) and len(told) == shown + 1
    for body in told:
        count, header, *lines = body.split("\n")
        assert count == f"{rows} row{'' if rows == 1 else 's'}"
        assert header == " | ".join(outcome.columns)
        assert sum(line.count("|") + 1 for line in lines if line != "...") <= cells


@given(st.integers(0, 12), st.integers(1, 12), st.integers(1, 6), st.integers(1, 60))
def test_bodies_lose_one_row_after_the_other_but_never_the_header_or_the_count(rows, columns, cap, cells):
    told = bodies(table(rows, columns), cap, cells, 20)
    heads = {tuple(body.split("\n")[:2]) for body in told}
    assert len(heads) == 1
    counts = [len(body.split("\n")) - 2 - body.endswith("...") for body in told]
    assert counts == [min(rows, shown) for shown in range(min(cap, cells // columns), -1, -1)]


@pytest.mark.parametrize(("outcome", "text"), [
    (table(1, 2), "1 row\n2 columns"), (table(0, 1, Status.EMPTY), "0 rows\n1 columns"),
    (Outcome(Status.TOO_LARGE, ("a",), ((1,), (2,)), 9_000), "more than 2 rows\n1 columns"),
    (Outcome(Status.ERROR, error="no such column: x"), "error"), (Outcome(Status.TIMEOUT, error="5 s"), "timeout")])
def test_the_shortest_answer_has_the_true_count_or_the_status(outcome, text):
    assert shortest(outcome) == text


def test_an_error_has_one_body():
    assert bodies(Outcome(Status.ERROR, error="no such column: <sql>"), 5, 200, 20) == [
        "error: no such column: < sql>"]


@pytest.mark.parametrize(("left", "last_chance", "force", "text"), [
    (2, "", False, "turns left: 2"), (1, "", False, "give the solution now"),
    (2, "", True, "turns left: 2"), (1, "", True, "turns left: 1"),
    (0, "turns", True, "no turns left: give the solution now"),
    (2, "room", True, "no room left: give the solution now")])
def test_the_reminder_says_when_the_solution_is_due(left, last_chance, force, text):
    assert reminder(left, last_chance, "solution", force) == text
