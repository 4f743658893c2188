"""S': the tables and columns that a question needs, recall first.

Evidence comes from words (stems of table and column names and of their descriptions that the question or its evidence
says) and from values (V_q). The tables with evidence are then closed over join paths, and every kept table keeps its
primary and foreign keys. A column says why it is kept: `name`, `description`, `value`, `primary key`, `foreign key`,
`small database` or `small table` (cutting it would risk more than it saves), `table name` (nothing else is said of a
large table), `no evidence` (none anywhere, so nothing is cut), or `full` (the mode).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grounding.grounded import GroundingConfig, LinkedColumn, LinkedTable, ValueMatch
from grounding.schema import Column, Database, ForeignKey, Table
from grounding.text import content_stems, name_stems, stem

DESCRIPTION_OVERLAP = 0.5  # share of a description's words that the question must say
NEVER_TELLING = frozenset(stem(word) for word in ("id", "code", "no", "number"))
"""Name parts that half of all columns have: alone they are no evidence."""


@dataclass(frozen=True)
class _Scored:
    """A column and its evidence."""

    column: Column
    score: float
    why: tuple[str, ...]


def link(
    database: Database, question_stems: frozenset[str], values: Sequence[ValueMatch], config: GroundingConfig
) -> tuple[LinkedTable, ...]:
    """The kept tables, best first, each with its kept columns, best first."""
    value_scores: dict[tuple[str, str], float] = defaultdict(float)
    for match in values:
        if match.score >= config.link_score:
            place = (match.table, match.column)
            value_scores[place] = max(value_scores[place], match.score)
    scored = {
        table.name: [_score_column(table, column, question_stems, value_scores) for column in table.columns]
        for table in database.tables
    }
    table_scores = {table.name: _score_table(table, scored[table.name], question_stems) for table in database.tables}
    order = sorted(table_scores, key=lambda name: -table_scores[name])  # stable: ties stay in schema order

    seeds = [name for name in order if table_scores[name] > 0]
    keep_all = _reason_to_keep_all(database, config) or (None if seeds else "no evidence")
    kept = set(order) if keep_all else close_over_joins(seeds, database.foreign_keys)
    keys = {(key.table, key.column) for key in database.foreign_keys}
    keys |= {(key.ref_table, key.ref_column) for key in database.foreign_keys if key.table in kept}
    tables = []
    for name in order:
        if name in kept:
            is_small = table_scores[name] > 0 and len(scored[name]) <= config.keep_table_columns
            why_whole = keep_all or ("small table" if is_small else None)
            # A large table without keys, of which only the name is said, would otherwise vanish.
            columns = _keep(name, scored[name], keys, why_whole) or _keep(name, scored[name], keys, "table name")
            tables.append(LinkedTable(name, columns))
    return tuple(tables)


def _score_column(
    table: Table, column: Column, question_stems: frozenset[str], values: dict[tuple[str, str], float]
) -> _Scored:
    evidence = {
        "name": name_overlap(column.name, question_stems),
        "description": max(
            _text_overlap(column.description, question_stems), _text_overlap(column.values_description, question_stems)
        ),
        "value": values.get((table.name, column.name), 0.0),
    }
    return _Scored(column, sum(evidence.values()), tuple(reason for reason, score in evidence.items() if score > 0))


def name_overlap(name: str, question_stems: frozenset[str]) -> float:
    """Share of a name's parts that the question says, 0 to 1; 0 where only parts like `id` are said."""
    stems = name_stems(name)
    said = stems & question_stems
    return len(said) / len(stems) if said - NEVER_TELLING else 0.0


def _text_overlap(text: str, question_stems: frozenset[str]) -> float:
    stems = set(content_stems(text))
    share = len(stems & question_stems) / len(stems) if stems else 0.0
    return share if share >= DESCRIPTION_OVERLAP else 0.0


def _score_table(table: Table, scored: Sequence[_Scored], question_stems: frozenset[str]) -> float:
    """The table's own name, its best column, and a little for every further one."""
    scores = sorted((found.score for found in scored), reverse=True)
    said = max(name_overlap(name, question_stems) for name in (table.name, table.description))
    return 2 * said + sum(score / 2**i for i, score in enumerate(scores[:4]))


def _reason_to_keep_all(database: Database, config: GroundingConfig) -> str | None:
    if config.mode == "full":
        return "full"
    return "small database" if database.column_count <= config.keep_all_columns else None


def close_over_joins(seeds: Sequence[str], foreign_keys: Iterable[ForeignKey]) -> set[str]:
    """The seeds and the tables on a shortest join path that connects each of them to those before it.

    >>> keys = [ForeignKey("sang", "singer", "singer", "id"), ForeignKey("sang", "concert", "concert", "id")]
    >>> sorted(close_over_joins(["singer", "concert"], keys))
    ['concert', 'sang', 'singer']
    """
    neighbours: dict[str, list[str]] = defaultdict(list)
    for key in foreign_keys:
        neighbours[key.table].append(key.ref_table)
        neighbours[key.ref_table].append(key.table)
    connected: set[str] = set()
    for seed in seeds:
        if seed not in connected:
            connected |= _path_to(seed, connected, neighbours)
    return connected


def _path_to(start: str, goals: set[str], neighbours: dict[str, list[str]]) -> set[str]:
    """Tables on a shortest path from `start` to any goal, both ends included; `start` alone if there is none."""
    came_from: dict[str, str | None] = {start: None}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        if here in goals:
            path = set()
            while here is not None:
                path.add(here)
                here = came_from[here]
            return path
        for there in neighbours[here]:
            if there not in came_from:
                came_from[there] = here
                queue.append(there)
    return {start}


def _keep(
    name: str, scored: Sequence[_Scored], keys: set[tuple[str, str]], why_whole: str | None
) -> tuple[LinkedColumn, ...]:
    """The columns with a reason to be kept, best first; `why_whole` is the reason of those without another."""
    columns = []
    for found in sorted(scored, key=lambda found: -found.score):
        why = list(found.why)
        if found.column.primary_key:
            why.append("primary key")
        if (name, found.column.name) in keys:
            why.append("foreign key")
        if why_whole and not why:
            why.append(why_whole)
        if why:
            columns.append(LinkedColumn(found.column.name, tuple(why)))
    return tuple(columns)
