"""A comparison of arms as Markdown, as CSV and as a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from serl.io import atomic_write_text
from serl.sweep.compare import Arm, Comparison
from serl.sweep.plan import Sweep
from serl.sweep.stats import Mean

MOST_POINTS = 8
"""Columns of a curve's table."""


def text_of(comparison: Comparison) -> str:
    """Three parts in Markdown: what the arms have reached, what the ceiling is worth, the curves."""
    parts = [_end(comparison)]
    if comparison.ceiling is not None:
        parts.append(_shares(comparison))
    return "\n\n".join([*parts, *(_curve(comparison, curve) for curve in comparison.curves)])


def write_comparison(comparison: Comparison, sweep: Sweep, file: Path, folder: Path) -> Path:
    """Write NAME.md, NAME.csv and NAME.png into a folder; returns the first."""
    from serl.view.sweep import sweep_picture

    where = folder / f"{sweep.name}.md"
    atomic_write_text(where, f"# {sweep.name}\n\n{text_of(comparison)}\n\n{_note(comparison, file)}\n")
    atomic_write_text(where.with_suffix(".csv"), _csv(comparison))
    sweep_picture(comparison, where.with_suffix(".png"))
    return where


def _end(comparison: Comparison) -> str:
    baseline = comparison.baseline
    return _markdown(["arm", "seeds", *(head for metric in comparison.metrics for head in (metric, f"− {baseline}"))],
                     ([*_named(arm, comparison),
                       *(cell for metric in comparison.metrics
                         for cell in (_percent(arm.means[metric]), _points(arm.differences.get(metric), arm)))]
                      for arm in comparison.arms))


def _shares(comparison: Comparison) -> str:
    """What the ceiling is worth, and the share of it that each arm has, where there is something to share."""
    name = comparison.ceiling
    best = next((arm for arm in comparison.arms if arm.name == name and arm.differences), None)
    if best is None:
        return f"{name}, the ceiling, has no finished run of a seed of {comparison.baseline}'s: no share can be told."
    said = "; ".join(f"{metric} {_points(best.differences[metric], best)}" for metric in comparison.metrics)
    lines = [f"What {name}, the ceiling, is worth, in points beside {comparison.baseline}: {said}."]
    shown = [metric for metric in comparison.metrics if best.differences[metric].low > 0]
    if not shown:
        return f"{lines[0]} None of it is shown to be above 0, so no arm has a share of it that could be told."
    table = _markdown(["arm", *(f"share of it, {metric}" for metric in shown)],
                      ([arm.name, *(_percent(arm.shares[metric]) for metric in shown)]
                       for arm in comparison.arms if arm.shares))
    return "\n\n".join([*lines, table])


def _curve(comparison: Comparison, curve: str) -> str:
    """Means at some of its points, when the baseline's last value is reached, and whether that says anything."""
    at = sorted({updates for arm in comparison.arms for updates, _ in arm.curves[curve]})
    at = [at[round(place)] for place in _evenly(len(at))]
    known = [dict(arm.curves[curve]) for arm in comparison.arms]
    head = [f"{curve} at update", *map(str, at), f"updates to {comparison.baseline}'s last", "seeds that reach it"]
    table = _markdown(head, ([arm.name, *(_percent(own.get(updates)) for updates in at), *_reached(arm, curve)]
                             for arm, own in zip(comparison.arms, known)))
    learned = comparison.learned.get(curve)
    if learned is None:
        return table
    doubt = "" if learned.low > 0 else ", which is not shown to be above 0: when others reach its last says little"
    return f"{table}\n\n{comparison.baseline} gains {_signed(learned)} points from its first point to its last{doubt}."


def _evenly(size: int) -> list[float]:
    """At most MOST_POINTS places of `size`, the last one among them.

    >>> _evenly(3), len(_evenly(99)), _evenly(99)[-1]
    ([0, 1, 2], 8, 98.0)
    """
    if size <= MOST_POINTS:
        return list(range(size))
    return [(size - 1) * (place + 1) / MOST_POINTS for place in range(MOST_POINTS)]


def _reached(arm: Arm, curve: str) -> tuple[str, str]:
    reached = arm.reached[curve]
    return "–" if reached.updates is None else f"{reached.updates:.0f}", f"{reached.seeds} of {reached.of}"


def _named(arm: Arm, comparison: Comparison) -> tuple[str, str]:
    return arm.name, f"{len(arm.seeds)} of {comparison.seeds}"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _note(comparison: Comparison, file: Path) -> str:
    from serl.environment import describe_environment

    environment = describe_environment([])
    git = environment["git"] or {}
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    commit = f"commit {git['commit']}{' with changes' if git['dirty'] else ''}" if git else "no commit known"
    lacking = (f" {comparison.missing} runs are not done: compare the differences, not the means of other seeds."
               if comparison.missing else "")
    return ("In %, mean over seeds with its 95% interval (Student's t; of a share Fieller's). One seed, or values that "
            f"are all the same, have none. Differences to {comparison.baseline} are points, seed by seed, over seeds "
            "that both have; updates to its last value go by these seeds too. The first table is of the last "
            "evaluation, curves are of a smaller probe or of training; seen and unseen are databases that training has "
            f"and has not. {len(comparison.arms)} arms are compared, and no interval is widened for that.{lacking}\n"
            f"Made by `serl sweep {file}`, {commit}, {versions}.")


def _csv(comparison: Comparison) -> str:
    """One line for each arm and metric; values as fractions."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["arm", "seeds", "metric", "mean", "low", "high", "difference", "difference_low",
                     "difference_high", "difference_seeds", "share", "share_low", "share_high"])
    for arm in comparison.arms:
        for metric in comparison.metrics:
            own, apart, share = arm.means[metric], arm.differences.get(metric), arm.shares.get(metric)
            rest = [""] * 4 if apart is None else [apart.value, apart.low, apart.high, apart.n]
            rest += [""] * 3 if share is None else [share.value, share.low, share.high]
            writer.writerow([arm.name, len(arm.seeds), metric, own.value, own.low, own.high, *rest])
    return out.getvalue()


def _percent(mean: Mean | None) -> str:
    """`61.2 (60.1–62.3)`, `61.2 (−3.0 to 62.3)`."""
    if mean is None or math.isnan(mean.value):
        return "–"
    low, high = (f"{100 * end:.1f}".replace("-", "−") for end in (mean.low, mean.high))
    ends = "" if math.isnan(mean.low) else f" ({low} to {high})" if mean.low < 0 else f" ({low}–{high})"
    return f"{100 * mean.value:.1f}".replace("-", "−") + ends


def _points(mean: Mean | None, arm: Arm) -> str:
    """`+1.2 (−0.3 to +2.7)`, and over how many seeds if these are not all of the arm's."""
    if mean is None or math.isnan(mean.value):
        return "–"
    return _signed(mean) + (f", {mean.n} seed{'s' * (mean.n != 1)}" if mean.n < len(arm.seeds) else "")


def _signed(mean: Mean) -> str:
    value, low, high = (f"{100 * each:+.1f}".replace("-", "−") for each in (mean.value, mean.low, mean.high))
    return value if math.isnan(mean.low) else f"{value} ({low} to {high})"
