"""Reader of SParC's and CoSQL's layout: dialogues whose every turn has a gold query.

    ROOT/{split}.json             database_id, interaction: [{utterance, query}], one object a dialogue
    ROOT/database/DB/DB.sqlite    or those of Spider beside it, ROOT/../spider/database: they are the same
    ROOT/tables.json              names and foreign keys; only exact match needs it

CoSQL's archive has the questions in sql_state_tracking/cosql_{split}.json instead. A turn's id is the dialogue's
position in the file, from 0, and the turn's number, from 1: "12/3". Gold is as it stands, with faults of its own:
some has spaces inside operators ("! =") and does not run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from serl.data.example import Example
from serl.data.records import first_existing, read_records, report_missing, require_root, text_field
from serl.errors import InputError


def load_sparc(root: Path | str, split: str) -> list[Example]:
    """The turns of a split of SParC in the file's order. InputError where a file or field is missing."""
    return _load(root, split, "SParC", [f"{split}.json"])


def load_cosql(root: Path | str, split: str) -> list[Example]:
    """The turns of a split of CoSQL in the file's order. InputError where a file or field is missing."""
    return _load(root, split, "CoSQL", [f"{split}.json", f"sql_state_tracking/cosql_{split}.json"])


def _load(root: Path | str, split: str, what: str, names: list[str]) -> list[Example]:
    """Dialogues whose database is missing are left out with a warning that counts and names them."""
    root = require_root(root, what)
    path = first_existing([root / name for name in names], f"{what}'s {split} dialogues")
    homes = (root, root.parent / "spider")
    databases = first_existing([home / "database" for home in homes], f"{what}'s databases")
    tables = root / "tables.json"
    examples: list[Example] = []
    missing: Counter[str] = Counter()
    position = 0
    for number, record in enumerate(read_records(path)):
        db_id = text_field(record, "database_id", path, number)
        db_path = databases / db_id / f"{db_id}.sqlite"
        turns = _turns(record, path, number)
        if db_id in missing or not db_path.exists():
            missing[db_id] += 1
            position += len(turns)
            continue
        for turn, (utterance, gold) in enumerate(turns, start=1):
            examples.append(
                Example(
                    question_id=f"{number}/{turn}",
                    db_id=db_id,
                    question=utterance,
                    evidence="",
                    gold_sql=gold,
                    difficulty="",
                    db_path=db_path,
                    split=split,
                    position=position,
                    interaction=str(number),
                    tables_path=tables if tables.exists() else None,
                )
            )
            position += 1
    report_missing(path, "dialogues", missing, databases)
    return examples


def _turns(record: dict, path: Path, number: int) -> list[tuple[str, str]]:
    """Utterance and gold of each turn."""
    turns = record.get("interaction")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise InputError(f'{path}, record {number}: "interaction" should be a list of turns with utterance and query')
    where = Path(f"{path}, record {number}")
    return [tuple(text_field(turn, key, where, i) for key in ("utterance", "query")) for i, turn in enumerate(turns)]
