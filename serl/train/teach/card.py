"""The card of a taught teacher: `teacher.json` in its model folder says what it learned from, and how well."""

from collections.abc import Set
from pathlib import Path

from serl.errors import InputError
from serl.io import read_json

CARD = "teacher.json"


def seen_by(folder: Path) -> Set[str]:
    """Ids of the questions whose trajectories made this teacher, held-out ones included; empty without a card."""
    if not (folder / CARD).is_file():
        return frozenset()
    card = read_json(folder / CARD)
    try:
        return frozenset(card["questions"]) | frozenset(card["held_out_questions"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / CARD}: not a card that `serl teach` wrote") from error
