"""SQLite, by Python's own sqlite3.

What keeps a statement inside its bounds, from the first line of defence to the last:

1. an authorizer that lets only reads through; a read-only connection per query;
2. SQLite's own size limits and heap limit;
3. a progress handler that interrupts at the deadline;
4. limits of the operating system: address space, and no byte written to any file.

The worker adds what holds for every engine: one statement, caps on the result, and an alarm that ends the
process if the engine is stuck in one C call.
"""

from __future__ import annotations

import os
import sqlite3
import time
from urllib.parse import quote

from serl.sql.executors.result import Result, collect
from serl.sql.limits import Limits
from serl.sql.outcome import Status
from serl.sql.statement import split

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_DENIED_FUNCTIONS = {"load_extension", "fts3_tokenizer"}
_ACTIONS = {  # what a statement was about to do, for the message; CREATE and DROP come up as schema changes
    sqlite3.SQLITE_ALTER_TABLE: "ALTER TABLE",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_PRAGMA: "PRAGMA",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_TRANSACTION: "TRANSACTION",
    sqlite3.SQLITE_UPDATE: "UPDATE",
}
# Primary result codes that speak of the file or the machine, not of the statement.
_OUR_FAULT = {
    sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOTADB,
}  # fmt: skip
_NO_FILE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_OPCODES_PER_CHECK = 2_000  # about 50 µs of work between two looks at the clock, which take 0.3 µs
_WAL = b"\x02\x02"  # bytes 18 and 19 of a database file in WAL mode


class Executor:
    """Runs statements of SQLite; the database is a file."""

    own_mb = 0

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        with sqlite3.connect(":memory:") as connection:
            # Holds for the whole process.
            connection.execute(f"PRAGMA hard_heap_limit = {limits.memory_mb * 2**20 // 2}")
        connection.close()

    def worn_out(self) -> bool:
        """Never: SQLite gives back what a statement took."""
        return False

    def split(self, sql: str) -> list[str]:
        """The statements of `sql`, as SQLite's tokenizer finds them."""
        return split(sql)

    def run(self, database: str, statement: str, deadline: float) -> Result:
        """Run one statement on a new read-only connection. Every failure is a result."""
        text_factory, temp_store = str, "FILE"
        while True:  # three times at most, and nearly always once: what is rare is slower, and not tried first
            try:
                return self._run(database, statement, deadline, text_factory, temp_store)
            except _NotUtf8:
                text_factory = _replacing
            except _NoFile:
                temp_store = "MEMORY"

    def _run(self, database: str, statement: str, deadline: float, text_factory, temp_store: str) -> Result:
        denied: list[str] = []
        connection = None
        try:
            connection = _connect(database, statement, self._limits, temp_store)
            connection.text_factory = text_factory
            connection.set_authorizer(_authorizer(denied))
            connection.set_progress_handler(lambda: time.perf_counter() > deadline, _OPCODES_PER_CHECK)
            cursor = connection.execute(statement)
            if cursor.description is None:  # such as REINDEX where there is no index: harmless, no query
                return Result(Status.DENIED, error="only a query that returns rows is allowed")
            columns = tuple([column[0] for column in cursor.description])
            return collect(cursor.fetchmany, columns, self._limits)
        except MemoryError:
            return Result(Status.TOO_LARGE, error="the query needs more memory than allowed")
        except UnicodeError:  # raised while making a Python string of a message that quotes broken text
            return Result(Status.ERROR, error="the engine's message is not valid UTF-8")
        except sqlite3.Error as error:
            if denied:
                return Result(Status.DENIED, error=f"{denied[0]} is not allowed, only SELECT")
            if temp_store == "FILE" and _primary_code(error) in _NO_FILE:
                raise _NoFile from None
            return _failure(error, database, self._limits)
        finally:
            if connection is not None:
                connection.close()


class _NotUtf8(Exception):
    """A cell's text is not UTF-8."""


class _NoFile(Exception):
    """The statement may have asked for a temporary file, into which it can write nothing."""


def _replacing(text: bytes) -> str:
    # Three times as slow as `str`, as it is called for every cell: only where `str` has failed.
    return text.decode("utf-8", "replace")


def _connect(database: str, statement: str, limits: Limits, temp_store: str) -> sqlite3.Connection:
    path = os.path.abspath(database)
    # A reader of a WAL database would leave -shm and -wal files, unless told that nobody writes.
    mode = "?mode=ro&immutable=1" if _is_resting_wal(path) else "?mode=ro"
    connection = sqlite3.connect(
        f"file://{quote(os.fsencode(path))}{mode}", uri=True, timeout=limits.timeout_s / 2, isolation_level=None,
        cached_statements=0,
    )  # fmt: skip
    # A sort that would go to a file, if it did not fit into the cache, works within one block of memory and is a
    # third faster than one told to stay in memory, which allocates row by row. Where it does not fit, it fails
    # (the process cannot write), and is told.
    connection.execute(f"PRAGMA temp_store = {temp_store}")
    connection.execute(f"PRAGMA cache_size = -{limits.memory_mb * 1024 // 8}")
    if "json_" in statement.lower():
        # The first use of these table functions declares them, which looks like a write to the authorizer.
        connection.execute("SELECT 1 FROM json_each('1'), json_tree('1')")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.max_cell_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return connection


def _is_resting_wal(path: str) -> bool:
    """Whether the file is in WAL mode with nothing left to take over from its -wal file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False  # connecting will fail too, with a message of its own
    try:
        if os.pread(descriptor, 2, 18) != _WAL:
            return False
    except OSError:  # a folder, a pipe
        return False
    finally:
        os.close(descriptor)
    try:
        return os.stat(f"{path}-wal").st_size == 0
    except FileNotFoundError:
        return True


def _authorizer(denied: list[str]):
    """SQLite's question "may this statement do that?"; what is refused is noted in `denied`."""

    def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _DENIED_FUNCTIONS:
            denied.append(f"the function {second}")
            return sqlite3.SQLITE_DENY
        if action in _ALLOWED:
            return sqlite3.SQLITE_OK
        if first in ("sqlite_master", "sqlite_temp_master"):
            denied.append("changing the schema")
        else:
            denied.append(_ACTIONS.get(action, f"SQLite action {action}"))
        return sqlite3.SQLITE_DENY

    return authorize


def _primary_code(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _failure(error: sqlite3.Error, database: str, limits: Limits) -> Result:
    code = _primary_code(error)
    message = " ".join(str(error).split())
    if code is None:  # raised by Python's module, not by SQLite
        if message.startswith("Could not decode to UTF-8"):
            raise _NotUtf8 from None
        if message.startswith("You can only execute one statement"):  # it has odder tokens than statement.py knows
            return Result(Status.DENIED, error="more than one statement, but only one is allowed")
        return Result(Status.ERROR, error=message)
    if code == sqlite3.SQLITE_INTERRUPT:
        return Result(Status.TIMEOUT, error=f"stopped after {limits.timeout_s:g} s")
    if code == sqlite3.SQLITE_TOOBIG:
        return Result(Status.TOO_LARGE, error=f"a value has more than {limits.max_cell_bytes} bytes")
    if code in _OUR_FAULT:
        return Result(Status.INFRASTRUCTURE, error=f"{database}: {message}")
    return Result(Status.ERROR, error=message)
