"""A tree as one line of text: the same for trees that mean the same, and readable.

Beside what the tree itself leaves out (aliases, the case of names, comments): members of AND, OR, + and * stand in
alphabetical order, the column of a comparison first and its literal last, and `x IN (a, b)` is `(x = a OR x = b)`.
Columns are `table.column`, of an outer query `^table.column`, of a sub-query in FROM `derived.@0`, which is its first;
a column whose table cannot be told is its name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from serl.sql.tree.conditions import FLIPPED, SYMMETRIC, is_junction, spread
from serl.sql.tree.part import Part

_NESTED = ("query", "set")
_OPERATORS = {"NOT IS": "IS NOT"}


def spell(part: Part) -> str:
    """The text of a part."""
    if part.ref is not None:
        return f"{part.ref.source}.{part.ref.name}" if part.ref.source else part.ref.name
    return _SPELLERS.get(part.kind, _any)(part)


def conjuncts(conditions: Sequence[Part]) -> Iterator[Part]:
    """Conditions that must all hold, x NOT IN (a, b) as two of them."""
    for condition in conditions:
        condition = spread(condition)
        if is_junction(condition, "and"):
            yield from conjuncts(condition.children)
        else:
            yield condition


def split_where(where: Part) -> tuple[list[Part], list[Part]]:
    """The conditions that join, and those that filter.

    A condition joins where it is an outer join's or is about two sources or more, in ON, USING or WHERE alike. One of
    ON joins also where it names a column whose table cannot be told.
    """
    written_in_on = {member for group in where.groups if group.clause == "on" for member in group.members}
    joins: list[Part] = []
    filters: list[Part] = []
    for place, child in enumerate(where.children):
        for condition in conjuncts([child]):
            sources = set(_sources(condition))
            joined = condition.kind in ("outer", "natural") or len(sources - {None}) > 1
            unclear = None in sources and place in written_in_on
            (joins if joined or unclear else filters).append(condition)
    return joins, filters


def _sources(part: Part) -> Iterator[str | None]:
    """The query's own sources whose columns a part names, None for one that cannot be told."""
    if part.kind in _NESTED:
        return
    if part.ref is not None and not (part.ref.source or "").startswith("^"):
        yield part.ref.source
    for child in part.children:
        yield from _sources(child)


def _spelled(parts: Sequence[Part]) -> list[str]:
    return [spell(part) for part in parts]


def _words(label: Hashable) -> str:
    """A label, which may be a pair of what it was and words that no rule claims."""
    if isinstance(label, tuple):
        return " ".join(filter(None, map(_words, label)))
    return "" if label is None else str(label)


def _literal(part: Part) -> str:
    kind, value, *is_int = part.label
    if kind == "text":
        return "'" + value.replace("'", "''") + "'"
    text = f"{value:.15g}"
    return f"{text}.0" if is_int == [False] and text.lstrip("-").isdigit() else text


def _compare(part: Part) -> str:
    part = spread(part)
    if part.kind == "junction":
        return spell(part)
    first, second = _spelled(part.children)
    ranks = [0 if side.ref else 2 if side.kind == "literal" else 1 for side in part.children]
    backwards = (ranks[1], second) < (ranks[0], first)
    if backwards and (part.label in SYMMETRIC or part.label in FLIPPED):
        return f"{second} {_operator(FLIPPED.get(part.label, part.label))} {first}"
    return f"{first} {_operator(part.label)} {second}"


def _operator(label: Hashable) -> str:
    word = _words(label)
    return _OPERATORS.get(word, word)


def _junction(part: Part) -> str:
    return f"({f' {part.label.upper()} '.join(sorted(_spelled(_members(part, part.label))))})"


def _members(part: Part, label: str) -> list[Part]:
    """Those of a junction, with those of junctions of its kind inside of it."""
    children = map(spread, part.children)
    return [leaf for child in children for leaf in (_members(child, label) if is_junction(child, label) else [child])]


def _chain(part: Part) -> str:
    texts = _spelled(part.children)
    return f"({f' {_words(part.label)} '.join(texts if part.ordered else sorted(texts))})"


def _call(part: Part) -> str:
    flags = [child.label for child in part.children if child.kind == "flag" and child.label]
    arguments = [child for child in part.children if child.kind != "flag"]
    if len(arguments) == 1 and arguments[0].kind in _NESTED:
        return _words(part.label) + spell(arguments[0])
    return f"{_words(part.label)}({' '.join([*flags, ', '.join(_spelled(arguments))])})"


def _case(part: Part) -> str:
    words = {"operand": "{}", "arm": "WHEN {} THEN {}", "else": "ELSE {}"}
    inside = [words[child.kind].format(*_spelled(child.children)) for child in part.children]
    return " ".join(filter(None, ["CASE", _words(part.label), *inside, "END"]))


def _cast(part: Part) -> str:
    return f"CAST({spell(part.children[0])} AS {_words(part.label)})"


def _query(part: Part) -> str:
    flag, select, sources, where, *slots = part.children
    joins, filters = split_where(where)
    tables = [*sorted(_spelled(sources.children)), *sorted(_spelled(joins))]
    words = filter(None, [_words(part.label), "SELECT", _words(flag.label), ", ".join(_spelled(select.children))])
    return f"({' '.join(words)}{_rest(tables, filters, *slots)})"


def _rest(tables: Sequence[str], filters: Sequence[Part], group: Part, having: Part, order: Part, limit: Part,
          offset: Part) -> str:
    clauses = (("FROM", tables), ("WHERE", sorted(_spelled(filters))), ("GROUP BY", sorted(_spelled(group.children))),
               ("HAVING", sorted(_spelled(list(conjuncts(having.children))))), ("ORDER BY", _spelled(order.children)),
               ("LIMIT", _spelled(limit.children)), ("OFFSET", _spelled(offset.children)))
    return "".join(f" {word} {', '.join(items)}" for word, items in clauses if items)


def _set(part: Part) -> str:
    branches, *slots = part.children
    texts = _spelled(branches.children)
    joined = f" {_words(part.label)} ".join(texts if branches.ordered else sorted(texts))
    return f"({joined}{_rest((), (), *slots)})"


def _source(part: Part) -> str:
    if part.label == "derived":
        return spell(part.children[0])
    return part.label[1] if part.label[0] == "table" else _any(part)


def _star(part: Part) -> str:
    return ".".join(filter(None, reversed(part.label)))


def _outer(part: Part) -> str:
    padded = ", ".join(part.label[1])
    return f"LEFT JOIN {padded}{' ON ' if part.children else ''}{' AND '.join(_spelled(part.children))}"


def _sort(part: Part) -> str:
    return " ".join(filter(None, [*_spelled(part.children), _words(part.label)]))


def _any(part: Part) -> str:
    """Whatever has no rule of its own: its words, and its children."""
    own = _words(part.label)
    inside = ", ".join(_spelled(part.children))
    return f"{own or part.kind}({inside})" if inside else own


_SPELLERS: dict[str, Callable[[Part], str]] = {
    "literal": _literal, "compare": _compare, "junction": _junction, "chain": _chain, "binary": _chain, "call": _call,
    "case": _case, "cast": _cast, "query": _query, "set": _set, "source": _source, "star": _star, "outer": _outer,
    "sort": _sort,
}
