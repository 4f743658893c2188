"""Dialogues on the databases of minibird, in SParC's layout, the same bytes for a seed.

    ROOT/train.json, dev.json                dialogues, as `serl.data.dialogue` reads them
    ROOT/train_turns.json, dev_turns.json    kind of each turn and what it carries over (`serl.data.turn_notes`)
    ROOT/tables.json, database/              the databases, those of the same seed's minibird to the byte

topic.py is what a turn is about and its query, talk.py draws the pieces, start.py begins a topic, moves.py changes
one, words.py says it, context.py and compose.py keep the follow-ups that need what was said before.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serl.data.minibird import share_out
from serl.data.minibird.dialogue.compose import Dialogue, dialogues
from serl.data.minibird.domains import SEEN, UNSEEN
from serl.data.minibird.world import World
from serl.data.minibird.writer import tables_entry, write_database, write_json
from serl.errors import InputError

__all__ = ["generate_dialogues"]


def generate_dialogues(out_dir: Path, seed: int = 0, train: int = 1200, dev: int = 120, unseen: int = 60
                       ) -> dict[str, Any]:
    """Writes the dialogues to `out_dir` and returns a summary of them.

    `train` and `dev` count the dialogues on the databases that are trained on, `unseen` those on databases that only
    dev.json has; dev.json holds both. No query of a database occurs in two dialogues. Raises InputError for a count
    below 1 and for more dialogues than a database can give.
    """
    for name, count in (("train", train), ("dev", dev), ("unseen", unseen)):
        if count < 1:
            raise InputError(f"minibird: {name}={count}, but it has to be at least 1")
    worlds = [World(database, seed) for database in (*SEEN, *UNSEEN)]
    train_dialogues: list[Dialogue] = []
    dev_dialogues: list[Dialogue] = []
    shares = [*zip(share_out(train, SEEN), share_out(dev, SEEN)),
              *((0, count) for count in share_out(unseen, UNSEEN))]
    for world, (for_train, for_dev) in zip(worlds, shares, strict=True):
        made = dialogues(world, for_train + for_dev, _generator(seed, world.database.name))
        train_dialogues += made[:for_train]
        dev_dialogues += made[for_train:]
    _generator(seed, "train").shuffle(train_dialogues)
    _generator(seed, "dev").shuffle(dev_dialogues)
    for world in worlds:
        write_database(out_dir / "database" / world.database.name, world)
    write_json(out_dir / "tables.json", [tables_entry(world.database) for world in worlds])
    for split, made in (("train", train_dialogues), ("dev", dev_dialogues)):
        write_json(out_dir / f"{split}.json", [_entry(dialogue) for dialogue in made])
        write_json(out_dir / f"{split}_turns.json", [
            turn.note.to_json(f"{number}/{place}") for number, dialogue in enumerate(made)
            for place, turn in enumerate(dialogue.turns, start=1)])
    return {"seed": seed, "train": _summary(train_dialogues), "dev": _summary(dev_dialogues)}


def _generator(seed: int, name: str) -> random.Random:
    return random.Random(f"dialogues/{seed}/{name}")


def _entry(dialogue: Dialogue) -> dict[str, Any]:
    turns = [{"utterance": turn.question, "query": turn.sql} for turn in dialogue.turns]
    return {"database_id": dialogue.db_id, "interaction": turns,
            "final": {"utterance": dialogue.final, "query": dialogue.turns[-1].sql}}


def _summary(made: Sequence[Dialogue]) -> dict[str, Any]:
    turns = [turn for dialogue in made for turn in dialogue.turns]
    return {
        "dialogues": len(made),
        "questions": len(turns),
        "databases": dict(sorted(Counter(dialogue.db_id for dialogue in made).items())),
        "turns": dict(sorted(Counter(len(dialogue.turns) for dialogue in made).items())),
        "kinds": dict(sorted(Counter(turn.note.kind for turn in turns).items())),
    }
