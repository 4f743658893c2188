"""Scores of questions → totals by metric and level of difficulty, for dialogues QM and IM, and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serl.data.example import Example
from serl.errors import InputError
from serl.evaluate.dialogue import DialogueMatch, interaction_match
from serl.evaluate.score import Scored
from serl.evaluate.spider.hardness import hardness
from serl.evaluate.spider.parser import NotInSubset, parse
from serl.evaluate.spider.schema import read_schema
from serl.evaluate.stats import Estimate, bootstrap_mean
from serl.evaluate.summary import DIFFICULTIES
from serl.evaluate.table import cell_text

ALL = "all"
UNKNOWN = "unknown"

Totals = dict[str, dict[str, Estimate]]
"""Level of difficulty (`all` is the last) → metric → mean with its interval, of the questions that have a score."""


def difficulty(example: Example) -> str:
    """The data set's own word; else Spider's hardness of gold; `unknown` where gold or its schema cannot be read."""
    if example.difficulty:
        return example.difficulty
    if example.tables_path is None:
        return UNKNOWN
    try:
        return hardness(parse(example.gold_sql, read_schema(example.db_path, example.tables_path, example.db_id)))
    except (NotInSubset, InputError):
        return UNKNOWN


def totals(scored: Sequence[Scored], seed: int = 0) -> Totals:
    """Means with bootstrap 95% intervals. Levels and metrics without any score are left out, `all` never."""
    by_level: dict[str, list[Scored]] = {level: [] for level in (*DIFFICULTIES, UNKNOWN)}
    for one in scored:
        by_level.setdefault(difficulty(one.example), []).append(one)
    if sum(map(bool, by_level.values())) < 2:
        by_level = {}  # one level is the same as all
    means = {level: _means(group, seed) for level, group in by_level.items() if group}
    return {level: of_level for level, of_level in means.items() if of_level} | {ALL: _means(scored, seed)}


def left_out(scored: Sequence[Scored]) -> dict[str, dict[str, str]]:
    """Metric → question id → why the question has no score; metrics that scored all are left out."""
    reasons: dict[str, dict[str, str]] = {}
    for one in scored:
        for name, score in one.scores.items():
            if score.score is None:
                reasons.setdefault(name, {})[one.example.question_id] = score.reason
    return reasons


def dialogues(scored: Sequence[Scored], metrics: Sequence[str], seed: int = 0) -> dict[str, DialogueMatch]:
    """Metric → QM and IM of the turns of dialogues; empty where there are none. `metrics` give 0 or 1."""
    groups = [one.example.interaction for one in scored]
    if not any(group is not None for group in groups):
        return {}
    records = [one.to_json() for one in scored]
    return {name: interaction_match(records, groups, name, seed) for name in metrics}


def dialogue_table(matches: Mapping[str, DialogueMatch]) -> str:
    """QM, IM and QM by turn as aligned text, in percent with the interval."""
    rows: dict[str, dict[str, Estimate]] = {}
    for name, match in matches.items():
        found = {"question match": match.question_match, "interaction match": match.interaction_match}
        found |= {f"turn {group}": estimate for group, estimate in match.by_turn.items()}
        for row, estimate in found.items():
            if estimate is not None:
                rows.setdefault(row, {})[name] = estimate
    return table(rows, list(matches))


def table(totals: Totals, metrics: Sequence[str]) -> str:
    """The totals as aligned text: a row a level, a column a metric, in percent with the interval."""
    lines = [["", *metrics]]
    for level, means in totals.items():
        size = max((mean.n for mean in means.values()), default=0)
        cells = [cell_text(means[name].to_json() if name in means else None) for name in metrics]
        lines.append([f"{level} ({size})", *cells])
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def to_json(totals: Totals) -> dict[str, Any]:
    """Plain data: level → metric → {value, low, high, n}."""
    return {level: {name: mean.to_json() for name, mean in means.items()} for level, means in totals.items()}


def _means(scored: Sequence[Scored], seed: int) -> Mapping[str, Estimate]:
    names = scored[0].scores
    values = {
        name: [score for one in scored if (score := one.scores[name].score) is not None] for name in names
    }
    return {name: bootstrap_mean(of_metric, seed) for name, of_metric in values.items() if of_metric}
