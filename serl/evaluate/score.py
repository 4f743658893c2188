"""Scoring predictions by official metrics: run gold and predictions once, then ask every metric about each question."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

from serl.data.example import Example
from serl.data.predictions import Predictions
from serl.evaluate.judged import Judged, Score
from serl.evaluate.metrics import Metric
from serl.sql.cache import OutcomeCache
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox

MISSING = "missing"  # stands for the status of a prediction that is not there

_Job = tuple[Path, str]  # database, text
Known = dict[Path, dict[str, Outcome]]
"""Outcomes by database and text."""


@dataclasses.dataclass(frozen=True)
class Scored:
    """One question's scores by metric. `pred_status` is `missing` where there is no prediction."""

    example: Example
    pred_status: str
    gold_status: str
    scores: Mapping[str, Score]

    def to_json(self) -> dict[str, Any]:
        """One line of `serl score --out`."""
        return {
            "index": self.example.position,
            "question_id": self.example.question_id,
            "db_id": self.example.db_id,
            "pred_status": self.pred_status,
            "gold_status": self.gold_status,
            "metrics": {name: dataclasses.asdict(score) for name, score in self.scores.items()},
        }


def score(
    examples: Sequence[Example],
    predictions: Predictions,
    metrics: Mapping[str, Metric],
    sandbox: Sandbox,
    gold_cache: Path,
    prediction_cache: Path,
) -> list[Scored]:
    """Scores of all questions in their order, with progress bars on stderr.

    The caches are files of outcomes: gold's is shared by whoever runs the same data, the predictions' should belong
    to one prediction file. Statements that two metrics run are run once.
    """
    texts = {metric.text for metric in metrics.values()}
    gold = dict.fromkeys((e.db_path, sql) for e in examples for sql in _texts(e.gold_sql, texts))
    predicted = dict.fromkeys(
        (e.db_path, sql)
        for e in examples
        for sql in _texts(predictions.sql.get(e.question_id, ""), texts)
        if (e.db_path, sql) not in gold
    )
    known: Known = defaultdict(dict)
    _run_all("gold", gold, gold_cache, sandbox, known)
    _run_all("predictions", predicted, prediction_cache, sandbox, known)

    def judge(example: Example, names: Iterable[str]) -> dict[str, Score]:
        sql = predictions.sql.get(example.question_id, "")
        return {name: _score(metrics[name], example, sql, known[example.db_path], sandbox) for name in names}

    together = [name for name, metric in metrics.items() if not metric.alone]
    alone = [name for name, metric in metrics.items() if metric.alone]
    bar = {"total": len(examples), "unit": "question", "disable": None}
    with ThreadPoolExecutor(sandbox.workers) as threads:  # some metrics run statements of their own
        scores = list(tqdm(threads.map(lambda e: judge(e, together), examples), desc="metrics", **bar))
    if alone:
        timed = (judge(example, alone) for example in examples)
        scores = [first | second for first, second in zip(scores, tqdm(timed, desc="timing", **bar))]
    return [
        Scored(
            example,
            pred_status=_status(example, predictions, known[example.db_path]),
            gold_status=known[example.db_path][example.gold_sql].status.value,
            scores={name: found[name] for name in metrics},
        )
        for example, found in zip(examples, scores)
    ]


def prediction_cache_name(pred_file: Path) -> str:
    """A name for the cache of a prediction file's outcomes: by its content, so that no two files share one."""
    return f"predictions_{hashlib.sha256(pred_file.read_bytes()).hexdigest()[:16]}.jsonl"


def _texts(sql: str, texts: Iterable[Callable[[str], str]]) -> set[str]:
    return {sql, *(text(sql) for text in texts)} if sql.strip() else set()


def _run_all(what: str, jobs: Iterable[_Job], cache: Path, sandbox: Sandbox, known: Known) -> None:
    """Put the outcome of every job into `known`."""
    jobs = list(jobs)
    for (database, sql), outcome in zip(jobs, OutcomeCache(cache, _Visible(sandbox, what)).outcomes(jobs)):
        known[database][sql] = outcome


class _Visible:
    """A sandbox whose `run_many` shows a progress bar."""

    def __init__(self, sandbox: Sandbox, what: str):
        self.limits, self.dialect = sandbox.limits, sandbox.dialect
        self._sandbox, self._what = sandbox, what

    def run_many(self, jobs: Iterable[_Job]) -> list[Outcome]:
        jobs = list(jobs)
        outcomes = self._sandbox.iter_many(jobs)
        return list(tqdm(outcomes, total=len(jobs), desc=self._what, unit="query", disable=None))


def _score(metric: Metric, example: Example, sql: str, known: dict[str, Outcome], sandbox: Sandbox) -> Score:
    """One metric's score of one question, or the reason why the metric is not asked."""
    gold = known[example.gold_sql]
    if metric.executes and not gold.ran:
        return Score(None, f"gold has no result: {gold.status.value}")
    if not sql.strip():
        return Score(0.0, "no prediction")
    predicted = known[sql]
    if metric.executes and predicted.status is Status.INFRASTRUCTURE:
        return Score(None, f"the sandbox failed: {predicted.error}")
    return metric.score(Judged(example, gold, sql, predicted, sandbox, known))


def _status(example: Example, predictions: Predictions, known: dict[str, Outcome]) -> str:
    sql = predictions.sql.get(example.question_id)
    if sql is None:
        return MISSING
    return known[sql].status.value if sql.strip() else Status.NO_STATEMENT.value
