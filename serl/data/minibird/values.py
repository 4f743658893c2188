"""Fills the tables of a declared database with made-up, slightly dirty rows."""

from __future__ import annotations

import random
from datetime import date, timedelta

from serl.data.minibird.schema import Column, Database, Role, Table
from serl.data.minibird.words import POOLS

Cell = str | int | float | None

# Share of a referred-to table's rows that nothing refers to, so that "without any ..." has answers.
UNREFERENCED = 0.12


def fill(database: Database, rng: random.Random) -> dict[str, list[tuple[Cell, ...]]]:
    """Rows of every table, by table name; keys count from 1 in the order of the rows."""
    return {table.name: _fill_table(table, database, rng) for table in database.tables}


def _fill_table(table: Table, database: Database, rng: random.Random) -> list[tuple[Cell, ...]]:
    by_column = [_fill_column(column, table.rows, database, rng) for column in table.columns]
    return list(zip(*by_column, strict=True))


def _fill_column(column: Column, rows: int, database: Database, rng: random.Random) -> list[Cell]:
    if column.role is Role.KEY:
        return list(range(1, rows + 1))
    if column.role is Role.LABEL:
        return _labels(column, rows, rng)
    if column.role is Role.REF:
        return _references(database.table(column.target).rows, rows, rng)
    cells = [_cell(column, rng) for _ in range(rows)]
    return [None if rng.random() < column.null else cell for cell in cells]


def _labels(column: Column, rows: int, rng: random.Random) -> list[Cell]:
    """Distinct texts. Raises ValueError where the patterns cannot give enough of them."""
    labels: dict[str, None] = {}
    for _ in range(rows * 50):
        pattern = rng.choice(column.patterns)
        labels[pattern.format_map({pool: rng.choice(words) for pool, words in POOLS.items()})] = None
        if len(labels) == rows:
            return list(labels)
    raise ValueError(f"column {column.name}: its patterns gave only {len(labels)} of {rows} distinct texts")


def _references(targets: int, rows: int, rng: random.Random) -> list[Cell]:
    """Keys of the referred-to table, some far commoner than others, some never used."""
    keys = rng.sample(range(1, targets + 1), round(targets * (1 - UNREFERENCED)))
    return rng.choices(keys, [(rank + 3) ** -0.7 for rank in range(len(keys))], k=rows)


def _cell(column: Column, rng: random.Random) -> Cell:
    if column.role is Role.CATEGORY:
        return rng.choices(column.cells, [(rank + 2) ** -0.6 for rank in range(len(column.cells))])[0]
    if column.role is Role.FLAG:
        return int(rng.random() < 0.4)
    if column.role is Role.DATE:
        first, last = date(int(column.low), 1, 1), date(int(column.high), 12, 31)
        return (first + timedelta(days=rng.randint(0, (last - first).days))).isoformat()
    value = rng.triangular(column.low, column.high, column.low + 0.35 * (column.high - column.low))
    return round(value, column.digits) if column.digits else round(value)
