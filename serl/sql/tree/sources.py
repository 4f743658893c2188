"""sqlglot queries → parts: FROM, its joins and sub-queries, and WITH.

What counts as the same: tables joined in any order, a comma and JOIN; a sub-query in FROM and the same query in
WITH. The conditions of inner joins go to the list of WHERE, whichever way they are written; an outer join marks
its own. NATURAL is a word of its own: what it equates is not worked out. Recursive WITH entries are read as tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from serl.sql.tree.conditions import Conditions, conjuncts
from serl.sql.tree.names import Schema, Scope, Source
from serl.sql.tree.parse import NotPlaced, Text
from serl.sql.tree.part import Group, Part

_JOIN_WORDS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", ",")


@dataclass(frozen=True)
class Joined:
    """What one join demands."""

    conditions: list[Part]
    on: tuple[int, ...]  # token of ON or USING
    end: int  # where the join ends


class Sources(Conditions):
    """Reads FROM and WITH. `orders`: for each name that a FROM reads k > 1 times, a permutation of range(k)."""

    def __init__(self, text: Text, schema: Schema | None, orders: Sequence[Sequence[int]]) -> None:
        super().__init__(text)
        self.repeated: list[int] = []  # the k of each repeated name, in the order they are met
        self.tables: set[str] = set()  # keys of all sources
        self._schema = None if schema is None else {
            name.lower(): tuple(column.lower() for column in columns) for name, columns in schema.items()}
        self._orders = orders

    def definitions(self, node: exp.Expression, scope: Scope) -> tuple[int | None, frozenset[int]]:
        """Where WITH stands and all tokens of its definitions, which are read where they are used."""
        clause = node.args.get("with_")
        if clause is None:
            return None, frozenset()
        for each in clause.expressions:
            scope.ctes[each.alias.lower()] = each
        names = [self.token(each.args["alias"].this) for each in clause.expressions]
        start = names[0] - 1
        if self.text.is_word(start, "RECURSIVE"):
            start -= 1
        opening = names[-1] + 1
        while not (self.text.is_word(opening, "(") and self.text.is_word(opening - 1, "AS", "MATERIALIZED")):
            opening += 1
            if opening >= len(self.text):
                raise NotPlaced("WITH without a query")
        return self.text.expect(start, "WITH"), frozenset(range(start, self.text.closing[opening] + 1))

    def sources(self, node: exp.Select, scope: Scope) -> tuple[Part, list[Joined]] | None:
        """The tables and sub-queries, and what their joins demand; None without FROM."""
        clause = node.args.get("from_")
        if clause is None:
            return None
        entries = [clause.this, *node.args.get("joins", ())]
        nodes = [entry.this if isinstance(entry, exp.Join) else entry for entry in entries]
        nested = [join for each in nodes for join in (each.args.get("joins") or ())]
        if nested or any(isinstance(each, exp.Subquery) and isinstance(each.this, exp.Table) for each in nodes):
            raise NotPlaced("a join inside of a join")
        read = [self._source(each, scope) for each in nodes]
        self._number([source for source, _ in read], scope)
        parts = [part for _, part in read]
        leads = [self._lead(part) for part in parts]
        joins = [self._join(entry, parts[position], leads[position], position, scope)
                 for position, entry in enumerate(entries) if isinstance(entry, exp.Join)]
        word = self.text.expect(parts[0].lo - 1, "FROM")
        separators = tuple(tuple(range(lead, part.lo)) for lead, part in zip(leads, parts))[1:]
        group = Group("from", (word,), tuple(range(len(parts))), separators)
        tokens = frozenset({word}).union(*separators, *(part.tokens for part in parts))
        end = max([parts[0].hi, *(join.end for join in joins)])
        return Part("from", None, (), tuple(parts), tokens, word, end, ordered=False, weight=0, groups=(group,)), joins

    def _lead(self, part: Part) -> int:
        """Where the words begin that join a source to those before it."""
        lead = part.lo
        while self.text.is_word(lead - 1, *_JOIN_WORDS):
            lead -= 1
        return lead

    def _source(self, node: exp.Expression, scope: Scope) -> tuple[Source, Part]:
        """A table or sub-query of FROM, not numbered yet."""
        alias = node.args.get("alias")
        names = [self.token(alias.this)] if alias is not None and alias.this is not None else []
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            own = [self.token(node.args[key]) for key in ("catalog", "db", "this") if node.args.get(key)]
            lo, hi = min(own), max(own + names) + 1
            name = node.name.lower()
            definition = None if node.args.get("db") else scope.cte(name)
            if definition is not None:
                return self._defined(definition, node, own[-1], hi)
            columns = self._schema.get(name) if self._schema is not None else None
            part = self.part("source", ("table", name), own[-1:], (), lo, hi, glue=self._alias_words(names))
            exposed = node.alias.lower() if names else name
            return Source(exposed, name, columns, exposed != name), part
        if isinstance(node, exp.Subquery):
            inside = self.enclosed(self.query(node.this, Scope(scope.parent, ctes=scope.ctes)))
            hi = max([inside.hi, *(name + 1 for name in names)])
            part = self.part("source", "derived", (), [inside], inside.lo, hi, glue=self._alias_words(names), weight=0)
            return Source(node.alias.lower(), "derived", _columns(output_names(node.this)), True, True), part
        raise NotPlaced(f"a source that is a {type(node).__name__}")

    def _defined(self, definition: tuple, node: exp.Table, token: int, hi: int) -> tuple[Source, Part]:
        """A WITH entry where it is used: a sub-query whose text stands elsewhere."""
        entry, home = definition
        visible = {name: other for name, other in home.ctes.items() if other is not entry}
        inside = self.enclosed(self.query(entry.this, Scope(home.parent, ctes=visible)))
        tokens = inside.tokens | frozenset(range(token, hi))
        part = Part("source", "derived", (token,), (inside,), tokens, token, hi, weight=0)
        columns = [column.name for column in entry.args["alias"].args.get("columns") or ()] or output_names(entry.this)
        return Source((node.alias or node.name).lower(), "derived", _columns(columns), True, True), part

    def _alias_words(self, names: Sequence[int]) -> set[str]:
        return {"AS", *(self.text.upper[name] for name in names)}

    def _number(self, sources: Sequence[Source], scope: Scope) -> None:
        """Give repeated tables keys of their own, in the order that the caller wants to try."""
        order: dict[str, list[int]] = {}
        for key, count in Counter(source.key for source in sources).items():
            if count > 1:
                place = len(self.repeated)
                self.repeated.append(count)
                order[key] = list(self._orders[place] if place < len(self._orders) else range(count))
        for source in sources:
            number = order[source.key].pop(0) if source.key in order else 0
            scope.sources.append(replace(source, key=f"{source.key}#{number}") if number else source)
            self.tables.add(source.key)

    def _join(self, node: exp.Join, part: Part, lead: int, position: int, scope: Scope) -> Joined:
        """An outer join wraps each of its conditions: they hold or leave NULLs."""
        conditions: list[Part] = []
        on: tuple[int, ...] = ()
        end = part.hi
        if node.args.get("using"):
            on = (self.text.expect(part.hi, "USING"),)
            conditions = [self._using(column, part.hi, position, scope) for column in node.args["using"]]
            end = self.text.closing[self.text.expect(part.hi + 1, "(")] + 1
        elif self.text.is_word(part.hi, "ON"):
            on = (part.hi,)
            condition = self.condition(node.args["on"], scope)
            conditions = list(conjuncts(condition))
            end = condition.hi
        if node.args.get("method") == "NATURAL":
            conditions.append(replace(self.leaf("natural", "NATURAL", self._word("NATURAL", lead)), lo=end, hi=end))
        conditions = [replace(condition, spot=lead) for condition in conditions]
        side = node.args.get("side")
        if not side:
            return Joined(conditions, on, end)
        word = self._word(side.upper(), lead)
        keys = [source.key for source in scope.sources]
        padded = {"LEFT": keys[position:position + 1], "RIGHT": keys[:position]}.get(side.upper(), keys[:position + 1])
        bare = Part("outer", ("outer", tuple(sorted(padded))), (word,), (), frozenset({word}), end, end, spot=lead)
        wrapped = [replace(bare, children=(each,), tokens=each.tokens | {word}, lo=each.lo, hi=each.hi)
                   for each in conditions]
        return Joined(wrapped or [bare], on, end)

    def _word(self, word: str, start: int) -> int:
        while not self.text.is_word(start, word):
            start = self.text.expect(start, *_JOIN_WORDS) + 1
        return start

    def _using(self, column: exp.Identifier, word: int, position: int, scope: Scope) -> Part:
        """USING (x): an equation whose both sides are the one token."""
        token = self.token(column)
        right = scope.sources[position]
        left = next((source for source in scope.sources[:position]
                     if source.columns is not None and column.name.lower() in source.columns), scope.sources[0])
        sides = []
        for source in (left, right):
            found = scope.find(source.exposed, column.name)
            side = self.value(exp.column(column.copy()), scope)
            sides.append(replace(side, ref=replace(side.ref, source=found.source, name=found.name, soft=True)))
        return Part("compare", "=", (word,), tuple(sides), frozenset({word, token}), token, token + 1)


def output_names(node: exp.Expression) -> list[str | None]:
    """The names of a query's columns, lower case; None for one that has none."""
    while isinstance(node, (exp.SetOperation, exp.Subquery)):
        node = node.this
    return [each.alias_or_name.lower() or None for each in node.expressions]


def _columns(names: Sequence[str | None]) -> tuple[str, ...] | None:
    """Names of a sub-query's columns; None if a star hides them."""
    return None if "*" in names else tuple(name or "" for name in names)
