"""A model's answer, taken strictly: one JSON object with known keys that names what is in the database.

Around it only thinking (closed by </think>) and one code fence are passed over. What else is wrong is said in words
that the model can act on.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from difflib import get_close_matches

from grounding.grounded import Links
from grounding.safety import neutralize
from grounding.schema import Database
from grounding.sqlite import fold_name

ROLES = ("projection", "filter", "join", "aggregate")
_FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL | re.IGNORECASE)
_QUOTES = re.compile(r'["`\[\]]')
NAMED = 5  # wrong names that one reason lists


class Malformed(ValueError):
    """An answer that says nothing reliable; the message is for the model that gave it."""


def parse_links(answer: str, database: Database) -> Links:
    """The tables and columns that an answer names. Raises Malformed.

    >>> from grounding.schema import Column, Table
    >>> racing = Database("racing", None, (Table("race", (Column("name", "text"), Column("laps", "integer"))),), ())
    >>> sorted(parse_links('{"tables": ["race"], "filter": ["race.Name"], "projection": []}', racing).columns)
    [('race', 'name')]
    """
    document = _read_object(answer)
    known = _known_names(database)
    tables: set[str] = set()
    columns: set[tuple[str, str]] = set()
    unknown: list[str] = []
    for role, names in document.items():
        for name in names:
            found = [place for place in known.get(_plain(name), ()) if (len(place) == 1) == (role == "tables")]
            if not found:
                unknown.append(name)
            tables.update(place[0] for place in found)
            columns.update(place for place in found if len(place) == 2)
    if unknown:
        raise Malformed(f"the schema does not have {_list(unknown, known)}; name tables by their name under tables, "
                        "columns as table.column under the other keys")
    if not tables:
        raise Malformed("it names no table")
    return Links(frozenset(tables), frozenset(columns))


def _read_object(answer: str) -> dict[str, list[str]]:
    text = answer.rpartition("</think>")[2].strip()
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1]
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is not one JSON object and nothing else ({error})") from error
    if not isinstance(document, dict):
        raise Malformed("it is not a JSON object")
    for key, names in document.items():
        if key not in ("tables", *ROLES):
            raise Malformed(f"its key {key!r} is none of tables, {', '.join(ROLES)}")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Malformed(f"{key} is not a list of names")
    return document


def _known_names(database: Database) -> dict[str, list[tuple[str, ...]]]:
    """(table,) and (table, column), by `fold_name`, by the name as a prompt shows it, without quotes and case."""
    known: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for table in database.tables:
        known[_plain(table.name)].append((fold_name(table.name),))
        for column in table.columns:
            known[_plain(f"{table.name}.{column.name}")].append((fold_name(table.name), fold_name(column.name)))
    return known


def _plain(name: str) -> str:
    return _QUOTES.sub("", neutralize(name)).strip().lower()


def _list(unknown: list[str], known: Iterable[str]) -> str:
    """The first unknown names, each with the known name that is nearest."""
    said = []
    for name in dict.fromkeys(unknown[:NAMED]):
        near = get_close_matches(_plain(name), known, n=1, cutoff=0.6)
        said.append(f"{name[:80]!r} (did you mean {near[0]!r}?)" if near else f"{name[:80]!r}")
    return ", ".join(said)
