"""Reading other people's SQLite files: read-only connections, text of any encoding, names of any kind."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from grounding.errors import InputError

# Words that SQLite's parser does not take as a bare column or table name (its other keywords fall back to names).
RESERVED = frozenset(
    """add all alter and as autoincrement between case cast check collate commit constraint create current_date
    current_time current_timestamp default deferrable delete distinct drop else escape except exists
    foreign from group having in index insert intersect into is isnull join limit not nothing notnull
    null on or order primary raise references returning select set table then to transaction union
    unique update using values when where""".split()
)
BUSY_S = 2.0  # how long to wait for a writer that holds the database
_HINTS = {
    sqlite3.SQLITE_BUSY: "another process is writing to it: try again when it has finished",
    sqlite3.SQLITE_NOTADB: "it is encrypted, damaged or another kind of file",
    sqlite3.SQLITE_CORRUPT: "check it with PRAGMA integrity_check",
    sqlite3.SQLITE_CANTOPEN: "it or the write-ahead log beside it cannot be opened in this place: copy both elsewhere",
    sqlite3.SQLITE_READONLY: "its write-ahead log has to be recovered: copy both to a place that can be written",
}
_COLLATE = re.compile(r"\bCOLLATE\s+[\"'`\[]?(\w+)", re.IGNORECASE)
VARIABLES = 900  # placeholders of one statement; old builds of SQLite allow 999
_Item = TypeVar("_Item")
_BARE_NAME = re.compile(r"[^\W\d]\w*\Z")


def connect_readonly(path: Path) -> sqlite3.Connection:
    """Opens an existing database read-only; text that is not UTF-8 is decoded with replacement characters.

    Nothing is written, not even beside the file. Raises InputError when the path is no SQLite database or cannot be
    read.
    """
    path = Path(path)
    if not path.is_file():
        what = "a directory" if path.is_dir() else "no ordinary file" if path.exists() else "missing"
        raise InputError(f"{path}: the database file is {what}; give the path of a .sqlite file")
    # SQLite would make the log of a database in WAL mode and its index anew and leave them there, and could not even
    # read the database in a folder that it may not write to.
    at_rest = "&immutable=1" if _is_wal(path) and _is_at_rest(path) else ""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{at_rest}", uri=True, timeout=BUSY_S)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        _make_collations(connection)
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be read as a SQLite database ({explain(error)})") from error
    return connection


def explain(error: sqlite3.Error) -> str:
    """An engine's message, and what to do about it."""
    hint = _HINTS.get(primary_code(error))
    return f"{error}; {hint}" if hint else str(error)


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; SQLITE_ERROR where Python's own layer has raised."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _make_collations(connection: sqlite3.Connection) -> None:
    """Defines, byte by byte, the collations that the schema names and only its own program has.

    Without them SQLite refuses every query that compares such a column.
    """
    has = {fold_name(name) for _, name in connection.execute("PRAGMA collation_list")}
    for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql LIKE '%collate%'").fetchall():
        for name in _COLLATE.findall(sql):
            if fold_name(name) not in has:
                connection.create_collation(name, lambda left, right: (left > right) - (left < right))
                has.add(fold_name(name))


def content_files(path: Path) -> tuple[Path, ...]:
    """The files that a database's content is in: its own, and its write-ahead log where there is one."""
    log = _log_of(path)
    return (path, log) if log.exists() and log.stat().st_size else (path,)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _is_at_rest(path: Path) -> bool:
    """Whether a database in WAL mode has no writer and no reader: no log, or an empty one that nobody has open."""
    log = _log_of(path)
    return not log.exists() or (log.stat().st_size == 0 and not path.with_name(f"{path.name}-shm").exists())


def _is_wal(path: Path) -> bool:
    """By the file's header: bytes 18 and 19 are 2 in WAL mode."""
    try:
        with open(path, "rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


_ASCII_LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})


def fold_name(name: str) -> str:
    """A name as SQLite compares names: the case of ASCII letters is ignored, that of all others counts.

    >>> fold_name("Élan_ID")
    'Élan_id'
    """
    return name.translate(_ASCII_LOWER)


def quote(name: str) -> str:
    """A name as an SQL identifier, quoted whatever it holds.

    >>> quote('the "best" one')
    '"the ""best"" one"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_if_needed(name: str) -> str:
    """A name as SQL must write it: bare where SQLite accepts that, else in double quotes.

    >>> quote_if_needed("city"), quote_if_needed("Order Date"), quote_if_needed("order")
    ('city', '"Order Date"', '"order"')
    """
    bare = _BARE_NAME.match(name) and name.lower() not in RESERVED
    return name if bare else quote(name)


def quote_text(value: str) -> str:
    """A value as an SQL string literal.

    >>> quote_text("O'Hare")
    "'O''Hare'"
    """
    return "'" + value.replace("'", "''") + "'"


def in_parts(items: Sequence[_Item]) -> Iterator[tuple[str, Sequence[_Item]]]:
    """Placeholders and items of as many statements as it takes: `IN ({placeholders})`.

    >>> list(in_parts("ab")), [len(part) for _, part in in_parts(range(1000))]
    ([('?,?', 'ab')], [900, 100])
    """
    for start in range(0, len(items), VARIABLES):
        part = items[start : start + VARIABLES]
        yield ",".join("?" * len(part)), part
