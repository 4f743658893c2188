"""Results of gold queries, computed once and kept on disk.

The cache is one JSON-lines file. An entry is keyed by the database's content, the SQL and the limits, so
that a changed database or other limits never meet an old result. Outcomes that another try may change
(`timeout`, `infrastructure`) are not kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from grounding.io import file_sha256
from serl.data.example import Example
from serl.errors import InputError
from serl.io import read_jsonl, write_jsonl
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox

_MAY_CHANGE = (Status.TIMEOUT, Status.INFRASTRUCTURE)


class GoldCache:
    """Gold outcomes in the file `path`, made with `sandbox` where they are missing."""

    def __init__(self, path: Path | str, sandbox: Sandbox):
        self._path = Path(path)
        self._sandbox = sandbox
        self._database_hashes: dict[Path, str] = {}
        self._outcomes = _load(self._path)

    def outcomes(self, examples: Sequence[Example]) -> dict[str, Outcome]:
        """What came of every example's gold query, by question_id; only those not in the file are run."""
        keys = {example.question_id: self._key(example) for example in examples}
        missing = {
            key: (example.db_path, example.gold_sql)
            for example in examples
            if (key := keys[example.question_id]) not in self._outcomes
        }
        fresh = dict(zip(missing, self._sandbox.run_many(missing.values())))
        lasting = {key: outcome for key, outcome in fresh.items() if outcome.status not in _MAY_CHANGE}
        if lasting:
            self._outcomes.update(lasting)
            rows = ({"key": key, "outcome": outcome.to_json()} for key, outcome in self._outcomes.items())
            write_jsonl(self._path, rows)
        known = self._outcomes | fresh
        return {question_id: known[key] for question_id, key in keys.items()}

    def _key(self, example: Example) -> str:
        path = example.db_path
        if path not in self._database_hashes:
            self._database_hashes[path] = _sha256(path)
        parts = (self._database_hashes[path], example.gold_sql, repr(self._sandbox.limits))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _load(path: Path) -> dict[str, Outcome]:
    if not path.exists():
        return {}
    try:
        return {row["key"]: Outcome.from_json(row["outcome"]) for row in read_jsonl(path)}
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path}: not a cache of gold results ({error}); delete it to make it again"
        raise InputError(message) from error


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise InputError(f"{path}: cannot read the database ({error.strerror})") from error
