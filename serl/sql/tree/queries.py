"""sqlglot queries → parts: SELECT with its clauses, UNION and its kin.

What counts as the same: a condition of an inner join in ON, USING or WHERE; aliases and column numbers in ORDER BY,
GROUP BY and HAVING and what they stand for; ASC and nothing. The order of the SELECT list counts if
`ordered_select`; that of GROUP BY never, that of ORDER BY always.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from serl.sql.tree.conditions import conjuncts
from serl.sql.tree.names import Schema, Scope
from serl.sql.tree.parse import NotPlaced, Text
from serl.sql.tree.part import Group, Part, group, listing, moved
from serl.sql.tree.sources import Joined, Sources, output_names

_MOST_QUERIES = 60  # WITH entries are read again wherever they are used
_MOST_ORDERS = 24  # ways to tell the uses of a repeated table apart that are tried


class Reader(Sources):
    """Reads one statement."""

    def __init__(self, text: Text, schema: Schema | None, ordered_select: bool,
                 orders: Sequence[Sequence[int]] = ()) -> None:
        super().__init__(text, schema, orders)
        self._ordered_select = ordered_select
        self._queries = 0

    def read(self) -> Part:
        """The whole statement. Raises NotPlaced if a word of it is left over."""
        part = self.query(self.text.tree, None)
        if (part.lo, part.hi) != (0, len(self.text)):
            raise NotPlaced(f"words outside of the query {self.text.slice(part.lo, part.hi)!r}")
        return part

    def query(self, node: exp.Expression, scope: Scope | None) -> Part:
        self._queries += 1
        if self._queries > _MOST_QUERIES:
            raise NotPlaced(f"more than {_MOST_QUERIES} queries")
        if isinstance(node, exp.Subquery):
            return self.enclosed(self.query(node.this, scope))
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, scope)
        if isinstance(node, exp.Select):
            return self._select(node, scope)
        raise NotPlaced(f"a query that is a {type(node).__name__}")

    def _set_operation(self, node: exp.SetOperation, outer: Scope | None) -> Part:
        scope = Scope(outer)
        start, definitions = self.definitions(node, scope)
        left, right = self.query(node.this, scope), self.query(node.expression, scope)
        own = self.between([left, right])
        branches = listing("branches", [left, right], left.lo, right.hi, ordered=isinstance(node, exp.Except))
        first = left
        while first.kind == "set":
            first = first.children[0].children[0]
        outputs = first.children[1].children
        scope.aliases = {name: part for name, part in zip(output_names(node), outputs) if name is not None}
        slots, end = self._tail(node, scope, right.hi, outputs)
        start = left.lo if start is None else start
        return self._assemble("set", self.joined(own), own, [branches, *slots], start, end, definitions)

    def _select(self, node: exp.Select, outer: Scope | None) -> Part:
        text = self.text
        scope = Scope(outer)
        start, definitions = self.definitions(node, scope)
        found = self.sources(node, scope)
        outputs = [self.value(each, scope) for each in node.expressions]
        if not outputs:
            raise NotPlaced("a SELECT of nothing")
        first, end = outputs[0].lo, outputs[-1].hi
        own = (first - 1,) if text.is_word(first - 1, "DISTINCT", "ALL") else ()
        select = text.expect(first - len(own) - 1, "SELECT")
        distinct = "DISTINCT" if node.args.get("distinct") else None
        flag = Part("flag", distinct, own, (), frozenset(own), select + 1, first, weight=int(bool(distinct)))
        selected = listing("select", outputs, first, end, self._ordered_select)
        sources, joins = found or (listing("from", (), end, end, ordered=False), [])
        where, end = self._where(node, scope, joins, max(end, sources.hi))
        scope.aliases = {each.alias.lower(): part for each, part in zip(node.expressions, outputs)
                         if isinstance(each, exp.Alias)}
        slots, end = self._tail(node, scope, end, outputs)
        start = select if start is None else start
        return self._assemble("query", None, (), [flag, selected, sources, where, *slots], start, end, definitions)

    def _assemble(self, kind: str, label: str | None, own: Sequence[int], slots: Sequence[Part], lo: int, hi: int,
                  definitions: frozenset[int]) -> Part:
        part = self.part(kind, label, {*own, *definitions}, slots, lo, hi, weight=len(own[:1]), glue={"SELECT"})
        return replace(part, own=tuple(token for token in part.own if token not in definitions))

    def _where(self, node: exp.Select, scope: Scope, joins: Sequence[Joined], end: int) -> tuple[Part, int]:
        """All conditions, of inner joins too, and where the clause ends."""
        conditions: list[Part] = []
        groups: list[Group] = []
        for join in joins:
            groups.append(group("on", join.on, join.conditions, len(conditions)))
            conditions += join.conditions
        places = {"on": end, "where": end}
        tokens = frozenset().union(*(token for each in groups for token in [each.head, *each.separators]))
        clause = node.args.get("where")
        if clause is not None:
            part = self.condition(clause.this, scope)
            word = self.text.expect(part.lo - 1, "WHERE")
            members = conjuncts(part)
            groups.append(group("where", (word,), members, len(conditions)))
            conditions += members
            end = places["where"] = part.hi
            tokens |= frozenset(range(word, part.hi))
        tokens = tokens.union(*(condition.tokens for condition in conditions))
        return Part("where", None, (), tuple(conditions), tokens, places["on"], end, ordered=False, weight=0,
                    groups=tuple(groups), places=places), end

    def _tail(self, node: exp.Expression, scope: Scope, end: int, outputs: Sequence[Part]) -> tuple[list[Part], int]:
        """GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, empty where the query has none, and where the query ends."""
        slots = []
        for kind in ("group", "having", "order"):
            slots.append(self._clause(kind, node.args.get(kind), scope, end, outputs))
            end = slots[-1].hi
        slots += self._limits(node, scope, end)
        return slots, max(end, *(slot.hi for slot in slots))

    def _clause(self, kind: str, clause: exp.Expression | None, scope: Scope, end: int, outputs: Sequence[Part]
                ) -> Part:
        if clause is None:
            return listing(kind, (), end, end, ordered=kind == "order")
        if kind == "having":
            part = self.condition(clause.this, scope)
            members = conjuncts(part)
            start, stop = part.lo, part.hi
        else:
            members = tuple(self._term(each, scope, outputs) for each in clause.expressions)
            if not members:
                raise NotPlaced(f"{kind.upper()} BY nothing")
            start, stop = members[0].lo, members[-1].hi
        word = self.text.expect(start - 1, "GROUP BY", "HAVING", "ORDER BY")
        return listing(kind, members, word, stop, ordered=kind == "order", head=(word,))

    def _term(self, node: exp.Expression, scope: Scope, outputs: Sequence[Part]) -> Part:
        """A term of GROUP BY or ORDER BY. An alias that is all of an ORDER BY term goes before a column of the name."""
        if isinstance(node, exp.Ordered):
            name = node.this.name.lower() if isinstance(node.this, exp.Column) and not node.this.table else None
            if name in scope.aliases:
                value = moved(scope.aliases[name], self.token(node.this.this))
            else:
                value = self._term(node.this, scope, outputs)
            return self.sort(node, value)
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.this) <= len(outputs):
            return moved(outputs[int(node.this) - 1], self.token(node))
        return self.value(node, scope)

    def _limits(self, node: exp.Expression, scope: Scope, end: int) -> list[Part]:
        """LIMIT a OFFSET b, or LIMIT b, a."""
        limit, offset = (None if node.args.get(key) is None else self.value(node.args[key].expression, scope, True)
                         for key in ("limit", "offset"))
        empty = [listing(kind, (), end, end, ordered=True) for kind in ("limit", "offset")]
        if limit is None:
            return empty
        word = self.text.expect(min(limit.lo, limit.lo if offset is None else offset.lo) - 1, "LIMIT")
        first = listing("limit", [limit], word, limit.hi, ordered=True, head=(word,))
        if offset is None:
            return [first, replace(empty[1], lo=limit.hi, hi=limit.hi)]
        before = self.text.expect(max(limit.lo, offset.lo) - 1, "OFFSET", ",")
        return [first, listing("offset", [offset], offset.lo, offset.hi, ordered=True, head=(before,))]


def readings(text: Text, schema: Schema | None, ordered_select: bool) -> Iterator[Part]:
    """The text's tree, once for each way to number the uses of a repeated table. Raises NotPlaced as `read` does."""
    first = Reader(text, schema, ordered_select)
    yield first.read()
    orders = itertools.product(*(itertools.permutations(range(count)) for count in first.repeated))
    for order in itertools.islice(orders, 1, _MOST_ORDERS):
        yield Reader(text, schema, ordered_select, order).read()
