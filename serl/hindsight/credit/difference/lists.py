"""Lists of parts: the words between and before them, and where a missing one belongs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from serl.sql.tree.part import Part


def separators(part: Part, gone: Sequence[int]) -> frozenset[int]:
    """Words that go with the children that go: the comma or AND before each, or after those that stood first."""
    wrong: set[int] = set()
    for group in part.groups:
        left = [member not in gone for member in group.members]
        if not any(left):
            wrong.update(group.head if group.members else (), *group.separators)
            continue
        first = left.index(True)
        for place, stays in enumerate(left):
            if not stays:
                wrong.update(group.separators[place if place < first else place - 1])
    if not part.groups and part.kind in ("junction", "chain"):
        gone_from = [part.children[i] for i in gone]
        wrong.update(_joints(part, gone_from))
    return frozenset(wrong)


def _joints(part: Part, gone: Sequence[Part]) -> Iterator[int]:
    """The operators of a chain that go with some of its operands."""
    for place, child in enumerate(part.children):
        if child in gone:
            joint = (part.children[place - 1].hi, child.lo) if place else (child.hi, part.children[1].lo)
            yield from range(*joint)


def lead(part: Part, child: int, absent: Sequence[int]) -> frozenset[int]:
    """The word that leads an absent child: its JOIN or, of a clause whose children are all absent, the keyword."""
    for group in part.groups:
        if child in group.members:
            place = group.members.index(child)
            if group.clause == "from" and group.separators:
                return frozenset(group.separators[max(0, place - 1)])
            if not place and all(member in absent for member in group.members):
                return frozenset(group.head)
    return frozenset()


def gathered(p: Part, g: Part) -> tuple[Part, Part]:
    """Lists of conditions, those that differ gathered into one AND where the other list has one OR in their place."""
    shared = {child.key for child in p.children} & {child.key for child in g.children}
    rest = [[child for child in part.children if child.key not in shared] for part in (p, g)]
    both = []
    for part, own, others in ((p, rest[0], rest[1]), (g, rest[1], rest[0])):
        if len(own) > 1 and len(others) == 1 and others[0].kind == "junction" and all(
                child.lo >= part.places.get("on", 0) for child in own):
            part = replace(part, children=(*(child for child in part.children if child not in own), _and(part, own)),
                           groups=())
        both.append(part)
    return both[0], both[1]


def _and(part: Part, conditions: Sequence[Part]) -> Part:
    lo, hi = conditions[0].lo, conditions[-1].hi
    own = sorted(token for group in part.groups for joint in group.separators for token in joint if lo <= token < hi)
    tokens = frozenset(own).union(*(condition.tokens for condition in conditions))
    return Part("junction", "and", tuple(own), tuple(conditions), tokens, lo, hi, ordered=False)


def place(p: Part, g: Part, child: int, found: dict[int, int]) -> int:
    """The token of p's text before which g's child belongs."""
    if p.places:
        clause = next((group.clause for group in g.groups if child in group.members), "where")
        return p.places[clause]
    if not p.ordered:
        return p.hi if p.kind != "chain" or not p.children else p.children[-1].hi
    before = next((found[j] for j in range(child - 1, -1, -1) if j in found), None)
    if before is not None:
        return p.children[before].hi
    return p.children[0].lo if p.children else max(p.lo, p.hi - (p.kind == "call"))
