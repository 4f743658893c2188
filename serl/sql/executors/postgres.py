"""PostgreSQL, by psycopg; the database is a connection string.

What keeps a statement inside its bounds:

1. one statement, checked here and again by the server (extended protocol), and only a query: SELECT, WITH,
   VALUES or TABLE, so no COPY, DO, CALL, SET, LISTEN, LOCK;
2. a new connection per query, on which the statement runs in a read-only transaction that is never
   committed: what it changed in the session (set_config) ends with it. Read-only cannot be switched off
   within a transaction that has begun to run queries;
3. a role without power: superusers, and roles that reach the server's files and programs, are refused;
4. functions that act outside the transaction are refused by name (_DENIED_NAMES), as are those that run SQL
   from a string, where such a name could hide;
5. statement_timeout on the server, and the worker's alarm in case the server does not answer. The server
   ends a query whose client is gone within half a second (PostgreSQL 14 or newer);
6. rows come a few at a time (libpq's single-row or chunked mode), so that a large result is never held as a
   whole; the operating system limits the address space and forbids writing to files.

The memory that a query takes in the server is for the server's own settings to limit.
"""

from __future__ import annotations

import itertools
import re
import time
from decimal import Decimal

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.numeric import FloatLoader, IntLoader
from psycopg.types.string import ByteaLoader

from serl.sql.executors.cells import plain_cell
from serl.sql.executors.result import Result, collect
from serl.sql.limits import Limits
from serl.sql.outcome import Status
from serl.sql.postgres_statement import first_word, split

_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")
_COMMANDS = frozenset(  # for the message only: nothing but a query reaches the server
    """ABORT ALTER ANALYZE BEGIN CALL CHECKPOINT CLOSE CLUSTER COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE DELETE
    DISCARD DO DROP END EXECUTE EXPLAIN FETCH GRANT IMPORT INSERT LISTEN LOAD LOCK MERGE MOVE NOTIFY PREPARE
    REASSIGN REFRESH REINDEX RELEASE RESET REVOKE ROLLBACK SAVEPOINT SECURITY SET SHOW START TRUNCATE UNLISTEN
    UPDATE VACUUM""".split()
)
_DENIED_NAMES = re.compile(
    r"""(?<![\w$])(?:
        pg_terminate_backend | pg_cancel_backend                            # other sessions of the same role
      | pg_(?:try_)?advisory_\w+                                            # locks that others wait for
      | pg_notify | pg_logical_emit_message | pg_export_snapshot            # outside the transaction
      | pg_log_backend_memory_contexts | pg_(?:switch_wal|reload_conf|rotate_logfile\w*|promote)
      | pg_(?:create|drop|copy|advance|alter|replication)_\w*(?:slot|restore_point|origin)\w*
      | pg_read_(?:binary_)?file\w* | pg_ls_\w+ | pg_stat_file | pg_file_\w+
      | lo_\w+ | lowrite | loread                                           # large objects
      | dblink\w*                                                           # another connection, not read-only
      | brin_\w+ | gin_clean_pending_list                                    # indexes, whatever the transaction
      | set_config
      | (?:query|cursor|table|schema|database)_to_xml\w* | ts_stat | ts_rewrite   # SQL from a string
    )(?![\w$])
    | [uU]&["']                                                             # names and strings in code points
    """,
    re.VERBOSE | re.IGNORECASE,
)
_POWER_OF_ROLE = """
    SELECT rolname, CASE WHEN rolsuper THEN 'is a superuser' ELSE 'may reach files and programs of the server' END
    FROM pg_catalog.pg_roles AS own
    WHERE rolname IN (session_user, current_user)
      AND (rolsuper OR EXISTS (
        SELECT FROM pg_catalog.pg_roles AS power
        WHERE power.rolname IN ('pg_execute_server_program', 'pg_write_server_files', 'pg_read_server_files')
          AND pg_catalog.pg_has_role(own.oid, power.oid, 'MEMBER')))
"""
# Classes and codes that speak of the server, not of the statement: connection, role, database, conflict with
# another transaction, resources, lock not available, shutdown, system, configuration file, corruption.
_OUR_FAULT = ("08", "28", "3D", "40", "53", "55P03", "57", "58", "F0", "XX001", "XX002")
_ROWS_AT_ONCE = 32 if psycopg.pq.version() >= 170_000 else 1  # an older libpq hands out single rows only
_MAX_CONNECT_S = 10.0


class Executor:
    """Runs statements of PostgreSQL; the database is a connection string."""

    own_mb = 0

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def worn_out(self) -> bool:
        """Never: all that a statement took goes with its connection."""
        return False

    def split(self, sql: str) -> list[str]:
        """The statements of `sql`, as PostgreSQL's lexer finds them."""
        return split(sql)

    def run(self, database: str, statement: str, deadline: float) -> Result:
        """Run one statement on a new connection, read-only. Every failure is a result."""
        if (word := first_word(statement)) not in _QUERIES:
            if word in _COMMANDS:
                return Result(Status.DENIED, error=f"{word} is not allowed, only SELECT")
            return Result(Status.ERROR, error=f'syntax error at or near "{word or statement[:20]}"')
        if name := _DENIED_NAMES.search(statement):
            return Result(Status.DENIED, error=f"{name.group()} is not allowed, wherever it stands")
        try:
            connection = _connect(database, self._limits, deadline)
        except (psycopg.Error, MemoryError, _Powerful) as error:
            return Result(Status.INFRASTRUCTURE, error=f"PostgreSQL: {_one_line(error)}")
        with connection:
            try:
                return self._fetch(connection, statement)
            except MemoryError:
                return Result(Status.TOO_LARGE, error="the query needs more memory than allowed")
            except psycopg.Error as error:
                return _failure(error, self._limits)

    def _fetch(self, connection: psycopg.Connection, statement: str) -> Result:
        cursor = connection.cursor()
        stream = cursor.stream(statement, size=_ROWS_AT_ONCE)
        try:
            head = list(itertools.islice(stream, 1))
            if head:
                columns = tuple([column.name for column in cursor.description])
            else:
                columns = _described(connection, statement)
            rows = itertools.chain(head, stream)
            return collect(lambda count: list(itertools.islice(rows, count)), columns, self._limits)
        finally:
            connection.close()  # before the stream, which would otherwise read to the end of a result cut short


def _described(connection: psycopg.Connection, statement: str) -> tuple[str, ...]:
    """The names of a statement's columns, which psycopg's stream does not tell where there is no row."""
    connection.pgconn.prepare(b"", statement.encode())
    described = connection.pgconn.describe_prepared(b"")
    return tuple([described.fname(index).decode("utf-8", "replace") for index in range(described.nfields)])


class _Powerful(Exception):
    """The role may do more than a model's SQL should."""


def _connect(conninfo: str, limits: Limits, deadline: float) -> psycopg.Connection:
    """A connection inside a read-only transaction, with all limits set."""
    seconds = max(1.0, min(_MAX_CONNECT_S, deadline - time.perf_counter()))
    connection = psycopg.connect(
        conninfo, autocommit=True, connect_timeout=int(seconds), application_name="serl sandbox", context=_PlainCells
    )
    try:
        connection.execute(_settings(connection.info.server_version, limits, deadline))
        power = connection.execute(_POWER_OF_ROLE).fetchone()
        if power is not None:
            raise _Powerful(
                f"the role {power[0]} {power[1]}; connect as one that may only read, such as a member of "
                "pg_read_all_data"
            )
        connection.execute("BEGIN TRANSACTION READ ONLY")
    except BaseException:
        connection.close()
        raise
    return connection


def _settings(server_version: int, limits: Limits, deadline: float) -> str:
    values = {
        "statement_timeout": f"{max(1, round(1000 * (deadline - time.perf_counter())))}",  # ms
        "lock_timeout": f"{max(1, round(500 * limits.timeout_s))}",  # ms; as SQLite's wait for a locked file
        "default_transaction_read_only": "on",
        "max_parallel_workers_per_gather": "0",
        "client_min_messages": "error",
        "client_encoding": "UTF8",
        "standard_conforming_strings": "on",  # what the lexer and therefore the split rely on
        "TimeZone": "UTC",  # from here on: the text of a value is the same on every server
        "DateStyle": "ISO",
        "IntervalStyle": "postgres",
        "bytea_output": "hex",
        "extra_float_digits": "1",
    }
    if server_version >= 140_000:
        values["client_connection_check_interval"] = "500"  # ms
    return "; ".join(f"SET {name} = '{value}'" for name, value in values.items())


def _failure(error: psycopg.Error, limits: Limits) -> Result:
    state, message = error.sqlstate or "", _one_line(error)
    if state == "57014":  # query_canceled
        return Result(Status.TIMEOUT, error=f"stopped after {limits.timeout_s:g} s")
    if state in ("25006", "42501"):  # read_only_sql_transaction, insufficient_privilege
        return Result(Status.DENIED, error=message)
    # out_of_memory, configuration_limit_exceeded (temporary files), program_limit_exceeded; or libpq's own
    if state in ("53200", "53400", "54000") or (state in ("", "XX000") and "memory" in message):
        return Result(Status.TOO_LARGE, error=message)
    broken = not state and isinstance(error, psycopg.OperationalError)
    if broken or (state.startswith(_OUR_FAULT) and state != "08P01"):  # that one: a $1 without a value
        return Result(Status.INFRASTRUCTURE, error=f"PostgreSQL: {message}")
    return Result(Status.ERROR, error=message)


def _one_line(error: Exception) -> str:
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((primary or str(error)).split())


class _TextLoader(Loader):
    """The server's own text of a value. Text of a server without an encoding may be anything."""

    def load(self, data) -> str:
        return bytes(data).decode("utf-8", "replace")


class _NumericLoader(Loader):
    def load(self, data) -> int | float:
        return plain_cell(Decimal(bytes(data).decode()))


class _BoolLoader(Loader):
    def load(self, data) -> int:
        return int(bytes(data) == b"t")


class _PlainCells:
    """psycopg's adaptation context in which every value becomes a plain cell (see cells.py).

    Dates, times, intervals, UUIDs, JSON, arrays and rows are the server's own text: '2020-01-31 08:00:00',
    '1 mon 2 days', '{1,NULL,3}'.
    """

    connection = None
    adapters = AdaptersMap(types=psycopg.adapters.types)
    for _name in ("int2", "int4", "int8", "oid"):
        adapters.register_loader(_name, IntLoader)
    for _name in ("float4", "float8"):
        adapters.register_loader(_name, FloatLoader)
    adapters.register_loader("numeric", _NumericLoader)
    adapters.register_loader("bool", _BoolLoader)
    adapters.register_loader("bytea", ByteaLoader)
    adapters.register_loader(0, _TextLoader)  # all others
