"""Summaries of the stages → one table, for the terminal and for Markdown.

One block a split or difficulty; in it a row a stage and a column a metric. Values are percentages with
their 95% interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Summary = Mapping[str, Any]
MISSING = "–"


@dataclass(frozen=True)
class Block:
    """The part of the table that one group of questions makes: `rows` are (stage, one cell a metric)."""

    name: str
    questions: int
    rows: tuple[tuple[str, tuple[Mapping[str, float] | None, ...]], ...]


def metric_names(summaries: Sequence[Summary]) -> list[str]:
    """Metric names of all summaries, in order of first appearance (greedy, mean@N, vote@N, oracle@N)."""
    groups = [group for summary in summaries for group in _groups(summary).values()]
    return list(dict.fromkeys(name for metrics in groups for name in metrics))


def blocks(summaries: Sequence[Summary], names: Sequence[str] | None = None) -> list[Block]:
    """The table's blocks: seen, unseen, all, then one a difficulty. Groups without questions are left out."""
    names = metric_names(summaries) if names is None else names
    group_names = dict.fromkeys(name for summary in summaries for name in _groups(summary))
    return [_block(group, summaries, names) for group in group_names if _has_questions(group, summaries)]


def cell_text(estimate: Mapping[str, float] | None) -> str:
    """`61.2 (56.3–65.9)`: the value and its interval in percent.

    >>> cell_text({"value": 0.8, "low": 0.49, "high": 0.943})
    '80.0 (49.0–94.3)'
    """
    if estimate is None:
        return MISSING
    value, low, high = (100 * estimate[key] for key in ("value", "low", "high"))
    return f"{value:.1f} ({low:.1f}–{high:.1f})"


def plain_table(summaries: Sequence[Summary], names: Sequence[str] | None = None) -> str:
    """The table as aligned text, without a trailing newline; `names` are the metrics to show, all by default."""
    names = metric_names(summaries) if names is None else names
    header = ["", *names]
    lines = [header]
    for block in blocks(summaries, names):
        lines.append([f"{block.name} ({block.questions})"])
        lines += [[f"  {stage}", *map(cell_text, cells)] for stage, cells in block.rows]
    # A block's heading may run past the first column, so only full rows decide the widths.
    full = [line for line in lines if len(line) == len(header)]
    widths = [max(len(line[column]) for line in full) for column in range(len(header))]
    title = "Execution accuracy, % (95% interval); oracle@N needs gold and is an upper bound"
    return "\n".join([title, *("  ".join(map(_pad, line, widths)).rstrip() for line in lines)])


def markdown_table(summaries: Sequence[Summary]) -> str:
    """The table as a Markdown table with the columns questions, stage, then one a metric."""
    header = ["questions", "stage", *metric_names(summaries)]
    lines = [header, ["---", "---", *["---:"] * (len(header) - 2)]]
    for block in blocks(summaries):
        questions = f"{block.name} ({block.questions})"
        lines += [[questions, stage, *map(cell_text, cells)] for stage, cells in block.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _groups(summary: Summary) -> dict[str, Mapping[str, Any]]:
    return {**summary["splits"], **summary["by_difficulty"]}


def _has_questions(group: str, summaries: Sequence[Summary]) -> bool:
    return any(_groups(summary).get(group) for summary in summaries)


def _block(group: str, summaries: Sequence[Summary], names: Sequence[str]) -> Block:
    """One group's block. Stages may differ in size when one was cut short: the largest is shown."""
    metrics = [_groups(summary).get(group, {}) for summary in summaries]
    rows = tuple(
        (summary["stage"], tuple(of_stage.get(name) for name in names))
        for summary, of_stage in zip(summaries, metrics, strict=True)
        if of_stage
    )
    sizes = [estimate["n"] for of_stage in metrics for estimate in of_stage.values()]
    return Block(group, max(sizes), rows)


def _pad(text: str, width: int) -> str:
    return text.ljust(width)
