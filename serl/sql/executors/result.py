"""What an executor hands back, and reading a result within its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from serl.sql import frames
from serl.sql.limits import Limits
from serl.sql.outcome import Status

PREVIEW_ROWS = 20  # rows of a too large result that are still shown
_FIRST_CHUNK = 32  # rows read before the width of a row is known: of the widest, 32 cells of max_cell_bytes
_CHUNK_ROWS = 512
_CHUNK_BYTES = 1_000_000


@dataclass(frozen=True)
class Result:
    """An outcome whose rows are pickled already, in chunks. The fields are those of Outcome."""

    status: Status
    columns: tuple[str, ...] = ()
    chunks: tuple[bytes, ...] = ()
    row_count: int = 0
    error: str = ""


def collect(fetch: Callable[[int], list[tuple]], columns: tuple[str, ...], limits: Limits) -> Result:
    """Read rows of plain cells by `fetch(count)` until there are no more, or more than allowed.

    No more than max_rows + 1 rows are read, nor much more than max_bytes, whatever the query returns.
    """
    chunks: list[bytes] = []
    preview: list[tuple] = []
    count = size = 0
    wanted = _FIRST_CHUNK
    while rows := fetch(min(wanted, limits.max_rows + 1 - count)):
        preview = preview or rows[:PREVIEW_ROWS]
        chunk = frames.pack(rows)
        chunks.append(chunk)
        count += len(rows)
        size += len(chunk)
        if len(chunk) > limits.max_cell_bytes and _widest_cell(rows) > limits.max_cell_bytes:
            message = f"a value has more than {limits.max_cell_bytes} bytes"
            return Result(Status.TOO_LARGE, columns, row_count=count, error=message)
        if count > limits.max_rows or size > limits.max_bytes:
            what = f"{limits.max_rows} rows" if count > limits.max_rows else f"{limits.max_bytes} bytes"
            message = f"the result has more than {what}"
            return Result(Status.TOO_LARGE, columns, (frames.pack(preview),), count, message)
        wanted = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES * count // size))
    return Result(Status.OK if count else Status.EMPTY, columns, tuple(chunks), count)


def _widest_cell(rows: list[tuple]) -> int:
    return max((len(cell) for row in rows for cell in row if isinstance(cell, (str, bytes))), default=0)
