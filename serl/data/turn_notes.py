"""What is known of the turns of generated dialogues beside question and gold: nothing that a prompt may show.

    ROOT/{split}_turns.json    question_id, kind, carried: [{clause, item, since}], one object a turn

A type of its own, which neither `Example` nor what makes prompts of it has a place for. The drift report reads it: a
carried constraint is lost at the first turn whose predicted SQL lacks its item (`serl.sql.clauses`). For SParC and
CoSQL, which have no notes, `carried_over` tells from gold alone what may have to be carried over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from serl.data.records import read_records, require_root, text_field
from serl.errors import InputError
from serl.sql.clauses import CLAUSES, Clauses, Unparsed

KINDS = ("start", "refine", "replace", "aggregate", "refer", "switch")
"""What a turn does with those before it: the first begins, and a switch of topic is as free of them as the first."""


@dataclass(frozen=True)
class Carried:
    """An item of the gold query that the turn does not say: it has to be carried over from the turns before."""

    clause: str
    """One of CLAUSES."""
    item: str
    """As `serl.sql.clauses` spells it."""
    since: int
    """The turn that said it."""


@dataclass(frozen=True)
class TurnNote:
    """The kind of a turn, one of KINDS, and what it carries over."""

    kind: str
    carried: tuple[Carried, ...] = ()

    def to_json(self, question_id: str) -> dict[str, Any]:
        """The turn's entry in the file."""
        return {"question_id": question_id, **asdict(self)}


def load_turn_notes(root: Path | str, split: str) -> dict[str, TurnNote]:
    """The notes of a split by question id. InputError where the file is missing or not in this form."""
    path = require_root(root, "dialogue") / f"{split}_turns.json"
    notes: dict[str, TurnNote] = {}
    for number, record in enumerate(read_records(path)):
        kind = text_field(record, "kind", path, number)
        if kind not in KINDS:
            raise InputError(f'{path}, record {number}: kind {kind!r} should be one of: {", ".join(KINDS)}')
        question_id = text_field(record, "question_id", path, number)
        notes[question_id] = TurnNote(kind, tuple(_carried(record, path, number)))
    return notes


def carried_over(golds: Sequence[Clauses | Unparsed]) -> list[tuple[Carried, ...]]:
    """For each turn of a dialogue the items of its gold that the gold before has too, since the first of such a run.

    More than notes have, where a turn says something again; less, where a dialogue returns to an earlier topic. Behind
    a turn whose gold cannot be read nothing is known to be carried over.
    """
    found: list[tuple[Carried, ...]] = []
    since: dict[tuple[str, str], int] = {}
    for turn, clauses in enumerate(golds, start=1):
        items = [] if isinstance(clauses, Unparsed) else [
            (clause, item) for clause in CLAUSES for item in dict.fromkeys(clauses[clause])]
        found.append(tuple(Carried(*item, since[item]) for item in items if item in since))
        since = {item: since.get(item, turn) for item in items}
    return found


def _carried(record: dict[str, Any], path: Path, number: int) -> list[Carried]:
    try:
        found = [Carried(**entry) for entry in record["carried"]]
    except (KeyError, TypeError) as error:
        raise InputError(f'{path}, record {number}: "carried" should list clause, item and since') from error
    for each in found:
        if each.clause not in CLAUSES or not isinstance(each.item, str) or not isinstance(each.since, int):
            raise InputError(f"{path}, record {number}: {asdict(each)} is no clause, item and number of a turn")
    return found
