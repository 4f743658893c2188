"""What a question kind is: one SQL template and several ways to ask for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One shape of question, for any database that has the path and the columns it needs.

    `path` gives the joins ("up" to the table referred to, "down" to the one that refers); `slots` what is
    drawn ("c=show f=filter@1", see slots.py). In `sql`, a slot is the SQL of its column or condition, and
    {from}, {t0}, {id0}, {fk0} are the path's. In `asks`, a slot is its column's or number's words;
    {T} is the noun phrase of the whole path with its conditions, {U} the part after the first table, {t},
    {ts}, {u}, {us} the bare nouns of the first and last table (see phrases.py). `evidence`, if any, is
    told for most of the questions.
    """

    name: str
    slots: str
    sql: str
    asks: tuple[str, ...]
    path: str = ""
    weight: float = 1.0
    evidence: str = ""
