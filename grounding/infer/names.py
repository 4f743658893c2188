"""Which keys a column may refer to, by its name.

With names cut into stemmed parts (`Race_Results` is race, result), a column may refer to a key of another table where
its name, or the end of it after a role (`home_` in `home_team_id`), is

    SAME         the key's own name, where that tells something: `customer_id`, of customer.customer_id
    TABLE_KEY    the table's name and the key's: `team_id`, of team.id; `maker_id`, of car_makers.id (its last part)
    TABLE        the table's name: `home_team`, of team.id; `maker`, of car_makers.id
    PART         none of these, but one part of it that tells something is in the table's or the key's name

Likeness of names is a feature of Rostin et al. (A Machine Learning Approach to Foreign Key Discovery, WebDB 2009). Here
it is a look-up in a dictionary of forms, not a comparison of all pairs: thousands of tables cost no more than their
columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from grounding.text import name_parts, stem

CANDIDATES = 8  # keys that are looked at for one column: a name that more keys fit tells none of them
GENERIC = frozenset(
    stem(stem(word)) for word in "id code no nr num number name key title type date year status value".split()
)
"""Parts that columns of any table have: alone they tell nothing of a table."""


class Likeness(IntEnum):
    """How a column's name names a key, the better the greater."""

    PART = 1
    TABLE = 2
    TABLE_KEY = 3
    SAME = 4


@dataclass(frozen=True)
class Key:
    """A column that may be referred to."""

    table: str
    column: str
    is_primary: bool
    """Whether it is the whole primary key of its table."""
    is_text: bool


@dataclass(frozen=True)
class Named:
    """A key that a column's name may mean."""

    key: Key
    likeness: Likeness
    has_role: bool
    """Whether more stands before it: `home_team_id`."""
    says_table: bool
    """Whether the column's name holds the table's, whole."""


@lru_cache(maxsize=100_000)
def parts(name: str) -> tuple[str, ...]:
    """A name's stemmed parts in order; twice, so that `building` and `buildings` are one.

    >>> parts("Race_Results"), parts("homeTeamID")
    (('race', 'result'), ('home', 'team', 'id'))
    """
    return tuple(stem(stem(part)) for part in name_parts(name))


def is_telling(name: str) -> bool:
    """Whether a name has a part that not all tables have: `u_id` has; `Year` and `a` have not."""
    return _tell(parts(name))


def _tell(said: Sequence[str]) -> bool:
    return not GENERIC.issuperset(said) and not (len(said) == 1 and _is_letter(said[0]))


def _is_letter(part: str) -> bool:
    return len(part) == 1 and part.isascii()


def says(column: str, table: str) -> bool:
    """Whether a column's name holds the table's name, whole.

    >>> says("home_team_id", "Teams"), says("team_id", "team_members")
    (True, False)
    """
    return bool(parts(table)) and "".join(parts(table)) in "".join(parts(column))


class Forms:
    """The forms under which the keys of a database may be named, each with the CANDIDATES likeliest."""

    def __init__(self, keys: Iterable[Key]):
        self._named: dict[str, list[tuple[Key, Likeness]]] = defaultdict(list)
        self._with_part: dict[str, list[tuple[Key, Likeness]]] = defaultdict(list)
        for key in keys:
            for form, likeness in _forms(key).items():
                self._named[form].append((key, likeness))
            for part in {*parts(key.table), *parts(key.column)} - GENERIC if key.is_primary and key.is_text else ():
                if not _is_letter(part):
                    self._with_part[part].append((key, Likeness.PART))
        for forms in (self._named, self._with_part):
            for form, named in forms.items():
                # One more than is looked at, for the column's own table.
                forms[form] = sorted(named, key=lambda each: _rank(form, *each))[: CANDIDATES + 1]

    def named_by(self, table: str, column: str) -> list[Named]:
        """The keys of other tables that a column's name may mean, the likeliest first, at most CANDIDATES.

        Those whose table the name says come first, then primary keys, then by likeness, then the shorter table's name.
        """
        said = parts(column)
        while said and said[-1].isdigit():  # club_id_1, club_id_2
            said = said[:-1]
        found: dict[Key, tuple[Likeness, bool]] = {}
        for start in range(len(said)):
            for key, likeness in self._named.get("".join(said[start:]), ()):
                found.setdefault(key, (likeness, start > 0))
        for part in dict.fromkeys(said):
            for key, likeness in self._with_part.get(part, ()):
                found.setdefault(key, (likeness, True))
        others = [(key, *how) for key, how in found.items() if key.table != table]
        others.sort(key=lambda each: _rank(column, *each[:2]))
        return [Named(*each, says(column, each[0].table)) for each in others[:CANDIDATES]]


def _rank(said: str, key: Key, likeness: Likeness) -> tuple:
    return (not says(said, key.table), not key.is_primary, -likeness, len(key.table), key.table)


def _forms(key: Key) -> dict[str, Likeness]:
    table, column = parts(key.table), parts(key.column)
    forms: dict[str, Likeness] = {}
    for said in (table, table[-1:]):
        if key.is_primary and _tell(said):
            forms["".join(said)] = Likeness.TABLE
            forms["".join((*said, *column))] = Likeness.TABLE_KEY
    if _tell(column):
        forms["".join(column)] = Likeness.SAME
    return forms
