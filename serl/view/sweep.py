"""A comparison of arms as a picture: mean curves against updates, and each arm's difference to the baseline."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from serl.view.figure import new_figure, write_png
from serl.view.lines import smooth
from serl.view.picture import INK, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from serl.sweep.table import Comparison


def sweep_picture(comparison: Comparison, target: Path) -> Path:
    """Write the picture and return its path. An arm has one colour in both panels."""
    from matplotlib import colormaps

    figure = new_figure(12, 1.8 + 0.4 * max(6, len(comparison.arms)))
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    colours = {arm.name: INK if arm.name == comparison.baseline else colormaps["tab20"](place % 20)
               for place, arm in enumerate(comparison.arms)}
    _curves(left, comparison, colours)
    _differences(right, comparison, colours)
    return write_png(figure, target)


def _curves(axes: Axes, comparison: Comparison, colours: dict) -> None:
    plain_axes(axes, f"{comparison.curve} against updates, mean over seeds (moving average)")
    for arm in comparison.arms:
        if arm.curve:
            points = smooth(arm.curve, len(arm.curve) // 10)
            axes.plot(*zip(*points), color=colours[arm.name], linewidth=2.5 if arm.name == comparison.baseline else 1.5,
                      label=f"{arm.name} ({len(arm.seeds)})")
    axes.set_xlabel("updates", color=INK)
    if axes.has_data():
        axes.legend(frameon=False, fontsize=8, labelcolor=INK)


def _differences(axes: Axes, comparison: Comparison, colours: dict) -> None:
    metric = comparison.metrics[0]
    plain_axes(axes, f"{metric} less {comparison.baseline}'s, points (95% interval)")
    found = [(arm.name, arm.differences[metric]) for arm in comparison.arms if metric in arm.differences]
    found = [(name, mean) for name, mean in found if math.isfinite(mean.value)]
    for place, (name, mean) in enumerate(found):
        reach = 0.0 if math.isnan(mean.low) else 100 * (mean.high - mean.value)
        axes.errorbar(100 * mean.value, place, xerr=reach, fmt="o", color=colours[name], capsize=3)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(found)), [name for name, _ in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
