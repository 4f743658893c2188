"""Results of gold queries, computed once for a data set and kept on disk (see cache.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from serl.data.example import Example
from serl.sql.cache import OutcomeCache
from serl.sql.outcome import Outcome
from serl.sql.sandbox import Sandbox


class GoldCache:
    """Gold outcomes in the file `path`, made with `sandbox` where they are missing."""

    def __init__(self, path: Path | str, sandbox: Sandbox):
        self._cache = OutcomeCache(path, sandbox)

    def outcomes(self, examples: Sequence[Example]) -> dict[str, Outcome]:
        """What came of every example's gold query, by question_id; only those not in the file are run."""
        outcomes = self._cache.outcomes([(example.db_path, example.gold_sql) for example in examples])
        return {example.question_id: outcome for example, outcome in zip(examples, outcomes)}
