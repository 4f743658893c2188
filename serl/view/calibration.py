"""Calibration of the reward selector as a picture: chance against share of right ones, and how many have it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from serl.view.figure import new_figure, write_png
from serl.view.picture import BLUE, GRID, INK, plain_axes

if TYPE_CHECKING:
    from serl.select.learn import Calibration


def calibration_picture(found: Calibration, title: str, target: Path) -> Path:
    """Write the picture and return its path: points with 95% intervals over questions, the diagonal is perfect."""
    figure = new_figure(5.5, 6)
    figure.suptitle(title.replace("$", r"\$"), x=0.01, ha="left", fontsize=11, color=INK)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    plain_axes(upper, f"out of fold: calibration error {found.error:.3f}, AUC {found.auc:.3f}")
    upper.plot([0, 1], [0, 1], color=GRID, linewidth=1.5, zorder=0)
    x = [each.chance for each in found.bins]
    y = [each.right.value for each in found.bins]
    spread = [[each.right.value - each.right.low for each in found.bins],
              [each.right.high - each.right.value for each in found.bins]]
    upper.errorbar(x, y, spread, color=BLUE, marker="o", markersize=6, linewidth=1, capsize=3)
    upper.set_xlim(0, 1)
    upper.set_ylim(0, 1)
    upper.set_ylabel("share that is right (95% interval over questions)", color=INK)
    plain_axes(lower, "")
    lower.bar([(each.low + each.high) / 2 for each in found.bins], [each.right.n for each in found.bins],
              width=[0.9 * (each.high - each.low) for each in found.bins], color=BLUE)
    lower.set_ylabel("candidates", color=INK)
    lower.set_xlabel("P(right) that the selector gives", color=INK)
    return write_png(figure, target)
