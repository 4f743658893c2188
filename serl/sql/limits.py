"""The limits under which a statement runs."""

from __future__ import annotations

from dataclasses import dataclass, fields

from serl.errors import InputError

_MOST_SECONDS = 86_400.0  # the system's timers take no more than 24 days


@dataclass(frozen=True)
class Limits:
    """Limits of one statement. Whatever goes over one becomes `timeout` or `too_large`. InputError unless all are more
    than 0 and the seconds at most a day: there is no way to say "no limit"."""

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

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            most = _MOST_SECONDS if field.name.endswith("_s") else float("inf")
            if not 0 < value <= most:
                upper = f" and at most {most:g}" if most == _MOST_SECONDS else ""
                raise InputError(f"the sandbox's {field.name} is {value:g}, should be more than 0{upper}")


DEFAULT_LIMITS = Limits()
