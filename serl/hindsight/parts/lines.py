"""What was found of an action's parts, in lines: short, neutral, in the order of the clauses.

    table city: 50 rows                                      table 1 of 2: 50 rows
    JOIN state ON city.state = state.id: 50 rows, 50 before  join 1 of 1: 50 rows, 50 before
    WHERE state.name = 'peru': 0 of 50 rows; 'peru' is not   condition 1 of 2: 0 of 50 rows; its text is not in the
      in state.name, 'Peru' is                                 column, but in other upper or lower case
    GROUP BY city.name: 0 groups                             group by: 0 groups

On the right, `named` is False (`hindsight.redact: action`): a line that repeats the action's own names would raise
their probability by copying. Cells and SQL cannot forge a line, a tag or a chat token.

Ranks, for a budget that does not hold all: 0 where a part fails or makes nothing of something, or a text is not there;
1 where a join multiplies or loses rows, or a condition keeps them all; 2 for other counts of conditions and groups; 3
for sizes, and for what only follows from a part that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from grounding.safety import neutralize
from serl.agent.observation import clean
from serl.hindsight.parts.part import ONLY_FAIL, Finding, Key, Kind
from serl.hindsight.parts.signs import TELLING, before_of, follows, signs
from serl.hindsight.ranked import Line

_WORDS = {Kind.WITH: "WITH ", Kind.TABLE: "table ", Kind.CONDITION: "WHERE ", Kind.CASE: "WHEN ",
          Kind.COLUMN: "SELECT ", Kind.ORDER: "ORDER BY "}
_SIZES = (Kind.WITH, Kind.TABLE, Kind.JOIN, Kind.QUERY)  # their rows say little by themselves
_NUMBERED = (Kind.WITH, Kind.TABLE, Kind.JOIN, Kind.CONDITION, Kind.CASE, Kind.COLUMN, Kind.ORDER)


def lines_of(findings: Iterable[Finding], named: bool, chars: int) -> tuple[Line, ...]:
    """A line for each finding that says something; `chars` caps a piece of SQL, twice, and a text."""
    by_key = {finding.part.key: finding for finding in findings}
    made = []
    for finding in by_key.values():
        told = _told(finding, by_key, named, chars)
        if told:
            text = f"{_name(finding, named, chars)}: {told}"
            made.append(Line(_rank(finding, by_key), text))
    return tuple(made)


def _name(finding: Finding, named: bool, chars: int) -> str:
    part = finding.part
    if part.kind is Kind.QUERY:
        return part.query
    if named and part.kind is Kind.WHERE:
        name = "all of WHERE"
    elif named:
        name = neutralize(_WORDS.get(part.kind, "") + part.sql, 2 * chars)
    else:
        name = part.kind + (f" {part.number} of {part.of}" if part.kind in _NUMBERED else "")
    return f"{part.query}, {name}" if part.query else name


def _told(finding: Finding, by_key: Mapping[Key, Finding], named: bool, chars: int) -> str:
    """What a line says behind its name; "" for nothing."""
    part, rows, before = finding.part, finding.rows, before_of(finding, by_key)
    if rows is None:
        return "" if follows(finding, by_key) else "fails"
    match part.kind:
        case kind if kind in ONLY_FAIL:
            return ""
        case Kind.JOIN:
            told = _count(rows, "row") + ("" if before is None else f", {before} before")
        case Kind.GROUP:
            told = _count(rows, "group")
        case Kind.HAVING:
            told = _of(rows, before, "group")
        case _:
            told = _of(rows, before, "row")
    return "; ".join([told, *_absent(finding, named, chars)])


def _absent(finding: Finding, named: bool, chars: int) -> Iterable[str]:
    texts = finding.part.texts
    for place, other in finding.absent:
        column, text, _ = texts[place]
        if named:
            column, text = neutralize(column, chars), neutralize(text, chars)
            yield f"'{text}' is not in {column}" + ("" if other is None else f", '{clean(other, chars)}' is")
        else:
            which = "its text" if len(texts) == 1 else f"text {place + 1} of {len(texts)}"
            yield f"{which} is not in the column" + ("" if other is None else ", but in other upper or lower case")


def _rank(finding: Finding, by_key: Mapping[Key, Finding]) -> int:
    found = signs(finding, by_key)
    if TELLING.intersection(found):
        return 0
    if found:
        return 1
    return 3 if not finding.rows or finding.part.kind in _SIZES else 2


def _of(rows: int, before: int | None, noun: str) -> str:
    return _count(rows, noun) if before is None else f"{rows} of {_count(before, noun)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
