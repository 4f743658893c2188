"""Conditions on one column: the SQL, the words of the question, and the evidence that explains them.

Every function takes a `Place` (the column, its name in the SQL, its cells, its table's place in the path)
and a random generator, and returns a `Condition` on a value that the column holds, or near one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from serl.data.minibird.schema import Column, Role
from serl.data.minibird.values import Cell

# How often evidence explains what the description file, or a look at the values, explains as well.
TELL_CODE, TELL_FLAG, TELL_CASE, TELL_YEAR, TELL_ORDER = 0.75, 0.85, 0.6, 0.8, 0.8
LOWERED = 0.1  # share of spoken values that the question writes in lower case

COMPARISONS = {
    ">": ("with {a} {n} over {v}", "with {a} {n} above {v}", "whose {n} is greater than {v}",
          "whose {n} is more than {v}"),
    "<": ("with {a} {n} under {v}", "with {a} {n} below {v}", "whose {n} is less than {v}",
          "whose {n} is lower than {v}"),
    ">=": ("with {a} {n} of at least {v}", "whose {n} is at least {v}"),
    "<=": ("with {a} {n} of at most {v}", "whose {n} is at most {v}"),
}
COUNTS = {">": "with more than {v} {n}", "<": "with fewer than {v} {n}", ">=": "with at least {v} {n}",
          "<=": "with at most {v} {n}"}


@dataclass(frozen=True)
class Condition:
    """A part of WHERE, or of ORDER BY where `superlative`."""

    sql: str
    text: str
    at: int  # which table of the path
    evidence: str = ""
    adjective: bool = False  # stands before the noun
    proper: bool = False  # a row's own name: "the patient Ben Hill"
    superlative: bool = False


@dataclass(frozen=True)
class Place:
    column: Column
    name: str  # as the SQL names it
    cells: Sequence[Cell]  # not NULL, one for each row
    at: int


def literal(value: Cell) -> str:
    """The value as an SQL literal.

    >>> literal("O'Brien"), literal(3.5)
    ("'O''Brien'", '3.5')
    """
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def any_filter(place: Place, rng: random.Random) -> Condition:
    """A condition of whatever sort suits the column."""
    column = place.column
    if column.null and rng.random() < 0.15:
        return missing(place, rng)
    if column.role is Role.LABEL:
        return own_name(place, rng)
    if column.role is Role.FLAG:
        return flag(place, rng)
    if column.role is Role.CATEGORY:
        return rng.choices((equal, unequal, either), (10, 1, 1))[0](place, rng)
    if column.role is Role.DATE:
        return rng.choices((in_year, since_day, between_years), (5, 3, 1))[0](place, rng)
    if column.notion and rng.random() < 0.35:
        return notion(place)
    return rng.choices((compare, between), (6, 1))[0](place, rng)


def own_name(place: Place, rng: random.Random) -> Condition:
    """One row, by its label."""
    value = rng.choice(place.cells)
    return Condition(f"{place.name} = {literal(value)}", value, place.at, proper=True)


def equal(place: Place, rng: random.Random) -> Condition:
    """A category's value, as the question says it."""
    manner, adjective = _manner(place.column, rng)
    return _equals(place, rng.choice(place.cells), manner, adjective, rng.random(), rng)


def pair(place: Place, rng: random.Random) -> tuple[Condition, Condition] | None:
    """Two values of one category said in the same manner; None where there is only one."""
    values = sorted(set(place.cells))
    if len(values) < 2:
        return None
    manner, adjective = _manner(place.column, rng)
    explained = rng.random()
    first, second = rng.sample(values, 2)
    return (_equals(place, first, manner, adjective, explained, rng),
            _equals(place, second, manner, adjective, explained, rng))


def unequal(place: Place, rng: random.Random) -> Condition:
    value = rng.choice(place.cells)
    said = _spoken(place.column, value, rng)
    template = rng.choice(("whose {n} is not {v}", "whose {n} is other than {v}"))
    text = template.format(n=rng.choice(place.column.said), v=said)
    evidence = _explain(place, value, said, rng.random())
    return Condition(f"{place.name} <> {literal(value)}", text, place.at, evidence)


def either(place: Place, rng: random.Random) -> Condition:
    values = sorted(set(place.cells))
    if len(values) < 3:
        return equal(place, rng)
    first, second = rng.sample(values, 2)
    said = [_spoken(place.column, value, rng) for value in (first, second)]
    manner, _ = _manner(place.column, rng, adjective=False)
    explained = rng.random()
    told = [_explain(place, first, said[0], explained), _explain(place, second, said[1], explained)]
    return Condition(f"{place.name} IN ({literal(first)}, {literal(second)})",
                     manner.format(v=" or ".join(said)), place.at, "; ".join(filter(None, told)))


def flag(place: Place, rng: random.Random) -> Condition:
    value = rng.choice((1, 0))
    column = place.column
    said = column.yes if value else column.no
    sql = f"{place.name} = {value}"
    evidence = f"{said} refers to {_bare(place.name)} = {value}" if rng.random() < TELL_FLAG else ""
    return Condition(sql, said, place.at, evidence, adjective=column.adjective)


def notion(place: Place) -> Condition:
    """A word that nothing but its evidence explains."""
    word = place.column.notion
    test = f"{word.operator} {word.threshold}"
    return Condition(f"{place.name} {test}", word.word, place.at,
                     f"{word.word} refers to {_bare(place.name)} {test}", adjective=True)


def compare(place: Place, rng: random.Random) -> Condition:
    column = place.column
    operator = rng.choices((">", "<", ">=", "<="), (5, 5, 1, 1))[0]
    value = _threshold(place, rng, 0.25 if operator.startswith("<") else 0.4)
    ready = {">": column.more, "<": column.less}.get(operator)
    if ready and rng.random() < 0.6:
        text = ready.format(v=_measured(column, value, rng))
    elif column.counted:
        text = COUNTS[operator].format(v=value, n=column.counted)
    else:
        noun = rng.choice(column.said)
        template = rng.choice(COMPARISONS[operator])
        text = template.format(a=article(noun), n=noun, v=_measured(column, value, rng))
    return Condition(f"{place.name} {operator} {value}", text, place.at)


def between(place: Place, rng: random.Random) -> Condition:
    column = place.column
    low, high = sorted((_threshold(place, rng, 0.1, 0.45), _threshold(place, rng, 0.5, 0.95)))
    if low == high:
        return compare(place, rng)
    noun = rng.choice(column.said)
    if column.counted:
        text = f"with between {low} and {high} {column.counted}"
    else:
        template = rng.choice(("with {a} {n} between {low} and {high}",
                               "whose {n} is between {low} and {high}"))
        text = template.format(a=article(noun), n=noun, low=low, high=high)
    return Condition(f"{place.name} BETWEEN {low} AND {high}", text, place.at)


def in_year(place: Place, rng: random.Random) -> Condition:
    year = rng.choice(place.cells)[:4]
    template = rng.choice(("{verb} in {y}", "{verb} in {y}", "{verb} in the year {y}", "whose {n} is in {y}"))
    text = template.format(verb=place.column.verb, y=year, n=rng.choice(place.column.said))
    sql = f"strftime('%Y', {place.name}) = '{year}'"
    evidence = f"in {year} refers to strftime('%Y', {_bare(place.name)}) = '{year}'"
    return Condition(sql, text, place.at, evidence if rng.random() < TELL_YEAR else "")


def since_day(place: Place, rng: random.Random) -> Condition:
    """After or before a day, or a whole year."""
    cells = sorted(place.cells)
    day = cells[rng.randrange(len(cells) // 6, len(cells) * 5 // 6)]
    word, operator = rng.choice((("after", ">"), ("before", "<")))
    text = f"{place.column.verb} {word} "
    if rng.random() < 0.5:
        return Condition(f"{place.name} {operator} '{day}'", text + day, place.at)
    return Condition(f"strftime('%Y', {place.name}) {operator} '{day[:4]}'", text + day[:4], place.at)


def between_years(place: Place, rng: random.Random) -> Condition:
    first, last = sorted(cell[:4] for cell in rng.sample(place.cells, 2))
    if first == last:
        return in_year(place, rng)
    return Condition(f"strftime('%Y', {place.name}) BETWEEN '{first}' AND '{last}'",
                     f"{place.column.verb} between {first} and {last}", place.at)


def missing(place: Place, rng: random.Random) -> Condition:
    noun = rng.choice(place.column.said)
    if rng.random() < 0.25:
        return Condition(f"{place.name} IS NOT NULL", f"with a known {noun}", place.at)
    template = rng.choice(("whose {n} is unknown", "whose {n} is missing", "with no recorded {n}"))
    return Condition(f"{place.name} IS NULL", template.format(n=noun), place.at)


def like(place: Place, rng: random.Random) -> Condition:
    """A part of the label: its first letter or one of its words."""
    words = [word for word in rng.choice(place.cells).split() if word.isalpha() and len(word) > 2]
    noun = rng.choice(place.column.said)
    if words and rng.random() < 0.6:
        word = rng.choice(words)
        template = rng.choice(("whose {n} contains '{w}'", "whose {n} includes '{w}'",
                               "with '{w}' in the {n}"))
        return Condition(f"{place.name} LIKE '%{word}%'", template.format(n=noun, w=word), place.at)
    letter = rng.choice(place.cells)[0]
    template = rng.choice(("whose {n} starts with '{w}'", "whose {n} begins with '{w}'"))
    return Condition(f"{place.name} LIKE '{letter}%'", template.format(n=noun, w=letter), place.at)


def order(place: Place, rng: random.Random) -> Condition:
    """A superlative: "the heaviest", "with the lowest price"."""
    column = place.column
    down = rng.random() < 0.6
    ready = column.most if down else column.least
    noun = rng.choice(column.said)
    adjective = bool(ready) and rng.random() < 0.6
    if adjective:
        text = ready
    elif column.counted:
        text = f"with the {'most' if down else 'fewest'} {column.counted}"
    elif column.role is Role.DATE:
        text = f"with the {'latest' if down else 'earliest'} {noun}"
    else:
        text = f"with the {rng.choice(('highest', 'largest') if down else ('lowest', 'smallest'))} {noun}"
    evidence = ""
    if adjective and rng.random() < TELL_ORDER:
        evidence = f"{text} refers to {'MAX' if down else 'MIN'}({_bare(place.name)})"
    return Condition(f"{place.name} {'DESC' if down else 'ASC'}", text, place.at, evidence, adjective,
                     superlative=True)


def article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _equals(
    place: Place, value: str, manner: str, adjective: bool, explained: float, rng: random.Random,
) -> Condition:
    said = _spoken(place.column, value, rng)
    evidence = _explain(place, value, said, explained)
    return Condition(f"{place.name} = {literal(value)}", manner.format(v=said), place.at, evidence, adjective)


def _manner(column: Column, rng: random.Random, adjective: bool = True) -> tuple[str, bool]:
    """A template for `column is {v}`, and whether it stands before the noun."""
    if adjective and column.adjective and rng.random() < 0.75:
        return "{v}", True
    if column.phrases and rng.random() < 0.6:
        return rng.choice(column.phrases), False
    template = rng.choice(("whose {n} is {v}", "whose {n} is {v}", "with {n} {v}"))
    return template.replace("{n}", rng.choice(column.said)), False


def _spoken(column: Column, cell: str, rng: random.Random) -> str:
    said = column.spoken[column.cells.index(cell)]
    return said.lower() if rng.random() < LOWERED else said


def _explain(place: Place, cell: str, said: str, explained: float) -> str:
    """Evidence for a value whose cell the words do not give; `explained` is a draw from 0 to 1."""
    column = place.column
    share = 0.0 if cell == said else TELL_CASE
    if column.coded:
        share = TELL_CODE if column.documented else 1.0
    return f"{said} refers to {_bare(place.name)} = {literal(cell)}" if explained < share else ""


def _bare(name: str) -> str:
    """The column's name without its table."""
    return name.rpartition(".")[2]


def _threshold(place: Place, rng: random.Random, low: float, high: float | None = None) -> float:
    """A roundish number within the column's quantiles low..high (`high` is low + 0.4 by default)."""
    cells = sorted(place.cells)
    share = rng.uniform(low, high if high is not None else low + 0.4)
    value = cells[int(share * (len(cells) - 1))]
    spread = cells[-1] - cells[0]
    if spread > 40 and place.column.averaged:
        step = 10 ** (len(str(int(spread))) - 2)
        return max(step, round(value / step) * step)
    return round(value) if place.column.digits == 2 else value


def _measured(column: Column, value: float, rng: random.Random) -> str:
    return f"{value} {column.unit}" if column.unit and rng.random() < 0.5 else str(value)
