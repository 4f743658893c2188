"""What is wrong in a predicted SQL: the difference of two queries as spans of the predicted text.

    compare("SELECT nme FROM city", "SELECT name FROM city WHERE people > 5")

is `Difference(wrong=((7, 10),), insert_at=(20,), missing=("WHERE people > 5",), ...)`. The two texts are read into
canonical trees (`serl.sql.tree`), which are matched at the least cost (`match.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from serl.hindsight.credit.difference.match import Edit, Matcher
from serl.sql.tree.names import Schema
from serl.sql.tree.parse import NotPlaced, Text, Unparsed, parse
from serl.sql.tree.part import Part
from serl.sql.tree.queries import Reader, readings

__all__ = ["Difference", "Schema", "Span", "Unparsed", "compare"]

Span = tuple[int, int]
"""Characters [start, end)."""

_JOINTS = frozenset({"AND", "OR", ",", "(", ")", "ON", "WHERE"})


@dataclass(frozen=True)
class Difference:
    """What turns the predicted text into one that means what the reference means."""

    wrong: tuple[Span, ...]
    """Tokens of the predicted text that are wrong, neighbours joined, in order."""
    insert_at: tuple[int, ...]
    """Characters of the predicted text at which something is missing: the end of the token before. In order."""
    missing: tuple[str, ...]
    """The reference's text for each of them; "…" is what is there already: `MAX(…)`."""
    cost: float
    """How much there is to change, in parts (a column, a literal, a comparison, a function each are one)."""

    @property
    def equal(self) -> bool:
        """Whether nothing has to change."""
        return not self.wrong and not self.missing


def compare(predicted: str, reference: str, schema: Schema | None = None, ordered_select: bool = True
            ) -> Difference | Unparsed:
    """The difference of two queries in SQLite's dialect.

    `schema` (columns by table) tells which table an unqualified column belongs to and that "text" is no column;
    without it, an unqualified column may belong to any table. `ordered_select`: the order of the SELECT list counts.
    """
    texts = []
    for side, sql in (("predicted", predicted), ("reference", reference)):
        text = parse(sql, side)
        if isinstance(text, Unparsed):
            return text
        texts.append(text)
    side = "reference"
    try:
        goal = Reader(texts[1], schema, ordered_select)
        target = goal.read()
        side = "predicted"
        found = [_match(*texts, part, target, goal.tables) for part in readings(texts[0], schema, ordered_select)]
    except NotPlaced as error:
        return Unparsed(side, str(error))
    except RecursionError:
        return Unparsed(side, "nested too deeply")
    return min(found, key=lambda difference: difference.cost)


def _match(predicted: Text, reference: Text, ours: Part, target: Part, tables: set[str]) -> Difference:
    cost, edits = Matcher(predicted, reference, tables).match(ours, target)
    dropped = [edit.gone for edit in edits if edit.gone is not None]
    certain = frozenset().union(*(edit.wrong for edit in edits if not edit.via))
    needed = _kept(ours, {id(part) for part in dropped})
    wrong = certain.union(*(part.tokens for part in dropped)) - (needed - certain)
    # A part all of whose tokens others need, as NATURAL is one of the words between two tables, is wrong all the same.
    wrong = wrong.union(*(part.own for part in dropped if part.tokens <= needed))
    # An alias is as wrong as what it stands for, and is not blamed again.
    for edit in edits:
        if edit.via and not edit.via & wrong:
            wrong |= edit.wrong
    insertions = list(_insertions(edits, reference))
    return Difference(tuple(_spans(predicted, wrong)), tuple(predicted.gap(at) for at, _ in insertions),
                      tuple(missing for _, missing in insertions), cost)


def _kept(part: Part, dropped: set[int]) -> frozenset[int]:
    """Tokens of all parts that stay, without those of their children that go."""
    if id(part) in dropped:
        return frozenset()
    own = part.tokens.difference(*(child.tokens for child in part.children))
    return own.union(*(_kept(child, dropped) for child in part.children))


def _spans(text: Text, tokens: Iterable[int]) -> Iterable[Span]:
    run: list[int] = []
    for token in sorted(tokens):
        if run and token != run[-1] + 1:
            yield text.span(run[0])[0], text.span(run[-1])[1]
            run = []
        run.append(token)
    if run:
        yield text.span(run[0])[0], text.span(run[-1])[1]


def _insertions(edits: Iterable[Edit], reference: Text) -> Iterable[tuple[int, str]]:
    """(predicted token, reference text): what belongs at the same place is one insertion."""
    pieces = {(edit.at, min(edit.missing), max(edit.missing) + 1, edit.hole) for edit in edits if edit.missing}
    for at, group in itertools.groupby(sorted(pieces, key=lambda piece: piece[:3]), key=lambda piece: piece[0]):
        runs: list[tuple[int, int, Part | None]] = []
        for _, lo, hi, hole in group:
            if runs and hole is None and runs[-1][2] is None and _adjacent(reference, runs[-1][1], lo):
                runs[-1] = (runs[-1][0], max(runs[-1][1], hi), None)
            else:
                runs.append((lo, hi, hole))
        yield at, " … ".join(_around(reference, *run) for run in runs)


def _adjacent(reference: Text, end: int, start: int) -> bool:
    return all(reference.upper[token] in _JOINTS for token in range(end, start))


def _around(reference: Text, lo: int, hi: int, hole: Part | None) -> str:
    """The text of tokens [lo, hi), with "…" for what is there already."""
    if hole is None or hole.lo >= hi or hole.hi <= lo:
        return reference.slice(lo, hi)
    start, end = reference.span(hole.lo)[0], reference.span(hole.hi - 1)[1]
    return f"{reference.sql[reference.span(lo)[0]:start]}…{reference.sql[end:reference.span(hi - 1)[1]]}"
