"""The table of `serl credit` as a picture: each source's AUC with its interval, at all and at uncertain tokens."""

from __future__ import annotations

from pathlib import Path

from serl.hindsight.credit.auc import Auc
from serl.hindsight.credit.mistakes import Row, Table
from serl.view.figure import new_figure, write_png
from serl.view.picture import BLUE, GRID, INK, ORANGE

OFFSET = 0.16


def credit_picture(table: Table, title: str, target: Path) -> Path:
    """Write the picture and return its path; rows in the table's order, from above."""
    figure = new_figure(9, 1.4 + 0.42 * len(table.rows))
    axes = figure.subplots()
    for colour, label, part, offset in ((BLUE, "all tokens", "overall", -OFFSET),
                                        (ORANGE, "uncertain tokens", "uncertain", OFFSET)):
        points = [(place + offset, getattr(row, part)) for place, row in enumerate(table.rows)]
        _dots(axes, [point for point in points if point[1].value is not None], colour, label)
    axes.axvline(0.5, color=INK, linewidth=1)
    axes.set_yticks(range(len(table.rows)), [row_label(row) for row in table.rows])
    axes.set_ylim(len(table.rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("AUC of blame for the tokens that make SQL wrong (95% interval over questions; 0.5 is chance)",
                    color=INK, fontsize=9)
    axes.set_title(f"{title}: {table.samples} failed samples".replace("$", r"\$"), loc="left", fontsize=11, color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left")
    return write_png(figure, target)


def row_label(row: Row) -> str:
    """`teacher_gap, synchronized, exec ✓`: the mark says that a gap beats all its controls."""
    passes = " ✓" if row.leads and all(lead.won for lead in row.leads) else ""
    return ", ".join(part for part in (row.source, row.teacher, row.hindsight) if part) + passes


def _dots(axes, points: list[tuple[float, Auc]], colour: str, label: str) -> None:
    values = [auc.value for _, auc in points]
    # A percentile interval need not hold the value itself; a bar cannot have a negative length.
    reaches = [[max(0.0, auc.value - auc.low) for _, auc in points],
               [max(0.0, auc.high - auc.value) for _, auc in points]]
    axes.errorbar(values, [place for place, _ in points], xerr=reaches, fmt="o", color=colour, markersize=5,
                  elinewidth=1.5, capsize=2, label=label)
