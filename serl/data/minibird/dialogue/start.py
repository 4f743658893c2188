"""First questions: a topic out of nothing, at the beginning of a dialogue and where it switches."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from serl.data.minibird.dialogue.talk import Talk, is_category, is_measure, is_shown
from serl.data.minibird.dialogue.topic import Ask, Topic
from serl.data.minibird.schema import Table

JOINED = 0.25  # share on two tables
NAMED = 0.2  # share about a row by its name
RANKED = 0.3  # share of lists of one table that are ranked
FILTERS = {0: 0.15, 1: 0.5, 2: 0.35}  # conditions on one table → share
ASKS = {Ask.LIST: 0.6, Ask.COUNT: 0.17, Ask.MEASURE: 0.13, Ask.GROUP: 0.06, Ask.DISTINCT: 0.04}
LIMITS = (None, 2, 3, 5)
_FITS = {Ask.LIST: is_shown, Ask.MEASURE: is_measure, Ask.GROUP: is_category, Ask.DISTINCT: is_category}


def start(talk: Talk, apart_from: Collection[Table]) -> Topic | None:
    """One attempt at a topic whose first table is not one of `apart_from`; None where the draw does not fit."""
    rng = talk.rng
    paths = talk.paths("up" if rng.random() < JOINED else "", lambda path: path.tables[0] not in apart_from)
    if not paths:
        return None
    path = rng.choice(paths)
    nouns = tuple(talk.noun(table.said) for table in path.tables)
    topic = _filtered(talk, Topic(path, nouns, (talk.turn,) * len(nouns), Ask.LIST, talk.turn))
    if topic is None:
        return None
    if not topic.is_one:
        topic = replace(topic, ask=rng.choices(list(ASKS), list(ASKS.values()))[0])
        if topic.ask is Ask.LIST and not path.joins and rng.random() < RANKED:
            rank = talk.rank(topic, rng.choice(LIMITS))
            topic = replace(topic, rank=rank)
    return topic if topic.ask is Ask.COUNT else _showing(talk, topic)


def _filtered(talk: Talk, topic: Topic) -> Topic | None:
    rng = talk.rng
    named = rng.random() < NAMED
    if topic.path.joins:
        wanted = [(1, named), *[(0, False)] * (rng.random() < 0.4)]
    else:
        wanted = [(0, named)] * (1 if named else rng.choices(list(FILTERS), list(FILTERS.values()))[0])
    for place in wanted:
        new = talk.filter(topic, *place)
        if new is None:
            return None
        topic = replace(topic, filters=(*topic.filters, new))
    return topic


def _showing(talk: Talk, topic: Topic) -> Topic | None:
    shown = talk.shown(topic, _FITS[topic.ask])
    if shown is None:
        return None
    function = talk.function(shown.column) if topic.ask is Ask.MEASURE else topic.function
    return replace(topic, shown=(shown,), function=function)
