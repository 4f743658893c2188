"""A comparison of arms as a picture: each arm's curves beside the baseline's, and its differences at the end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from serl.view.figure import new_figure, write_png
from serl.view.lines import smooth
from serl.view.picture import BLUE, INK, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from serl.sweep.compare import Arm, Comparison

COLUMNS = 4


def sweep_picture(comparison: Comparison, target: Path) -> Path:
    """Write the picture and return its path: for each curve a panel an arm, then one of differences for each metric.

    Bands and bars are 95% intervals over seeds. Panels of one curve have one scale.
    """
    others = [arm for arm in comparison.arms if arm.name != comparison.baseline] or list(comparison.arms)
    rows = math.ceil(len(others) / COLUMNS)
    ends = 0.9 + 0.25 * len(others)
    heights = [*[1.8 * rows] * len(comparison.curves), *[ends] * math.ceil(len(comparison.metrics) / COLUMNS)]
    figure = new_figure(3.2 * COLUMNS, sum(heights))
    parts = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    for curve in comparison.curves:
        part = next(parts)
        part.suptitle(f"{curve}, % (95% band over seeds)", x=0.01, ha="left", fontsize=11, color=INK)
        panels = part.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).flat
        for arm in others:
            _curves(next(panels), comparison, arm, curve)
        for spare in panels:
            spare.set_axis_off()
    for start in range(0, len(comparison.metrics), COLUMNS):
        panels = next(parts).subplots(1, COLUMNS, sharey=True, squeeze=False).flat
        for metric in comparison.metrics[start: start + COLUMNS]:
            _differences(next(panels), comparison, metric)
        for spare in panels:
            spare.set_axis_off()
    return write_png(figure, target)


def _curves(axes: Axes, comparison: Comparison, arm: Arm, curve: str) -> None:
    """The baseline's curve and the arm's, with their numbers of seeds; moving averages where they are long."""
    plain_axes(axes, arm.name)
    base = [each for each in comparison.arms if each.name == comparison.baseline and each is not arm]
    for each, colour in [*((own, INK) for own in base), (arm, BLUE)]:
        points = each.curves[curve]
        window = len(points) // 10
        middle, low, high = (smooth([(updates, 100 * getattr(mean, end)) for updates, mean in points], window)
                             for end in ("value", "low", "high"))
        if middle:
            updates = [place for place, _ in middle]
            axes.plot(updates, [value for _, value in middle], color=colour, linewidth=1.5,
                      label=f"{each.name} ({len(each.seeds)})")
            axes.fill_between(updates, [value for _, value in low], [value for _, value in high], color=colour,
                              alpha=0.15, linewidth=0)
    if axes.has_data():
        axes.legend(frameon=False, fontsize=7, labelcolor=INK)


def _differences(axes: Axes, comparison: Comparison, metric: str) -> None:
    plain_axes(axes, f"{metric} less {comparison.baseline}'s, points")
    found = [(arm.name, arm.differences[metric]) for arm in comparison.arms if arm.differences]
    for place, (_, mean) in enumerate(found):
        if math.isfinite(mean.value):
            reach = 0.0 if math.isnan(mean.low) else 100 * (mean.high - mean.value)
            axes.errorbar(100 * mean.value, place, xerr=reach, fmt="o", color=BLUE, markersize=4, capsize=2)
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, -1), max(right, 1))  # less than a point is not blown up
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(found)), [name for name, _ in found])
    axes.set_ylim(max(1, len(found)) - 0.5, -0.5)
