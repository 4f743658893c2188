"""A run folder → RUN/picture.png: the learning curve, and execution accuracy before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serl.view.figure import new_figure, write_png
from serl.view.lines import smooth
from serl.view.rundata import RunData, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, INK, GRID = "#2a78d6", "#d9622b", "#16855f", "#333333", "#dddddd"
CURVES = (("reward/mean", "reward", ORANGE), ("ex/train", "execution accuracy, train", BLUE))
EVAL_POINTS = (("eval/seen", "eval, seen", BLUE, "o"), ("eval/unseen", "eval, unseen", GREEN, "D"))
SPLIT_COLOURS = {"seen": BLUE, "unseen": GREEN}
BAR_WIDTH = 0.36


def write_picture(run_dir: Path) -> Path:
    """Write RUN/picture.png and return its path. A panel without data says so; errors as `RunData.read`."""
    run = RunData.read(run_dir)
    figure = new_figure(11, 4)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    _learning_curve(left, run.metrics)
    _before_after(right, run.summaries)
    figure.suptitle(run.name.replace("$", r"\$"), x=0.01, ha="left", fontsize=12, color=INK)
    return write_png(figure, run_dir / "picture.png")


def _learning_curve(axes: Axes, metrics: list[dict[str, Any]]) -> None:
    """Reward and accuracy over steps: faint as measured, bold as moving average, marks where evaluated."""
    plain_axes(axes, "Training")
    for key, label, colour in CURVES:
        points = series(metrics, key)
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, alpha=0.25, linewidth=1)
            averaged = smooth(points, len(points) // 10)
            axes.plot(*zip(*averaged, strict=True), color=colour, linewidth=2, label=label)
    for key, label, colour, marker in EVAL_POINTS:
        points = series(metrics, key)
        if points:
            style = {"color": colour, "marker": marker, "markeredgecolor": "white", "markersize": 8}
            axes.plot(*zip(*points, strict=True), linestyle="none", label=label, **style)
    axes.set_xlabel("step", color=INK)
    if axes.has_data():
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    else:
        _say(axes, "no training step recorded")


def _before_after(axes: Axes, summaries: Sequence[Mapping[str, Any]]) -> None:
    """Greedy accuracy of every stage on seen and unseen databases, with 95% intervals."""
    plain_axes(axes, "Greedy execution accuracy, % (95% interval)")
    for offset, (split, colour) in zip((-0.5, 0.5), SPLIT_COLOURS.items(), strict=True):
        bars = [
            (position, summary["splits"][split]["greedy"])
            for position, summary in enumerate(summaries)
            if summary["splits"].get(split, {}).get("greedy")
        ]
        if bars:
            xs = [position + offset * (BAR_WIDTH + 0.04) for position, _ in bars]
            _bars(axes, xs, [estimate for _, estimate in bars], colour, split)
    axes.set_xticks(range(len(summaries)), [summary["stage"] for summary in summaries])
    if axes.has_data():
        axes.set_ylim(0, 112)  # room for the number above an interval that ends at 100
        axes.set_yticks(range(0, 101, 20))
        axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left")
    else:
        _say(axes, "no evaluation written")


def _bars(axes: Axes, xs: list[float], estimates: list[Mapping[str, float]], colour: str, label: str) -> None:
    values = [100 * estimate["value"] for estimate in estimates]
    reaches = [
        [100 * (estimate["value"] - estimate["low"]) for estimate in estimates],
        [100 * (estimate["high"] - estimate["value"]) for estimate in estimates],
    ]
    axes.bar(xs, values, BAR_WIDTH, color=colour, label=label)
    axes.errorbar(xs, values, yerr=reaches, fmt="none", ecolor=INK, elinewidth=1, capsize=3)
    for x, estimate, value in zip(xs, estimates, values, strict=True):
        axes.text(x, 100 * estimate["high"] + 2, f"{value:.1f}", ha="center", fontsize=9, color=INK)


def plain_axes(axes: Axes, title: str) -> None:
    """A title, and no ink that says nothing."""
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRID)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color=INK)
