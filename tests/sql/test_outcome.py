"""Outcomes survive JSON."""

import json
import math

from serl.sql.outcome import Outcome, Status


def test_json_round_trip_keeps_every_type_of_cell() -> None:
    row = (None, 7, 2**62, 0.5, math.inf, "Öl 'x'\n", b"\x00\xff")
    outcome = Outcome(Status.OK, ("a", "b", "c", "d", "e", "f", "g"), (row,), 1, "", 1.25)
    text = json.dumps(outcome.to_json(), allow_nan=False)
    assert Outcome.from_json(json.loads(text)) == outcome


def test_json_can_cap_the_rows_and_keeps_their_count() -> None:
    outcome = Outcome(Status.OK, ("a",), ((1,), (2,), (3,)), 3)
    assert outcome.to_json(max_rows=2)["rows"] == [[1], [2]]
    assert outcome.to_json(max_rows=2)["row_count"] == 3


def test_only_ok_and_empty_have_a_result() -> None:
    assert {status.value for status in Status if Outcome(status).ran} == {"ok", "empty"}
