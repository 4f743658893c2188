"""The embedded benchmark: made-up databases and questions in BIRD's layout, the same bytes for a seed.

A database is declared in domains/ (schema.py has the language), values.py fills it, kinds/ has the shapes
of questions, slots.py and conditions.py draw what stands in them, phrases.py says it in English,
compose.py keeps the questions that have one clear answer, writer.py writes the files.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serl.data.minibird.compose import Question, questions
from serl.data.minibird.domains import SEEN, UNSEEN
from serl.data.minibird.world import World
from serl.data.minibird.writer import write_split
from serl.errors import InputError

__all__ = ["generate"]


def generate(
    out_dir: Path, seed: int = 0, train: int = 4000, dev: int = 400, unseen: int = 200,
) -> dict[str, Any]:
    """Writes the benchmark to `out_dir` and returns a summary of it.

    `train` and `dev` count the questions on the databases that are trained on, `unseen` the questions on
    databases that only dev.json has; dev.json holds both. No SQL and no question of a database occurs
    twice. Raises InputError for a count below 1, or for more questions than the databases can give.
    """
    for name, count in (("train", train), ("dev", dev), ("unseen", unseen)):
        if count < 1:
            raise InputError(f"minibird: {name}={count}, but each split needs at least one question")
    seen_worlds = [World(database, seed) for database in SEEN]
    unseen_worlds = [World(database, seed) for database in UNSEEN]
    train_questions, dev_questions = [], []
    for world, for_train, for_dev in zip(seen_worlds, _split(train, SEEN), _split(dev, SEEN), strict=True):
        pool = questions(world, for_train + for_dev, _generator(seed, world.database.name))
        train_questions += pool[:for_train]
        dev_questions += pool[for_train:]
    for world, count in zip(unseen_worlds, _split(unseen, UNSEEN), strict=True):
        dev_questions += questions(world, count, _generator(seed, world.database.name))
    _generator(seed, "train").shuffle(train_questions)
    _generator(seed, "dev").shuffle(dev_questions)
    write_split(out_dir, "train", seen_worlds, train_questions)
    write_split(out_dir, "dev", seen_worlds + unseen_worlds, dev_questions)
    return {"seed": seed, "train": _summary(train_questions), "dev": _summary(dev_questions)}


def _generator(seed: int, name: str) -> random.Random:
    return random.Random(f"questions/{seed}/{name}")


def _split(total: int, parts: Sequence[Any]) -> list[int]:
    """`total` shared out as evenly as it goes, the first parts taking what is left over."""
    return [total // len(parts) + (at < total % len(parts)) for at in range(len(parts))]


def _summary(made: Sequence[Question]) -> dict[str, Any]:
    return {
        "questions": len(made),
        "with_evidence": sum(bool(question.evidence) for question in made),
        "databases": dict(sorted(Counter(question.db_id for question in made).items())),
        "difficulty": dict(sorted(Counter(question.difficulty for question in made).items())),
        "kinds": dict(sorted(Counter(question.kind for question in made).items())),
    }
