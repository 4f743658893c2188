"""Finished runs of a sweep → what the arms have reached, and how they differ from the baseline.

Seeds are the unit. Means have Student's t interval over seeds, m ± t(0.975, n − 1) s / √n: a percentile bootstrap over
so few is far too narrow (of 5 normal values it covers the mean in 83% of cases where it says 95%). Differences are
taken seed by seed, since runs of a seed share the questions' order and the streams of sampling: d_s = arm_s −
baseline_s, then the same interval. `updates to baseline` is the number of updates after which an arm's mean curve first
reaches the baseline's last value, between two points on a line.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from serl.config import load_config
from serl.evaluate.summary import read_summaries
from serl.io import atomic_write_text
from serl.sweep.plan import Run, Sweep
from serl.tracking import read_metrics

Curve = list[tuple[int, float]]  # (updates, value)


@dataclass(frozen=True)
class Mean:
    """A mean over `n` seeds with its 95% interval; NaN ends with a single seed."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Arm:
    """`means` and `differences` to the baseline by metric; `curve` is the mean over seeds."""

    name: str
    seeds: tuple[int, ...]
    means: Mapping[str, Mean]
    differences: Mapping[str, Mean]
    curve: Curve
    updates_to_baseline: float | None


@dataclass(frozen=True)
class Comparison:
    """The arms that have finished runs, in the file's order."""

    arms: tuple[Arm, ...]
    baseline: str
    metrics: tuple[str, ...]
    curve: str
    missing: int  # runs that are not there yet

    def to_json(self) -> dict[str, Any]:
        """JSON has no NaN: what is not known is null."""
        return _known(asdict(self))

    def text(self) -> str:
        """The table in Markdown."""
        head = ["arm", "seeds", *(f"{metric} | − {self.baseline}" for metric in self.metrics),
                f"updates to {self.baseline}'s last {self.curve}"]
        rows = [[arm.name, str(len(arm.seeds)),
                 *(f"{_percent(arm.means.get(metric))} | {_points(arm.differences.get(metric))}"
                   for metric in self.metrics),
                 "–" if arm.updates_to_baseline is None else f"{arm.updates_to_baseline:.0f}"] for arm in self.arms]
        align = "|---|---:|" + "---:|" * (2 * len(self.metrics) + 1)
        lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
        return "\n".join([lines[0], align, *lines[1:]])


def compare(sweep: Sweep, folder: Path) -> Comparison | None:
    """The comparison of the runs in `folder` that have their last evaluation; None if there is none."""
    found: dict[str, dict[int, tuple[dict[str, float], Curve]]] = {arm: {} for arm in sweep.arms}
    for run in sweep.runs:
        if (folder / run.name / "eval" / "rl" / "summary.json").is_file():
            found[run.arm][run.seed] = _read(folder, run, sweep)
    done = sum(map(len, found.values()))
    if not done:
        return None
    base, curves = found[sweep.baseline], {arm: _mean_curve([curve for _, curve in own.values()])
                                           for arm, own in found.items()}
    goal = curves[sweep.baseline][-1][1] if curves[sweep.baseline] else None
    arms = []
    for name, own in found.items():
        if own:
            means = {metric: mean_of([values[metric] for values, _ in own.values()]) for metric in sweep.metrics}
            shared = [seed for seed in own if seed in base] if name != sweep.baseline else []
            apart = {metric: mean_of([own[seed][0][metric] - base[seed][0][metric] for seed in shared])
                     for metric in sweep.metrics} if shared else {}
            reached = None if goal is None else updates_to(curves[name], goal)
            arms.append(Arm(name, tuple(own), means, apart, curves[name], reached))
    return Comparison(tuple(arms), sweep.baseline, sweep.metrics, sweep.curve, len(sweep.runs) - done)


def mean_of(values: Sequence[float]) -> Mean:
    """Mean and Student's t interval.

    >>> mean = mean_of([1.0, 2.0, 3.0])
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    from scipy.stats import t

    size = len(values)
    value = math.fsum(values) / size
    if size < 2:
        return Mean(value, math.nan, math.nan, size)
    deviation = math.sqrt(math.fsum((each - value) ** 2 for each in values) / (size - 1))
    half = float(t.ppf(0.975, size - 1)) * deviation / math.sqrt(size)
    return Mean(value, value - half, value + half, size)


def updates_to(curve: Curve, goal: float) -> float | None:
    """Where a curve first reaches `goal`; None: nowhere.

    >>> updates_to([(0, 0.5), (10, 0.7), (20, 0.6)], 0.6)
    5.0
    """
    before: tuple[int, float] | None = None
    for updates, value in curve:
        if value >= goal:
            if before is None:
                return float(updates)
            (start, low) = before
            return start + (updates - start) * (goal - low) / (value - low)
        before = (updates, value)
    return None


def write_comparison(comparison: Comparison, sweep: Sweep, file: Path, folder: Path) -> Path:
    """Write NAME.md, NAME.csv and NAME.png into a folder; returns the first."""
    from serl.view.sweep import sweep_picture

    where = folder / f"{sweep.name}.md"
    atomic_write_text(where, f"# {sweep.name}\n\n{comparison.text()}\n\n{_note(comparison, file)}\n")
    atomic_write_text(where.with_suffix(".csv"), _csv(comparison))
    sweep_picture(comparison, where.with_suffix(".png"))
    return where


def _read(folder: Path, run: Run, sweep: Sweep) -> tuple[dict[str, float], Curve]:
    summary = next(summary for summary in read_summaries(folder / run.name) if summary["stage"] == "rl")
    values = {}
    for metric in sweep.metrics:
        split, name = metric.split("/")
        estimate = summary["splits"].get(split, {}).get(name)
        values[metric] = math.nan if estimate is None else estimate["value"]
    config = folder / run.name / "config.yaml"
    passes = load_config(config).train.updates_per_batch if config.is_file() else 1
    curve = [((row["step"] + 1) * passes, row[sweep.curve]) for row in read_metrics(folder / run.name)
             if sweep.curve in row]
    return values, curve


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    """Mean of the points that all curves have."""
    if not curves:
        return []
    common = sorted(set.intersection(*(set(dict(curve)) for curve in curves)))
    return [(updates, math.fsum(dict(curve)[updates] for curve in curves) / len(curves)) for updates in common]


def _note(comparison: Comparison, file: Path) -> str:
    from serl.tracking import describe_environment

    environment = describe_environment([])
    git = environment["git"] or {}
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    commit = f"commit {git['commit']}{' with changes' if git['dirty'] else ''}" if git else "no commit known"
    lacking = f"; {comparison.missing} runs are not done" if comparison.missing else ""
    return ("Execution accuracy in %, mean over seeds and 95% interval (Student's t); differences to "
            f"{comparison.baseline} in points, seed by seed{lacking}.\n"
            f"Made by `serl sweep {file}`, {commit}, {versions}.")


def _csv(comparison: Comparison) -> str:
    """One line for each arm and metric; values as fractions."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["arm", "seeds", "metric", "mean", "low", "high", "difference", "difference_low",
                     "difference_high", "updates_to_baseline"])
    for arm in comparison.arms:
        for metric in comparison.metrics:
            own, apart = arm.means[metric], arm.differences.get(metric)
            rest = ["", "", ""] if apart is None else [apart.value, apart.low, apart.high]
            writer.writerow([arm.name, len(arm.seeds), metric, own.value, own.low, own.high, *rest,
                             "" if arm.updates_to_baseline is None else arm.updates_to_baseline])
    return out.getvalue()


def _percent(mean: Mean | None) -> str:
    """`61.2 (60.1–62.3)`."""
    if mean is None or math.isnan(mean.value):
        return "–"
    ends = "" if math.isnan(mean.low) else f" ({100 * mean.low:.1f}–{100 * mean.high:.1f})"
    return f"{100 * mean.value:.1f}{ends}"


def _points(mean: Mean | None) -> str:
    """`+1.2 (−0.3 to +2.7)`."""
    if mean is None or math.isnan(mean.value):
        return "–"

    def signed(value: float) -> str:
        return f"{100 * value:+.1f}".replace("-", "−")

    ends = "" if math.isnan(mean.low) else f" ({signed(mean.low)} to {signed(mean.high)})"
    return signed(mean.value) + ends
