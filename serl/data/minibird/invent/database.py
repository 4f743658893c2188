"""Invents a database: the tables, how they refer to each other, and which columns they have."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from serl.data.minibird import schema
from serl.data.minibird.invent import columns, lexicon
from serl.data.minibird.invent.draft import Draft
from serl.data.minibird.invent.naming import Namer
from serl.data.minibird.invent.vocabulary import Vocabulary
from serl.data.minibird.phrases import plural
from serl.data.minibird.schema import Column, Database, Table

# Weight, and for each table, by position, the tables that it refers to. There is one join path between any two tables,
# and most shapes with three tables or more have the paths "up up", "down up", or both.
SHAPES: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...] = (
    (2, ((), (0,))),
    (2, ((), (0,), (1,))),
    (2, ((), (), (0, 1))),
    (1, ((), (0,), (0,))),
    (3, ((), (), (0, 1), (2,))),
    (3, ((), (0,), (), (1, 2))),
    (2, ((), (), (1,), (0, 2))),
    (1, ((), (0,), (1,), (1,))),
    (1, ((), (0,), (0,), (1,))),
    (1, ((), (), (0, 1), (0,))),
)
# The columns beside keys and label. Each table begins with one of each of the first two groups.
SORTS: tuple[tuple[tuple[int, Callable[[Draft], Column | None]], ...], ...] = (
    ((3, columns.category), (2, columns.code)),
    ((6, columns.measure), (3, columns.count)),
    ((3, columns.category), (2, columns.code), (5, columns.measure), (2, columns.count), (1, columns.mark),
     (4, columns.date), (3, columns.flag)),
)
LEAST_COLUMNS, MOST_COLUMNS = 4, 7
COMPOUND = 0.15  # share of tables with a noun of two words
PLAIN_KEYS = ("id", "key", "nr")
TABLE_PREFIXES = ("t_", "tbl_", "tb_")


def invent(number: int, seed: int) -> Database:
    """Invented database number `number`, always the same for a seed."""
    rng = random.Random(f"invent/{seed}/{number}")
    vocabulary, namer = Vocabulary(rng), Namer(rng)
    shape = rng.choices([shape for _, shape in SHAPES], [weight for weight, _ in SHAPES])[0]
    prefix = rng.choice(TABLE_PREFIXES) if rng.random() < 0.08 else ""
    plurals = rng.random() < 0.2
    names: set[str] = set()
    tables: list[Table] = []
    for parents in shape:
        person = rng.random() < 0.3
        said = _nouns(person, vocabulary)
        name = namer.name(plural(said[0]) if plurals else said[0], names, prefix, documented=False)
        referring = any(len(tables) in later for later in shape)
        rows = rng.randint(40, 70) if not parents else rng.randint(80, 160) if referring else rng.randint(150, 260)
        draft = Draft(said[0], person, rows, vocabulary, namer, _column_prefix(said[0], namer))
        key = _key(draft, said)
        tables.append(Table(name.text, said, rows, (key, *_columns(draft, [tables[at] for at in parents]))))
    return Database(f"invented_{number:04d}", tuple(tables))


def _nouns(person: bool, vocabulary: Vocabulary) -> tuple[str, ...]:
    """What a row is called, and perhaps a second word for it."""
    rng = vocabulary.rng
    if rng.random() < 0.04 and vocabulary.take(noun := rng.choice(lexicon.RESERVED_THINGS)):
        return (noun,)
    first, _, second = vocabulary.word(lexicon.PEOPLE if person else lexicon.THINGS).partition("/")
    if rng.random() < COMPOUND:
        whole = f"{vocabulary.word(lexicon.MODIFIERS)} {first}"
        return (whole, first) if rng.random() < 0.5 else (whole,)
    return (first, second) if second and rng.random() < 0.25 else (first,)


def _columns(draft: Draft, parents: list[Table]) -> tuple[Column, ...]:
    """All but the key, in any order."""
    rng = draft.rng
    others = [_ref(draft, parent) for parent in parents]
    if not parents or rng.random() < 0.6:
        others.append(columns.label(draft))
    wanted = rng.randint(max(LEAST_COLUMNS, len(others) + 2), MOST_COLUMNS)
    sorts = list(SORTS)
    while 1 + len(others) < wanted:
        weights, make = zip(*sorts[0])
        column = rng.choices(make, weights)[0](draft)
        if column is not None:
            others.append(column)
            sorts = sorts[1:] or sorts
    rng.shuffle(others)
    return tuple(others)


def _column_prefix(noun: str, namer: Namer) -> str:
    """Now and then the beginning of the table's noun: `cust_name`."""
    if namer.spaced or namer.rng.random() >= 0.1:
        return ""
    return noun[:namer.rng.choice((1, 3, 4))].strip() + "_"


def _key(draft: Draft, said: tuple[str, ...]) -> Column:
    """Its description tells what questions call the rows, which the table's name may not show."""
    noun = draft.noun
    own = (f"{noun} id",) * 4 + (f"{noun} no", f"{noun} key", f"pk {noun}")
    spelled = draft.rng.choice(("id",) * 3 + PLAIN_KEYS + own)
    name = draft.namer.name(spelled, draft.names, readable=True)
    return replace(schema.key(name.text), description=" or ".join(said))


def _ref(draft: Draft, parent: Table) -> Column:
    """Named as the key it refers to, if that names its table, or in a way of its own."""
    rng, noun, key = draft.rng, parent.said[0], parent.key.name
    same = key.lower() not in PLAIN_KEYS and key.lower() not in draft.names and rng.random() < 0.6
    if same:
        draft.names.add(key.lower())
    else:
        spelled = rng.choice((f"{noun} id",) * 4 + (noun, f"{noun} ref", f"fk {noun}", f"{noun} no"))
        key = draft.namer.name(spelled, draft.names, draft.prefix, readable=True).text
    return replace(schema.ref(key, parent.name, rng.choice(lexicon.LINKS)), description=f"the {noun} it belongs to")
