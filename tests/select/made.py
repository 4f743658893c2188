"""Candidates made by hand."""

from serl.select.candidate import Candidate
from serl.select.sampled import result_key
from serl.sql.outcome import Outcome, Status


def outcome(*rows: tuple) -> Outcome:
    """A result of these rows; of one column where there is none."""
    columns = tuple("abcdef"[: len(rows[0]) if rows else 1])
    return Outcome(Status.OK if rows else Status.EMPTY, columns, rows, len(rows))


def candidate(*rows: tuple, **facts) -> Candidate:
    """A candidate whose result has these rows."""
    result = outcome(*rows)
    return Candidate(**{"sql": "SELECT 1", "status": str(result.status), "result_key": result_key(result),
                        "result": result} | facts)


def failed(status: str = "error", **facts) -> Candidate:
    return Candidate(**{"sql": "SELECT", "status": status} | facts)


def keyed(keys: str) -> list[Candidate]:
    """A candidate a letter, whose result is that letter."""
    return [candidate((key,)) for key in keys]
