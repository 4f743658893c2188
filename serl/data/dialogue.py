"""Reader of SParC's and CoSQL's layout: dialogues whose every turn has a gold query.

    ROOT/{split}.json             database_id, interaction: [{utterance, query}], final: {utterance, query}
    ROOT/database/DB/DB.sqlite    or those of Spider beside it, ROOT/../spider/database: they are the same
    ROOT/database/DB/database_description/*.csv    as in BIRD; may be absent
    ROOT/tables.json              names and foreign keys; only exact match needs it

CoSQL's archive has the questions in sql_state_tracking/cosql_{split}.json instead. A turn's id is the dialogue's
position in the file, from 0, and the turn's number, from 1: "12/3". Gold with spaces inside its operators ("! =") is
read without them, as the official evaluation does; it would not run. Other gold that is wrong stays as it is, and
`serl data check` names its places.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from serl.data.example import Example
from serl.data.interaction import Intent, Interaction
from serl.data.records import first_existing, read_records, report_missing, require_root, text_field
from serl.errors import InputError
from serl.sql.statement import join_operators

_SPARC = ("SParC", ("{}.json",))
_COSQL = ("CoSQL", ("{}.json", "sql_state_tracking/cosql_{}.json"))
_LAYOUTS = {"sparc": _SPARC, "cosql": _COSQL}
DIALOGUE_FORMATS = tuple(_LAYOUTS)


def load_sparc(root: Path | str, split: str) -> list[Example]:
    """The turns of a split of SParC in the file's order. InputError where a file or field is missing."""
    return [turn for dialogue in load_interactions("sparc", root, split) for turn in dialogue.turns]


def load_cosql(root: Path | str, split: str) -> list[Example]:
    """The turns of a split of CoSQL in the file's order. InputError where a file or field is missing."""
    return [turn for dialogue in load_interactions("cosql", root, split) for turn in dialogue.turns]


def load_interactions(format: str, root: Path | str, split: str) -> list[Interaction]:
    """The dialogues of a split in the file's order. InputError where a file or field is missing.

    Dialogues whose database is missing are left out with a warning that counts and names them; ids of the others stay
    as they are.
    """
    if format not in _LAYOUTS:
        raise InputError(f"{format!r} is no format of dialogues, should be one of: {', '.join(DIALOGUE_FORMATS)}")
    what, names = _LAYOUTS[format]
    root = require_root(root, what)
    path = first_existing([root / name.format(split) for name in names], f"{what}'s {split} dialogues")
    homes = (root, root.parent / "spider")
    databases = first_existing([home / "database" for home in homes], f"{what}'s databases")
    tables = root / "tables.json"
    tables = tables if tables.exists() else None
    dialogues: list[Interaction] = []
    missing: Counter[str] = Counter()
    position = 0
    for number, record in enumerate(read_records(path)):
        db_id = text_field(record, "database_id", path, number)
        turns = _turns(record, path, number)
        db_dir = databases / db_id
        if db_id in missing or not (db_dir / f"{db_id}.sqlite").exists():
            missing[db_id] += 1
        else:
            examples = tuple(_example(db_dir, split, number, turn, position + turn - 1, tables, *texts)
                             for turn, texts in enumerate(turns, start=1))
            dialogues.append(Interaction(str(number), examples, _final(record, path, number)))
        position += len(turns)
    report_missing(path, "dialogues", missing, databases)
    return dialogues


def _example(db_dir: Path, split: str, number: int, turn: int, position: int, tables: Path | None, utterance: str,
             gold: str) -> Example:
    descriptions = db_dir / "database_description"
    return Example(
        question_id=f"{number}/{turn}",
        db_id=db_dir.name,
        question=utterance,
        evidence="",
        gold_sql=join_operators(gold),
        difficulty="",
        db_path=db_dir / f"{db_dir.name}.sqlite",
        split=split,
        description_dir=descriptions if descriptions.is_dir() else None,
        position=position,
        interaction=str(number),
        turn=turn,
        tables_path=tables,
    )


def _turns(record: dict[str, Any], path: Path, number: int) -> list[tuple[str, str]]:
    """Utterance and gold of each turn."""
    turns = record.get("interaction")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise InputError(f'{path}, record {number}: "interaction" should be a list of turns with utterance and query')
    return [_texts(turn, f"{path}, record {number}, turn {place}") for place, turn in enumerate(turns, start=1)]


def _final(record: dict[str, Any], path: Path, number: int) -> Intent | None:
    final = record.get("final")
    if final is None:
        return None
    if not isinstance(final, dict):
        raise InputError(f'{path}, record {number}: "final" should hold utterance and query')
    question, gold = _texts(final, f"{path}, record {number}, final")
    return Intent(question, join_operators(gold))


def _texts(entry: dict[str, Any], where: str) -> tuple[str, str]:
    for key in ("utterance", "query"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise InputError(f'{where}: "{key}" is missing or not a text')
    return entry["utterance"], entry["query"]
