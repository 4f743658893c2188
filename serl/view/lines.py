"""A line chart as inline SVG: no script, no fonts, colours from the page's CSS variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from serl.view.html import Html, join, tag

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 34
Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One named line. An `exact` one has no noise to average away: a schedule, or an evaluation."""

    name: str
    points: Sequence[Point]
    exact: bool = False


def line_chart(title: str, lines: Sequence[Series], percent: bool = False) -> Html:
    """A figure with one chart: values over steps, axes with round ticks, a legend for several lines.

    Long noisy series are drawn faintly with their moving average over them.
    """
    lines = [line for line in lines if line.points]
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    scale = _Scale(min(xs), max(xs), ticks(min(ys), max(ys)))
    drawn = [_draw(line, f"c{number}", scale, percent) for number, line in enumerate(lines, 1)]
    in_words = "; ".join(_in_words(line, percent) for line in lines)
    svg = tag(
        "svg",
        _grid(scale, percent),
        *drawn,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title} over training steps: {in_words}",
    )
    several = legend([line.name for line in lines]) if len(lines) > 1 else None
    caption = tag("figcaption", tag("b", title), several)
    return tag("figure", caption, svg, cls="chart")


def legend(names: Sequence[str]) -> Html:
    """A colour key for series 1, 2, …: a swatch and a name each."""
    swatches = [tag("i", cls=f"swatch c{number}") for number in range(1, len(names) + 1)]
    keys = [tag("span", swatch, name, cls="key") for swatch, name in zip(swatches, names, strict=True)]
    return tag("span", *keys, cls="legend")


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About `count` round values that cover [low, high], at least two.

    >>> ticks(0.0, 0.93)
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if high - low < 1e-9 * max(1.0, abs(low)):  # one value: a flat line belongs in the middle
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def smooth(points: Sequence[Point], window: int) -> list[Point]:
    """Moving average of the values over a centred window, cut short at both ends.

    >>> smooth([(1, 0.0), (2, 3.0), (3, 6.0)], window=3)
    [(1, 1.5), (2, 3.0), (3, 4.5)]
    """
    half = window // 2
    near = [[y for _, y in points[max(0, i - half) : i + half + 1]] for i in range(len(points))]
    return [(x, sum(values) / len(values)) for (x, _), values in zip(points, near, strict=True)]


def number_text(value: float, percent: bool = False) -> str:
    """A short number for hovers and descriptions."""
    return f"{100 * value:.3g}%" if percent else f"{value:.4g}"


def tick_text(value: float, step: float, percent: bool = False) -> str:
    """A tick's value with just the digits that tell it from its neighbours, `step` away.

    >>> tick_text(0.995, 0.005), tick_text(4200.0, 200.0), tick_text(0.25, 0.25, percent=True)
    ('0.995', '4,200', '25%')
    """
    if percent:
        value, step = 100 * value, 100 * step
    decimals = next((digits for digits in range(5) if abs(step - round(step, digits)) < step * 1e-6), None)
    text = f"{value:.2g}" if decimals is None else f"{value:,.{decimals}f}"
    return f"{text}%" if percent else text


class _Scale:
    """Data to picture coordinates."""

    def __init__(self, x_low: float, x_high: float, y_ticks: list[float]) -> None:
        self.x_low, self.x_high = x_low, (x_high if x_high > x_low else x_low + 1)
        self.y_ticks = y_ticks

    def x(self, value: float) -> float:
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _grid(scale: _Scale, percent: bool) -> Html:
    """Horizontal grid lines with their values, and the steps below."""
    parts = []
    step = scale.y_ticks[1] - scale.y_ticks[0]
    for value in scale.y_ticks:
        y = f"{scale.y(value):.1f}"
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, cls="grid"))
        parts.append(tag("text", tick_text(value, step, percent), x=LEFT - 6, y=y, dy="0.35em", cls="y-tick"))
    for value in ticks(scale.x_low, scale.x_high):
        if scale.x_low <= value <= scale.x_high and value == int(value):
            x = f"{scale.x(value):.1f}"
            parts.append(tag("text", int(value), x=x, y=HEIGHT - BOTTOM + 15, cls="x-tick"))
    parts.append(tag("text", "step", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 4, cls="x-tick"))
    return join(parts)


def _draw(line: Series, colour: str, scale: _Scale, percent: bool) -> Html:
    """One series: its line, faint below its moving average when long, and points to hover over when few."""
    averaged = len(line.points) >= 30 and not line.exact
    parts = []
    if averaged:
        parts.append(_path(line.points, f"line faint {colour}", scale))
    trend = smooth(line.points, len(line.points) // 10) if averaged else line.points
    parts.append(_path(trend, f"line {colour}", scale))
    for x, y in line.points if len(line.points) <= 60 else ():
        hover = tag("title", f"{line.name}, step {x:g}: {number_text(y, percent)}")
        centre = {"cx": f"{scale.x(x):.1f}", "cy": f"{scale.y(y):.1f}"}
        radius = 4 if len(line.points) <= 20 else 2
        parts.append(tag("circle", hover, **centre, r=radius, cls=f"dot {colour}"))
    return join(parts)


def _in_words(line: Series, percent: bool) -> str:
    first, last = (number_text(line.points[index][1], percent) for index in (0, -1))
    return f"{line.name} from {first} to {last}"


def _path(points: Sequence[Point], cls: str, scale: _Scale) -> Html:
    return tag("polyline", points=" ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in points), cls=cls)
