"""Sampled tokens coloured by their weight ω, with the numbers behind each on hover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serl.view.html import Html, join, tag
from serl.view.rundata import is_finite

SHADES = 5
"""Steps of colour on each side of ω = 1."""


def weight_reach(trajectories: Sequence[Mapping[str, Any]]) -> float:
    """The largest |ω − 1| of all tokens: what the strongest colour stands for. 0 when ω is 1 everywhere."""
    return max((abs(weight - 1) for row in trajectories for weight in row["weights"]), default=0.0)


def shade(weight: float, reach: float) -> str:
    """CSS class of a weight: `up1`…`up5` for ω > 1, `down1`…`down5` for ω < 1, empty at ω = 1.

    >>> shade(1.2, 0.2), shade(0.96, 0.2), shade(1.0, 0.2)
    ('up5', 'down1', '')
    """
    if weight == 1 or reach <= 0:
        return ""
    strength = min(SHADES, max(1, round(SHADES * abs(weight - 1) / reach)))
    return f"{'up' if weight > 1 else 'down'}{strength}"


def token_view(row: Mapping[str, Any], start: int, end: int, reach: float) -> Html:
    """Tokens [start, end) of a trajectory. Tokens that carry no token credit (tags, thinking) are dimmed."""
    spans = []
    for index in range(start, end):
        acts = row["action_mask"][index]
        classes = " ".join(filter(None, (shade(row["weights"][index], reach), "" if acts else "aside")))
        spans.append(tag("span", row["tokens"][index], title=_hover(row, index), cls=classes or None))
    return tag("pre", *spans, cls="tokens")


def weight_legend(reach: float) -> Html:
    """What the colours mean, in words and as a scale."""
    if reach == 0:
        return tag("p", "Every weight ω is 1 here: hindsight changed no token's credit.", cls="note")
    down = [tag("span", " ", cls=f"down{level}") for level in range(SHADES, 0, -1)]
    up = [tag("span", " ", cls=f"up{level}") for level in range(1, SHADES + 1)]
    scale = tag("span", *down, tag("span", " "), *up, cls="tokens scale", aria_hidden="true")
    return tag(
        "p",
        f"Token weight ω: {1 - reach:.3f} ",
        scale,
        f" {1 + reach:.3f}. ",
        tag("span", "Solid underline", cls="up3"),
        ": more of the advantage's credit; ",
        tag("span", "dotted", cls="down3"),
        ": less. Grey tokens (tags, thinking) always keep ω = 1. Hover over a token for its numbers.",
        cls="note",
    )


def _hover(row: Mapping[str, Any], index: int) -> str:
    """`ω 1.083 · student −0.52 · teacher −0.11 · Δ +0.41`, whatever of it was recorded."""
    student, teacher = row["student_logprobs"][index], row["teacher_logprobs"][index]
    parts = [f"ω {row['weights'][index]:.3f}"]
    logprobs = (("student", student), ("teacher", teacher))
    parts += [f"{name} {value:.3f}" for name, value in logprobs if is_finite(value)]
    if is_finite(student) and is_finite(teacher):
        parts.append(f"Δ {teacher - student:+.3f}")
    return " · ".join(parts)


def joined(row: Mapping[str, Any], start: int, end: int) -> Html:
    """Tokens [start, end) as plain text."""
    return join(["".join(row["tokens"][start:end])])
