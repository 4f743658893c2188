"""A part of a query, and what executing it said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Key = tuple[str, str, int]
"""Query, kind and number of a part: its name within an action."""
Span = tuple[int, int]
"""Characters [start, end) of the action's text."""


class Kind(StrEnum):
    """Kinds of parts; the values are their names where the action's own words are not to be repeated."""

    QUERY = "query"  # an arm of a set operation or a sub-query, as a whole
    WITH = "with"
    TABLE = "table"
    JOIN = "join"  # everything of FROM up to and with one join
    CONDITION = "condition"  # one of those that AND joins in WHERE, alone
    WHERE = "all conditions"
    CASE = "case"  # the condition of one WHEN in the SELECT list, alone
    COLUMN = "column"  # one of the SELECT list
    GROUP = "group by"
    HAVING = "having"
    ORDER = "order by"  # one term of it
    DISTINCT = "distinct"
    LIMIT = "limit"


ONLY_FAIL = (Kind.COLUMN, Kind.ORDER)
"""Parts that make and keep no rows: they are asked about, and told, only where they fail."""
NEVER_FAIL = (Kind.DISTINCT, Kind.LIMIT)
"""Parts that fail with another one only."""
HOLD_OTHERS = (Kind.QUERY, Kind.WHERE)
"""Parts whose text is that of other parts: what is wrong in it is wrong there."""


@dataclass(frozen=True)
class Part:
    """One part, and the counts that are asked of it.

    `counts` are scalar queries: the rows that there are with it; of `distinct` and `limit` also those without it; of a
    condition also, for each of its `texts`, whether the column holds it, and another spelling in upper or lower case.
    """

    query: str  # where it stands: "" in the action itself, else "arm 1 of 2", "subquery 1 of 1" and so on
    kind: Kind
    number: int
    of: int
    sql: str  # what it is in the action
    counts: tuple[str, ...]
    inside: tuple[Key, ...] = ()  # parts that it rests on; the first is the one whose rows it keeps or joins
    texts: tuple[tuple[str, str, Span | None], ...] = ()  # column, text and literal of its comparisons with a text
    prefix: str = ""  # WITH and what it defines
    span: Span | None = None  # from its first to its last name or literal in the action's text

    @property
    def key(self) -> Key:
        return self.query, self.kind, self.number


@dataclass(frozen=True)
class Finding:
    """What came of a part: the values of its counts. None: the engine refuses it, alone as in the action."""

    part: Part
    values: tuple | None

    @property
    def rows(self) -> int | None:
        return None if self.values is None else self.values[0]

    @property
    def absent(self) -> tuple[tuple[int, object], ...]:
        """Places of the texts that their columns do not hold, each with what differs from it in case only, or None."""
        if self.values is None:
            return ()
        held = zip(self.values[1::2], self.values[2::2])
        return tuple((place, other) for place, (_, (here, other)) in enumerate(zip(self.part.texts, held)) if not here)
