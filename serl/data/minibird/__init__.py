"""The embedded benchmark: made-up databases and questions in BIRD's layout, the same bytes for a seed.

A database is declared in domains/ (schema.py has the language) or made up by invent/, values.py fills it,
kinds/ has the shapes of questions, slots.py and conditions.py draw what stands in them, phrases.py says it in
English, compose.py keeps the questions that have one clear answer, writer.py writes the files. dialogue/ makes
dialogues on the same databases.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serl.data.minibird.compose import Question, questions
from serl.data.minibird.domains import SEEN, UNSEEN
from serl.data.minibird.invent import invent
from serl.data.minibird.world import World
from serl.data.minibird.writer import write_split
from serl.data.records import read_records, require_root, text_field
from serl.errors import InputError

__all__ = ["generate"]


def generate(
    out_dir: Path, seed: int = 0, train: int = 4000, dev: int = 400, unseen: int = 200, invented: int = 0,
    invented_questions: int = 40, apart_from: Path | None = None,
) -> dict[str, Any]:
    """Writes the benchmark to `out_dir` and returns a summary of it.

    `train` and `dev` count the questions on the databases that are trained on, `unseen` the questions on
    databases that only dev.json has; dev.json holds both. No SQL and no question of a database occurs
    twice. train.json has `invented_questions` more on each of `invented` databases made up at random, or fewer
    where one cannot give so many. `apart_from` is the root of another minibird: no SQL and no question here
    is one of the same database there. Raises InputError for a count below 1 (`invented` may be 0), for more
    questions than the databases can give, or where the other minibird cannot be read.
    """
    for name, count, least in (("train", train, 1), ("dev", dev, 1), ("unseen", unseen, 1),
                               ("invented", invented, 0), ("invented_questions", invented_questions, 1)):
        if count < least:
            raise InputError(f"minibird: {name}={count}, but it has to be at least {least}")
    elsewhere = _texts(apart_from) if apart_from else {}
    seen_worlds = [World(database, seed) for database in SEEN]
    unseen_worlds = [World(database, seed) for database in UNSEEN]
    invented_worlds = [World(invent(number, seed), seed) for number in range(1, invented + 1)]

    def draw(world: World, count: int, **options: bool) -> list[Question]:
        name = world.database.name
        return questions(world, count, _generator(seed, name), elsewhere.get(name, ()), **options)

    train_questions, dev_questions = [], []
    for world, for_train, for_dev in zip(seen_worlds, share_out(train, SEEN), share_out(dev, SEEN), strict=True):
        pool = draw(world, for_train + for_dev)
        train_questions += pool[:for_train]
        dev_questions += pool[for_train:]
    for world, count in zip(unseen_worlds, share_out(unseen, UNSEEN), strict=True):
        dev_questions += draw(world, count)
    for world in invented_worlds:
        train_questions += draw(world, invented_questions, may_be_fewer=True)
    _generator(seed, "train").shuffle(train_questions)
    _generator(seed, "dev").shuffle(dev_questions)
    write_split(out_dir, "train", seen_worlds + invented_worlds, train_questions)
    write_split(out_dir, "dev", seen_worlds + unseen_worlds, dev_questions)
    return {"seed": seed, "train": _summary(train_questions), "dev": _summary(dev_questions)}


def _texts(root: Path) -> dict[str, set[str]]:
    """The SQL and the lower-cased questions of the minibird at `root`, by database."""
    texts: dict[str, set[str]] = defaultdict(set)
    for path in (require_root(root, "other minibird") / f"{split}.json" for split in ("train", "dev")):
        for index, record in enumerate(read_records(path)):
            sql, question = (text_field(record, key, path, index) for key in ("SQL", "question"))
            texts[text_field(record, "db_id", path, index)] |= {sql, question.lower()}
    return texts


def _generator(seed: int, name: str) -> random.Random:
    return random.Random(f"questions/{seed}/{name}")


def share_out(total: int, parts: Sequence[Any]) -> list[int]:
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
