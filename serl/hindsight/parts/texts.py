"""Does a column hold the text that it is compared with? The usual way in which a condition keeps nothing.

    city.name = 'lima'    ─▶  is 'lima' in city.name?  is something that differs from it in case only?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from serl.hindsight.parts.build import Builder, outermost, span, stands_alone
from serl.hindsight.parts.part import Span

MOST = 3  # comparisons of one condition: of a longer list, its rows tell enough


@dataclass(frozen=True)
class Text:
    """A comparison of a column with a text, and the queries that look it up (see `Part.counts`)."""

    column: str
    text: str
    span: Span | None  # of the literal, with its quotes
    here: str
    other: str


def texts(condition: exp.Expression, build: Builder) -> list[Text]:
    """The first comparisons of a column with a text in a condition, those of sub-queries apart."""
    found = [_text(column, text, build) for column, text in _comparisons(condition)]
    return [each for each in found if each is not None][:MOST]


def _comparisons(condition: exp.Expression) -> Iterator[tuple[exp.Column, exp.Literal]]:
    for node in outermost(condition, exp.EQ, exp.NEQ, exp.In):
        pairs = ([(node.this, value) for value in node.expressions] if isinstance(node, exp.In)
                 else [(node.this, node.expression), (node.expression, node.this)])
        for column, text in pairs:
            if isinstance(column, exp.Column) and isinstance(text, exp.Literal) and text.is_string:
                yield column, text


def _text(column: exp.Column, text: exp.Literal, build: Builder) -> Text | None:
    """None for a column of an outer query."""
    home = [source for source in build.sources if source.alias_or_name.lower() == column.table.lower()]
    if column.table and not home:
        return None
    source = home[0] if home and stands_alone(home[0]) else None  # None: look among the rows of FROM

    def rows(condition: exp.Expression, **options) -> exp.Select:
        return build.rows(source, where=exp.Where(this=condition), **options)

    same = exp.EQ(this=column.copy(), expression=text.copy())
    folded = exp.EQ(this=exp.Lower(this=exp.cast(column.copy(), "text")), expression=exp.Lower(this=text.copy()))
    differs = exp.NEQ(this=column.copy(), expression=text.copy())
    here = build.count(rows(same).limit(1, copy=False))
    other = build.sql(rows(exp.and_(folded, differs, copy=False), columns=[exp.Min(this=column.copy())]))
    return Text(build.sql(column), text.this, span(text), here, other)
