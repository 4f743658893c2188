"""Writes databases and questions in BIRD's layout."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serl.data.minibird.compose import Question
from serl.data.minibird.schema import Column, Database, Role, Table
from serl.data.minibird.world import World, sql_type
from serl.io import atomic_write_bytes, atomic_write_text

HEADER = ("original_column_name", "column_name", "column_description", "data_format", "value_description")
PAGE_SIZE = 4096  # SQLite's own default could change between builds


def write_split(root: Path, split: str, worlds: Sequence[World], questions: Sequence[Question]) -> None:
    """SPLIT.json, SPLIT_tables.json and SPLIT_databases/ under `root`."""
    for world in worlds:
        write_database(root / f"{split}_databases" / world.database.name, world)
    write_json(root / f"{split}_tables.json", [tables_entry(world.database) for world in worlds])
    write_json(root / f"{split}.json", [_entry(*numbered) for numbered in enumerate(questions)])


def write_database(folder: Path, world: World) -> None:
    """The SQLite file and the description of each of its tables."""
    atomic_write_bytes(folder / f"{world.database.name}.sqlite", sqlite_bytes(world))
    for table in world.database.tables:
        atomic_write_text(folder / "database_description" / f"{table.name}.csv", description(table))


def sqlite_bytes(world: World) -> bytes:
    """The database file; the same bytes for the same rows."""
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    world.write(connection)
    connection.execute("VACUUM")
    data = connection.serialize()
    connection.close()
    return data


def description(table: Table) -> str:
    """The text of a database_description CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for column in table.columns:
        writer.writerow((column.name, _plain(column), _describe(column, table), sql_type(column).lower(),
                         _describe_values(column)))
    return text.getvalue()


def tables_entry(database: Database) -> dict[str, Any]:
    """The database's entry in *_tables.json, as Spider defined it; columns count from 1, after "*"."""
    numbers: dict[tuple[str, str], int] = {}
    columns: list[tuple[int, Column]] = []
    for at, table in enumerate(database.tables):
        for column in table.columns:
            columns.append((at, column))
            numbers[table.name, column.name] = len(columns)
    return {
        "db_id": database.name,
        "table_names_original": [table.name for table in database.tables],
        "table_names": [table.said[0] for table in database.tables],
        "column_names_original": [[-1, "*"], *([at, column.name] for at, column in columns)],
        "column_names": [[-1, "*"], *([at, _plain(column)] for at, column in columns)],
        "column_types": ["text", *(sql_type(column).lower() for _, column in columns)],
        "primary_keys": [numbers[table.name, table.key.name] for table in database.tables],
        "foreign_keys": [
            [numbers[table.name, column.name], numbers[column.target, database.table(column.target).key.name]]
            for table in database.tables for column in table.of(Role.REF)],
    }


def _entry(number: int, question: Question) -> dict[str, Any]:
    return {"question_id": number, "db_id": question.db_id, "question": question.question,
            "evidence": question.evidence, "SQL": question.sql, "difficulty": question.difficulty}


def _plain(column: Column) -> str:
    return column.said[0] if column.said else column.name.replace("_", " ")


def _describe(column: Column, table: Table) -> str:
    if column.description:
        return column.description
    if column.role is Role.FLAG:
        return f"whether the {table.said[0]} is {column.yes}" if column.adjective else column.yes
    return f"{column.said[-1]} of the {table.said[0]}" + (f" in {column.unit}" if column.unit else "")


def _describe_values(column: Column) -> str:
    if column.role is Role.FLAG:
        return f"1: {column.yes}; 0: {column.no}"
    if column.coded and column.documented:
        return "; ".join(f"{cell}: {said}" for cell, said in zip(column.cells, column.spoken, strict=True))
    return ""


def write_json(path: Path, document: Any) -> None:
    atomic_write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
