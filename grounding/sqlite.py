"""Reading other people's SQLite files: read-only connections, text of any encoding, names of any kind."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from grounding.errors import InputError

# Words that SQLite's parser does not take as a bare column or table name (its other keywords fall back to names).
RESERVED = frozenset(
    """add all alter and as autoincrement between case cast check collate commit constraint create current_date
    current_time current_timestamp default deferrable delete distinct drop else escape except exists
    foreign from group having in index insert intersect into is isnull join limit not nothing notnull
    null on or order primary raise references returning select set table then to transaction union
    unique update using values when where""".split()
)
_BARE_NAME = re.compile(r"[^\W\d]\w*\Z")


def connect_readonly(path: Path) -> sqlite3.Connection:
    """Opens an existing database read-only; text that is not UTF-8 is decoded with replacement characters.

    Nothing is written, not even beside the file. Raises InputError when the path is no SQLite database or cannot be
    read.
    """
    path = Path(path)
    if not path.is_file():
        what = "a directory" if path.is_dir() else "missing"
        raise InputError(f"{path}: the database file is {what}; give the path of a .sqlite file")
    # A database in WAL mode without a log beside it has no writer, and no reader either: SQLite would make the log and
    # its index anew and leave them there, and could not even read the database in a folder that it may not write to.
    at_rest = "&immutable=1" if _is_wal(path) and not _log_of(path).exists() else ""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro{at_rest}", uri=True, timeout=5.0)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be read as a SQLite database ({error})") from error
    return connection


def content_files(path: Path) -> tuple[Path, ...]:
    """The files that a database's content is in: its own, and its write-ahead log where there is one."""
    log = _log_of(path)
    return (path, log) if log.exists() and log.stat().st_size else (path,)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _is_wal(path: Path) -> bool:
    """By the file's header: bytes 18 and 19 are 2 in WAL mode."""
    try:
        with open(path, "rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


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
