"""Checking a data set: load it, run every gold query, count what came of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from serl.data.example import Example
from serl.sql.sandbox import Sandbox


def check(examples: Sequence[Example], sandbox: Sandbox) -> dict[str, Any]:
    """Run the gold of all examples, with a progress bar, and report.

    Returns {"examples", "databases", "seconds", "status": {status: count}, "failing": [{"question_id",
    "db_id", "status", "error", "sql"}]}. An empty result is counted but is no failure.
    """
    start = time.perf_counter()
    jobs = [(example.db_path, example.gold_sql) for example in examples]
    progress = tqdm(sandbox.iter_many(jobs), total=len(jobs), desc="gold", unit="query", disable=None)
    outcomes = list(progress)
    failing = [
        {
            "question_id": example.question_id,
            "db_id": example.db_id,
            "status": outcome.status.value,
            "error": outcome.error,
            "sql": example.gold_sql,
        }
        for example, outcome in zip(examples, outcomes)
        if not outcome.ran
    ]
    return {
        "examples": len(examples),
        "databases": len({example.db_id for example in examples}),
        "seconds": round(time.perf_counter() - start, 3),
        "status": dict(Counter(outcome.status.value for outcome in outcomes).most_common()),
        "failing": failing,
    }
