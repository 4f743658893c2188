"""DuckDB, by its Python package, in the worker process.

What keeps a statement inside its bounds:

1. DuckDB's own parser splits the text; only a statement that it calls SELECT runs (also SHOW and DESCRIBE,
   which it reads as SELECT; not PIVOT as a statement, which creates a type);
2. a read-only connection per query, on which the engine refuses every write, also inside a CTE;
3. no access to anything outside the database file (enable_external_access), no extension installed or
   loaded, no variable of this process taken for a table, and all of that locked against SET;
4. one thread and a memory limit; a timer that interrupts at the deadline;
5. limits of the operating system: address space, and no byte written to any file.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from serl.sql.executors.cells import plain_row
from serl.sql.executors.result import Result, collect
from serl.sql.limits import Limits
from serl.sql.outcome import Status

_CONFIG = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
    "temp_directory": "",
    "threads": "1",
}
_INTERRUPT_EVERY_S = 0.05


class Executor:
    """Runs statements of DuckDB; the database is a file."""

    own_mb = 256  # the library takes about 170 before the first statement

    def __init__(self, limits: Limits) -> None:
        os.environ["TZ"] = "UTC"  # the zone in which the engine shows times that have one
        time.tzset()
        self._limits = limits
        self._config = {**_CONFIG, "memory_limit": f"{limits.memory_mb // 2}MB"}
        # The first use sets up a lot: not in a statement's time, nor as address space that it lost.
        with duckdb.connect(":memory:") as connection, _interrupted_at(time.perf_counter() + 60, connection):
            connection.execute("SELECT count(*) FROM range(100000)").fetchall()
        self._worn_bytes = _address_space() + limits.memory_mb * 2**20 // 2

    def worn_out(self) -> bool:
        """Whether address space that the engine does not give back may be missing to later statements."""
        return _address_space() > self._worn_bytes

    def split(self, sql: str) -> list[str]:
        """The statements of `sql`, as DuckDB's parser finds them; text that it cannot parse is one."""
        try:
            return [statement.query for statement in duckdb.extract_statements(sql)]
        except (duckdb.Error, MemoryError):
            return [sql]  # running it gives the same error

    def run(self, database: str, statement: str, deadline: float) -> Result:
        """Run one statement on a new read-only connection. Every failure is a result."""
        if not Path(database).is_file():
            return Result(Status.INFRASTRUCTURE, error=f"{database}: no such file")
        try:
            connection = duckdb.connect(database, read_only=True, config=self._config)
        except (duckdb.Error, MemoryError) as error:
            return Result(Status.INFRASTRUCTURE, error=f"{database}: {_one_line(error)}")
        with connection, _interrupted_at(deadline, connection):
            try:
                return self._run(connection, statement)
            except (duckdb.Error, MemoryError, ValueError, OverflowError) as error:
                return self._failure(error, database)

    def _run(self, connection: duckdb.DuckDBPyConnection, text: str) -> Result:
        (statement,) = connection.extract_statements(text)
        if statement.type is not duckdb.StatementType.SELECT:
            return Result(Status.DENIED, error=f"{statement.type.name} is not allowed, only SELECT")
        cursor = connection.execute(statement)  # the parsed statement itself: what was checked is what runs
        columns = tuple([column[0] for column in cursor.description])
        return collect(lambda count: list(map(plain_row, cursor.fetchmany(count))), columns, self._limits)

    def _failure(self, error: Exception, database: str) -> Result:
        message = _one_line(error)
        match error:
            case duckdb.InterruptException():
                return Result(Status.TIMEOUT, error=f"stopped after {self._limits.timeout_s:g} s")
            case duckdb.OutOfMemoryException() | MemoryError():
                return Result(Status.TOO_LARGE, error="the query needs more memory than allowed")
            case duckdb.PermissionException():
                return Result(Status.DENIED, error=message)
            case duckdb.IOException() | duckdb.FatalException() | duckdb.SerializationException():
                return Result(Status.INFRASTRUCTURE, error=f"{database}: {message}")
            case duckdb.InvalidInputException() if "read-only mode" in message:
                return Result(Status.DENIED, error="a write is not allowed, only SELECT")
        return Result(Status.ERROR, error=message)


@contextlib.contextmanager
def _interrupted_at(deadline: float, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupt what the connection does from the deadline on, again and again: one that comes between two
    steps of the engine is lost."""
    done = threading.Event()

    def interrupt() -> None:
        left = deadline - time.perf_counter()
        while not done.wait(left):
            connection.interrupt()
            left = _INTERRUPT_EVERY_S

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()  # it must not interrupt a connection that is gone


def _one_line(error: Exception) -> str:
    """The engine's message without the excerpt of the statement that it appends."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
