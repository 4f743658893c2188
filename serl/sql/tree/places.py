"""Parts with exact places: what every reader of expressions and queries builds with.

Places are found from the inside out. A leaf knows its token; a node that encloses children whose places are exact
finds its own words right beside or between them: the operator of `a NOT IN (b)` is whatever stands between `a`
and the parenthesis. A token that no rule claims becomes part of the label of the smallest part around it, so
nothing that is written can be lost, only told apart too finely.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from sqlglot import exp

from serl.sql.tree.names import Scope
from serl.sql.tree.parse import NotPlaced, Text
from serl.sql.tree.part import Part, widen

_PUNCTUATION = frozenset("( ) , .".split())


class Places:
    """Builds parts of one `text`. Subclasses read values, conditions and queries."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def value(self, node: exp.Expression, scope: Scope, by_value: bool = False) -> Part:
        raise NotImplementedError

    def condition(self, node: exp.Expression, scope: Scope, negate: bool = False) -> Part:
        raise NotImplementedError

    def query(self, node: exp.Expression, scope: Scope | None) -> Part:
        raise NotImplementedError

    def token(self, node: exp.Expression) -> int:
        token = self.text.token_of(node)
        if token is None:
            raise NotPlaced(f"a {type(node).__name__} without a place")
        return token

    def is_placed(self, node: exp.Expression) -> bool:
        return any(self.text.token_of(each) is not None for each in node.walk())

    def leaf(self, kind: str, label: Hashable, token: int) -> Part:
        return Part(kind, label, (token,), (), frozenset({token}), token, token + 1)

    def enclosed(self, part: Part) -> Part:
        opening = self.text.expect(part.lo - 1, "(")
        if self.text.closing.get(opening) != part.hi:
            raise NotPlaced(f"parentheses around {self.text.slice(part.lo, part.hi)!r}")
        return widen(part, opening, part.hi + 1)

    def between(self, parts: Sequence[Part]) -> tuple[int, ...]:
        return tuple(token for left, right in zip(parts, parts[1:]) for token in range(left.hi, right.lo))

    def joined(self, tokens: Sequence[int]) -> str:
        return " ".join(self.text.upper[token] for token in tokens)

    def part(self, kind: str, label: Hashable, own: Collection[int], children: Sequence[Part], lo: int | None = None,
             hi: int | None = None, ordered: bool = True, weight: int = 1, glue: Collection[str] = ()) -> Part:
        """A part around `children`. Tokens that nothing claims (own, glue, punctuation, children) join its label."""
        lo = min([*own, *(child.lo for child in children)]) if lo is None else lo
        hi = max([*(token + 1 for token in own), *(child.hi for child in children)]) if hi is None else hi
        tokens = frozenset(range(lo, hi)).union(own, *(child.tokens for child in children))
        taken = frozenset(own).union(*(child.tokens for child in children))
        rest = tuple(token for token in sorted(tokens - taken)
                     if self.text.words[token] not in _PUNCTUATION and self.text.upper[token] not in glue)
        if rest:
            label, own = (label, self.joined(rest)), tuple(sorted({*own, *rest}))
        return Part(kind, label, tuple(own), tuple(children), tokens, lo, hi, ordered, weight)
