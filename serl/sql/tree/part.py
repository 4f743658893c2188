"""The canonical form of a query: a tree of parts, each of which knows its tokens.

A part is what two queries agree or disagree on: a column, a literal, a comparison, a list of conditions, a
query. Spelling that means nothing (aliases, the case of names, parentheses, `a = b` or `b = a`) is gone from
`kind` and `label`, yet every part knows the tokens that it was read from.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property


@dataclass(frozen=True)
class Ref:
    """What a column part refers to."""

    source: str | None  # key of the table in its scope; None: it cannot be told
    name: str  # a sub-query's columns are named by their place: "@0"
    written: str  # the name as written, lower case
    qualifier: tuple[int, ...] = ()  # tokens before the name, without the dot
    soft: bool = False  # no token names the table: unqualified, or qualified by an alias
    bare: bool = False  # its name alone would have meant the same column


@dataclass(frozen=True)
class Group:
    """Neighbours of a list that were written together: WHERE and its conditions, ON and its own."""

    clause: str
    head: tuple[int, ...]  # tokens of the keyword
    members: tuple[int, ...]  # indices of the list's children, in the order of the text
    separators: tuple[tuple[int, ...], ...]  # tokens between neighbours


@dataclass(frozen=True, eq=False)
class Part:
    """One node. Tokens are indices into the statement's tokens; [lo, hi) is where it stands."""

    kind: str
    label: Hashable
    own: tuple[int, ...]  # tokens that say `label`
    children: tuple[Part, ...]
    tokens: frozenset[int]  # all of its tokens, its children's included
    lo: int
    hi: int
    ordered: bool = True
    weight: int = 1
    ref: Ref | None = None  # of columns
    groups: tuple[Group, ...] = ()  # of lists
    places: dict[str, int] = field(default_factory=dict)  # of condition lists: where a clause's next one belongs
    spot: int | None = None  # of join conditions: their JOIN
    via: frozenset[int] = frozenset()  # tokens of the definition, where an alias or a number stands for it

    @cached_property
    def size(self) -> int:
        """How much there is to get right."""
        return self.weight + sum(child.size for child in self.children)

    @cached_property
    def key(self) -> Hashable:
        """Equal keys mean the same."""
        keys = [child.key for child in self.children]
        label = (self.ref.source, self.ref.name) if self.ref else self.label
        return self.kind, label, tuple(keys) if self.ordered else tuple(sorted(keys, key=repr))


def widen(part: Part, lo: int, hi: int) -> Part:
    """The part standing at [lo, hi): parentheses, AS and alias around it are its own."""
    return replace(part, lo=lo, hi=hi, tokens=part.tokens | frozenset(range(lo, hi)))


def moved(part: Part, token: int, via: frozenset[int] | None = None) -> Part:
    """What the part means, said by one token: an alias or a number that refers to it."""
    via = part.tokens if via is None else via
    ref = replace(part.ref, qualifier=(), soft=True) if part.ref else None
    children = tuple(moved(child, token, via) for child in part.children)
    return replace(part, own=(token,), children=children, tokens=frozenset({token}), lo=token, hi=token + 1, ref=ref,
                   groups=(), places={}, spot=None, via=via)


def group(clause: str, head: Sequence[int], members: Sequence[Part], first: int = 0) -> Group:
    """A group of neighbours; `first` is the list index of the first of them."""
    between = tuple(tuple(range(left.hi, right.lo)) for left, right in zip(members, members[1:]))
    return Group(clause, tuple(head), tuple(range(first, first + len(members))), between)


def listing(kind: str, children: Sequence[Part], lo: int, hi: int, ordered: bool, head: Sequence[int] = ()) -> Part:
    """A list that stands at [lo, hi) and its keyword; an empty one stands where it would be inserted."""
    tokens = frozenset(range(lo, hi)).union(head, *(child.tokens for child in children))
    return Part(kind, None, (), tuple(children), tokens, lo, hi, ordered, weight=0,
                groups=(group(kind, head, children),))
