"""Follow-ups: how a turn makes its topic out of the one before, and the words for it.

Every move takes a `Talk` and a topic and returns the next topic with what is said, or None where the topic does not
allow it or the database has nothing for it. Whether the result will do is for `compose.py` to check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from serl.data.minibird.conditions import Condition
from serl.data.minibird.dialogue import words
from serl.data.minibird.dialogue.talk import Talk, is_category, is_measure
from serl.data.minibird.dialogue.topic import Ask, Filter, Topic
from serl.data.minibird.dialogue.words import ones, say
from serl.data.minibird.phrases import plural

Step = tuple[Topic, str] | None
Move = Callable[[Talk, Topic], Step]


# refine


def narrow(talk: Talk, topic: Topic) -> Step:
    """One condition more."""
    new = None if topic.is_cut else talk.filter(topic)
    if new is None:
        return None
    return replace(topic, filters=(*topic.filters, new)), say(talk, words.NARROW, topic, ones=ones(new.condition))


def without(talk: Talk, topic: Topic) -> Step:
    """Those that no row of another table refers to."""
    table = topic.path.tables[0]
    paths = talk.paths("down", lambda path: path.tables[0] is table and path.tables[1] not in topic.path.tables)
    if topic.is_cut or topic.rank or not paths or table.key in topic.used(0):
        return None
    child, join = (path := talk.rng.choice(paths)).tables[1], path.joins[0]
    condition = Condition(f" NOT IN (SELECT {join.column.name} FROM {child.name})",
                          f"without any {plural(talk.noun(child.said))}", 0)
    return (replace(topic, filters=(*topic.filters, Filter(table.key, condition, talk.turn))),
            say(talk, words.NARROW, topic, ones=ones(condition)))


def also(talk: Talk, topic: Topic) -> Step:
    """One column more."""
    if topic.ask is not Ask.LIST or len(topic.shown) > 1 or topic.rank or topic.repeats:
        return None
    new = talk.shown(topic)
    if new is None:
        return None
    return replace(topic, shown=(*topic.shown, new)), say(talk, words.ALSO, topic, c=new.text)


# replace


def value(talk: Talk, topic: Topic) -> Step:
    """Another value in the place of one that was asked for."""
    old = [each for each in topic.filters if each.condition.at == 0 and "SELECT" not in each.condition.sql]
    if not old or topic.rank:
        return None
    gone = talk.rng.choice(old)
    new = talk.another(topic, gone)
    if new is None:
        return None
    filters = tuple(new if each is gone else each for each in topic.filters)
    templates = words.REPLACE_NAME if new.condition.proper else words.REPLACE_VALUE
    return (replace(topic, filters=filters),
            say(talk, templates, topic, name=new.condition.text, ones=ones(new.condition)))


def column(talk: Talk, topic: Topic) -> Step:
    """Another column of the same rows, or a list of them where they were only counted."""
    new = talk.shown(topic)
    if new is None or topic.ask not in (Ask.LIST, Ask.COUNT):
        return None
    templates = words.LIST_THEM
    if topic.ask is Ask.LIST:
        templates = words.REPLACE_COLUMN_OF_ONE if topic.is_one else words.REPLACE_COLUMN
    return topic.asking(Ask.LIST, talk.turn, new), say(talk, templates, topic, c=new.text)


def measured(talk: Talk, topic: Topic) -> Step:
    """The same aggregate of another column."""
    new = talk.shown(topic, is_measure)
    if topic.ask is not Ask.MEASURE or new is None or (topic.function[0] == "SUM" and not new.column.summable):
        return None
    return (topic.asking(Ask.MEASURE, talk.turn, new),
            say(talk, words.REPLACE_MEASURE, topic, a=topic.function[1], c=new.text))


# aggregate


def count(talk: Talk, topic: Topic) -> Step:
    if topic.ask is Ask.COUNT or topic.is_grouped or topic.is_cut:
        return None
    return replace(topic.asking(Ask.COUNT, talk.turn), rank=None), say(talk, words.COUNT, topic)


def measure(talk: Talk, topic: Topic) -> Step:
    new = talk.shown(topic, is_measure)
    if topic.ask is Ask.MEASURE or topic.is_grouped or topic.repeats or topic.is_cut or new is None:
        return None
    function = talk.function(new.column)
    return (replace(topic.asking(Ask.MEASURE, talk.turn, new), function=function, rank=None),
            say(talk, words.MEASURE, topic, a=function[1], c=new.text))


def distinct(talk: Talk, topic: Topic) -> Step:
    return _by_category(talk, topic, Ask.DISTINCT, words.DISTINCT)


def group(talk: Talk, topic: Topic) -> Step:
    return None if topic.repeats else _by_category(talk, topic, Ask.GROUP, words.GROUP)


def _by_category(talk: Talk, topic: Topic, ask: Ask, templates: Sequence[str]) -> Step:
    new = talk.shown(topic, is_category)
    if topic.is_grouped or topic.is_cut or new is None:
        return None
    return replace(topic.asking(ask, talk.turn, new), rank=None), say(talk, templates, topic, c=new.text)


# refer


def superlative(talk: Talk, topic: Topic) -> Step:
    """The row of them that has the most or the least of something."""
    if topic.is_grouped or topic.is_cut or topic.rank or topic.repeats:
        return None
    rank = talk.rank(replace(topic, shown=()), limit=1)
    new = rank and talk.shown(replace(topic, shown=(), rank=rank))
    if not new:
        return None
    return (replace(topic.asking(Ask.LIST, talk.turn, new), rank=rank),
            say(talk, words.SUPERLATIVE, topic, one=ones(rank.condition, "one"), c=new.text))


def first(talk: Talk, topic: Topic) -> Step:
    """The first row of those that were shown in order."""
    new = talk.shown(topic)
    if topic.rank is None or topic.rank.limit == 1 or new is None:
        return None
    rank = replace(topic.rank, limit=1, limit_since=talk.turn)
    return replace(topic.asking(Ask.LIST, talk.turn, new), rank=rank), say(talk, words.FIRST, topic, c=new.text)


def children(talk: Talk, topic: Topic) -> Step:
    """The rows of another table that refer to them."""
    return _related(talk, topic, "up", words.CHILDREN)


def parents(talk: Talk, topic: Topic) -> Step:
    """The rows of another table that they refer to."""
    return _related(talk, topic, "down", words.PARENT_OF_ONE if topic.is_one else words.PARENTS)


def _related(talk: Talk, topic: Topic, step: str, templates: Sequence[str]) -> Step:
    """The rows of another table, from which one step leads to the topic's; the conditions move with theirs."""
    paths = talk.paths(step, lambda path: path.tables[1] is topic.path.tables[0])
    if topic.path.joins or topic.is_grouped or topic.rank or not paths:
        return None
    path = talk.rng.choice(paths)
    noun = talk.noun(path.tables[0].said)
    filters = tuple(replace(each, condition=replace(each.condition, at=1)) for each in topic.filters)
    asked = Topic(path, (noun, *topic.nouns), (talk.turn, *topic.tables_since), Ask.LIST, talk.turn, filters=filters)
    new = talk.shown(asked)
    if new is None:
        return None
    return replace(asked, shown=(new,)), say(talk, templates, topic, c=new.text, u=noun, us=plural(noun))


MOVES: dict[str, dict[Move, float]] = {
    "refine": {narrow: 4, without: 0.7, also: 1.3},
    "replace": {value: 2, column: 2, measured: 1},
    "aggregate": {count: 2, measure: 2, distinct: 0.8, group: 1.2},
    "refer": {superlative: 2, first: 2, children: 1.2, parents: 1},
}
"""By kind of turn, the moves and their weights."""
