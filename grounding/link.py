"""S': the tables and columns that a question needs, recall first.

    S' = closure( reasoning links ∪ value links ∪ lexical and embedding links )

Reasoning links are what a model named (see `reasoning/`), value links come from V_q, lexical ones from words: stems of
table and column names and of their descriptions that the question or its evidence says. The tables with any of them
are closed over join paths, and every kept table keeps its primary and foreign keys. A column says why it is kept:

    reasoning, value, name, description, similar (by embedding), gold (the oracle's)    evidence
    primary key, foreign key; inferred: all its foreign keys are; join path: one is between
    two tables with evidence or on a join path between such                              structure
    small database, small table    cutting it would risk more than it saves
    table name                     nothing else is said of a large table
    no evidence                    none anywhere, so nothing is cut
    full                           the mode

A column's score is the sum of its evidence, each 0 to 1, and the cosine of its name to the nearest mention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grounding.grounded import GroundingConfig, LinkedColumn, LinkedTable, Links, ValueMatch
from grounding.joins import close_over_joins
from grounding.schema import INFERRED, Column, Database, ForeignKey, Table
from grounding.sqlite import fold_name
from grounding.text import content_stems, name_stems, stem

DESCRIPTION_OVERLAP = 0.5  # share of a description's words that the question must say
NEVER_TELLING = frozenset(stem(word) for word in ("id", "code", "no", "number"))
"""Name parts that half of all columns have: alone they are no evidence."""


@dataclass(frozen=True)
class Clues:
    """What speaks for tables and columns."""

    stems: frozenset[str]
    """Of the question and its evidence."""
    values: Sequence[ValueMatch]
    similarity: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Cosine of each column's name to the nearest mention, by (table, column)."""
    reasoning: Links = Links()
    """What a model named."""


@dataclass(frozen=True)
class _Scored:
    """A column, the sum of its evidence, and of what kinds it is."""

    column: Column
    evidence: float
    score: float
    why: tuple[str, ...]


def link(database: Database, clues: Clues, config: GroundingConfig) -> tuple[LinkedTable, ...]:
    """The kept tables, best first, each with its kept columns, best first, in the modes hybrid and full."""
    scored = _score_columns(database, clues, config)
    table_scores = {
        table.name: _score_table(
            table, scored[table.name], clues.stems, fold_name(table.name) in clues.reasoning.tables
        )
        for table in database.tables
    }
    order = sorted(table_scores, key=lambda name: -table_scores[name])  # stable: ties stay in schema order
    seeds = [name for name in order if table_scores[name] > 0]
    keep_all = _reason_to_keep_all(database, config) or (None if seeds else "no evidence")
    needed = close_over_joins(seeds, database.foreign_keys)
    kept = set(order) if keep_all else needed
    keys = _key_reasons(database, kept, needed)
    tables = []
    for name in order:
        if name in kept:
            is_small = table_scores[name] > 0 and len(scored[name]) <= config.keep_table_columns
            why_whole = keep_all or ("small table" if is_small else None)
            tables.append(_keep(name, scored[name], keys, why_whole))
    return tuple(tables)


def link_gold(database: Database, gold: Links) -> tuple[LinkedTable, ...]:
    """Exactly gold's tables and columns and the keys of these tables, in the database's order: mode oracle."""
    kept = {table.name for table in database.tables if fold_name(table.name) in gold.tables}
    keys = _key_reasons(database, kept, kept)
    tables = []
    for table in database.tables:
        if table.name in kept:
            is_gold = [(fold_name(table.name), fold_name(column.name)) in gold.columns for column in table.columns]
            scored = [_Scored(column, float(said), float(said), ("gold",) if said else ())
                      for column, said in zip(table.columns, is_gold)]
            tables.append(_keep(table.name, scored, keys, None))
    return tuple(tables)


def _score_columns(database: Database, clues: Clues, config: GroundingConfig) -> dict[str, list[_Scored]]:
    values: dict[tuple[str, str], float] = defaultdict(float)
    for match in clues.values:
        if match.score >= config.link_score:
            place = (match.table, match.column)
            values[place] = max(values[place], match.score)
    return {table.name: [_score_column(table, column, clues, values, config.link_similarity)
                         for column in table.columns] for table in database.tables}


def _score_column(
    table: Table, column: Column, clues: Clues, values: Mapping[tuple[str, str], float], least_similarity: float | None
) -> _Scored:
    place = (table.name, column.name)
    similarity = clues.similarity.get(place, 0.0)
    is_similar = least_similarity is not None and similarity >= least_similarity
    evidence = {
        "name": name_overlap(column.name, clues.stems),
        "description": max(
            _text_overlap(column.description, clues.stems), _text_overlap(column.values_description, clues.stems)
        ),
        "similar": similarity if is_similar else 0.0,
        "value": values.get(place, 0.0),
        "reasoning": float((fold_name(table.name), fold_name(column.name)) in clues.reasoning.columns),
    }
    why = tuple(reason for reason, score in evidence.items() if score > 0)
    total = sum(evidence.values())
    return _Scored(column, total, total + similarity, why)


def name_overlap(name: str, question_stems: frozenset[str]) -> float:
    """Share of a name's parts that the question says, 0 to 1; 0 where only parts like `id` are said."""
    stems = name_stems(name)
    said = stems & question_stems
    return len(said) / len(stems) if said - NEVER_TELLING else 0.0


def _text_overlap(text: str, question_stems: frozenset[str]) -> float:
    stems = set(content_stems(text))
    share = len(stems & question_stems) / len(stems) if stems else 0.0
    return share if share >= DESCRIPTION_OVERLAP else 0.0


def _score_table(table: Table, scored: Sequence[_Scored], stems: frozenset[str], is_named: bool) -> float:
    """The table's own name, whether a model named it, its best column, and a little for every further one."""
    scores = sorted((found.evidence for found in scored), reverse=True)
    said = max(name_overlap(name, stems) for name in (table.name, table.description))
    return 2 * said + 2 * is_named + sum(score / 2**i for i, score in enumerate(scores[:4]))


def _reason_to_keep_all(database: Database, config: GroundingConfig) -> str | None:
    if config.mode == "full":
        return "full"
    return "small database" if database.column_count <= config.keep_all_columns else None


def _key_reasons(database: Database, kept: set[str], needed: set[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Why the foreign keys of kept tables, and what they refer to, are kept: by (table, column)."""
    keys: dict[tuple[str, str], list[ForeignKey]] = defaultdict(list)
    for key in database.foreign_keys:
        keys[key.table, key.column].append(key)
        if key.table in kept:
            keys[key.ref_table, key.ref_column].append(key)
    reasons = {}
    for place, own in keys.items():
        inferred = ("inferred",) if all(key.origin == INFERRED for key in own) else ()
        joins = ("join path",) if any({key.table, key.ref_table} <= needed for key in own) else ()
        reasons[place] = ("foreign key", *inferred, *joins)
    return reasons


def _keep(
    name: str, scored: Sequence[_Scored], keys: Mapping[tuple[str, str], tuple[str, ...]], why_whole: str | None
) -> LinkedTable:
    """A table with the columns that have a reason to be kept, best first; `why_whole` is that of those without."""
    columns = []
    for found in sorted(scored, key=lambda found: -found.score):
        why = [*found.why, *(["primary key"] if found.column.primary_key else [])]
        why += keys.get((name, found.column.name), ())
        if why_whole and not why:
            why.append(why_whole)
        if why:
            columns.append(LinkedColumn(found.column.name, tuple(why), found.score))
    if not columns:  # a large table without keys, of which only the name is said, would otherwise vanish
        return _keep(name, scored, keys, "table name")
    return LinkedTable(name, tuple(columns))
