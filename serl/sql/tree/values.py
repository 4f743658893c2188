"""sqlglot expressions → parts: columns, literals, arithmetic, functions, CASE.

What counts as the same: chains of + and * in any order; IIF and CASE; COUNT(1) and COUNT(*); IFNULL and
COALESCE. Literals are compared by value: 5 and 5.0 and, beside a column (whose affinity converts it), '5'. In
arithmetic and results 100 and 100.0 differ, since integers divide differently.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import replace

from sqlglot import exp

from serl.sql.tree.names import Scope
from serl.sql.tree.parse import NotPlaced
from serl.sql.tree.part import Part, Ref, moved, widen
from serl.sql.tree.places import Places

CONDITIONS = (exp.Connector, exp.Not, exp.Between, exp.In, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is,
              exp.NullSafeEQ, exp.NullSafeNEQ, exp.Like, exp.Glob, exp.Match, exp.RegexpLike)
_CHAINS = {exp.Add: "+", exp.Mul: "*"}
_SYNONYMS = {"IFNULL": "COALESCE", "SUBSTRING": "SUBSTR"}
_TYPES = {"FLOAT": "REAL", "DOUBLE": "REAL", "INT": "INTEGER", "BIGINT": "INTEGER", "VARCHAR": "TEXT", "CHAR": "TEXT"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Values(Places):
    """Reads what has a value."""

    def value(self, node: exp.Expression, scope: Scope, by_value: bool = False) -> Part:
        """Any expression. `by_value`: a literal is compared with a column, so only its value counts."""
        if isinstance(node, exp.Literal):
            return self._literal(node, by_value)
        if isinstance(node, exp.Paren):
            part = self.value(node.this, scope, by_value)
            return self.enclosed(part)
        if isinstance(node, exp.Alias):
            part = self.value(node.this, scope)
            alias = self.text.token_of(node.args["alias"])
            return part if alias is None else widen(part, part.lo, alias + 1)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            part = self._literal(node.this, by_value)
            sign = self.text.expect(part.lo - 1, "-")
            kind, number, *rest = part.label
            return replace(widen(part, sign, part.hi), own=(sign, *part.own), label=(kind, -number, *rest))
        if isinstance(node, exp.Column):
            return self._column(node, scope)
        if isinstance(node, exp.Star):
            return self.leaf("star", ("*", None), self.token(node))
        if isinstance(node, exp.Subquery):
            return self._subquery(node, scope)
        if isinstance(node, CONDITIONS):
            return self.condition(node, scope)
        if type(node) in _CHAINS or isinstance(node, exp.DPipe):
            return self._chain(node, scope)
        if isinstance(node, exp.Cast):
            return self._cast(node, scope)
        if isinstance(node, exp.Case):
            return self._case(node, scope)
        if isinstance(node, exp.Exists):
            inside = self.enclosed(self.query(node.this, scope))
            return self.part("call", "EXISTS", (self.text.expect(inside.lo - 1, "EXISTS"),), [inside])
        if isinstance(node, exp.Collate):
            return self._collate(node, scope)
        if isinstance(node, exp.Binary):
            return self._binary(node, scope)
        if isinstance(node, exp.Func):
            return self._call(node, scope)
        return self._other(node, scope)

    def _literal(self, node: exp.Literal, by_value: bool) -> Part:
        token = self.token(node)
        if node.is_string and not (by_value and _NUMBER.fullmatch(node.this)):
            label: Hashable = ("text", node.this)
        elif by_value:
            label = ("number", float(node.this))
        else:
            label = ("number", float(node.this), node.is_int)
        return self.leaf("literal", label, token)

    def _column(self, node: exp.Column, scope: Scope) -> Part:
        name = node.this
        if not isinstance(name, (exp.Identifier, exp.Star)):
            raise NotPlaced(f"a column named by a {type(name).__name__}")
        token = self.token(name)
        qualifiers = [self.token(node.args[key]) for key in ("catalog", "db", "table") if node.args.get(key)]
        lo = min([token, *qualifiers])
        if isinstance(name, exp.Star):
            found = scope.find(node.table, "*") if node.table else None
            return widen(self.leaf("star", ("*", found.source if found else None), token), lo, token + 1)
        if not qualifiers and self.text.words[token].startswith('"') and scope.is_column(name.this) is False:
            return self.leaf("literal", ("text", name.this), token)  # SQLite's reading of "text"
        if not qualifiers and name.this.lower() in scope.aliases and not scope.is_column(name.this):
            return moved(scope.aliases[name.this.lower()], token)
        found = scope.find(node.table or None, name.this)
        ref = Ref(found.source, found.name, name.this.lower(), tuple(qualifiers), found.aliased or not qualifiers,
                  scope.is_clear(found, name.this))
        return replace(widen(self.leaf("column", None, token), lo, token + 1), ref=ref)

    def _subquery(self, node: exp.Subquery, scope: Scope) -> Part:
        inside = node.this
        part = self._subquery(inside, scope) if isinstance(inside, exp.Subquery) else self.query(inside, scope)
        return self.enclosed(part)

    def _chain(self, node: exp.Expression, scope: Scope) -> Part:
        """a + b + c in any order, a || b in its own."""
        links = self._links(node, type(node), scope)
        own = self.between(links)
        label = _CHAINS.get(type(node), "||")
        return self.part("chain", label, own, links, ordered=label == "||")

    def _links(self, node: exp.Expression, kind: type, scope: Scope) -> list[Part]:
        if type(node) is kind:
            return self._links(node.this, kind, scope) + self._links(node.expression, kind, scope)
        return [self.value(node, scope)]

    def _binary(self, node: exp.Binary, scope: Scope) -> Part:
        left, right = self.value(node.this, scope), self.value(node.expression, scope)
        return self.part("binary", self.joined(own := self.between([left, right])), own, [left, right])

    def _collate(self, node: exp.Collate, scope: Scope) -> Part:
        """A value with its collation, whose name sqlglot gives no place."""
        inside = self.value(node.this, scope)
        word = self.text.expect(inside.hi, "COLLATE")
        if word + 1 >= len(self.text):
            raise NotPlaced("COLLATE nothing")
        return self.part("collate", self.text.upper[word + 1], (word, word + 1), [inside], hi=word + 2)

    def _cast(self, node: exp.Cast, scope: Scope) -> Part:
        inside = self.value(node.this, scope)
        opening = self.text.expect(inside.lo - 1, "(")
        name = self.text.expect(opening - 1, "CAST")
        closing = self.text.closing[opening]
        own = tuple(range(self.text.expect(inside.hi, "AS") + 1, closing))
        label = _TYPES.get(self.text.upper[own[0]], self.joined(own)) if own else ""
        return self.part("cast", label, own, [inside], name, closing + 1, glue={"CAST", "AS"})

    def _case(self, node: exp.Case, scope: Scope) -> Part:
        text = self.text
        parts: list[Part] = []
        if node.this is not None:
            parts.append(self.part("operand", None, (), [self.value(node.this, scope)], weight=0))
        for arm in node.args["ifs"]:
            test = self.value(arm.this, scope)
            result = self.value(arm.args["true"], scope)
            start = text.expect(test.lo - 1, "WHEN")
            text.expect(test.hi, "THEN")
            parts.append(self.part("arm", None, (), [test, result], start, weight=0, glue={"WHEN", "THEN"}))
        start, end = text.expect(parts[0].lo - 1, "CASE"), parts[-1].hi
        default = node.args.get("default")
        if isinstance(default, exp.Null):  # ELSE NULL is what CASE does anyhow
            end += 2
        elif default is not None:
            result = self.value(default, scope)
            word = text.expect(result.lo - 1, "ELSE")
            parts.append(self.part("else", None, (), [result], word, weight=0, glue={"ELSE"}))
            end = result.hi
        end = text.expect(end, "END") + 1
        return self.part("case", None, (), parts, start, end, glue={"CASE", "END", "ELSE", "NULL"})

    def _call(self, node: exp.Func, scope: Scope) -> Part:
        """A function. Arguments stand in the order of the text, whatever sqlglot made of them."""
        name = self.text.token_of(node)
        children = self._inside(node, scope)
        if name is None:
            if not children:
                raise NotPlaced(f"a {type(node).__name__} without a place")
            lo, hi = min(child.lo for child in children), max(child.hi for child in children)
            if not (self.text.is_word(lo - 1, "(") and self.text.closing.get(lo - 1, -1) >= hi and lo >= 2):
                return self._other(node, scope)
            name = lo - 2
        if not self.text.is_word(name + 1, "("):
            return self.leaf("call", self.text.upper[name], name)
        end = self.text.closing[name + 1] + 1
        label = self.text.upper[name]
        if label == "IIF" and len(children) == 3:
            arm = self.part("arm", None, (), children[:2], weight=0)
            otherwise = self.part("else", None, (), children[2:], weight=0)
            return self.part("case", None, (name,), [arm, otherwise], name, end)
        if label == "COUNT" and [child.kind for child in children] == ["literal"]:
            children = [replace(children[0], kind="star", label=("*", None))]
        return self.part("call", _SYNONYMS.get(label, label), (name,), children, name, end)

    def _other(self, node: exp.Expression, scope: Scope) -> Part:
        """Whatever has no rule of its own: its children, and its words as its label."""
        token = self.text.token_of(node)
        children = self._inside(node, scope)
        if not children and token is not None:
            return self.leaf("word", self.text.upper[token], token)
        if not children:
            raise NotPlaced(f"a {type(node).__name__} without a place")
        if isinstance(node, exp.Tuple):
            return self.part("tuple", None, (), children, children[0].lo - 1, children[-1].hi + 1, weight=0)
        if isinstance(node, exp.Window):
            over = self.text.expect(children[0].hi, "OVER")
            end = self.text.closing.get(over + 1, over + 1) + 1
            if end > len(self.text):
                raise NotPlaced("OVER nothing")
            return self.part("window", "OVER", (over,), children, hi=end)
        if isinstance(node, exp.Filter):
            word = self.text.expect(children[0].hi, "FILTER")
            return self.part("filter", "FILTER", (word,), children, hi=self.text.closing[word + 1] + 1)
        if len(children) == 1 and token is None and not isinstance(node, exp.Unary):
            return children[0]  # a wrapper that only sqlglot sees
        sign = (children[0].lo - 1,) if isinstance(node, exp.Unary) else ()
        return self.part("other", type(node).__name__, sign, children, min([*sign, children[0].lo]))

    def _inside(self, node: exp.Expression, scope: Scope) -> list[Part]:
        """The parts of a node's arguments, in the order of the text; what sqlglot made up has no place and no part."""
        parts = []
        for value in node.args.values():
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, exp.Distinct):
                    parts += self._distinct(child, scope)
                elif isinstance(child, (exp.Order, exp.Where)):
                    parts += self._inside(child, scope)
                elif isinstance(child, exp.Ordered):
                    parts.append(self.sort(child, self.value(child.this, scope)))
                elif isinstance(child, exp.Expression) and self.is_placed(child):
                    parts.append(self.value(child, scope))
        return sorted(parts, key=lambda part: part.lo)

    def _distinct(self, node: exp.Distinct, scope: Scope) -> list[Part]:
        children = self._inside(node, scope)
        if not children:
            raise NotPlaced("DISTINCT of nothing")
        return [self.leaf("flag", "DISTINCT", self.text.expect(children[0].lo - 1, "DISTINCT")), *children]

    def sort(self, node: exp.Ordered, value: Part) -> Part:
        """One term of ORDER BY: the value and its direction."""
        direction = value.hi if self.text.is_word(value.hi, "ASC", "DESC") else None
        end = value.hi if direction is None else direction + 1
        label = "DESC" if node.args.get("desc") else None
        own = () if direction is None else (direction,)
        flag = Part("flag", label, own, (), frozenset(own), value.hi, end, weight=1 if label else 0)
        if self.text.is_word(end, "NULLS"):
            end += 2
        return self.part("sort", None, (), [value, flag], value.lo, end, weight=0)
