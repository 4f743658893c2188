"""Spider's and BIRD's tables.json: names that people read, primary keys and foreign keys of every database.

    [{"db_id",
      "table_names_original", "table_names",       ["stadium", ...], ["stadium", ...]
      "column_names_original", "column_names",     [[-1, "*"], [0, "Stadium_ID"], ...]: table's place, name
      "primary_keys",                              places of columns; a list of places is a composite key
      "foreign_keys"}]                             pairs of places: the column, what it refers to

What the database itself says comes first: a primary key is taken for a table that declares none, a foreign key of a
column that declares none. An entry that names nothing of the database is warned about and left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from grounding.errors import InputError
from grounding.io import file_state
from grounding.schema import TABLES_JSON, ForeignKey, Table
from grounding.sqlite import fold_name
from grounding.text import content_stems, fold, name_parts, name_stems

Place = tuple[str, str]
"""(table, column), by `fold_name`."""


@dataclass(frozen=True)
class Said:
    """What tables.json says of one database."""

    tables: dict[str, str] = field(default_factory=dict)
    columns: dict[Place, str] = field(default_factory=dict)
    primary_keys: tuple[Place, ...] = ()
    foreign_keys: tuple[tuple[Place, Place], ...] = ()
    warnings: tuple[str, ...] = ()


def find_tables_json(database: Path) -> Path | None:
    """The data set's tables.json, where the database lies as in its archive; None: there is none.

    Of HOME/DB/DB.sqlite, HOME being `dev_databases` or `database` for instance, it is HOME/../dev_tables.json or
    HOME/../tables.json; BIRD's archives double HOME.
    """
    if database.parent.name != database.stem:
        return None
    home = database.resolve().parent.parent
    split = home.name.removesuffix("s").removesuffix("database").removesuffix("_")
    homes = [home.parent, home.parent.parent] if home.parent.name == home.name else [home.parent]
    names = [f"{split}_tables.json"] if split else ["tables.json"]
    return next((path for folder in homes for name in names if (path := folder / name).is_file()), None)


def read_tables_json(path: Path | None, db_id: str, is_found: bool = False) -> Said:
    """What a file says of one database.

    `is_found` says that nobody named the file: then what is wrong with it is a warning, not an InputError.
    """
    if path is None:
        return Said()
    try:
        entries = _entries(path, str(file_state([path])))
    except (OSError, InputError) as error:
        if is_found:
            return Said(warnings=(f"{path} is left out: {error}",))
        raise InputError(f"{path}: cannot be read as tables.json ({error})") from error
    if db_id not in entries:
        return Said(warnings=(f"{path}: no entry with db_id {db_id!r}",))
    return _read_entry(entries[db_id], f"{path}, {db_id}")


@lru_cache(maxsize=8)
def _entries(path: Path, state: str) -> dict[str, dict]:
    """Entries by db_id; `state` is the file's, so that a changed one is read again."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError("not a JSON list of objects")
    return {str(entry.get("db_id")): entry for entry in entries}


def _read_entry(entry: dict, where: str) -> Said:
    try:
        names = [fold_name(name) for name in entry["table_names_original"]]
        places = [
            (names[table], fold_name(name)) if table >= 0 else None for table, name in entry["column_names_original"]
        ]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        return Said(warnings=(f"{where}: its names are not in the form of tables.json ({error!r})",))
    warnings: list[str] = []

    def at(position: object) -> Place | None:
        is_place = isinstance(position, int) and 0 <= position < len(places)
        return places[position] if is_place else None

    readable = [pair[1] if isinstance(pair, list) and len(pair) == 2 else None for pair in _list(entry, "column_names")]
    primary, foreign = [], []
    for key in _list(entry, "primary_keys"):
        columns = [at(position) for position in (key if isinstance(key, list) else [key])]
        if None in columns:
            warnings.append(f"{where}: primary key {key} names no column")
        else:
            primary += columns
    for key in _list(entry, "foreign_keys"):
        ends = [at(position) for position in key] if isinstance(key, list) else []
        if len(ends) != 2 or None in ends:
            warnings.append(f"{where}: foreign key {key} names no two columns")
        else:
            foreign.append(tuple(ends))
    return Said(
        _texts(names, _list(entry, "table_names")), _texts(places, readable), tuple(primary), tuple(foreign),
        tuple(warnings),
    )  # fmt: skip


def _list(entry: dict, name: str) -> list:
    return entry[name] if isinstance(entry.get(name), list) else []


def _texts(names: Sequence, texts: Sequence) -> dict:
    """Texts by name, if there are as many: else nobody knows whose they are."""
    if len(names) != len(texts):
        return {}
    return {name: text for name, text in zip(names, texts) if name is not None and isinstance(text, str)}


def document(
    tables: Sequence[Table], keys: tuple[ForeignKey, ...], said: Said
) -> tuple[tuple[Table, ...], tuple[ForeignKey, ...], list[str]]:
    """Tables and keys with what tables.json adds to them, and its warnings."""
    documented = tuple(_document_table(table, said) for table in tables)
    by_name = {fold_name(table.name): table for table in documented}
    has_key = {(fold_name(key.table), fold_name(key.column)) for key in keys}
    known = {frozenset(((key.table, key.column), (key.ref_table, key.ref_column))) for key in keys}
    added, warnings = [], list(said.warnings)
    stored = {(name, column) for name, table in by_name.items() for column in table.by_name}
    strays = [place for place in dict.fromkeys(said.primary_keys) if place not in stored]
    warnings += [f"tables.json: primary key {'.'.join(place)}: the database has no such column" for place in strays]
    for own, ref in dict.fromkeys(said.foreign_keys):
        if not {own, ref} <= stored or own == ref:
            what = "it refers to itself" if own == ref else "the database has no such columns"
            warnings.append(f"tables.json: foreign key {'.'.join(own)} → {'.'.join(ref)}: {what}")
            continue
        names = [(by_name[table].name, by_name[table].by_name[column].name) for table, column in (own, ref)]
        if own not in has_key and frozenset(names) not in known:
            added.append(ForeignKey(*names[0], *names[1], origin=TABLES_JSON))
    return documented, (*keys, *_join_composites(added, by_name)), warnings


def _document_table(table: Table, said: Said) -> Table:
    name = fold_name(table.name)
    key = {column for owner, column in said.primary_keys if owner == name and column in table.by_name}
    takes_key = bool(key) and not table.primary_key and not table.is_view
    columns = tuple(
        replace(
            column,
            primary_key=fold_name(column.name) in key if takes_key else column.primary_key,
            description=column.description or _beyond(column.name, said.columns.get((name, fold_name(column.name)))),
        )
        for column in table.columns
    )
    description = _beyond(table.name, said.tables.get(name))
    key_origin = TABLES_JSON if takes_key else table.key_origin
    return replace(table, columns=columns, description=description, key_origin=key_origin)


def _beyond(name: str, text: str | None) -> str:
    """A readable name, if there is one and it has a word that the name has not.

    >>> _beyond("stu_id", "student id"), _beyond("Stadium_ID", "stadium id"), _beyond("CountryCode", "countrycode")
    ('student id', '', '')
    """
    if not text or fold("".join(name_parts(text))) == fold("".join(name_parts(name))):
        return ""
    return " ".join(text.split()) if set(content_stems(text)) - name_stems(name) else ""


def _join_composites(keys: Sequence[ForeignKey], tables: dict[str, Table]) -> list[ForeignKey]:
    """The keys; tables.json knows pairs only, so those that together make up a primary key are marked as one here."""
    between: dict[tuple[str, str], list[ForeignKey]] = defaultdict(list)
    for key in keys:
        between[key.table, key.ref_table].append(key)
    marked = []
    for number, ((_, ref_table), pairs) in enumerate(between.items(), start=1):
        primary = tables[fold_name(ref_table)].primary_key
        is_whole = len(pairs) > 1 and sorted(key.ref_column for key in pairs) == sorted(primary)
        # Declared keys are numbered from 0: these are below.
        marked += [replace(key, composite=-number) for key in pairs] if is_whole else pairs
    return marked
