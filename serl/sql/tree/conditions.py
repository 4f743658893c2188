"""sqlglot expressions → parts: what is true or false.

What counts as the same: `a = b` and `b = a`, `a > b` and `b < a`; AND and OR in any order; NOT pushed inwards;
`x BETWEEN a AND b` and `x >= a AND x <= b`; `x IN (a)` and `x = a` (whoever compares trees adds `x = a OR x = b` and
`x IN (b, a)`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from serl.sql.tree.names import Scope
from serl.sql.tree.parse import NotPlaced
from serl.sql.tree.part import Part, listing, widen
from serl.sql.tree.values import Values

NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
NEGATED |= {word: f"NOT {word}" for word in ("IN", "LIKE", "GLOB", "IS", "MATCH", "REGEXP")}
NEGATED |= {negated: word for word, negated in NEGATED.items()}
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}  # a < b is b > a
SYMMETRIC = ("=", "<>", "IS", "NOT IS")

_COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.Is: "IS",
                exp.NullSafeEQ: "IS", exp.NullSafeNEQ: "NOT IS", exp.Like: "LIKE", exp.Glob: "GLOB",
                exp.Match: "MATCH", exp.RegexpLike: "REGEXP"}


class Conditions(Values):
    """Reads what is true or false."""

    def condition(self, node: exp.Expression, scope: Scope, negate: bool = False) -> Part:
        """A condition or, where `negate`, its opposite."""
        if isinstance(node, exp.Paren):
            return self.enclosed(self.condition(node.this, scope, negate))
        if isinstance(node, (exp.And, exp.Or)):
            parts = [self.condition(side, scope, negate) for side in (node.this, node.expression)]
            return self._junction("and" if isinstance(node, exp.And) != negate else "or", parts)
        if isinstance(node, exp.Not):
            return self._not(node, scope, negate)
        if isinstance(node, exp.Between):
            return self._between_bounds(node, scope, negate != bool(node.args.get("negate")))
        if isinstance(node, exp.In):
            return self._in(node, scope, negate)
        if isinstance(node, tuple(_COMPARISONS)):
            return self._comparison(node, scope, negate)
        part = self.value(node, scope)
        return replace(part, kind="not", label="NOT", own=(), children=(part,)) if negate else part

    def _not(self, node: exp.Not, scope: Scope, negate: bool) -> Part:
        part = self.condition(node.this, scope, not negate)
        words = (part.tokens - _deep(part)).union(part.own)  # NOTNULL says its operand too
        if isinstance(node.this, (exp.In, exp.Between, *_COMPARISONS)) and any(
                self.text.is_word(token, "NOT", "NOTNULL") for token in words):
            return part
        word = self.text.expect(part.lo - 1, "NOT")
        return replace(widen(part, word, part.hi), own=(word, *part.own))

    def _junction(self, kind: str, parts: Sequence[Part]) -> Part:
        flat = [leaf for part in parts for leaf in (part.children if is_junction(part, kind) else [part])]
        own = tuple(token for token in range(parts[0].hi, parts[-1].lo) if self.text.is_word(token, "AND", "OR"))
        own += tuple(token for part in parts if is_junction(part, kind) for token in part.own)
        lo, hi = min(part.lo for part in parts), max(part.hi for part in parts)
        tokens = frozenset(range(lo, hi)).union(*(part.tokens for part in parts))
        stray = tokens.difference(own, *(part.tokens for part in parts))
        if not all(self.text.is_word(token, "(", ")", "NOT") for token in stray):
            raise NotPlaced(f"words in {self.text.slice(lo, hi)!r}")
        members = sorted(flat, key=lambda part: part.lo)
        return Part("junction", kind, own, tuple(members), tokens, lo, hi, ordered=False)

    def _comparison(self, node: exp.Expression, scope: Scope, negate: bool) -> Part:
        label = _COMPARISONS[type(node)]
        left = self.value(node.this, scope, isinstance(node.expression, exp.Column))
        if isinstance(node, exp.Is) and not self.is_placed(node.expression):
            end = left.hi
            while not self.text.is_word(end, "NULL", "ISNULL", "NOTNULL", "TRUE", "FALSE"):
                end = self.text.expect(end, "IS", "NOT") + 1
            word = self.text.upper[end]
            truth = word if word in ("TRUE", "FALSE") else "NULL"
            right = replace(self.leaf("word", truth, end), weight=0)
            own = tuple(range(left.hi, end + ("NULL" in word and word != "NULL")))
        else:
            right = self.value(node.expression, scope, isinstance(node.this, exp.Column))
            own = self.between([left, right])
        if self.joined(own).startswith("NOT IS"):
            raise NotPlaced("NOT before IS")
        if negate != bool(node.args.get("negate")):
            label = NEGATED[label]
        return self.part("compare", label, own, [left, right])

    def _in(self, node: exp.In, scope: Scope, negate: bool) -> Part:
        text = self.text
        left = self.value(node.this, scope)
        is_column = isinstance(node.this, exp.Column)
        if node.args.get("query"):
            right = self.value(node.args["query"], scope)
            start = right.lo
        elif isinstance(node.args.get("field"), exp.Column):
            right = self.leaf("word", text.upper[token := self.token(node.args["field"].this)], token)
            start = right.lo
        else:
            if node.args.get("field"):
                raise NotPlaced("IN without a list")
            values = [self.value(value, scope, is_column) for value in node.expressions]
            start = left.hi
            while text.is_word(start, "NOT", "IN"):
                start += 1
            text.expect(start, "(")
            right = listing("values", values, start + 1, text.closing[start], ordered=False)
        own = tuple(range(left.hi, start))
        end = text.closing[start] + 1 if text.is_word(start, "(") else right.hi
        label = "NOT IN" if negate else "IN"
        if right.kind == "values" and len(right.children) == 1:
            label, right = ("<>" if negate else "="), right.children[0]
        return self.part("compare", label, own, [left, right], hi=end)

    def _between_bounds(self, node: exp.Between, scope: Scope, negate: bool) -> Part:
        """Two comparisons, which share the column's tokens."""
        is_column = isinstance(node.this, exp.Column)
        left = self.value(node.this, scope)
        low, high = (self.value(node.args[key], scope, is_column) for key in ("low", "high"))
        word, conjunction = tuple(range(left.hi, low.lo)), range(low.hi, high.lo)
        labels = ("<", ">") if negate else (">=", "<=")
        halves = []
        for label, bound, extra in ((labels[0], low, ()), (labels[1], high, conjunction)):
            tokens = left.tokens.union(word, extra, bound.tokens)
            halves.append(Part("compare", label, word, (left, bound), tokens, left.lo, high.hi))
        kind = "or" if negate else "and"
        tokens = halves[0].tokens | halves[1].tokens
        return Part("junction", kind, (), tuple(halves), tokens, left.lo, high.hi, ordered=False)


def is_junction(part: Part, label: str) -> bool:
    return part.kind == "junction" and part.label == label


def conjuncts(part: Part) -> tuple[Part, ...]:
    """The conditions that must all hold for `part` to hold."""
    return part.children if is_junction(part, "and") else (part,)


def spread(part: Part) -> Part:
    """x IN (a, b) as x = a OR x = b, x NOT IN (a, b) as x <> a AND x <> b, of the same tokens; others as they are."""
    if part.kind != "compare" or part.label not in ("IN", "NOT IN") or part.children[1].kind != "values":
        return part
    kind, label = ("or", "=") if part.label == "IN" else ("and", "<>")
    column, values = part.children
    cases = tuple(Part("compare", label, part.own, (column, value), column.tokens.union(part.own, value.tokens),
                       part.lo, part.hi) for value in values.children)
    return Part("junction", kind, (), cases, part.tokens, part.lo, part.hi, ordered=False)


def _deep(part: Part) -> frozenset[int]:
    """Tokens of operands, however deep: what stands between them is the operator."""
    if part.kind == "junction":
        return frozenset().union(*(_deep(child) for child in part.children))
    return frozenset().union(*(child.tokens for child in part.children))
