"""The limits under which a statement runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one statement. Whatever goes over one becomes `timeout` or `too_large`."""

    timeout_s: float = 5.0
    """Wall-clock seconds after which the engine is interrupted."""
    grace_s: float = 1.0
    """Seconds after the deadline at which a worker that did not react (one long C call) is killed."""
    max_rows: int = 100_000
    """Rows of a result. Gold queries of real benchmarks return tens of thousands."""
    max_bytes: int = 16_000_000
    """Bytes of a result as it is sent: text in UTF-8 and blobs by their length, a few for every other cell."""
    max_cell_bytes: int = 4_000_000
    """Bytes of one value, also of those that only exist inside the query."""
    max_sql_bytes: int = 100_000
    """Bytes of the statement's text in UTF-8."""
    memory_mb: int = 1024
    """Address space of one worker (beside DuckDB's own code); an engine's heap in it may use half of it."""


DEFAULT_LIMITS = Limits()
