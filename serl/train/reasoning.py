"""Reasoning written from gold: the thinking in front of a solution, for a cold start that learns to think.

    queries within the query, as parts with names    what is asked for    tables and joins    conditions and the stored
    values that the schema shows    groups    order, limit

Every sentence is read off gold's parsed tree, so that it is true of it; which of several wordings it has, and whether
what is asked for comes first or last, is random. A text of the rules, not of a model: it teaches where thinking goes
and to name what the query will hold, in a few dozen tokens.
"""

from random import Random

import sqlglot
from sqlglot import exp

_ASK = ("Find {}.", "Give {}.", "The answer is {}.", "Asked for is {}.")
_PART = ("Call this {}:", "For {}:", "Let {} be this:")
_FROM = ("It is in {}.", "Take {}.", "The table is {}.")
_JOINED = ("Take {}.", "The tables are {}.", "It needs {}.")
_WHERE = ("Only where {}.", "The condition is {}.", "Keep those with {}.")
_VALUES = ("The schema shows {}.", "Stored as {}.")
_GROUP = ("One for each {}.", "Group by {}.", "A group for each {}.")
_HAVING = ("Keep groups with {}.", "Only groups with {}.")
_ORDER = ("Order by {}.", "Sort by {}.")
_DISTINCT = ("Each one once.", "Only different ones.")
_SETS = {exp.Intersect: "Keep what is in both {} and {}.", exp.Except: "Keep what is in {} but not in {}.",
         exp.Union: "Take what is in {} or in {}."}
_AGGREGATES = {exp.Avg: "the average of {}", exp.Sum: "the total of {}", exp.Min: "the lowest {}",
               exp.Max: "the highest {}", exp.Count: "the number of {}"}


def reasoning(sql: str, schema: str, random: Random) -> str | None:
    """A few sentences that lead to `sql`; `schema` is the prompt's. None where it is no query that can be parsed.

    >>> reasoning("SELECT COUNT(*) FROM book WHERE lang = 'fr'", "book(lang text = 'fr')", Random(2))
    "It is in book. The condition is lang = 'fr'. The schema shows 'fr'. Find the number of rows."
    """
    try:
        tree = sqlglot.parse_one(sql, dialect="sqlite")
    except sqlglot.errors.SqlglotError:
        return None
    return " ".join(_Writer(schema, random).query(tree)) if isinstance(tree, exp.Query) else None


class _Writer:
    """Writes the sentences of one query; counts the parts that it has named."""

    def __init__(self, schema: str, random: Random) -> None:
        self.schema, self.random, self.parts = schema, random, 0

    def query(self, tree: exp.Query, named: str = "{}") -> list[str]:
        """The sentences of the queries in a query, then its own, the first of them as in `named`; takes it apart."""
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, named)
        before = []
        if (ctes := tree.args.get("with_")) is not None:
            tree.set("with_", None)
            for cte in ctes.expressions:
                before += self.part(cte.alias, cte.this)
        if isinstance(tree, exp.SetOperation):
            names = [self.name() for _ in range(2)]
            for name, side in zip(names, (tree.left, tree.right)):
                before += self.part(name, side)
            first, *rest = [_united(tree, names), *self.order(tree)]
        else:
            for inner in _nested(tree):
                name = self.name()
                before += self.part(name, inner.copy())
                inner.replace(_reference(name, inner))
            first, *rest = self.select(tree)
        return [*before, named.format(first), *rest]

    def part(self, name: str, tree: exp.Query) -> list[str]:
        return self.query(tree, self.one(_PART).format(name) + " {}")

    def select(self, tree: exp.Select) -> list[str]:
        asked = [self.one(_ASK).format(_listed([_said(column) for column in tree.expressions]))]
        once = [self.one(_DISTINCT)] if tree.args.get("distinct") else []
        body = [*self.tables(tree), *self.conditions(tree), *self.groups(tree), *once, *self.order(tree)]
        return [*asked, *body] if self.random.random() < 0.5 else [*body, *asked]

    def tables(self, tree: exp.Select) -> list[str]:
        if (start := tree.args.get("from_")) is None:
            return []
        joins = tree.args.get("joins") or []
        return [self.one(_JOINED if joins else _FROM).format(", ".join([_sql(start.this), *map(_joined, joins)]))]

    def conditions(self, tree: exp.Select) -> list[str]:
        if (where := tree.args.get("where")) is None:
            return []
        shown = [text for text in dict.fromkeys(_sql(node) for node in where.find_all(exp.Literal) if node.is_string)
                 if text in self.schema]
        said = [self.one(_VALUES).format(_listed(shown))] if shown else []
        return [self.one(_WHERE).format(_condition(where.this)), *said]

    def groups(self, tree: exp.Select) -> list[str]:
        group, having = tree.args.get("group"), tree.args.get("having")
        out = [self.one(_GROUP).format(_listed(list(map(_sql, group.expressions))))] if group is not None else []
        return out if having is None else [*out, self.one(_HAVING).format(_condition(having.this))]

    def order(self, tree: exp.Query) -> list[str]:
        order, limit, offset = (tree.args.get(name) for name in ("order", "limit", "offset"))
        out = []
        if order is not None:
            keys = [f"{_said(key.this)}, {'high to low' if key.args.get('desc') else 'low to high'}"
                    for key in order.expressions]
            out.append(self.one(_ORDER).format("; then ".join(keys)))
        if limit is not None:
            skipped = f" after {_sql(offset.expression)}" if offset is not None else ""
            out.append(f"Take the first {_sql(limit.expression)}{skipped}.")
        return out

    def name(self) -> str:
        self.parts += 1
        return f"part{self.parts}"

    def one(self, wordings: tuple[str, ...]) -> str:
        return self.random.choice(wordings)


def _nested(tree: exp.Select) -> list[exp.Query]:
    """The outermost queries within a query."""
    found = tree.walk(prune=lambda node: node is not tree and isinstance(node, exp.Query))
    return [node for node in found if node is not tree and isinstance(node, exp.Query)]


def _united(tree: exp.SetOperation, names: list[str]) -> str:
    repeats = " Repeats stay." if tree.args.get("distinct") is False else ""
    return _SETS[type(tree)].format(*names) + repeats


def _reference(name: str, inner: exp.Query) -> exp.Expression:
    """What stands in a query for one of its parts."""
    alias = inner.alias if isinstance(inner, exp.Subquery) else ""
    return exp.to_table(name, alias=alias) if alias else exp.column(name)


def _said(node: exp.Expression) -> str:
    """A column of the answer in words, as far as there are some for it."""
    if isinstance(node, exp.Alias):
        return f"{_said(node.this)} as {node.alias}"
    words = _AGGREGATES.get(type(node))
    if isinstance(node, exp.Star):
        return "all columns"
    if words is None:
        return _sql(node)
    inner = node.this
    if isinstance(inner, exp.Distinct):
        return words.format("different " + _listed(list(map(_sql, inner.expressions))))
    return words.format("rows" if isinstance(inner, exp.Star) else _sql(inner))


def _joined(join: exp.Join) -> str:
    how = " ".join(word.lower() for word in (join.args.get("side"), join.args.get("kind")) if word)
    on, using = join.args.get("on"), join.args.get("using")
    where = f" on {_sql(on)}" if on is not None else f" using {_listed(list(map(_sql, using)))}" if using else ""
    return f"{how + ' ' if how and how != 'inner' else ''}joined with {_sql(join.this)}{where}"


def _condition(node: exp.Expression) -> str:
    """A condition as SQL writes it; sqlglot writes NOT in front of what it negates."""
    if isinstance(node, exp.And):
        return f"{_condition(node.this)} and {_condition(node.expression)}"
    inner = node.this
    if not isinstance(node, exp.Not) or not isinstance(inner, (exp.In, exp.Is, exp.Like, exp.Between)):
        return _sql(node)
    left, whole = _sql(inner.this), _sql(inner)
    rest = whole.removeprefix(left)
    return f"{left} IS NOT{rest.removeprefix(' IS')}" if isinstance(inner, exp.Is) else f"{left} NOT{rest}"


def _listed(texts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _sql(node: exp.Expression) -> str:
    return node.sql(dialect="sqlite", normalize_functions="lower")
