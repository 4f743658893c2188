"""One query → its parts, in the order of its clauses.

    with i           rows of what it defines
    table i          rows of each source of FROM
    join i           rows of FROM up to and with it: a join that multiplies rows or loses them shows
    condition i      rows of FROM that it alone keeps, and what `texts.py` looks up
    all conditions   rows of FROM that WHERE keeps
    case i           the same as of a condition, of one WHEN in the SELECT list
    column i         of the SELECT list: whether it can be selected from FROM
    group by         groups of the rows that WHERE keeps
    having           groups that it keeps
    order by i       a term: whether rows can be ordered by it
    distinct, limit  rows with and without it

Each part is counted by a query of the action's own clauses: FROM as it stands, then one condition, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from serl.hindsight.parts.build import Builder, conjuncts, outermost, span, stands_alone
from serl.hindsight.parts.part import Key, Kind, Part, Span
from serl.hindsight.parts.texts import texts


class Reader:
    """Reads the parts of one query, whose name among the queries of the action is `query` ("" for the whole)."""

    def __init__(self, tree: exp.Expression, query: str, withs: Sequence[exp.CTE], dialect: str) -> None:
        self.tree, self.query = tree, query
        self.build = Builder(tree, withs, dialect)
        where = tree.args.get("where")
        self.conditions = conjuncts(where.this) if where is not None and self.build.sources else []
        self.cases = [(number, when) for number, column in enumerate(tree.expressions, start=1)
                      for when in _cases(column)]

    def parts(self, subqueries: Sequence[Sequence[Key]]) -> list[Part]:
        """All parts; `subqueries[i]` are the sub-queries of condition i that are parts too."""
        made = [*self._withs()]
        if self.build.sources:
            made += [*self._from(), *self._where(subqueries), *self._whens()]
            if self.tree.args.get("group") is None or self.build.group() is not None:
                made += [*self._columns(), *self._groups(), *self._order()]
        return made + [*self._ends()]

    def whole(self, parts: Sequence[Part]) -> Part:
        """The query as one part, which rests on its own parts."""
        return self._part(Kind.QUERY, 1, 1, self.tree, [self.build.count(self.build.without())],
                          [part.key for part in parts])

    def _withs(self) -> Iterator[Part]:
        clause = self.tree.args.get("with_")
        own = [] if clause is None else clause.expressions
        first = len(self.build.withs) - len(own)
        for place, each in enumerate(own):
            name = each.args["alias"].this
            count = self.build.count(exp.select("1").from_(exp.Table(this=name.copy())))
            yield self._part(Kind.WITH, place + 1, len(own), name, [count], prefix=self.build.prefix(first + place + 1))

    def _from(self) -> Iterator[Part]:
        build, defined = self.build, [part.key for part in self._withs()]
        for number, source in enumerate(build.sources, start=1):
            if stands_alone(source):
                yield self._part(Kind.TABLE, number, len(build.sources), source, [build.count(build.rows(source))],
                                 defined)
        for number, join in enumerate(build.joins, start=1):
            yield self._part(Kind.JOIN, number, len(build.joins), join, [build.count(build.rows(joins=number))],
                             [self._rows(number - 1), self._key(Kind.TABLE, number + 1), *defined])

    def _where(self, subqueries: Sequence[Sequence[Key]]) -> Iterator[Part]:
        count, where = len(self.conditions), self.tree.args.get("where")
        for number, node in enumerate(self.conditions, start=1):
            yield self._condition(Kind.CONDITION, number, count, node, subqueries[number - 1])
        if count > 1:
            yield self._part(Kind.WHERE, 1, 1, where, [self.build.count(self.build.rows(where=where))],
                             [self._rows(), *(self._key(Kind.CONDITION, 1 + place) for place in range(count))])

    def _whens(self) -> Iterator[Part]:
        for number, (_, node) in enumerate(self.cases, start=1):
            yield self._condition(Kind.CASE, number, len(self.cases), node, [])

    def _condition(self, kind: Kind, number: int, of: int, node: exp.Expression, subqueries: Sequence[Key]) -> Part:
        build = self.build
        compared = texts(node, build)
        counts = [build.count(build.rows(where=exp.Where(this=node)))]
        counts += [query for each in compared for query in (each.here, each.other)]
        return self._part(kind, number, of, node, counts, [self._rows(), *subqueries],
                          texts=tuple((each.column, each.text, each.span) for each in compared))

    def _columns(self) -> Iterator[Part]:
        columns, group = self.tree.expressions, self.build.group()
        for number, column in enumerate(columns, start=1):
            rows = self.build.rows(columns=[column], group=group)
            cases = [self._key(Kind.CASE, 1 + place) for place, (at, _) in enumerate(self.cases) if at == number]
            yield self._part(Kind.COLUMN, number, len(columns), column, [self.build.count(rows)],
                             [*self._grouped(), *cases])

    def _groups(self) -> Iterator[Part]:
        build, group = self.build, self.build.group()
        where, having = self.tree.args.get("where"), self.tree.args.get("having")
        if group is None:
            return
        kept = [self._key(Kind.WHERE, 1)] if len(self.conditions) > 1 else [
            self._key(Kind.CONDITION, 1)] if self.conditions else []
        yield self._part(Kind.GROUP, 1, 1, self.tree.args["group"], [build.count(build.rows(where=where, group=group))],
                         [*kept, self._rows()])
        if having is not None:
            yield self._part(Kind.HAVING, 1, 1, having,
                             [build.count(build.rows(where=where, group=group, having=having))],
                             [self._key(Kind.GROUP, 1)])

    def _order(self) -> Iterator[Part]:
        order = self.tree.args.get("order")
        terms = [] if order is None else order.expressions
        for number, term in enumerate(terms, start=1):
            if isinstance(term.this, exp.Literal):
                continue  # the number of a column, which is a part already
            rows = self.build.rows(group=self.build.group(), order=exp.Order(expressions=[term]))
            yield self._part(Kind.ORDER, number, len(terms), term, [self.build.count(rows)], self._grouped())

    def _ends(self) -> Iterator[Part]:
        build, args = self.build, self.tree.args
        if isinstance(self.tree, exp.Select) and args.get("distinct") is not None:
            rows = [build.without("order", "limit", "offset"), build.without("order", "limit", "offset", "distinct")]
            yield self._part(Kind.DISTINCT, 1, 1, args["distinct"], [build.count(each) for each in rows])
        if args.get("limit") is not None:
            # Which rows LIMIT keeps goes by their order, how many does not.
            rows = [build.without("order"), build.without("order", "limit", "offset")]
            yield self._part(Kind.LIMIT, 1, 1, args["limit"], [build.count(each) for each in rows])

    def _grouped(self) -> list[Key]:
        """What columns and order rest on."""
        return [self._rows()] if self.tree.args.get("group") is None else [self._rows(), self._key(Kind.GROUP, 1)]

    def _rows(self, joins: int | None = None) -> Key:
        """The part that has the rows of FROM, or those of its first joins."""
        joins = len(self.build.joins) if joins is None else joins
        return self._key(Kind.JOIN, joins) if joins else self._key(Kind.TABLE, 1)

    def _key(self, kind: Kind, number: int) -> Key:
        return self.query, kind, number

    def _part(self, kind: Kind, number: int, of: int, node: exp.Expression, counts: Sequence[str],
              inside: Sequence[Key] = (), texts: tuple[tuple[str, str, Span | None], ...] = (),
              prefix: str | None = None) -> Part:
        return Part(self.query, kind, number, of, self.build.sql(node), tuple(counts), tuple(inside), texts,
                    self.build.prefix() if prefix is None else prefix, span(node))


def _cases(column: exp.Expression) -> list[exp.Expression]:
    """The conditions of CASE in a column, but for those of CASE x WHEN, which are values, and those of aggregates."""
    found = [each for each in outermost(column, exp.If)
             if not (isinstance(each.parent, exp.Case) and each.parent.this is not None)]
    return [each.this for each in found if each.this.find(exp.AggFunc, exp.Window) is None]
