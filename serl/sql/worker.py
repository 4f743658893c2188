"""A worker process of the sandbox: reads requests on stdin, runs each, writes its outcome on stdout.

Started as `python -m serl.sql.worker`. It imports little, so that it is up in tens of milliseconds.
What keeps a statement inside its bounds, from the first line of defence to the last:

1. exactly one statement; an authorizer that lets only reads through; a read-only connection per query;
2. SQLite's own size limits and heap limit; a cap on rows and bytes while reading the result;
3. a progress handler that interrupts at the deadline;
4. an alarm that ends this process if the engine is stuck in one C call, even if the caller is gone;
5. limits of the operating system: address space, and no byte written to any file.
"""

from __future__ import annotations

import resource
import signal
import sqlite3
import sys
import time
from pathlib import Path

from serl.sql import frames
from serl.sql.limits import Limits
from serl.sql.outcome import Outcome, Status
from serl.sql.statement import split

READY = "ready"
PREVIEW_ROWS = 20  # rows of a too large result that are still shown

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
_OPCODES_PER_CHECK = 2_000  # about 50 µs of work between two looks at the clock


def main() -> None:
    """Serve until stdin closes, which it does when the caller ends, however it ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    limits = Limits(**_read(requests))
    _limit_process(limits)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, whatever the caller had set
    _write(answers, READY)
    while (request := _read(requests)) is not None:
        outcome = execute(*request, limits)
        fields = (outcome.status.value, outcome.columns, outcome.rows, outcome.row_count)
        _write(answers, (*fields, outcome.error, outcome.ms))


def execute(db_path: str, sql: str, limits: Limits) -> Outcome:
    """Run one statement on a fresh read-only connection. Every failure is an outcome."""
    statement = _single_statement(sql, limits)
    if isinstance(statement, Outcome):
        return statement
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, limits.timeout_s + limits.grace_s)
    try:
        outcome = _run(db_path, statement, limits, deadline=start + limits.timeout_s)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    ms = (time.perf_counter() - start) * 1000
    return Outcome(outcome.status, outcome.columns, outcome.rows, outcome.row_count, outcome.error, ms)


def _single_statement(sql: str, limits: Limits) -> str | Outcome:
    """The one statement in `sql`, or the outcome of a text that is not one."""
    try:
        size = len(sql.encode("utf-8"))
    except UnicodeEncodeError as error:
        return Outcome(Status.ERROR, error=f"not valid Unicode text at character {error.start}")
    if "\0" in sql:
        return Outcome(Status.ERROR, error=f"null character at character {sql.index(chr(0))}")
    if size > limits.max_sql_bytes:
        message = f"the SQL text has {size} bytes, more than {limits.max_sql_bytes}"
        return Outcome(Status.TOO_LARGE, error=message)
    statements = split(sql)
    if not statements:
        return Outcome(Status.NO_STATEMENT, error="no SQL statement")
    if len(statements) > 1:
        message = f"{len(statements)} statements, but only one is allowed"
        return Outcome(Status.DENIED, error=message)
    return statements[0]


def _run(db_path: str, statement: str, limits: Limits, deadline: float) -> Outcome:
    denied: list[str] = []
    connection = None
    try:
        connection = _connect(db_path, statement, limits)
        connection.set_authorizer(_authorizer(denied))
        connection.set_progress_handler(lambda: time.perf_counter() > deadline, _OPCODES_PER_CHECK)
        cursor = connection.execute(statement)
        if cursor.description is None:  # such as REINDEX where there is no index: harmless, no query
            return Outcome(Status.DENIED, error="only a query that returns rows is allowed")
        return _fetch(cursor, limits)
    except MemoryError:
        return Outcome(Status.TOO_LARGE, error="the query needs more memory than allowed")
    except UnicodeError:  # raised while making a Python string of a message that quotes broken text
        return Outcome(Status.ERROR, error="the engine's message is not valid UTF-8")
    except sqlite3.Error as error:
        if denied:
            return Outcome(Status.DENIED, error=f"{denied[0]} is not allowed, only SELECT")
        return _failure(error, db_path, limits)
    finally:
        if connection is not None:
            connection.close()


def _connect(db_path: str, statement: str, limits: Limits) -> sqlite3.Connection:
    uri = Path(db_path).absolute().as_uri() + "?mode=ro"
    if _is_resting_wal(db_path):
        uri += "&immutable=1"  # a reader of a WAL database would otherwise leave -shm and -wal files
    connection = sqlite3.connect(
        uri, uri=True, timeout=limits.timeout_s / 2, isolation_level=None, cached_statements=0
    )
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.execute("PRAGMA temp_store = MEMORY")  # big sorts count as memory; no temporary files
    if "json_" in statement.lower():
        # The first use of these table functions declares them, which looks like a write to the authorizer.
        connection.execute("SELECT 1 FROM json_each('1'), json_tree('1')")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.max_cell_bytes)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return connection


def _is_resting_wal(db_path: str) -> bool:
    """Whether the file is in WAL mode with nothing left to take over from its -wal file."""
    try:
        with open(db_path, "rb") as file:
            header = file.read(20)
    except OSError:
        return False  # connecting will fail too, with a message of its own
    wal = Path(f"{db_path}-wal")
    return header[18:20] == b"\x02\x02" and (not wal.exists() or wal.stat().st_size == 0)


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


def _fetch(cursor: sqlite3.Cursor, limits: Limits) -> Outcome:
    columns = tuple(column[0] for column in cursor.description)
    rows: list[tuple] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(cell) if isinstance(cell, (str, bytes)) else 8 for cell in row)
        if len(rows) > limits.max_rows or size > limits.max_bytes:
            what = f"{limits.max_rows} rows" if len(rows) > limits.max_rows else f"{limits.max_bytes} bytes"
            preview = tuple(rows[:PREVIEW_ROWS])
            return Outcome(Status.TOO_LARGE, columns, preview, len(rows), f"the result has more than {what}")
    return Outcome(Status.OK if rows else Status.EMPTY, columns, tuple(rows), len(rows))


def _failure(error: sqlite3.Error, db_path: str, limits: Limits) -> Outcome:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the primary result code
    if code == sqlite3.SQLITE_INTERRUPT:
        return Outcome(Status.TIMEOUT, error=f"stopped after {limits.timeout_s:g} s")
    if code == sqlite3.SQLITE_TOOBIG:
        return Outcome(Status.TOO_LARGE, error=f"a value has more than {limits.max_cell_bytes} bytes")
    if code in _OUR_FAULT:
        return Outcome(Status.INFRASTRUCTURE, error=f"{db_path}: {error}")
    return Outcome(Status.ERROR, error=" ".join(str(error).split()))


def _limit_process(limits: Limits) -> None:
    memory = limits.memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with sqlite3.connect(":memory:") as connection:
        connection.execute(f"PRAGMA hard_heap_limit = {memory // 2}")  # holds for the whole process
    connection.close()


def _read(stream):
    """The next message, or None at the end of the stream."""
    header = stream.read(frames.HEADER_BYTES)
    if len(header) < frames.HEADER_BYTES:
        return None
    return frames.decode(stream.read(frames.body_length(header)))


def _write(stream, message) -> None:
    try:
        stream.write(frames.encode(message))
        stream.flush()
    except BrokenPipeError:
        sys.exit(0)  # the caller is gone, nobody waits for an answer


if __name__ == "__main__":
    main()
