"""Candidates of an evaluation → its summary: greedy, mean@N, and one metric a selector, with intervals.

Two kinds of rows say nothing about the model and are left out rather than scored as wrong:
questions whose gold query did not run (counted as `excluded`), and candidates lost to a failure of the
sandbox itself (counted as `infrastructure`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from serl.evaluate.stats import mean_at_n, wilson
from serl.io import read_json
from serl.select import SELECTORS
from serl.select.candidate import ANSWERED, Candidate

STAGES = ("init", "sft", "rl")
SPLITS = ("seen", "unseen", "all")
DIFFICULTIES = ("simple", "moderate", "challenging", "easy", "medium", "hard", "extra")

Row = Mapping[str, Any]
Metrics = dict[str, dict[str, float | int]]


def summarize(
    rows: Sequence[Row], stage: str, n: int, seconds: float, select: Sequence[str] = ("vote", "oracle"), seed: int = 0
) -> dict[str, Any]:
    """Summary of one stage, in the shape of `summary.json`.

    `rows` are lines of `candidates.jsonl`; of each question's samples the first `n` count. `select` names selectors of
    `serl.select`. With n = 0 only
    greedy is reported. A split that no question falls in maps to {}. `seconds` is the evaluation's wall time.
    """
    scored = [row for row in rows if row["gold"]["status"] in ANSWERED]
    by_split = {
        "seen": [row for row in scored if row["seen"]],
        "unseen": [row for row in scored if not row["seen"]],
        "all": scored,
    }
    levels = {row["difficulty"] for row in scored if row["difficulty"]}
    return {
        "stage": stage,
        "n": n,
        "questions": len(scored),
        "excluded": len(rows) - len(scored),
        "infrastructure": sum(len(_candidates(row, n)) - len(_usable(_candidates(row, n))) for row in scored),
        "seconds": seconds,
        "splits": {split: _metrics(by_split[split], n, select, seed) for split in SPLITS},
        "by_difficulty": {
            level: _metrics([row for row in scored if row["difficulty"] == level], n, select, seed)
            for level in sorted(levels, key=_difficulty_rank)
        },
    }


def read_summaries(run_dir: Path) -> list[dict[str, Any]]:
    """The summaries under RUN/eval, in the order of training: init, sft, rl, then others by name."""
    found = {path.parent.name: path for path in (run_dir / "eval").glob("*/summary.json")}
    order = [stage for stage in STAGES if stage in found] + sorted(set(found) - set(STAGES))
    return [read_json(found[stage]) for stage in order]


def _metrics(rows: Sequence[Row], n: int, select: Sequence[str], seed: int) -> Metrics:
    """Every metric that has at least one question to stand on."""
    metrics: Metrics = {}
    greedy = [row["greedy"]["correct"] for row in rows if _usable([row["greedy"]])]
    if greedy:
        metrics["greedy"] = wilson(sum(greedy), len(greedy)).to_json()
    groups = [samples for row in rows if (samples := _usable(row["samples"][:n]))]
    if groups:
        correct = [[sample["correct"] for sample in samples] for samples in groups]
        metrics[f"mean@{n}"] = mean_at_n(correct, seed).to_json()
        for name in select:
            picked = _picked_correct(groups, SELECTORS[name])
            metrics[f"{name}@{n}"] = wilson(picked, len(groups)).to_json()
    return metrics


def _picked_correct(
    groups: Sequence[Sequence[Candidate]], pick: Callable[[Sequence[Candidate]], int | None]
) -> int:
    """In how many groups the picked candidate is correct; a group where nothing is picked is not."""
    picks = [(samples, pick(samples)) for samples in groups]
    return sum(index is not None and samples[index]["correct"] for samples, index in picks)


def _candidates(row: Row, n: int) -> list[Candidate]:
    return [row["greedy"], *row["samples"][:n]]


def _usable(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates whose outcome is the model's own doing."""
    return [candidate for candidate in candidates if candidate["status"] != "infrastructure"]


def _difficulty_rank(level: str) -> tuple[int, str]:
    """Known levels from easy to hard, unknown ones after them by name."""
    return (DIFFICULTIES.index(level) if level in DIFFICULTIES else len(DIFFICULTIES), level)
