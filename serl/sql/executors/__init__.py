"""One engine a file: how a single statement runs in a worker process, read-only and within limits.

All give the same outcomes under the same limits. What differs is how each engine is held to them; the head
of each file says how. A worker loads one executor and nothing of the others.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Protocol

from serl.errors import InputError
from serl.sql.executors.result import Result
from serl.sql.limits import Limits

_PACKAGES = {"sqlite": None, "duckdb": "duckdb", "postgres": "psycopg"}  # what each needs beyond Python's own
DIALECTS = tuple(_PACKAGES)
"""The dialects of SQL that the sandbox runs; sqlglot knows them by the same names."""
FILE_DIALECTS = ("sqlite", "duckdb")
"""Those whose database is a file; a PostgreSQL database is named by a connection string."""


class Executor(Protocol):
    """Runs statements of one dialect. The worker has checked the text's size and encoding before."""

    own_mb: int
    """Address space that the engine itself takes, beside `Limits.memory_mb` for its statements."""

    def __init__(self, limits: Limits) -> None: ...

    def worn_out(self) -> bool:
        """Whether this process should make way for a new one before the next statement."""

    def split(self, sql: str) -> list[str]:
        """The statements of `sql`, as slices of it."""

    def run(self, database: str, statement: str, deadline: float) -> Result:
        """Run one statement on a new read-only connection; `deadline` is a time of time.perf_counter()."""


def load(dialect: str, limits: Limits) -> Executor:
    """The executor of a dialect, in the process that is to run statements."""
    return importlib.import_module(f"{__name__}.{dialect}").Executor(limits)


def engine_version(dialect: str) -> str:
    """The version of the engine that runs in the worker, of a dialect that is installed."""
    import sqlite3
    from importlib.metadata import version

    package = _PACKAGES[dialect]
    return sqlite3.sqlite_version if package is None else version(package)


def check_installed(dialect: str) -> None:
    """InputError where the dialect is unknown or its package absent."""
    if dialect not in _PACKAGES:
        raise InputError(f"unknown SQL dialect {dialect!r}; known are {', '.join(DIALECTS)}")
    package = _PACKAGES[dialect]
    if package is not None and importlib.util.find_spec(package) is None:
        raise InputError(f"dialect {dialect} needs the package {package}: pip install 'serl[{dialect}]'")
