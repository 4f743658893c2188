"""Execution accuracy of the stages as an HTML table: a block a group of questions, a row a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serl.evaluate.table import Block, blocks, metric_names
from serl.view.html import Html, join, tag

STAGE_NAMES = {"init": "init: before any training", "sft": "sft: after the warm start", "rl": "rl: after RL"}

MEANING = (
    "Percent of questions whose result equals gold's, with 95% intervals over questions (Wilson; bootstrap "
    "for mean@N). “Seen” databases were trained on, “unseen” ones never. vote@N takes the most frequent "
    "result of N samples; other selectors' names@N choose among them in their own ways (serl select). "
    "oracle@N asks whether any of them was right: it needs gold and bounds every selector from above."
)


def evaluation_section(summaries: Sequence[Mapping[str, Any]]) -> Html:
    """The table and what its numbers mean; a sentence when nothing was evaluated."""
    if not summaries:
        return tag("p", "No evaluation has been written yet.", cls="note")
    names = metric_names(summaries)
    head = tag("tr", tag("th", "questions", scope="col"), *(tag("th", name, scope="col") for name in names))
    bodies = [_body(block, len(names)) for block in blocks(summaries)]
    table = tag("table", tag("thead", head), *bodies, cls="numbers evaluation")
    return join(
        [
            tag("div", table, cls="scroll", tabindex=0),
            *(tag("p", note, cls="note") for note in _notes(summaries)),
        ]
    )


def _body(block: Block, columns: int) -> Html:
    size = tag("small", f"{block.questions} question{'' if block.questions == 1 else 's'}")
    heading = tag("tr", tag("th", f"{block.name} ", size, scope="rowgroup", colspan=columns + 1), cls="block")
    rows = [
        tag(
            "tr",
            tag("th", stage, scope="row", title=STAGE_NAMES.get(stage)),
            *(_cell(estimate) for estimate in cells),
        )
        for stage, cells in block.rows
    ]
    return tag("tbody", heading, *rows)


def _cell(estimate: Mapping[str, float] | None) -> Html:
    """The value in percent, its interval beneath, and a small bar with the interval as a whisker."""
    if estimate is None:
        return tag("td", "–")
    value, low, high = (100 * estimate[key] for key in ("value", "low", "high"))
    bar = tag(
        "span",
        tag("i", style=f"width:{value:.1f}%"),
        tag("b", style=f"left:{low:.1f}%;width:{max(high - low, 0.5):.1f}%"),
        cls="meter",
        aria_hidden="true",
    )
    return tag("td", tag("strong", f"{value:.1f}"), tag("small", f" {low:.1f}–{high:.1f}"), bar)


def _notes(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = [MEANING]
    if excluded := max(summary["excluded"] for summary in summaries):
        notes.append(f"Left out because their gold query did not run: {excluded} of the questions.")
    for summary in summaries:
        if lost := summary["infrastructure"]:
            notes.append(
                f"{summary['stage']}: {lost} candidates were lost to sandbox failures and are not scored."
            )
    return notes
