"""Composes questions over a database: draws a kind, fills its slots, and keeps what has one clear answer."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

from serl.data.minibird.kinds import KINDS, Kind
from serl.data.minibird.slots import Draw, NoDraw
from serl.data.minibird.world import World
from serl.errors import InputError

MOST_ROWS = 100  # a longer answer is of no use to anyone
TRIES = 2000  # attempts at one question before a database counts as exhausted
TOLD = 0.7  # share of the questions of a kind with a formula in which evidence gives it

_RANKED = re.compile(r"SELECT .*? (FROM .*) ORDER BY (.*) (ASC|DESC)(?: LIMIT (\d+))?")


@dataclass(frozen=True)
class Question:
    db_id: str
    question: str
    evidence: str
    sql: str
    difficulty: str
    kind: str


def questions(
    world: World, count: int, rng: random.Random, apart_from: Iterable[str] = (), may_be_fewer: bool = False,
) -> list[Question]:
    """`count` questions, no two with the same SQL or the same words.

    `apart_from` holds SQL, and words in lower case, that no question may have. Where the database cannot give so
    many, raises InputError or, if there `may_be_fewer`, returns those that it gives.
    """
    made: list[Question] = []
    taken = set(apart_from)
    shares = [share for share, _ in KINDS.values()]
    for _ in range(count):
        difficulty = rng.choices(list(KINDS), shares)[0]
        question = _another(world, difficulty, taken, rng)
        if question is None and may_be_fewer:
            break
        if question is None:
            raise InputError(f"minibird: database {world.database.name} gives no further {difficulty} question "
                             f"after {len(made)} questions; ask for fewer")
        taken |= {question.sql, question.question.lower()}
        made.append(question)
    return made


def _another(world: World, difficulty: str, taken: set[str], rng: random.Random) -> Question | None:
    """A question that is not taken; None where no try gives one."""
    kinds = KINDS[difficulty][1]
    weights = [kind.weight for kind in kinds]
    for _ in range(TRIES):
        question = compose(world, rng.choices(kinds, weights)[0], difficulty, rng)
        if question and not {question.sql, question.question.lower()} & taken:
            return question
    return None


def compose(world: World, kind: Kind, difficulty: str, rng: random.Random) -> Question | None:
    """One attempt; None where the kind does not fit the database or the answer would not do."""
    paths = world.paths(kind.path)
    if not paths:
        return None
    draw = Draw(world, rng.choice(paths), "{from}" in kind.sql and bool(kind.path), rng)
    try:
        for declaration in kind.slots.split():
            draw.slot(declaration)
    except NoDraw:
        return None
    sql = kind.sql.format_map(draw.sql)
    if not answerable(world, sql):
        return None
    draw.finish()
    evidence = draw.evidence
    if kind.evidence and rng.random() < TOLD:
        evidence.append(kind.evidence.format_map(draw.sql))
    question = rng.choice(kind.asks).format_map(draw.text)
    told = "; ".join(dict.fromkeys(evidence))
    return Question(world.database.name, question, told, sql, difficulty, kind.name)


def answerable(world: World, sql: str) -> bool:
    """Whether the answer is neither empty nor trivial nor endless, and its order is clear."""
    rows = world.run(sql)
    if not 0 < len(rows) <= MOST_ROWS or all(cell is None for row in rows for cell in row):
        return False
    return rows != [(0,)] and not _has_ties(world, sql)


def _has_ties(world: World, sql: str) -> bool:
    """Whether the answer, or its order, depends on how ORDER BY ranks equal keys or NULLs."""
    ranked = _RANKED.fullmatch(sql)
    if not ranked:
        return False
    source, key, direction, limit = ranked.groups()
    keys = world.run(f"SELECT {key} {source} ORDER BY {key} {direction}")
    kept = int(limit) if limit else len(keys)
    near = keys[:kept + 1]  # the first row that is cut off must not equal the last that is kept
    return len(keys) < kept or len(set(near)) < len(near) or (None,) in keys[:kept]
