"""The learning curves of a run, from its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from serl.view.html import Html, join, tag
from serl.view.lines import Series, line_chart
from serl.view.rundata import series


@dataclass(frozen=True)
class Chart:
    """What one chart shows: (metric key, name in the legend) of each line; `exact`: see `Series`."""

    title: str
    lines: tuple[tuple[str, str], ...]
    percent: bool = False
    exact: tuple[str, ...] = ()


CHARTS = (
    Chart("Reward", (("reward/mean", "mean"), ("reward/std", "std"))),
    Chart(
        "Execution accuracy",
        (("ex/train", "train"), ("eval/seen", "eval, seen"), ("eval/unseen", "eval, unseen")),
        percent=True,
        exact=("eval/seen", "eval/unseen"),
    ),
    Chart("Mean gap Δ, teacher − student (nats)", (("hindsight/gap_mean", "mean"),)),
    Chart("Mean token weight ω", (("hindsight/weight_mean", "mean"),)),
    Chart(
        "Change of total |advantage| by ω",
        (("hindsight/abs_adv_gain_pos", "A > 0"), ("hindsight/abs_adv_gain_neg", "A < 0")),
    ),
    Chart("Hindsight strength λ", (("hindsight/lambda", "λ"),), exact=("hindsight/lambda",)),
    Chart(
        "Shares of the batch",
        (
            ("hindsight/coverage", "tokens with hindsight"),
            ("groups/zero_variance", "groups without variance"),
            ("ratio/clip_fraction", "clipped ratios"),
        ),
        percent=True,
    ),
    Chart("Gradient norm", (("grad_norm", "norm"),)),
    Chart("Loss", (("loss", "policy"), ("kl", "KL"))),
    Chart("Turns a trajectory", (("turns/mean", "mean"),)),
    Chart("Sampled tokens a step", (("tokens/sampled", "tokens"),)),
)


def curves_section(metrics: Sequence[dict[str, Any]]) -> Html:
    """Every chart that the run has values for."""
    rows = list(metrics)
    figures = [_figure(chart, rows) for chart in (CHARTS[0], *_terms(rows), *CHARTS[1:])]
    shown = [figure for figure in figures if figure is not None]
    if not shown:
        return tag("p", "No training step has been recorded yet.", cls="note")
    return join([tag("div", *shown, cls="charts")])


def _terms(rows: Sequence[dict[str, Any]]) -> list[Chart]:
    """The terms of the reward, where it has several."""
    total = {key for key, _ in CHARTS[0].lines}
    keys = [key for key in dict.fromkeys(key for row in rows for key in row)
            if key.startswith("reward/") and key not in total]
    lines = tuple((key, key.removeprefix("reward/")) for key in keys)
    return [Chart("Terms of the reward, before weighing", lines)] if len(lines) > 1 else []


def _figure(chart: Chart, rows: list[dict[str, Any]]) -> Html | None:
    lines = [Series(name, series(rows, key), key in chart.exact) for key, name in chart.lines]
    return line_chart(chart.title, lines, chart.percent) if any(line.points for line in lines) else None
