"""Where the time of a run went: one stacked bar and the table of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serl.view.html import Html, join, tag
from serl.view.rundata import is_finite

PHASES = ("prepare", "rollout", "sql", "teacher", "diagnose", "score", "update")


def phase_seconds(metrics: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Total seconds of each phase of the steps, and `other`: the steps' time that no phase claims.

    Phases without any time are left out. Steps count as long as their phases when `time/step` is missing.
    """
    totals = {phase: _total(metrics, f"time/{phase}") for phase in PHASES}
    totals["other"] = max(0.0, _total(metrics, "time/step") - sum(totals.values()))
    return {phase: seconds for phase, seconds in totals.items() if seconds > 0}


def timing_section(metrics: Sequence[dict[str, Any]]) -> Html:
    """The bar and its table; a sentence when no step recorded times."""
    totals = phase_seconds(metrics)
    if not totals:
        return tag("p", "No step recorded its times.", cls="note")
    whole = sum(totals.values())
    colours = {phase: f"c{number}" for number, phase in enumerate([*PHASES, "other"], 1)}
    bar = [
        tag(
            "div",
            tag("span", phase) if seconds / whole > 0.06 else None,
            cls=f"part {colours[phase]}",
            style=f"flex-grow:{seconds / whole:.4f}",
            title=f"{phase}: {seconds:.1f} s, {seconds / whole:.1%}",
        )
        for phase, seconds in totals.items()
    ]
    rows = [
        tag(
            "tr",
            tag("th", tag("i", cls=f"swatch {colours[phase]}"), phase, scope="row"),
            *_cells(seconds, len(metrics), whole),
        )
        for phase, seconds in totals.items()
    ]
    total = tag("th", "all steps", scope="row")
    rows.append(tag("tr", total, *_cells(whole, len(metrics), whole), cls="total"))
    head = tag("tr", *(tag("th", name, scope="col") for name in ("phase", "total", "a step", "share")))
    label = ", ".join(f"{phase} {seconds / whole:.0%}" for phase, seconds in totals.items())
    return join(
        [
            tag("div", *bar, cls="stack", role="img", aria_label=f"Time by phase: {label}"),
            tag("table", tag("thead", head), tag("tbody", *rows), cls="numbers"),
        ]
    )


def duration(seconds: float) -> str:
    """`8.4 s`, `3 min 20 s` or `2 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _cells(seconds: float, steps: int, whole: float) -> list[Html]:
    texts = (duration(seconds), f"{seconds / steps:.2f} s", f"{seconds / whole:.1%}")
    return [tag("td", text) for text in texts]


def _total(metrics: Sequence[dict[str, Any]], key: str) -> float:
    return sum(row[key] for row in metrics if is_finite(row.get(key)))
