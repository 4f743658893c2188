"""What came of one SQL statement: a status, and the result or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How a statement ended. All but `infrastructure` are the doing of whoever wrote the SQL."""

    OK = "ok"
    """It ran and returned at least one row."""
    EMPTY = "empty"
    """It ran and returned no row."""
    ERROR = "error"
    """The engine refused it: syntax, unknown names, a failing function."""
    TIMEOUT = "timeout"
    """It was stopped at the time limit."""
    DENIED = "denied"
    """It asked for more than one read-only query: a write, ATTACH, PRAGMA, a second statement."""
    TOO_LARGE = "too_large"
    """It went over a limit of size: rows, bytes, one value, memory, or the text of the SQL itself."""
    NO_STATEMENT = "no_statement"
    """Nothing to run: an empty text, or only comments."""
    INFRASTRUCTURE = "infrastructure"
    """A failure of ours (database file missing, damaged or locked; worker lost). Never score it."""


@dataclass(frozen=True)
class Outcome:
    """The typed result of one statement.

    `columns` and `rows` are the query's own names and order; cells are None, int, float, str or bytes.
    `row_count` is the number of rows read: more than `len(rows)` where rows were left out (a
    `too_large` outcome keeps a few as a preview, `to_json` can cap them). `error` is one line, "" when
    the statement ran. `ms` is the time in the engine, waiting for a worker not included.
    """

    status: Status
    columns: tuple[str, ...] = ()
    rows: tuple[tuple, ...] = ()
    row_count: int = 0
    error: str = ""
    ms: float = 0.0

    @property
    def ran(self) -> bool:
        """Whether there is a whole result to compare."""
        return self.status in (Status.OK, Status.EMPTY)

    def to_json(self, max_rows: int | None = None) -> dict[str, Any]:
        """Plain data for json.dumps, with at most `max_rows` rows (None: all)."""
        return {
            "status": self.status.value,
            "columns": list(self.columns),
            "rows": [_row_to_json(row) for row in self.rows[:max_rows]],
            "row_count": self.row_count,
            "error": self.error,
            "ms": round(self.ms, 3),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """The outcome that `to_json` wrote."""
        return cls(
            status=Status(data["status"]),
            columns=tuple(data["columns"]),
            rows=tuple([_row_from_json(row) for row in data["rows"]]),
            row_count=data["row_count"],
            error=data["error"],
            ms=data["ms"],
        )


_SAME_IN_JSON = frozenset((type(None), int, str))


def _row_to_json(row: tuple) -> list:
    # Results have many rows: the ones that need no translation, most of them, are not taken apart.
    return list(row) if _SAME_IN_JSON.issuperset(map(type, row)) else [_cell_to_json(cell) for cell in row]


def _row_from_json(row: list) -> tuple:
    return tuple([_cell_from_json(cell) for cell in row]) if dict in map(type, row) else tuple(row)


def _cell_to_json(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return {"hex": cell.hex()}
    if isinstance(cell, float) and not math.isfinite(cell):
        return {"real": str(cell)}  # JSON has no infinity, and a browser rejects Python's spelling of it
    return cell


def _cell_from_json(cell: Any) -> Any:
    if isinstance(cell, dict):
        return bytes.fromhex(cell["hex"]) if "hex" in cell else float(cell["real"])
    return cell
