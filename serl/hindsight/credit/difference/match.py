"""The cheapest way to turn one tree of parts into another: which parts stay, change, go and are missing.

Two parts match at their roots (a different label costs `CHANGED` of its weight), or as wholes (`REPLACED` of both
sizes), or one of them is a wrapper around what the other is (its weight and the rest of its children are paid).
Children are matched in order (an alignment) or as sets (an assignment). Costs are in parts: dropping or adding one
costs its weight, and changing it costs less than dropping it and adding another, so that a wrong part is paired
with the right one wherever there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from serl.hindsight.credit.difference.assign import best_pairs
from serl.hindsight.credit.difference.lists import gathered, lead, place, separators
from serl.sql.tree.conditions import FLIPPED, SYMMETRIC, spread
from serl.sql.tree.parse import Text
from serl.sql.tree.part import Part

CHANGED, REPLACED, QUALIFIER = 1.2, 0.9, 0.4
_WHOLE = frozenset({"flag", "sort", "arm", "else", "operand", "source", "where", "select", "from", "group", "having",
                    "order", "limit", "offset", "branches"})  # never wrappers, nor inside of one
_FIXED = frozenset({"query", "set", "sort", "arm", "binary"})  # every child has its place


@dataclass(frozen=True)
class Edit:
    """One thing to change in the predicted statement."""

    wrong: frozenset[int] = frozenset()  # tokens
    gone: Part | None = None  # a part that does not belong; its tokens are wrong unless others need them
    missing: frozenset[int] = frozenset()  # tokens of the reference that have no counterpart
    at: int = 0  # the predicted token before which they belong
    hole: Part | None = None  # reference part inside of `missing` that is there already
    via: frozenset[int] = frozenset()  # predicted tokens to which `wrong` only refers


Match = tuple[float, tuple[Edit, ...]]


class Matcher:
    """Matches parts of a predicted text with parts of a reference; `tables` are the reference's sources."""

    def __init__(self, predicted: Text, reference: Text, tables: set[str]) -> None:
        self._predicted = predicted
        self._reference = reference
        self._tables = tables
        self._memo: dict[tuple[int, int], Match] = {}
        self._made: list[Part] = []  # parts of our own: the memo's ids must stay theirs

    def match(self, p: Part, g: Part) -> Match:
        """Cost and edits that turn p into g."""
        memo = self._memo.get((id(p), id(g)))
        if memo is None:
            memo = self._memo[id(p), id(g)] = (0.0, ()) if p.key == g.key else min(self._ways(p, g), key=_cost)
        return memo

    def _ways(self, p: Part, g: Part) -> Iterator[Match]:
        if p.kind == g.kind:
            yield self._column(p, g) if p.ref and g.ref else self._roots(p, g)
        if "junction" in (p.kind, g.kind) and "compare" in (p.kind, g.kind):
            yield from self._as_junction(p, g)
        if p.kind in _WHOLE or g.kind in _WHOLE:
            return
        yield REPLACED * (p.size + g.size), (Edit(wrong=p.tokens, via=p.via),)
        for child, rest in _inside(p):
            cost, edits = self.match(child, g)
            yield cost + rest, (*edits, Edit(wrong=(p.tokens - child.tokens) or frozenset(p.own), via=p.via))
        for child, rest in _inside(g):
            cost, edits = self.match(p, child)
            at = p.hi if child.lo == g.lo and g.kind != "outer" else p.lo
            if g.kind == "outer" and p.spot is not None:
                at = p.spot
            yield cost + rest, (*edits, Edit(missing=g.tokens - child.tokens, at=at, hole=child))

    def _as_junction(self, p: Part, g: Part) -> Iterator[Match]:
        """x IN (a, b) is x = a OR x = b."""
        p, g = (spread(part) if part.label == "IN" else part for part in (p, g))
        if p.kind == g.kind:
            self._made += [p, g]
            yield self._roots(p, g)

    def _column(self, p: Part, g: Part) -> Match:
        """Name and table are judged apart. With an alias before the name, or nothing, the table is FROM's to tell."""
        ours, right = p.ref, g.ref
        excused = ours.soft and ours.source is not None and _table(ours.source) not in self._tables
        same = excused or right.source is None or ours.source == right.source
        same = same or (right.bare if not ours.qualifier else ours.source is None)
        if ours.name != right.name and ours.written != right.written:
            wrong = p.own if same or ours.soft else (*p.own, *ours.qualifier)
            return CHANGED + (0 if same else QUALIFIER), (Edit(wrong=frozenset(wrong), via=p.via),)
        if same:
            return 0.0, ()
        if ours.qualifier:
            return 1.0, (Edit(wrong=frozenset(ours.qualifier)),)
        if p.via or not right.qualifier:
            return 1.0, (Edit(wrong=frozenset(p.own), via=p.via),)
        return 1.0, (Edit(missing=frozenset(range(g.lo, g.own[0])), at=p.lo),)

    def _roots(self, p: Part, g: Part) -> Match:
        if p.kind == "compare":
            return min(self._comparisons(p, g), key=_cost)
        cost, edits = (0.0, ()) if p.label == g.label else self._label(p, g)
        more, others = self._children(p, g)
        return cost + more, edits + others

    def _comparisons(self, p: Part, g: Part) -> Iterator[Match]:
        """a < b is also b > a."""
        for label, children in ((g.label, g.children), (FLIPPED.get(g.label), g.children[::-1])):
            swapped = children is not g.children
            if swapped and label is None and not (p.label in SYMMETRIC or g.label in SYMMETRIC):
                return
            label = label or g.label
            parts = [(0.0, ()) if p.label == label else self._label(p, g)]
            parts += [self.match(*pair) for pair in zip(p.children, children)]
            yield sum(cost for cost, _ in parts), tuple(edit for _, edits in parts for edit in edits)

    def _label(self, p: Part, g: Part) -> Match:
        """Two roots that differ: the words of p that g does not have, or the other way round."""
        cost = CHANGED * max(1, p.weight, g.weight)
        if not p.own:
            return cost, (Edit(missing=frozenset(g.own), at=p.hi if p.kind == "flag" else p.lo),) if g.own else ()
        ours = [self._predicted.upper[token] for token in p.own]
        theirs = [self._reference.upper[token] for token in g.own]
        if p.kind == "literal" and self._predicted.words[p.lo:p.hi] == self._reference.words[g.lo:g.hi]:
            return 0.0, ()  # the same text, of which one stands beside a column and counts by its value
        wrong, missing, at = set(), set(), p.own[0]
        for tag, i, j, start, end in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            if tag in ("replace", "delete"):
                wrong.update(p.own[i:j])
            elif tag == "insert":
                missing.update(g.own[start:end])
                at = p.own[i] if i < len(p.own) else p.own[-1] + 1
        if not wrong and not missing:  # the same letters, but not the same text
            wrong = set(p.own)
        if wrong:
            return cost, (Edit(wrong=frozenset(wrong), via=p.via),)
        return cost, (Edit(missing=frozenset(missing), at=at),)

    # Children

    def _children(self, p: Part, g: Part) -> Match:
        if p.kind in _FIXED:
            pairs = [self.match(*pair) for pair in zip(p.children, g.children)]
            return sum(cost for cost, _ in pairs), tuple(edit for _, edits in pairs for edit in edits)
        if p.kind in ("where", "having"):
            p, g = gathered(p, g)
            self._made += [p, g]
        pair = self._align if p.ordered else self._assign
        matched = pair(p.children, g.children)
        cost, edits = 0.0, []
        for i, j in matched:
            more, others = self.match(p.children[i], g.children[j])
            cost += more
            edits += others
        kept, found = dict(matched), {j: i for i, j in matched}
        gone = [i for i in range(len(p.children)) if i not in kept]
        absent = [j for j in range(len(g.children)) if j not in found]
        edits += [Edit(gone=p.children[i]) for i in gone]
        if gone:
            edits.append(Edit(wrong=separators(p, gone)))
        for j in absent:
            edits.append(Edit(missing=g.children[j].tokens | lead(g, j, absent), at=place(p, g, j, found)))
        cost += sum(p.children[i].size for i in gone) + sum(g.children[j].size for j in absent)
        return cost, tuple(edits)

    def _align(self, ps: Sequence[Part], gs: Sequence[Part]) -> list[tuple[int, int]]:
        """Pairs of the cheapest alignment that keeps the order."""
        table = [[0.0] * (len(gs) + 1) for _ in range(len(ps) + 1)]
        for i in range(len(ps), -1, -1):
            for j in range(len(gs), -1, -1):
                if i < len(ps) or j < len(gs):
                    table[i][j] = min(cost for cost, *_ in self._moves(ps, gs, table, i, j))
        pairs, i, j = [], 0, 0
        while i < len(ps) or j < len(gs):
            _, down, right = min(self._moves(ps, gs, table, i, j), key=_cost)
            if down and right:
                pairs.append((i, j))
            i, j = i + down, j + right
        return pairs

    def _moves(self, ps: Sequence[Part], gs: Sequence[Part], table: list[list[float]], i: int, j: int
               ) -> Iterator[tuple[float, int, int]]:
        if i < len(ps) and j < len(gs) and _alike(ps[i], gs[j]):
            yield table[i + 1][j + 1] + self.match(ps[i], gs[j])[0], 1, 1
        if i < len(ps):
            yield table[i + 1][j] + ps[i].size, 1, 0
        if j < len(gs):
            yield table[i][j + 1] + gs[j].size, 0, 1

    def _assign(self, ps: Sequence[Part], gs: Sequence[Part]) -> list[tuple[int, int]]:
        """Pairs of the cheapest assignment. Equal parts are paired first, which is never worse."""
        pairs: list[tuple[int, int]] = []
        left, right = list(range(len(ps))), list(range(len(gs)))
        for i in range(len(ps)):
            j = next((j for j in right if ps[i].key == gs[j].key), None)
            if j is not None:
                pairs.append((i, j))
                left.remove(i)
                right.remove(j)

        def gain(i: int, j: int) -> float:
            """What pairing i and j saves."""
            if not _alike(ps[i], gs[j]):
                return 0.0
            return ps[i].size + gs[j].size - self.match(ps[i], gs[j])[0]

        return pairs + best_pairs(left, right, gain)


def _cost(match: Sequence) -> float:
    return match[0]


def _alike(p: Part, g: Part) -> bool:
    """Whether the two can stand for each other at all."""
    return p.kind == g.kind or (p.kind not in _WHOLE and g.kind not in _WHOLE)


def _inside(part: Part) -> Iterator[tuple[Part, float]]:
    """What `part` may be a wrapper of, and the cost of all the rest of it."""
    if part.kind == "set":
        children = part.children[0].children
    elif part.kind == "query":
        children = part.children[1].children if len(part.children[1].children) == 1 else ()
    else:
        children = part.children
    for child in children:
        if child.kind not in _WHOLE:
            yield child, part.size - child.size


def _table(source: str | None) -> str:
    """The table of a source's key, without the marks of repetition and of outer queries."""
    return (source or "").lstrip("^").partition("#")[0]
