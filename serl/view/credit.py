"""The table of `serl credit` as a picture: AUCs with their intervals, each gap beside its controls.

A row of panels for the sources without a teacher, then one for each teacher and gap; all tokens on the left, uncertain
ones on the right. The dashed line is the student's own −logp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from serl.hindsight.controls import CONTROLS
from serl.hindsight.credit.mistakes import Row, Table
from serl.view.figure import new_figure, write_png
from serl.view.picture import BLUE, GREEN, GRID, INK, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_TEACHER, BASE = "no teacher", "student −logp"
PARTS = (("overall", "all tokens"), ("uncertain", "uncertain tokens"))
COLOURS = dict(zip(CONTROLS, (INK, ORANGE, GREEN), strict=True))
WAYS = (" − empty", " / spread")
"""How a gap may be measured, at the end of what its hindsight is called."""


@dataclass(frozen=True)
class Line:
    """A row of the table under a short name, with the rows of its controls by kind."""

    name: str
    row: Row
    controls: Mapping[str, Row] = field(default_factory=dict)


def credit_picture(table: Table, title: str, target: Path) -> Path:
    """Write the picture and return its path."""
    panels = panels_of(table)
    heights = [0.5 + 0.24 * len(lines) for lines in panels.values()]
    figure = new_figure(11, 1.2 + sum(heights))
    figure.suptitle(f"{title}: {table.samples} failed samples".replace("$", r"\$"), x=0.01, ha="left", fontsize=11,
                    color=INK)
    grid = figure.subplots(max(1, len(panels)), 2, sharex=True, sharey="row", squeeze=False,
                           height_ratios=heights or None)
    base = next((row for row in table.rows if row.source == BASE), None)
    for axes_2, (heading, lines) in zip(grid, panels.items()):
        for axes, (part, label) in zip(axes_2, PARTS):
            axes.set_title(f"{heading}: {label}", loc="left", fontsize=9, color=INK)
            _draw(axes, lines, part, None if base is None else getattr(base, part).value)
    for axes in grid[-1]:
        axes.set_xlim(0, 1.02)
        axes.set_xlabel("AUC of blame for wrong tokens (95% interval over questions; 0.5 is chance)", color=INK,
                        fontsize=9)
    handles, labels = _legend(grid)
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9, labelcolor=INK)
    return write_png(figure, target)


def panels_of(table: Table) -> dict[str, list[Line]]:
    """Lines by heading, in the table's order. Controls have no lines of their own."""
    known = {(row.source, row.teacher, row.hindsight): row for row in table.rows}
    panels: dict[str, list[Line]] = {}
    for row in table.rows:
        if not row.teacher:
            panels.setdefault(NO_TEACHER, []).append(Line(row.source, row))
        elif row.leads:
            way = next((way for way in WAYS if row.hindsight.endswith(way)), "")
            beside = (known.get((row.source, row.teacher, lead.control)) for lead in row.leads)
            controls = {_kind(each.hindsight.removesuffix(way)): each for each in beside if each is not None}
            passes = " ✓" if all(lead.won for lead in row.leads) else ""
            line = Line(row.hindsight.removesuffix(way) + passes, row, controls)
            panels.setdefault(f"{row.source}{way}, {row.teacher}", []).append(line)
    return panels


def _kind(control: str) -> str:
    """Of `exec shuffled`: shuffled."""
    return next(kind for kind in CONTROLS if kind in control.split())


def _draw(axes: Axes, lines: Sequence[Line], part: str, base: float | None) -> None:
    for place, line in enumerate(lines):
        own = getattr(line.row, part)
        if own.value is not None:
            # A percentile interval need not hold the value itself; a bar cannot have a negative length.
            reach = [[max(0.0, own.value - own.low)], [max(0.0, own.high - own.value)]]
            axes.errorbar([own.value], [place], xerr=reach, fmt="o", color=BLUE, markersize=5, elinewidth=1.5,
                          capsize=2, label="its AUC")
        for kind, control in line.controls.items():
            value = getattr(control, part).value
            if value is not None:
                axes.plot([value], [place], "|", color=COLOURS[kind], markersize=9, markeredgewidth=2, label=kind)
    axes.axvline(0.5, color=INK, linewidth=1)
    if base is not None:
        axes.axvline(base, color=INK, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(lines)), [line.name for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    axes.grid(axis="x", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def _legend(grid) -> tuple[list, list[str]]:
    """One handle for each label of all panels."""
    found: dict[str, object] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
