"""What hindsight did to the tokens' credit: Δ and ω by group, early against late, and Δ beside its controls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from serl.view.html import Html, join, tag
from serl.view.lines import Series, line_chart
from serl.view.rundata import is_finite, series

WINDOW = 10
"""Steps at either end of the run that the table holds against each other; half the steps of a short run."""

MINUS = "−"

AXES = {
    "sign": "All tokens of the mask, by the sign of the advantage A",
    "status": "Outcome of the turn's SQL",
    "turn": "Turn",
    "kind": "Kind of token",
    "shown": "Does the token stand in the hindsight text?",
    "doubt": "Did the student give it a probability below 0.9?",
}
COLUMNS = tuple((value, sign) for value in ("gap", "weight") for sign in ("pos", "neg"))

MEANING = (
    "Δ is a token's evidence in nats (by default the teacher's log-prob less the student's), ω the factor made from "
    "it: means over the tokens that hindsight may re-weight. Where hindsight tells right tokens from wrong ones, Δ is "
    "higher with A > 0 than with A < 0. Where it is as high for both, or high only for tokens that stand in the "
    "hindsight text, the teacher may only copy. ω above 1 gives a token more of the advantage, good or bad."
)
CONTROLS = (
    "A gap is evidence only if it beats its controls: a real line that runs on its controls' says that Δ comes from "
    "the hindsight's frame or from an old teacher, not from what the database answered. The noise floor is what the "
    "empty frame does to the student's own log-probs. The AUC asks whether Δ is higher at tokens of trajectories with "
    "A > 0 than with A < 0: ½ is chance."
)


def hindsight_section(metrics: Sequence[dict[str, Any]]) -> Html:
    """The table and the charts; a sentence when no step measured a gap."""
    rows = [row for row in metrics if is_finite(row.get("gap/sign_pos")) or is_finite(row.get("gap/sign_neg"))]
    if not rows:
        return tag("p", "No step measured a gap between teacher and student.", cls="note")
    window = min(WINDOW, max(1, len(rows) // 2))
    charts = [chart for chart in _charts(rows) if chart is not None]
    return join(
        [
            tag("p", MEANING, cls="note"),
            _table(rows, window),
            tag("p", CONTROLS, cls="note"),
            tag("div", *charts, cls="charts"),
        ]
    )


def _table(rows: Sequence[dict[str, Any]], window: int) -> Html:
    """A block an axis, a row a group; Δ and ω for both signs of A, at the first and the last steps."""
    titles = [tag("th", _title(*column), scope="colgroup", colspan=2) for column in COLUMNS]
    names = ["tokens", *("first", "last") * len(COLUMNS)]
    under = [tag("th", name, scope="col") for name in names]
    head = tag("thead", tag("tr", tag("th"), tag("th"), *titles), tag("tr", tag("th"), *under))
    bodies = [tag("tbody", tag("tr", tag("th", title, scope="rowgroup", colspan=len(names) + 1), cls="block"),
                  *_lines(rows, window, axis)) for axis, title in AXES.items()]
    early, late = (_mean(part, "hindsight/lambda") for part in (rows[:window], rows[-window:]))
    strength = "" if early is None or late is None else f" λ was {early:.3g} at the first and {late:.3g} at the last."
    caption = (f"First and last {window} of the {len(rows)} steps with hindsight.{strength} “tokens” is the group's "
               "share of all sampled tokens with A ≠ 0.")
    return join([tag("div", tag("table", head, *bodies, cls="numbers evaluation"), cls="scroll", tabindex=0),
                 tag("p", caption, cls="note")])


def _lines(rows: Sequence[dict[str, Any]], window: int, axis: str) -> list[Html]:
    """The rows of one axis: a group each."""
    if axis == "sign":  # its groups are the columns
        return [_line(rows, window, "all", "hindsight/coverage", "sign_")]
    return [_line(rows, window, group.replace("_", " "), f"coverage/{axis}_{group}", f"{axis}_{group}_")
            for group in _groups(rows, axis)]


def _line(rows: Sequence[dict[str, Any]], window: int, name: str, share: str, group: str) -> Html:
    cells = [tag("td", f"{fmean(row[share] if is_finite(row.get(share)) else 0.0 for row in rows):.1%}")]
    for value, sign in COLUMNS:
        for part in (rows[:window], rows[-window:]):
            mean = _mean(part, f"{value}/{group}{sign}")
            cells.append(tag("td", "–" if mean is None else _number(mean, value)))
    return tag("tr", tag("th", name, scope="row"), *cells)


def _title(value: str, sign: str) -> str:
    return f"{'Δ' if value == 'gap' else 'ω'}, A {'>' if sign == 'pos' else '<'} 0"


def _number(value: float, kind: str) -> str:
    """Δ with its sign, ω without.

    >>> _number(-0.0123, "gap"), _number(1.01, "weight")
    ('−0.012', '1.0100')
    """
    return f"{value:.4f}" if kind == "weight" else f"{value:+.3f}".replace("-", MINUS)


def _mean(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    values = [row[key] for row in rows if is_finite(row.get(key))]
    return fmean(values) if values else None


def _groups(rows: Sequence[dict[str, Any]], axis: str) -> list[str]:
    """The axis's groups that any step has, in the order in which they first come."""
    found = dict.fromkeys(key for row in rows for key in row if key.startswith(f"coverage/{axis}_"))
    return [key.removeprefix(f"coverage/{axis}_") for key in found]


def _controls(rows: Sequence[dict[str, Any]], what: str) -> list[tuple[str, str]]:
    """(key, name) of a metric of every control, the real gap first."""
    pattern = re.compile(f"control/(.+)_{what}")
    names = dict.fromkeys(found[1] for row in rows for key in row if (found := pattern.fullmatch(key)))
    return [(f"control/{name}_{what}", name) for name in sorted(names, key=lambda name: name != "real")]


def _charts(rows: list[dict[str, Any]]) -> list[Html | None]:
    kinds = [(f"gap/kind_{group}", group) for group in _groups(rows, "kind")]
    shown = [(f"gap/shown_{answer}_{sign}", f"{name}, A {'>' if sign == 'pos' else '<'} 0")
             for answer, name in (("yes", "shown"), ("no", "not shown")) for sign in ("pos", "neg")]
    bounds = [(f"hindsight/clip_{side}_{sign}", f"{side}, A {'>' if sign == 'pos' else '<'} 0")
              for side in ("low", "high") for sign in ("pos", "neg")]
    floor = [("noise/gap_abs_mean", "noise floor")]
    return [
        _chart("Mean Δ by kind of token (nats)", rows, kinds),
        _chart("Mean Δ of tokens in the hindsight text, and of others (nats)", rows, shown),
        _chart("Mean |Δ| beside its controls (nats)", rows, _controls(rows, "gap_abs_mean") + floor, exact=True),
        _chart("AUC of Δ for the sign of A", rows, _controls(rows, "sign_auc"), exact=True),
        _chart("Tokens at a bound of the map", rows, bounds, percent=True),
    ]


def _chart(title: str, rows: list[dict[str, Any]], lines: list[tuple[str, str]], percent: bool = False,
           exact: bool = False) -> Html | None:
    drawn = [line for line in (Series(name, series(rows, key), exact) for key, name in lines) if line.points]
    return line_chart(title, drawn, percent) if drawn else None
