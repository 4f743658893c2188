"""Candidates of an evaluation → its summary: greedy, mean@N, and one metric a selector, with intervals.

Two kinds of rows say nothing about the model and are left out rather than scored as wrong:
questions whose gold query did not run (counted as `excluded`), and candidates lost to a failure of the
sandbox itself (counted as `infrastructure`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from serl.evaluate.candidates import MarkedPool
from serl.evaluate.selection import Outcomes, outcomes, selection
from serl.evaluate.stats import mean_at_n, wilson
from serl.io import read_json
from serl.select import ORACLE, Pick, selectors
from serl.select.adaptive import CONFIDENCE
from serl.select.candidate import ANSWERED

STAGES = ("init", "sft", "rl")
DIFFICULTIES = ("simple", "moderate", "challenging", "easy", "medium", "hard", "extra")

Row = Mapping[str, Any]
Metrics = dict[str, dict[str, float | int]]


def summarize(
    rows: Sequence[Row], stage: str, n: int, seconds: float, select: Sequence[str] = ("vote", ORACLE), seed: int = 0,
    picks: Mapping[str, Pick] | None = None, confidence: float = CONFIDENCE,
) -> dict[str, Any]:
    """Summary of one stage, in the shape of `summary.json`.

    `rows` are lines of `candidates.jsonl`; of each question's samples the first `n` count. `select` names selectors of
    `serl.select`, and the oracle; `picks` are these, where one was learnt. With n = 0 only greedy is reported. A split
    that no question falls in maps to {}. `seconds` is the evaluation's wall time. `selection` compares the selectors at
    every N (`serl.evaluate.selection`).
    """
    scored = [MarkedPool.from_json(row) for row in rows if row["gold"]["status"] in ANSWERED]
    right = outcomes(scored, selectors(select) if picks is None else picks, n) if n else {}
    by_split = {
        "seen": [place for place, pool in enumerate(scored) if pool.seen],
        "unseen": [place for place, pool in enumerate(scored) if not pool.seen],
        "all": list(range(len(scored))),
    }
    levels = {pool.difficulty for pool in scored if pool.difficulty}
    names = [name for name in select if name != "greedy"]

    def metrics(places: Sequence[int]) -> Metrics:
        return _metrics(scored, places, n, names, right, seed)

    summary = {
        "stage": stage,
        "n": n,
        "questions": len(scored),
        "excluded": len(rows) - len(scored),
        "infrastructure": sum(each.lost for pool in scored for each in (pool.pool.greedy, *pool.pool.samples[:n])),
        "seconds": seconds,
        "splits": {split: metrics(places) for split, places in by_split.items()},
        "by_difficulty": {
            level: metrics([place for place, pool in enumerate(scored) if pool.difficulty == level])
            for level in sorted(levels, key=_difficulty_rank)
        },
    }
    return summary | ({"selection": selection(scored, right, n, confidence, seed)} if n else {})


def read_summaries(run_dir: Path) -> list[dict[str, Any]]:
    """The summaries under RUN/eval, in the order of training: init, sft, rl, then others by name."""
    found = {path.parent.name: path for path in (run_dir / "eval").glob("*/summary.json")}
    order = [stage for stage in STAGES if stage in found] + sorted(set(found) - set(STAGES))
    return [read_json(found[stage]) for stage in order]


def _metrics(pools: Sequence[MarkedPool], places: Sequence[int], n: int, select: Sequence[str], right: Outcomes,
             seed: int) -> Metrics:
    """Every metric that has at least one question to stand on."""
    metrics: Metrics = {}
    greedy = [pools[place].greedy_correct for place in places if not pools[place].pool.greedy.lost]
    if greedy:
        metrics["greedy"] = wilson(sum(greedy), len(greedy)).to_json()
    groups = {place: correct for place in places if (correct := pools[place].usable_correct(n))}
    if groups:
        metrics[f"mean@{n}"] = mean_at_n(list(groups.values()), seed).to_json()
        for name in select:
            metrics[f"{name}@{n}"] = wilson(sum(right[name, n][place] for place in groups), len(groups)).to_json()
    return metrics


def _difficulty_rank(level: str) -> tuple[int, str]:
    """Known levels from easy to hard, unknown ones after them by name."""
    return (DIFFICULTIES.index(level) if level in DIFFICULTIES else len(DIFFICULTIES), level)
