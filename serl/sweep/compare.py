"""Finished runs of a sweep → what the arms have reached, and how they differ from the baseline.

Seeds are the unit. Runs of a seed share the questions' order and the streams of sampling, so everything that sets an
arm beside another is taken over the seeds that both have, seed by seed:

    difference   d_s = arm_s − baseline_s
    share        mean d / mean d of the ceiling: how much an arm has of what the best there can be is worth
    reached      the updates after which the arm's mean curve first reaches the baseline's last value; and in how many
                 seeds its own curve does

Runs that are compared differ by nothing but the options of their arms: InputError if they do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from serl.commands.options import MAY_CHANGE, differences
from serl.config import Config, load_config
from serl.errors import InputError
from serl.io import read_json
from serl.sweep.plan import Run, Sweep
from serl.sweep.stats import Mean, Points, mean_of, ratio_of, updates_to
from serl.tracking import read_metrics

Curve = tuple[tuple[int, Mean], ...]  # (updates, mean over seeds)

# What tells runs apart without being learned from.
_FREE = ("name", "runs", "seed", "grounding.cache", "sql.gold_cache",
         *(key for key in MAY_CHANGE if key not in ("train.steps", "eval.")))


@dataclass(frozen=True)
class Reached:
    """`updates` of the mean curve to the baseline's last value, None: it is never there; `seeds` of `of` are."""

    updates: float | None
    seeds: int
    of: int


@dataclass(frozen=True)
class Arm:
    """By metric: `means`, `differences` to the baseline, `shares` of the ceiling. By curve: `curves`, `reached`."""

    name: str
    seeds: tuple[int, ...]
    means: Mapping[str, Mean]
    differences: Mapping[str, Mean]
    shares: Mapping[str, Mean]
    curves: Mapping[str, Curve]
    reached: Mapping[str, Reached]


@dataclass(frozen=True)
class Comparison:
    """The arms that have finished runs, in the file's order; `learned`: what the baseline gained along each curve."""

    arms: tuple[Arm, ...]
    baseline: str
    ceiling: str | None
    metrics: tuple[str, ...]
    curves: tuple[str, ...]
    learned: Mapping[str, Mean]  # from the curve's first point to its last
    seeds: int  # that each arm should have
    missing: int  # runs that are not there yet

    def to_json(self) -> dict[str, Any]:
        """JSON has no NaN: what is not known is null."""
        return _known(asdict(self))


@dataclass(frozen=True)
class _Result:
    """What one run has reached; NaN: a metric that its last evaluation does not have."""

    values: Mapping[str, float]
    curves: Mapping[str, Points]


def compare(sweep: Sweep, folder: Path, more: Sequence[tuple[str, str]] = ()) -> Comparison | None:
    """The comparison of the runs in `folder` that have their last evaluation; None if there is none.

    `more` are the options of all runs from the command line. InputError if runs differ by more than their arms do.
    """
    done = [run for run in sweep.runs if _summary(folder, run).is_file()]
    if not done:
        return None
    configs = [load_config(folder / run.name / "config.yaml") for run in done]
    _check_alike(sweep, folder, done, configs, more)
    found: dict[str, dict[int, _Result]] = {arm: {} for arm in sweep.arms}
    for run, config in zip(done, configs):
        found[run.arm][run.seed] = _read(folder, run, sweep, config.train.updates_per_batch)
    arms = tuple(_arm(name, own, found[sweep.baseline], found.get(sweep.ceiling, {}), sweep)
                 for name, own in found.items() if own)
    return Comparison(arms, sweep.baseline, sweep.ceiling, sweep.metrics, sweep.curves,
                      _learned(list(found[sweep.baseline].values()), sweep.curves), len(sweep.seeds),
                      len(sweep.runs) - len(done))


def _arm(name: str, own: Mapping[int, _Result], base: Mapping[int, _Result], best: Mapping[int, _Result],
         sweep: Sweep) -> Arm:
    both = [seed for seed in own if seed in base]
    three = [seed for seed in both if seed in best]

    def gains(runs: Mapping[int, _Result], seeds: Sequence[int], metric: str) -> list[float]:
        return [runs[seed].values[metric] - base[seed].values[metric] for seed in seeds]

    apart = {metric: mean_of(gains(own, both, metric)) for metric in sweep.metrics} if both else {}
    shares = {metric: ratio_of(gains(own, three, metric), gains(best, three, metric)) for metric in sweep.metrics}
    return Arm(name, tuple(own), {metric: mean_of([each.values[metric] for each in own.values()])
                                  for metric in sweep.metrics},
               apart if name != sweep.baseline else {},
               shares if three and name not in (sweep.baseline, sweep.ceiling) else {},
               {curve: _mean_curve([each.curves[curve] for each in own.values()]) for curve in sweep.curves},
               {curve: _reached([(own[seed].curves[curve], base[seed].curves[curve]) for seed in both])
                for curve in sweep.curves})


def _learned(base: Sequence[_Result], curves: Sequence[str]) -> dict[str, Mean]:
    gains = {curve: [own[-1][1] - own[0][1] for each in base if (own := each.curves[curve])] for curve in curves}
    return {curve: mean_of(values) for curve, values in gains.items() if values}


def _mean_curve(curves: Sequence[Points]) -> Curve:
    """Means of the points that all curves have."""
    known = [dict(curve) for curve in curves]
    return tuple((updates, mean_of([own[updates] for own in known]))
                 for updates in sorted(set.intersection(*map(set, known))))


def _reached(pairs: Sequence[tuple[Points, Points]]) -> Reached:
    """From each seed's curve and that of the baseline."""
    pairs = [(own, base) for own, base in pairs if own and base]
    if not pairs:
        return Reached(None, 0, 0)
    own, base = ([(updates, mean.value) for updates, mean in _mean_curve(curves)] for curves in zip(*pairs))
    seeds = sum(updates_to(each, goal[-1][1]) is not None for each, goal in pairs)
    return Reached(updates_to(own, base[-1][1]) if base else None, seeds, len(pairs))


def _summary(folder: Path, run: Run) -> Path:
    return folder / run.name / "eval" / "rl" / "summary.json"


def _read(folder: Path, run: Run, sweep: Sweep, passes: int) -> _Result:
    """A run's result; `passes` are its updates a step."""
    splits, values = read_json(_summary(folder, run))["splits"], {}
    for metric in sweep.metrics:
        split, name = metric.split("/")
        estimate = splits.get(split, {}).get(name)
        values[metric] = math.nan if estimate is None else estimate["value"]
    rows = read_metrics(folder / run.name)
    return _Result(values, {curve: [((row["step"] + 1) * passes, row[curve]) for row in rows if curve in row]
                            for curve in sweep.curves})


def _check_alike(sweep: Sweep, folder: Path, runs: Sequence[Run], configs: Sequence[Config],
                 more: Sequence[tuple[str, str]]) -> None:
    """InputError if a run has not the options of its arm, or differs from the first one by others."""
    first, first_config = runs[0], configs[0]
    for run, config in zip(runs, configs):
        where = folder / run.name
        changed = differences(config, load_config(where / "config.yaml", [*run.options, *more]))
        if changed:
            raise InputError(f"{where}: it was not run with the options of sweep {sweep.name} ({changed[0]}); remove "
                             "it, or give the options that all runs were given")
        own = {key for each in (run, first) for key, _ in each.options}
        apart = [text for text in differences(first_config, config)
                 if not text.startswith(_FREE) and text.partition(":")[0] not in own]
        if apart:
            raise InputError(f"{where}: it differs from {first.name} by more than its arm does ({apart[0]}), so the "
                             "two cannot be compared; remove one of them")


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
