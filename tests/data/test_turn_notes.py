"""Notes of turns: read as they were written, wrong ones named."""

import json
from pathlib import Path

import pytest

from serl.data.turn_notes import Carried, TurnNote, carried_over, load_turn_notes
from serl.errors import InputError
from serl.sql.clauses import read_clauses

NOTE = TurnNote("refine", (Carried("where", "city.people > 5", 1),))


def write(root: Path, *records: object) -> None:
    (root / "dev_turns.json").write_text(json.dumps(records))


def test_notes_are_read_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, TurnNote("start").to_json("0/1"), NOTE.to_json("0/2"))
    assert load_turn_notes(tmp_path, "dev") == {"0/1": TurnNote("start"), "0/2": NOTE}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "wander"}, "record 0: kind 'wander' should be one of: start, refine"),
        ({"question_id": None}, 'record 0: "question_id" is missing'),
        ({"carried": None}, 'record 0: "carried" should list clause, item and since'),
        ({"carried": [{"clause": "where"}]}, 'record 0: "carried" should list clause, item and since'),
        ({"carried": [{"clause": "were", "item": "a", "since": 1}]}, "record 0: .* is no clause, item and number"),
    ],
)
def test_wrong_notes_are_named(tmp_path: Path, changes: dict, message: str) -> None:
    write(tmp_path, {**NOTE.to_json("0/2"), **changes})
    with pytest.raises(InputError, match=r"dev_turns\.json, " + message):
        load_turn_notes(tmp_path, "dev")


def test_what_golds_in_a_row_share_may_have_to_be_carried_over_since_it_came() -> None:
    golds = ["SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 1 AND c = 2", "SELECT d FROM t WHERE c = 2",
             "SELECT", "SELECT d FROM t WHERE b = 1", "SELECT COUNT(*) FROM u"]
    found = [[(each.clause, each.item, each.since) for each in turn] for turn in carried_over([
        read_clauses(sql) for sql in golds])]
    assert found == [
        [], [("select", "t.a", 1), ("from", "t", 1), ("where", "t.b = 1", 1)],
        [("from", "t", 1), ("where", "t.c = 2", 2)], [], [], []]
